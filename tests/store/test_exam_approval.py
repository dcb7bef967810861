"""Answers of people sit their exam: approve, reject, and the send that follows a yes (A4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.errors import NotFound, RequestRefused, Stale
from duly.rules.lifecycle import Change
from duly.rules.word import Act
from duly.rules.word import MutationStatus as Row
from duly.store.record import MutationRow
from tests.store.exam import Again, Case, ReadCase, Refusal, Trial, World, exam
from tests.store.scene import (
    CAPABILITY,
    IN_FLIGHT,
    PROPOSED,
    REFUSED,
    REJECTED,
    WORKFLOW,
    abandon,
    arranged,
    journal,
    last_action,
    on,
    pause,
    reached,
)
from tests.store.test_exam_ledger import MUTATION, TOLD, row_of, state_of

# -- approve, reject ----------------------------------------------------------------------------


async def _approve(world: World, seen: str = "shown") -> MutationRow:
    scene = on(world)
    return await scene.store.approve(
        MUTATION,
        seen,
        seal="a yes",
        action=scene.action("approve"),
        now=scene.tick(),
        announce=TOLD,
    )


async def _approve_another(world: World) -> MutationRow:
    return await _approve(world, "another hash")


async def _see_approved(world: World, answer: MutationRow) -> None:
    row = await row_of(world)
    assert answer == row
    assert await state_of(world) == IN_FLIGHT
    assert (row.status, row.attempt, row.resends) == (Row.IN_FLIGHT, 0, 0)
    assert (row.first_sent_at, row.sent_at, row.is_unsent) == (None, None, True)
    assert last_action(world) == ("me", "approve", WORKFLOW, MUTATION)
    assert journal(world) == ["mutation.settled"]


async def _arrange_approved(world: World) -> None:
    await arranged(PROPOSED)(world)
    await _approve(world)


async def _send_approved(world: World) -> MutationRow:
    scene = on(world)
    return await scene.store.send_approved(
        scene.fence, scene.run_id, IN_FLIGHT, now=scene.tick() + 1
    )


async def _see_approved_sent(world: World, answer: MutationRow) -> None:
    row = await row_of(world)
    assert answer == row
    assert await state_of(world) == IN_FLIGHT
    assert (row.status, row.attempt, row.resends, row.is_unsent) == (Row.IN_FLIGHT, 1, 0, False)
    assert row.first_sent_at == row.sent_at == on(world).now + 2


async def _send_before(world: World) -> None:
    await _send_approved(world)


async def _reject(world: World, mutation_id: str = MUTATION) -> Change:
    scene = on(world)
    return await scene.store.reject(
        mutation_id, action=scene.action("reject"), now=scene.tick(), announce=TOLD
    )


async def _reject_nothing(world: World) -> Change:
    return await _reject(world, "mutation_9")


async def _see_rejected(world: World, answer: Change) -> None:
    row = await row_of(world)
    assert answer.run == await state_of(world) == REJECTED
    assert (row.status, row.attempt, row.sent_at) == (Row.REJECTED, 0, None)
    assert last_action(world) == ("me", "reject", WORKFLOW, MUTATION)


APPROVE = Case(
    "approve",
    arranged(PROPOSED),
    _approve,
    _see_approved,
    Again.REFUSED,
    refusals=(
        Refusal("another hash", RequestRefused, call=_approve_another, match="Look at it again"),
        Refusal("what was rejected", RequestRefused, broken=reached(Act.REJECT)),
        Refusal("a paused workflow", RequestRefused, broken=pause, match="Resume it first"),
        Refusal("what was withdrawn", Stale, broken=abandon, match="it is failed"),
    ),
)
SEND_APPROVED = Case(
    "send_approved",
    _arrange_approved,
    _send_approved,
    _see_approved_sent,
    Again.STALE,
    refusals=(
        Refusal("a paused workflow", Stale, broken=pause, match="is paused"),
        Refusal("what has left", Stale, broken=_send_before, match="it is in_flight"),
    ),
)
REJECT = Case(
    "reject",
    arranged(PROPOSED),
    _reject,
    _see_rejected,
    Again.REFUSED,
    refusals=(
        Refusal("what was approved", RequestRefused, broken=reached(Act.APPROVE)),
        Refusal("a mutation nobody knows", NotFound, call=_reject_nothing),
    ),
)


# -- count_sent ---------------------------------------------------------------------------------


async def _see_one(world: World, answer: int) -> None:
    assert answer == 1


async def _count_sent(world: World) -> int:
    return await world.store.count_sent(WORKFLOW, [CAPABILITY, "other.tool"], since=0)


async def _see_what_does_not_count(world: World) -> None:
    """See that another tool, another workflow, an earlier day and the row itself count nothing."""
    row = await row_of(world)
    assert row.sent_at is not None
    count, tools = world.store.count_sent, [CAPABILITY]
    assert await count(WORKFLOW, tools, since=row.sent_at) == 1
    assert await count(WORKFLOW, tools, since=row.sent_at + 1) == 0
    assert await count(WORKFLOW, tools, since=0, besides=MUTATION) == 0
    assert await count(WORKFLOW, ["other.tool"], since=0) == 0
    assert await count("workflow_9", tools, since=0) == 0


COUNT_SENT = ReadCase(
    "count_sent", arranged(REFUSED), _count_sent, _see_one, edge=_see_what_does_not_count
)


@pytest.mark.parametrize("trial", exam(APPROVE, SEND_APPROVED, REJECT, COUNT_SENT))
async def test_the_answers_of_people_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """L1, A4, A1: a row moves with its run, by the state it was seen in, once."""
    await trial.sit(tmp_path)
