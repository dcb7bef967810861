"""What must hold after every commit of a scenario, and at its end.

Law: an oracle knows nothing of the engine. It compares what the store says now with what it said
before, and with what the outside counted itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, cast

from duly.connectors.base import Call
from duly.rules.event import EventStatus
from duly.rules.lifecycle import FINAL
from duly.rules.value import decode
from duly.rules.word import MutationStatus, Outcome, Phase, Status
from verification.workflow.consent import Consent
from verification.workflow.promise import Promise
from verification.workflow.seen import EventSeen, MutationSeen, RunSeen, Seen
from verification.workflow.shape import INPUT, MADE, PRODUCED, TOLD

PUBLISHES: Final = {"file": MADE, "tell": TOLD}
QUESTIONS_MAX: Final = 6
TEXTS_KEPT: Final = 1_000
ORDER: Final[Mapping[str, int]] = {phase.value: place for place, phase in enumerate(Phase)}


@dataclass(slots=True)
class Oracle:
    """Remembers what was, and says what is wrong."""

    effects: Counter[str]
    consent: Consent
    acknowledged: set[str] = field(default_factory=set)  # inputs a caller was told are durable
    excused: set[str] = field(default_factory=set)  # a person answered falsely about them
    problems: list[str] = field(default_factory=list)
    promise: Promise = field(default_factory=Promise)
    unsure: Counter[str] = field(default_factory=Counter)  # by key: questions without an answer
    lives: int = 0
    before: Seen | None = None

    def count_actions(self) -> Mapping[str, int]:
        """Return how often people have done what, as far as is known."""
        return {} if self.before is None else self.before.actions

    def forget(self) -> None:
        """Forget what was: a power cut may have taken what was committed and not yet durable."""
        self.before = None

    def look(self, now: Seen) -> None:
        """Check everything that must hold at every moment.

        What only the store says is checked again when it says something else.
        """
        self._check_effects(now)
        if not self._is_known(now, "runs", "mutations"):
            self._check_runs(now)
        if not self._is_known(now, "runs", "events", "shown", "states"):
            self._check_work(now)
        if not self._is_known(now, "mutations"):
            self._check_keys(now)
        self._check_events(now)
        if not self._is_known(now, "causes", "events", "reservations"):
            self._check_causes(now)
        self._check_proposals(now)
        self._check_questions(now)
        # First, while it is known which action a dead host was carrying out.
        if self.before is not None:
            self._compare(self.before, now)
        for problem in (
            *self.consent.look(self.before, now, self.lives),
            *self.promise.look(self.before, now),
        ):
            self._say(problem)
        self.before = now

    def see_leave(self, call: Call) -> None:
        """Check a call whose first byte is about to leave."""
        for problem in self.consent.see_leave(call, self.before):
            self._say(problem)

    def look_at_the_end(self, now: Seen) -> None:
        """Check what must hold when everything has come to rest."""
        self.look(now)
        last = {run.chain: run for run in now.runs.values()}
        for run in last.values():
            if run.status not in (Status.COMMITTED, Status.ABANDONED):
                self._say(f"the chain of run {run.chain} ended {run.status}")
        for event in now.events.values():
            # The removal of a workflow leaves events that were never begun.
            is_left = event.status == EventStatus.PENDING and not now.is_removed
            if event.topic != TOLD and (is_left or event.status == EventStatus.RESERVED):
                self._say(f"{event.topic} {event.message_id} was left {event.status}")

    def _is_known(self, now: Seen, *parts: str) -> bool:
        """Tell whether nothing of these parts was written since the last look."""
        was = self.before
        return was is not None and all(getattr(was, each) is getattr(now, each) for each in parts)

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
            if is_heir and parent is not None and _frozen(run) != _frozen(parent):
                self._say(f"run {run.id} has another clock, chance or state than its predecessor")

    def _check_work(self, now: Seen) -> None:
        """See that every run saw what it pinned, and that a committed one left all it made."""
        made = {(event.topic, event.message_id, event.created_by) for event in now.events.values()}
        states: dict[str, Any] = {}
        for run in now.runs.values():
            is_committed = run.status == Status.COMMITTED
            if run.handler not in PUBLISHES:
                known = (event.message_id for event in now.events.values() if event.topic == INPUT)
                if is_committed and PRODUCED not in known:
                    self._say(f"what the producer run {run.id} published is lost")
                continue
            data = _data(run)
            for message_id, payload in zip(data.get("ids", ()), data.get("shown", ()), strict=True):
                body = now.shown.get(run.id, {}).get(message_id)
                if body is not None and decode(body) != payload:
                    self._say(f"run {run.id} pinned another content of {message_id} than it saw")
            if not is_committed or not data.get("ids"):
                continue
            states[run.handler] = {"last": data["ids"]}
            first = data["ids"][0]
            is_told = run.outcome != Outcome.SKIPPED and not self.excused & set(data["ids"])
            if is_told and (PUBLISHES[run.handler], first, run.id) not in made:
                self._say(f"what run {run.id} published for {first} is lost")
        for handler, state in states.items():
            stored = now.states.get(handler)
            if stored is None or decode(stored) != state:
                self._say(f"the state of {handler} is not what its last run left")

    def _check_keys(self, now: Seen) -> None:
        """See that a call keeps its key, and that one after a refusal has another (L7)."""
        last: dict[str, MutationSeen] = {}
        for row in now.mutations.values():
            before = last.get(row.inputs)
            if before is not None and (before.key == row.key) == bool(before.refused):
                self._say(f"mutation {row.id} has the wrong key for a call after {before.id}")
            last[row.inputs] = row
        by_args: dict[str, set[str]] = defaultdict(set)
        for row in now.mutations.values():
            by_args[_named_in(row.args)].add(row.inputs)
        for args, inputs in by_args.items():
            if len(inputs) > 1:
                self._say(f"the calls with {args} do not count as calls for the same inputs")

    def _check_questions(self, now: Seen) -> None:
        """See that nothing is asked more often than counted: once at once, then five times (L5)."""
        for key, count in self.unsure.items():
            rows = sum(row.key == key for row in now.mutations.values())
            # A host that died on an answer has not counted it.
            if count > QUESTIONS_MAX * rows + self.lives - 1:
                self._say(f"the outside was not sure {count} times, and is asked again")

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

    def _check_proposals(self, now: Seen) -> None:
        """See that a proposal waits for a person, and that what was declined stays undone (A4)."""
        calls: dict[str, str] = {}
        for row in now.mutations.values():
            if calls.setdefault(row.hash, row.args) != row.args:
                self._say(f"mutation {row.id} is shown under the hash of another call")
            run = now.runs[row.held_by]
            if row.status == MutationStatus.PROPOSED:
                if not run.open or run.status != Status.PAUSED_APPROVAL or run.waits is None:
                    self._say(f"mutation {row.id} is proposed, and its run is {run.status}")
            elif row.status == MutationStatus.REJECTED:
                self._check_rejected(now, row, run)

    def _check_rejected(self, now: Seen, row: MutationSeen, run: RunSeen) -> None:
        if run.outcome != Outcome.SKIPPED:
            self._say(f"mutation {row.id} was rejected, and its run has outcome {run.outcome}")
        if run.open or run.status not in (Status.COMMITTED, Status.ABANDONED):
            return
        for seq in now.reservations.get(run.id, ()):
            event = now.events[seq]
            if event.status != EventStatus.SKIPPED:
                self._say(f"event {event.message_id} was rejected and is {event.status}")
            if self.effects[event.message_id] and event.message_id not in self.excused:
                self._say(f"event {event.message_id} was rejected, and a change was made")
            made = ((each.topic, each.created_by) for each in now.events.values())
            if (MADE, run.id) in made:
                self._say(f"`next` was told that the rejected {event.message_id} was applied")

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

    def _compare_paused(self, was: Seen, now: Seen) -> None:
        """See that nothing begins in a paused workflow (F7)."""
        if not (was.is_paused and now.is_paused):
            return
        for run in now.runs.values():
            if run.id not in was.runs and run.retry_of is None:
                self._say(f"run {run.id} was started while the workflow was paused")
        for row in now.mutations.values():
            before = was.mutations.get(row.id)
            is_begun = before is not None and before.status == MutationStatus.PROPOSED
            if is_begun and row.status == MutationStatus.IN_FLIGHT:
                self._say(f"mutation {row.id} was approved while the workflow was paused")
            if row.attempt > (0 if before is None else before.attempt):
                self._say(f"mutation {row.id} was sent while the workflow was paused")

    def _compare(self, was: Seen, now: Seen) -> None:
        self._compare_paused(was, now)
        if not (self._is_known(now, "runs") and was.is_removed == now.is_removed):
            self._compare_runs(was, now)
        if not self._is_known(now, "mutations"):
            self._compare_rows(was, now)
        for event in () if self._is_known(now, "events") else was.events.values():
            later_event = now.events.get(event.seq)
            ended = event.status in (EventStatus.CONSUMED, EventStatus.SKIPPED)
            if later_event is None:
                self._say(f"event {event.message_id} is gone")
            elif ended and later_event.status != event.status:
                self._say(f"event {event.message_id} was {event.status} and has changed")
        of_was, of_now = ((each.runs, each.mutations, each.events) for each in (was, now))
        if was.is_removed and of_was != of_now:
            self._say("a workflow that was removed has changed")

    def _compare_runs(self, was: Seen, now: Seen) -> None:
        for run in was.runs.values():
            later = now.runs.get(run.id)
            if later is None:
                self._say(f"run {run.id} is gone")
            elif ORDER[later.phase] < ORDER[run.phase]:
                self._say(f"run {run.id} went back from {run.phase} to {later.phase}")
            elif run.prepared is not None and later.prepared != run.prepared:
                self._say(f"run {run.id} has other inputs than it had pinned")
            elif run.version != later.version:
                self._say(f"run {run.id} had version {run.version} and has {later.version}")
            elif _is_under_way(was, run) and later.epoch not in (None, run.epoch):
                self._say(f"run {run.id} went on where its host had died")
            elif run.status in (Status.COMMITTED, Status.ABANDONED) and later != run:
                self._say(f"run {run.id} was {run.status} and has changed")
        if now.is_removed and not was.is_removed and was.open_run is not None:
            self._say("a workflow was removed while a run was open")

    def _compare_rows(self, was: Seen, now: Seen) -> None:
        for row in was.mutations.values():
            later_row = now.mutations.get(row.id)
            if later_row is None:
                self._say(f"mutation {row.id} is gone")
            elif MutationStatus(row.status) in FINAL and later_row.status != row.status:
                self._say(f"mutation {row.id} was {row.status} and is {later_row.status}")
            elif _call(later_row) != _call(row) and not self.consent.is_amended(row, later_row):
                self._say(f"the recorded call of mutation {row.id} has changed")
            elif _is_approved(row) and _is_dropped(later_row):
                self._say(f"mutation {row.id} was approved, not sent, and is {later_row.status}")

    def _say(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def _is_under_way(was: Seen, run: RunSeen) -> bool:
    """Tell whether a host works on a run; a call that is approved may be sent by the next one."""
    row = was.held(run.id)
    is_active = run.status == Status.ACTIVE and run.epoch is not None
    return is_active and not (row is not None and _is_approved(row))


def _frozen(run: RunSeen) -> tuple[object, ...]:
    """Return what a run that goes on keeps of the one before it (C12, C13, S6)."""
    return run.clock_at, run.seed, run.wake_at_asked, run.state_before


def _call(row: MutationSeen) -> tuple[str, str, str]:
    return row.key, row.args, row.hash


def _is_approved(row: MutationSeen) -> bool:
    """Tell whether a person has said yes, and its send was not begun (A4)."""
    return row.status == MutationStatus.IN_FLIGHT and row.sent_at is None


def _is_dropped(row: MutationSeen) -> bool:
    """Tell whether a call that was never begun is no longer to be sent, nor waits for a person."""
    waiting = (MutationStatus.IN_FLIGHT, MutationStatus.PROPOSED)
    return row.sent_at is None and row.status not in waiting


def _is_fresh(now: Seen, run: RunSeen) -> bool:
    """Tell whether a successor began afresh: it holds no row that an earlier run made."""
    row = now.held(run.id)
    return row is None or row.run_id == run.id


@lru_cache(TEXTS_KEPT)
def _named_in(args: str) -> str:
    """Return the inputs that a call names, in one order: they may have been reserved in another."""
    return ", ".join(sorted(cast("dict[str, list[str]]", decode(args))["ids"]))


def _data(run: RunSeen) -> dict[str, Any]:
    """Return what the script's prepare kept for its later steps."""
    return {} if run.prepared is None else _kept_in(run.prepared)


@lru_cache(TEXTS_KEPT)
def _kept_in(prepared: str) -> dict[str, Any]:
    return cast("dict[str, dict[str, Any]]", decode(prepared))["data"]
