"""The ledger: every outside change, written down before it is made (L).

Law: a row is `in_flight` on the disk before the first byte leaves (L2), it moves only as the rules
decided, together with the run that holds it, and its call is never changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from duly.env import Boot
from duly.errors import NotFound, Stale, see
from duly.rules.access import Step
from duly.rules.forgetting import ERASED_ARGS
from duly.rules.late import LateAnswer, keep_late, read_late
from duly.rules.ledger import Knowledge, idempotency_key
from duly.rules.lifecycle import Change, Run, act
from duly.rules.outage import Outage
from duly.rules.retention import FINAL
from duly.rules.schedule import DAY_MS
from duly.rules.seal import judge, make_seal
from duly.rules.word import Act, Known, Status
from duly.store import recording, statements
from duly.store.base import Fence, Transaction, stale
from duly.store.record import (
    Action,
    Call,
    JournalEvent,
    Key,
    MutationRow,
    Recorded,
    RunRow,
    Stop,
)
from duly.store.run import write_stop
from duly.store.seal import seal_end, seal_late
from duly.store.tally import note_row, note_send, note_tool

NO_BOOT: Final = Boot(None, 0)  # of a caller that does not know it: nothing is compared with it


def count_sent(
    tx: Transaction, workflow_id: str, tools: Iterable[str], *, since: int, besides: str = ""
) -> int:
    """Return how often any of these tools was sent since a moment, one row left out (A1)."""
    until = since + 2 * DAY_MS  # a later time was written by a clock that was wrong
    here = {"workflow_id": workflow_id, "since": since, "until": until, "besides": besides}
    counted = (
        statements.must(tx.one("count_sent", tool=each, **here), "The ledger") for each in tools
    )
    return sum(int(count) for (count,) in counted)


def propose(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    new: Run,
    call: Call,
    *,
    calls: str | None = None,
    logs: str | None = None,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> None:
    """Write a call that waits for a person, with what its run called and logged so far (A3, R1)."""
    statements.check(tx, fence)
    open_row(tx, fence, run_id, old, new, call, now=now, sent_at=None)
    tx.write("keep_notes", id=run_id, calls=calls, logs=logs)
    statements.announce(tx, announce, now, run_id=run_id)


def send(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    new: Run,
    call: Call,
    *,
    now: int,
    boot: Boot = NO_BOOT,
    basis: str | None = None,
) -> Key:
    """Write the call that is about to be sent (L2); return its key (L7).

    `basis` is a digest of the account that it is sent with.
    """
    check_sending(tx, fence)
    opened = partial(open_row, tx, fence, run_id, old, new, call)
    return opened(now=now, sent_at=now, boot=boot, basis=basis)


def send_again(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    new: Run,
    *,
    now: int,
    boot: Boot = NO_BOOT,
    basis: str | None = None,
) -> MutationRow:
    """Write that the recorded call is about to be sent once more: same row, same key (F4, L7).

    While an earlier send of it is unknown, `basis` stays what that one was sent with.
    """
    check_sending(tx, fence)
    is_resend = old.status is Status.PAUSED_RECONCILIATION
    statements.move_run(tx, fence, run_id, old, new, now)
    return _send_row(tx, run_id, old, now, boot, basis, is_resend=is_resend)


def send_approved(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    *,
    now: int,
    boot: Boot = NO_BOOT,
    basis: str | None = None,
) -> MutationRow:
    """Write that an approved call is about to be sent; until here no host began it (A4, L2)."""
    check_sending(tx, fence)
    statements.check_run(tx, fence, run_id, old)
    found = statements.must(
        tx.one("get_held_mutation", held_by=run_id), f"The mutation of run {run_id}"
    )
    mutation = MutationRow(*found)
    if not mutation.is_unsent:
        raise Stale(
            code="changed_meanwhile",
            subject=f"mutation {mutation.id}",
            facts={"status": mutation.status},
        )
    return _send_row(tx, run_id, old, now, boot, basis, is_resend=False)


def record(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    new: Run,
    recorded: Recorded,
    *,
    stop: Stop | None = None,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> None:
    """Write what became known of a mutation, with the phase or the stop that follows (L9, L4)."""
    statements.check(tx, fence)
    settle_run(
        tx, fence.workflow_id, run_id, old, new, recorded.result, stop, now, epoch=fence.epoch
    )
    _settle_row(tx, run_id, old, new, recorded, now)
    statements.announce(tx, announce, now, run_id=run_id)


def count_attempt(
    tx: Transaction,
    fence: Fence,
    mutation_id: str,
    asks: int,
    was_due_at: int | None,
    *,
    is_counted: bool,
    due_at: int,
    error: str | None,
    now: int,
    outage: Outage | None = None,
    announce: tuple[JournalEvent, ...] = (),
) -> None:
    """Write that asking gave no answer, and when to ask again; not every ask is counted (L6).

    `outage` is what is kept of questions that could not be asked, `announce` tells a person (L5).
    """
    statements.check(tx, fence)
    tx.change(
        "count_ask",
        f"Mutation {mutation_id}",
        id=mutation_id,
        workflow_id=fence.workflow_id,
        old_asks=asks,
        old_due_at=was_due_at,
        asks=asks + int(is_counted),
        due_at=due_at,
        error=error,
        now=now,
        **_outage_columns(outage),
    )
    if announce:
        statements.announce(tx, announce, now, run_id=read_mutation(tx, mutation_id).held_by)


def settle(
    tx: Transaction,
    mutation_id: str,
    answer: Act,
    *,
    seen: int | None = None,
    result: str | None = None,
    stop: Stop | None = None,
    due_at: int | None = None,
    ended: int | None = None,
    action: Action,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> Change:
    """Decide an unknown mutation by a person's answer; of two answers one wins (L5, L10).

    With `ended` it was decided on the end of its sends that the row has, which must be there (L6).
    """
    mutation, run = read_held(tx, mutation_id)
    statements.check_sends(mutation, seen)
    if ended is not None and tx.one("find_end", id=mutation_id) != (ended,):
        raise stale(f"mutation {mutation_id}")
    change = act(run.state, answer, is_told=bool(mutation.outage_told))
    known = None if answer is Act.TRY_AGAIN else Knowledge(Known.SETTLED, by=action.by, said=answer)
    recorded = Recorded(mutation.attempt, result=result, due_at=due_at, known=known)
    settle_run(tx, run.workflow_id, run.id, run.state, change.run, result, stop, now)
    _settle_row(tx, run.id, run.state, change.run, recorded, now)
    if answer is Act.TRY_AGAIN:
        tx.write("reset_asks", id=mutation_id)
    statements.note(tx, action, now, workflow_id=mutation.workflow_id, target=mutation_id)
    statements.announce(tx, announce, now, run_id=run.id)
    return change


def record_late(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    new: Run,
    recorded: Recorded,
    *,
    stop: Stop | None = None,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> None:
    """Write a late answer of a send that settles its row (L1).

    The answer comes once and from no other source, so the caller waits for the disk.
    """
    record(tx, fence, run_id, old, new, recorded, stop=stop, now=now, announce=announce)


def keep_late_answer(tx: Transaction, mutation_id: str, late: LateAnswer) -> None:
    """Write what a send returned when it decided nothing any more, once (L1); seal it too (L15)."""
    tx.one("look_at_mutation", id=mutation_id)  # it may be erased at this moment (H5)
    row = read_mutation(tx, mutation_id)
    if row.args == ERASED_ARGS:
        late = replace(late, message=None, said=None)  # what was erased does not come back (H5)
    known = read_late(row.late)
    if any(each.is_same(late) for each in known):
        raise Stale(code="changed_meanwhile", subject=mutation_id)
    text = keep_late((*known, late))
    if row.has_ended:
        seal_late(tx, row, text)
    here = {"id": mutation_id, "old": row.late}
    tx.change("keep_late_answer", f"Mutation {mutation_id}", **here, late=text)


def keep_handle(
    tx: Transaction, fence: Fence, mutation_id: str, attempt: int, handle: str, *, now: int
) -> None:
    """Write what the first step of a call made, before its second step is sent (L14).

    Only the send that is out may do so, and only on the host that holds the workflow. The row is
    sealed again with the handle, if it was whole before (L11).
    """
    statements.check(tx, fence)
    row, key = read_mutation(tx, mutation_id), tx.seal_key
    assert key is not None, mutation_id
    if judge(key, row.facts, row.seal) is not None:
        raise Stale(code="changed_meanwhile", subject=mutation_id)
    tx.change(
        "keep_handle",
        f"Mutation {mutation_id}",
        id=mutation_id,
        workflow_id=fence.workflow_id,
        attempt=attempt,
        old_handle=row.handle,
        handle=handle,
        seal=make_seal(key, replace(row.facts, handle=handle)),
        now=now,
    )


def read_mutation(tx: Transaction, mutation_id: str) -> MutationRow:
    """Read a row of the ledger."""
    found = tx.one("get_mutation", id=mutation_id)
    if found is None:
        raise NotFound(code="no_mutation", subject=mutation_id, next=see("mutations"))
    return _seen(MutationRow(*found))


def read_held_row(tx: Transaction, run_id: str) -> MutationRow | None:
    """Read the row that a run holds, if it has one."""
    found = tx.one("get_held_mutation", held_by=run_id)
    return None if found is None else _seen(MutationRow(*found))


def read_held(tx: Transaction, mutation_id: str) -> tuple[MutationRow, RunRow]:
    """Read a row and the run that answers for it, under the workflow's lock."""
    statements.look(tx, read_mutation(tx, mutation_id).workflow_id)
    mutation = read_mutation(tx, mutation_id)
    run = statements.read_run(tx, mutation.held_by)
    if not run.open:
        raise Stale(
            code="changed_meanwhile",
            subject=f"mutation {mutation_id}",
            facts={"status": mutation.status},
        )
    return mutation, run


