"""The only place that knows the time, makes ids, is random, starts tasks or blocks.

Law: everything that could differ between two runs of the same program comes from an `Env`, so a
simulator that brings its own `Env` decides every interleaving and repeats it from one seed.

A `Loop` belongs to the event loop that runs it. Ids begin with the time they were made at, so that
their order is the order of creation to the millisecond and an index over them grows at its end.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

R = TypeVar("R")

ID_TIME_DIGITS = 11
ID_RANDOM_BYTES = 8
ID_STEP = 2**32  # how far, at most, an id stands behind the one before it in the same millisecond
BLOCKING_THREADS_MAX = 8
SLEEP_SLICE_S = 60.0
SLICE_MS = 60_000  # how long a sleep trusts the wall clock, which somebody may set


def _awake_or_not_s() -> float:
    """Answer a clock that never goes back and goes on while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Env(Protocol):
    """What the outside of the program gives to the inside."""

    def now_ms(self) -> int:
        """Answer the wall clock, in milliseconds since 1970 UTC."""

    def monotonic_ms(self) -> int:
        """Answer a clock that never goes back, for durations."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""

    def new_id(self, kind: str) -> str:
        """Make an id nobody has: `run_0192…`."""

    def random_bytes(self, count: int) -> bytes:
        """Make bytes nobody can guess."""

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task that runs beside the caller."""

    async def call_blocking(self, function: Callable[[], R]) -> R:
        """Run a function that blocks, without stopping anybody else.

        This is the store's way to its disk. What waits for somebody else's computer, a connector
        that blocks, brings threads of its own, so that no barrier ever waits behind it.
        """


class Loop:
    """The real world: the machine's clocks, its randomness, threads of the running event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(BLOCKING_THREADS_MAX, thread_name_prefix="duly")
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_id = 0

    def now_ms(self) -> int:
        """Answer the machine's wall clock."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Answer the machine's monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Sleep on the event loop, also through a night in which the whole machine slept.

        The event loop's own clock stands still then, so a long sleep is taken in slices.
        """
        ends_s = _awake_or_not_s() + seconds
        await asyncio.sleep(min(seconds, SLEEP_SLICE_S))
        while (left_s := ends_s - _awake_or_not_s()) > 0:  # noqa: ASYNC110  # a time, no event
            await asyncio.sleep(min(left_s, SLEEP_SLICE_S))

    def new_id(self, kind: str) -> str:
        """Make an id out of the kind, the time and eight random bytes.

        Ids of one process grow, also within a millisecond and when the clock is set back: what is
        listed by its id is listed in the order in which it was made.
        """
        chance = int.from_bytes(os.urandom(ID_RANDOM_BYTES))
        number = (self.now_ms() << (8 * ID_RANDOM_BYTES)) | chance
        self._last_id = number if number > self._last_id else self._last_id + 1 + chance % ID_STEP
        return f"{kind}_{self._last_id:0{ID_TIME_DIGITS + 2 * ID_RANDOM_BYTES}x}"

    def random_bytes(self, count: int) -> bytes:
        """Ask the operating system."""
        return os.urandom(count)

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task and hold on to it until it ends; asyncio alone would let it be collected."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def call_blocking(self, function: Callable[[], R]) -> R:
        """Run the function in one of a few threads of our own."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def close(self) -> None:
        """Let the threads end; a function still running is waited for."""
        self._threads.shutdown(wait=True)


async def sleep_until(env: Env, at_ms: int) -> None:
    """Return when this time has come, by the wall clock or by our own: one may be set.

    Others have their turn in any case, also if the time is past.
    """
    left_ms = at_ms - env.now_ms()
    ends_ms = env.monotonic_ms() + max(0, left_ms)
    await env.sleep(min(max(0, left_ms), SLICE_MS) / 1000)
    while (left_ms := min(at_ms - env.now_ms(), ends_ms - env.monotonic_ms())) > 0:
        await env.sleep(min(left_ms, SLICE_MS) / 1000)
