"""Names the connector whose code blocks the host's loop (L13).

Law 1: it is a thread of its own, since a blocked loop cannot report itself. It sleeps while no
       connector's code runs, and ends with its host.
Law 2: it counts its own ticks, not time: a machine or a process that slept did not block.

While code blocks the loop nothing else of the host runs, not even its timeouts. Another thread can
only log whose code it is.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import Final

from duly.connectors.watch import LoopPlace
from duly.env import Lag

TICK_S: Final = 1.0
TICKS: Final = 5  # so many ticks in one step are logged, then again each time they have doubled

log = logging.getLogger("duly.connectors")


class Watchdog:
    """Checks at every tick whether the same step of a call is still running."""

    def __init__(self, pace: LoopPlace, *, tick_s: float = TICK_S, lag: Lag | None = None) -> None:
        self._pace = pace
        self._tick_s = tick_s
        self._woken = threading.Event()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        pace.on_step, pace.lag = self.wake, lag

    def wake(self) -> None:
        """Start checking; called before every step, so it must cost next to nothing."""
        if not self._woken.is_set():
            self._woken.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="duly-watchdog", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._pace.on_step = None
        self._over.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        pace, seen, ticks, told = self._pace, -1, 0, TICKS
        while not self._over.is_set():
            self._woken.wait()
            if self._over.wait(self._tick_s):
                return
            tool, step = pace.tool, pace.step
            if tool is not None and step == seen:
                ticks += 1
            else:
                ticks, told = 0, TICKS
            if tool is None and step == seen:
                # Nothing ran since the last look: sleep, unless something began right now.
                self._woken.clear()
                if pace.tool is not None:
                    self._woken.set()
            elif tool is not None and ticks >= told:
                told *= 2
                self._tell(tool, ticks)
            seen = step

    def _tell(self, tool: str, ticks: int) -> None:
        log.warning(
            "%s has blocked the host for %d s, at %s. Nothing else runs meanwhile; a connector "
            "calls what blocks with `await self.in_thread(…)`.",
            tool,
            round(ticks * self._tick_s),
            self._place(),
        )

    def _place(self) -> str:
        frame = sys._current_frames().get(self._pace.thread_id)
        if frame is None:
            return "an unknown place"
        return f"{frame.f_code.co_filename}:{frame.f_lineno}"
