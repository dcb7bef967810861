"""The only place that reads clocks, makes ids, is random, starts tasks or blocks.

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
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from duly import fork

R = TypeVar("R")

ID_TIME_DIGITS = 11
ID_RANDOM_BYTES = 8
ID_STEP = 2**32  # the largest step from one id to the next within the same millisecond
BLOCKING_THREADS_MAX = 8
SLEEP_SLICE_S = 60.0
LAG_SPAN_MS = 300_000  # the longest lag is that of this span and of the one before
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TIME_NAMESPACE = Path("/proc/self/ns/time")  # each has a boot clock of its own


@dataclass(frozen=True, slots=True)
class Boot:
    """A moment of this boot of the machine: its clock cannot be set, and every process shares it.

    Without an id the machine does not name its boots: then no two moments can be compared.
    """

    id: str | None
    ms: int
    clock_ms: int | None = None  # of the store's server at that moment, or a little less (L7)


# The call of a connector that the running code is a part of (`duly.connectors.watch`), if any.
CALL: Final[ContextVar[object]] = ContextVar("call", default=None)


def _awake_or_not_s() -> float:
    """Return a clock that never goes back and goes on while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def machine_ms() -> int:
    """Return the machine's monotonic clock."""
    return time.monotonic_ns() // 1_000_000


def precise_s() -> float:
    """Return a clock for figures, which no decision reads."""
    return time.perf_counter()


def unguessable() -> str:
    """Return a word that no other program can guess: the number of a message to one."""
    return os.urandom(8).hex()


@cache
def _boot_id() -> str | None:
    """Return a name for this boot and this time namespace, which may have another boot clock."""
    namespace = ""
    with suppress(OSError):  # an older kernel has none
        namespace = str(TIME_NAMESPACE.readlink())
    with suppress(OSError):
        return f"{BOOT_ID.read_text(encoding='ascii').strip()} {namespace}".strip()
    return None


class Lag:
    """The longest that an event loop kept work waiting which could have gone on, of late.

    It is noted by work that is done anyway: a timer that was due, a thread that had ended, a step
    of a connector. An idle host notes nothing and is kept from nothing. To ask changes nothing, so
    several monitors see the same.
    """

    def __init__(self, clock_ms: Callable[[], int] = machine_ms) -> None:
        self._clock_ms = clock_ms
        self._span = 0
        self._longest_s = 0.0
        self._before_s = 0.0  # the longest of the span before

    def note(self, seconds: float) -> None:
        """Note how long something was kept waiting."""
        self._turn()
        self._longest_s = max(self._longest_s, seconds)

    def longest_s(self) -> float:
        """Return the longest of the last five to ten minutes."""
        self._turn()
        return max(self._longest_s, self._before_s)

    def _turn(self) -> None:
        span = self._clock_ms() // LAG_SPAN_MS
        if span != self._span:
            self._before_s = self._longest_s if span == self._span + 1 else 0.0
            self._span, self._longest_s = span, 0.0


class Env(Protocol):
    """What the outside of the program gives to the inside."""

    lag: Lag

    def now_ms(self) -> int:
        """Return the wall clock, in milliseconds since 1970 UTC."""

    def monotonic_ms(self) -> int:
        """Return a clock that never goes back, for durations."""

    def boot(self) -> Boot:
        """Return which boot of the machine this is, and for how long it has lasted."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""

    def new_id(self, kind: str) -> str:
        """Make an id that was never used: `run_0192…`."""

    def random_bytes(self, count: int) -> bytes:
        """Make bytes that cannot be guessed."""

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task that runs beside the caller."""

    async def call_blocking(self, function: Callable[[], R]) -> R:
        """Run a function that blocks in a thread, so that the event loop goes on.

        The store reaches its disk this way. A connector that waits for another computer has
        threads of its own, so that no barrier ever waits behind it.
        """

    async def call_leasing(self, function: Callable[[], R]) -> R:
        """Run a function that blocks in the one thread that is for the lease of a host (H2).

        The lease never waits for a thread that other work occupies.
        """

    async def compute(self, function: Callable[[], R]) -> R:
        """Run a long computation in a thread, so that the event loop goes on; one at a time.

        It has a thread of its own, so that no barrier ever waits behind a computation.
        """


