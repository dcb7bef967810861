"""What is JavaScript's own: its globals, its values, its clock, its log.

What every language keeps stands in the contract suite; what breaks, in the file beside.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from duly.env import Loop
from duly.errors import NotDeployed, ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog, Parameter, Tool, ToolKind
from duly.rules.source import Language, Source
from duly.rules.value import Json
from duly.sandbox import javascript, javascript_worker
from duly.sandbox.base import MISSING, Asked, Broke, Missing, Returned
from duly.sandbox.javascript import JavaScriptSandbox, find_place
from duly.sandbox.javascript_worker import read_text
from duly.sandbox.pool import Pool
from tests.sandbox.javascript_stand import CATALOG, FROZEN, HEAD, LIMITS, RUNNING, Stand


@pytest.fixture(scope="module")
async def stand() -> AsyncIterator[Stand]:
    pool = Pool(Loop())
    yield Stand(pool)
    await pool.close()


# The names.


async def test_keep_and_duly_are_one(stand: Stand) -> None:
    """W1: the alias is the same object, and neither can be replaced."""
    text = HEAD.replace("Keep", "Duly") + "}}});"
    assert (await stand.load(text)).declaration.name == "w"
    body = "try { Keep = 1 } catch {}; return [Keep === Duly, typeof Keep.workflow]"
    assert await stand.returned(body) == [True, "function"]


@pytest.mark.parametrize(
    "name",
    [
        *("performance", "crypto", "setTimeout", "fetch", "require", "process", "std", "print"),
        *("os", "SharedArrayBuffer", "Atomics", "WeakRef", "FinalizationRegistry", "duly", "ctx"),
    ],
)
async def test_there_is_no_other_way_out(stand: Stand, name: str) -> None:
    """X1: no clock, no network, no modules, nothing of the bridge."""
    assert await stand.returned(f"return typeof globalThis.{name}") == "undefined"


async def test_no_module_can_be_imported(stand: Stand) -> None:
    """X1: neither written in the text, nor put together while it runs."""
    body = 'await (0, eval)("im" + "port(\'fs\')")'
    assert "could not load module" in str(await stand.broke(body))


@pytest.mark.parametrize(
    ("text", "module", "place"),
    [
        ('import fs from "fs";\n', "The module fs", (1, 1)),
        ("/* from 'x' */\n\n  import 'node:os';\n", "The module node:os", (3, 3)),
        ("const \u00fc = 1; export * from './other.js';\n", "The module ./other.js", (1, 14)),
        ("// import a from 'b'\nconst x = () => import('fs');\n", "The module fs", (2, 17)),
        ("const y = (name) => import(name);\n", "A module", (1, 21)),
    ],
)
async def test_an_import_is_refused_with_its_place(
    stand: Stand, text: str, module: str, place: tuple[int, int]
) -> None:
    """X3, W5: before it runs, wherever in the text it stands."""
    with pytest.raises(ScriptError, match="cannot be imported") as caught:
        await stand.load(text + HEAD + "}}});")
    assert str(caught.value).startswith(module + " ")
    assert (caught.value.line, caught.value.column) == place


async def test_the_words_of_an_import_are_not_an_import(stand: Stand) -> None:
    """W5: in a comment, a text, a name or a pattern they import nothing."""
    text = "// import a from 'b'\nconst s = \"import('fs')\", from = Array.from('x');\n"
    assert (await stand.load(text + HEAD + "}}});")).declaration.name == "w"


async def test_a_call_at_module_level_has_nobody_to_call(stand: Stand) -> None:
    """W5: there is no ctx before a step, and the line is named."""
    with pytest.raises(ScriptError, match="ctx is not defined") as caught:
        await stand.load('\nctx.sheets.appendRow({});\nexport default Keep.workflow({name: "w"})')
    assert caught.value.line == 2


async def test_ctx_cannot_be_changed_and_is_no_promise(stand: Stand) -> None:
    """C3: a script cannot plant anything into the bridge."""
    assert "ctx cannot be changed" in str(await stand.broke("ctx.publish = 1"))
    assert await stand.returned("const same = await ctx; return typeof same.then") == "undefined"


# The declaration.


async def test_a_word_does_not_pass_for_a_function(stand: Stand) -> None:
    """W5: the mark of a function cannot be written by hand."""
    with pytest.raises(NotDeployed, match="must be a function"):
        await stand.load(
            'Keep.workflow({name: "w", producers: {p: {handler: "function"}}}); export default 1'
        )


async def test_two_workflows_are_refused(stand: Stand) -> None:
    """W1: a source declares one."""
    with pytest.raises(NotDeployed, match="declares 2 workflows") as caught:
        await stand.load(HEAD + "}}}); Keep.workflow({});")
    assert len(caught.value.findings) == 1


async def test_a_declaration_that_is_no_json_is_refused_with_its_path(stand: Stand) -> None:
    """T8: by its place in the declaration."""
    with pytest.raises(ScriptError, match=r"workflow\.topics is not a plain object"):
        await stand.load('export default Keep.workflow({name: "w", topics: new Map()})')


async def test_a_syntax_error_has_line_and_column(stand: Stand) -> None:
    """X3: in the script's own coordinates."""
    with pytest.raises(ScriptError, match="SyntaxError") as caught:
        await stand.load("\n\nlet x = ;")
    assert (caught.value.line, caught.value.column) == (3, 9)


