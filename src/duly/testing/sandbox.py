"""A real sandbox in a test with virtual time: while a script computes, time stands still.

Law 1: every await into the sandbox counts as outstanding, from its first moment to its last.
Law 2: the sandbox itself lives in real time, on an event loop of its own in a thread of its own:
       its watch over a runaway script does not depend on a clock that stands still.
Law 3: an await that is cancelled ends when the sandbox has ended it, not before.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.source import Source
from duly.rules.value import Json
from duly.sandbox.base import Loaded, Missing, Result, Sandbox, Script, Turn, World
from duly.testing.loop import VirtualLoop

R = TypeVar("R")


class Outstanding:
    """Any sandbox, used from a virtual loop.

    sandbox = Outstanding(JavaScriptSandbox(Pool(duly.env.Loop())), loop)
    """

    def __init__(self, sandbox: Sandbox, loop: VirtualLoop) -> None:
        self._sandbox = sandbox
        self._loop = loop
        self._real: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    async def load(self, source: Source, catalog: Catalog) -> Loaded:
        """Load a source, in real time."""
        return await self.ask(self._sandbox.load(source, catalog))

    def open(
        self,
        loaded: Loaded,
        handler: str,
        step: Step,
        args: tuple[Json | Missing, ...],
        world: World,
    ) -> OutstandingScript:
        """Make a fresh context for one step; the sandbox makes it when it is entered."""

        # Time stands still while a script computes, for the script as well.
        still = replace(world, frozen=True)

        async def make() -> Script:
            return self._sandbox.open(loaded, handler, step, args, still)

        return OutstandingScript(self, make)

    async def close(self) -> None:
        """End every worker, then the thread."""
        if self._thread is None or self._real is None:
            return
        await self.ask(self._sandbox.close())
        self._real.call_soon_threadsafe(self._real.stop)
        self._thread.join()
        self._real.close()
        self._real = self._thread = None

    async def ask(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine where the sandbox lives, and wait for its end."""
        real = self._start()
        ended: asyncio.Future[None] = self._loop.create_future()
        tasks: list[asyncio.Task[R]] = []

        def begin() -> None:
            task = real.create_task(coroutine)
            tasks.append(task)
            task.add_done_callback(lambda _: self._loop.call_soon_threadsafe(finish))

        def finish() -> None:
            ended.set_result(None)

        cancelled: asyncio.CancelledError | None = None
        with self._loop.outstanding():
            real.call_soon_threadsafe(begin)
            while not ended.done():
                try:
                    await asyncio.wait((ended,))
                except asyncio.CancelledError as error:
                    cancelled = error
                    real.call_soon_threadsafe(lambda: tasks[0].cancel())
        if cancelled is not None:
            raise cancelled
        return tasks[0].result()

    def _start(self) -> asyncio.AbstractEventLoop:
        """Start the thread with the first script; a host without one has none."""
        if self._real is None:
            self._real = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._real.run_forever, name="duly-sandbox", daemon=True
            )
            self._thread.start()
        return self._real


class OutstandingScript:
    """One step of one handler, in real time."""

    def __init__(
        self, sandbox: Outstanding, make: Callable[[], Coroutine[Any, Any, Script]]
    ) -> None:
        self._sandbox = sandbox
        self._make = make
        self._script: Script | None = None

    async def __aenter__(self) -> Self:
        """Take a place to run in."""
        self._script = await self._sandbox.ask(self._make())
        await self._sandbox.ask(self._script.__aenter__())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drop the context for good."""
        await self._sandbox.ask(self._entered.__aexit__(kind, error, trace))

    async def start(self) -> Turn:
        """Call the step and run until it asks, returns or breaks."""
        return await self._sandbox.ask(self._entered.start())

    async def answer(self, call_id: int, value: Result) -> Turn:
        """Give one call its result and go on."""
        return await self._sandbox.ask(self._entered.answer(call_id, value))

    def waiting_outside(self) -> AbstractContextManager[None]:
        """Mark the time in which a call of the script is outside the host."""
        return self._entered.waiting_outside()

    @property
    def _entered(self) -> Script:
        assert self._script is not None, "a script runs only between entering and leaving it"
        return self._script
