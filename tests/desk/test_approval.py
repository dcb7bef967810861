"""A person's yes and no: exactly the call that was shown, once, whatever happens around it (A4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from duly.config import Policy
from duly.desk.record import Approval, Preview
from duly.errors import DulyError, Invalid, NotFound, RequestRefused
from duly.rules.catalog import Risk
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Status, Waits
from duly.testing import Fault, Stage
from tests.engine.stand import CONSUMER, NAME, TOOL, Play, consumer, flow, opened, plan
from verification.moves import Call, Throw

ASKED = Policy(approvals={"*": "always"})
ANNA = "anna"


async def proposed(stage: Stage, script: Any = None, **tool: Any) -> tuple[Play, Approval]:
    """Bring a call before a person."""
    play = await opened(stage, policy=ASKED, **tool)
    await play.deploy(script or flow())
    await play.publish("a")
    await play.drain()
    (shown,) = await play.host.approvals()
    return play, shown


async def acts(play: Play) -> list[tuple[str, str, str | None, str | None]]:
    """Who did what to what, oldest first, without the deploys and what was published."""
    rows = [*reversed(await play.host.actions())][1:]
    told = [(each.by, each.verb, each.workflow, each.target) for each in rows]
    return [each for each in told if each[1] != "publish"]


# -- What is shown --------------------------------------------------------------------------------


async def test_what_the_script_claims_stands_apart_from_what_it_does(duly_world: Stage) -> None:
    """L11, A3: the title is shown as claimed beside tool and arguments, with the inputs."""
    lie = consumer(mutate=(Call(TOOL, (), {"text": "DELETE EVERYTHING"}),))
    play, shown = await proposed(duly_world, flow({CONSUMER: lie}))
    assert shown.claimed == "Add a row"
    assert shown.observed == Preview(TOOL, {"text": "DELETE EVERYTHING"})
    assert (shown.workflow, shown.inputs, shown.risk) == (NAME, ("Event",), Risk.MEDIUM)
    assert (shown.waits, shown.waits_on) == (Waits.APPROVAL, None)
    mutation = await play.host.mutation(shown.mutation)
    assert (mutation.title, mutation.args) == (shown.claimed, shown.observed.args)
    assert mutation.hash == shown.hash


async def test_the_hash_changes_with_any_argument_and_any_input(duly_world: Stage) -> None:
    """L11, A4: what was approved for one call or one input is worth nothing for another."""
    play, first = await proposed(duly_world)
    hashes = {first.hash}
    other = consumer(mutate=(Call(TOOL, (), {"text": "other"}),))
    for script in (flow({CONSUMER: other}), flow()):
        await play.host.reject((await play.host.approvals())[0].mutation)
        await play.deploy(script)
        await play.publish(f"b{len(hashes)}", payload="a")  # the same text of another event
        await play.drain()
        (shown,) = await play.host.approvals()
        hashes.add(shown.hash)
    assert len(hashes) == 3


async def test_proposals_come_in_pages(duly_world: Stage) -> None:
    """A3: newest first, of one workflow or of all."""
    play = await opened(duly_world, policy=ASKED)
    for name in ("one", "two", "three"):
        await play.deploy(flow(name=name))
        await play.publish("a", name=name)
        await play.drain()
    three, two, one = await play.host.approvals()
    assert [each.workflow for each in (three, two, one)] == ["three", "two", "one"]
    assert await play.host.approvals(limit=1, before=three.mutation) == (two,)
    typed = (await play.host.short_ids([three.mutation]))[three.mutation]
    digits = typed.removeprefix("mutation_")
    assert await play.host.approvals(limit=1, before=digits) == (two,)
    ledger = await play.host.mutations(before=three.mutation)
    assert len(ledger) > 1
    assert await play.host.mutations(before=digits) == ledger
    assert await play.host.approvals("one") == (one,)
    with pytest.raises(Invalid, match="1 to 1000"):
        await play.host.approvals(limit=1001)


# -- Yes ------------------------------------------------------------------------------------------


async def test_an_approved_call_is_sent_once_as_it_was_recorded(duly_world: Stage) -> None:
    """A4, R4, A6: the same run goes on; mutate is not run again."""
    play, shown = await proposed(duly_world)
    run, before = await play.run(), await play.row()
    await play.host.approve(shown.mutation, shown.hash, by=ANNA)
    assert (play.sends(), (await play.row()).status) == (0, Row.IN_FLIGHT)
    await play.drain()
    row = await play.row()
    assert (row.id, row.key, row.args, row.attempt) == (before.id, before.key, before.args, 1)
    assert (await play.store.get_run(run.id)).status == Status.COMMITTED
    assert (duly_world.count(), await play.is_clean()) == (1, True)
    assert await play.payloads() == {"a": {"status": "applied", "result": {"row": 1}}}
    assert await play.host.approvals() == ()
    assert await acts(play) == [(ANNA, "approve", NAME, shown.mutation)]


async def test_an_approval_while_serving_is_acted_on_at_once(duly_world: Stage) -> None:
    """A4, S4: nobody waits for a poll."""
    play, shown = await proposed(duly_world)
    async with play.host.running():
        await play.host.approve(shown.mutation, shown.hash)
        await duly_world.advance(0)
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_of_two_approvals_at_once_one_is_refused(duly_world: Stage) -> None:
    """A4, A6: a double click sends once, and one act is recorded."""
    play, shown = await proposed(duly_world)
    async with play.host.running():
        answers = await asyncio.gather(
            *(play.host.approve(shown.mutation, shown.hash) for _ in range(3)),
            return_exceptions=True,
        )
        await duly_world.advance(60)
    assert [type(each) for each in answers].count(RequestRefused) == 2
    assert answers.count(None) == 1
    assert (duly_world.count(), play.sends(), await play.is_clean()) == (1, 1, True)
    assert len(await acts(play)) == 1
    assert [each.crash_count for each in await play.runs()] == [0] * len(await play.runs())


async def test_of_yes_and_no_at_once_one_is_taken(duly_world: Stage) -> None:
    """A4: whichever comes first; the other hears what became of it."""
    play, shown = await proposed(duly_world)
    answers = await asyncio.gather(
        play.host.reject(shown.mutation),
        play.host.approve(shown.mutation, shown.hash),
        return_exceptions=True,
    )
    await play.drain()
    assert sorted(isinstance(each, RequestRefused) for each in answers) == [False, True]
    assert await play.is_clean()
    assert duly_world.count() == (answers[1] is None)


@pytest.mark.parametrize("is_reconcilable", [True, False])
@pytest.mark.parametrize("is_orderly", [True, False])
async def test_an_approval_outlives_restarts_and_is_sent_once(
    duly_world: Stage, is_orderly: bool, is_reconcilable: bool
) -> None:
    """A4: nobody had begun to send, so nobody has to ask, and the person is not asked again."""
    play, shown = await proposed(duly_world, reconcile=is_reconcilable)
    run = await play.run()
    await play.host.approve(shown.mutation, shown.hash)
    for _ in range(4):
        if is_orderly:
            await play.host.close()
            play.host = await duly_world.host(**play.options)
        else:
            await play.restart()
    assert (await play.row()).status == Row.IN_FLIGHT
    await play.drain()
    assert (duly_world.count(), play.sends(), play.asks()) == (1, 1, 0)
    assert ((await play.run()).id, (await play.run()).crash_count) == (run.id, 0)
    assert await play.is_clean()


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_crash_around_the_send_time_sends_at_most_once(
    duly_world: Stage, moment: str
) -> None:
    """A4, L2, L3: before it is written nothing has left; once it is, the outside is asked."""
    play, shown = await proposed(duly_world)
    await play.host.approve(shown.mutation, shown.hash)
    await play.crash_during(send_approved=moment)
    await play.drain()
    if moment == "before":
        assert (duly_world.count(), play.sends(), play.asks()) == (1, 1, 0)
        assert await play.is_clean()
        return
    assert (play.sends(), (await play.row()).status) == (0, Row.NEEDS_RECONCILE)
    await play.pass_by(3600)
    assert [each.status for each in await play.rows()] == [Row.FAILED]
    await play.pass_by(60)
    assert [each.status for each in await play.rows()] == [Row.FAILED, Row.PROPOSED]
    assert play.sends() == 0


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
async def test_a_crash_of_an_approved_send_is_asked_about(duly_world: Stage, fault: Fault) -> None:
    """A4, L3: the recorded call is never sent a second time on a guess."""
    play, shown = await proposed(duly_world)
    plan(duly_world, fault)
    await play.host.approve(shown.mutation, shown.hash)
    await duly_world.crash(play.host, play.host.drain())
    play.host = await duly_world.host(**play.options)
    await play.drain()
    await play.pass_by(120)
    is_done = fault is Fault.CRASH_AFTER
    assert (play.sends(), duly_world.count()) == (1, is_done)
    assert (await play.rows())[0].status == (Row.APPLIED if is_done else Row.FAILED)


async def test_a_deploy_does_not_touch_a_waiting_proposal(duly_world: Stage) -> None:
    """A4, W9: after the approval `next` of the run's own version runs."""
    play, shown = await proposed(duly_world)
    await play.deploy(flow({CONSUMER: consumer(then=(Throw("the newer next"),))}))
    await play.drain()
    assert await play.host.approvals() == (shown,)
    await play.host.approve(shown.mutation, shown.hash)
    await play.drain()
    assert (await play.payloads(), duly_world.count()) == (
        {"a": {"status": "applied", "result": {"row": 1}}},
        1,
    )


