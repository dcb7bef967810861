"""Everything the store of a simulation says at one moment.

Law: it is read in one transaction, right before its commit, so every commit is seen by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from duly.store.base import Row, Transaction
from verification.sight import Part, Read, read_afresh


class RunSeen(NamedTuple):
    """A run."""

    id: str
    chain: str
    retry_of: str | None
    open: int
    phase: str
    status: str
    outcome: str | None
    prepared: str | None
    escalated: str | None
    handler: str
    waits: str | None
    version: str
    clock_at: int | None = None
    seed: str | None = None
    wake_at_asked: str | None = None
    state_before: str | None = None
    updated_at: int = 0
    epoch: int | None = None


class MutationSeen(NamedTuple):
    """A row of the ledger."""

    id: str
    run_id: str
    held_by: str
    status: str
    key: str
    args: str
    attempt: int
    inputs: str
    refused: int
    hash: str
    sent_at: int | None
    allowance_id: str | None = None
    args_proposed: str | None = None


class AllowanceSeen(NamedTuple):
    """An allowance."""

    id: str
    mutation_id: str
    version: str
    calls: int
    until: int
    is_revoked: int


class EventSeen(NamedTuple):
    """An event."""

    seq: int
    topic: str
    message_id: str
    status: str
    reserved_by: str | None
    finished_by: str | None
    created_by: str
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything the store says at one moment."""

    runs: Mapping[str, RunSeen]
    mutations: Mapping[str, MutationSeen]
    events: Mapping[int, EventSeen]
    causes: frozenset[tuple[int, int]]
    reservations: Mapping[str, frozenset[int]]
    shown: Mapping[str, Mapping[str, str | None]]  # by run and event: the content it has pinned
    states: Mapping[str, str | None]
    grants: Mapping[str, int | None]  # by capability: how often a day, if that is limited
    is_paused: bool
    is_removed: bool
    version: str = ""  # the active one
    wakes: Mapping[str, int | None] = field(default_factory=dict)  # by consumer
    # The newest: topic and payload, by number.
    announced: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    actions: Mapping[str, int] = field(default_factory=dict)  # by verb: how often
    allowances: Mapping[str, AllowanceSeen] = field(default_factory=dict)

    @property
    def open_run(self) -> RunSeen | None:
        """The open run, if there is one."""
        return next((run for run in self.runs.values() if run.open), None)

    def held(self, run_id: str) -> MutationSeen | None:
        """The ledger row a run answers for."""
        return next((each for each in self.mutations.values() if each.held_by == run_id), None)


class Pinned(NamedTuple):
    """What the runs have pinned: which events, and the content each was shown."""

    reservations: Mapping[str, frozenset[int]]
    shown: Mapping[str, Mapping[str, str | None]]


class Handled(NamedTuple):
    """The handlers and their workflow."""

    states: Mapping[str, str | None]
    wakes: Mapping[str, int | None]
    is_paused: bool
    is_removed: bool
    version: str


def _pinned(rows: Sequence[Row]) -> Pinned:
    reservations: dict[str, set[int]] = defaultdict(set)
    shown: dict[str, dict[str, str | None]] = defaultdict(dict)
    for run_id, seq, message_id, body in rows:
        reservations[run_id].add(seq)
        shown[run_id][message_id] = body
    return Pinned({run_id: frozenset(seqs) for run_id, seqs in reservations.items()}, shown)


def _handled(rows: Sequence[Row]) -> Handled:
    return Handled(
        {name: state for name, state, *_ in rows},
        {name: wake_at for name, _, wake_at, *_ in rows},
        any(paused for _, _, _, paused, _, _ in rows),
        any(removed for *_, removed, _ in rows),
        rows[0][-1],
    )


RUNS: Final = Part("oracle_runs", lambda rows: {row[0]: RunSeen(*row) for row in rows})
MUTATIONS: Final = Part(
    "oracle_mutations", lambda rows: {row[0]: MutationSeen(*row) for row in rows}
)
EVENTS: Final = Part("oracle_events", lambda rows: {row[0]: EventSeen(*row) for row in rows})
CAUSES: Final = Part("oracle_causes", lambda rows: frozenset((root, seq) for root, seq in rows))
PINNED: Final = Part("oracle_reservations", _pinned)
HANDLED: Final = Part("oracle_handlers", _handled)
GRANTS: Final[Part[dict[str, int | None]]] = Part("oracle_grants", dict)
ANNOUNCED: Final = Part(
    "oracle_announcements",
    lambda rows: {number: (topic, payload) for number, topic, payload in rows},
)
ACTIONS: Final[Part[dict[str, int]]] = Part("oracle_actions", dict)
ALLOWANCES: Final = Part(
    "oracle_allowances", lambda rows: {row[0]: AllowanceSeen(*row) for row in rows}
)


def see(tx: Transaction, read: Read = read_afresh) -> Seen:
    """Read everything."""
    pinned, handled = read(tx, PINNED), read(tx, HANDLED)
    return Seen(
        read(tx, RUNS),
        read(tx, MUTATIONS),
        read(tx, EVENTS),
        read(tx, CAUSES),
        pinned.reservations,
        pinned.shown,
        handled.states,
        read(tx, GRANTS),
        handled.is_paused,
        handled.is_removed,
        handled.version,
        handled.wakes,
        read(tx, ANNOUNCED),
        read(tx, ACTIONS),
        read(tx, ALLOWANCES),
    )
