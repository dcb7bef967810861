"""An event loop whose time is virtual: a day passes in milliseconds, and exactly.

Law 1: time moves only when no task can run: nothing is ready, and nothing real is outstanding. Then
       it moves at once to the next timer. `asyncio.sleep`, `asyncio.timeout` and all other code
       that asks the loop for the time are virtual without knowing it.
Law 2: while something real is outstanding, a worker that computes or a thread, time stands still
       and the loop waits for it: how fast the machine is decides nothing.
Law 3: when no task can run, nothing is outstanding and no timer is set, it raises and names the
       tasks that wait, instead of waiting with them.

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(a_day())             # `await asyncio.sleep(86_400)` in it returns at once
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from duly.errors import DulyError

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

R = TypeVar("R")

MICROSECONDS: Final = 1_000_000
WAITERS_NAMED_MAX: Final = 10
# Longer than any limit of a script: work that is still outstanding then has been forgotten.
OUTSTANDING_MAX_S: Final = 900.0


class Stuck(DulyError):
    """Everything waits for something that never comes."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop in which time is a number.

    `jumps` counts how often time moved, which is how often a timer woke a task. `busy`
    counts what is outstanding outside the loop; threads started through the loop count themselves.
    """

    def __init__(self) -> None:
        self._elapsed_us = 0
        self._resting: deque[asyncio.Future[None]] = deque()
        self.busy = 0
        self.jumps = 0
        super().__init__(_Selector(self))
        # Timers closer than this run together; far from zero a float knows no finer steps, and a
        # timer would never be reached.
        self._clock_resolution = 1 / MICROSECONDS

    def time(self) -> float:
        """Return the virtual time, in seconds since the loop was made."""
        return self._elapsed_us / MICROSECONDS

    @property
    def elapsed_ms(self) -> int:
        """The virtual time in whole milliseconds."""
        return self._elapsed_us * 1000 // MICROSECONDS

    @contextmanager
    def outstanding(self) -> Iterator[None]:
        """Let time stand still while something outside the loop is on its way.

        with loop.outstanding():
            await connection_to_a_real_server.answer()
        """
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1

    def run_in_executor(  # type: ignore[override]  # typeshed's signature needs Python 3.11's private names
        self, executor: Executor | None, func: Callable[..., R], *args: Any
    ) -> asyncio.Future[R]:
        """Run a function in a thread; time stands still until it has returned."""
        future: asyncio.Future[R] = super().run_in_executor(executor, func, *args)
        self.busy += 1
        future.add_done_callback(self._come_back)
        return future

    def _come_back(self, _: asyncio.Future[Any]) -> None:
        self.busy -= 1

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """End the loop's own threads; that is outstanding, too."""
        with self.outstanding():
            await super().shutdown_default_executor(*args, **kwargs)

    async def sleep(self, seconds: float) -> None:
        """Return after so many virtual seconds; after none, when others had their turn."""
        woken: asyncio.Future[None] = self.create_future()
        timer = (
            self.call_later(seconds, _wake, woken) if seconds > 0 else self.call_soon(_wake, woken)
        )
        try:
            await woken
        finally:
            timer.cancel()

    async def rest(self) -> None:
        """Return when no task can run any more before time moves."""
        rested: asyncio.Future[None] = self.create_future()
        self._resting.append(rested)
        await rested

    def _has_rested(self) -> bool:
        """Wake one task that waited for this moment; the moment is over then."""
        while self._resting:
            rested = self._resting.popleft()
            if not rested.done():
                _wake(rested)
                return True
        return False

    def _jump(self, seconds: float) -> None:
        self._elapsed_us += round(seconds * MICROSECONDS)
        self.jumps += 1

    def _stuck(self) -> Stuck:
        names = sorted(task.get_name() for task in asyncio.all_tasks(self))
        shown = ", ".join(names[:WAITERS_NAMED_MAX]) or "no task at all"
        return Stuck(
            f"Everything waits for something that never comes: {shown}. Nothing is ready, no timer"
            " is set and nothing is outstanding. Give the wait a time limit, or let it be answered."
        )


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


class _Selector(selectors.BaseSelector):
    """A real selector that moves the loop's clock where a real one would wait."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; if nothing is, let time pass instead of waiting (law 1)."""
        is_hurried = timeout is not None and timeout <= 0
        if is_hurried and not self._loop.busy:
            return []  # what is real and not outstanding waits until no task can run
        ready = self._real.select(0)
        if ready or is_hurried:
            return ready
        if self._loop.busy:
            return self._wait()
        if self._loop._has_rested():
            return []
        if timeout is None:
            raise self._loop._stuck()
        self._loop._jump(timeout)
        return []

    def _wait(self) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(OUTSTANDING_MAX_S)
        if not ready:
            raise Stuck(
                f"Something outside the loop was outstanding for {OUTSTANDING_MAX_S:g} s and never"
                " came back. The code that raised `busy` must lower it."
            )
        return ready

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: Any = None
    ) -> selectors.SelectorKey:
        """Watch a file."""
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        """Watch a file no longer."""
        return self._real.unregister(fileobj)

    def modify(
        self, fileobj: FileDescriptorLike, events: int, data: Any = None
    ) -> selectors.SelectorKey:
        """Watch a file for something else."""
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        """Return what is watched."""
        return self._real.get_map()

    def close(self) -> None:
        """Give the real selector back."""
        self._real.close()