async def test_a_nul_character_is_refused_before_it_cuts_the_text(stand: Stand) -> None:
    """W6: what is checked is what runs."""
    with pytest.raises(ScriptError, match="NUL") as caught:
        await stand.load(HEAD + "}}});\n\0 and more")
    assert caught.value.line == 3


async def test_a_source_at_the_limit_is_loaded_and_one_past_is_not(stand: Stand) -> None:
    """W6: the limit is in bytes."""
    text = HEAD + "}}});"
    limits = replace(LIMITS, source_bytes=len(text))
    assert (await stand.load(text, limits)).source.text == text
    with pytest.raises(ScriptError, match="is longer than"):
        await stand.load(text + " ", limits)


async def test_a_module_that_never_ends_loading_is_refused(stand: Stand) -> None:
    """W6: a promise nobody keeps is not waited for."""
    with pytest.raises(ScriptError, match="never happens"):
        await stand.load("await new Promise(() => {});\n" + HEAD + "}}});")


async def test_a_handler_that_is_not_there_breaks(stand: Stand) -> None:
    """C1: also one every object seems to have."""
    sandbox = JavaScriptSandbox(stand.pool, LIMITS)
    loaded = await sandbox.load(Source(Language.JAVASCRIPT, HEAD + "}}});"), CATALOG)
    for handler in ("q", "constructor", "__proto__"):
        async with sandbox.open(loaded, handler, Step.PRODUCE, (MISSING,), FROZEN) as script:
            turn = await script.start()
            assert isinstance(turn, Broke)
            assert f"{handler} has no step produce" in str(turn.error)


async def test_this_is_the_handler_s_own_object(stand: Stand) -> None:
    """W1: a step may use what stands beside it."""
    text = (
        'export default Keep.workflow({name: "w", topics: ["t"], consumers: {c: Keep.consumer('
        '{subscribe: ["t"], async prepare(ctx) { return {reservations: [], wakeAt: "soon",'
        " data: {beside: typeof this.mutate}} }, async mutate(ctx) {}})}})"
    )
    sandbox = JavaScriptSandbox(stand.pool, LIMITS)
    loaded = await sandbox.load(Source(Language.JAVASCRIPT, text), CATALOG)
    async with sandbox.open(loaded, "c", Step.PREPARE, (MISSING,), FROZEN) as script:
        wanted: Json = {"reservations": [], "wake_at": "soon", "data": {"beside": "function"}}
        assert await script.start() == Returned(wanted)


# Values.


@pytest.mark.parametrize(
    ("value", "crossed"),
    [
        ("undefined", MISSING),
        ("null", None),
        ("0", 0),
        ("-0", 0),
        ("1.5", 1.5),
        ("1e300", 1e300),
        ("''", ""),
        ("false", False),
        ("[]", []),
        ("{a: undefined, b: null}", {"b": None}),
        ("'a\\u0000b\\u{1f600}'", "a\0b😀"),
        ("2 ** 53 - 1", 2**53 - 1),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("Object.assign(Object.create(null), {a: 1})", {"a": 1}),
        ("JSON.parse('{\"__proto__\": 1}')", {"__proto__": 1}),
    ],
)
async def test_a_value_crosses_as_it_is(stand: Stand, value: str, crossed: Json | Missing) -> None:
    """T8, P2: undefined is nothing, null is null, and what is undefined inside is left out."""
    assert await stand.returned(f"return {value}") == crossed