class Loop:
    """The real world: the machine's clocks, its randomness, threads of the running event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(BLOCKING_THREADS_MAX, thread_name_prefix="duly")
        self._computing = ThreadPoolExecutor(1, thread_name_prefix="duly-compute")
        self._leasing = ThreadPoolExecutor(1, thread_name_prefix="duly-lease")
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_id = 0
        self.lag = Lag()
        fork.own(self)

    def abandon(self) -> None:
        """Take threads of its own in a forked child, where the parent's do not exist (H1)."""
        fork.leak((self._threads, self._computing, self._leasing))
        self._threads = ThreadPoolExecutor(BLOCKING_THREADS_MAX, thread_name_prefix="duly")
        self._computing = ThreadPoolExecutor(1, thread_name_prefix="duly-compute")
        self._leasing = ThreadPoolExecutor(1, thread_name_prefix="duly-lease")

    def now_ms(self) -> int:
        """Return the machine's wall clock."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return the machine's monotonic clock."""
        return machine_ms()

    def boot(self) -> Boot:
        """Return the boot of this machine, which all its processes share."""
        has_clock = hasattr(time, "CLOCK_BOOTTIME")
        return Boot(_boot_id() if has_clock else None, round(_awake_or_not_s() * 1000))

    async def sleep(self, seconds: float) -> None:
        """Sleep on the event loop, also while the whole machine is suspended.

        The event loop's own clock stands still then, so a long sleep is divided into slices.
        """
        ends_s = _awake_or_not_s() + seconds
        await self._doze(min(seconds, SLEEP_SLICE_S))
        while (left_s := ends_s - _awake_or_not_s()) > 0:
            await self._doze(min(left_s, SLEEP_SLICE_S))

    async def _doze(self, seconds: float) -> None:
        """Sleep, and note how late the event loop came back to it."""
        due_s = precise_s() + seconds
        await asyncio.sleep(seconds)
        self.lag.note(precise_s() - due_s)

    def new_id(self, kind: str) -> str:
        """Make an id out of the kind, the time and eight random bytes.

        Ids of one process grow, also within a millisecond and when the clock is set back, so a list
        sorted by id is in the order of creation.
        """
        chance = int.from_bytes(os.urandom(ID_RANDOM_BYTES))
        number = (self.now_ms() << (8 * ID_RANDOM_BYTES)) | chance
        self._last_id = number if number > self._last_id else self._last_id + 1 + chance % ID_STEP
        return f"{kind}_{self._last_id:0{ID_TIME_DIGITS + 2 * ID_RANDOM_BYTES}x}"

    def random_bytes(self, count: int) -> bytes:
        """Ask the operating system."""
        return os.urandom(count)

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task and keep a reference until it ends; asyncio keeps only a weak one.

        A task of the host is no part of a connector's call, even if that call started it.
        """
        context = copy_context()
        context.run(CALL.set, None)
        task = asyncio.get_running_loop().create_task(coroutine, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def call_blocking(self, function: Callable[[], R]) -> R:
        """Run the function in one of a few threads of our own."""
        return await self._in_thread(self._threads, function)

    async def call_leasing(self, function: Callable[[], R]) -> R:
        """Run the function in the one thread that is for the lease."""
        return await self._in_thread(self._leasing, function)

    async def compute(self, function: Callable[[], R]) -> R:
        """Run the function in the one thread that is for this."""
        return await self._in_thread(self._computing, function)

    async def _in_thread(self, threads: ThreadPoolExecutor, function: Callable[[], R]) -> R:
        """Run it in a thread, and note how late the event loop took up its end."""
        ended_s: list[float] = []

        def run() -> R:
            try:
                return function()
            finally:
                ended_s.append(precise_s())

        try:
            return await asyncio.get_running_loop().run_in_executor(threads, run)
        finally:
            if ended_s:
                self.lag.note(precise_s() - ended_s[0])

    def close(self) -> None:
        """Let the threads end; a function still running is waited for."""
        self._threads.shutdown(wait=True)
        self._computing.shutdown(wait=True)
        self._leasing.shutdown(wait=True)


async def give_turn() -> None:
    """Let the loop do what else there is."""
    await asyncio.sleep(0)
