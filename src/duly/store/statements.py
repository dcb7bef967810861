"""The parts verbs are made of: the fence, numbers, publishing, and what becomes of reserved events.

Law: nothing here begins or ends a transaction; each function is a few statements of the verb that
calls it. Every change of a topic takes the workflow's next number and writes it on the consumer of
that topic (S3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from duly.errors import Fenced, NotFound, RequestRefused, Stale, see
from duly.rules.declaration import TopicDeclaration
from duly.rules.delivery import JournalStatus, depth_after, first_status
from duly.rules.event import CHANGES, EventStatus, Publication, Republish, on_republish
from duly.rules.lifecycle import Run
from duly.rules.retention import FINAL
from duly.rules.word import Reserved, Status
from duly.store.base import Fence, Row, Transaction, stale
from duly.store.parameter import as_set
from duly.store.record import Action, JournalEvent, MutationRow, RunRow
from duly.store.seal import seal_end
from duly.store.tally import RUNS, note_row
from duly.store.tally import note as tally_note

GONE: Final = ""  # the digest of a content that retention took away


@dataclass(frozen=True, slots=True)
class WorkflowFacts:
    """What a verb needs to know of its workflow."""

    epoch: int
    counter: int
    paused: bool
    active_version: str | None
    name: str
    holder: str | None


def look(tx: Transaction, workflow_id: str) -> WorkflowFacts:
    """Read the workflow, on PostgreSQL locked until the end of the transaction."""
    found = tx.one("look_at_workflow", id=workflow_id)
    if found is None:
        raise NotFound(code="no_workflow", subject=workflow_id, next=see("workflows"))
    return WorkflowFacts(found[0], found[1], bool(found[2]), *found[3:])


def check(tx: Transaction, fence: Fence) -> WorkflowFacts:
    """Refuse a write under an old epoch, or of a host that does not hold the workflow (H2).

    A host that lapsed and came back as another may still have work of its former id at hand.
    """
    standing = look(tx, fence.workflow_id)
    if standing.epoch != fence.epoch or tx.host not in (None, standing.holder):
        raise Fenced(
            code="fenced",
            subject=fence.workflow_id,
            facts={"epoch": standing.epoch, "given": fence.epoch},
        )
    return standing


def must(found: Row | None, what: str) -> Row:
    """Return the row, or refuse: it is no longer in the state the decision was made on (R8)."""
    if found is None:
        raise stale(what)
    return found


def must_change(rows: int, what: str) -> None:
    """Refuse if a guarded write changed nothing; no row is asked back for that (R8)."""
    if not rows:
        raise stale(what)


def announce(
    tx: Transaction,
    events: Sequence[JournalEvent],
    now: int,
    *,
    run_id: str | None = None,
    closes_unheard: bool = False,
) -> bool:
    """Write events into the journal of the bus, in the transaction of their cause (B10).

    A verb does this last: the counter of the journal is one row for all workflows, and locked
    until commit. What must come after it is a write that is sent with the commit.
    What a run announces goes on the chain of the deepest bus event that it goes back to (B12).
    With `closes_unheard` an event without a subscriber is over when it is written (B11). Return
    whether the bus has anything to do for them.
    """
    cause = None
    if events and run_id is not None:
        cause = tx.one("bus_cause", run_id=run_id)
    if cause is not None:
        (event_id, depth, correlation_id) = cause
        events = tuple(
            replace(
                each,
                correlation_id=correlation_id,
                causation_id=f"bus:{event_id}",
                depth=depth_after(depth),
            )
            for each in events
        )
    written = [_write(tx, event, now, closes_unheard=closes_unheard) for event in events]
    return any(status is JournalStatus.PENDING for _, status in written)


def emit(tx: Transaction, event: JournalEvent, now: int) -> int:
    """Give one event its number and write it; the bus delivers it."""
    number, _ = _write(tx, event, now, closes_unheard=False)
    return number


def _write(
    tx: Transaction, event: JournalEvent, now: int, *, closes_unheard: bool
) -> tuple[int, JournalStatus]:
    taken = tx.one("take_journal_number", topic=event.topic)
    number, is_heard = must(taken, "The journal's counter")
    status = first_status(is_heard=bool(is_heard) or not closes_unheard)
    tx.write(
        "insert_journal_event",
        id=number,
        topic=event.topic,
        source=event.source,
        payload=event.payload,
        correlation_id=event.correlation_id,
        causation_id=event.causation_id,
        depth=event.depth,
        status=status,
        closed=int(status is JournalStatus.DONE),
        now=now,
    )
    return int(number), status


def note(
    tx: Transaction, action: Action, now: int, *, workflow_id: str | None, target: str | None
) -> None:
    """Write down who did what, in the transaction of the act, and refuse to do it twice (A6)."""
    noted = tx.one(
        "insert_action",
        id=action.id,
        at=now,
        by=action.by,
        verb=action.verb,
        workflow_id=workflow_id,
        target=target,
        detail=action.detail,
    )
    if noted is None:
        raise Stale(code="done_already", subject=action.id)


def take(tx: Transaction, workflow_id: str, count: int = 1) -> int:
    """Take the workflow's next numbers; the last one is answered (T6)."""
    (last,) = must(tx.one("take_numbers", id=workflow_id, count=count), f"Workflow {workflow_id}")
    return int(last)


