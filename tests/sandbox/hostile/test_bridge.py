"""Each guard of the JavaScript bridge, with the script that would get past it (X1, X3)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from importlib.resources import files

import _quickjs  # type: ignore[import-not-found]  # it has no types
import pytest
from tree_sitter import Language, Node, Parser
from tree_sitter_javascript import language

from duly.env import Loop
from duly.rules.value import Json
from duly.sandbox.base import MISSING, Asked, Missing, Returned
from duly.sandbox.javascript_worker import read_text
from duly.sandbox.pool import Pool
from tests.sandbox.javascript_stand import FROZEN, Stand

# What would show a script the machine's clock, its own garbage, or the functions of a stack.
GONE = {
    "Error": ("prepareStackTrace", "captureStackTrace", "stackTraceLimit"),
    "globalThis": (
        *("performance", "SharedArrayBuffer", "Atomics", "WeakRef", "FinalizationRegistry"),
    ),
}
FIXED = "ctx cannot be changed"
# What a script does to `ctx`, and what comes of it; a tool of no kind is called.
CTX = {
    "ctx.a = 1": FIXED,
    "ctx.a.b = 1": FIXED,
    "Object.defineProperty(ctx, 'a', { value: 1 })": FIXED,
    "delete ctx.a": FIXED,
    "new ctx.a()": FIXED,
    "Object.setPrototypeOf(ctx, null)": FIXED,
    "Object.getPrototypeOf(ctx)": None,
    "Object.keys(ctx.a)": [],
    "Object.getOwnPropertyNames(ctx)": ["prototype"],
    "await ctx === ctx": True,
    "await ctx.a === ctx": False,
    "JSON.stringify({ a: ctx })": "{}",
    "`${ctx} ${ctx.a.b}`": "[ctx] [ctx.a.b]",
    "ctx.a[Symbol.iterator]": None,
}


@pytest.fixture(scope="module")
async def stand() -> AsyncIterator[Stand]:
    pool = Pool(Loop(), workers_max=1)
    yield Stand(pool)
    await pool.close()


@pytest.mark.parametrize(
    ("holder", "name"), [(holder, name) for holder, names in GONE.items() for name in names]
)
async def test_what_would_show_the_machine_is_gone(stand: Stand, holder: str, name: str) -> None:
    """X1, C13: before a script runs, so that it cannot keep one either."""
    before = f"\nconst kept = typeof {holder}.{name};"
    assert await stand.returned(f"return [kept, '{name}' in {holder}]", before=before) == [
        "undefined",
        False,
    ]


async def test_no_date_leads_to_the_machine_s_clock(stand: Stand) -> None:
    """C13: a date knows the constructor that made it."""
    body = """
    const made = Object.getPrototypeOf(new Date(0)).constructor;
    return [new made().getTime(), made.now(), made === Date]"""
    assert await stand.returned(body) == [FROZEN.now_ms, FROZEN.now_ms, True]


def test_no_date_knows_its_constructor_before_the_script_has_a_clock() -> None:
    """C13: no script is known that gets hold of a date without `Date`, so it is looked at here."""
    context = _quickjs.Context()
    context.eval("globalThis.dates = Date.prototype")
    context.eval(read_text().whole())
    assert context.eval("Object.hasOwn(dates, 'constructor')") is False


@pytest.mark.parametrize(("does", "comes"), CTX.items(), ids=list(CTX))
async def test_ctx_is_what_it_is(stand: Stand, does: str, comes: object) -> None:
    """X1, X3: nothing a script does to it but a call is a call, and no tool is replaced."""
    body = (
        f"let found;\ntry {{ found = {does} }} catch (error) {{ found = error.message }}\n"
        "return [found ?? null, await ctx.a.b()]"
    )
    asked, returned = await stand.turns(body, 7)
    assert isinstance(asked, Asked)
    assert [call.path for call in asked.calls] == ["a.b"]
    assert isinstance(returned, Returned)
    assert returned.value == [comes, 7]


async def test_keep_and_console_stay_what_they_are(stand: Stand) -> None:
    """X1, X3: what a script declares is read from `Keep`, which no line of it replaces."""
    body = """
    const found = [Object.isFrozen(Keep), Object.isFrozen(console)];
    for (const name of ["Keep", "Duly"]) {
      const { writable, configurable } = Object.getOwnPropertyDescriptor(globalThis, name);
      found.push(writable, configurable);
    }
    return found"""
    assert await stand.returned(body) == [True, True, False, False, False, False]


@pytest.mark.parametrize(
    ("hook", "then", "says"),
    [
        ("String.prototype.concat = () => '{\"value\":1}'", "throw new Error('x')", "Error: x"),
        ("String.prototype.charCodeAt = () => 0", "ctx.a.b({name: [NaN]})", "a.b.name[0] is NaN"),
        ("RegExp.prototype.exec = () => null", "ctx.a.b({name: [NaN]})", "a.b.name[0] is NaN"),
        ("RegExp.prototype.test = () => true", "ctx.a.b({'a b': NaN})", 'a.b["a b"] is NaN'),
        ("JSON.isRawJSON = () => false", "ctx.a.b(JSON.rawJSON('1e400'))", "a.b is JSON.rawJSON"),
        ("Array.isArray = () => false", "ctx.a.b({x: [undefined]})", "a.b.x[0] is undefined"),
        ("Object.keys = () => []", "ctx.a.b({x: NaN})", "a.b.x is NaN"),
        (
            "Object.getPrototypeOf = () => Object.prototype",
            "ctx.a.b({x: new Map()})",
            "a.b.x is not a plain object",
        ),
        ("Date.prototype.toISOString = () => 'x'", "ctx.a.b(late(NaN))", "a.b is no date"),
        (
            "String.prototype.isWellFormed = () => true",
            "ctx.a.b({x: '\\ud800'})",
            "a.b.x has half a character",
        ),
        ("Object.prototype.toString = () => 'x'", "throw {toJSON: 1}", 'threw {"toJSON":1}'),
        ("globalThis.String = () => 'x'", "throw new Error('y')", "Error: y"),
        ("globalThis.Error = class {}", "throw new TypeError('y')", "TypeError: y"),
        (
            "Object.defineProperty(Error.prototype, 'stack', {get() { throw 1 }})",
            "null.x",
            "TypeError",
        ),
        (
            "for (const at of [1, 2, 3]) Object.defineProperty(Object.prototype, at, {set() {}})",
            "let deep = 1; for (let at = 0; at < 300; at++) deep = [deep]; ctx.a.b(deep)",
            "nested deeper than",
        ),
    ],
)
async def test_a_step_breaks_with_its_own_words(
    stand: Stand, hook: str, then: str, says: str
) -> None:
    """X1, X3, T8: what is refused, and why, is not for a script to say."""
    late = "const late = (ms) => Object.defineProperty(new Date(ms), 'toJSON', {value: 0});"
    assert says in str(await stand.broke(f"{late}\n{hook};\n{then}"))


@pytest.mark.parametrize(
    ("before", "state", "body"),
    [
        ("Object.prototype.value = 7", MISSING, "return state ?? null"),
        ("Object.prototype.handler = 7", MISSING, "return state ?? null"),
        (
            "Object.defineProperty(Array.prototype, 1, {set() {}, configurable: true})",
            5,
            "return state === 5 ? null : 1",
        ),
        (
            "Object.defineProperty(Object.prototype, 'lastCursor', {set() {}})",
            None,
            "return (await ctx.a.b()).lastCursor === 3 ? null : 1",
        ),
    ],
)
async def test_what_the_host_hands_in_arrives_as_it_is(
    stand: Stand, before: str, state: Json | Missing, body: str
) -> None:
    """X1, X3: no setter and no default of a script comes between."""
    page: Json = {"$page": True, "items": [1], "last_cursor": 3}
    answers = [page] * body.count("await")
    turns = await stand.turns(body, *answers, state=state, before=f"\n{before};")
    assert turns[-1] == Returned(None)


async def test_what_broke_is_the_end(stand: Stand) -> None:
    """C3, X3: no call and no line comes after it, whatever the script catches."""
    body = "try { ctx.a.b({x: NaN}) } catch {}\nctx.a.c({}); console.log('more'); return 1"
    (broke,) = await stand.turns(body)
    assert "a.b.x is NaN" in str(getattr(broke, "error", broke))
    assert getattr(broke, "logs", None) == ()


# -- The text -----------------------------------------------------------------------------------

# Objects with a prototype, by their first name: made before a script runs, or never looked into
# for a name that they do not have.
PLAIN = ["after", "Date", "get", "log", "up", "up", "value", "workflow"]


def objects(node: Node) -> Iterator[str]:
    """List the object literals of a text that have a prototype, by the first name in them."""
    if node.type == "object":
        names = [each.text.decode() for each in node.named_children if each.text is not None]
        if "__proto__: null" not in names:
            yield names[0].split(":")[0].split("(")[0]
    for each in node.children:
        yield from objects(each)


def test_what_the_bridge_looks_names_up_on_has_no_prototype() -> None:
    """X1: also where no script is known that could use it (law 2 of prelude.js)."""
    found: list[str] = []
    for name in ("prelude.js", "late.js"):
        text = files("duly.sandbox").joinpath(name).read_bytes()
        found += objects(Parser(Language(language())).parse(text).root_node)
    assert sorted(found) == sorted(PLAIN)
