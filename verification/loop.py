"""The loop of virtual time for thousands of short lives: it does no step that nothing asks for.

Law: callbacks and timers run in the very order in which `VirtualLoop` runs them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from heapq import heappop
from typing import Any, Final

from duly.testing.loop import MICROSECONDS, VirtualLoop

TIDIED_TIMERS: Final = 100  # with more timers asyncio may tidy its heap
WAIT_MAX_S: Final = 86_400.0  # what asyncio waits at once


class QuickLoop(VirtualLoop):
    """A virtual loop that asks its selector only for what is real, or to say that it is stuck."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _timer_cancelled_count: int
    _clock_resolution: float
    _stopping: bool

    def call_soon(  # type: ignore[override]  # typeshed's signature needs type variables of its own
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the next turn of the loop."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        ready, timers = self._ready, self._scheduled
        if self.busy or len(timers) > TIDIED_TIMERS:
            super()._run_once()  # type: ignore[misc]  # typeshed does not know it
            return
        while timers and timers[0]._cancelled:
            self._timer_cancelled_count -= 1
            heappop(timers)._scheduled = False  # type: ignore[attr-defined]
        if not (ready or self._stopping) and not self._move_on():
            super()._run_once()  # type: ignore[misc]
            return
        if timers:
            now = self._elapsed_us / MICROSECONDS + self._clock_resolution
            while timers and timers[0]._when < now:  # type: ignore[attr-defined]
                timer = heappop(timers)
                timer._scheduled = False  # type: ignore[attr-defined]
                ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _move_on(self) -> bool:
        """Let time pass until the next timer, or wake one that waited for this; else say no."""
        if not self._scheduled or self._resting:
            return self._has_rested()
        timeout_s = self._scheduled[0].when() - self.time()
        if timeout_s > 0:
            self._jump(min(timeout_s, WAIT_MAX_S))
        return True
