"""The row says how its outcome became known (L12)."""

from __future__ import annotations

import pytest

from duly.config import Policy
from duly.rules.ledger import Knowledge
from duly.rules.word import Known
from duly.rules.word import MutationStatus as Row
from duly.testing import Fault, Stage
from tests.engine.stand import Play, flow, opened, plan
from tests.spoken import long


async def sent(stage: Stage, *faults: Fault, reconcile: tuple[Fault, ...] = ()) -> Play:
    """Let a call meet this outside."""
    play = await opened(stage)
    plan(stage, *faults, reconcile=reconcile)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    return play


@pytest.mark.parametrize(
    ("fault", "row"),
    [(Fault.OK, Row.APPLIED), (Fault.REFUSE, Row.FAILED), (Fault.NOT_SENT, Row.FAILED)],
)
async def test_the_answer_of_a_send_is_how_it_is_known(
    duly_world: Stage, fault: Fault, row: Row
) -> None:
    """L12: answered, and when."""
    play = await sent(duly_world, fault)
    first = (await play.rows())[0]
    assert (first.status, first.known) == (row, Knowledge(Known.ANSWERED))
    assert first.known_at == first.updated_at


@pytest.mark.parametrize("is_at_once", [True, False])
async def test_what_the_outside_said_when_it_was_asked_is_kept(
    duly_world: Stage, is_at_once: bool
) -> None:
    """L12: asked at once or later, and that it happened."""
    unsure = () if is_at_once else (Fault.UNSURE,)
    play = await sent(duly_world, Fault.TIMEOUT_AFTER, reconcile=unsure)
    if not is_at_once:
        assert (await play.row()).known is None
        await play.pass_by(30)
    row = await play.row()
    assert (row.status, row.known) == (Row.APPLIED, Knowledge(Known.ASKED, said="it happened"))
    shown = (await play.host.mutation(row.id)).known
    assert shown is not None
    assert (shown.how, shown.said) == (Known.ASKED, "it happened")


async def test_that_it_did_not_happen_is_known_by_asking(duly_world: Stage) -> None:
    """L12: the row that failed says so; the call made anew has its own."""
    play = await sent(duly_world, Fault.TIMEOUT_BEFORE)
    await play.pass_by(120)
    await play.pass_by(120)
    first, second = await play.rows()
    assert first.known == Knowledge(Known.ASKED, said="it did not happen")
    assert (first.status, second.known) == (Row.FAILED, Knowledge(Known.ANSWERED))


async def test_a_call_that_was_sent_again_says_so(duly_world: Stage) -> None:
    """L12, L7: the answer of the repeated send."""
    play = await opened(duly_world, idempotent=True, key_lifetime_s=86_400, reconcile=False)
    plan(duly_world, Fault.TIMEOUT_AFTER)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    row = await play.row()
    assert (row.status, row.attempt, row.known) == (Row.APPLIED, 2, Knowledge(Known.SENT_AGAIN))


@pytest.mark.parametrize("answer", ["happened", "did_not_happen", "skip"])
async def test_who_settled_it_stands_on_the_row(duly_world: Stage, answer: str) -> None:
    """L12, L10: by whom, and with which answer."""
    play = await opened(duly_world, reconcile=False)
    plan(duly_world, Fault.TIMEOUT_BEFORE)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    row = await play.row()
    assert (row.status, row.known) == (Row.INDETERMINATE, None)
    await play.pass_by(120)
    await play.host.settle(row.id, answer, by="anna")
    known = (await play.store.get_mutation(row.id)).known
    assert known == Knowledge(Known.SETTLED, by="anna", said=answer)


async def test_a_row_that_may_be_sent_again_is_not_known(duly_world: Stage) -> None:
    """L12, F4: a sign-in that is missing is no outcome; a withdrawn call was answered."""
    play = await sent(duly_world, Fault.AUTH)
    row = await play.row()
    assert (row.status, row.known) == (Row.PROPOSED, None)
    await play.host.abandon((await play.run()).id)
    row = await play.row()
    assert (row.status, row.known) == (Row.FAILED, Knowledge(Known.ANSWERED))


async def test_a_proposal_that_was_withdrawn_was_never_sent(duly_world: Stage) -> None:
    """L12, R9: nothing left, so nothing happened."""
    play = await opened(duly_world, policy=Policy(approvals={"*": "always"}))
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await play.host.abandon((await play.run()).id)
    assert (await play.row()).known == Knowledge(Known.UNSENT)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.OK, "The outside answered."),
        (Fault.TIMEOUT_AFTER, "Duly asked the outside, which said: “it happened”."),
    ],
)
async def test_why_says_how_it_is_known(duly_world: Stage, fault: Fault, words: str) -> None:
    """L12, U7: after what became of it."""
    play = await sent(duly_world, fault)
    why = await play.host.why((await play.row()).id)
    assert words in long(play.host, why)