def check_sending(tx: Transaction, fence: Fence) -> statements.WorkflowFacts:
    """Refuse to send in a paused workflow: the pause may have come after the decision (F7)."""
    standing = statements.check(tx, fence)
    if standing.paused:
        raise Stale(code="workflow_paused", subject=fence.workflow_id)
    return standing


def open_row(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    old: Run,
    new: Run,
    call: Call,
    *,
    now: int,
    sent_at: int | None,
    boot: Boot = NO_BOOT,
    basis: str | None = None,
) -> Key:
    """Write the row of a call, with its key and seal, and its run; return the key (L7, L11)."""
    assert old.row is None, old
    assert new.row is not None, new
    terms, key = call.terms, find_key(tx, call.inputs, now)
    seal_key = tx.seal_key
    assert seal_key is not None, call.id  # the engine makes it, if there is none yet
    statements.move_run(tx, fence, run_id, old, new, now)
    tx.change(
        "insert_mutation",
        f"Run {run_id}, which has its mutation already,",
        id=call.id,
        workflow_id=fence.workflow_id,
        run_id=run_id,
        tool=call.tool,
        args=call.args,
        title=call.title,
        inputs=call.inputs,
        key=key.text,
        hash=call.hash,
        status=new.row,
        attempt=0 if sent_at is None else 1,
        sent_at=sent_at,
        lag_ms=None if terms is None else terms.lag_ms,
        timeout_ms=None if terms is None else terms.timeout_ms,
        key_lifetime_ms=None if terms is None else terms.key_lifetime_ms,
        boot=None if sent_at is None else boot.id,
        boot_ms=None if sent_at is None else boot.ms,
        clock=None if sent_at is None else boot.clock_ms,
        asked=int(call.asked),
        approved_by=call.approved_by,
        allowance_id=call.allowance_id,
        seal=make_seal(seal_key, call.facts(fence.workflow_id, key.text)),
        basis=basis,
        now=now,
    )
    note_row(run_id, new.row, call.tool)
    if sent_at is not None:
        note_send(run_id)
    if call.reads is not None:
        recording.keep_reads(tx, run_id, Step.MUTATE, call.reads)
    return key


