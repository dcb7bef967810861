"""A person's yes or no to a call that waits for it (A4).

Law 1  A yes is for exactly the call whose hash was shown, and only while the grants still reach it.
Law 2  A yes is stored before anything is sent, and the call is sent once, by whoever runs the
       workflow: now, or after any number of restarts.
Law 3  Of several answers at once the first is taken, and the others take nothing out of its hands.
"""

from __future__ import annotations

from typing import cast

from duly.engine.base import Parts
from duly.engine.envelope import find_missing
from duly.engine.worker import Worker
from duly.errors import Invalid, RequestRefused
from duly.rules import lifecycle
from duly.rules.catalog import Tool
from duly.rules.value import Json, decode
from duly.rules.word import Act, MutationStatus
from duly.store.record import Action, MutationRow


async def approve(
    parts: Parts, worker: Worker, mutation_id: str, seen: str, *, action: Action
) -> None:
    """Let exactly the proposed call be sent."""
    row = await _proposed(parts, mutation_id)
    outlook = await parts.store.outlook(row.workflow_id)
    run = await parts.store.get_run(row.held_by)
    lifecycle.act(run.state, Act.APPROVE, is_paused=outlook.is_paused)  # the nearest reason first
    args = cast("dict[str, Json]", decode(row.args))
    tool = _tool(parts, row)
    missing = await find_missing(parts, row.workflow_id, tool, args, besides=row.id)
    if missing is not None:
        raise RequestRefused(f"Nothing was sent. {missing.sentence}")
    verb = parts.store.approve(
        outlook.fence, mutation_id, seen, action=action, now=parts.env.now_ms()
    )
    async with worker.holding(row.held_by):
        await verb


async def reject(parts: Parts, worker: Worker, mutation_id: str, *, action: Action) -> None:
    """Decline the proposed call: nothing is sent, and `next` is told that it was skipped."""
    row = await _proposed(parts, mutation_id)
    verb = parts.store.reject(mutation_id, action=action, now=parts.env.now_ms())
    async with worker.holding(row.held_by):
        await verb


async def _proposed(parts: Parts, mutation_id: str) -> MutationRow:
    """Read a row that waits for an answer; whoever comes too late is told what became of it."""
    row = await parts.store.get_mutation(mutation_id)
    if row.status != MutationStatus.PROPOSED:
        raise RequestRefused(f"Mutation {row.id} is {row.status}; it waits for no answer any more.")
    return row


def _tool(parts: Parts, row: MutationRow) -> Tool:
    try:
        return parts.outside.catalog.find(row.tool)
    except Invalid as error:
        raise RequestRefused(
            f"{row.tool} cannot be sent: its connector is not here. Open the host with it, or "
            "reject the call."
        ) from error
