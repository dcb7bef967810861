// What a step may do without: the log, the clock, the dice, the declaration, and the words for what
// is no JSON. The prelude calls this function when it is first needed, and then only what it held
// before the script came is used here (law 2 of prelude.js).
(held, step, answers, breakWith, elapsedMs) => {
  "use strict";
  const {
    Date: RealDate, Error: RealError, String: RealString, charCodeAt, construct, dates, defineProperty, freeze, getPrototypeOf, indexOf,
    isArray, isRawJSON, isWellFormed, keys, objectPrototype, slice, stackOf, stringify, toISOString, toWellFormed, dateToString,
  } = held;
  const { limits, world } = step;
  const afterMs = () => {
    const elapsed = elapsedMs();
    return elapsed - (elapsed % 1);
  };
  const put = (holder, name, value) => defineProperty(holder, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });

  // -- What is no JSON, by its path (T8) -------------------------------------------------------

  const NOT_JSON = freeze({ __proto__: null });
  const NAME_CHARS_MAX = 40;
  let askedFrom = ""; // where the script stands whose values are being written
  let room = 0;

  // By hand: a regular expression asks its prototype, which the script can change.
  const isIdentifier = (name) => {
    if (name === "" || name.length > NAME_CHARS_MAX) return false;
    for (let at = 0; at < name.length; at++) {
      const code = charCodeAt(name, at);
      const isLetter = (code >= 65 && code <= 90) || (code >= 97 && code <= 122) || code === 95 || code === 36;
      if (!isLetter && (at === 0 || code < 48 || code > 57)) return false;
    }
    return true;
  };
  const pathOf = (where) => {
    if (where.up === null) return where.key;
    const key = where.key;
    if (typeof key === "number") return pathOf(where.up) + "[" + key + "]";
    return isIdentifier(key) ? pathOf(where.up) + "." + key : pathOf(where.up) + "[" + stringify(slice(key, 0, NAME_CHARS_MAX)) + "]";
  };
  const refuse = (where, what) => {
    breakWith("", pathOf(where) + " " + what, askedFrom);
    throw NOT_JSON;
  };
  const below = (where, key, holder) => ({ up: where, key, holder, depth: where.depth + 1, hasMarks: where.hasMarks });
  const root = (key, hasMarks) => ({ up: null, key, holder: null, depth: 0, hasMarks });

  const spend = (text, where) => {
    room -= text.length + 1;
    if (room < 0) refuse(where, "is too much: a step asks and returns at most " + limits.output_chars + " bytes in all.");
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
      case "number": {
        const size = value < 0 ? -value : value;
        if (!(size < Infinity)) refuse(where, "is " + value + ", which JSON does not know. Send null or a string.");
        // From 1e21 on JavaScript writes an exponent, and then no reader takes it for an integer.
        if (size > 9007199254740991 && size < 1e21) refuse(where, "is an integer beyond \u00b1(2^53 - 1). Send it as a string.");
        return spend(stringify(value), where);
      }
      case "boolean":
        return spend(value ? "true" : "false", where);
      case "object":
        return value === null ? spend("null", where) : writeHolder(value, where);
      case "function":
        if (where.hasMarks) return spend('"function"', where);
    }
    return refuse(where, "is " + (typeof value === "undefined" ? "undefined" : "a " + typeof value) + ". Use an object, array, string, number, boolean or null.");
  };
  const writeHolder = (value, where) => {
    for (let around = where; around !== null; around = around.up) {
      if (around.holder === value) refuse(where, "contains itself. Remove the cycle.");
    }
    if (where.depth >= limits.depth) refuse(where, "is nested deeper than " + limits.depth + ". Make it flatter.");
    if (isArray(value)) return writeArray(value, where);
    if (isRawJSON(value)) {
      refuse(where, "is JSON.rawJSON(" + stringify(slice(value.rawJSON, 0, NAME_CHARS_MAX)) + "), whose text is not checked. Send the value itself.");
    }
    const prototype = getPrototypeOf(value);
    if (prototype === dates) return writeDate(value, where);
    if (prototype !== objectPrototype && prototype !== null) {
      refuse(where, "is not a plain object. Use an object, array, string, number, boolean or null.");
    }
    return writeObject(value, where);
  };
  const writeDate = (value, where) => {
    try {
      return writeText(toISOString(value), where);
    } catch (error) {
      if (error === NOT_JSON) throw error;
      return refuse(where, "is no date that can be written. Send null or a string.");
    }
  };
  const writeArray = (value, where) => {
    spend("[]", where);
    let text = "";
    for (let at = 0; at < value.length; at++) {
      text += (at === 0 ? "" : ",") + write(value[at], below(where, at, value));
    }
    return "[" + text + "]";
  };
  const writeObject = (value, where) => {
    spend("{}", where);
    const names = keys(value);
    let text = "";
    for (let at = 0; at < names.length; at++) {
      const inner = value[names[at]];
      if (inner === undefined) continue;
      const place = below(where, names[at], value);
      text += (text === "" ? "" : ",") + writeText(names[at], place) + ":" + write(inner, place);
    }
    return "{" + text + "}";
  };

  // An error that was not thrown by the interpreter, but inherits from one that was, has no stack.
  const placeOf = (error) => {
    try {
      return stackOf(error);
    } catch {
      return "";
    }
  };

  // -- The log (X4) ----------------------------------------------------------------------------

  const logs = { __proto__: null }; // by number: what was said, and after which call
  let firstLog = 1;
  let lastLog = 0;
  const leftOut = { __proto__: null }; // by call: how many lines past the limit were said after it
  let firstLeft = 0;
  let firstWaiting = 1;

  const show = (value) => {
    try {
      if (typeof value === "string") return value;
      if (value instanceof RealError) return RealString(value.name) + ": " + RealString(value.message);
      const text = typeof value === "object" ? stringify(value) : undefined;
      return text === undefined ? RealString(value) : text;
    } catch {
      return "[cannot be shown]";
    }
  };
  const addLine = (said) => {
    const after = step.lastCall;
    if (lastLog >= limits.log_lines) {
      leftOut[after] = (leftOut[after] ?? 0) + 1;
      return;
    }
    const text = stringify(toWellFormed(slice(said, 0, limits.log_chars)));
    logs[++lastLog] = { after, text: '{"after_ms":' + afterMs() + ',"text":' + text + "}" };
  };

  // -- The clock and the dice (law 5 of the contract) ------------------------------------------

  const nowMs = () => world.now_ms + (world.frozen ? 0 : afterMs());
  function WorldDate(...parts) {
    if (new.target === undefined) return dateToString(new RealDate(nowMs()));
    return construct(RealDate, parts.length === 0 ? [nowMs()] : parts, new.target);
  }
  defineProperty(WorldDate, "prototype", { __proto__: null, value: dates, writable: false, enumerable: false, configurable: false });
  put(WorldDate, "name", "Date");
  put(WorldDate, "length", 7);
  put(WorldDate, "now", () => nowMs());
  put(WorldDate, "parse", held.parseDate);
  put(WorldDate, "UTC", held.utc);
  put(dates, "constructor", WorldDate);

  // A small fast counter (sfc32): four words of state, good enough for dice that guard no secret.
  let { 0: a, 1: b, 2: c, 3: d } = world.dice;
  const word = () => {
    const sum = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum | 0;
    return sum >>> 0;
  };
  for (let round = 0; round < 12; round++) word();

  return {
    Date: WorldDate,
    random: () => ((word() >>> 5) * 67108864 + (word() >>> 6)) / 9007199254740992,
    log(values) {
      let text = "";
      for (let at = 0; at < values.length; at++) text += (at === 0 ? "" : " ") + show(values[at]);
      if (step.broken !== null) return; // also if showing a value broke the step just now
      let from = 0;
      for (let to = indexOf(text, "\n"); to >= 0; to = indexOf(text, "\n", from)) {
        addLine(slice(text, from, to));
        from = to + 1;
      }
      addLine(slice(text, from));
    },
    // A line logged after a call is handed over when that call was answered: if the call is a
    // mutation, it is the last thing the host sees of this step (C8).
    takeLogs(isEnd) {
      while (firstWaiting <= step.lastCall && !(firstWaiting in answers)) firstWaiting++;
      let text = "";
      while (firstLog <= lastLog && (isEnd || logs[firstLog].after < firstWaiting)) {
        text += (text === "" ? "" : ",") + logs[firstLog].text;
        delete logs[firstLog++];
      }
      let count = 0;
      for (; firstLeft <= step.lastCall && (isEnd || firstLeft < firstWaiting); firstLeft++) {
        count += leftOut[firstLeft] ?? 0;
        delete leftOut[firstLeft];
      }
      if (count === 0) return text;
      const said = stringify(count + " more lines were left out.");
      const line = '{"after_ms":' + afterMs() + ',"text":' + said + ',"left_out":' + count + "}";
      return text === "" ? line : text + "," + line;
    },
    write(value, path, stack) {
      askedFrom = stack;
      room = step.room;
      try {
        const text = write(value, root(path, false));
        step.room = room;
        return text;
      } catch (error) {
        if (error !== NOT_JSON) throw error;
      }
    },
    declaration() {
      room = step.room;
      try {
        const text = step.definitions === 1 ? write(step.definition, root("workflow", true)) : "null";
        return '{"value":{"count":' + step.definitions + ',"workflow":' + text + "}}";
      } catch (error) {
        this.fail(error);
        return null;
      }
    },
    fail(error) {
      try {
        if (error === NOT_JSON) return;
        if (error instanceof RealError) {
          const name = RealString(error.name), message = RealString(error.message);
          // No script catches the interpreter's own interrupt, so this one is a script's word.
          if (message === "interrupted") return breakWith("", "The script threw " + name + ": " + message + ".", placeOf(error));
          return breakWith(name, message, placeOf(error));
        }
        breakWith("", "The script threw " + show(error) + ".", "");
      } catch {
        breakWith("", "The script threw something that cannot be shown.", "");
      }
    },
  };
}
