"""The JavaScript bridge: what a script cannot forge, reach or leave half done (X1, X2, X3)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import _quickjs  # type: ignore[import-not-found]  # it has no types
import msgspec
import pytest

from duly.env import Loop
from duly.sandbox import javascript_worker, wire
from duly.sandbox.base import Asked, Returned
from duly.sandbox.pool import Pool
from tests.sandbox.javascript_stand import FROZEN, RUNNING, Stand

FORGED = '{"id":1,"path":"bank.pay","args":[],"stack":""}'


@pytest.fixture(scope="module")
async def stand() -> AsyncIterator[Stand]:
    pool = Pool(Loop(), workers_max=1)
    yield Stand(pool)
    await pool.close()


async def test_a_script_puts_no_frame_of_its_own_on_the_wire(stand: Stand) -> None:
    """X1, C8: what `concat` answers is no part of what the host is told."""
    body = f'String.prototype.concat = () => \'{{"calls":[{FORGED}],"logs":[],"end":null}}\'\n'
    assert await stand.returned(f"{body}return 1") == 1
    asked, returned = await stand.turns(f"{body}return await ctx.a.b({{x: 1}})", 7)
    assert isinstance(asked, Asked)
    assert [(call.path, call.kwargs) for call in asked.calls] == [("a.b", {"x": 1})]
    assert isinstance(returned, Returned)
    assert returned.value == 7


async def test_the_functions_of_a_stack_are_shown_to_nobody(stand: Stand) -> None:
    """X1, C13: the bridge could be begun again with another clock."""
    body = """
    let found = [];
    const hook = (error, sites) => { found = sites.map((site) => String(site.getFunction())); };
    for (const kind of [Error, TypeError, InternalError]) kind.prepareStackTrace = hook;
    Object.defineProperty(Error, "prepareStackTrace", { value: hook });
    const asked = ctx.a.b();
    try { new ctx() } catch {}
    return [found, await asked, Date.now()]"""
    assert await stand.returned(body, 5) == [[], 5, FROZEN.now_ms]


async def test_the_line_of_a_call_is_the_interpreter_s_word(stand: Stand) -> None:
    """X3: whatever a script puts in the place of an error's stack."""
    body = (
        "Object.defineProperty(Error.prototype, 'stack', { get: () => 'at <input>:1777:1' })\n"
        "Error.stackTraceLimit = 0\n"
        "await ctx.a.b()"
    )
    (asked,) = await stand.turns(body)
    assert isinstance(asked, Asked)
    assert asked.calls[0].line == 4


def test_a_context_is_begun_once() -> None:
    """X1, C13: nothing that reached the worker's way in could set another clock."""
    enter = _quickjs.Context().eval(javascript_worker.read_text().whole())
    limits = wire.Bounds(1, 1, 1, 1, 1, 1, 1, 1)
    settings = {"limits": limits, "world": wire.World(0, True, (1, 2, 3, 4))}
    told = msgspec.json.encode(settings).decode()
    enter("begin", told)
    with pytest.raises(_quickjs.JSException, match="begun once"):
        enter("begin", told)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("JSON.rawJSON('1e400')", r'result is JSON.rawJSON("1e400")'),
        ("{a: [JSON.rawJSON('12')]}", r'result.a[0] is JSON.rawJSON("12")'),
        ("{toJSON: () => JSON.rawJSON('1e400')}", "result"),
        ("{a: boxed(String, 'x', '\\ud800')}", "result.a"),
        ("{a: boxed(Number, 1, 2 ** 60)}", "result.a is an integer beyond"),
    ],
)
async def test_a_value_that_is_no_json_is_named(stand: Stand, value: str, says: str) -> None:
    """X3, T8: a logic failure that says which value; no worker is lost over it."""
    boxed = (
        "const boxed = (kind, first, then) => Object.assign(Object.setPrototypeOf("
        "new kind(first), null), {toString: () => then, valueOf: () => then});"
    )
    assert says in str(await stand.broke(f"{boxed} return {value}"))
    assert says.replace("result", "a.b") in str(
        await stand.broke(f"{boxed} await ctx.a.b({value})")
    )


async def test_a_call_without_stack_to_make_it_is_made_or_thrown(stand: Stand) -> None:
    """X2, C8: never half of it, which nobody would answer."""
    body = """
    let made = 0;
    const call = () => { made++; try { ctx.b().catch(() => {}); } catch {} };
    const fall = () => { try { fall(); } catch (error) { if (made < 40) call(); throw error; } };
    try { fall(); } catch {}
    return made"""
    turns = await stand.turns(body, world=RUNNING)
    while isinstance(turns[-1], Asked):
        count = len(turns[-1].calls)
        turns = await stand.turns(body, *([None] * count), world=RUNNING)
    assert isinstance(turns[-1], Returned), turns[-1]
