"""The seals of rows that ended sit their exam (L15)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.errors import Stale
from duly.rules.ledger import inputs_digest
from duly.rules.seal import Flaw
from duly.store.base import Durability
from duly.store.seal import EndSeal, Flawed, find_flaws
from tests.store.exam import Again, Case, ReadCase, Refusal, Trial, World, exam
from tests.store.scene import WORKFLOW
from tests.store.test_exam_allowance import _allowed
from tests.store.test_exam_ledger import MUTATION, row_of

KEY = b"k" * 32
UNSEALED: dict[str, Any] = {"old_key": None, "new_key": KEY, "has_unsealed": True}


async def _ended(world: World) -> None:
    """Bring a row to its end, as a schema without seals would have left it."""
    await _allowed(world)
    row = await row_of(world)
    run = await world.store.get_run(row.held_by)
    taken = await world.store.list_inputs(run.id)
    inputs = inputs_digest(
        row.workflow_id, run.handler, ((each.topic, each.message_id) for each in taken)
    )
    world.connection.execute("update mutation set seal = null, inputs = ?", (inputs,))


async def _list(world: World) -> Any:
    return await world.store.list_ended(**UNSEALED)


async def _see_one(world: World, answer: Any) -> None:
    ((seal,), after) = answer
    assert (seal.id, seal.old, after) == (MUTATION, None, MUTATION)


async def _see_none(world: World) -> None:
    assert await world.store.list_ended(old_key=None, new_key=KEY, has_unsealed=False) == (
        (),
        MUTATION,
    )
    assert await world.store.list_ended(**UNSEALED, after=MUTATION) == ((), None)


async def _reseal(world: World) -> None:
    if "seals" not in world.kept:
        world.kept["seals"], _ = await world.store.list_ended(**UNSEALED)
    await world.store.reseal_ended(world.kept["seals"])


async def _arrange_seals(world: World) -> None:
    await _ended(world)
    world.kept["seals"], _ = await world.store.list_ended(**UNSEALED)


async def _see_sealed(world: World, answer: None) -> None:
    row = await row_of(world)
    assert row.digests is not None
    assert await _flaws(world) == ()
    world.connection.execute("update mutation set attempt = attempt + 1")
    assert await _flaws(world) == (Flawed(MUTATION, WORKFLOW, Flaw.CHANGED),)
    world.connection.execute("update mutation set attempt = attempt - 1")


async def _flaws(world: World) -> tuple[Flawed, ...]:
    world.connection.execute("delete from allowance")
    return await world.store.backend.transact(lambda tx: find_flaws(tx, KEY, 10), Durability.READ)


async def _reseal_other(world: World) -> None:
    await world.store.reseal_ended([EndSeal(MUTATION, "another seal", "{}", "a", "b")])


RESEAL_ENDED = Case(
    "reseal_ended",
    _arrange_seals,
    _reseal,
    _see_sealed,
    Again.STALE,
    refusals=(Refusal("another seal", Stale, call=_reseal_other),),
)
LIST_ENDED = ReadCase("list_ended", _ended, _list, _see_one, edge=_see_none)


@pytest.mark.parametrize("trial", exam(RESEAL_ENDED, LIST_ENDED))
async def test_seals_of_ended_rows_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """L15: a page of rows is sealed anew as a whole, by the seals that were checked."""
    await trial.sit(tmp_path)
