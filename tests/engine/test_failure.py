"""Failures: waiting, escalating, and one open run that stops nobody else (F)."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from typing import Any, cast

import pytest

from duly.connectors.base import Applied, Connector, Verdict, mutation, read
from duly.connectors.base import Call as OutsideCall
from duly.errors import NotSent
from duly.rules.standing import Standing
from duly.rules.word import Failure, Kind, Status
from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    IN,
    NAME,
    NOTHING,
    PREPARE,
    PRODUCER,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
)
from verification import moves
from verification.moves import Call, Exceed, Lose, Never, Return, Throw

FIND = "sheet.find"
READING = (Call(FIND), *PREPARE)


async def reading(stage: Stage, *faults: Fault) -> Play:
    """A consumer whose prepare reads the outside, which has these troubles."""
    play = await opened(stage)
    stage.plan(FIND, *faults)
    await play.deploy(flow({CONSUMER: consumer(READING)}))
    await play.publish("a")
    return play


# -- Classes --------------------------------------------------------------------------------------


class Broken(Connector):
    """A connector with a bug in its read."""

    name = "broken"

    @read
    async def look(self) -> str:
        raise KeyError("ours")


@pytest.mark.parametrize(
    ("move", "failure", "status"),
    [
        (Throw("no", line=3), Failure.LOGIC, Status.FAILED_LOGIC),
        (Exceed("10 s CPU time"), Failure.LOGIC, Status.FAILED_LOGIC),
        (Never(), Failure.LOGIC, Status.FAILED_LOGIC),
        (Call("nobody.knows"), Failure.LOGIC, Status.FAILED_LOGIC),
        (Call(FIND, (), {"wrong": 1}), Failure.LOGIC, Status.FAILED_LOGIC),
        (Return({"reservations": [], "data": 1 << 60}), Failure.LOGIC, Status.FAILED_LOGIC),
        (Lose(), Failure.TRANSIENT, Status.PAUSED_TRANSIENT),
        (Call("broken.look"), Failure.INTERNAL, Status.FAILED_INTERNAL),
    ],
    ids=["throw", "limit", "stalled", "unknown tool", "argument", "result", "worker", "bug"],
)
async def test_a_failure_has_its_class(
    duly_world: Stage, move: Any, failure: Failure, status: Status
) -> None:
    """F1: decided where it is born, and kept with the run in words."""
    play = await opened(duly_world, connectors=(Broken(),))
    await play.deploy(flow({CONSUMER: consumer((move, Return(NOTHING)))}))
    await play.drain()
    error = await play.error()
    assert ((await play.run()).status, error["class"]) == (status, failure)
    assert error["message"]


READS = {
    "NOT_SENT": (Fault.NOT_SENT, Status.PAUSED_TRANSIENT),
    "RATE_LIMIT": (Fault.RATE_LIMIT(5), Status.PAUSED_TRANSIENT),
    "AMBIGUOUS": (Fault.AMBIGUOUS, Status.PAUSED_TRANSIENT),
    "TIMEOUT": (Fault.TIMEOUT_BEFORE, Status.PAUSED_TRANSIENT),
    "REFUSE": (Fault.REFUSE, Status.FAILED_LOGIC),
    "AUTH": (Fault.AUTH, Status.PAUSED_APPROVAL),
    "FORBID": (Fault.FORBID, Status.PAUSED_APPROVAL),
    "ERROR": (Fault.ERROR, Status.FAILED_INTERNAL),
}


@pytest.mark.parametrize("name", READS)
async def test_a_read_that_fails_stops_its_run(duly_world: Stage, name: str) -> None:
    """F1: each error of a connector's read, by its type."""
    fault, status = READS[name]
    play = await reading(duly_world, fault)
    await play.drain()
    run = await play.run()
    assert (run.status, await play.statuses()) == (status, {"a": "pending"})
    assert (await play.error())["tool"] == FIND


