"""What must hold after every commit, whatever happened, and at the end (design §7.4).

Law: an oracle knows nothing of the engine. It compares what the store says now with what it said
before, and with what the outside counted itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from duly.rules.event import EventStatus
from duly.rules.lifecycle import FINAL
from duly.rules.word import MutationStatus, Outcome, Phase, Status
from duly.simulation.shape import INPUT, MADE, TOLD
from duly.store.base import Transaction

ORDER: Final[Mapping[str, int]] = {phase.value: place for place, phase in enumerate(Phase)}


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


class MutationSeen(NamedTuple):
    """A row of the ledger."""

    id: str
    run_id: str
    held_by: str
    status: str
    key: str
    args: str
    attempt: int


class EventSeen(NamedTuple):
    """An event."""

    seq: int
    topic: str
    message_id: str
    status: str
    reserved_by: str | None
    finished_by: str | None
    created_by: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything the store says at one moment."""

    runs: Mapping[str, RunSeen]
    mutations: Mapping[str, MutationSeen]
    events: Mapping[int, EventSeen]
    causes: frozenset[tuple[int, int]]
    reservations: Mapping[str, frozenset[int]]

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
    for run_id, seq, _ in tx.all("oracle_reservations"):
        reservations[run_id].add(seq)
    return Seen(
        {row[0]: RunSeen(*row) for row in tx.all("oracle_runs")},
        {row[0]: MutationSeen(*row) for row in tx.all("oracle_mutations")},
        {row[0]: EventSeen(*row) for row in tx.all("oracle_events")},
        frozenset((root, seq) for root, seq in tx.all("oracle_causes")),
        {run_id: frozenset(seqs) for run_id, seqs in reservations.items()},
    )


@dataclass(slots=True)
class Oracle:
    """Remembers what was, and says what is wrong."""

    effects: Counter[str]
    has_mutation: bool
    acknowledged: set[str] = field(default_factory=set)  # inputs somebody was told are durable
    excused: set[str] = field(default_factory=set)  # a person answered falsely about them
    problems: list[str] = field(default_factory=list)
    before: Seen | None = None

    def forget(self) -> None:
        """Forget what was: a power cut may have taken what was committed and not yet durable."""
        self.before = None

    def look(self, now: Seen) -> None:
        """Check everything that must hold at every moment."""
        self._check_effects(now)
        self._check_runs(now)
        self._check_events(now)
        self._check_causes(now)
        if self.before is not None:
            self._compare(self.before, now)
        self.before = now

    def look_at_the_end(self, now: Seen) -> None:
        """Check what must hold when everything has come to rest."""
        self.look(now)
        last = {run.chain: run for run in now.runs.values()}
        for run in last.values():
            if run.status not in (Status.COMMITTED, Status.ABANDONED):
                self._say(f"the chain of run {run.chain} ended {run.status}")
        for event in now.events.values():
            if event.topic != TOLD and event.status in (EventStatus.PENDING, EventStatus.RESERVED):
                self._say(f"{event.topic} {event.message_id} was left {event.status}")

    def _check_effects(self, now: Seen) -> None:
        for event, count in self.effects.items():
            if count > 1 and event not in self.excused:
                self._say(f"{count} changes were made for event {event}")

    def _check_runs(self, now: Seen) -> None:
        if sum(run.open for run in now.runs.values()) > 1:
            self._say("two runs are open")
        committed = Counter(
            run.chain for run in now.runs.values() if run.status == Status.COMMITTED
        )
        for chain, count in committed.items():
            if count > 1:
                self._say(f"`next` was committed {count} times in the chain of run {chain}")
        for run in now.runs.values():
            parent = now.runs.get(run.retry_of or "")
            is_heir = (
                parent is not None and run.phase != Phase.PREPARING and not _is_fresh(now, run)
            )
            if is_heir and parent is not None and run.prepared != parent.prepared:
                self._say(f"run {run.id} does not see the inputs its predecessor had pinned")

    def _check_events(self, now: Seen) -> None:
        known = {event.message_id for event in now.events.values() if event.topic == INPUT}
        for missing in self.acknowledged - known:
            self._say(f"event {missing} was acknowledged and is lost")
        for event in now.events.values():
            owner = now.runs.get(event.reserved_by or "")
            if event.status == EventStatus.RESERVED and (owner is None or not owner.open):
                self._say(
                    f"event {event.message_id} is reserved by {event.reserved_by}, which is over"
                )
            if event.topic == INPUT and event.status == EventStatus.CONSUMED:
                self._check_consumed(now, event)

    def _check_consumed(self, now: Seen, event: EventSeen) -> None:
        run = now.runs.get(event.finished_by or "")
        if run is None or event.message_id in self.excused:
            return
        wanted = 1 if run.outcome == Outcome.APPLIED else 0
        if self.effects[event.message_id] != wanted:
            count = self.effects[event.message_id]
            self._say(
                f"event {event.message_id} is consumed as {run.outcome}, changes made: {count}"
            )

    def _check_causes(self, now: Seen) -> None:
        roots: dict[int, set[int]] = defaultdict(set)
        for root, seq in now.causes:
            roots[seq].add(root)
        for event in now.events.values():
            if event.topic not in (MADE, TOLD):
                continue
            reserved = now.reservations.get(event.created_by, frozenset())
            wanted = {root for seq in reserved for root in (roots[seq] or {seq})}
            if not wanted or not wanted <= roots[event.seq]:
                self._say(f"{event.topic} {event.message_id} does not go back to its inputs")

    def _compare(self, was: Seen, now: Seen) -> None:
        for run in was.runs.values():
            later = now.runs.get(run.id)
            if later is None:
                self._say(f"run {run.id} is gone")
            elif ORDER[later.phase] < ORDER[run.phase]:
                self._say(f"run {run.id} went back from {run.phase} to {later.phase}")
            elif run.prepared is not None and later.prepared != run.prepared:
                self._say(f"run {run.id} has other inputs than it had pinned")
            elif run.status in (Status.COMMITTED, Status.ABANDONED) and later != run:
                self._say(f"run {run.id} was {run.status} and has changed")
        for row in was.mutations.values():
            later_row = now.mutations.get(row.id)
            if later_row is None:
                self._say(f"mutation {row.id} is gone")
            elif MutationStatus(row.status) in FINAL and later_row.status != row.status:
                self._say(f"mutation {row.id} was {row.status} and is {later_row.status}")
            elif (later_row.key, later_row.args) != (row.key, row.args):
                self._say(f"the recorded call of mutation {row.id} has changed")
        for event in was.events.values():
            later_event = now.events.get(event.seq)
            ended = event.status in (EventStatus.CONSUMED, EventStatus.SKIPPED)
            if later_event is None:
                self._say(f"event {event.message_id} is gone")
            elif ended and later_event.status != event.status:
                self._say(f"event {event.message_id} was {event.status} and has changed")

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def _is_fresh(now: Seen, run: RunSeen) -> bool:
    """Tell whether a successor began afresh: it holds no row that somebody else made."""
    row = now.held(run.id)
    return row is None or row.run_id == run.id
