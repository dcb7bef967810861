"""Deferred events: when one fires, and what becomes of it (B2).

Law 1  A deferred event fires once or is cancelled once; a key missing from the table is the error.
Law 2  Its delay is measured by the clock of the machine's boot, which cannot be set: a wall clock
       that was wrong for a while fires nothing early and holds nothing up.
Law 3  Another boot knows nothing of that clock. What it finds is measured once by the wall clock,
       and from then on by its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from duly.errors import IllegalTransition


class DeferredStatus(StrEnum):
    """Where a deferred event stands (B2)."""

    SCHEDULED = "scheduled"
    FIRED = "fired"
    CANCELLED = "cancelled"


class DeferredMove(StrEnum):
    """What can happen to a deferred event."""

    FIRE = "fire"
    CANCEL = "be cancelled"


DEFERRED: Final[Mapping[tuple[DeferredStatus, DeferredMove], DeferredStatus]] = {
    (DeferredStatus.SCHEDULED, DeferredMove.FIRE): DeferredStatus.FIRED,
    (DeferredStatus.SCHEDULED, DeferredMove.CANCEL): DeferredStatus.CANCELLED,
}


def move_deferred(status: DeferredStatus, move: DeferredMove) -> DeferredStatus:
    """Return a deferred event's status after a move (B2)."""
    try:
        return DEFERRED[status, move]
    except KeyError:
        raise IllegalTransition(
            code="bug", facts={"detail": "deferred", "status": status, "move": move}
        ) from None


@dataclass(frozen=True, slots=True)
class Deferred:
    """An event that is to be put on the bus later; `due_ms` is a time of the boot clock."""

    id: int
    due_ms: int
    status: DeferredStatus = DeferredStatus.SCHEDULED


def promotable(deferred: Iterable[Deferred], boot_ms: int) -> tuple[Deferred, ...]:
    """Choose what fires now, in the order of its time; of the same time, of its making (B2)."""
    due = [
        each
        for each in deferred
        if each.status is DeferredStatus.SCHEDULED and each.due_ms <= boot_ms
    ]
    return tuple(sorted(due, key=lambda each: (each.due_ms, each.id)))


def remaining_ms(created_at: int, fire_at: int, now: int) -> int:
    """Return how long to wait, by the wall clock, for an event that another boot left; B2.

    An event made at a time that is still to come was written by a clock that was wrong, or the
    clock was set back since: then it waits for no longer than it was to wait at first.
    """
    left_ms = fire_at - now
    return min(left_ms, fire_at - created_at) if created_at > now else left_ms