async def test_a_pause_between_approval_and_send_holds_the_call(duly_world: Stage) -> None:
    """F7, A4: nothing is sent before resume, and then exactly once, also after a restart."""
    play, shown = await proposed(duly_world)
    await play.host.approve(shown.mutation, shown.hash)
    await play.host.pause(NAME)
    await play.pass_by(3600)
    await play.restart()
    await play.drain()
    assert (play.sends(), (await play.row()).status) == (0, Row.IN_FLIGHT)
    await play.host.resume(NAME)
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_pause_that_meets_the_send_stops_it(duly_world: Stage) -> None:
    """F7, L2: the write of the send time finds the pause."""
    play, shown = await proposed(duly_world)
    await play.host.approve(shown.mutation, shown.hash)
    send = play.store.send_approved

    async def paused_first(*args: Any, **named: Any) -> object:
        await play.host.pause(NAME)
        return await send(*args, **named)

    object.__setattr__(play.store, "send_approved", paused_first)
    await play.drain()
    object.__setattr__(play.store, "send_approved", send)
    assert play.sends() == 0
    await play.host.resume(NAME)
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_grant_taken_back_after_the_approval_stops_the_send(duly_world: Stage) -> None:
    """A1, A4, F4: nothing is sent; the grant brings the very same call, without asking again."""
    play, shown = await proposed(duly_world)
    await play.host.approve(shown.mutation, shown.hash)
    await play.host.revoke(NAME, TOOL)
    await play.drain()
    run = await play.run()
    assert (play.sends(), (await play.row()).status) == (0, Row.PROPOSED)
    assert (run.status, run.waits, run.waits_on) == (Status.PAUSED_APPROVAL, "grant", TOOL)
    with pytest.raises(RequestRefused, match="waits for a grant"):
        await play.host.approve(shown.mutation, shown.hash)
    assert await play.host.grant(NAME, TOOL)
    await play.drain()
    assert (duly_world.count(), (await play.row()).id) == (1, shown.mutation)
    assert await play.is_clean()


