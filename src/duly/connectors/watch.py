"""One call of a connector, from its first step to the end of its last part.

Law 1: a call has ended when every part of it has: its own task, the tasks it made, and the jobs it
       gave to threads. It has not ended just because its coroutine returned or was cancelled (L6).
Law 2: a definite no is believed when no part of the call is at work any more; a yes at once (L4).
Law 3: no call is waited for without limit. A call that does not stop when it is cancelled is left
       behind, and counts as at work until it has really ended (L13).
Law 4: once a call's time is over, no further part of it begins (L7).
Law 5: what cannot be seen (threads made by hand, other processes) is no part; `lag_s` covers it.

    watch = Watch("sheets.append", clock=env.monotonic_ms)
    watch.begin(connector.append(call, **args))
    reply = await watch.answered(30)      # None: no reply in time, and it was cancelled
    watch.is_out                          # a part of it is still at work
    watch.ended_at_ms                     # when the last part ended, by the clock given; or None
    watch.on_end(callback)                # called when it was done and when it has ended
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final

from duly.connectors.raised import is_of_a_signal, tame
from duly.env import CALL, Lag, precise_s
from duly.errors import UnknownOutcome
from duly.rules.failure import answer_of
from duly.rules.word import Answer

END_S: Final = 1.0  # how long a cancelled call may take to stop before the host goes on


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a call, or the error it ended with, made plain (`raised.tame`)."""

    value: Any = None
    error: Exception | None = None


@dataclass(slots=True)
class LoopPlace:
    """Which call's code the loop is in at this moment, for a watchdog in another thread."""

    tool: str | None = None
    step: int = 0
    thread_id: int = 0
    on_step: Callable[[], None] | None = None  # called before every step
    lag: Lag | None = None  # where it is noted how long a step held the loop


