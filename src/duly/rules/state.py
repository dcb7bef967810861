"""What a run is, as a value, and the moves its ledger row can make (C, L1, R).

Law: these are facts without decisions; `rules/lifecycle.py` alone says what follows from them, and
is the room whose names others use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from duly.rules.outage import Outage
from duly.rules.word import Kind, Outcome, Phase, Reserved, Status, Waits
from duly.rules.word import MutationStatus as Row


@dataclass(frozen=True, slots=True)
class Run:
    """One run, as far as the rules care: it holds at most one ledger row."""

    kind: Kind = Kind.CONSUMER
    phase: Phase = Phase.PREPARING
    status: Status = Status.ACTIVE
    row: Row | None = None
    outcome: Outcome | None = None
    waits: Waits | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How often a chain has failed; a commit ends the chain, a person's retry sets all to zero.

    Failures to reach the outside are counted in `outage`, apart from other transient ones (F2).
    """

    transient: int = 0
    logic: int = 0
    crash: int = 0
    repair: int = 0
    outage: Outage | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A decided change: the run after it, its events, and the run that follows it, if one does."""

    run: Run
    reserved: Reserved = Reserved.HOLD
    successor: Run | None = None

    @property
    def inherits(self) -> bool:
        """Whether the successor takes over inputs, outcome, clock, seed and row (R5)."""
        return self.reserved is Reserved.TRANSFER


PRODUCER_START: Final = Run(Kind.PRODUCER, Phase.EXECUTING)
CONSUMER_START: Final = Run(Kind.CONSUMER, Phase.PREPARING)
START: Final = {Kind.PRODUCER: PRODUCER_START, Kind.CONSUMER: CONSUMER_START}

UNKNOWN: Final = frozenset({Row.IN_FLIGHT, Row.NEEDS_RECONCILE, Row.INDETERMINATE})
FINAL: Final = frozenset({Row.APPLIED, Row.FAILED, Row.REJECTED, Row.SKIPPED})
ENDED: Final = frozenset({Status.COMMITTED, Status.ABANDONED})

# L1: the moves a ledger row can make. `None` is the row that does not exist yet.
LEDGER: Final[Mapping[Row | None, frozenset[Row]]] = {
    None: frozenset({Row.PROPOSED, Row.IN_FLIGHT}),
    Row.PROPOSED: frozenset({Row.IN_FLIGHT, Row.REJECTED, Row.FAILED}),
    Row.IN_FLIGHT: frozenset(
        {Row.APPLIED, Row.FAILED, Row.NEEDS_RECONCILE, Row.INDETERMINATE, Row.PROPOSED}
    ),
    Row.NEEDS_RECONCILE: frozenset(
        {Row.APPLIED, Row.FAILED, Row.INDETERMINATE, Row.IN_FLIGHT, Row.SKIPPED}
    ),
    Row.INDETERMINATE: frozenset({Row.NEEDS_RECONCILE, Row.APPLIED, Row.FAILED, Row.SKIPPED}),
    Row.APPLIED: frozenset(),
    Row.FAILED: frozenset(),
    Row.REJECTED: frozenset(),
    Row.SKIPPED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class To:
    """The target of a table's row; what it leaves out stays as it was."""

    phase: Phase | None = None
    status: Status | None = None
    row: Row | None = None
    outcome: Outcome | None = None
    waits: Waits | None = None
