"""Every statement that the exam runs gives the same rows on both stores, type by type (H1)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duly.store.base import Backend, Durability, Row, Transaction
from duly.store.transaction import AtOnce
from tests.postgres.world import Place, PostgresWorld
from tests.store.exam import Question, Trial, World
from tests.store.test_exam_complete import sat_trials

Ran = tuple[str, dict[str, Any], Any]
OTHER_ORDER = "another order"


class Noting:
    """A backend that notes every statement and what it gave."""

    def __init__(self, backend: Backend, ran: list[Ran]) -> None:
        self._backend = backend
        self._ran = ran

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def transact(self, body: Callable[[Transaction], Any], durability: Durability) -> Any:
        return await self._backend.transact(lambda tx: body(NotingTx(tx, self._ran)), durability)

    async def ask(self, body: Callable[[Transaction], Any]) -> Any:
        return await self.transact(body, Durability.READ)


class NotingTx(AtOnce):
    """The transaction of it."""

    def __init__(self, tx: Transaction, ran: list[Ran]) -> None:
        self._tx = tx
        self._ran = ran

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    def all(self, statement: str, /, **parameters: Any) -> list[Row]:
        rows = self._tx.all(statement, **parameters)
        self._ran.append((statement, parameters, rows))
        return rows

    def one(self, statement: str, /, **parameters: Any) -> Row | None:
        row = self._tx.one(statement, **parameters)
        self._ran.append((statement, parameters, row))
        return row

    def run(self, statement: str, /, **parameters: Any) -> int:
        changed = self._tx.run(statement, **parameters)
        self._ran.append((statement, parameters, changed))
        return changed


def typed(value: Any) -> Any:
    """Spell a result with its types."""
    if isinstance(value, list | tuple):
        return [typed(each) for each in value]
    return type(value).__name__, value


async def noted(trial: Trial, world: World) -> list[Ran]:
    """Sit a trial and return what was run."""
    ran: list[Ran] = []
    make = world._make
    world._make = lambda backend: make(Noting(backend, ran))  # type: ignore[assignment]
    await trial.sit_in(world)
    return ran


# What its callers put in order themselves, or write down as a set.
IN_ANY_ORDER = frozenset(
    {"handler_outlook", "event_records", "list_traced_chains", "get_events", "run_roots"}
)
EVERY = 1 if os.environ.get("TEST_EXAM") == "all" else 8
ASKED = [
    each
    for each in sat_trials()
    if each.question in (Question.EFFECT, Question.REFUSAL, Question.AGAIN)
][::EVERY]


def shape(value: Any) -> Any:
    """Take a bool for the number that it is."""
    if isinstance(value, list | tuple):
        return [shape(each) for each in value]
    return (type(value).__name__, value) if not isinstance(value, bool) else ("int", int(value))


def differ(mine: Any, other: Any) -> str | None:
    """Say how two results differ, if they do."""
    if typed(mine) == typed(other):
        return None
    if shape(mine) == shape(other):
        return "a bool for a number"
    is_list = isinstance(mine, list) and isinstance(other, list)
    if is_list and sorted(map(repr, shape(mine))) == sorted(map(repr, shape(other))):
        return OTHER_ORDER
    return f"{typed(mine)} | {typed(other)}"


async def test_both_stores_give_the_same_rows(place: Place, tmp_path: Path) -> None:
    """H1: values, types, order and counts."""
    found: dict[tuple[str, str], str] = {}
    for number, trial in enumerate(ASKED):
        here = await noted(trial, World(tmp_path / str(number), trial.case.store))
        there = await noted(trial, PostgresWorld(place, trial.case.store))
        if [each[0] for each in here] != [each[0] for each in there]:
            found[trial.name, "other statements"] = ""
            continue
        for (name, _, mine), (_, _, other) in zip(here, there, strict=True):
            how = differ(mine, other)
            if how is not None and (how != OTHER_ORDER or name not in IN_ANY_ORDER):
                found[name, how] = trial.name
    assert not found, "\n".join(f"{name}: {how} ({trial})" for (name, how), trial in found.items())
