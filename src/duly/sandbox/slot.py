"""Slots: how many may do something at once, and whose turn it is when one becomes free.

Law 1: there are never more holders than slots; a holder that is cancelled gives its slot back.
Law 2: workflows take turns. A script waits for every earlier one of its own workflow, and for one
       at most of each other workflow, so no workflow can crowd the others out.
Law 3: closed slots keep no task waiting: each learns of it at once.

A workflow is told from others by its text, which holds its name.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from duly.errors import DulyError

# How many scripts compute at once, of both languages together.
RUNNING_MAX: Final = 2 * (os.cpu_count() or 1)
# A script that was found waiting more often than this gives its place up: soon if a call of it is
# outside the host, and late if the host itself has not answered, since another process would not
# make it faster.
LOOKS_OUTSIDE: Final = 2
LOOKS_INSIDE: Final = 200


class Slots:
    """So many slots, given round-robin by workflow."""

    def __init__(self, most: int) -> None:
        assert most > 0, most
        self._free = most
        # The first workflow here is next; one that was served goes to the end.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._is_closed = False

    @property
    def free(self) -> int:
        """How many are free."""
        return self._free

    @property
    def is_wanted(self) -> bool:
        """Tell whether a task waits for one."""
        return bool(self._waiting)

    def take_now(self) -> bool:
        """Hold a slot if one is free; tell whether it was."""
        if self._is_closed or self._free == 0:
            return False
        self._free -= 1
        return True

    async def take(self, workflow: str) -> None:
        """Wait for a slot and hold it; raise DulyError if the slots are closed or become so."""
        if self._is_closed:
            raise DulyError(code="sandbox_closed")
        if self.take_now():
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(workflow, deque()).append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            # It may have been granted, or closed, at the very moment of the cancel.
            if not granted.cancelled() and granted.exception() is None:
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

    def close(self) -> None:
        """Give no more slots; every task that waits for one raises."""
        self._is_closed = True
        for queue in self._waiting.values():
            for granted in queue:
                if not granted.done():
                    granted.set_exception(DulyError(code="sandbox_closed"))
        self._waiting.clear()


@dataclass(slots=True)
class ScriptPlace:
    """The place of one script among those that may run, and how often it was found waiting.

    Patience is counted in looks of the pool, which are turns of the event loop: a host that is
    slow itself does not take its own time for that of a call.
    """

    workflow: str
    is_held: bool = True
    is_still: bool = True  # it neither runs nor waits for a slot to run
    calls_outside: int = 0
    looks: int = 0

    @contextmanager
    def waiting_outside(self) -> Iterator[None]:
        """Mark the time in which a call is outside the host."""
        # A test in virtual time does this in another thread than the pool's; a look more or less
        # makes no difference.
        if self.calls_outside == 0:
            self.looks = 0
        self.calls_outside += 1
        try:
            yield
        finally:
            self.calls_outside -= 1

    def look(self) -> bool:
        """Tell whether the script has waited for so long that another may have its place."""
        self.looks = self.looks + 1 if self.is_still else 0
        return self.looks > (LOOKS_OUTSIDE if self.calls_outside else LOOKS_INSIDE)
