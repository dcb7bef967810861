"""The workflows this host has claimed, and under which epoch (H2, H6).

Law 1  A fence comes from the host's own claim, never from the workflow's row: a host that was
       overtaken cannot know it by reading, so every write must be refused by itself.
Law 2  A host that has lost track of a run drops its claim. The next turn claims the workflow anew,
       and the run is found as one that was left under an earlier claim (R7).
Law 3  A claim is taken when a workflow has something to do, and kept until the host ends: an idle
       workflow costs nothing (S9).
"""

from __future__ import annotations

import asyncio

from duly.env import Env
from duly.store import Store
from duly.store.base import Fence


class Claims:
    """What one host holds; it joins the store when it claims its first workflow."""

    def __init__(self, env: Env, store: Store) -> None:
        self._env = env
        self._store = store
        self._host_id: str | None = None
        self._fences: dict[str, Fence] = {}
        self._claiming = asyncio.Lock()  # a workflow is not claimed twice at once

    async def take(self, workflow_id: str) -> Fence:
        """Return the fence of a workflow, which is claimed if it is not yet; `Stale` if held."""
        fence = self._fences.get(workflow_id)
        if fence is not None:
            return fence
        async with self._claiming:
            if workflow_id not in self._fences:
                fence = await self._store.claim(await self._join(), workflow_id)
                self._fences[workflow_id] = fence
            return self._fences[workflow_id]

    def drop(self, workflow_id: str) -> None:
        """Forget a claim: what was taken up under it is recovered."""
        self._fences.pop(workflow_id, None)

    async def list_held_runs(self) -> tuple[str, ...]:
        """List the runs that were taken up here and are not stopped."""
        if self._host_id is None:
            return ()
        return await self._store.list_held_runs(self._host_id)

    async def leave(self) -> None:
        """Give everything back: the host ends."""
        host_id, self._host_id = self._host_id, None
        self._fences.clear()
        if host_id is not None:
            await self._store.leave(host_id)

    async def _join(self) -> str:
        if self._host_id is None:
            host_id = self._env.new_id("host")
            await self._store.join(host_id, now=self._env.now_ms())
            self._host_id = host_id
        return self._host_id
