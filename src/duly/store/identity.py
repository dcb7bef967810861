"""Ids by how they begin, and what stands beside them (U6).

Law: a question goes along the primary key and returns so many rows at most, for any history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from duly.rules.identity import IdKind, Typed
from duly.store.base import Transaction
from duly.store.parameter import as_set
from duly.store.people import LAST, page

# The statements of each kind: by beginning, and the neighbours of a set.
_LIST: Final[Mapping[IdKind, str]] = {
    IdKind.RUN: "list_run_ids",
    IdKind.MUTATION: "list_mutation_ids",
    IdKind.ALLOWANCE: "list_allowance_ids",
}
_BESIDE: Final[Mapping[IdKind, str]] = {
    IdKind.RUN: "list_runs_beside",
    IdKind.MUTATION: "list_mutations_beside",
    IdKind.ALLOWANCE: "list_allowances_beside",
}


@dataclass(frozen=True, slots=True)
class IdRow:
    """Something that has an id; an allowance has no status."""

    id: str
    workflow_id: str
    status: str | None
    made_at: int


def list_ids(tx: Transaction, typed: Typed, *, limit: int = 100) -> tuple[IdRow, ...]:
    """Read what begins so, newest first; where one is called exactly so, that one alone."""
    found: list[IdRow] = []
    for kind in typed.kinds:
        begins = typed.begins(kind)
        rows = tx.all(_LIST[kind], begins=begins, end=begins + LAST, limit=page(limit))
        found += (IdRow(*row) for row in rows)
    exact = {typed.begins(kind) for kind in typed.kinds}
    alone = [each for each in found if each.id in exact]
    newest = sorted(found, key=lambda each: each.made_at, reverse=True)
    return tuple(alone or newest[:limit])


def list_beside(
    tx: Transaction, kind: IdKind, ids: Iterable[str]
) -> dict[str, tuple[str | None, str | None]]:
    """Read which id stands before and which behind each of a set, in one statement."""
    rows = tx.all(_BESIDE[kind], ids=as_set(ids))
    return {row[0]: (row[1], row[2]) for row in rows}
