"""Runs: start, prepare, move, stop, succeed, commit, abandon (R, C, P, S3).

Law: a verb is given the run as the caller last knew it and the run as the rules decided it; it
writes the second only where it still finds the first (R8), under the caller's epoch (H2). A
person's act is decided inside its own transaction, on what is really there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from duly.errors import Invalid, NotFound, Stale
from duly.rules.access import Step
from duly.rules.event import EventStatus, Republish, add_warning
from duly.rules.lifecycle import START, Change, Counts, Run, act
from duly.rules.prepared import Judgement, judge_all, judge_reservation
from duly.rules.reason import keep
from duly.rules.schedule import pause_after_commit
from duly.rules.word import Act, Kind, Status
from duly.store import recording, statements
from duly.store.base import Fence, Transaction
from duly.store.parameter import as_set
from duly.store.record import Action, Commit, JournalEvent, Pinned, Reserve, RunRow, Stop
from duly.store.tally import RUNS, RUNS_STARTED, note, note_heir
from duly.words.warning import say_dropped

LOOKED_AT_ONCE: Final = 500  # of the ids of a reservation, so many are looked up in one statement

Found = tuple[EventStatus | None, int, int | None]  # status, number, content
UNKNOWN: Final[Found] = (None, 0, None)


@dataclass(frozen=True, slots=True)
class Started:
    """What a new run begins with: the version it pins, its handler's state, S3's counter."""

    run_id: str
    version: str
    state: str | None
    counter: int


def open_run(
    tx: Transaction,
    fence: Fence,
    standing: statements.WorkflowFacts,
    run_id: str,
    handler: str,
    *,
    now: int,
) -> Started:
    """Open a run of a handler with the active version; a workflow has at most one open run (F6)."""
    if standing.paused:
        raise Stale(code="workflow_paused", subject=fence.workflow_id)
    found = tx.one("get_handler", workflow_id=fence.workflow_id, name=handler)
    if found is None or found[3] or standing.active_version is None:
        raise NotFound(code="no_handler", subject=handler, facts={"workflow": fence.workflow_id})
    state: str | None = found[5]
    begun = START[Kind(found[1])]
    tx.change(
        "insert_run",
        f"Workflow {fence.workflow_id}, which has an open run already,",
        id=run_id,
        workflow_id=fence.workflow_id,
        version=standing.active_version,
        handler=handler,
        kind=begun.kind,
        phase=begun.phase,
        epoch=fence.epoch,
        counter=standing.counter,
        state_before=state,
        now=now,
    )
    note(RUNS_STARTED, begun.kind)
    return Started(run_id, standing.active_version, state, standing.counter)


def prepare_run(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    new: Run,
    pinned: Pinned,
    reserves: tuple[Reserve, ...],
    *,
    now: int,
) -> Judgement:
    """Pin the prepare result and reserve all it asks for, or nothing of it (C5, C6)."""
    statements.check(tx, fence)
    looked = _look(tx, fence.workflow_id, reserves)
    if looked.judgement is not Judgement.RESERVE:
        statements.check_run(tx, fence, run_id, old)  # a run that is over made no mistake
        if looked.refusal is not None:
            raise looked.refusal
        return looked.judgement
    statements.change_run(
        tx,
        "prepare_run",
        fence.workflow_id,
        run_id,
        old,
        new,
        prepared=pinned.prepared,
        wake_at_asked=pinned.wake_at_asked,
        clock_at=pinned.clock_at,
        seed=pinned.seed,
        epoch=fence.epoch,
        now=now,
    )
    # The seed is the first run of the chain (C13).
    recording.begin_recording(tx, fence.workflow_id, run_id, pinned.seed, pinned.reads)
    if reserves:
        _reserve(tx, fence.workflow_id, run_id, looked.seqs)
        topics = {reserve.topic for reserve in reserves}
        statements.touch(tx, fence.workflow_id, topics, statements.take(tx, fence.workflow_id))
    return looked.judgement


def move_run(tx: Transaction, fence: Fence, run_id: str, old: Run, new: Run, *, now: int) -> None:
    """Let the same run go on: another phase, status or ledger row (R4, F4)."""
    _check_going_on(statements.check(tx, fence), old)
    statements.move_run(tx, fence, run_id, old, new, now)
    statements.move_row(tx, run_id, old, new, now)


def stop_run(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    new: Run,
    stop: Stop,
    *,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> None:
    """Write down why a run stopped, until when, and what a person is told (F2–F5, F8)."""
    statements.check(tx, fence)
    write_stop(tx, fence.workflow_id, run_id, old, new, stop, now)
    statements.move_row(tx, run_id, old, new, now)
    statements.announce(tx, announce, now, run_id=run_id)


def succeed_run(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    change: Change,
    successor_id: str,
    counts: Counts,
    *,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> None:
    """Close a stopped run and open the one that follows it, with all it inherits (R5–R7)."""
    _check_going_on(statements.check(tx, fence), old)
    run = statements.check_run(tx, fence, run_id, old)
    follow_run(tx, run, change, successor_id, counts, now)
    statements.announce(tx, announce, now, run_id=run_id)


def commit_producer(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    change: Change,
    commit: Commit,
    *,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
    closes_unheard: bool = True,
) -> bool:
    """Write a producer's events, its state and its next time at once (P3).

    Return whether the bus has something to deliver for it.
    """
    statements.check(tx, fence)
    handler, counter, _ = _finish(tx, fence, run_id, old, change.run, commit, now)
    _publish(tx, fence.workflow_id, run_id, commit, now)
    tx.write(
        "commit_producer",
        workflow_id=fence.workflow_id,
        name=handler,
        state=commit.state,
        next_run_at=commit.next_run_at,
        counter=counter,
        now=now,
    )
    if commit.reads is not None:
        recording.keep_produced(tx, fence.workflow_id, run_id, handler, commit.reads)
    return statements.announce(tx, announce, now, closes_unheard=closes_unheard)


def replan(
    tx: Transaction, fence: Fence, handler: str, old: int, new: int | None, *, now: int
) -> None:
    """Plan a producer again whose next time a clock that was wrong wrote (S2)."""
    statements.check(tx, fence)
    tx.change(
        "replan_producer",
        f"The plan of {handler}",
        workflow_id=fence.workflow_id,
        name=handler,
        old_next_run_at=old,
        next_run_at=new,
        now=now,
    )


def commit_run(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    change: Change,
    commit: Commit,
    *,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
    closes_unheard: bool = True,
) -> bool:
    """End a consumer's run: events finished, publishes, state, wakeAt, all or nothing (C11).

    Return whether the bus has something to deliver for it.
    """
    standing = statements.check(tx, fence)
    handler, counter, prepared_by = _finish(tx, fence, run_id, old, change.run, commit, now)
    if commit.reads is not None:
        recording.keep_reads(tx, run_id, Step.MUTATE, commit.reads)
    roots: list[int] = []
    if commit.publications:
        roots = [
            root for (root,) in tx.all("run_roots", workflow_id=fence.workflow_id, run_id=run_id)
        ]
    reserved = statements.dispose(tx, fence.workflow_id, run_id, change.reserved, now)
    _publish(tx, fence.workflow_id, run_id, commit, now, roots)
    # Before `seen` moves: what came since then is what a run that reserved nothing goes back to.
    is_heard = statements.announce(tx, announce, now, run_id=run_id, closes_unheard=closes_unheard)
    tx.write(
        "commit_consumer",
        workflow_id=fence.workflow_id,
        name=handler,
        state=commit.state,
        wake_at=commit.wake_at,
        seen=counter,
        not_before=pause_after_commit(reserved, len(commit.publications), now) or 0,
        is_tried=int(prepared_by == standing.active_version),
    )
    return is_heard


def abandon_run(
    tx: Transaction,
    run_id: str,
    *,
    action: Action,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> Change:
    """End a run by a person's act; its events go where the ledger says (R9)."""
    run = statements.lock_run(tx, run_id)
    change = act(run.state, Act.ABANDON)
    end_run(tx, run, change, now)
    statements.note(tx, action, now, workflow_id=run.workflow_id, target=run_id)
    statements.announce(tx, announce, now, run_id=run_id)
    return change


