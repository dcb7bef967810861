"""What was measured: one slice of work, and a figure made of several.

Law: a figure is a median of ratios. Each slice is divided by the yardstick's slices right before
and right after it, so a disk or a processor that slows down slows down both sides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

MICROSECONDS = 1_000_000
RUNS_PER_S_MAX = 15_000
RUNS_MIN = 1_000


def events_needed(seconds: float) -> int:
    """Return how many events must wait, so that no slice of runs comes to their end."""
    return RUNS_MIN + int(seconds * RUNS_PER_S_MAX)


@dataclass(frozen=True, slots=True)
class Slice:
    """Some work that was done: how often, in what time, with how many syncs."""

    count: int
    wall_s: float
    cpu_s: float
    syncs: int

    @property
    def per_s(self) -> float:
        """How often it was done in a second."""
        return self.count / self.wall_s

    @property
    def cpu_us(self) -> float:
        """What it cost each time, over all threads."""
        return self.cpu_s / self.count * MICROSECONDS

    @property
    def syncs_each(self) -> float:
        """How often the log was synced for it each time."""
        return self.syncs / self.count


class Stopwatch:
    """Measures one slice; it runs from the moment it is made."""

    def __init__(self, seconds: float, syncs: Callable[[], int]) -> None:
        self._syncs = syncs
        self._syncs_before = syncs()
        self._cpu_before_s = time.process_time()
        self._wall_before_s = time.perf_counter()
        self._ends_at_s = self._wall_before_s + seconds

    def is_running(self) -> bool:
        """Tell whether there is time left to begin once more."""
        return time.perf_counter() < self._ends_at_s

    def stop(self, count: int) -> Slice:
        """Return what was measured."""
        return Slice(
            count,
            time.perf_counter() - self._wall_before_s,
            time.process_time() - self._cpu_before_s,
            self._syncs() - self._syncs_before,
        )


@dataclass(slots=True)
class Figure:
    """One row of the table: what was measured, its ratios, and the ratio it should reach."""

    name: str
    goal: float | None
    slices: list[Slice] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)

    def add(self, before: Slice, done: Slice, after: Slice) -> None:
        """Take one slice with the yardstick's slices around it."""
        self.slices.append(done)
        self.ratios.append(done.per_s / ((before.per_s + after.per_s) / 2))

    @property
    def ratio(self) -> float:
        """The median ratio to the yardstick."""
        return median(self.ratios)

    @property
    def verdict(self) -> str:
        """What became of the goal."""
        if self.goal is None:
            return ""
        return "met" if self.ratio >= self.goal else "missed"

    def row(self) -> dict[str, float | str | None]:
        """Spell the figure for the table and for JSON."""
        return {
            "figure": self.name,
            "per_s": median(each.per_s for each in self.slices),
            "ratio": self.ratio,
            "ratio_min": min(self.ratios),
            "ratio_max": max(self.ratios),
            "goal": self.goal,
            "verdict": self.verdict,
            "syncs": median(each.syncs_each for each in self.slices),
            "cpu_us": median(each.cpu_us for each in self.slices),
        }
