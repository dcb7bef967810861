"""How long finished history is kept, and what stays of it for good (H5).

Law 1: nothing open is touched: what ended after the chain of the open run began is left alone,
       and so is an input while anything it led to is still work.
Law 2: what decides something later is never removed: of an event its topic, message id and status
       (T5), of a mutation its inputs, key, state and send times (L7, A1).
Law 3: where something was removed, words say so; nothing looks as if it had never been.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from duly.rules.schedule import DAY_MS
from duly.rules.word import MutationStatus

# What stands where a title stood; it must pass for one.
REMOVED: Final = "Removed by retention"
# What stands where the arguments of a call stood: an object, as arguments are.
REMOVED_ARGS: Final = '{"removed":"by retention"}'
FINAL: Final = frozenset(
    {
        MutationStatus.APPLIED,
        MutationStatus.FAILED,
        MutationStatus.REJECTED,
        MutationStatus.SKIPPED,
    }
)


@dataclass(frozen=True, slots=True)
class Tidied:
    """How much retention removed, or left the skeleton of."""

    events: int = 0
    runs: int = 0
    mutations: int = 0
    bus_events: int = 0
    deferred: int = 0
    blobs: int = 0

    def __add__(self, other: Tidied) -> Tidied:
        """Count two turns together."""
        names = (each.name for each in fields(self))
        return Tidied(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, slots=True)
class ChainRun:
    """What decides whether a run may go: its end, what it still pins, the mutation it made."""

    id: str
    is_open: bool
    updated_at: int
    has_pinned: bool
    mutation: MutationStatus | None


def cutoff_ms(now_ms: int, retention_days: int) -> int:
    """Return the moment before which finished history is too old to be kept."""
    return now_ms - retention_days * DAY_MS


def horizon_ms(before_ms: int, open_since_ms: int | None) -> int:
    """Return the moment before which one workflow may be tidied: its open chain stays whole."""
    return before_ms if open_since_ms is None else min(before_ms, open_since_ms)


def is_over(chain: tuple[ChainRun, ...], horizon: int) -> bool:
    """Tell whether a whole chain is history: old, closed, settled, and its events tidied."""
    return all(
        not run.is_open
        and run.updated_at < horizon
        and not run.has_pinned
        and (run.mutation is None or run.mutation in FINAL)
        for run in chain
    )


def keeps_skeleton(chain: tuple[ChainRun, ...]) -> bool:
    """Tell whether the runs of a chain stay as skeletons: the ledger names them (L1)."""
    return any(run.mutation is not None for run in chain)


def next_tidy_at(tidied_at: int | None, now_ms: int) -> int:
    """Return when retention is due: once a day; a time a wrong clock left is not waited for."""
    if tidied_at is None or tidied_at > now_ms:
        return now_ms
    return tidied_at + DAY_MS