async def test_long_values_cross_in_both_directions(stand: Stand) -> None:
    """T8: whole, in whatever characters."""
    sent: Json = ["é😀" * 100_000, {"n": list(range(10_000))}]
    limits = replace(LIMITS, step_memory_bytes=64 * 1024 * 1024)
    body = "const given = await ctx.a.b({given: state}); return {given, state}"
    turns = await stand.turns(body, sent, state=sent, limits=limits)
    assert isinstance(turns[0], Asked)
    assert turns[0].calls[0].kwargs == {"given": sent}
    assert turns[1] == Returned({"given": sent, "state": sent})


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("{a: [1, () => 1]}", "result.a[1] is a function"),
        ("{a: Symbol()}", "result.a is a symbol"),
        ("[1n]", "result[0] is a bigint"),
        ("[undefined]", "result[0] is undefined"),
        ("[, 1]", "result[0] is undefined"),
        ("{n: NaN}", "result.n is NaN"),
        ("{n: -Infinity}", "result.n is -Infinity"),
        ("{n: 2 ** 53}", "result.n is an integer beyond"),
        ("new Map()", "result is not a plain object"),
        ("{e: new Error('x')}", "result.e is not a plain object"),
        ("{'a b': '\\ud800'}", 'result["a b"] has half a character'),
        ("{'\\udc00': 1}", "has half a character"),
        ("(() => { const a = {}; a.b = [a]; return a })()", "result.b[0] contains itself"),
    ],
)
async def test_what_is_no_json_breaks_with_its_path(stand: Stand, value: str, path: str) -> None:
    """T8: nothing is left out or rounded in silence."""
    assert path in str(await stand.broke(f"return {value}"))


async def test_an_argument_that_is_no_json_cannot_be_caught(stand: Stand) -> None:
    """C3: the script does not observe it, and its later lines are not observed."""
    body = "try { ctx.a.b({x: [() => 1]}) } catch {} console.log('no'); ctx.c.d()"
    (turn,) = await stand.turns(f"console.log('yes');\n{body}")
    assert isinstance(turn, Broke)
    assert "a.b.x[0] is a function" in str(turn.error)
    assert (turn.error.line, [log.text for log in turn.logs]) == (3, ["yes"])


async def test_a_value_that_refers_to_itself_often_hits_the_output_limit(stand: Stand) -> None:
    """X2: a small object that would be long JSON text is refused inside."""
    limits = replace(LIMITS, publish_bytes_per_run=1, data_bytes=1, state_bytes=100_000)
    body = "let a = ['x']; for (let i = 0; i < 40; i++) a = [a, a]; return a"
    assert "at most 100002 bytes" in str(await stand.broke(body, limits=limits))


@pytest.mark.parametrize(("chars", "is_fine"), [(100, True), (101, False)])
async def test_the_output_limit_is_exact(stand: Stand, chars: int, is_fine: bool) -> None:
    """X2: at the limit, and one past; a text has its quotes, and every value counts one more."""
    limits = replace(LIMITS, publish_bytes_per_run=1, data_bytes=1, state_bytes=101)
    (turn,) = await stand.turns(f"return 'x'.repeat({chars})", limits=limits)
    assert isinstance(turn, Returned if is_fine else Broke)


async def test_a_value_is_counted_once_however_deep_it_lies(stand: Stand) -> None:
    """X2: a hundred brackets around a text do not make it a hundred texts."""
    limits = replace(LIMITS, publish_bytes_per_run=1, data_bytes=1, state_bytes=2000)
    body = "let a = 'x'.repeat(1000); for (let i = 0; i < 100; i++) a = [a]; return a"
    (turn,) = await stand.turns(body, limits=limits)
    assert isinstance(turn, Returned)


async def test_a_page_is_an_array_with_properties(stand: Stand) -> None:
    """X3: its names are JavaScript's, and loops do not see them."""
    body = (
        "const page = await ctx.gmail.search();"
        "const seen = []; for (const at in page) seen.push(at);"
        "return [Array.isArray(page), page.length, page.lastCursor, seen]"
    )
    page: Json = {"$page": True, "items": ["a"], "last_cursor": "c"}
    assert await stand.returned(body, page) == [True, 1, "c", ["0"]]


async def test_events_have_javascript_s_names(stand: Stand) -> None:
    """T7: messageId, and id as its alias."""
    event: Json = [{"topic": "t", "message_id": "1", "title": "One", "payload": {"message_id": 2}}]
    body = "const [e] = await ctx.peek('t', {limit: 1}); return [e.messageId, e.id, e.payload]"
    turns = await stand.turns(body, event)
    assert isinstance(turns[0], Asked)
    assert (turns[0].calls[0].path, turns[0].calls[0].kwargs) == ("peek", {"limit": 1})
    assert turns[1] == Returned(["1", "1", {"message_id": 2}])


