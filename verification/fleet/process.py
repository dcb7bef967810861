"""An event loop with several processes in it: one of them can stand still while time goes on.

Law 1  What a process has started belongs to it: its tasks, its timers, its callbacks. The context
       in which a task or a callback runs says which process that is.
Law 2  A process that is stopped runs nothing, as after SIGSTOP. Its timers go off meanwhile; when
       it goes on, everything that was ready runs in the order in which it became so.
       It stops between two steps: a step is what one callback does, up to where its task awaits.
Law 3  A task outside of every process (the server, the outside, the scenario) is never stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from heapq import heappush
from typing import Any, Final, TypeVar

from verification.loop import QuickLoop

R = TypeVar("R")

BURY_S: Final = 1.0  # how long a cancelled task of a dead process may take to end


@dataclass(eq=False, slots=True)
class Process:
    """One process: what belongs to it, and whether it stands still."""

    name: str
    is_stopped: bool = False
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    held: list[asyncio.Handle] = field(default_factory=list)
    steps: int = 0  # how many of its callbacks have run
    last_step: int = -1  # before this one `on_step` is called
    on_step: Callable[[], None] = lambda: None

    def spawn(self, work: Coroutine[Any, Any, R], name: str) -> asyncio.Task[R]:
        """Start a task in this process."""
        context = copy_context()
        context.run(PROCESS.set, self)
        return asyncio.get_running_loop().create_task(work, name=name, context=context)

    def stop(self) -> None:
        """Let nothing of it run any more until it goes on."""
        self.is_stopped = True

    def may_run(self, handle: asyncio.Handle) -> bool:
        """Tell whether a callback runs now; while the process stands still it is held."""
        if self.steps + 1 == self.last_step:
            self.last_step = -1
            self.on_step()
        if self.is_stopped:
            self.held.append(handle)
            return False
        self.steps += 1
        return True

    def go_on(self) -> None:
        """Let everything run that has become ready meanwhile."""
        self.is_stopped = False
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FleetLoop), loop
        loop.queue(self.held)
        self.held = []

    async def end(self) -> None:
        """Kill it: end every task of it, in no time of its own."""
        while tasks := [each for each in self.tasks if not each.done()]:
            for task in tasks:
                task.cancel()
            self.go_on()  # a cancelled task hears of it only if it runs
            await asyncio.wait(tasks, timeout=BURY_S)


PROCESS: Final[ContextVar[Process | None]] = ContextVar("process", default=None)


def outside() -> Context:
    """Return a context outside of every process."""
    context = copy_context()
    context.run(PROCESS.set, None)
    return context


class _Ready(asyncio.Handle):
    """A callback of a process."""

    __slots__ = ("process",)
    process: Process

    def _run(self) -> None:
        if self.process.may_run(self):
            super()._run()


class _Timer(asyncio.TimerHandle):
    """A callback of a process, at a time."""

    __slots__ = ("process",)
    process: Process

    def _run(self) -> None:
        if self.process.may_run(self):
            super()._run()


class FleetLoop(QuickLoop):
    """A loop of virtual time that knows which process everything in it belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self.set_task_factory(_make_task)

    def call_soon(  # type: ignore[override]  # typeshed's signature needs type variables of its own
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the next turn of the loop, if its process does not stand still."""
        context = copy_context() if context is None else context
        process = context.get(PROCESS)
        if process is None:
            handle = asyncio.Handle(callback, args, self, context)
        else:
            handle = _Ready(callback, args, self, context)
            handle.process = process
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]  # as above
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback at a time, or when its process goes on after that."""
        context = copy_context() if context is None else context
        process = context.get(PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        timer = _Timer(when, callback, args, self, context)
        timer.process = process
        heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]  # as `call_at` does
        return timer

    def queue(self, handles: list[asyncio.Handle]) -> None:
        """Put callbacks behind everything that is ready."""
        self._ready.extend(handles)


def _make_task(
    loop: asyncio.AbstractEventLoop, work: Any, context: Context | None = None
) -> asyncio.Task[Any]:
    context = copy_context() if context is None else context
    task = asyncio.Task(work, loop=loop, context=context)
    process = context.get(PROCESS)
    if process is not None:
        process.tasks.add(task)
        task.add_done_callback(process.tasks.discard)
    return task