class Watch:
    """One call, and the parts of it that are at work."""

    def __init__(
        self,
        tool: str,
        *,
        clock: Callable[[], int],
        is_asking: bool = False,
        is_patient: bool = True,
        timeout_s: float = math.inf,
        pace: LoopPlace | None = None,
        basis: str | None = None,
    ) -> None:
        self.tool = tool
        self.basis = basis  # what an earlier send of it was made with; no other account is used
        self.is_asking = is_asking  # it changes nothing, so its threads need not be waited for
        self.is_patient = is_patient  # a late result of its thread is wanted
        self.is_told_to_stop = False
        self.reply: Reply | None = None
        self.ended_at_ms: int | None = None
        self.pace = pace or LoopPlace()
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._ends_s = self._loop.time() + timeout_s
        self._own: asyncio.Task[Any] | None = None
        self._said: Reply | None = None
        self._parts: set[object] = set()  # added to and taken from in any thread, one at a time
        self._replied = asyncio.Event()
        self._settled = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []

    # -- For the caller ---------------------------------------------------------------------------

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Begin the call, in a task of its own."""
        assert self._own is None, self.tool
        context = copy_context()
        context.run(CALL.set, self)
        task = self._loop.create_task(self.guard(work), name=f"call {self.tool}", context=context)
        self._own = task
        self.add_task(task)

    async def answered(self, timeout_s: float | None) -> Reply | None:
        """Wait for the reply; after that time cancel the call, and return None.

        A reply that comes while it stops is taken only if it says that the call was done.
        """
        try:
            if await self._wait(self._replied, timeout_s):
                return self.reply
            self.stop()
            await self._wait(self._replied, END_S)
        except asyncio.CancelledError:
            self.stop()
            raise
        return self.reply if self.is_done else None

    async def result(self, timeout_s: float | None = None) -> Any:
        """Wait for the result and return it, or raise what the call raised, or TimeoutError."""
        reply = await self.answered(timeout_s)
        if reply is None:
            raise TimeoutError(f"{self.tool} gave no answer in {timeout_s:g} s.")
        if reply.error is not None:
            raise reply.error
        return reply.value

    def stop(self, *, is_all: bool = False) -> None:
        """Cancel the call's own task, or all of its tasks; no further part of it begins."""
        self.is_told_to_stop = True
        tasks = [each for each in tuple(self._parts) if isinstance(each, asyncio.Task)]
        for each in tasks:
            if is_all or each is self._own:
                each.cancel()

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back when the call was done, and each time it has ended; at once if it has."""
        self._callbacks.append(callback)
        if not self.is_out:
            self._loop.call_soon(callback)

    async def settled(self, timeout_s: float | None) -> bool:
        """Wait until the call was done or has ended; tell whether it did in time."""
        return await self._wait(self._settled, timeout_s)

    @property
    def is_out(self) -> bool:
        """Tell whether a part of it is still at work, as far as that can be seen."""
        return bool(self._parts) or self.ended_at_ms is None

    @property
    def is_done(self) -> bool:
        """Tell whether the call returned that the change was made."""
        return self.reply is not None and self.reply.error is None

    @property
    def withheld(self) -> Exception | None:
        """The definite no that is not believed yet, since a part of the call is still at work."""
        is_held = self.reply is None and self._said is not None
        return self._said.error if is_held and self._said is not None else None

    @property
    def parts(self) -> tuple[str, ...]:
        """What is still at work, in words."""
        return tuple(
            "a task" if isinstance(each, asyncio.Task) else "a thread"
            for each in tuple(self._parts)
        )

    # -- For what does a part of the call -------------------------------------------------------

    def guard(self, work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Wrap the steps of a task that does a part of the call."""
        return Guarded(work, self)

    def add(self, part: object) -> None:
        """Count a part as at work."""
        self._parts.add(part)
        self.ended_at_ms = None
        if not self.is_done:
            self._settled.clear()

    def add_task(self, task: asyncio.Task[Any]) -> None:
        """Count a task as at work until it is done."""
        if task not in self._parts:
            self.add(task)
            task.add_done_callback(self._end_task)

    def end(self, part: object) -> None:
        """Note that a part has ended; may be called in any thread."""
        self._parts.discard(part)
        if threading.get_ident() == self._thread_id:
            self._look()
            return
        with suppress(RuntimeError):  # The loop is closed: no caller waits any more.
            self._loop.call_soon_threadsafe(self._look)

    @property
    def left_s(self) -> float:
        """How long the call may still begin something; nothing once it was told to stop (L7)."""
        return 0.0 if self.is_told_to_stop else self._ends_s - self._loop.time()

    def check_time(self) -> None:
        """Refuse to begin a further part once the call's time is over (L7)."""
        if self.left_s <= 0:
            raise UnknownOutcome(f"the time of {self.tool} was over, so no more of it was begun")

    # -- Within ---------------------------------------------------------------------------------

    def _end_task(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if task is self._own:
            if task.cancelled():
                self._said = Reply(error=tame(asyncio.CancelledError()))
            else:
                self._said = Reply(error=tame(error)) if error else Reply(task.result())
        self.end(task)

    def _look(self) -> None:
        """Update the state from the parts; always on the loop of the call."""
        is_over = not self._parts
        if self.reply is None and self._said is not None:
            error = self._said.error
            is_open = error is None or answer_of(error) is Answer.UNKNOWN
            if is_open or is_over or self.is_asking:
                self.reply = self._said
                self._replied.set()
        if is_over:
            self.ended_at_ms = self._clock()
        if is_over or self.is_done:
            self._settled.set()
            for callback in tuple(self._callbacks):
                callback()

    async def _wait(self, event: asyncio.Event, timeout_s: float | None) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await event.wait()
        return event.is_set()


class Guarded(Coroutine[Any, Any, Any]):
    """The steps of a task of a call: what would end the loop becomes an error of the call (L13)."""

    def __init__(self, work: Coroutine[Any, Any, Any], watch: Watch) -> None:
        self._work = work
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)  # its name, its frame: for what shows a task

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        """Take one step."""
        return self._take(self._work.send, value)

    def throw(self, *args: Any) -> Any:
        """Take one step that begins with an error."""
        return self._take(self._work.throw, *args)

    def close(self) -> None:
        """End it where it stands."""
        self._work.close()

    def _take(self, step: Callable[..., Any], *args: Any) -> Any:
        pace = self._watch.pace
        before = pace.tool
        pace.step += 1
        pace.tool = self._watch.tool
        pace.thread_id = threading.get_ident()
        if pace.on_step is not None:
            pace.on_step()
        begun_s = precise_s()
        try:
            return step(*args)
        except (SystemExit, KeyboardInterrupt) as error:
            # asyncio would let it end the loop, and with it the whole host.
            if is_of_a_signal(error):
                raise
            raise tame(error) from None
        finally:
            pace.tool = before
            if pace.lag is not None:
                pace.lag.note(precise_s() - begun_s)