async def test_a_tool_is_called_by_the_catalogue_s_names(stand: Stand) -> None:
    """X3: with its line, and with arguments as they were at the call."""
    body = "const v = [1];\nctx.sheets.appendRow({spreadsheetId: 'S', values: v}); v.push(2)"
    (turn,) = await stand.turns(body)
    assert isinstance(turn, Asked)
    (call,) = turn.calls
    assert (call.id, call.path, call.line) == (1, "sheets.append_row", 3)
    assert call.kwargs == {"spreadsheet_id": "S", "values": [1]}


# The world.


async def test_the_clock_is_the_world_s_however_it_is_asked(stand: Stand) -> None:
    """C13: Date(), new Date(), Date.now() and what can be built from them."""
    body = (
        "const D = new Date().constructor;"
        "class Mine extends Date {}"
        "return [Date(), new Date().toISOString(), Date.now(), D.now(), +new Mine(), "
        "new Date(5).getTime(), Date.UTC(1970, 0, 2), new Date() instanceof Date, "
        "new Date(0).getHours(), Date.name]"
    )
    now = FROZEN.now_ms
    assert await stand.returned(body) == [
        "Fri Jan 15 2027 08:00:00 GMT+0000",
        "2027-01-15T08:00:00.000Z",
        now,
        now,
        now,
        5,
        86_400_000,
        True,
        0,
        "Date",
    ]


async def test_a_running_clock_goes_on_by_the_script_s_own_time(stand: Stand) -> None:
    """C13: it moves while the script computes, and begins at the world's time."""
    body = "const a = Date.now(); let b = a; while (b === a) b = Date.now(); return [a, b]"
    seen: Any = await stand.returned(body, world=RUNNING)
    assert RUNNING.now_ms <= seen[0] < seen[1]


async def test_the_dice_are_seeded(stand: Stand) -> None:
    """C13: the same seed, the same throws; another seed, others; all between 0 and 1."""
    body = "return [Math.random(), Math.random(), Math.random()]"
    thrown: Any = await stand.returned(body)
    assert await stand.returned(body) == thrown
    assert await stand.returned(body, world=replace(FROZEN, seed=2)) != thrown
    assert len(set(thrown)) == 3
    assert all(0 <= each < 1 for each in thrown)


# The log.


async def test_a_log_is_readable(stand: Stand) -> None:
    """X4: texts as they are, values as JSON, errors by name; all levels alike."""
    body = (
        "console.log('a', 1, [1, {b: 2}], null, undefined, new Error('e'));"
        "console.info('i'); console.warn('w'); console.error('e'); console.debug('d');"
        "const c = {}; c.c = c; console.log(c, Symbol('s'), 1n)"
    )
    (turn,) = await stand.turns(body)
    assert [log.text for log in turn.logs] == [
        'a 1 [1,{"b":2}] null undefined Error: e',
        *"iwed",
        "[cannot be shown] Symbol(s) 1",
    ]


async def test_a_log_is_cut_and_the_rest_is_counted(stand: Stand) -> None:
    """X4: never a failure."""
    limits = replace(LIMITS, log_lines=3, log_line_chars=5)
    body = "for (let i = 0; i < COUNT; i++) console.log('line number ' + i)"
    (full,) = await stand.turns(body.replace("COUNT", "3"), limits=limits)
    assert [log.text for log in full.logs] == ["line "] * 3
    (past,) = await stand.turns(body.replace("COUNT", "5"), limits=limits)
    assert [log.text for log in past.logs] == ["line "] * 3 + ["2 more lines were left out."]
    assert isinstance(past, Returned)


async def test_a_text_of_several_lines_is_several_lines(stand: Stand) -> None:
    """X4: each is cut and counted by itself."""
    limits = replace(LIMITS, log_lines=4, log_line_chars=5)
    body = "console.log('a\\n\\nlong line'); console.log({a: 'b\\nc'}); console.log('d\\ne\\nf')"
    (turn,) = await stand.turns(body, limits=limits)
    assert [log.text for log in turn.logs] == [
        "a",
        "",
        "long ",
        '{"a":',
        "3 more lines were left out.",
    ]