def touch(tx: Transaction, workflow_id: str, topics: Iterable[str], number: int) -> None:
    """Tell the consumers of these topics that something changed (S3)."""
    for topic in sorted(set(topics)):
        tx.write("touch_consumer", workflow_id=workflow_id, topic=topic, number=number)


def publish(
    tx: Transaction,
    workflow_id: str,
    publication: Publication,
    *,
    created_by: str,
    bus_event: int | None = None,
    roots: Sequence[int] = (),
    now: int,
) -> tuple[Republish, int]:
    """Write one event by its message id (T5); return what that did, and the event's number.

    `bus_event` is what was being handled on the bus: the chain goes on through it (B12).
    """
    found = tx.one(
        "find_event",
        workflow_id=workflow_id,
        topic=publication.topic,
        message_id=publication.message_id,
    )
    if found is None:
        seq = take(tx, workflow_id)
        _keep(tx, workflow_id, seq, publication)
        tx.write(
            "insert_event",
            workflow_id=workflow_id,
            seq=seq,
            topic=publication.topic,
            message_id=publication.message_id,
            created_by=created_by,
            bus_event=bus_event,
            now=now,
        )
        _trace(tx, workflow_id, seq, roots)
        touch(tx, workflow_id, (publication.topic,), seq)
        return Republish.NEW, seq
    seq, status, content, beside, digest, attempts, _ = found
    # Retention removed the content, so it cannot be compared any more.
    decision = on_republish(EventStatus(status), digest in (publication.digest, GONE))
    if decision is Republish.DROPPED:
        tx.write("count_dropped", workflow_id=workflow_id, seq=seq)
    if decision in (Republish.SAME, Republish.FROZEN, Republish.DROPPED):
        return decision, seq
    number = take(tx, workflow_id)
    _keep(tx, workflow_id, number, publication)
    if bus_event is not None:
        tx.write("set_bus_event", workflow_id=workflow_id, seq=seq, bus_event=bus_event)
    if roots:  # an input that a run replaced goes back to itself as well (T9)
        tx.write("insert_own_cause", workflow_id=workflow_id, seq=seq)
        _trace(tx, workflow_id, seq, roots)
    else:
        tx.write("insert_own_cause_too", workflow_id=workflow_id, seq=seq)
    if decision is Republish.BESIDE:
        tx.write("set_content_beside", workflow_id=workflow_id, seq=seq, content=number)
        if beside is not None:  # it was never shown to a run
            tx.write("drop_payload", workflow_id=workflow_id, content=beside)
    else:
        tx.write("replace_content", workflow_id=workflow_id, seq=seq, content=number)
        if not attempts:  # no run ever pinned the old content
            tx.write("drop_payload", workflow_id=workflow_id, content=content)
        else:
            tx.write("drop_unpinned_payload", workflow_id=workflow_id, seq=seq, content=content)
    if decision in CHANGES:
        touch(tx, workflow_id, (publication.topic,), number)
    return decision, seq


def dispose(
    tx: Transaction,
    workflow_id: str,
    run_id: str,
    reserved: Reserved,
    now: int,
    *,
    successor_id: str | None = None,
) -> int:
    """Do what was decided with the events a run reserved (R6, C11); return how many there were."""
    if reserved is Reserved.HOLD:
        return 0
    if reserved is Reserved.TRANSFER:
        tx.write("transfer_reservations", run_id=run_id, successor_id=successor_id)
        return tx.run("transfer_events", run_id=run_id, successor_id=successor_id)
    if reserved is Reserved.RELEASE:
        topics = [topic for (topic,) in tx.all("release_events", run_id=run_id)]
        if topics:
            touch(tx, workflow_id, topics, take(tx, workflow_id))
        return len(topics)
    status = {Reserved.CONSUME: EventStatus.CONSUMED, Reserved.SKIP: EventStatus.SKIPPED}[reserved]
    tx.write("drop_payloads_beside", run_id=run_id)
    return tx.run("finish_events", run_id=run_id, status=status, now=now)


