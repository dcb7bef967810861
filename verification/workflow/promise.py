"""What was said and must stay said: announcements, actions of people, contents, times to wake.

Law 1  A change is announced in its own transaction, once, and nothing else is announced (B10).
Law 2  A person who was told that an action is done finds it again, also after a power cut (A6).
Law 3  The newest content that was acknowledged is what an event that is free has (T5).
Law 4  A consumer wakes when its last committed run asked for it, within bounds (S6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

from duly.rules.event import EventStatus
from duly.rules.value import Json, decode
from duly.rules.word import MutationStatus, Status, Waits
from verification.workflow.seen import MutationSeen, RunSeen, Seen
from verification.workflow.shape import INPUT

DEPLOYED: Final = "workflow.deployed"
# Sentences for people, which say more than a change of state does, are not looked at here.
SENTENCES: Final = frozenset({"workflow.needs_attention", "workflow.notice"})
UNSETTLED: Final = frozenset({MutationStatus.NEEDS_RECONCILE, MutationStatus.INDETERMINATE})
SETTLED: Final = frozenset({MutationStatus.APPLIED, MutationStatus.FAILED, MutationStatus.SKIPPED})
FAILED: Final = frozenset({Status.FAILED_LOGIC, Status.FAILED_INTERNAL})
WAKE_MIN_MS: Final = 30_000
WAKE_MAX_MS: Final = 86_400_000

Said = tuple[str, str]  # topic, and the run it speaks of


@dataclass(slots=True)
class Promise:
    """What people were told and what they said, over all lives of the host."""

    _actions: Counter[str] = field(default_factory=Counter)  # by verb: so often done and told so
    _contents: dict[str, Json] = field(default_factory=dict)  # by event: the newest that was taken
    _publishing: Counter[str] = field(default_factory=Counter)
    _begun: Counter[str] = field(default_factory=Counter)

    def take(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Note that an action was acknowledged, which left its record in between."""
        for verb, count in after.items():
            if count > before.get(verb, 0):
                self._actions[verb] = max(self._actions[verb], before.get(verb, 0) + 1)

    @contextmanager
    def publishing(self, name: str, payload: Json) -> Iterator[None]:
        """Publish one content; of two at once neither is known to be the newer."""
        is_alone = not self._publishing[name]
        self._publishing[name] += 1
        self._begun[name] += 1
        begun = self._begun[name]
        self._contents.pop(name, None)
        yield
        self._publishing[name] -= 1
        if is_alone and self._begun[name] == begun:
            self._contents[name] = payload

    def look(self, was: Seen | None, now: Seen) -> Iterator[str]:
        """Look at a commit."""
        for verb, count in self._actions.items():
            if now.actions.get(verb, 0) < count:
                yield f"{verb} was acknowledged {count} times and is recorded less often"
        for event in now.events.values():
            is_free = event.topic == INPUT and event.status == EventStatus.PENDING
            wanted = self._contents.get(event.message_id)
            if is_free and wanted is not None and decode(event.body or "null") != wanted:
                yield f"event {event.message_id} does not have the newest content"
        if was is not None:
            yield from _look_at_words(was, now)
            yield from _look_at_wakes(was, now)


def _look_at_words(was: Seen, now: Seen) -> Iterator[str]:
    """Compare what a transaction announced with what it did."""
    last = max(was.announced, default=0)
    said: Counter[Said] = Counter()
    for number, (topic, payload) in now.announced.items():
        if number > last and topic not in SENTENCES:
            told = cast("dict[str, Any]", decode(payload))
            said[topic, "" if topic == DEPLOYED else told.get("run", "")] += 1
    done = Counter(_done(was, now))
    for (topic, run), count in (done - said).items():
        yield f"{topic} of run {run or now.version} was announced {count} times too seldom"
    for (topic, run), count in (said - done).items():
        yield f"{topic} of run {run or now.version} was announced {count} times too often"


def _done(was: Seen, now: Seen) -> Iterator[Said]:
    """List what a transaction has to announce."""
    if was.version != now.version:
        yield DEPLOYED, ""
    for run in now.runs.values():
        before = was.runs.get(run.id)
        if before == run:
            continue
        yield from _done_to_run(before, run)
    for row in now.mutations.values():
        old = was.mutations.get(row.id)
        status = None if old is None else old.status
        if old is None and row.status == MutationStatus.FAILED and _is_unsent(row):
            yield "approval.requested", row.held_by  # and taken away, in one commit
        if status in UNSETTLED and row.status in SETTLED:
            yield "mutation.settled", row.held_by
        if row.status == MutationStatus.INDETERMINATE and status != row.status:
            yield "mutation.indeterminate", row.held_by


def _is_unsent(row: MutationSeen) -> bool:
    """Tell whether a call ended as a proposal: the host neither sent nor refused it."""
    return row.sent_at is None and not row.refused


def _done_to_run(before: RunSeen | None, run: RunSeen) -> Iterator[Said]:
    status = None if before is None else before.status
    if run.status == Status.COMMITTED and status != run.status:
        yield "run.committed", run.id
    if run.status in FAILED and status not in FAILED:
        yield "run.failed", run.id
    if run.waits == Waits.APPROVAL and (before is None or before.waits is None):
        yield "approval.requested", run.id


def _look_at_wakes(was: Seen, now: Seen) -> Iterator[str]:
    """See that a commit sets the time to wake, and nothing else does."""
    for run in now.runs.values():
        before = was.runs.get(run.id)
        if run.status != Status.COMMITTED or before is None or before.status == run.status:
            continue
        wake_at = now.wakes.get(run.handler)
        if (wake_at is None) != (run.wake_at_asked is None):
            yield f"run {run.id} asked to be woken at {run.wake_at_asked}, and it is {wake_at}"
        elif wake_at is not None:
            wait_ms = wake_at - run.updated_at
            if not WAKE_MIN_MS <= wait_ms <= WAKE_MAX_MS:
                yield f"run {run.id} is to be woken after {wait_ms} ms"
