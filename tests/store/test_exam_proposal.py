"""The exam of proposed sources: kept once, and gone when a person has decided (M6, A6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.errors import NotFound, RequestRefused
from duly.rules.proposal import PROPOSALS_MAX
from duly.store.base import Durability
from duly.store.proposal import SourceProposal, list_proposals
from duly.store.record import Action
from tests.store.attic import NOW, act
from tests.store.exam import Again, Case, Refusal, Trial, World, exam, nothing

ROW = SourceProposal("h1", "mail", None, "python", "text", "[]", "[]", "token:a", "why", NOW)


async def read_all(world: World) -> tuple[SourceProposal, ...]:
    return await world.store.backend.transact(list_proposals, Durability.READ)


def _keep(row: SourceProposal = ROW) -> Any:
    return lambda world: world.store.keep_proposal(row, action=act("propose"), now=NOW)


async def _it_is_kept(world: World, answer: Any) -> None:
    assert answer is True
    assert await read_all(world) == (ROW,)
    assert ("ada", "propose", None, "h1") in [row[2:6] for row in world.dump()["action"]]


async def _there_are_too_many(world: World) -> None:
    for number in range(PROPOSALS_MAX):
        row = SourceProposal(f"x{number}", "f", None, "python", "", "[]", "[]", "a", "", NOW)
        action = Action(f"action_{number}", "a", "propose")
        await world.store.keep_proposal(row, action=action, now=NOW)


KEEP = Case(
    verb="keep_proposal",
    arrange=nothing,
    call=_keep(),
    effect=_it_is_kept,
    again=Again.NOTHING,
    refusals=(
        Refusal("one too many", RequestRefused, broken=_there_are_too_many, match="100 proposals"),
    ),
)


async def _one_is_there(world: World) -> None:
    action = Action("action_first", "me", "propose")
    await world.store.keep_proposal(ROW, action=action, now=NOW)


async def _none_is_left(world: World, answer: Any) -> None:
    assert await read_all(world) == ()
    assert ("ada", "decline", None, "h1") in [row[2:6] for row in world.dump()["action"]]


def _drop(proposal: str) -> Any:
    return lambda world: world.store.drop_proposal(proposal, action=act("decline"), now=NOW)


DROP = Case(
    verb="drop_proposal",
    arrange=_one_is_there,
    call=_drop("h1"),
    effect=_none_is_left,
    again=Again.MISSING,
    refusals=(Refusal("one that is not there", NotFound, call=_drop("h2")),),
)


@pytest.mark.parametrize("trial", exam(KEEP, DROP))
async def test_proposals_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """M6, A6: each is one transaction, whole or not at all."""
    await trial.sit(tmp_path)
