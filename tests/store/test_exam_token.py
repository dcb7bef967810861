"""The exam of tokens: kept as digests, and gone at once (G6, A6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.errors import NotFound, RequestRefused
from duly.rules.token import TokenKind
from duly.rules.verb import Scope
from duly.store.base import Durability
from duly.store.record import Action
from duly.store.token import TokenRow, get_token, list_tokens
from tests.store.attic import NOW, act
from tests.store.exam import Again, Case, Refusal, Trial, World, exam, nothing

ROW = TokenRow("ci", "0123456789ab", TokenKind.TOKEN, Scope.AGENT, "d1", "ada", NOW, None)
PHONE = TokenRow("phone", "ba9876543210", TokenKind.DEVICE, Scope.ADMIN, "d2", "ada", NOW, NOW + 9)


async def read_all(world: World) -> tuple[TokenRow, ...]:
    return await world.store.backend.transact(list_tokens, Durability.READ)


async def _it_is_kept(world: World, answer: Any) -> None:
    assert await read_all(world) == (ROW,)
    found = await world.store.backend.transact(lambda tx: get_token(tx, ROW.id), Durability.READ)
    assert found == ROW
    assert ("ada", "new_token", None, "ci") in [row[2:6] for row in world.dump()["action"]]


def _keep(row: TokenRow = ROW, name: str = "new_token") -> Any:
    return lambda world: world.store.keep_token(row, action=act(name), now=NOW)


async def _name_is_taken(world: World) -> None:
    await _keep(name="earlier")(world)


KEEP = Case(
    verb="keep_token",
    arrange=nothing,
    call=_keep(),
    effect=_it_is_kept,
    again=Again.REFUSED,
    refusals=(
        Refusal("a name that is taken", RequestRefused, broken=_name_is_taken, match="already"),
    ),
)


async def _two_are_there(world: World) -> None:
    for row in (ROW, PHONE):
        action = Action(f"action_{row.name}", "me", "new_token")
        await world.store.keep_token(row, action=action, now=NOW)


async def _one_is_left(world: World, answer: Any) -> None:
    assert await read_all(world) == (PHONE,)
    assert ("ada", "revoke_token", None, "ci") in [row[2:6] for row in world.dump()["action"]]


def _drop(name: str) -> Any:
    return lambda world: world.store.drop_token(name, action=act("revoke_token"), now=NOW)


DROP = Case(
    verb="drop_token",
    arrange=_two_are_there,
    call=_drop("ci"),
    effect=_one_is_left,
    again=Again.MISSING,
    refusals=(Refusal("one that is not there", NotFound, call=_drop("cj")),),
)


@pytest.mark.parametrize("trial", exam(KEEP, DROP))
async def test_tokens_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """G6, A6: each is one transaction, whole or not at all."""
    await trial.sit(tmp_path)


async def test_a_restored_store_lets_no_token_in(tmp_path: Path) -> None:
    """G6, H5: one of them may have been revoked after the backup."""
    world = await World(tmp_path / "world").open()
    try:
        await _two_are_there(world)
        world.connection.execute("insert into upkeep (name, at) values ('copied', ?)", (NOW,))
        action = Action("action_restore", "duly", "pause")
        assert await world.store.note_restore(action=action, now=NOW) == NOW
        assert await read_all(world) == ()
    finally:
        await world.close()