# -- Transient ------------------------------------------------------------------------------------


async def test_a_lost_worker_is_tried_five_times_and_then_escalated(duly_world: Stage) -> None:
    """F2: 10 s × 2ⁿ, each × 0.8–1.2, five successors; the sixth stop waits for a person."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer((Lose(), Return(NOTHING)))}))
    async with play.host.running():
        await duly_world.advance("1d")
    runs = await play.runs()
    waits = [(b.created_at - a.created_at) / 1000 for a, b in pairwise(runs)]
    assert [each.transient_count for each in runs] == [1, 2, 3, 4, 5, 6]
    for wait_s, planned_s in zip(waits, (10, 20, 40, 80, 160), strict=True):
        assert 0.8 * planned_s <= wait_s <= 1.2 * planned_s
    assert (
        len({round(wait / planned, 6) for wait, planned in zip(waits, (10, 20, 40), strict=False)})
        > 1
    )
    assert (runs[-1].due_at, bool(runs[-1].escalated)) == (None, True)
    assert [bool(each.escalated) for each in runs[:-1]] == [False] * 5
    assert (await play.host.workflow(NAME)).standing is Standing.NEEDS_ATTENTION


async def test_the_outside_can_ask_for_more_time(duly_world: Stage) -> None:
    """F2: not before Retry-After, and never more than a day."""
    play = await reading(duly_world, Fault.RATE_LIMIT(500), Fault.RATE_LIMIT(9_999_999))
    await play.drain()
    first = await play.run()
    assert first.due_at == play.now + 500_000
    await play.pass_by(500)
    assert (await play.run()).due_at == play.now + 86_400_000


async def test_count_and_time_outlive_a_restart(duly_world: Stage) -> None:
    """F2, S8: they are in the store, and a restart starts nothing early."""
    play = await reading(duly_world, *[Fault.NOT_SENT] * 2)
    await play.drain()
    due_at = (await play.run()).due_at
    await play.restart()
    await play.drain()
    run = await play.run()
    assert (run.due_at, run.outage_count, len(await play.runs())) == (due_at, 1, 1)
    await play.pass_by(12)
    assert (await play.run()).outage_count == 2


async def test_a_commit_ends_the_count(duly_world: Stage) -> None:
    """F2: the next chain begins at zero."""
    play = await reading(duly_world, Fault.NOT_SENT, Fault.OK, Fault.NOT_SENT)
    await play.drain()
    await play.pass_by(12)
    await play.publish("b")
    await play.drain()
    stopped = [each for each in await play.runs() if each.status == Status.PAUSED_TRANSIENT]
    assert [each.outage_count for each in stopped] == [1, 1]


async def test_a_persons_retry_ends_the_count(duly_world: Stage) -> None:
    """F2, R9: and does not wait."""
    play = await reading(duly_world, *[Fault.NOT_SENT] * 2)
    await play.drain()
    await play.host.retry((await play.run()).id)
    await play.drain()
    assert [each.outage_count for each in await play.runs()] == [1, 1]


# -- Logic and internal ---------------------------------------------------------------------------


async def test_the_third_logic_failure_is_told_to_a_person(duly_world: Stage) -> None:
    """F3: without a repairer already the first is; deploys by a person begin the count again."""
    play = await opened(duly_world)
    broken = flow({CONSUMER: consumer((Throw("no"),))})
    for count in range(1, 4):
        await play.deploy(broken)
        await play.drain()
        run = await play.run()
        assert (len(await play.runs()), run.logic_count, bool(run.escalated)) == (count, 1, True)
    await play.pass_by(86_400)
    assert len(await play.runs()) == 3


async def test_an_internal_failure_stops_the_workflow_until_a_person_retries(
    duly_world: Stage,
) -> None:
    """F5: a deploy does not move it, a retry does."""
    play = await reading(duly_world, Fault.ERROR)
    await play.drain()
    run = await play.run()
    assert (run.status, bool(run.escalated)) == (Status.FAILED_INTERNAL, True)
    await play.deploy(flow())
    await play.pass_by(86_400)
    assert (await play.run()).id == run.id
    await play.host.retry(run.id)
    await play.drain()
    assert (await play.statuses(), await play.is_clean()) == ({"a": "consumed"}, True)


# -- One open run ---------------------------------------------------------------------------------


async def test_an_open_run_holds_back_everything_else_of_its_workflow(duly_world: Stage) -> None:
    """F6: triggers accumulate; when it ends, all of them are found."""
    play = await opened(duly_world)
    plan(duly_world, Fault.REFUSE)
    poll = producer(publish("tick"), every="5m")
    await play.deploy(flow(producers={PRODUCER: poll}))
    await play.publish("a")
    await play.drain()
    held = await play.run()
    await play.publish("b")
    await play.pass_by(3600)
    assert (await play.run()).id == held.id
    await play.host.retry(held.id)
    await play.drain()
    assert {*(await play.statuses()).values()} == {"consumed"}
    assert Kind.PRODUCER in [each.kind for each in await play.runs()]


async def test_a_stopped_workflow_does_not_stop_another(duly_world: Stage) -> None:
    """F6: other workflows are unaffected."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer((Throw("no"),))}, name="broken"))
    await play.deploy(flow())
    await play.publish("a", name="broken")
    await play.publish("a")
    await play.drain()
    assert (await play.statuses(), duly_world.count()) == ({"a": "consumed"}, 1)


