"""What came late, was first or is kept sits its exam: record_late, keep_handle and others."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.errors import NotFound, Stale
from duly.rules import lifecycle
from duly.rules.late import LateAnswer, read_late
from duly.rules.ledger import FirstSends, Stamp
from duly.rules.schedule import moment
from duly.rules.seal import judge
from duly.rules.word import Act, Answer, Verdict
from duly.rules.word import MutationStatus as Row
from duly.store.base import Durability
from duly.store.record import JournalEvent, Recorded
from tests.store.exam import Again, Case, ReadCase, Refusal, Trial, World, exam
from tests.store.scene import IN_FLIGHT, INDETERMINATE, KEY, arranged, journal, on, reached

TOLD = (JournalEvent("mutation.settled", "duly", "{}"),)
MUTATION = "mutation_1"
LATE = LateAnswer(1, moment(7_000), Answer.APPLIED, "in the end")


async def _record_late(world: World) -> None:
    scene = on(world)
    new = lifecycle.late(INDETERMINATE, Answer.APPLIED, is_definite=True)
    assert new is not None
    here = (scene.fence, scene.run_id, INDETERMINATE, new, Recorded(1, '{"id":7}'))
    await scene.store.record_late(*here, now=scene.tick(), announce=TOLD)


async def _see_settled(world: World, answer: None) -> None:
    row = await world.store.get_mutation(MUTATION)
    run = await world.store.get_run(on(world).run_id)
    assert (row.status, row.result, run.result) == (Row.APPLIED, '{"id":7}', '{"id":7}')
    assert run.state == lifecycle.late(INDETERMINATE, Answer.APPLIED, is_definite=True)
    assert journal(world) == ["mutation.settled"]


RECORD_LATE = Case(
    "record_late",
    arranged(INDETERMINATE),
    _record_late,
    _see_settled,
    Again.STALE,
    refusals=(Refusal("a row that is settled", Stale, broken=reached(Act.SKIP)),),
)


async def _keep_late(world: World) -> None:
    await world.store.keep_late_answer(MUTATION, LATE)


async def _see_kept(world: World, answer: None) -> None:
    row = await world.store.get_mutation(MUTATION)
    assert (read_late(row.late), row.status) == ((LATE,), Row.INDETERMINATE)


async def _keep_for_nothing(world: World) -> None:
    await world.store.keep_late_answer("mutation_9", LATE)


KEEP_LATE = Case(
    "keep_late_answer",
    arranged(INDETERMINATE),
    _keep_late,
    _see_kept,
    Again.STALE,
    refusals=(Refusal("a mutation nobody knows", NotFound, call=_keep_for_nothing),),
)


async def _list_first_sends(world: World) -> FirstSends:
    return await world.store.list_first_sends(KEY)


async def _see_first(world: World, answer: FirstSends) -> None:
    row = await world.store.get_mutation(MUTATION)
    assert row.first_sent_at is not None
    assert answer == FirstSends((Stamp(row.first_sent_at, None, 0),))


async def _see_none(world: World) -> None:
    assert await world.store.list_first_sends("another key") == FirstSends()


LIST_FIRST_SENDS = ReadCase(
    "list_first_sends", arranged(IN_FLIGHT), _list_first_sends, _see_first, edge=_see_none
)


async def _keep_handle(world: World) -> None:
    scene = on(world)
    await scene.store.keep_handle(scene.fence, MUTATION, 1, '"draft-1"', now=2_000_000)


async def _see_handle(world: World, answer: None) -> None:
    row = await world.store.get_mutation(MUTATION)
    key = await world.store.backend.transact(lambda tx: tx.seal_key, Durability.READ)
    assert (row.handle, row.status) == ('"draft-1"', Row.IN_FLIGHT)
    assert key is not None
    assert judge(key, row.facts, row.seal) is None


async def _keep_of_another_send(world: World) -> None:
    scene = on(world)
    await scene.store.keep_handle(scene.fence, MUTATION, 2, '"draft-1"', now=2_000_000)


KEEP_HANDLE = Case(
    "keep_handle",
    arranged(IN_FLIGHT),
    _keep_handle,
    _see_handle,
    Again.SAME,
    refusals=(
        Refusal("a row that is not in flight", Stale, broken=reached(Verdict.GIVEN_UP)),
        Refusal("a send that is over", Stale, call=_keep_of_another_send),
    ),
)


async def _note_end(world: World) -> bool:
    scene = on(world)
    return await scene.store.note_end(scene.fence, MUTATION, 1, 30_000)


async def _see_end(world: World, answer: bool) -> None:
    """See that what came first is believed: no later word makes a person wait again."""
    assert answer
    ended = await world.store.find_end(MUTATION)
    assert ended is not None
    assert ended >= 30_000
    assert await on(world).store.note_end(on(world).fence, MUTATION, 1, 10**12)
    assert await world.store.find_end(MUTATION) == ended


NOTE_END = Case("note_end", arranged(INDETERMINATE), _note_end, _see_end, Again.SAME)


async def _find_end(world: World) -> int | None:
    return await world.store.find_end(MUTATION)


async def _see_unknown_end(world: World, answer: int | None) -> None:
    assert answer is None


async def _see_no_end(world: World) -> None:
    """See that a send that is out, and one that was repeated since, have no end."""
    scene = on(world)
    assert not await scene.store.note_end(scene.fence, MUTATION, 1, 0)
    assert await scene.store.note_end(scene.fence, MUTATION, 2, 0) is False
    assert await world.store.find_end(MUTATION) is None


FIND_END = ReadCase("find_end", arranged(IN_FLIGHT), _find_end, _see_unknown_end, edge=_see_no_end)


@pytest.mark.parametrize(
    "trial", exam(RECORD_LATE, KEEP_LATE, LIST_FIRST_SENDS, KEEP_HANDLE, NOTE_END, FIND_END)
)
async def test_what_came_late_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """L1, L7: a late answer is kept once, on the disk; a key is as old as its first send."""
    await trial.sit(tmp_path)
