"""Events from outside, events skipped by a person, and what scripts read (T, U3, C2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from duly.errors import NotFound
from duly.rules.event import (
    KEPT,
    EventMove,
    EventStatus,
    Publication,
    Republish,
    check_fitting,
    check_ingress,
    count_fitting,
    move,
)
from duly.rules.lifecycle import Counts, act
from duly.rules.value import DEFAULT_LIMITS
from duly.rules.word import Act, Status
from duly.store import statements
from duly.store.base import Transaction
from duly.store.parameter import as_set
from duly.store.record import Action, EventRow
from duly.store.run import end_run, follow_run


@dataclass(frozen=True, slots=True)
class Skipped:
    """What skipping an event did: whether it changed, and which run ended or was followed."""

    is_changed: bool
    abandoned: str | None = None
    retried: str | None = None


def publish(
    tx: Transaction,
    workflow_id: str,
    publication: Publication,
    *,
    action: Action,
    bus_event: int | None = None,
    now: int,
) -> tuple[Republish, int]:
    """Write an event that comes from outside; only a topic with ingress takes it (T10).

    A publish that is kept is recorded with what became of it, so that a caller who did not hear
    the answer finds it (A6). One that changes nothing leaves no record: a script may publish all
    it knows again and again.
    """
    statements.look(tx, workflow_id)
    check_ingress(statements.read_topic(tx, workflow_id, publication.topic), "request")
    republish, seq = statements.publish(
        tx, workflow_id, publication, created_by=action.by, bus_event=bus_event, now=now
    )
    if republish in KEPT:
        target = f"{publication.topic}/{publication.message_id}"
        noted = replace(action, detail=republish)
        statements.note(tx, noted, now, workflow_id=workflow_id, target=target)
    return republish, seq


def skip_event(
    tx: Transaction,
    workflow_id: str,
    topic: str,
    message_id: str,
    *,
    successor_id: str,
    action: Action,
    now: int,
) -> Skipped:
    """Skip an event for good (U3); a run that had reserved it ends, its other events are free."""
    statements.look(tx, workflow_id)
    found = tx.one("find_event", workflow_id=workflow_id, topic=topic, message_id=message_id)
    if found is None:
        raise NotFound(code="no_event", subject=str(message_id), facts={"topic": topic})
    seq, status = found[0], EventStatus(found[1])
    if status in (EventStatus.CONSUMED, EventStatus.SKIPPED):
        return Skipped(is_changed=False)
    abandoned = None
    if status is EventStatus.RESERVED:
        abandoned = found[6]
        run = statements.read_run(tx, abandoned)
        tx.write("drop_content_beside", workflow_id=workflow_id, seq=seq)
        if found[3] is not None:  # it was never shown to a run
            tx.write("drop_payload", workflow_id=workflow_id, content=found[3])
        end_run(tx, run, act(run.state, Act.SKIP_EVENT), now)
        status = EventStatus.PENDING
    skipped = move(status, EventMove.SKIP)
    tx.write("skip_event", workflow_id=workflow_id, seq=seq, status=skipped, now=now)
    statements.touch(tx, workflow_id, (topic,), statements.take(tx, workflow_id))
    statements.note(tx, action, now, workflow_id=workflow_id, target=f"{topic}/{message_id}")
    retried = None if abandoned else _retry_failed(tx, workflow_id, topic, successor_id, now)
    return Skipped(True, abandoned, retried)


def _retry_failed(
    tx: Transaction, workflow_id: str, topic: str, successor_id: str, now: int
) -> str | None:
    """Follow an open failed:logic run of the topic's consumer: its poison may be gone (U3)."""
    found = tx.one("open_run_of_topic", workflow_id=workflow_id, topic=topic)
    if found is None or found[1] != Status.FAILED_LOGIC:
        return None
    run = statements.read_run(tx, found[0])
    follow_run(tx, run, act(run.state, Act.RETRY), successor_id, Counts(), now)
    return run.id


def peek(
    tx: Transaction,
    workflow_id: str,
    topic: str,
    *,
    limit: int,
    bytes_max: int,
    after: str | None = None,
) -> tuple[EventRow, ...]:
    """Read pending events in their order, from behind a message id, within both limits (T6)."""
    start = -1
    if after is not None:
        found = tx.one("find_event", workflow_id=workflow_id, topic=topic, message_id=after)
        if found is None:
            raise NotFound(code="no_event", subject=str(after), facts={"topic": topic})
        start = found[0]
    where = {"workflow_id": workflow_id, "topic": topic, "after": start}
    if limit > 1:  # the first is shown at any size
        sizes = tx.all("size_pending", **where, limit=limit)
        limit = count_fitting((size for (size,) in sizes), bytes_max)
    return tuple(EventRow(*row) for row in tx.all("peek_events", **where, limit=limit))


def get_by_ids(
    tx: Transaction,
    workflow_id: str,
    topic: str,
    message_ids: tuple[str, ...],
    *,
    bytes_max: int = DEFAULT_LIMITS.peek_bytes,
) -> tuple[EventRow, ...]:
    """Read known events of any status, as they were asked for; unknown ids are left out (T7)."""
    where = {"workflow_id": workflow_id, "topic": topic, "ids": as_set(message_ids)}
    (size_bytes,) = statements.must(tx.one("size_events", **where), "The size of the events")
    check_fitting(size_bytes, bytes_max)
    found = {row[1]: EventRow(*row) for row in tx.all("get_events", **where)}
    return tuple(found[each] for each in dict.fromkeys(message_ids) if each in found)


def find_over(
    tx: Transaction, workflow_id: str, topic: str, message_ids: Iterable[str]
) -> frozenset[str]:
    """Return those of a set of events that are over: published again, they are taken by no run."""
    here = {"workflow_id": workflow_id, "topic": topic, "ids": as_set(message_ids)}
    found = tx.all("find_events", **here)
    over = (EventStatus.CONSUMED, EventStatus.SKIPPED)
    return frozenset(str(name) for name, status, _, _ in found if status in over)