async def test_an_approved_call_whose_connector_is_gone_is_not_sent(duly_world: Stage) -> None:
    """L4, R9: definitely not sent, so the run is followed and nobody waits for ever."""
    play, shown = await proposed(duly_world)
    await play.host.approve(shown.mutation, shown.hash)
    sheet = duly_world.connectors.pop()
    await play.restart()
    await play.drain()
    assert (await play.row()).status == Row.FAILED
    duly_world.connectors.append(sheet)
    await play.restart()
    await play.pass_by(60)
    (again,) = await play.host.approvals()
    await play.host.approve(again.mutation, again.hash)
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


# -- No -------------------------------------------------------------------------------------------


async def test_a_rejected_call_is_never_sent_and_next_is_told(duly_world: Stage) -> None:
    """A4, R4, A6: the same run goes on with `skipped`, and its events end skipped."""
    play, shown = await proposed(duly_world)
    run = await play.run()
    await play.host.reject(shown.mutation, by=ANNA)
    await play.drain()
    assert (play.sends(), await play.payloads()) == (0, {"a": {"status": "skipped"}})
    assert (await play.statuses(), await play.is_clean()) == ({"a": "skipped"}, True)
    assert (await play.store.get_run(run.id)).status == Status.COMMITTED
    assert (await play.host.mutation(shown.mutation)).status is Row.REJECTED
    assert await acts(play) == [(ANNA, "reject", NAME, shown.mutation)]


