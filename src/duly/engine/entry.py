"""The ledger row of a call: how it is written, and whether it is still what was written (L2, L11).

Law 1  A row is sealed in the transaction that writes it, under a key that is not in the store.
Law 2  What is sent or asked about is read from the row, and only if the row is whole: its arguments
       and pinned inputs have its hash, and its seal fits.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final, cast

from duly.connectors.base import Call
from duly.engine.base import Parts
from duly.engine.calls import Wanted
from duly.engine.live import Live
from duly.engine.sends import Sends, Sent
from duly.errors import Invalid
from duly.rules import ledger as rules
from duly.rules import lifecycle
from duly.rules.allowance import is_covered
from duly.rules.catalog import Tool
from duly.rules.ledger import Terms
from duly.rules.lifecycle import Run
from duly.rules.permission import proposal_hash
from duly.rules.redaction import redact
from duly.rules.schedule import moment
from duly.rules.seal import Flaw, find_proposal_flaw, find_row_flaw, judge, observe
from duly.rules.value import Json, decode, encode
from duly.store import record
from duly.store.base import Fence
from duly.store.record import AllowanceRow, MutationRow

HANDLE_BYTES_MAX: Final = 4 * 1024

log = logging.getLogger("duly.engine")


async def enter(parts: Parts, live: Live, wanted: Wanted, reads_text: str | None) -> record.Call:
    """Spell the ledger row: the call as observed, its title, its inputs (L2)."""
    await parts.seal_key()  # it is made, if there is none yet
    return record.Call(
        id=parts.env.new_id("mutation"),
        tool=wanted.tool.name,
        args=encode(
            dict(wanted.args), wanted.tool.name, limit_bytes=parts.policy.limits.data_bytes
        ),
        title=live.title,
        inputs=rules.inputs_digest(live.fence.workflow_id, live.handler, live.inputs),
        hash=proposal_hash(wanted.tool.name, wanted.args, live.prepared),
        reads=reads_text,
        terms=Terms.of(wanted.tool),
        asked=wanted.needs_approval,
    )


async def find_allowance(parts: Parts, live: Live, wanted: Wanted) -> AllowanceRow | None:
    """Find the oldest allowance that covers a call; one whose seal does not fit covers none."""
    if wanted.is_after_model:
        return None  # of what a model had a part in, a person sees each (M4)
    now, tool, version = parts.env.now_ms(), wanted.tool, live.version
    workflow_id = live.fence.workflow_id
    found = await parts.store.find_allowances(workflow_id, tool.name, version, now=now)
    key, risk_max = await parts.seal_key(), parts.policy.allowance_risk_max
    for row in found:
        if judge(key, row.facts, row.seal) is not None:
            log.error("allowance %s covers nothing: it was changed in the store", row.id)
        elif is_covered(row.value, tool, wanted.args, version, now, risk_max=risk_max):
            return row
    return None


def allow(call: record.Call, allowance: AllowanceRow) -> record.Call:
    """Spell the same row as one that was approved with an earlier call (A3)."""
    return replace(call, approved_by=allowance.given_by, allowance_id=allowance.id)


def recorded_call(live: Live, tool: Tool, row: MutationRow) -> Call:
    """Spell the call a row records, exactly as it was or will be sent."""
    args = cast("dict[str, Json]", decode(row.args))
    sent_at = row.sent_at or row.created_at
    return Call(
        tool.name,
        args,
        row.key,
        live.workflow,
        row.attempt,
        moment(sent_at),
        moment(row.key_sent_at or row.first_sent_at or sent_at),
        handle=None if row.handle is None else decode(row.handle),
        basis=row.basis,
    )


async def find_flaw(
    parts: Parts, row: MutationRow, prepared_text: str | None, *, is_proposal: bool = False
) -> Flaw | None:
    """Return why a row must not be used; None if it is whole (L11).

    A proposal may still wait for its yes; what is sent or asked about must have it.
    """
    key, observed = await parts.seal_key(), observe(row.tool, row.args, prepared_text)
    if is_proposal:
        return find_proposal_flaw(key, row.facts, row.seal, observed)
    return find_row_flaw(key, row.facts, row.seal, observed)


def keepable(parts: Parts, tool: Tool, result: Json) -> tuple[str, str | None]:
    """Write a result down; one that cannot be kept changes nothing about what happened (L9)."""
    limits = parts.policy.limits
    try:
        path, most = tool.name, limits.result_bytes
        return encode(result, path, limit_bytes=most, depth=limits.json_depth), None
    except Invalid as error:
        return "null", f"{tool.name} was done, but its result was not kept: {error}"


async def keep_handle(parts: Parts, sends: Sends, fence: Fence, sent: Sent, handle: Json) -> None:
    """Write the handle of a call's first step, before its second is sent (L14)."""
    text = _handle_text(parts, sent.tool, handle)
    now, attempt = parts.env.now_ms(), sent.call.attempt
    await parts.store.keep_handle(fence, sent.mutation_id, attempt, text, now=now)
    sends.keep(sent.mutation_id, attempt, handle)


def _handle_text(parts: Parts, tool: Tool, handle: Json) -> str:
    """Write down the handle of a call's first step; one with a secret is refused (L14, A5)."""
    text = encode(handle, f"{tool.name}.handle", limit_bytes=HANDLE_BYTES_MAX)
    if handle is None or redact(handle, parts.outside.secrets()) != handle:
        raise Invalid(code="wrong_handle", path=tool.name)
    return text


def spoil(run: Run, row: MutationRow) -> Run:
    """Decide what becomes of a run whose row was changed in the store (L11).

    A row of which the first send is being written has an attempt already.
    """
    return lifecycle.spoil(run, was_sent=not row.is_unsent and row.attempt > 1)
