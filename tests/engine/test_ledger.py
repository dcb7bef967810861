"""The ledger at work: what every answer of the outside makes of the row and of the run (L)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.config import Policy
from duly.errors import ConnectorError, NotSent, Transient, UnknownOutcome
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Phase, Status
from duly.testing import Fault, Stage
from duly.testing.crash import Moment
from tests.engine.stand import (
    CONSUMER,
    IN,
    NAME,
    PRODUCER,
    RECONCILE,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
    timed,
)
from verification.moves import Call, Say

LAG_S = 60
TIMEOUT_S = 30


async def sent(
    stage: Stage, *faults: Fault, reconcile: tuple[Fault, ...] = (), **tool: Any
) -> Play:
    """Let one event meet these faults at its mutation, as far as it goes now."""
    play = await opened(stage, **tool)
    plan(stage, *faults, reconcile=reconcile)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    return play


async def found(play: Play) -> tuple[str, str]:
    """How the newest row and the newest run stand."""
    return (await play.row()).status, (await play.run()).status


# -- Every answer ---------------------------------------------------------------------------------

DEFINITE = {
    "NOT_SENT": (Fault.NOT_SENT, Row.FAILED, Status.PAUSED_TRANSIENT),
    "RATE_LIMIT": (Fault.RATE_LIMIT(60), Row.FAILED, Status.PAUSED_TRANSIENT),
    "REFUSE": (Fault.REFUSE, Row.FAILED, Status.FAILED_LOGIC),
    "REFUSE_REMEMBERED": (Fault.REFUSE_REMEMBERED, Row.FAILED, Status.FAILED_LOGIC),
    "AUTH": (Fault.AUTH, Row.PROPOSED, Status.PAUSED_APPROVAL),
    "FORBID": (Fault.FORBID, Row.PROPOSED, Status.PAUSED_APPROVAL),
}


@pytest.mark.parametrize("name", DEFINITE)
async def test_a_definite_no_settles_the_row(duly_world: Stage, name: str) -> None:
    """L4: not sent, refused, sign-in and permission: nobody is asked, the event stays reserved."""
    fault, row, status = DEFINITE[name]
    play = await sent(duly_world, fault)
    assert await found(play) == (row, status)
    assert (play.asks(), await play.statuses()) == (0, {"a": "reserved"})


@pytest.mark.parametrize("name", ["NOT_SENT", "RATE_LIMIT"])
async def test_what_was_not_done_is_done_by_the_successor(duly_world: Stage, name: str) -> None:
    """L4, R5, L7: a fresh run makes the call again, under the same key."""
    play = await sent(duly_world, DEFINITE[name][0])
    await play.pass_by(90)
    first, second = await play.rows()
    assert (first.key, first.status, second.status) == (second.key, Row.FAILED, Row.APPLIED)
    assert (duly_world.count(), await play.is_clean()) == (1, True)


@pytest.mark.parametrize(
    ("fault", "waits_on"), [(Fault.AUTH, ("connection", "sheet")), (Fault.FORBID, ("grant", TOOL))]
)
async def test_a_call_that_waits_for_a_person_is_sent_as_it_was(
    duly_world: Stage, fault: Fault, waits_on: tuple[str, str]
) -> None:
    """L4, L7, R4: the same run, the same row, the same key, one attempt more."""
    play = await sent(duly_world, fault)
    run, row = await play.run(), await play.row()
    assert (run.waits, run.waits_on) == waits_on
    await play.pass_by(86_400)
    assert play.sends() == 1
    action = play.desk.action("me", "act")
    if fault is Fault.AUTH:
        await play.store.reconnect("sheet", action=action, now=play.now)
    else:
        await play.store.grant(run.workflow_id, TOOL, action=action, now=play.now)
    await play.drain()
    again = await play.row()
    assert (again.id, again.key, again.attempt) == (row.id, row.key, 2)
    assert ((await play.runs())[-1].id, again.held_by) == (run.id, run.id)
    assert (duly_world.count(), await play.is_clean()) == (1, True)


UNKNOWN = (
    Fault.AMBIGUOUS,
    Fault.TIMEOUT_AFTER,
    Fault.ERROR_AFTER,
    Fault.MALFORMED,
)


@pytest.mark.parametrize("fault", UNKNOWN, ids=lambda fault: fault.name)
async def test_an_unknown_call_that_happened_is_found_at_once(
    duly_world: Stage, fault: Fault
) -> None:
    """L4, L5: the outside is asked inline, and the same run goes on to next."""
    play = await sent(duly_world, fault)
    assert await found(play) == (Row.APPLIED, Status.COMMITTED)
    assert (play.sends(), play.asks(), duly_world.count()) == (1, 1, 1)
    assert (await play.payloads())["a"] == {"status": "applied", "result": {"row": 1}}
    assert len([each for each in await play.runs() if each.row]) == 1


@pytest.mark.parametrize("fault", UNKNOWN, ids=lambda fault: fault.name)
async def test_without_a_way_to_ask_a_person_is_asked_at_once(
    duly_world: Stage, fault: Fault
) -> None:
    """L5, L8: indeterminate, escalated, and nothing is ever sent again."""
    play = await opened(duly_world, reconcile=False)
    plan(duly_world, fault)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert await found(play) == (Row.INDETERMINATE, Status.PAUSED_RECONCILIATION)
    assert (await play.run()).escalated
    await play.pass_by(86_400)
    assert (play.sends(), await play.statuses()) == (1, {"a": "reserved"})


@pytest.mark.parametrize(
    ("error", "row"),
    [
        (Transient("503"), Row.INDETERMINATE),
        (Transient("busy", outcome="not_sent"), Row.FAILED),
        (Transient("slow down", outcome="refused"), Row.FAILED),
        (NotSent("no route"), Row.FAILED),
        (UnknownOutcome("this key was used with other parameters"), Row.INDETERMINATE),
        (ConnectorError("refused: no such sheet"), Row.INDETERMINATE),
        (ConnectionResetError("refused"), Row.INDETERMINATE),
        (TimeoutError("not sent"), Row.INDETERMINATE),
        (KeyError("answer"), Row.INDETERMINATE),
    ],
    ids=repr,
)
async def test_an_error_is_judged_by_its_type_and_mark(
    duly_world: Stage, error: Exception, row: Row
) -> None:
    """L4: never by the text of its message; what is not classified is unknown."""
    play = await opened(duly_world)

    def write(text: str) -> None:
        raise error

    duly_world.connector("book", mutations={"write": write}, reconcile=False)
    await play.restart()
    await play.deploy(flow({CONSUMER: consumer(mutate=(Call("book.write", (), {"text": "x"}),))}))
    await play.publish("a")
    await play.drain()
    assert (await play.row()).status == row


# -- Before the first byte ------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_crash_at_the_send_never_leaves_a_call_unwritten(
    duly_world: Stage, moment: Moment
) -> None:
    """L2: without a row nothing was sent; with one nobody knows, so it is asked about."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    await play.crash_during(send=moment)
    assert (play.sends(), len(await play.rows())) == (0, moment == "after")
    await play.drain()
    await play.pass_by(LAG_S + 20)
    await play.pass_by(20)
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_the_row_says_exactly_what_is_sent(duly_world: Stage) -> None:
    """L2, L11: tool, parameters, title, key, attempt and send time stand there when it is sent."""
    play = await opened(duly_world)
    seen: list[tuple[object, ...]] = []

    async def write(text: str) -> str:
        row = await play.row()
        seen.append((row.status, row.tool, row.args, row.title, row.attempt, row.sent_at))
        return row.key

    duly_world.connector("book", mutations={"write": write})
    await play.restart()
    await play.deploy(flow({CONSUMER: consumer(mutate=(Call("book.write", (), {"text": "x"}),))}))
    await play.publish("a")
    await play.drain()
    assert seen == [("in_flight", "book.write", '{"text":"x"}', "Add a row", 1, play.now)]
    (effect,) = duly_world.effects
    assert effect.key == effect.result == (await play.row()).key


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
async def test_a_call_out_at_a_crash_is_unknown_and_asked_about(
    duly_world: Stage, fault: Fault
) -> None:
    """L3, R7, L1: the phase decides nothing; the successor holds the row and runs no script."""
    play = await opened(duly_world)
    plan(duly_world, fault, reconcile=(Fault.UNSURE,))
    await play.deploy(
        flow({CONSUMER: consumer(mutate=(Say("asked"), *consumer()["moves"]["mutate"]))})
    )
    await play.publish("a")
    await duly_world.crash(play.host, play.host.drain())
    play.host = await duly_world.host(**play.options)
    first = await play.run()
    assert await found(play) == (Row.IN_FLIGHT, Status.ACTIVE)
    await play.drain()
    heir, row = await play.run(), await play.row()
    assert (row.status, row.run_id, row.held_by) == (Row.NEEDS_RECONCILE, first.id, heir.id)
    assert (heir.phase, heir.status) == (Phase.MUTATING, Status.PAUSED_RECONCILIATION)
    assert (heir.prepared, heir.logs, play.sends()) == (first.prepared, None, 1)
    assert (await play.runs())[0].status == Status.CRASHED
    async with play.host.running():
        await duly_world.advance("1h")
    assert (duly_world.count(), await play.is_clean()) == (1, True)


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_applied_its_result_and_the_phase_are_one_transaction(
    duly_world: Stage, moment: Moment
) -> None:
    """L9, L3: before it the call is out; after it all three are there."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    await play.crash_during(record=moment)
    run, row = await play.run(), await play.row()
    if moment == "before":
        assert (run.phase, run.result, row.status) == (Phase.MUTATING, None, Row.IN_FLIGHT)
    else:
        told = '{"row":1}'
        assert (run.phase, run.result, row.result) == (Phase.MUTATED, told, told)
        assert row.status == Row.APPLIED
    await play.drain()
    assert (await play.payloads())["a"] == {"status": "applied", "result": {"row": 1}}
    assert (duly_world.count(), play.sends(), await play.is_clean()) == (1, 1, True)


# -- When absence is believed ---------------------------------------------------------------------


async def due_in_s(play: Play) -> float:
    due_at = (await play.row()).due_at
    assert due_at is not None
    return (due_at - play.now) / 1000


async def test_it_did_not_happen_is_believed_only_after_the_lag(duly_world: Stage) -> None:
    """L6: an earlier answer is no answer, uses up no attempt, and is asked for again then."""
    play = await sent(duly_world, Fault.AMBIGUOUS_BEFORE)
    assert await found(play) == (Row.NEEDS_RECONCILE, Status.PAUSED_RECONCILIATION)
    assert (await due_in_s(play), (await play.row()).asks) == (LAG_S, 0)
    await play.pass_by(LAG_S - 1)
    assert (play.asks(), play.sends()) == (1, 1)
    await play.pass_by(1)
    run = await play.run()
    assert await found(play) == (Row.FAILED, Status.PAUSED_TRANSIENT)
    # It broke off on the way, so it counts as an outage of the outside (F2).
    assert (run.outage_count, run.transient_count, play.sends()) == (1, 0, 1)
    await play.pass_by(13)
    assert (play.sends(), duly_world.count(), await play.is_clean()) == (2, 1, True)


async def test_the_lag_begins_when_the_send_ended(duly_world: Stage) -> None:
    """L6: not at the recorded send time; here it ended by our own time limit."""
    play = await sent(duly_world, Fault.TIMEOUT_BEFORE)
    row = await play.row()
    assert row.sent_at is not None
    assert (play.now - row.sent_at, await due_in_s(play)) == (TIMEOUT_S * 1000, LAG_S)


async def test_the_lag_begins_when_this_host_took_the_row_over(duly_world: Stage) -> None:
    """L6, R7: a host that did not see the send end counts from its own start."""
    play = await opened(duly_world)
    plan(duly_world, Fault.CRASH_BEFORE)
    await play.deploy(flow())
    await play.publish("a")
    await duly_world.crash(play.host, play.host.drain())
    await duly_world.advance(1000)
    play.host = await duly_world.host(**play.options)
    await duly_world.advance(20)
    await play.drain()
    assert (await found(play))[0] == Row.NEEDS_RECONCILE
    assert await due_in_s(play) == LAG_S - 20


async def test_a_late_request_is_not_overtaken(duly_world: Stage) -> None:
    """L6: what lands within the lag is found, not made a second time."""
    play = await sent(duly_world, Fault.LATE(50))
    assert (await found(play))[0] == Row.NEEDS_RECONCILE
    async with play.host.running():
        await duly_world.advance("1h")
    assert (duly_world.count(), play.sends(), await play.is_clean()) == (1, 1, True)


async def test_a_send_that_goes_on_after_its_time_has_not_ended(duly_world: Stage) -> None:
    """L6: the lag begins when it really returned, like a thread that cannot be stopped."""
    play = await opened(duly_world)

    async def stubborn(text: str) -> None:
        end = asyncio.get_running_loop().time() + 80
        while (left := end - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue
        raise UnknownOutcome("too late")

    duly_world.connector("book", mutations={"write": stubborn})
    await play.restart()
    await play.deploy(flow({CONSUMER: consumer(mutate=(Call("book.write", (), {"text": "x"}),))}))
    began_s = duly_world.loop.time()
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance(80 + LAG_S - 1)
        assert (await play.row()).status == Row.NEEDS_RECONCILE
        await duly_world.advance(2)
        assert (await play.rows())[0].status == Row.FAILED
    assert duly_world.loop.time() - began_s == 80 + LAG_S + 1


# -- Asking ---------------------------------------------------------------------------------------


async def test_questions_come_at_their_times_and_end_with_a_person(duly_world: Stage) -> None:
    """L5: inline, then five in the background at 10 s × 2ⁿ, then indeterminate and escalated."""
    calls = timed(duly_world)
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,) * 9)
    async with play.host.running():
        await duly_world.advance("1h")
    assert calls.times(RECONCILE) == [0, 10, 30, 70, 150, 310]
    assert await found(play) == (Row.INDETERMINATE, Status.PAUSED_RECONCILIATION)
    assert (await play.run()).escalated
    assert play.sends() == 1


async def test_questions_are_counted_across_restarts(duly_world: Stage) -> None:
    """L5, S8: count and time are in the store."""
    calls = timed(duly_world)
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,) * 9)
    await play.pass_by(10)
    await play.restart()
    await play.drain()
    assert ((await play.row()).asks, await due_in_s(play)) == (1, 20)
    async with play.host.running():
        await duly_world.advance("1h")
    assert calls.times(RECONCILE) == [0, 10, 30, 70, 150, 310]


@pytest.mark.parametrize(
    "trouble", [Fault.ERROR, Fault.NOT_SENT, Fault.TIMEOUT_BEFORE, Fault.UNSURE]
)
async def test_a_question_that_fails_is_no_answer(duly_world: Stage, trouble: Fault) -> None:
    """L5: an error and a time limit of 30 s are as good as Unsure."""
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=(trouble,))
    assert await found(play) == (Row.NEEDS_RECONCILE, Status.PAUSED_RECONCILIATION)
    assert duly_world.loop.time() == (30 if trouble is Fault.TIMEOUT_BEFORE else 0)
    await play.pass_by(10)
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_what_asking_finds_goes_on_in_the_same_run(duly_world: Stage) -> None:
    """L5, R4: a background answer is applied with its result, and next runs."""
    play = await sent(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,))
    run = await play.run()
    await play.pass_by(10)
    done = next(each for each in await play.runs() if each.id == run.id)
    assert (done.status, done.result) == (Status.COMMITTED, '{"row":1}')
    assert await play.payloads() == {"a": {"status": "applied", "result": {"row": 1}}}


async def test_while_unknown_nothing_else_of_the_workflow_runs(duly_world: Stage) -> None:
    """L8: no run starts, nothing is repeated by resume or deploy, the event stays reserved."""
    play = await opened(duly_world, reconcile=False)
    plan(duly_world, Fault.AMBIGUOUS_BEFORE)
    script = flow(producers={PRODUCER: producer(publish("tick"), every="5m")})
    await play.deploy(script)
    await play.publish("a")
    await play.drain()
    before = len(await play.runs())
    await play.host.pause(NAME)
    await play.host.resume(NAME)
    await play.deploy(script)
    await play.pass_by(86_400)
    await play.restart()
    await play.drain()
    assert (len(await play.runs()), play.sends()) == (before, 1)
    assert (await play.statuses())["a"] == "reserved"


# -- Approval -------------------------------------------------------------------------------------


async def test_a_call_that_needs_approval_is_written_and_not_sent(duly_world: Stage) -> None:
    """A3, L1: proposed with what was observed; a retry withdraws it."""
    play = await opened(duly_world, policy=Policy(approvals={"*": "always"}))
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert (await found(play), play.sends()) == ((Row.PROPOSED, Status.PAUSED_APPROVAL), 0)
    await play.host.retry((await play.run()).id)
    await play.drain()
    assert [each.status for each in await play.rows()] == [Row.FAILED, Row.PROPOSED]
    assert (await play.statuses(IN), play.sends()) == ({"a": "reserved"}, 0)
