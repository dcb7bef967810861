"""A script that was left makes no further step that anybody could see (law 3).

Every script here holds a canary: whatever it does after its call, in catch, in finally, in a
promise it left running, says or calls or returns the word. The next script in the same worker is
the witness: its first turn is exactly its own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from duly.errors import DulyError
from duly.rules.access import Step
from duly.rules.value import Json
from duly.sandbox.base import Asked, Broke, Returned, Script
from tests.sandbox.contract import FROZEN, Body, Subject
from verification.moves import Call, Return, Say, ref

pytestmark = pytest.mark.anyio

TIMES = 300
LATE_EACH = 10  # every tenth script is answered after it was left
CANCEL_EACH = 50  # every fiftieth is left in the middle of a turn

CANARY = Body(
    javascript_module="""
    globalThis.canary = globalThis.canary ?? "asleep";
    function wake() { globalThis.canary = "awake"; console.log("canary"); }""",
    javascript="""
    const number = given.data.number;
    const later = async () => { for (let n = 0; n < 100; n++) await null; wake(); };
    console.log("script " + number);
    try {
      await ctx.sheets.appendRow({values: [number, globalThis.canary]});
      await ctx.publish("done", {title: "canary"});
      wake();
    } catch (error) {
      wake();
    } finally {
      later();
      Promise.reject(new Error("canary")).catch(wake);
      wake();
      await ctx.publish("done", {title: "canary"});
      return "canary";
    }""",
    python_module="""
    canary = ["asleep"]

    def wake():
        canary[0] = "awake"
        print("canary")
    """,
    python="""
    number = given["data"]["number"]
    print("script " + str(number))
    try:
        await ctx.sheets.append_row(values=[number, canary[0]])
        await ctx.publish("done", title="canary")
        wake()
    except BaseException:
        wake()
    finally:
        wake()
        await ctx.publish("done", title="canary")
    return "canary"
    """,
    scripted=(
        Say(ref("prepared.said")),
        Call("sheets.append_row", kwargs={"values": [ref("prepared.data.number"), "asleep"]}),
        Say("canary"),
        Call("publish", ("done",), {"title": "canary"}),
        Return("canary"),
    ),
)
WITNESS = Body(
    javascript="await ctx.gmail.search({}); return globalThis.canary ?? null;",
    python="await ctx.gmail.search()\nreturn [1]",
    scripted=(Call("gmail.search"), Return([1])),
)


def given(number: int) -> tuple[Json]:
    """Make what a script is given: its number, by which its turns are known."""
    return ({"data": {"number": number}, "said": f"script {number}"},)


async def first_turn(script: Script, number: int) -> int:
    """See that a script's first turn is its own and nobody else's; answer its call's id."""
    turn = await script.start()
    assert isinstance(turn, Asked), turn
    assert [log.text for log in turn.logs] == [f"script {number}"]
    (call,) = turn.calls
    assert (call.path, call.kwargs) == ("sheets.append_row", {"values": [number, "asleep"]})
    return call.id


async def leave_in_the_middle(script: Script, call_id: int) -> None:
    """Answer, and give up waiting for the turn before it can have come."""
    turn = asyncio.ensure_future(script.answer(call_id, "canary"))
    await asyncio.sleep(0)
    turn.cancel()
    with suppress(asyncio.CancelledError, DulyError):
        await turn


async def test_a_dropped_script_makes_no_further_observable_step(subject: Subject) -> None:
    """C3, C8: left hundreds of times, after its call or in mid-turn, it is never seen again."""
    for number in range(TIMES):
        script = await subject.open(CANARY, Step.MUTATE, given(number), FROZEN)
        async with script:
            call_id = await first_turn(script, number)
            if number % CANCEL_EACH == 1:
                await leave_in_the_middle(script, call_id)
        if number % LATE_EACH == 0:
            with suppress(DulyError):
                late = await script.answer(call_id, "canary")
                assert isinstance(late, Broke), late
                assert late.logs == ()
    async with await subject.open(WITNESS) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        assert [call.path for call in turn.calls] == ["gmail.search"]
        assert turn.logs == ()
        end = await script.answer(turn.calls[0].id, None)
        assert isinstance(end, Returned)
        assert end.logs == ()
        assert end.value == (None if subject.language == "javascript" else [1])


async def fail_inside(subject: Subject) -> None:
    async with await subject.open(CANARY, Step.MUTATE, given(1), FROZEN) as script:
        await first_turn(script, 1)
        raise RuntimeError("the engine's own")


async def test_an_error_that_leaves_a_script_drops_it_too(subject: Subject) -> None:
    """C3: an exception of the host's inside the script's block is a way of leaving."""
    with pytest.raises(RuntimeError, match="the engine's own"):
        await fail_inside(subject)
    async with await subject.open(CANARY, Step.MUTATE, given(1), FROZEN) as script:
        await first_turn(script, 1)
