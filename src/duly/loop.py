"""The loop of engine and bus: a bell, a planned time, and an orderly stop (S9, R7).

Law 1  One caller at a time drains or serves; a second caller is refused.
Law 2  When nothing is due nothing runs: the loop sleeps until the bell rings or the planned time
       has come, by the wall clock or by the clock of the boot, whichever is first (S2).
Law 3  What is planned here is only a hint when to look. Every look begins without a plan, so that
       a plan that is made during a look is kept.
Law 4  However a loop ends, it stops in order: nothing new begins, and its tasks come to their end.
Law 5  Two loops may give each other work. A drain of both ends when neither has anything due: one
       that was done begins again when the other rings it.
Law 6  The error of one loop ends both, in order, and is raised to the caller; cancelling ends both.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from duly.env import Env
from duly.errors import RequestRefused

K = TypeVar("K")

REST_MS: Final = 10_000  # how long a loop waits after an error that no rule foresaw
SLICE_MS: Final = 60_000  # how long a sleep trusts the wall clock, which can be set


class WorkLoop(ABC, Generic[K]):
    """Does what is due, while a caller drains or serves it; `K` names one piece of work.

    A subclass says what it means to look (`_look`), to begin what was found (`_begin_found`) and
    to stop (`_stop`).
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._at_work: dict[K, asyncio.Task[None]] = {}
        self._bell = asyncio.Event()
        self._must_look = True  # something may be due, and it is not known where
        # When to look again: by the wall clock, and by the clock that cannot be set.
        self._look_at: int | None = None
        self._look_by: int | None = None
        self._one_at_a_time = OneAtATime()
        self._stopped = asyncio.Event()
        self._stopped.set()

    # -- For callers ----------------------------------------------------------------------------

    async def drain(self) -> None:
        """Work until nothing is due at this moment; wait for no later time."""
        await self._attend(is_draining=True)

    async def serve(self) -> None:
        """Do what is due and what becomes due, until cancelled."""
        await self._attend(is_draining=False)

    @property
    def is_rung(self) -> bool:
        """Tell whether the bell has rung since the last look."""
        return self._bell.is_set()

    async def until_rung(self) -> None:
        """Return when the bell has rung since the last look."""
        await self._bell.wait()

    def wake(self) -> None:
        """Look again: something may be due."""
        self._must_look = True
        self._bell.set()

    # -- For a subclass -------------------------------------------------------------------------

    async def _open(self) -> None:
        """Do what comes before the first look."""

    @abstractmethod
    async def _look(self, now: int, is_draining: bool) -> None:
        """Read what is due, and plan when to look again."""

    @abstractmethod
    def _begin_found(self, is_draining: bool) -> bool:
        """Begin what was found; return whether anything is under way."""

    @abstractmethod
    def _ended(self, key: K, task: asyncio.Task[None]) -> None:
        """Take note that a piece of work has ended."""

    @abstractmethod
    async def _stop(self) -> None:
        """Begin nothing new, and let what is under way come to its end."""

    @property
    def _has_more(self) -> bool:
        """Tell whether the last look left something out that can begin now."""
        return False

    def _begin(self, key: K, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Start a task for one piece of work."""
        task = self._env.spawn(work(), name)
        self._at_work[key] = task
        task.add_done_callback(partial(self._end, key))

    def _plan(self, look_at: int | None, now: int) -> None:
        """Look again at this time, or before; `now` is what the clock showed when it was chosen.

        The clock may have been set back since then, and the wait would be as much longer (S2).
        """
        if look_at is None:
            return
        look_by = self._env.boot().ms + max(0, look_at - now)
        self._look_at = look_at if self._look_at is None else min(self._look_at, look_at)
        self._look_by = look_by if self._look_by is None else min(self._look_by, look_by)

    def _rest(self) -> None:
        """Look again after a while: what an unforeseen error left undone is still there (H3)."""
        now = self._env.now_ms()
        self._plan(now + REST_MS, now)

    # -- The loop itself ------------------------------------------------------------------------

    async def _attend(self, *, is_draining: bool) -> None:
        with self._one_at_a_time():
            self._stopped.clear()
            self._must_look = True
            try:
                await self._open()
                await self._loop(is_draining)
            finally:
                try:
                    await self._stop()
                finally:
                    self._stopped.set()

    async def _loop(self, is_draining: bool) -> None:
        while True:
            self._bell.clear()
            now = self._env.now_ms()
            if self._must_look or self._is_time(now) or self._has_more:
                self._must_look = False
                self._look_at = self._look_by = None
                await self._look(now, is_draining)
            is_under_way = self._begin_found(is_draining)
            if is_draining and not is_under_way and not self._must_look:
                return
            await self._wait(is_draining)

    def _end(self, key: K, task: asyncio.Task[None]) -> None:
        del self._at_work[key]
        self._ended(key, task)

    async def _wait(self, is_draining: bool) -> None:
        """Sleep until the bell rings or the planned time comes (S9)."""
        if self._look_at is None or (is_draining and not self._at_work):
            await self._bell.wait()
            return
        timer = self._env.spawn(self._ring_in_time(), "next planned time")
        try:
            await self._bell.wait()
        finally:
            timer.cancel()

    async def _ring_in_time(self) -> None:
        """Ring when the planned time has come, by either clock (S2).

        What is left is read from both clocks each time. So a clock that was set back meanwhile
        does not make a host sleep longer than it had planned.
        """
        assert self._look_at is not None
        assert self._look_by is not None
        while True:
            left_ms = min(self._look_at - self._env.now_ms(), self._look_by - self._env.boot().ms)
            await self._env.sleep(min(max(0, left_ms), SLICE_MS) / 1000)
            if self._is_time(self._env.now_ms()):
                break
        self._must_look = True
        self._bell.set()

    def _is_time(self, now: int) -> bool:
        """Tell whether the planned time has come, by the wall clock or by that of the boot."""
        if self._look_at is None or self._look_by is None:
            return False
        return self._look_at <= now or self._look_by <= self._env.boot().ms


class OneAtATime:
    """Lets one caller drain or serve, and refuses a second one meanwhile."""

    def __init__(self) -> None:
        self._is_taken = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Be the one caller until the block ends."""
        if self._is_taken:
            raise RequestRefused(code="works_already")
        self._is_taken = True
        try:
            yield
        finally:
            self._is_taken = False


class WorkPart(Protocol):
    """A loop that works beside others: the engine's, the bus's."""

    @property
    def is_rung(self) -> bool:
        """Tell whether the bell has rung since the last look."""

    async def until_rung(self) -> None:
        """Return when the bell has rung since the last look."""

    async def drain(self) -> None:
        """Work until nothing is due at this moment."""

    async def serve(self) -> None:
        """Work until cancelled."""


class HostWork:
    """Lets the loops of a host work side by side, and ends them together (laws 5, 6)."""

    def __init__(self, env: Env, *parts: WorkPart) -> None:
        self._env = env
        self._parts = parts
        self._one_at_a_time = OneAtATime()

    async def serve(self) -> None:
        """Work until cancelled, or until one part fails."""
        with self._one_at_a_time():
            tasks = {self._start(part.serve, "serve") for part in self._parts}
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _end_all(tasks)

    async def drain(self) -> None:
        """Work until no part has anything due at this moment."""
        with self._one_at_a_time():
            at_work = {self._start(part.drain, "drain"): part for part in self._parts}
            bells: dict[asyncio.Task[None], WorkPart] = {}
            try:
                while at_work:
                    await asyncio.wait((*at_work, *bells), return_when=asyncio.FIRST_COMPLETED)
                    for task in [each for each in at_work if each.done()]:
                        part = at_work.pop(task)
                        _raise_first({task})
                        bells[self._start(part.until_rung, "bell")] = part
                    for bell in [each for each, part in bells.items() if part.is_rung]:
                        part = bells.pop(bell)
                        bell.cancel()
                        at_work[self._start(part.drain, "drain")] = part
            finally:
                await _end_all({*at_work, *bells})

    def _start(
        self, work: Callable[[], Coroutine[Any, Any, None]], name: str
    ) -> asyncio.Task[None]:
        return self._env.spawn(work(), f"duly part {name}")


class Inside:
    """The task inside `running()`: it is cancelled when serving fails, and only then (H3)."""

    def __init__(self, env: Env, serving: asyncio.Task[None]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._env = env
        self._task = task
        self._is_left = False
        self._cancelling = task.cancelling()
        self._is_cut = False
        serving.add_done_callback(self._cut)

    def _cut(self, serving: asyncio.Task[None]) -> None:
        is_failed = not serving.cancelled() and serving.exception() is not None
        if is_failed and not self._is_left:
            self._is_cut = True
            self._task.cancel()

    async def leave(self) -> bool:
        """Take our own cancellation back; return whether it was the only one."""
        self._is_left = True  # What fails from now on is found on leaving.
        if not self._is_cut:
            return False
        with suppress(asyncio.CancelledError):
            await self._env.sleep(0)  # It may not have been delivered yet.
        return self._task.uncancel() <= self._cancelling


async def end_serving(serving: asyncio.Task[None]) -> BaseException | None:
    """End a task and return what it failed with, if it did."""
    serving.cancel()
    await outlast(serving)
    return None if serving.cancelled() else serving.exception()


async def end_within(tasks: Collection[asyncio.Task[None]], seconds: float) -> None:
    """Wait for tasks to end; cancel those that take longer, and wait for them too."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late)


async def outlast(*tasks: asyncio.Future[Any]) -> None:
    """Wait until tasks have ended; a caller that is cancelled meanwhile is cancelled after that."""
    cancelled: asyncio.CancelledError | None = None
    while waiting := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(waiting)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _end_all(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel the tasks that still work, once, wait until they have ended, and raise why.

    A caller that is cancelled a second time meanwhile is cancelled after that: an orderly stop is
    not cut short (R7). A caller that is cancelled while a task fails gets the failure.
    """
    for task in tasks:
        task.cancel()
    try:
        await outlast(*tasks)
    finally:
        _raise_first(tasks)


def _raise_first(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error