def retry_run(
    tx: Transaction,
    run_id: str,
    successor_id: str,
    *,
    action: Action,
    bus_event: int | None = None,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> Change:
    """Follow a stopped run now, by a person's act; all counts begin again (R9).

    `bus_event` is what was being handled on the bus: the chain goes on through the run (B12).
    """
    run = statements.lock_run(tx, run_id)
    change = act(run.state, Act.RETRY)
    if not run.open:
        raise Stale(code="changed_meanwhile", subject=f"run {run_id}")
    follow_run(tx, run, change, successor_id, Counts(), now)
    if bus_event is not None:
        tx.write("set_run_bus_event", id=successor_id, bus_event=bus_event)
    statements.note(tx, action, now, workflow_id=run.workflow_id, target=run_id)
    statements.announce(tx, announce, now, run_id=run_id)
    return change


def end_run(tx: Transaction, run: RunRow, change: Change, now: int) -> None:
    """Write a change that ends a run without a successor."""
    statements.change_run(tx, "close_run", run.workflow_id, run.id, run.state, change.run, now=now)
    statements.move_row(tx, run.id, run.state, change.run, now)
    statements.dispose(tx, run.workflow_id, run.id, change.reserved, now)


def follow_run(
    tx: Transaction, run: RunRow, change: Change, successor_id: str, counts: Counts, now: int
) -> None:
    """Write a change that closes a run and opens its successor, in that order (R6)."""
    assert change.successor is not None, change
    old = run.state
    statements.change_run(tx, "close_run", run.workflow_id, run.id, old, change.run, now=now)
    statements.move_row(tx, run.id, old, change.run, now)
    if not change.inherits:
        statements.dispose(tx, run.workflow_id, run.id, change.reserved, now)
    tx.change(
        "insert_heir" if change.inherits else "insert_successor",
        f"Run {run.id}",
        id=successor_id,
        retry_of=run.id,
        phase=change.successor.phase,
        status=change.successor.status,
        outcome=change.successor.outcome,
        **_count_columns(counts),
        now=now,
    )
    note(RUNS_STARTED, run.kind)
    if change.inherits:
        statements.dispose(
            tx, run.workflow_id, run.id, change.reserved, now, successor_id=successor_id
        )
        whose = f"The mutation of run {run.id}"
        tx.change("pass_mutation", whose, held_by=run.id, successor_id=successor_id, now=now)
        note_heir(run.id, successor_id)


def write_stop(
    tx: Transaction, workflow_id: str, run_id: str, old: Run, new: Run, stop: Stop, now: int
) -> None:
    """Write a stopped run, guarded; its ledger row is the caller's to move."""
    statements.change_run(
        tx,
        "stop_run",
        workflow_id,
        run_id,
        old,
        new,
        error=stop.error,
        due_at=stop.due_at,
        waits_on=stop.waits_on,
        escalated=None if stop.escalated is None else keep(stop.escalated),
        **_count_columns(stop.counts),
        calls=stop.calls,
        logs=stop.logs,
        now=now,
    )


def _count_columns(counts: Counts) -> dict[str, int | None]:
    """Spell the failures of a chain as columns; without an outage its columns are empty (F2)."""
    outage = counts.outage
    return {
        "transient_count": counts.transient,
        "logic_count": counts.logic,
        "crash_count": counts.crash,
        "repair_count": counts.repair,
        "outage_since": None if outage is None else outage.since_ms,
        "outage_count": 0 if outage is None else outage.failures,
        "outage_ms": 0 if outage is None else outage.waited_ms,
        "outage_told": 0 if outage is None else int(outage.is_told),
    }


def _check_going_on(standing: statements.WorkflowFacts, old: Run) -> None:
    """Refuse to end a wait in a paused workflow: the pause may be newer than the decision (F7)."""
    waits = (Status.PAUSED_TRANSIENT, Status.PAUSED_APPROVAL, Status.CRASHED)
    if standing.paused and old.status in waits:
        raise Stale(code="workflow_paused")


def _publish(
    tx: Transaction,
    workflow_id: str,
    run_id: str,
    commit: Commit,
    now: int,
    roots: Sequence[int] = (),
) -> None:
    """Write what a run publishes; what a finished event does not take is in its log (T5)."""
    dropped = []
    for each in commit.publications:
        came = statements.publish(tx, workflow_id, each, created_by=run_id, roots=roots, now=now)
        if came[0] is Republish.DROPPED:
            dropped.append(each)
    if dropped:
        logs = add_warning(commit.logs, say_dropped(dropped), now)
        tx.write("keep_notes", id=run_id, calls=commit.calls, logs=logs)


def _finish(
    tx: Transaction, fence: Fence, run_id: str, old: Run, new: Run, commit: Commit, now: int
) -> tuple[str, int, str | None]:
    """Write the committed run; return its handler, S3's counter and who prepared it."""
    finished = tx.one(
        "finish_run",
        **statements.guarded(fence.workflow_id, run_id, old, new),
        state_after=commit.state,
        calls=commit.calls,
        logs=commit.logs,
        now=now,
    )
    handler, counter, prepared_by = statements.must(finished, f"Run {run_id}")
    note(RUNS, new.status)
    return handler, counter, prepared_by


@dataclass(slots=True)
class _Looked:
    """What was found of a wish to reserve, as far as it was looked at."""

    judgement: Judgement = Judgement.RESERVE
    refusal: Invalid | None = None
    seqs: list[int] = field(default_factory=list)


def _look(tx: Transaction, workflow_id: str, reserves: tuple[Reserve, ...]) -> _Looked:
    """Judge the ids in their order; the first that cannot be had ends the looking (T7, C5)."""
    looked = _Looked()
    for at in range(0, len(reserves), LOOKED_AT_ONCE):
        some = reserves[at : at + LOOKED_AT_ONCE]
        found = _find(tx, workflow_id, some)
        for reserve in some:
            status, seq, content = found.get((reserve.topic, reserve.message_id), UNKNOWN)
            judged = judge_reservation(status, content, reserve.offered)
            looked.judgement = judge_all((looked.judgement, judged))
            if looked.judgement is Judgement.REFUSE:
                looked.refusal = not_to_be_had(reserve, status)
                return looked
            looked.seqs.append(seq)
    return looked


def _find(
    tx: Transaction, workflow_id: str, reserves: tuple[Reserve, ...]
) -> dict[tuple[str, str], Found]:
    """Look up a few ids at a time, by topic."""
    ids_of: dict[str, list[str]] = {}
    for reserve in reserves:
        ids_of.setdefault(reserve.topic, []).append(reserve.message_id)
    return {
        (topic, message_id): (EventStatus(status), seq, content)
        for topic, ids in ids_of.items()
        for message_id, status, seq, content in tx.all(
            "find_events", workflow_id=workflow_id, topic=topic, ids=as_set(ids)
        )
    }


def _reserve(tx: Transaction, workflow_id: str, run_id: str, seqs: list[int]) -> None:
    """Reserve all of these events and pin their contents, or refuse (C5, C6)."""
    for at in range(0, len(seqs), LOOKED_AT_ONCE):
        some = seqs[at : at + LOOKED_AT_ONCE]
        which = {"workflow_id": workflow_id, "run_id": run_id, "seqs": as_set(some)}
        tx.change("reserve_events", f"An event of run {run_id}", len(some), **which)
        tx.write("insert_reservations", **which)


def not_to_be_had(reserve: Reserve, status: EventStatus | None) -> Invalid:
    """Say why an event cannot be reserved (C5)."""
    return Invalid(
        code="not_reservable",
        path="reservations",
        facts={"event": reserve.message_id, "topic": reserve.topic, "status": status},
    )
