"""A look every now and then at what stands idle: a host that runs nothing keeps no process (S9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

IDLE_S: Final = 60.0


class Reaper:
    """Calls `reap` after a while, and again for as long as it returns that workers are left."""

    def __init__(self, idle_s: float, reap: Callable[[], bool]) -> None:
        self._idle_s = idle_s
        self._reap = reap
        self._timer: asyncio.TimerHandle | None = None

    def come_later(self) -> None:
        """Set the timer, unless it is set."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._come)

    def stay_away(self) -> None:
        """Take the timer back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _come(self) -> None:
        self._timer = None
        if self._reap():
            self.come_later()