def find_key(tx: Transaction, inputs: str, now: int) -> Key:
    """Return the key of a set of inputs: another one after each refusal on its merits (L7)."""
    (generation,) = statements.must(tx.one("count_refusals", inputs=inputs), "The ledger")
    key = idempotency_key(inputs, generation)
    (first_at,) = statements.must(tx.one("first_send", key=key), "The ledger")
    return Key(key, now if first_at is None else first_at)


def _send_row(
    tx: Transaction,
    run_id: str,
    old: Run,
    now: int,
    boot: Boot,
    basis: str | None,
    *,
    is_resend: bool,
) -> MutationRow:
    sent = tx.one(
        "send_mutation",
        held_by=run_id,
        old_status=old.row,
        is_resend=int(is_resend),
        boot=boot.id,
        boot_ms=boot.ms,
        clock=boot.clock_ms,
        basis=basis,
        now=now,
    )
    (mutation_id,) = statements.must(sent, f"The mutation of run {run_id}")
    row = read_mutation(tx, mutation_id)
    note_send(run_id)
    return row


def settle_run(
    tx: Transaction,
    workflow_id: str,
    run_id: str,
    old: Run,
    new: Run,
    result: str | None,
    stop: Stop | None,
    now: int,
    *,
    epoch: int | None = None,
) -> None:
    """Write the run of a row that moves: as it goes on, or as it stops.

    A run that goes on by a person's act has no epoch: no host has taken it up yet (H2).
    """
    # A stop has no place for a result, and a run that waits for a time must say which (F2).
    assert stop is None or new.status is not Status.ACTIVE, (new, stop)
    assert stop is not None or new.status in (Status.ACTIVE, Status.PAUSED_RECONCILIATION), new
    if stop is not None:
        write_stop(tx, workflow_id, run_id, old, new, stop, now)
        return
    statements.change_run(
        tx,
        "settle_run",
        workflow_id,
        run_id,
        old,
        new,
        result=result,
        epoch=epoch,
        now=now,
    )


