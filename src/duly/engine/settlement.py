"""A person's answer to the one question Duly cannot decide itself: did it happen? (L10)

Law 1  An answer is taken only while the mutation is indeterminate, or while nothing could be asked
       for an hour and the person was told (L5).
Law 2  "It did not happen" is believed no earlier from a person than from the outside (L6), and
       never while the send itself has not returned: it may still land. In a fleet the end of the
       sends stands on the row, by the server's clock, and any host judges by it.
"""

from __future__ import annotations

from typing import Final

from duly.engine.announcements import Announcements
from duly.engine.base import Parts, StepFailed
from duly.engine.worker import Worker
from duly.errors import Invalid, RequestRefused
from duly.rules import lifecycle
from duly.rules.catalog import Tool
from duly.rules.ledger import Terms, terms_of
from duly.rules.schedule import SECOND_MS, moment
from duly.rules.value import Json, encode
from duly.rules.word import Act, Failure
from duly.store.base import Fence
from duly.store.record import Action, MutationRow, Stop

ANSWERS: Final = frozenset({Act.TRY_AGAIN, Act.DID_NOT_HAPPEN, Act.HAPPENED, Act.SKIP})


async def settle(
    parts: Parts,
    worker: Worker,
    mutation_id: str,
    answer: Act,
    *,
    said_ms: int,
    seen: int | None = None,
    result: Json = None,
    action: Action,
) -> None:
    """Store a person's answer; a run that is active by it goes on (R4).

    `said_ms` is when the person gave it, by the clock of durations; `seen` of how many sends.
    """
    assert answer in ANSWERS, answer
    row = await parts.store.get_mutation(mutation_id)
    run = await parts.store.get_run(row.held_by)
    is_told = bool(row.outage_told)
    decided = lifecycle.act(run.state, answer, is_told=is_told).run  # refuses what is not unknown
    live = worker.resume(await parts.store.outlook(row.workflow_id), run)
    tool = _find(parts, row.tool)
    if answer in (Act.TRY_AGAIN, Act.DID_NOT_HAPPEN):
        _check_returned(worker, row)
    ended: int | None = None
    if answer is Act.DID_NOT_HAPPEN:
        terms = terms_of(row.terms, tool)
        ended = await _check_absence(parts, worker, live.fence, row, terms, said_ms)
    if answer is Act.TRY_AGAIN:
        await worker.check_repeatable(tool, row)
    now = parts.env.now_ms()
    stop: Stop | None = None
    due_at = None
    if answer is Act.TRY_AGAIN:
        due_at = now
    elif answer is Act.DID_NOT_HAPPEN:
        told = StepFailed(f"{row.tool}: you said that it did not happen", Failure.TRANSIENT)
        stop = worker.successor.stop(live, decided, told)
    await parts.store.settle(
        mutation_id,
        answer,
        seen=seen,
        result=_result_text(parts, answer, result),
        stop=stop,
        due_at=due_at,
        ended=ended,
        action=action,
        now=now,
        announce=await Announcements(parts).changed(live, decided),
    )


def _result_text(parts: Parts, answer: Act, result: Json) -> str | None:
    if answer is not Act.HAPPENED:
        if result is not None:
            raise Invalid(code="no_result", path="result", facts={"answer": answer})
        return None
    limits = parts.policy.limits
    return encode(result, "result", limit_bytes=limits.result_bytes, depth=limits.json_depth)


def _check_returned(worker: Worker, row: MutationRow) -> None:
    if worker.ledger.sends.is_out(row.id):
        raise RequestRefused(code="still_out", subject=row.tool)


async def _check_absence(
    parts: Parts, worker: Worker, seen: Fence, row: MutationRow, terms: Terms, said_ms: int
) -> int | None:
    """Refuse to believe that it did not happen while a send of it may still land (L6).

    A person knows what was so when they spoke; the store may have kept us waiting since. The end of
    the sends stands on the row, so any host can judge; return it, if this was decided by it. Where
    it does not, the holder alone knows it, and writes it down when it must refuse.
    """
    sends, ended = worker.ledger.sends, None
    is_held = parts.lease is None or worker.claims.fence_of(row.workflow_id) is not None
    if parts.lease is not None:
        ended = await parts.store.find_end(row.id)
        said_at = parts.lease.clock_least_ms(said_ms)
        if ended is not None and said_at is not None:
            wait_ms = max(0, terms.lag_ms - (said_at - ended))
            if wait_ms == 0:
                return ended
            # One that is further away was written before the clock was set back.
            if not is_held and wait_ms <= terms.timeout_ms + terms.lag_ms:
                raise _too_early(parts, said_ms, wait_ms)
    if not is_held:
        await _check_holder(parts, worker, row.workflow_id)
    fence = worker.claims.fence_of(row.workflow_id)
    wait_ms = sends.absence_wait_ms(seen, row.id, terms, said_ms)
    if wait_ms <= 0:
        return None
    if fence is not None and parts.lease is not None and ended is None:
        in_ms = sends.ends_in_ms(row.id, row.workflow_id, terms.timeout_ms)
        await parts.store.note_end(fence, row.id, row.attempt, in_ms)
    raise _too_early(parts, said_ms, wait_ms)


async def _check_holder(parts: Parts, worker: Worker, workflow_id: str) -> None:
    """Refuse where another host holds the workflow: only that one knows when the call ended (L6).

    A workflow that no host holds is claimed, so that the time counts from now on. Where that cannot
    be either, only hosts on the machine of its files may claim it (H7).
    """
    for _ in range(2):  # its holder may leave just now
        if await worker.claims.is_watched(workflow_id):
            return
        workflow = await parts.store.get_workflow(workflow_id)
        if workflow.holder in {each.id for each in await parts.store.list_hosts()}:
            raise RequestRefused(code="held_elsewhere", subject=workflow.name)
    if workflow.missing_machine is None and parts.lease is not None:
        lacking = await parts.store.list_lacking(parts.lease.host_id, workflow_id)
        if lacking:
            raise RequestRefused(
                code="needs_tool", subject=workflow.name, facts={"tools": [*lacking]}
            )
    facts = {"machine": workflow.missing_machine}
    raise RequestRefused(code="needs_machine", subject=workflow.name, facts=facts)


def _too_early(parts: Parts, said_ms: int, wait_ms: int) -> RequestRefused:
    """Say from when on it is believed: whole seconds, and never too early (L6)."""
    said_at = parts.env.now_ms() - (parts.env.monotonic_ms() - said_ms)
    whole_ms = -(-(said_at + wait_ms) // SECOND_MS) * SECOND_MS
    return RequestRefused(code="too_early", facts={"from": moment(whole_ms).isoformat()})


def _find(parts: Parts, name: str) -> Tool | None:
    """Find the tool; where its connector is not here, what the row keeps of it holds alone (L6)."""
    try:
        return parts.outside.catalog.find(name)
    except Invalid:
        return None
