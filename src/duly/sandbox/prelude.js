// What stands in a fresh context before a script does: its clock, its dice, its console, `Keep`.
//
// Law 1  No function of the host is in here. What a script asks is written into an outbox, as JSON
//        text and at the moment of the call; the worker takes it when the script stands still.
// Law 2  What the bridge needs is held before the script can change it: nothing below looks a
//        method up on a prototype once the script runs.
// Law 3  Once something broke the step, nothing later is seen: no call, no log, no result.
//
// The value of this file is the worker's only way in; the script cannot reach it.
(() => {
  "use strict";

  // -- Held for later --------------------------------------------------------------------------

  const { parse, stringify } = JSON;
  const { toPrimitive } = Symbol;
  const { defineProperty, freeze, getPrototypeOf, hasOwn, keys } = Object;
  const { isArray } = Array;
  const { isFinite, isInteger, isSafeInteger } = Number;
  const { abs, trunc } = Math;
  const { construct, apply } = Reflect;
  const held = Function.prototype.bind.bind(Function.prototype.call);
  const isWellFormed = held(String.prototype.isWellFormed);
  const toWellFormed = held(String.prototype.toWellFormed);
  const slice = held(String.prototype.slice);
  const toISOString = held(Date.prototype.toISOString);
  const dateToString = held(Date.prototype.toString);
  const machineClock = performance.now.bind(performance);
  const RealDate = Date;
  const RealError = Error;
  const RealPromise = Promise;
  const RealProxy = Proxy;
  const RealString = String;
  const objectPrototype = Object.prototype;
  const datePrototype = Date.prototype;

  // -- What one step is ------------------------------------------------------------------------

  let limits = { depth: 100, output_chars: 0, log_lines: 0, log_chars: 0 };
  let world = { now_ms: 0, frozen: true, dice: [1, 2, 3, 4] };
  let definition;
  let definitions = 0;
  let isLoaded = false;
  let isStepping = false;
  let broken = null; // the text of what broke the step
  let ended = null; // the text of what it returned
  let outbox = "";
  const logs = { __proto__: null }; // by number: what was said, and after which call
  let firstLog = 1;
  let lastLog = 0;
  let logLines = 0;
  let logLinesLeftOut = 0;
  let lastCall = 0;
  let firstWaiting = 1;
  let waiting = 0;
  const answers = { __proto__: null };
  let spentMs = 0; // by the script itself; waiting for an answer does not count (X2)
  let resumedAt = 0;
  let roomChars = 0;

  const elapsedMs = () => trunc(spentMs + machineClock() - resumedAt);

  const breakWith = (name, message, stack) => {
    if (broken !== null) return;
    broken = `{"error":{"name":${short(name)},"message":${short(message)},"stack":${short(stack)}}}`;
  };
  const short = (text) => stringify(toWellFormed(slice(typeof text === "string" ? text : "", 0, 4000)));
  const here = () => new RealError().stack;
  let askedFrom = ""; // where the script stands whose values are being written

  // -- Strict JSON (T8) ------------------------------------------------------------------------
  // JSON.stringify leaves functions out and writes NaN as null; here both are refused, by path.

  const NOT_JSON = freeze({ __proto__: null });
  const IDENTIFIER = /^[A-Za-z_$][A-Za-z0-9_$]{0,39}$/;
  const isIdentifier = ((test) => (text) => apply(test, IDENTIFIER, [text]))(RegExp.prototype.test);

  const pathOf = (where) => {
    if (where.up === null) return where.key;
    const key = where.key;
    if (typeof key === "number") return `${pathOf(where.up)}[${key}]`;
    return isIdentifier(key) ? `${pathOf(where.up)}.${key}` : `${pathOf(where.up)}[${stringify(slice(key, 0, 40))}]`;
  };
  const refuse = (where, what) => {
    breakWith("", `${pathOf(where)} ${what}`, askedFrom);
    throw NOT_JSON;
  };
  const below = (where, key, holder) => ({ up: where, key, holder, depth: where.depth + 1, hasMarks: where.hasMarks });
  const root = (key, hasMarks) => ({ up: null, key, holder: null, depth: 0, hasMarks });

  const spend = (text, where) => {
    roomChars -= text.length + 1;
    if (roomChars < 0) refuse(where, `is too much: a step asks and returns at most ${limits.output_chars} bytes in all.`);
    return text;
  };
  const writeText = (text, where) => {
    if (!isWellFormed(text)) refuse(where, "has half a character. Send whole characters.");
    return spend(stringify(text), where);
  };
  const write = (value, where) => {
    switch (typeof value) {
      case "string":
        // In a declaration a word must not pass for a function.
        return writeText(where.hasMarks && value === "function" ? '"function"' : value, where);
      case "number":
        if (!isFinite(value)) refuse(where, `is ${value}, which JSON does not know. Send null or a string.`);
        // From here on JavaScript writes an exponent, and then it is no integer to anybody.
        if (isInteger(value) && !isSafeInteger(value) && abs(value) < 1e21) {
          refuse(where, "is an integer beyond ±(2^53 - 1). Send it as a string.");
        }
        return spend(stringify(value), where);
      case "boolean":
        return spend(value ? "true" : "false", where);
      case "object":
        return value === null ? spend("null", where) : writeHolder(value, where);
      case "function":
        if (where.hasMarks) return spend('"function"', where);
    }
    return refuse(where, `is ${typeof value === "undefined" ? "undefined" : `a ${typeof value}`}. Use an object, array, string, number, boolean or null.`);
  };
  const writeHolder = (value, where) => {
    for (let around = where; around !== null; around = around.up) {
      if (around.holder === value) refuse(where, "contains itself. Remove the cycle.");
    }
    if (where.depth >= limits.depth) refuse(where, `is nested deeper than ${limits.depth}. Make it flatter.`);
    if (isArray(value)) return writeArray(value, where);
    const prototype = getPrototypeOf(value);
    if (prototype === datePrototype) return writeText(toISOString(value), where);
    if (prototype !== objectPrototype && prototype !== null) {
      refuse(where, "is not a plain object. Use an object, array, string, number, boolean or null.");
    }
    return writeObject(value, where);
  };
  const writeArray = (value, where) => {
    spend("[]", where);
    let text = "";
    for (let at = 0; at < value.length; at++) {
      text += (at === 0 ? "" : ",") + write(value[at], below(where, at, value));
    }
    return `[${text}]`;
  };
  const writeObject = (value, where) => {
    spend("{}", where);
    const names = keys(value);
    let text = "";
    for (let at = 0; at < names.length; at++) {
      const inner = value[names[at]];
      if (inner === undefined) continue; // what is undefined is left out, as everywhere in JavaScript
      const place = below(where, names[at], value);
      text += (text === "" ? "" : ",") + writeText(names[at], place) + ":" + write(inner, place);
    }
    return `{${text}}`;
  };

  // -- Asking ----------------------------------------------------------------------------------

  const never = () => new RealPromise(() => {});
  const ask = (path, args) => {
    const stack = here();
    askedFrom = stack;
    let count = args.length;
    while (count > 0 && args[count - 1] === undefined) count--;
    let text = "";
    try {
      for (let at = 0; at < count; at++) {
        // A call takes one object; its fields are named after the call.
        const place = count === 1 ? root(path, false) : below(root(path, false), at, args);
        text += (at === 0 ? "" : ",") + write(args[at], place);
      }
    } catch (error) {
      if (error !== NOT_JSON) throw error;
      return never();
    }
    if (broken !== null) return never();
    if (!isStepping) {
      breakWith("", `${path} is called before a step began. Call tools inside a handler.`, stack);
      return never();
    }
    lastCall++;
    waiting++;
    outbox += `${outbox === "" ? "" : ","}{"id":${lastCall},"path":${short(path)},"args":[${text}],"stack":${short(stack)}}`;
    const id = lastCall;
    return new RealPromise((resolve) => { answers[id] = resolve; });
  };

  const fixed = () => { throw new TypeError("ctx cannot be changed"); };
  const toolbox = (path) => new RealProxy(function () {}, {
    get(_, name) {
      // Written as text it says what it is, instead of calling tools named toString and valueOf.
      if (name === toPrimitive) return () => `[ctx${path === "" ? "" : `.${path}`}]`;
      // An object with a method `then` would be awaited as if it were a promise.
      if (typeof name === "symbol" || name === "then" || name === "toJSON") return undefined;
      return toolbox(path === "" ? name : slice(`${path}.${name}`, 0, 200));
    },
    apply(_, self, args) {
      if (path === "") throw new TypeError("ctx is not a function");
      return ask(path, args);
    },
    construct: fixed, set: fixed, defineProperty: fixed, deleteProperty: fixed, setPrototypeOf: fixed,
    getPrototypeOf: () => null,
    ownKeys: () => ["prototype"],
  });

  // -- What the script sees --------------------------------------------------------------------

  const show = (value) => {
    try {
      if (typeof value === "string") return value;
      if (value instanceof RealError) return `${value.name}: ${value.message}`;
      const text = typeof value === "object" ? stringify(value) : undefined;
      return text === undefined ? RealString(value) : text;
    } catch {
      return "[cannot be shown]";
    }
  };
  const addLog = (said) => {
    const text = stringify(toWellFormed(slice(said, 0, limits.log_chars)));
    logs[++lastLog] = { after: lastCall, text: `{"after_ms":${elapsedMs()},"text":${text}}` };
  };
  // What was said after a call is heard when that call was answered: if the call is a mutation,
  // it is the last thing anybody sees of this step (C8).
  const takeLogs = (isEnd) => {
    while (firstWaiting <= lastCall && !(firstWaiting in answers)) firstWaiting++;
    let text = "";
    while (firstLog <= lastLog && (isEnd || logs[firstLog].after < firstWaiting)) {
      text += (text === "" ? "" : ",") + logs[firstLog].text;
      delete logs[firstLog++];
    }
    return text;
  };
  const log = (...values) => {
    if (logLines >= limits.log_lines) {
      if (broken === null) logLinesLeftOut++;
      return;
    }
    let text = "";
    for (let at = 0; at < values.length; at++) text += (at === 0 ? "" : " ") + show(values[at]);
    if (broken !== null) return; // also if showing a value broke the step just now
    logLines++;
    addLog(text);
  };

  const workflow = (declared) => {
    definitions++;
    definition = declared;
    return declared;
  };
  const consumer = (declared) => declared;

  const nowMs = () => world.now_ms + (world.frozen ? 0 : elapsedMs());
  function WorldDate(...parts) {
    if (new.target === undefined) return dateToString(new RealDate(nowMs()));
    return construct(RealDate, parts.length === 0 ? [nowMs()] : parts, new.target);
  }

  // A small fast counter (sfc32): four words of state, good enough for dice nobody bets against.
  let a, b, c, d;
  const word = () => {
    const sum = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum | 0;
    return sum >>> 0;
  };
  const random = () => ((word() >>> 5) * 67108864 + (word() >>> 6)) / 9007199254740992;

  const put = (holder, name, value) => defineProperty(holder, name, { value, writable: true, enumerable: false, configurable: true });
  const fix = (holder, name, value) => defineProperty(holder, name, { value, writable: false, enumerable: false, configurable: false });
  fix(globalThis, "Keep", freeze({ workflow, consumer }));
  fix(globalThis, "Duly", globalThis.Keep);
  put(globalThis, "console", freeze({ log, info: log, warn: log, error: log, debug: log }));
  fix(WorldDate, "prototype", RealDate.prototype);
  put(WorldDate, "name", "Date");
  put(WorldDate, "length", 7);
  put(WorldDate, "now", () => nowMs());
  put(WorldDate, "parse", RealDate.parse);
  put(WorldDate, "UTC", RealDate.UTC);
  put(RealDate.prototype, "constructor", WorldDate);
  put(globalThis, "Date", WorldDate);
  put(Math, "random", random);
  // Other clocks, and what depends on when garbage is collected (law 5 of the contract).
  for (const name of ["performance", "SharedArrayBuffer", "Atomics", "WeakRef", "FinalizationRegistry"]) {
    delete globalThis[name];
  }

  // -- The worker's way in ---------------------------------------------------------------------

  const fail = (error) => {
    try {
      if (error === NOT_JSON) return;
      if (error instanceof RealError) return breakWith(`${error.name}`, `${error.message}`, error.stack);
      breakWith("", `The script threw ${show(error)}.`, "");
    } catch {
      breakWith("", "The script threw something that cannot be shown.", "");
    }
  };
  const declaration = () => {
    try {
      const text = definitions === 1 ? write(definition, root("workflow", true)) : "null";
      ended = `{"value":{"count":${definitions},"workflow":${text}}}`;
    } catch (error) {
      fail(error);
    }
  };
  const own = (holder, name) => (typeof holder === "object" && holder !== null && hasOwn(holder, name) ? holder[name] : undefined);

  return {
    begin(text) {
      const settings = parse(text);
      limits = settings.limits;
      world = settings.world;
      [a, b, c, d] = world.dice;
      for (let round = 0; round < 12; round++) word();
      roomChars = limits.output_chars;
      resumedAt = machineClock();
    },
    async watch(loading) {
      try {
        await loading;
        isLoaded = true;
      } catch (error) {
        fail(error);
      }
    },
    declare() {
      if (isLoaded && broken === null) declaration();
    },
    async start(text) {
      if (!isLoaded || broken !== null) return;
      const { handler, step, args } = parse(text);
      const given = [toolbox("")];
      for (let at = 0; at < args.length; at++) put(given, at + 1, args[at].value);
      try {
        const owner = own(own(definition, step === "produce" ? "producers" : "consumers"), handler);
        const run = typeof owner === "function" ? owner : own(owner, step === "produce" ? "handler" : step);
        if (typeof run !== "function") return breakWith("", `The handler ${handler} has no step ${step}.`, "");
        isStepping = true;
        const value = await apply(run, owner, given);
        askedFrom = "";
        if (broken === null) ended = value === undefined ? '{"missing":true}' : `{"value":${write(value, root("result", false))}}`;
      } catch (error) {
        fail(error);
      }
    },
    answer(id, text, names) {
      resumedAt = machineClock();
      const resolve = answers[id];
      delete answers[id];
      waiting--;
      if (broken !== null) return;
      const value = parse(text);
      if (names !== "") {
        const extras = parse(names);
        const listed = keys(extras);
        for (let at = 0; at < listed.length; at++) put(value, listed[at], extras[listed[at]]);
      }
      resolve(value);
    },
    fail(name, message, stack) {
      breakWith(name, message, stack);
    },
    take() {
      let end = "null";
      if (outbox === "") {
        if (broken !== null) end = broken;
        else if (waiting === 0) end = ended ?? '{"stalled":true}';
      }
      if (end !== "null" && logLinesLeftOut > 0) addLog(`${logLinesLeftOut} more lines were left out.`);
      const text = `{"calls":[${outbox}],"logs":[${takeLogs(end !== "null")}],"end":${end}}`;
      outbox = "";
      spentMs += machineClock() - resumedAt;
      return slice(text, 0); // in one piece: the binding cannot read a string that is still in parts
    },
  };
})()
