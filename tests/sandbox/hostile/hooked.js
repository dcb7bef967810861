// What a hook is handed is kept by means that no hook can reach.
const { apply, defineProperty, deleteProperty, getOwnPropertyDescriptor, ownKeys } = Reflect;
const { stringify } = JSON;
const written = Function.prototype.toString;
const Text = String;
const { isArray } = Array;
const Fault = Error;
const seen = { __proto__: null };
let count = 0;
let isBusy = false;
// While only the bridge works for the script, no hook is to be called at all.
let isBridge = false;
let called = "";
let window = "start";
let texts = "";
const undo = { __proto__: null };
let installed = 0;
function keep(value) {
  if (typeof value === "string" && /"(calls|stack|after_ms|value|error)":/.test(value)) texts += value;
  if (count < 200 && value !== null && (typeof value === "object" || typeof value === "function")) {
    seen[++count] = value;
    // A frame of a stack has the function in it; a list has what it lists.
    try { if (typeof value.getFunction === "function") keep(value.getFunction()); } catch {}
    for (let at = 0; isArray(value) && at < value.length && at < 8; at++) keep(value[at]);
  }
}
function spy(self, given, made) {
  if (isBridge) called += window + " ";
  if (isBusy) return;
  isBusy = true;
  keep(self);
  for (let at = 0; at < given.length && at < 8; at++) keep(given[at]);
  keep(made);
  isBusy = false;
}
function install(holder, name, kind) {
  const before = getOwnPropertyDescriptor(holder, name);
  const real = before === undefined ? undefined : "value" in before ? before.value : undefined;
  const isMethod = kind === "method";
  function method() {
    const made = typeof real !== "function" ? undefined : new.target ? Reflect.construct(real, arguments) : apply(real, this, arguments);
    spy(this, arguments, made);
    if (name === "then" && real === undefined) arguments[0](5);
    return made;
  }
  function get() {
    spy(this, [], undefined);
    return before !== undefined && before.get !== undefined ? apply(before.get, this, []) : real;
  }
  function set(value) { spy(this, [value], undefined); }
  const put = isMethod
    ? { __proto__: null, value: method, writable: true, configurable: true }
    : { __proto__: null, get, set, configurable: true };
  if (isMethod && before !== undefined && before.set !== undefined) { try { holder[name] = method; } catch {} }
  if (defineProperty(holder, name, put)) {
    undo[++installed] = () => before === undefined ? deleteProperty(holder, name) : defineProperty(holder, name, before);
  }
}
function look(value) {
  const found = { __proto__: null, functions: "", names: "" };
  const add = (each) => { if (typeof each === "function") { try { found.functions += apply(written, each, []) + "\u0000"; } catch {} } };
  add(value);
  let names = [];
  try { names = ownKeys(value); } catch {}
  for (let at = 0; at < names.length; at++) {
    if (typeof names[at] !== "string") continue;
    found.names += names[at] + "\u0000";
    const held = getOwnPropertyDescriptor(value, names[at]);
    if (held === undefined) continue;
    add(held.value);
    add(held.get);
    add(held.set);
  }
  return found;
}
const FORGED = '{"limits":{"depth":9,"calls":9,"own_calls":9,"output_chars":9999,"log_lines":9,"log_chars":9},' +
  '"world":{"now_ms":7,"frozen":false,"dice":[1,2,3,4]}}';
function exploit() {
  const most = count;
  isBusy = true;
  for (let at = 1; at <= most; at++) {
    const each = seen[at];
    if (typeof each !== "function" || /own/.test(apply(written, each, []))) continue;
    for (const given of [["begin", FORGED, ""], [FORGED, ""], ["forged.call", []], [1, "7", "null"], []]) {
      try { apply(each, undefined, given); } catch {}
    }
  }
  isBusy = false;
}
async function attack(ctx) {
  window = "clock";
  const WorldDate = Date;
  isBridge = false;
  const first = new WorldDate(1);
  defineProperty(first, "toJSON", { __proto__: null, value: undefined }); // so that the bridge writes it itself
  const values = [{ x: 1 }, { x: [1, { y: "z" }] }, { d: first }];
  const said = ["said\nmore", { a: [1] }, 5];
  const { log } = console;
  const { random } = Math;
  const ask = (value) => {
    window = "call";
    isBridge = true;
    const asked = ctx.echo.back(value);
    window = "answer";
    return asked;
  };
  @STEP@
  let answer;
  let fault = "";
  try {
    answer = await ask(values[0]);
    isBridge = false;
    @ANSWER@
    answer = await ask(values[1]);
    answer = await ask(values[2]);
    window = "world";
    log(said[0], said[1], said[2]);
    random();
    new WorldDate();
    WorldDate();
    isBridge = false;
    console.log(new Fault("e"), first);
    const ways = [
      () => "x" in ctx, () => getOwnPropertyDescriptor(ctx, "x"), () => Object.isExtensible(ctx), () => { ctx.a = 1; },
      () => new ctx.a(), () => Text(ctx.a.b), () => ctx(), () => delete ctx.a, () => Object.preventExtensions(ctx),
      () => { null.x; }, () => { throw new Fault("thrown"); }, () => Object.keys(ctx), () => new Date().toISOString(),
    ];
    for (let at = 0; at < ways.length; at++) { try { ways[at](); } catch (error) { try { Text(error.stack); } catch {} } }
  } catch (error) {
    fault = "fault";
  }
  isBridge = false;
  for (let at = installed; at > 0; at--) undo[at]();
  exploit();
  const functions = [];
  const names = [];
  for (let at = 1; at <= count; at++) {
    const found = look(seen[at]);
    functions.push(...found.functions.split("\u0000"));
    names.push(...found.names.split("\u0000"));
  }
  return stringify({
    functions: [...new Set(functions)].filter((each) => each), names: [...new Set(names)].filter((each) => each),
    now: Date.now(), fault, texts, called,
  });
}
const consumer = { subscribe: ["t"], prepare: attack, mutate: attack, next: attack };
export default Keep.workflow({ name: "hooked", topics: ["t"], producers: { produce: attack }, consumers: { consume: consumer } });
@MODULE@
isBridge = true;
