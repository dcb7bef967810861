"""How long a script may run, and when to look at it next: the watch of both languages.

Law 1: a script that is looked at in time is ended at most `GRACE_S` and a look after the limit it
       broke, so it ends within its limit and two seconds (X2).
Law 2: time counts within turns; the time between two turns does not count. A host that stood still
       itself does not blame the script: it looks once more at what came meanwhile.
Law 3: a worker that counts its own CPU time says first that it is used up, since it knows the line.
       So one that is barely past this limit has until the next look to say so.

No process computes longer than it lasts. So the CPU time of a script that lasted for less than its
limit need not be read.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

GRACE_S: Final = 1.0
STOOD_STILL_S: Final = 1.0
OWN_WORD_S: Final = 0.25  # past its limit a worker that works well needs less to say so
NEARLY: Final = 0.8  # two clocks that count the same time do not agree to the end


class Limit(StrEnum):
    """What a script can break by going on."""

    CPU = "cpu time"
    WALL = "wall time"
    THREADS = "threads"


class ScriptWatch:
    """The time of one script, in seconds; its caller adds how long it waited."""

    def __init__(self, cpu_s: float, wall_s: float) -> None:
        self.cpu_s = cpu_s
        self.wall_s = wall_s
        self._lasted_s = 0.0
        self._waits_s = 0.0
        self._is_over = False  # past its CPU limit, as a look has found

    def begin_turn(self) -> float:
        """Return how long to wait before the first look of a turn."""
        left_s = min(self.cpu_s, self.wall_s) - self._lasted_s
        self._waits_s = max(0.0, left_s) + GRACE_S
        return self._waits_s

    def wait_again(self) -> float:
        """Return how long to wait before the next look."""
        self._waits_s = GRACE_S
        return self._waits_s

    def add(self, waited_s: float) -> bool:
        """Count what has passed, and tell whether the host itself was awake meanwhile."""
        most_s = self._waits_s + STOOD_STILL_S
        self._lasted_s += min(waited_s, most_s)
        return waited_s <= most_s

    def judge(self, computed_s: float | None) -> Limit | None:
        """Name the limit that was broken; `computed_s` is None where it is not known.

        If both are broken at this look, the tighter one was broken first.
        """
        used_s = self._lasted_s if computed_s is None else computed_s
        was_over, self._is_over = self._is_over, used_s > self.cpu_s
        is_lasted = self._lasted_s > self.wall_s
        if self._is_over and is_lasted:
            return Limit.CPU if self.cpu_s <= self.wall_s else Limit.WALL
        if self._is_over and (was_over or used_s > self.cpu_s + OWN_WORD_S):
            return Limit.CPU
        return Limit.WALL if is_lasted else None

    @property
    def has_lasted(self) -> bool:
        """Tell whether the script has lasted for about as long as it may."""
        return self._lasted_s > self.wall_s * NEARLY
