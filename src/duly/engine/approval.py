"""A person's answer to a call that waits for it: yes, yes to several, other words, no (A3, A4).

Law 1  A yes is for exactly the call whose hash was shown, and only while the grants still reach it
       and the row is what was written (L11).
Law 2  A yes is stored before anything is sent. The call is sent once, by the host that runs the
       workflow: now, or after any number of restarts.
Law 3  Of several answers at once the first is taken; the others are refused and change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from duly.engine.base import Parts
from duly.engine.entry import find_flaw
from duly.engine.envelope import find_missing
from duly.errors import Invalid, NotFound, RequestRefused, parts_of, see
from duly.rules import lifecycle
from duly.rules.allowance import Allow, find_misfit, is_risk_allowed
from duly.rules.catalog import Tool, amend_args
from duly.rules.permission import proposal_hash
from duly.rules.seal import AllowanceFacts, make_seal
from duly.rules.value import Json, decode, encode
from duly.rules.word import Act, MutationStatus
from duly.store.approval import Given, Yes
from duly.store.record import Action, MutationRow, RunRow


async def approve(
    parts: Parts,
    mutation_id: str,
    seen: str,
    *,
    action: Action,
    allow: Allow | None = None,
) -> None:
    """Let exactly the proposed call be sent, and with `allow` the next ones that look like it."""
    row, run, yes = await _judge(parts, mutation_id, seen, action)
    given = None
    if allow is not None:
        given = await _give(parts, row, run, allow, action)
    await parts.store.approve(
        mutation_id,
        seen,
        seal=yes.seal,
        action=action,
        given=given,
        now=parts.env.now_ms(),
    )


async def approve_all(
    parts: Parts, seen: Mapping[str, str], *, action: Action
) -> tuple[str | None, ...]:
    """Take a yes to several calls of one tool; say of each why it was refused, or nothing (A3)."""
    answers: list[Yes] = []
    refused: dict[str, str] = {}
    tools: set[str] = set()
    for mutation_id, shown in seen.items():
        own = replace(action, id=parts.env.new_id("action"))
        try:
            tools.add((await parts.store.get_mutation(mutation_id)).tool)
            _, _, yes = await _judge(parts, mutation_id, shown, own)
        except (RequestRefused, NotFound) as error:
            refused[mutation_id] = str(error)
            continue
        answers.append(yes)
    if len(tools) > 1:
        raise Invalid(code="several_tools", path="calls", facts={"tools": sorted(tools)})
    told = await parts.store.approve_all(tuple(answers), now=parts.env.now_ms())
    for yes, reason in zip(answers, told, strict=True):
        if reason is not None:
            refused[yes.mutation_id] = reason
    return tuple(refused.get(each) for each in seen)


async def amend(
    parts: Parts, mutation_id: str, seen: str, args: Mapping[str, Json], *, action: Action
) -> str:
    """Put a person's own arguments in place of a proposed call's; return its new hash (A3)."""
    row = await _proposed(parts, mutation_id)
    run = await parts.store.get_run(row.held_by)
    lifecycle.act(run.state, Act.AMEND)
    await _check_whole(parts, row, run)
    tool = _tool(parts, row)
    old = cast("dict[str, Json]", decode(row.args))
    amended = amend_args(tool, old, args)
    text = encode(amended, tool.name, limit_bytes=parts.policy.limits.data_bytes)
    shown = proposal_hash(tool.name, amended, decode(run.prepared or "null"))
    facts = replace(row.facts, hash=shown, amended_by=action.by)
    await parts.store.amend(
        mutation_id,
        seen,
        args=text,
        hash=shown,
        seal=make_seal(await parts.seal_key(), facts),
        action=action,
        now=parts.env.now_ms(),
    )
    return shown


async def reject(
    parts: Parts,
    mutation_id: str,
    *,
    reason: str | None = None,
    seen: str | None = None,
    action: Action,
) -> None:
    """Decline the proposed call: nothing is sent, and `next` is told that it was skipped."""
    await _proposed(parts, mutation_id)
    now = parts.env.now_ms()
    await parts.store.reject(mutation_id, reason=reason, seen=seen, action=action, now=now)


async def _judge(
    parts: Parts, mutation_id: str, seen: str, action: Action
) -> tuple[MutationRow, RunRow, Yes]:
    """Build the yes, or refuse one that cannot be taken, with the first reason."""
    row = await _proposed(parts, mutation_id)
    outlook = await parts.store.outlook(row.workflow_id)
    run = await parts.store.get_run(row.held_by)
    lifecycle.act(run.state, Act.APPROVE, is_paused=outlook.is_paused)
    await _check_whole(parts, row, run)
    args = cast("dict[str, Json]", decode(row.args))
    if _is_here(parts, row):
        tool = _tool(parts, row)
        missing = await find_missing(parts, row.workflow_id, tool, args, besides=row.id)
        if missing is not None:
            raise RequestRefused(**parts_of(missing.error))
    # The seal is of the hash the person was shown, even if the row was changed since.
    facts = replace(row.facts, hash=seen, approved_by=action.by)
    seal = make_seal(await parts.seal_key(), facts)
    return row, run, Yes(row.workflow_id, mutation_id, seen, seal, action)


async def _give(parts: Parts, row: MutationRow, run: RunRow, allow: Allow, action: Action) -> Given:
    """Spell an allowance that goes with the yes to a call (A3)."""
    tool = _tool(parts, row)
    if not is_risk_allowed(tool, parts.policy.allowance_risk_max):
        raise RequestRefused(
            code="too_risky",
            subject=tool.name,
            facts={"risk": tool.risk, "most": parts.policy.allowance_risk_max},
        )
    misfit = find_misfit(allow.where, tool, cast("dict[str, Json]", decode(row.args)))
    if misfit is not None:
        raise Invalid(code="misfit", path=f"where.{misfit}", facts={"given": allow.where[misfit]})
    facts = AllowanceFacts(
        parts.env.new_id("allowance"),
        row.workflow_id,
        row.id,
        row.tool,
        run.version,
        row.args,
        encode(dict(allow.where), "where", limit_bytes=parts.policy.limits.data_bytes),
        allow.calls,
        allow.until,
        action.by,
        parts.env.now_ms(),
    )
    return Given(facts, make_seal(await parts.seal_key(), facts))


async def _proposed(parts: Parts, mutation_id: str) -> MutationRow:
    """Read a row that waits for an answer; refuse a late one and say how the row was decided."""
    row = await parts.store.get_mutation(mutation_id)
    if row.status != MutationStatus.PROPOSED:
        raise RequestRefused(
            code="not_proposed",
            subject=row.id,
            facts={"status": row.status},
            next=see("why", id=row.id),
        )
    return row


async def _check_whole(parts: Parts, row: MutationRow, run: RunRow) -> None:
    """Refuse to agree to a row that is not what was written (L11)."""
    flaw = await find_flaw(parts, row, run.prepared, is_proposal=True)
    if flaw is not None:
        raise RequestRefused(
            code="never_sent", subject=row.id, facts={"flaw": str(flaw), "run": run.id}
        )


def _is_here(parts: Parts, row: MutationRow) -> bool:
    """Tell whether the grants are judged here: another host of a fleet may have the tool (H7).

    The host that sends the call judges them in any case (A1).
    """
    return parts.lease is None or row.tool in parts.outside.catalog.names


def _tool(parts: Parts, row: MutationRow) -> Tool:
    try:
        return parts.outside.catalog.find(row.tool)
    except Invalid as error:
        raise RequestRefused(code="connector_gone", subject=row.tool) from error
