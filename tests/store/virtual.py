"""A world for the store's tests: its clock moves when the test says so, and nothing has threads.

Law: whatever blocks in the product runs here at once, after one turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from duly.env import Boot, Lag

R = TypeVar("R")

TURNS_TO_REST = 50


class VirtualEnv:
    """An `Env` in which a test owns the time."""

    def __init__(self) -> None:
        self._now_ms = 0
        self._ids = 0
        self._sleepers: list[tuple[int, asyncio.Future[None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.blocking_calls = 0
        self.lag = Lag()

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def boot(self) -> Boot:
        return Boot("boot-1", self._now_ms)

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now_ms + round(seconds * 1000), woken))
        await woken

    def new_id(self, kind: str) -> str:
        self._ids += 1
        return f"{kind}_{self._ids}"

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def call_blocking(self, function: Callable[[], R]) -> R:
        await asyncio.sleep(0)
        self.blocking_calls += 1
        return function()

    async def call_leasing(self, function: Callable[[], R]) -> R:
        """Run it as any function that blocks."""
        return await self.call_blocking(function)

    async def compute(self, function: Callable[[], R]) -> R:
        return function()

    def spend(self, milliseconds: int) -> None:
        """Let time pass inside a call, waking nobody."""
        self._now_ms += milliseconds

    async def advance(self, milliseconds: int) -> None:
        """Let time pass, wake who slept until then, and wait until all is quiet again."""
        await self.rest()
        self._now_ms += milliseconds
        due = [woken for at_ms, woken in self._sleepers if at_ms <= self._now_ms]
        self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[0] > self._now_ms]
        for woken in due:
            if not woken.done():
                woken.set_result(None)
        await self.rest()

    async def rest(self) -> None:
        """Let everybody else run until nobody has anything left to do."""
        for _ in range(TURNS_TO_REST):
            await asyncio.sleep(0)