async def test_a_rate_limit_of_one_workflow_does_not_stop_another(duly_world: Stage) -> None:
    """K8: the one waits its time; the other makes its change with the same tool at once."""
    play = await opened(duly_world)
    plan(duly_world, Fault.RATE_LIMIT(30))
    await play.deploy(flow(name="limited"))
    await play.deploy(flow())
    await play.publish("a", name="limited")
    await play.drain()
    assert (await play.statuses(name="limited"), duly_world.count()) == ({"a": "reserved"}, 0)
    await play.publish("b")
    await play.drain()
    assert (await play.statuses(), duly_world.count()) == ({"b": "consumed"}, 1)
    await play.pass_by(29)
    assert duly_world.count() == 1
    await play.pass_by(1)
    assert duly_world.count() == 2


async def test_a_poison_event_can_be_skipped(duly_world: Stage) -> None:
    """F6, U3: the run that choked on it is retried, and the events behind it go through."""
    play = await opened(duly_world)
    plan(duly_world, Fault.REFUSE)
    await play.deploy(flow())
    await play.publish("poison", "fine")
    await play.drain()
    assert await play.statuses() == {"poison": "reserved", "fine": "pending"}
    assert await play.host.skip(NAME, IN, "poison")
    await play.drain()
    assert await play.statuses() == {"poison": "skipped", "fine": "consumed"}
    assert await play.is_clean()


# -- Crashes --------------------------------------------------------------------------------------


async def test_the_third_crash_in_a_row_gets_no_successor(duly_world: Stage) -> None:
    """R7: a person is told, and a restart changes nothing about that."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(mutate=None)}))
    await play.publish("a")
    for _ in range(3):
        await play.crash_during(commit_run="before")
    await play.drain()
    runs = await play.runs()
    assert [each.status for each in runs] == [Status.CRASHED] * 3
    assert [each.crash_count for each in runs][-1] == 3
    assert (runs[-1].open, bool(runs[-1].escalated)) == (1, True)
    await play.restart()
    await play.pass_by(86_400)
    assert len(await play.runs()) == 3
    await play.host.retry(runs[-1].id)
    await play.drain()
    assert await play.is_clean()


async def test_crashes_that_hold_an_unknown_mutation_are_always_followed(
    duly_world: Stage,
) -> None:
    """R7: such a successor runs no script and only asks."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    for _ in range(2):
        await play.crash_during(prepare_run="before")
    plan(duly_world, Fault.CRASH_AFTER)
    await duly_world.crash(play.host, play.host.drain())
    play.host = await duly_world.host(**play.options)
    await play.drain()
    assert (duly_world.count(), await play.statuses()) == (1, {"a": "consumed"})


