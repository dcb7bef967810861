"""Binds a workflow to the machine whose files its connectors use (H7).

Law: a call of a tool that needs its machine is sent only when the store says that the workflow is
bound to this machine. So no host on another machine sends such a call, or asks about it.
"""

from __future__ import annotations

from duly.engine.base import Parts
from duly.rules.catalog import Tool
from duly.store.base import Fence


async def bind_granted(parts: Parts, fence: Fence) -> None:
    """Bind a workflow that was claimed, if it may use a local tool; a file's host is alone (H6)."""
    lease = parts.lease
    if lease is None or lease.looked_at.get(fence.workflow_id) == fence:
        return
    if local := parts.outside.local_capabilities:
        grants = await parts.store.list_grants(fence.workflow_id)
        if any(each.capability in local for each in grants):
            await _bind(parts, fence)
    lease.looked_at[fence.workflow_id] = fence


async def bind(parts: Parts, fence: Fence, tool: Tool) -> None:
    """Bind a workflow right before a send: the tool may have been granted since the claim."""
    if parts.lease is not None and parts.outside.is_local(tool.name):
        await _bind(parts, fence)


async def _bind(parts: Parts, fence: Fence) -> None:
    assert parts.lease is not None
    if parts.lease.bound.get(fence.workflow_id) == fence:
        return
    await parts.store.bind(fence)
    parts.lease.bound[fence.workflow_id] = fence
