"""Slots: how many may do something at once, and whose turn it is when one becomes free.

Law 1: there are never more holders than slots; a holder that is cancelled gives its slot back.
Law 2: workflows take turns. A script waits for every earlier one of its own workflow, and for one
       at most of each other workflow, so no workflow can crowd the others out.

A workflow is told from others by its text, which holds its name.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

# How many scripts compute at once, of both languages together.
RUNNING_MAX: Final = 2 * (os.cpu_count() or 1)


class Slots:
    """So many slots, given round-robin by workflow."""

    def __init__(self, most: int) -> None:
        assert most > 0, most
        self._free = most
        # The first workflow here is next; one that was served goes to the end.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def free(self) -> int:
        """How many are free."""
        return self._free

    @property
    def is_wanted(self) -> bool:
        """Tell whether a task waits for one."""
        return bool(self._waiting)

    async def take(self, workflow: str) -> None:
        """Wait for a slot and hold it."""
        if self._free > 0:
            self._free -= 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(workflow, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            # It may have been granted at the very moment of the cancel.
            if not granted.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """Hand a slot to the next that waits, or keep it."""
        while self._waiting:
            workflow = next(iter(self._waiting))
            queue = self._waiting.pop(workflow)
            granted = queue.popleft()
            if queue:
                self._waiting[workflow] = queue
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1

    @asynccontextmanager
    async def held(self, workflow: str) -> AsyncIterator[None]:
        """Hold a slot for as long as this lasts."""
        await self.take(workflow)
        try:
            yield
        finally:
            self.give_back()
