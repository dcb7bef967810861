"""How long a script may be left alone, and when it is over: the watch both languages are kept by.

Law 1: who is looked at in time is ended at most `GRACE_S` and a look after the limit it broke, so a
       script ends within its limit and two seconds (X2).
Law 2: time counts from turn to turn; the time between two turns is nobody's. A host that stood
       still itself blames nobody: it looks once more at what came meanwhile.

No process computes longer than it lasts, so whoever has lasted for less than its limit of CPU time
need not be asked how long it has computed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

GRACE_S: Final = 1.0
STOOD_STILL_S: Final = 1.0
NEARLY: Final = 0.8  # two clocks that count the same time do not agree to the end


class Limit(StrEnum):
    """What a script can break by going on."""

    CPU = "cpu time"
    WALL = "wall time"
    THREADS = "threads"


class Watch:
    """The time of one script, in seconds; whoever watches says how long it waited."""

    def __init__(self, cpu_s: float, wall_s: float) -> None:
        self.cpu_s = cpu_s
        self.wall_s = wall_s
        self._lasted_s = 0.0
        self._waits_s = 0.0

    def begin_turn(self) -> float:
        """Answer how long to wait before the first look of a turn."""
        left_s = min(self.cpu_s, self.wall_s) - self._lasted_s
        self._waits_s = max(0.0, left_s) + GRACE_S
        return self._waits_s

    def wait_again(self) -> float:
        """Answer how long to wait before the next look."""
        self._waits_s = GRACE_S
        return self._waits_s

    def add(self, waited_s: float) -> bool:
        """Count what has passed, and tell whether the host itself was awake meanwhile."""
        most_s = self._waits_s + STOOD_STILL_S
        self._lasted_s += min(waited_s, most_s)
        return waited_s <= most_s

    def judge(self, computed_s: float | None) -> Limit | None:
        """Name the limit that was broken; who does not know how long it computed says None.

        Of two that are broken when somebody looks, the tighter one was broken first.
        """
        used_s = self._lasted_s if computed_s is None else computed_s
        is_computed, is_lasted = used_s > self.cpu_s, self._lasted_s > self.wall_s
        if is_computed and (not is_lasted or self.cpu_s <= self.wall_s):
            return Limit.CPU
        return Limit.WALL if is_lasted else None

    @property
    def has_lasted(self) -> bool:
        """Tell whether the script has lasted for about as long as it may."""
        return self._lasted_s > self.wall_s * NEARLY