async def test_a_crash_in_next_repeats_next_alone(duly_world: Stage) -> None:
    """R7, R5: the successor begins at emitting, with the row."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    for _ in range(2):
        await play.crash_during(commit_run="before")
    await play.drain()
    chain = [
        each for each in await play.runs() if each.row or each.retry_of or each.status == "crashed"
    ]
    assert len({each.chain for each in chain}) == 1
    assert (duly_world.count(), play.sends(), await play.is_clean()) == (1, 1, True)


# A connector whose own inside was cancelled, or that raises what is no Exception.


class Odd(BaseException):
    """Nothing anybody catches."""


class Cutting(Connector):
    """Every tool raises once."""

    name = "cut"

    def __init__(self, error: BaseException, where: str) -> None:
        self.errors = {where: error}

    def once(self, where: str) -> None:
        if (error := self.errors.pop(where, None)) is not None:
            raise error

    @read
    async def look(self) -> str:
        self.once("look")
        return "seen"

    @mutation(lag_s=1)
    async def change(self, call: OutsideCall) -> str:
        self.once("change")
        raise RuntimeError("?")

    @change.reconcile
    async def change_happened(self, call: OutsideCall) -> Verdict:
        self.once("change_happened")
        return Applied()


@pytest.mark.parametrize("where", ["look", "change", "change_happened"])
@pytest.mark.parametrize("error", [asyncio.CancelledError(), Odd()], ids=["cancelled", "odd"])
async def test_a_run_whose_connector_gave_up_is_not_left_lying(
    duly_world: Stage, where: str, error: BaseException
) -> None:
    """R7, L5, F1: the run fails, is asked about or is recovered; it never stays active for ever."""
    play = await opened(duly_world, connectors=(Cutting(error, where),))
    prepare = (moves.Call("cut.look"), *PREPARE)
    await play.deploy(flow({CONSUMER: consumer(prepare, (moves.Call("cut.change"),))}))
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(3600)
        assert (await play.run()).status in ("committed", "failed:internal")


# A connector that hands on a header as it came.


class Header(Connector):
    """It passes on the text of a header."""

    name = "header"

    @mutation
    async def change(self, call: OutsideCall) -> None:
        raise NotSent("busy", retry_after_s=cast(Any, "5"))


async def test_a_retry_after_in_words_leaves_a_definite_no_definite(duly_world: Stage) -> None:
    """L4, F2: not sent is not sent."""
    play = await opened(duly_world, connectors=(Header(),))
    await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("header.change"),))}))
    await play.publish("a")
    await play.drain()
    assert ((await play.row()).status, (await play.run()).status) == ("failed", "paused:transient")


# A call whose connection came back, but whose connector is not there any more.


async def test_a_call_without_its_connector_is_taken_back_and_told(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """F4, L4: nothing was sent, so it failed; nobody tries every ten seconds for ever."""
    play = await opened(duly_world)
    plan(duly_world, Fault.AUTH)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert (await play.row()).status == "proposed"
    kept = list(duly_world.connectors)
    duly_world.connectors.clear()
    await play.restart()
    assert await play.host.reconnect("sheet") == 1
    with caplog.at_level(logging.ERROR, "duly.engine"):
        await play.drain()
    assert not caplog.records
    assert (await play.row()).status == "failed"
    assert ((await play.run()).status, duly_world.count()) == (Status.PAUSED_TRANSIENT, 0)
    assert "this host does not have its connector" in (await play.error())["message"]
    duly_world.connectors.extend(kept)
    await play.restart()
    await play.pass_by(60)
    assert (await play.statuses(), duly_world.count()) == ({"a": "consumed"}, 1)