async def test_of_two_rejections_at_once_the_loser_takes_nothing_away(duly_world: Stage) -> None:
    """A4, R7: the run stays in its host's hands, so nobody takes it for a crashed one."""
    play, shown = await proposed(duly_world)
    run = await play.run()
    answers = await asyncio.gather(
        *(play.host.reject(shown.mutation) for _ in range(2)), return_exceptions=True
    )
    assert [type(each) for each in answers].count(RequestRefused) == 1
    await play.drain()
    ended = await play.store.get_run(run.id)
    assert (ended.status, ended.crash_count) == (Status.COMMITTED, 0)
    assert len(await acts(play)) == 1


async def test_a_rejection_outlives_a_restart(duly_world: Stage) -> None:
    """A4, R5: the successor goes on to next; nothing is sent and nobody is asked again."""
    play, shown = await proposed(duly_world)
    await play.host.reject(shown.mutation)
    await play.restart()
    await play.drain()
    assert (play.sends(), await play.statuses()) == (0, {"a": "skipped"})
    assert await play.payloads() == {"a": {"status": "skipped"}}


async def test_a_rejection_while_paused_is_written_and_waits(duly_world: Stage) -> None:
    """F7, A4: an answer is taken; nothing follows from it before resume."""
    play, shown = await proposed(duly_world)
    await play.host.pause(NAME)
    await play.host.reject(shown.mutation)
    await play.drain()
    assert ((await play.row()).status, await play.payloads()) == (Row.REJECTED, {})
    await play.host.resume(NAME)
    await play.drain()
    assert (await play.payloads(), await play.is_clean()) == ({"a": {"status": "skipped"}}, True)


# -- Refusals -------------------------------------------------------------------------------------

Deed = Callable[[Play, Approval], Awaitable[object]]


async def _limit(play: Play, shown: Approval) -> None:
    await play.host.grant(NAME, TOOL, mutations_per_day=0)


async def _narrow(play: Play, shown: Approval) -> None:
    await play.host.grant(NAME, TOOL, where={"text": "b*"})


async def _lose_connector(play: Play, shown: Approval) -> None:
    play.stage.connectors.clear()
    await play.restart()


async def _nothing(play: Play, shown: Approval) -> None:
    pass


DEEDS: dict[str, tuple[Deed, str, str]] = {
    "another hash": (_nothing, "0" * 64, "Look at it again"),
    "after a rejection": (lambda p, s: p.host.reject(s.mutation), "", "rejected; it does not wait"),
    "after an approval": (
        lambda p, s: p.host.approve(s.mutation, s.hash),
        "",
        "in_flight; it does not wait",
    ),
    "after an abandon": (lambda p, s: p.host.abandon(s.run), "", "failed; it does not wait"),
    "after a retry": (lambda p, s: p.host.retry(s.run), "", "failed; it does not wait"),
    "while paused": (lambda p, s: p.host.pause(NAME), "", "Resume it first"),
    "without a grant": (lambda p, s: p.host.revoke(NAME, TOOL), "", "is not granted"),
    "past a limit": (_limit, "", "which is all its grant allows"),
    "outside a glob": (_narrow, "", "goes beyond the grant"),
    "without a connector": (_lose_connector, "", "this host does not have its connector"),
}


@pytest.mark.parametrize("deed", DEEDS)
async def test_a_refused_approval_says_why_and_sends_nothing(duly_world: Stage, deed: str) -> None:
    """A4, A1: no row of the ledger has changed, and no act is recorded."""
    do, seen, words = DEEDS[deed]
    play, shown = await proposed(duly_world)
    await do(play, shown)
    row, done = await play.store.get_mutation(shown.mutation), await play.host.actions()
    with pytest.raises(RequestRefused, match=words) as refused:
        await play.host.approve(shown.mutation, seen or shown.hash)
    assert "workflow_" not in str(refused.value)
    assert await play.store.get_mutation(shown.mutation) == row
    assert (await play.host.actions(), play.sends()) == (done, 0)


@pytest.mark.parametrize("verb", ["approve", "reject"])
async def test_an_answer_to_nothing_is_refused(duly_world: Stage, verb: str) -> None:
    """A4: a mutation nobody knows, and one that was never proposed."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    more = ("hash",) if verb == "approve" else ()
    with pytest.raises(NotFound, match="no mutation"):
        await getattr(play.host, verb)("mutation_9", *more)
    with pytest.raises(RequestRefused, match="applied; it does not wait for approval"):
        await getattr(play.host, verb)((await play.row()).id, *more)
    with pytest.raises(DulyError):
        await play.host.approve((await play.row()).id, None)  # type: ignore[arg-type]
