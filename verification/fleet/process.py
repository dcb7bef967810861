"""An event loop with several processes in it: one of them can stand still while time goes on.

Law 1  What a process has started belongs to it: its tasks, its timers, its callbacks. The context
       in which a task or a callback runs says which process that is.
Law 2  A process that is stopped runs nothing, as after SIGSTOP. Its timers go off meanwhile; when
       it goes on, everything that was ready runs in the order in which it became so.
Law 3  A task outside of every process (the server, the outside, the scenario) is never stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from duly.testing.loop import VirtualLoop

R = TypeVar("R")

BURY_S: Final = 1.0  # how long a cancelled task of a dead process may take to end


@dataclass(slots=True)
class _Entry:
    """A callback of a process that is ready, or will be."""

    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: Context
    handle: asyncio.Handle | None = None


@dataclass(eq=False, slots=True)
class Process:
    """One process: what belongs to it, and whether it stands still."""

    name: str
    is_stopped: bool = False
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    held: list[_Entry] = field(default_factory=list)

    def spawn(self, work: Coroutine[Any, Any, R], name: str) -> asyncio.Task[R]:
        """Start a task in this process."""
        context = copy_context()
        context.run(PROCESS.set, self)
        return asyncio.get_running_loop().create_task(work, name=name, context=context)

    def stop(self) -> None:
        """Let nothing of it run any more until it goes on."""
        self.is_stopped = True

    def go_on(self) -> None:
        """Let everything run that has become ready meanwhile."""
        self.is_stopped = False
        entries, self.held = self.held, []
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FleetLoop), loop
        for entry in entries:
            loop.queue(self, entry)

    async def end(self) -> None:
        """Kill it: end every task of it, in no time of its own."""
        while tasks := [each for each in self.tasks if not each.done()]:
            for task in tasks:
                task.cancel()
            self.go_on()  # a cancelled task hears of it only if it runs
            await asyncio.wait(tasks, timeout=BURY_S)

    def run(self, entry: _Entry) -> None:
        """Run a callback that is ready, or hold it while the process stands still."""
        if self.is_stopped:
            self.held.append(entry)
        elif entry.handle is None or not entry.handle.cancelled():
            entry.callback(*entry.args)


PROCESS: Final[ContextVar[Process | None]] = ContextVar("process", default=None)


def outside() -> Context:
    """Return a context outside of every process."""
    context = copy_context()
    context.run(PROCESS.set, None)
    return context


class FleetLoop(VirtualLoop):
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
            return super().call_soon(callback, *args, context=context)
        entry = _Entry(callback, args, context)
        entry.handle = self.queue(process, entry)
        return entry.handle

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
        entry = _Entry(callback, args, context)
        timer = super().call_at(when, process.run, entry, context=context)
        entry.handle = timer
        return timer

    def queue(self, process: Process, entry: _Entry) -> asyncio.Handle:
        """Put a callback of a process behind everything that is ready."""
        return super().call_soon(process.run, entry, context=entry.context)


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