def _settle_row(
    tx: Transaction, run_id: str, old: Run, new: Run, recorded: Recorded, now: int
) -> None:
    known = recorded.known
    tx.change(
        "settle_mutation",
        f"The mutation of run {run_id}",
        held_by=run_id,
        old_status=old.row,
        attempt=recorded.attempt,
        status=new.row,
        result=recorded.result,
        error=recorded.error,
        refused=int(recorded.refused),
        due_at=recorded.due_at,
        is_unsent=int(recorded.is_unsent),
        known_how=None if known is None else known.how,
        known_by=None if known is None else known.by,
        known_said=None if known is None else known.said,
        now=now,
        **_outage_columns(recorded.outage),
    )
    if new.row in FINAL:
        seal_end(tx, run_id)
    if new.row is not None and new.row is not old.row:
        note_row(run_id, new.row)


def _seen(row: MutationRow) -> MutationRow:
    """Remember which tool a row calls: its next move is counted under that name."""
    note_tool(row.held_by, row.tool)
    return row


def _outage_columns(outage: Outage | None) -> dict[str, int | None]:
    """Spell an outage as columns; without one they are empty (L5)."""
    return {
        "outage_since": None if outage is None else outage.since_ms,
        "outage_count": 0 if outage is None else outage.failures,
        "outage_ms": 0 if outage is None else outage.waited_ms,
        "outage_told": 0 if outage is None else int(outage.is_told),
    }
