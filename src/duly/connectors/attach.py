"""Makes an event loop tell a call of a connector which tasks and jobs belong to it (L6).

Law 1: a task or job made outside a call is left exactly as it was. A task factory that the loop had
       before is still called.
Law 2: several hosts on one loop share one hook; the last host to detach removes it.
Law 3: on a loop that takes no hook, only the jobs of `in_thread` are seen.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from duly.connectors.watch import Guarded, Watch
from duly.env import CALL

R = TypeVar("R")

_HOOKS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Hook]] = WeakKeyDictionary()


def attach(loop: asyncio.AbstractEventLoop) -> None:
    """Make the loop count the tasks and jobs of calls; each attach needs its own detach."""
    hook = _HOOKS.get(loop)
    if hook is None:
        hook = _HOOKS[loop] = _Hook(loop)
    hook.count += 1


def detach(loop: asyncio.AbstractEventLoop) -> None:
    """Take one attachment back; after the last one the loop is as it was."""
    hook = _HOOKS[loop]
    hook.count -= 1
    if hook.count == 0:
        del _HOOKS[loop]
        hook.remove(loop)


class _Hook:
    """The hook between a loop and the code that makes tasks and jobs on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.count = 0
        self._make_before: Callable[..., Any] | None = loop.get_task_factory()
        self._run_before: Callable[..., asyncio.Future[Any]] = loop.run_in_executor
        # Kept to notice whether other code has replaced them since.
        self._make = self._make_task
        self._run: Callable[..., Any] | None = self._run_in_executor
        loop.set_task_factory(cast("Any", self._make))
        try:
            loop.run_in_executor = self._run  # type: ignore[method-assign,assignment]
        except AttributeError:  # Law 3: a loop that is not written in Python takes none
            self._run = None

    def remove(self, loop: asyncio.AbstractEventLoop) -> None:
        """Restore the loop; code that has wrapped this hook since keeps calling it."""
        if loop.get_task_factory() is self._make:
            loop.set_task_factory(cast("Any", self._make_before))
        if self._run is not None and vars(loop).get("run_in_executor") is self._run:
            del loop.run_in_executor
            if loop.run_in_executor != self._run_before:
                loop.run_in_executor = self._run_before  # type: ignore[method-assign,assignment]

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **more: Any
    ) -> asyncio.Future[Any]:
        context = more.get("context")
        watch = CALL.get() if context is None else context.get(CALL)
        is_part = asyncio.iscoroutine(work)
        if isinstance(watch, Watch) and is_part and not isinstance(work, Guarded):
            work = watch.guard(work)
        made: asyncio.Future[Any]
        if self._make_before is None:
            made = asyncio.Task(work, loop=loop, **more)
        else:
            made = self._make_before(loop, work, **more)
        if isinstance(watch, Watch) and is_part and isinstance(made, asyncio.Task):
            watch.add_task(made)
        return made

    def _run_in_executor(
        self, executor: Executor | None, function: Callable[..., R], *args: Any
    ) -> asyncio.Future[R]:
        watch = CALL.get()
        if not isinstance(watch, Watch):
            return self._run_before(executor, function, *args)
        if executor is None or isinstance(executor, ThreadPoolExecutor):
            job = ThreadJob(watch, lambda: function(*args))
            running = job.hand(lambda: self._run_before(executor, job))
            running.add_done_callback(job.drop)
            return running
        return self._run_before(_Beside(executor, watch), function, *args)


class ThreadJob:
    """A function that a thread runs as a part of a call; if dropped first, it never runs."""

    def __init__(self, watch: Watch, function: Callable[[], Any]) -> None:
        self._watch = watch
        self._function = function
        self._door = threading.Lock()
        self._is_begun = False
        self._is_dropped = False
        watch.add(self)

    def __call__(self) -> Any:
        """Run it, in the thread."""
        with self._door:
            if self._is_dropped:
                return None
            self._is_begun = True
        try:
            self._watch.check_time()
            return self._function()
        finally:
            self._watch.end(self)

    def hand(self, submit: Callable[[], R]) -> R:
        """Give it to a thread; if that fails it is dropped, also where it is queued already."""
        try:
            return submit()
        except BaseException:
            self.drop()
            raise

    def drop(self, _: object = None) -> None:
        """Drop it, unless it has begun."""
        with self._door:
            if self._is_begun or self._is_dropped:
                return
            self._is_dropped = True
        self._watch.end(self)


class _Beside(Executor):
    """Submits to an executor that may be other processes, and sees when that job is over."""

    def __init__(self, executor: Executor, watch: Watch) -> None:
        self._executor = executor
        self._watch = watch

    def submit(self, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Submit as the other one does."""
        job = self._executor.submit(function, *args, **kwargs)
        self._watch.add(job)
        job.add_done_callback(self._watch.end)
        return job
