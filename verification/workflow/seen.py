"""Everything the store of a simulation says at one moment.

Law: it is read in one transaction, right before its commit, so every commit is seen by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from duly.store.base import Transaction


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


def see(tx: Transaction) -> Seen:
    """Read everything."""
    reservations: dict[str, set[int]] = defaultdict(set)
    shown: dict[str, dict[str, str | None]] = defaultdict(dict)
    for run_id, seq, message_id, body in tx.all("oracle_reservations"):
        reservations[run_id].add(seq)
        shown[run_id][message_id] = body
    handlers = tx.all("oracle_handlers")
    return Seen(
        {row[0]: RunSeen(*row) for row in tx.all("oracle_runs")},
        {row[0]: MutationSeen(*row) for row in tx.all("oracle_mutations")},
        {row[0]: EventSeen(*row) for row in tx.all("oracle_events")},
        frozenset((root, seq) for root, seq in tx.all("oracle_causes")),
        {run_id: frozenset(seqs) for run_id, seqs in reservations.items()},
        shown,
        {name: state for name, state, *_ in handlers},
        dict(tx.all("oracle_grants")),
        any(paused for _, _, _, paused, _, _ in handlers),
        any(removed for *_, removed, _ in handlers),
        handlers[0][-1],
        {name: wake_at for name, _, wake_at, *_ in handlers},
        {number: (topic, payload) for number, topic, payload in tx.all("oracle_announcements")},
        dict(tx.all("oracle_actions")),
        {row[0]: AllowanceSeen(*row) for row in tx.all("oracle_allowances")},
    )
