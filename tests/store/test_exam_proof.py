"""The exam of trials: written before they are sent, replaced by no second one at once (K10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.errors import RequestRefused, Stale
from duly.rules.asking import ProofFault, ProofStatus
from duly.store.base import Durability
from duly.store.proof import ProofRow, list_proofs
from duly.store.record import Action
from tests.store.attic import NOW, act
from tests.store.exam import Again, Case, Refusal, Trial, World, exam, nothing

TOOL = "mail.send"
ROW = ProofRow(TOOL, "k1", "{}", "basis", ProofStatus.BEGUN, None, None, None, "ada", NOW, None)


async def read_all(world: World) -> tuple[ProofRow, ...]:
    return await world.store.backend.transact(list_proofs, Durability.READ)


def _begin(key: str = "k1", over: str | None = None, name: str = "prove") -> Any:
    return lambda world: world.store.begin_proof(
        TOOL, key, "{}", "basis", over=over, action=act(name), now=NOW
    )


async def _it_is_begun(world: World, answer: Any) -> None:
    assert await read_all(world) == (ROW,)
    assert ("ada", "prove", None, TOOL) in [row[2:6] for row in world.dump()["action"]]


async def _another_is_there(world: World) -> None:
    await _begin("k0", name="earlier")(world)


BEGIN = Case(
    verb="begin_proof",
    arrange=nothing,
    call=_begin(),
    effect=_it_is_begun,
    again=Again.REFUSED,
    refusals=(
        Refusal(
            "one that the caller has not seen",
            RequestRefused,
            broken=_another_is_there,
            match="already",
        ),
    ),
)


async def _one_is_begun(world: World) -> None:
    await _begin()(world)


async def _it_has_a_handle(world: World, answer: Any) -> None:
    (row,) = await read_all(world)
    assert row.handle == "[1]"


KEEP = Case(
    verb="keep_proof_handle",
    arrange=_one_is_begun,
    call=lambda world: world.store.keep_proof_handle(TOOL, "k1", "[1]"),
    effect=_it_has_a_handle,
    again=Again.SAME,
    refusals=(
        Refusal(
            "another trial",
            Stale,
            call=lambda world: world.store.keep_proof_handle(TOOL, "k2", "[1]"),
        ),
    ),
)


def _end(key: str = "k1") -> Any:
    return lambda world: world.store.end_proof(
        TOOL, key, ProofStatus.FAILED, fault=ProofFault.NOT_FOUND, said="no", now=NOW + 1
    )


async def _it_has_ended(world: World, answer: Any) -> None:
    (row,) = await read_all(world)
    assert (row.status, row.fault, row.said, row.ended_at) == (
        ProofStatus.FAILED,
        ProofFault.NOT_FOUND,
        "no",
        NOW + 1,
    )
    found, times = await world.store.find_proof(TOOL)
    assert (found, times) == (row, ())


END = Case(
    verb="end_proof",
    arrange=_one_is_begun,
    call=_end(),
    effect=_it_has_ended,
    again=Again.SAME,
    refusals=(Refusal("another trial", Stale, call=_end("k2")),),
)


async def _it_is_found(world: World, answer: Any) -> None:
    assert answer == (ROW, ())


FIND = Case(
    verb="find_proof",
    arrange=_one_is_begun,
    call=lambda world: world.store.find_proof(TOOL),
    effect=_it_is_found,
    again=Again.SAME,
    never_refuses="a tool that was never tried has no row",
)


@pytest.mark.parametrize("trial", exam(BEGIN, KEEP, END, FIND))
async def test_trials_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """K10: each is one transaction, whole or not at all."""
    await trial.sit(tmp_path)


async def test_a_proven_trial_is_replaced_by_one_that_has_seen_it(tmp_path: Path) -> None:
    """K10: and what was proven is not ended a second time."""
    world = await World(tmp_path / "world").open()
    try:
        await _one_is_begun(world)
        await world.store.end_proof(TOOL, "k1", ProofStatus.PROVEN, now=NOW)
        with pytest.raises(Stale):
            await _end()(world)
        await _begin("k2", over="k1", name="again")(world)
        (row,) = await read_all(world)
        assert (row.key, row.status, row.ended_at) == ("k2", ProofStatus.BEGUN, None)
    finally:
        await world.close()


async def test_a_restored_store_believes_no_trial(tmp_path: Path) -> None:
    """K10, H5: a newer one may have failed since; what was begun is still asked about first."""
    world = await World(tmp_path / "world").open()
    try:
        await _one_is_begun(world)
        await world.store.begin_proof(
            "shop.order", "k2", "{}", "basis", over=None, action=act("other"), now=NOW
        )
        await world.store.end_proof("shop.order", "k2", ProofStatus.PROVEN, now=NOW)
        world.connection.execute("insert into upkeep (name, at) values ('copied', ?)", (NOW,))
        action = Action("action_restore", "duly", "pause")
        assert await world.store.note_restore(action=action, now=NOW) == NOW
        begun, proven = await read_all(world)
        assert begun == ROW
        assert (proven.status, proven.basis) == (ProofStatus.PROVEN, "")
    finally:
        await world.close()
