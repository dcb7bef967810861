"""What a workflow may do at this moment: its grants, and how much of their limits is used up (A1).

Law 1  Nothing is remembered: a grant can be taken back at any moment, so it is read at every call.
Law 2  A day is a day of UTC. Every call that was sent in it counts, also the refused ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from duly.engine.base import Parts
from duly.engine.step_env import StepEnv
from duly.rules.catalog import Tool, ToolKind
from duly.rules.permission import Envelope, Grant, Missing, check_grant, read_grant
from duly.rules.schedule import DAY_MS
from duly.rules.value import Json, decode
from duly.store.people import GrantRow


async def read_envelope(parts: StepEnv, workflow_id: str) -> Envelope:
    """Read everything a workflow is granted now."""
    rows = await parts.store.list_grants(workflow_id)
    return Envelope(tuple(_grant(row) for row in rows))


async def count_today(
    parts: StepEnv, workflow_id: str, tool: Tool, envelope: Envelope, *, besides: str = ""
) -> int:
    """Return how often the tool's capability was used today; without a limit nothing is counted.

    `besides` names the row that is about to be sent again: it does not count against itself.
    """
    capability = tool.capability
    limits = (each.mutations_per_day for each in envelope.grants if each.capability == capability)
    if tool.kind is not ToolKind.MUTATION or all(limit is None for limit in limits):
        return 0
    tools = [each.name for each in parts.outside.catalog.tools if each.capability == capability]
    now = parts.env.now_ms()
    return await parts.store.count_sent(
        workflow_id, tools, since=now - now % DAY_MS, besides=besides
    )


async def find_missing(
    parts: Parts, workflow_id: str, tool: Tool, args: Mapping[str, Json], *, besides: str
) -> Missing | None:
    """Say what a recorded call lacks now, though it was granted when it was made (A4)."""
    envelope = await read_envelope(parts, workflow_id)
    used = await count_today(parts, workflow_id, tool, envelope, besides=besides)
    decision = check_grant(tool, args, envelope, used)
    return decision if isinstance(decision, Missing) else None


def _grant(row: GrantRow) -> Grant:
    matching = cast("dict[str, Json]", decode(row.matching))
    return read_grant(row.capability, row.mutations_per_day, matching)