def read_topic(tx: Transaction, workflow_id: str, name: str) -> TopicDeclaration:
    """Read a topic the active version declares."""
    found = tx.one("get_topic", workflow_id=workflow_id, name=name)
    if found is None or found[2]:
        raise NotFound(code="no_topic", subject=name, facts={"workflow": workflow_id})
    return TopicDeclaration(name, bool(found[1]), found[3])


def read_run(tx: Transaction, run_id: str) -> RunRow:
    """Read a run as it is now."""
    found = tx.one("get_run", id=run_id)
    if found is None:
        raise NotFound(code="no_run", subject=run_id, next=see("runs"))
    return RunRow(*found)


def lock_run(tx: Transaction, run_id: str) -> RunRow:
    """Read a run under its workflow's lock: an act is decided on what no other write changes."""
    look(tx, read_run(tx, run_id).workflow_id)
    return read_run(tx, run_id)


def check_run(tx: Transaction, fence: Fence, run_id: str, old: Run) -> RunRow:
    """Read a run and refuse to go on if it is not the one a decision was made on (R8)."""
    run = read_run(tx, run_id)
    if run.workflow_id != fence.workflow_id or run.state != old or not run.open:
        raise Stale(code="changed_meanwhile", subject=f"run {run_id}")
    return run


def change_run(
    tx: Transaction,
    statement: str,
    workflow_id: str,
    run_id: str,
    old: Run,
    new: Run,
    **further: str | int | None,
) -> None:
    """Write a run as it was decided, where it still is what the decision was made on (R8).

    A statement that may leave it active takes an `epoch`: the holder's own, or none of an act's,
    which no host has taken up yet (H2).
    """
    decided = guarded(workflow_id, run_id, old, new)
    tx.change(statement, f"Run {run_id}", **decided, **further)
    if new.status is not old.status and new.status is not Status.ACTIVE:
        tally_note(RUNS, new.status)


def move_run(tx: Transaction, fence: Fence, run_id: str, old: Run, new: Run, now: int) -> None:
    """Let the same run go on, in the hands of the holder."""
    change_run(tx, "move_run", fence.workflow_id, run_id, old, new, epoch=fence.epoch, now=now)


def guarded(workflow_id: str, run_id: str, old: Run, new: Run) -> dict[str, str | None]:
    """Spell a decision about a run: what it was made on, and what it says."""
    return {
        "id": run_id,
        "workflow_id": workflow_id,
        "old_phase": old.phase,
        "old_status": old.status,
        "old_row": old.row,
        "old_waits": old.waits,
        "phase": new.phase,
        "status": new.status,
        "outcome": new.outcome,
        "waits": new.waits,
    }


def move_row(
    tx: Transaction,
    run_id: str,
    old: Run,
    new: Run,
    now: int,
    *,
    by: str | None = None,
    said: str | None = None,
) -> None:
    """Move the ledger row a run holds, if the decision moved it; `by` said no, and why (L12)."""
    if new.row is old.row:
        return
    tx.change(
        "move_mutation",
        f"The mutation of run {run_id}",
        held_by=run_id,
        old_status=old.row,
        status=new.row,
        by=by,
        said=said,
        now=now,
    )
    if new.row in FINAL:
        seal_end(tx, run_id)
    if new.row is not None:
        note_row(run_id, new.row)


def _keep(tx: Transaction, workflow_id: str, content: int, publication: Publication) -> None:
    tx.write(
        "insert_payload",
        workflow_id=workflow_id,
        content=content,
        title=publication.title,
        body=publication.payload_text,
        digest=publication.digest,
    )


def _trace(tx: Transaction, workflow_id: str, seq: int, roots: Sequence[int]) -> None:
    if roots:
        tx.write("insert_causes", workflow_id=workflow_id, seq=seq, roots=as_set(roots))


def check_sends(mutation: MutationRow, seen: int | None) -> None:
    """Refuse an answer that a person gave when fewer sends were shown than there are (G11)."""
    if seen is not None and mutation.attempt != seen:
        raise RequestRefused(
            code="sent_since", subject=mutation.id, next=see("mutation", id=mutation.id)
        )
