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

from duly.testing.loop import VirtualLoop

TIDIED_TIMERS: Final = 100  # with more timers asyncio may tidy its heap


class QuickLoop(VirtualLoop):
    """A virtual loop that asks its selector only when no callback is ready."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _timer_cancelled_count: int
    _clock_resolution: float

    def call_soon(  # type: ignore[override]  # typeshed's signature needs type variables of its own
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the next turn of the loop."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        ready, timers = self._ready, self._scheduled
        if not ready or self.busy or len(timers) > TIDIED_TIMERS:
            super()._run_once()  # type: ignore[misc]  # typeshed does not know it
            return
        while timers and timers[0]._cancelled:
            self._timer_cancelled_count -= 1
            heappop(timers)._scheduled = False  # type: ignore[attr-defined]
        if timers:
            now = self.time() + self._clock_resolution
            while timers and timers[0]._when < now:  # type: ignore[attr-defined]
                timer = heappop(timers)
                timer._scheduled = False  # type: ignore[attr-defined]
                ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
