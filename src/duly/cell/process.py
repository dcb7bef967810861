"""What the kernel reports about another process."""

from __future__ import annotations

import os
from typing import Final

CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")
STAT_BYTES: Final = 4096


class Stat:
    """The stat file of one process, held open so that it is never that of a later process."""

    def __init__(self, pid: int) -> None:
        try:
            self._descriptor: int | None = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = None  # no such file on this system, or the process has ended

    def cpu_s(self) -> float | None:
        """Return the processor time of the process; None where the kernel does not say."""
        numbers = self._numbers()
        return None if numbers is None else (int(numbers[11]) + int(numbers[12])) / CLOCK_TICKS

    def _numbers(self) -> list[bytes] | None:
        if self._descriptor is None:
            return None
        try:
            told = os.pread(self._descriptor, STAT_BYTES, 0)
        except OSError:
            return None
        # The name of the program, in brackets, may hold anything; the numbers follow it.
        return told.rpartition(b")")[2].split() or None

    def threads(self) -> int | None:
        """Return how many threads the process has; None where the kernel does not say."""
        numbers = self._numbers()
        return None if numbers is None else int(numbers[17])

    def close(self) -> None:
        """Close the descriptor; may be called twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
