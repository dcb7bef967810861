// What stands in a fresh context before a script does: `Keep`, and the bridge `ctx` talks through.
//
// Law 1  No function of the host is in here. What a script asks is written into an outbox, as JSON
//        text and at the moment of the call; the worker takes it when the script stands still.
// Law 2  What the bridge needs is held before the script can change it: nothing here or in late.js
//        looks a method up on a prototype once the script runs, and an object of the bridge that
//        the interpreter looks something up on (traps, descriptors) has no prototype. Texts are
//        put together with +: of a template this interpreter makes a call of String's `concat`.
// Law 3  Once something broke the step, nothing later is seen: no call, no log, no result.
// Law 4  No way leads from the script to a function or a value of the bridge (X1). What would show
//        it one is taken away before it loads: `Error.prepareStackTrace` hands out the functions of
//        a stack. What the interpreter calls on the bridge's behalf gets the script's own values.
// Law 5  A call is entered in one go: what can throw for want of stack or memory is done before.
//
// What many steps do without stands in late.js, which the worker puts in the place of LATE_PARTS: the
// log, the clock, the dice, the declaration, and the words for what is no JSON. It is compiled with
// this file, and run when it is first needed. The value of this file is the worker's only way in;
// the script cannot reach it.
//
// The interpreter reads what stands in brackets twice before it knows what it is: hence functions
// by name, short literals, and no brackets around it all.
void 0, function () {
  "use strict";

  // -- Held for later --------------------------------------------------------------------------

  const { parse, stringify } = JSON;
  const { isRawJSON } = JSON;
  const { defineProperty, freeze, getOwnPropertyDescriptor, getPrototypeOf, hasOwn, keys, prototype: objectPrototype } = Object;
  const { isArray } = Array;
  const { apply, construct } = Reflect;
  const { prototype: text } = String;
  const hold = Function.prototype.bind.bind(Function.prototype.call);
  const isWellFormed = hold(text.isWellFormed);
  const slice = hold(text.slice);
  const machineClock = performance.now.bind(performance);
  const RealError = Error;
  const RealTypeError = TypeError;
  const RealPromise = Promise;
  const RealProxy = Proxy;
  const { toPrimitive } = Symbol;
  const { prototype: dates } = Date;
  // Where an error came from is asked of the interpreter, not of a property the script can replace.
  const stackOf = hold(getOwnPropertyDescriptor(Error.prototype, "stack").get);
  const held = {
    __proto__: null, Date, Error, String, apply, construct, defineProperty, dates, freeze, getPrototypeOf, isArray, isRawJSON,
    isWellFormed, keys, objectPrototype, slice, stackOf, stringify, charCodeAt: hold(text.charCodeAt), indexOf: hold(text.indexOf), toWellFormed: hold(text.toWellFormed),
    toISOString: hold(dates.toISOString), dateToString: hold(dates.toString), parseDate: Date.parse, utc: Date.UTC,
  };

  // -- What one step is ------------------------------------------------------------------------

  const step = { __proto__: null, limits: null, world: null, broken: null, lastCall: 0, room: 0, definition: undefined, definitions: 0 };
  const answers = { __proto__: null };
  let isLoaded = false;
  let isStepping = false;
  let ended = null; // the text of what it returned
  let outbox = "";
  let toolCalls = 0;
  let ownCalls = 0;
  let waiting = 0;
  let spentMs = 0; // by the script itself; waiting for an answer does not count (X2)
  let resumedAt = 0;
  let loading; // the promise of the script's module
  let lateParts = null;

  const makeLate = LATE_PARTS;
  const late = () => lateParts ??= makeLate(held, step, answers, breakWith, elapsedMs);
  const elapsedMs = () => spentMs + machineClock() - resumedAt;
  const short = (words) => stringify(held.toWellFormed(slice(typeof words === "string" ? words : "", 0, 4000)));
  const breakWith = (name, message, stack) => {
    step.broken ??= '{"error":{"name":' + short(name) + ',"message":' + short(message) + ',"stack":' + short(stack) + "}}";
  };

  // -- Strict JSON (T8) ------------------------------------------------------------------------
  // JSON.stringify leaves functions out and writes NaN as null; here both are refused. What does not
  // pass here is written again in late.js, slowly, which says where it is no JSON and why.

  const NOT_JSON = freeze({ __proto__: null });
  let around; // the holders of what is being written, by their depth
  let depth = 0;
  let valuesLeft = 0;
  const isHolder = (value) => {
    if (++depth > step.limits.depth) return false;
    around[depth] = value;
    if (isArray(value)) return true;
    const prototype = getPrototypeOf(value);
    return prototype === objectPrototype || (prototype === null && !isRawJSON(value));
  };
  const isNumber = (size) => size <= 9007199254740991 || (size >= 1e21 && size < Infinity);
  const strict = function (key, value) {
    while (depth > 0 && around[depth] !== this) depth--;
    let isJson;
    switch (typeof value) {
      case "string": isJson = isWellFormed(value); break;
      case "number": isJson = isNumber(value < 0 ? -value : value); break;
      case "boolean": isJson = true; break;
      case "undefined": isJson = !isArray(this); break; // it is left out, as everywhere in JavaScript
      case "object": isJson = value === null ? this[key] === null : isHolder(value);
    }
    if (!isJson || --valuesLeft < 0 || !isWellFormed(key)) throw NOT_JSON;
    return value;
  };
  const write = (value, path, stack) => {
    around = { __proto__: null };
    depth = 0;
    valuesLeft = step.room;
    try {
      const written = stringify(value, strict);
      // A text in a box that has no prototype passes unseen; half a character is written as \\ud….
      if (written !== undefined && written.length < step.room && held.indexOf(written, "\\ud") < 0) {
        step.room -= written.length + 1;
        return written;
      }
    } catch {
      // The same error is met again below.
    }
    const written = late().write(value, path, stack);
    if (step.broken !== null) throw NOT_JSON;
    return written;
  };

  // -- Asking ----------------------------------------------------------------------------------

  // Calls that the script does not await would pile up in the host; the host refuses the last tool call.
  const isOneTooMany = (path) => {
    const isOwn = path === "publish" || path === "peek" || path === "getByIds" || path === "get_by_ids";
    return isOwn ? ++ownCalls > step.limits.own_calls : ++toolCalls > step.limits.calls;
  };
  const ask = (path, args) => {
    const stack = stackOf(new RealError());
    if (isOneTooMany(path)) {
      // A script that catches this goes on unseen; but most loops end here.
      breakWith("", "The step made more than " + step.limits.own_calls + " publishes and looks.", stack);
      throw NOT_JSON;
    }
    let count = args.length;
    while (count > 0 && args[count - 1] === undefined) count--;
    let texts = "";
    try {
      for (let at = 0; at < count && step.broken === null; at++) {
        // A call takes one object; its fields are named after the call.
        texts += (at === 0 ? "" : ",") + write(args[at], count === 1 ? path : path + "[" + at + "]", stack);
      }
    } catch (error) {
      if (error !== NOT_JSON) throw error;
    }
    if (!isStepping) breakWith("", path + " is called before a step began. Call tools inside a handler.", stack);
    return new RealPromise((resolve) => {
      if (step.broken !== null) return;
      const id = step.lastCall + 1;
      const asked = outbox + (outbox === "" ? "" : ",") + '{"id":' + id + ',"path":' + short(path) + ',"args":[' + texts + '],"stack":' + short(stack) + "}";
      answers[id] = resolve;
      step.lastCall = id;
      waiting++;
      outbox = asked;
    });
  };

  const fixed = () => { throw new RealTypeError("ctx cannot be changed"); };
  function toolbox(path) {
    function get(_, name) {
      // Written as text it says what it is, instead of calling tools named toString and valueOf.
      if (name === toPrimitive) return () => path === "" ? "[ctx]" : "[ctx." + path + "]";
      // An object with a method `then` would be awaited as if it were a promise.
      if (typeof name === "symbol" || name === "then" || name === "toJSON") return undefined;
      return toolbox(path === "" ? name : slice(path + "." + name, 0, 200));
    }
    function call(_, self, args) {
      if (path === "") throw new RealTypeError("ctx is not a function");
      return ask(path, args);
    }
    return new RealProxy(function () {}, {
      __proto__: null, get, apply: call, construct: fixed, set: fixed, defineProperty: fixed, deleteProperty: fixed, setPrototypeOf: fixed,
      getPrototypeOf: () => null, ownKeys: () => ["prototype"],
    });
  }

  // -- What the script sees --------------------------------------------------------------------

  const put = (holder, name, value) => defineProperty(holder, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const log = (...values) => late().log(values);
  const Keep = freeze({
    workflow(declared) {
      step.definitions++;
      return step.definition = declared;
    },
    consumer: (declared) => declared,
  });
  const seen = { value: Keep, writable: false, enumerable: false, configurable: false };
  defineProperty(globalThis, "Keep", seen);
  defineProperty(globalThis, "Duly", seen);
  put(globalThis, "console", freeze({ log, info: log, warn: log, error: log, debug: log }));
  put(Math, "random", () => late().random());
  // The clock is put in its place at its first use.
  defineProperty(globalThis, "Date", {
    get: () => late().Date, set: (value) => put(globalThis, "Date", value), enumerable: false, configurable: true,
  });
  // Other clocks, and what depends on when garbage is collected (law 5 of the contract).
  delete globalThis.performance;
  delete dates.constructor; // the one that knows the machine's time; late.js puts its own there
  delete globalThis.SharedArrayBuffer;
  delete globalThis.Atomics;
  delete globalThis.WeakRef;
  delete globalThis.FinalizationRegistry;
  // What hands out the functions of a stack, or asks the script how to write one (law 4).
  delete Error.prepareStackTrace;
  delete Error.captureStackTrace;
  delete Error.stackTraceLimit;

  // -- The worker's way in ---------------------------------------------------------------------

  const own = (holder, name) => (typeof holder === "object" && holder !== null && hasOwn(holder, name) ? holder[name] : undefined);
  const fail = (error) => { if (error !== NOT_JSON) late().fail(error); };

  function begin(settings) {
    if (step.world !== null) throw new RealError("a context is begun once");
    const { limits, world } = parse(settings);
    step.limits = limits;
    step.world = world;
    step.room = limits.output_chars;
    resumedAt = machineClock();
  }
  async function watch() {
    try {
      // Whose promise this is would be asked of a prototype that the script has in its hands.
      put(loading, "constructor", RealPromise);
      await loading;
      isLoaded = true;
    } catch (error) {
      fail(error);
    }
  }
  function declare() {
    if (isLoaded && step.broken === null) ended = late().declaration();
  }
  async function start(entry) {
    if (!isLoaded || step.broken !== null) return;
    const { handler, step: name, args } = parse(entry);
    const given = [toolbox("")];
    for (let at = 0; at < args.length; at++) put(given, at + 1, own(args[at], "value"));
    try {
      const owner = own(own(step.definition, name === "produce" ? "producers" : "consumers"), handler);
      const run = typeof owner === "function" ? owner : own(owner, name === "produce" ? "handler" : name);
      if (typeof run !== "function") return breakWith("", "The handler " + handler + " has no step " + name + ".", "");
      isStepping = true;
      const value = await apply(run, owner, given);
      if (step.broken === null) ended = value === undefined ? '{"missing":true}' : '{"value":' + write(value, "result", "") + "}";
    } catch (error) {
      fail(error);
    }
  }
  function answer(id, text, names) {
    resumedAt = machineClock();
    const resolve = answers[id];
    delete answers[id];
    waiting--;
    if (step.broken !== null) return;
    const value = parse(text);
    const extras = parse(names);
    if (extras !== null) {
      const listed = keys(extras);
      for (let at = 0; at < listed.length; at++) put(value, listed[at], extras[listed[at]]);
    }
    resolve(value);
  }
  // A limit that did not end the script: which of its calls came after it is unknown, so none goes.
  function exceed(name, message) {
    if (step.broken === null) outbox = "";
    breakWith(name, message, "");
  }
  function take() {
    let end = "null";
    if (outbox === "") {
      if (step.broken !== null) end = step.broken;
      else if (waiting === 0) end = ended ?? '{"stalled":true}';
    }
    const logs = lateParts === null ? "" : lateParts.takeLogs(end !== "null");
    const taken = '{"calls":[' + outbox + '],"logs":[' + logs + '],"end":' + end + "}";
    outbox = "";
    spentMs += machineClock() - resumedAt;
    return slice(taken, 0); // in one piece: the binding cannot read a string that is still in parts
  }
  const ways = { __proto__: null, begin, watch, declare, start, answer, fail: breakWith, exceed, take };
  return (way, first, second, third) => {
    if (typeof way === "string") return ways[way](first, second, third);
    loading = way;
  };
}()
