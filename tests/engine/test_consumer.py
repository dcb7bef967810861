"""Consumers: three steps, one terminal call, one commit (C)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from duly.config import Policy, WorkflowPolicy
from duly.connectors.base import Connector, read
from duly.rules.value import Json
from duly.rules.word import Failure, Phase, Status
from duly.testing import Fault, Stage
from tests.engine.stand import (
    APPEND,
    CONSUMER,
    IN,
    NAME,
    NOTHING,
    OUT,
    PEEK_ONE,
    PREPARE,
    PRODUCER,
    RESERVE,
    TELL,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
)
from verification.moves import (
    Call,
    Each,
    Let,
    Move,
    Never,
    Return,
    Say,
    Throw,
    Wait,
    When,
    ref,
)

FIND = Call("sheet.find")


class Archive(Connector):
    """A connector with a read by id."""

    name = "archive"

    @read(by_id=True)
    async def get(self, number: str) -> str:
        return f"document {number}"


GET = Call("archive.get", (), {"number": "7"}, into="found")


async def acting(stage: Stage, *ids: str, play: Play | None = None, **steps: Any) -> Play:
    """Deploy a consumer of these steps, publish events to it and let it act."""
    play = play or await opened(stage)
    await play.deploy(flow({CONSUMER: consumer(**steps)}))
    await play.publish(*(ids or ("a",)))
    await play.drain()
    return play


async def said(play: Play) -> list[str]:
    """What the newest run logged."""
    lines = await play.host.logs((await play.run()).id)
    return [each.text for each in lines]


# -- The access table -----------------------------------------------------------------------------

ALLOWED = {
    ("find", "prepare"),
    ("get", "prepare"),
    ("peek", "prepare"),
    ("get_by_ids", "prepare"),
    ("append", "mutate"),
    ("publish", "then"),
}
CALLS = {
    "find": FIND,
    "get": GET,
    "append": Call(TOOL, (), {"text": "x"}),
    "peek": Call("peek", (IN,)),
    "get_by_ids": Call("get_by_ids", (IN, ["a"])),
    "publish": publish("p", OUT),
}
PLAIN: dict[str, tuple[Move, ...]] = {"prepare": PREPARE, "mutate": (), "then": ()}


@pytest.mark.parametrize("step", ["prepare", "mutate", "then"])
@pytest.mark.parametrize("called", CALLS)
async def test_each_step_may_do_what_the_table_says(
    duly_world: Stage, called: str, step: str
) -> None:
    """C2, C3: a forbidden call ends the run, and nothing after it is observed."""
    play = await opened(duly_world, connectors=(Archive(),))
    steps = {**PLAIN, step: (CALLS[called], Say("after"), *PLAIN[step])}
    await acting(duly_world, play=play, **steps)
    run = await play.run()
    if (called, step) in ALLOWED:
        assert (run.status, await play.statuses()) == (Status.COMMITTED, {"a": "consumed"})
        return
    assert (run.status, await said(play)) == (Status.FAILED_LOGIC, [])
    assert (await play.rows(), duly_world.effects) == ([], ())
    assert (await play.error())["tool"] == CALLS[called].path


async def test_a_policy_lets_mutate_read_by_id(duly_world: Stage) -> None:
    """C2: the variant of the table lets mutate read by id, and nothing else."""
    reads = {NAME: WorkflowPolicy(mutate_reads="by_id")}
    play = await opened(duly_world, policy=Policy(workflows=reads), connectors=(Archive(),))
    await acting(duly_world, play=play, mutate=(GET, Call(TOOL, (), {"text": ref("found")})))
    assert [each.args["text"] for each in duly_world.effects] == ["document 7"]
    await acting(duly_world, "b", play=play, mutate=(FIND,))
    assert (await play.run()).status == Status.FAILED_LOGIC


# -- prepare --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "field"),
    [
        ("text", "prepare"),
        ({"data": {}}, "reservations"),
        ({"reservations": [], "more": 1}, "more"),
        ({"reservations": [{"topic": OUT, "ids": ["a"]}]}, OUT),
        ({"reservations": [], "ui": {"title": " "}}, "title"),
    ],
)
async def test_a_prepare_result_of_another_shape_is_a_logic_failure(
    duly_world: Stage, returned: Json, field: str
) -> None:
    """C4: the failure names the field, and nothing is reserved."""
    play = await acting(duly_world, prepare=(Return(returned),))
    assert (await play.run()).status == Status.FAILED_LOGIC
    assert field in (await play.error())["message"]
    assert await play.statuses() == {"a": "pending"}


@pytest.mark.parametrize("ids", [["a", "nobody"], ["nobody"], ["old"], ["gone"], ["a", "old"]])
async def test_reserving_what_cannot_be_had_reserves_nothing(
    duly_world: Stage, ids: list[str]
) -> None:
    """C5: unknown, consumed and skipped events are a logic failure, all or nothing."""
    play = await acting(duly_world, "old", mutate=None)
    await play.host.pause(NAME)
    await play.publish("gone")
    await play.host.skip(NAME, IN, "gone")
    await play.host.resume(NAME)
    prepare = (
        Call("get_by_ids", (IN, ids)),
        Return({"reservations": [{"topic": IN, "ids": ids}]}),
    )
    await acting(duly_world, play=play, prepare=prepare)
    assert (await play.run()).status == Status.FAILED_LOGIC
    statuses = await play.statuses()
    assert (statuses, play.sends()) == ({"old": "consumed", "gone": "skipped", "a": "pending"}, 0)


async def test_reserving_a_consumed_event_for_ever_stops_by_itself(duly_world: Stage) -> None:
    """C5, F6: what was shown but not pending is a mistake, not a change to prepare again for."""
    play = await acting(duly_world, mutate=None)
    prepare = (
        Call("get_by_ids", (IN, ["a"]), into="pending"),
        Return(RESERVE),
    )
    await acting(duly_world, "b", play=play, prepare=prepare)
    assert (await play.run()).status == Status.FAILED_LOGIC
    assert len(await play.runs()) == 2


@pytest.mark.parametrize("change", ["replaced", "skipped"])
async def test_an_event_changed_under_a_running_prepare_is_prepared_again(
    duly_world: Stage, change: str
) -> None:
    """C5: the same run asks again, uncounted, and sees what is there now."""
    play = await opened(duly_world)
    prepare = (PEEK_ONE, FIND, When("pending", (Return(RESERVE),), (Return(NOTHING),)))
    await play.deploy(flow({CONSUMER: consumer(prepare)}))
    duly_world.plan("sheet.find", Fault.OK, Fault.SLOW(10))
    await play.drain()
    await play.publish("a", payload="old")
    async with play.host.running():
        await duly_world.advance(5)
        if change == "replaced":
            await play.publish("a", payload="new")
        else:
            await play.host.skip(NAME, IN, "a")
        await duly_world.advance(60)
    rows = [each.args["text"] for each in duly_world.effects]
    assert rows == (["new"] if change == "replaced" else [])
    looked = (await play.runs())[1]
    assert (looked.status, looked.logic_count, duly_world.calls.count("sheet.find")) == (
        Status.COMMITTED,
        0,
        3,
    )
    assert await play.is_clean()


async def test_duplicate_ids_count_once(duly_world: Stage) -> None:
    """C4: the event is reserved and consumed once."""
    returned = {"reservations": [{"topic": IN, "ids": ["a", "a"]}, {"topic": IN, "ids": ["a"]}]}
    play = await acting(duly_world, prepare=(Return(returned),), mutate=None)
    assert await play.statuses() == {"a": "consumed"}


async def test_what_prepare_gave_is_pinned_with_its_reservations(duly_world: Stage) -> None:
    """C6: a crash before the transaction leaves neither, one after it leaves both."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    await play.crash_during(prepare_run="before")
    assert ((await play.run()).prepared, await play.statuses()) == (None, {"a": "pending"})
    await play.crash_during(prepare_run="after")
    run = await play.run()
    assert (run.phase, await play.statuses()) == (Phase.PREPARED, {"a": "reserved"})
    assert run.prepared is not None
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_replacement_does_not_reach_what_was_pinned(duly_world: Stage) -> None:
    """C6: mutate sees the stored copy, also in a later run of the same chain that asks nothing."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(then=(TELL, Return(ref("prepared.data"))))}))
    plan(duly_world, Fault.SLOW(10))
    await play.publish("a", payload="old")
    async with play.host.running():
        await duly_world.advance(5)
        await play.publish("a", payload="new")
        await duly_world.advance(10)
    assert [each.args["text"] for each in duly_world.effects] == ["old"]
    assert (await play.handler()).state == '{"text":"old"}'


async def test_empty_reservations_skip_mutate_and_commit_the_state(duly_world: Stage) -> None:
    """C7: next is told that nothing was done."""
    empty = {"reservations": [{"topic": IN, "ids": []}], "data": {"text": "x"}}
    play = await acting(duly_world, prepare=(Return(empty),), then=(Return(ref("result")),))
    assert ((await play.handler()).state, play.sends()) == ('{"status":"none"}', 0)
    assert await play.statuses() == {"a": "pending"}


# -- mutate ---------------------------------------------------------------------------------------

AFTER = Call(TOOL, (), {"text": "a second"})


@pytest.mark.parametrize(
    "mutate",
    [
        (APPEND, Say("after"), AFTER),
        (Call(TOOL, (), APPEND.kwargs, waits=False), AFTER, Throw("late")),
        (
            Call(TOOL, (), APPEND.kwargs, waits=False),
            Call(TOOL, (), AFTER.kwargs, waits=False),
            Wait(),
            Say("after"),
        ),
        (Call(TOOL, (), APPEND.kwargs, waits=False), Say("after"), Return("dropped")),
        (Call(TOOL, (), APPEND.kwargs, waits=False), Never()),
    ],
    ids=["awaited", "then another and a throw", "gathered", "not awaited", "never ending"],
)
async def test_the_first_call_is_the_end_of_mutate(
    duly_world: Stage, mutate: tuple[Move, ...]
) -> None:
    """C8: exactly the first is sent, and nothing a later line does is observed."""
    play = await acting(duly_world, mutate=mutate)
    assert [each.args["text"] for each in duly_world.effects] == ["a"]
    assert (len(await play.rows()), await said(play)) == (1, [])
    assert await play.payloads() == {"a": {"status": "applied", "result": {"row": 1}}}


async def test_arguments_are_copied_at_the_call(duly_world: Stage) -> None:
    """C8: what the script changes afterwards is not what is sent."""
    call = Call(TOOL, (), {"text": ref("prepared.data.text")}, waits=False)
    play = await acting(duly_world, mutate=(call, Let("prepared.data.text", "changed")))
    assert [each.args["text"] for each in duly_world.effects] == ["a"]
    assert (await play.row()).args == '{"text":"a"}'


async def test_the_script_is_left_before_anything_is_sent(duly_world: Stage) -> None:
    """C8, L2: when the outside is called, the step is gone and the row is in the ledger."""
    play = await opened(duly_world)
    found: list[tuple[str, int]] = []

    async def append(text: str) -> None:
        sandbox: Any = play.desk.parts.sandbox
        found.append(((await play.row()).status, len(sandbox.running)))

    duly_world.connector("book", mutations={"write": append})
    await play.restart()
    await acting(duly_world, play=play, mutate=(Call("book.write", (), {"text": "x"}),))
    assert found == [("in_flight", 0)]


@pytest.mark.parametrize("mutate", [None, (), (Return("a value"),)], ids=["none", "empty", "value"])
async def test_no_call_leaves_no_row_and_consumes_the_events(
    duly_world: Stage, mutate: tuple[Move, ...] | None
) -> None:
    """C9: next is told `none`, whether or not there is a mutate."""
    play = await acting(duly_world, mutate=mutate)
    assert (await play.rows(), await play.statuses()) == ([], {"a": "consumed"})
    assert await play.payloads() == {"a": {"status": "none"}}


async def test_a_mutate_that_throws_sends_nothing(duly_world: Stage) -> None:
    """C9, F1: no row, and the events stay with the failed run."""
    play = await acting(duly_world, mutate=(Throw("no"),))
    run = await play.run()
    assert (run.status, run.phase, await play.rows()) == (Status.FAILED_LOGIC, Phase.MUTATING, [])
    assert await play.statuses() == {"a": "reserved"}


# -- next and commit ------------------------------------------------------------------------------


async def test_next_is_told_exactly_how_it_ended(duly_world: Stage) -> None:
    """C10: applied with its result, none, or skipped."""
    play = await acting(duly_world)
    assert await play.payloads() == {"a": {"status": "applied", "result": {"row": 1}}}
    await acting(duly_world, "b", play=play, mutate=())
    assert (await play.payloads())["b"] == {"status": "none"}


async def test_next_is_told_of_a_skip(duly_world: Stage) -> None:
    """C10, C11: after a person skipped the mutation the events end skipped."""
    play = await opened(duly_world, reconcile=False)
    plan(duly_world, Fault.AMBIGUOUS)
    await acting(duly_world, play=play)
    await play.host.settle((await play.row()).id, "skip")
    await play.drain()
    assert await play.payloads() == {"a": {"status": "skipped"}}
    assert (await play.statuses(), await play.is_clean()) == ({"a": "skipped"}, True)


async def test_a_result_of_nothing_is_null(duly_world: Stage) -> None:
    """C10, L9: `applied` without a result gives null."""
    play = await opened(duly_world)
    duly_world.connector("book", mutations={"write": lambda text: None})
    await play.restart()
    await acting(duly_world, play=play, mutate=(Call("book.write", (), {"text": "x"}),))
    assert await play.payloads() == {"a": {"status": "applied", "result": None}}


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_commit_is_all_or_nothing(duly_world: Stage, moment: str) -> None:
    """C11: events, publishes, state and wakeAt come together, and only once."""
    play = await opened(duly_world)
    reserve = {**RESERVE, "wake_at": "2026-01-01T01:00:00Z"}  # type: ignore[dict-item]
    prepare = (PEEK_ONE, When("pending", (Return(reserve),), (Return(NOTHING),)))
    then = (When("prepared.reservations", (TELL, Return({"n": 1}))),)
    await play.deploy(flow({CONSUMER: consumer(prepare, then=then)}))
    await play.drain()
    await play.publish("a")
    await play.crash_during(commit_run=moment)
    handler = await play.handler()
    found = (handler.state, handler.wake_at is None, await play.payloads(), await play.statuses())
    told = {"a": {"status": "applied", "result": {"row": 1}}}
    if moment == "before":
        assert found == (None, True, {}, {"a": "reserved"})
    else:
        assert found == ('{"n":1}', False, told, {"a": "consumed"})
    await play.drain()
    handler = await play.handler()
    assert (handler.state, await play.payloads()) == ('{"n":1}', told)
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_next_that_fails_publishes_nothing_and_sends_nothing_again(
    duly_world: Stage,
) -> None:
    """C11, R5: the successor begins at next, with the same result."""
    play = await acting(duly_world, then=(TELL, Throw("no")))
    assert ((await play.run()).status, await play.payloads()) == (Status.FAILED_LOGIC, {})
    await play.deploy(flow())
    await play.drain()
    assert await play.payloads() == {"a": {"status": "applied", "result": {"row": 1}}}
    assert (duly_world.count(), play.sends(), await play.is_clean()) == (1, 1, True)


# -- Many -----------------------------------------------------------------------------------------


async def test_a_fifo_consumer_drains_a_thousand_events(duly_world: Stage) -> None:
    """C7, S3: with no new event arriving, one run for each and one that finds nothing more."""
    duly_world.connector("book", reads={"ids": lambda: [f"{each:04}" for each in range(1000)]})
    play = await opened(duly_world)
    made = producer(Call("book.ids", into="all"), Each("all", "one", (publish(ref("one")),)))
    await play.deploy(flow({CONSUMER: consumer(mutate=None, then=None)}, {PRODUCER: made}))
    await play.drain()
    assert {*(await play.statuses()).values()} == {"consumed"}
    order = [str(each.finished_by) for each in await play.events()]
    assert all(one < other for one, other in pairwise(order))
    assert await play.is_clean()


async def test_failures_name_their_class(duly_world: Stage) -> None:
    """F1, C3: a forbidden call is the script's mistake."""
    play = await acting(duly_world, mutate=(FIND,))
    assert (await play.error())["class"] == Failure.LOGIC