async def test_a_log_s_time_is_the_script_s_own(stand: Stand) -> None:
    """X4, X2: waiting for an answer is nobody's time."""
    sandbox = JavaScriptSandbox(stand.pool, LIMITS)
    body = "await ctx.a.b(); console.log('late'); return 1"
    loaded = await sandbox.load(Source(Language.JAVASCRIPT, HEAD + body + "}}});"), CATALOG)
    async with sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), RUNNING) as script:
        started_ms = Loop().monotonic_ms()
        await script.start()
        await asyncio.sleep(0.5)
        turn = await script.answer(1, None)
    waited_ms = Loop().monotonic_ms() - started_ms
    assert isinstance(turn, Returned)
    assert turn.logs[0].after_ms <= waited_ms - 490


# A script that turns the language against the bridge.


@pytest.mark.parametrize(
    "planted",
    [
        "Array.prototype[Symbol.iterator] = null; Array.prototype.push = null",
        "JSON.stringify = () => 'x'; JSON.parse = () => 1",
        "Object.defineProperty(Object.prototype, '1', {set() { throw 1 }})",
        "Object.defineProperty(Array.prototype, '1', {set() { throw 1 }})",
        "Promise.prototype.then = () => { throw 1 }; globalThis.Promise = null",
        "String.prototype.slice = null; Function.prototype.call = null",
        "Object.keys = Object.getPrototypeOf = Array.isArray = Number.isFinite = () => { throw 1 }",
        "RegExp.prototype.exec = () => { throw 1 }; Reflect.apply = null",
        "Error.prepareStackTrace = () => { throw 1 }; Error.stackTraceLimit = 0",
    ],
)
async def test_a_changed_language_does_not_change_the_bridge(stand: Stand, planted: str) -> None:
    """C3: what the bridge needs was held before the script came."""
    body = "const a = await ctx.a.b({x: [1, 2]}); console.log('said'); return {a, 'b c': [1.5]}"
    turns = await stand.turns(body, {"n": [1, 2]}, before=planted)
    assert isinstance(turns[0], Asked), turns[0]
    assert turns[0].calls[0].kwargs == {"x": [1, 2]}
    assert turns[1] == Returned({"a": {"n": [1, 2]}, "b c": [1.5]}, turns[1].logs)
    assert [log.text for log in turns[1].logs] == ["said"]


def test_a_script_stands_below_every_line_of_the_prelude() -> None:
    """X3: both sides mean the same line by it."""
    assert javascript.SCRIPT_LINE == javascript_worker.SCRIPT_LINE
    assert read_text().whole().count("\n") < javascript.SCRIPT_LINE
    assert find_place("    at f (<input>:1001:3)\n") == (1, 3)
    ours = "    at here (<input>:1000:1)\n    at map (native)\n"
    assert find_place(ours) == (None, None)
    assert find_place(ours + "    at f (<input>:1007:2)\n") == (7, 2)


@pytest.mark.parametrize("line", [1_001, 9_999, 10_001, 200_001])
async def test_a_line_is_right_however_far_down_it_stands(stand: Stand, line: int) -> None:
    """X3: of a call, of a throw and of a syntax error."""
    above = "\n" * (line - 2)
    (turn,) = await stand.turns(f"{above}await ctx.a.b()")
    assert isinstance(turn, Asked)
    assert turn.calls[0].line == line
    assert (await stand.broke(f"{above}throw new Error('x')")).line == line
    with pytest.raises(ScriptError, match="SyntaxError") as caught:
        await stand.load(f"\n{above}let x = ;")
    assert (caught.value.line, caught.value.column) == (line, 9)


async def test_two_workflows_see_each_their_own_catalogue(stand: Stand) -> None:
    """X3: the one they were loaded with, whatever was loaded since."""
    sandbox = JavaScriptSandbox(stand.pool, LIMITS)
    text = Source(Language.JAVASCRIPT, HEAD + "await ctx.sheets.appendRow({rowText: 1})}}});")
    other = Tool("sheets.append_row", ToolKind.READ, "x.y", parameters=(Parameter("row_text"),))
    catalogs = (CATALOG, Catalog((other,)), Catalog())
    calls = []
    for loaded in [await sandbox.load(text, catalog) for catalog in catalogs]:
        async with sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), FROZEN) as script:
            turn = await script.start()
            assert isinstance(turn, Asked)
            calls += [(call.path, dict(call.kwargs)) for call in turn.calls]
    assert calls == [
        ("sheets.append_row", {"rowText": 1}),
        ("sheets.append_row", {"row_text": 1}),
        ("sheets.appendRow", {"rowText": 1}),
    ]
