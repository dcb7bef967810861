"""What was measured: one slice of work, and a figure made of several.

Law: a figure is a median of ratios. Each slice is divided by the yardstick's slices right before
and right after it, so a disk or a processor that slows down slows down both sides.

A trial is a figure together with the work it measures; all trials of a section take one slice each
in every round, so no figure has a better hour than another.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.report import Idle, Row

MICROSECONDS = 1_000_000
RUNS_PER_S_MAX = 15_000
RUNS_MIN = 1_000


def events_needed(seconds: float) -> int:
    """Return how many events must wait, so that no slice of runs comes to their end."""
    return RUNS_MIN + int(seconds * RUNS_PER_S_MAX)


@dataclass(frozen=True, slots=True)
class Slice:
    """Some work that was done: how often, in what time, at what cost.

    Syncs, and the cost and memory of child processes, are None where they are not known.
    """

    count: int
    wall_s: float
    cpu_s: float
    syncs: int | None = None
    children_s: float | None = None
    children_bytes: int | None = None

    @property
    def per_s(self) -> float:
        """How often it was done in a second."""
        return self.count / self.wall_s

    def each(self, total: float | None, factor: float = 1.0) -> float | None:
        """Share a total among what was done."""
        return None if total is None else total / self.count * factor


class Stopwatch:
    """Measures one slice; it runs from the moment it is made."""

    def __init__(self, seconds: float = 0.0, syncs: Callable[[], int] | None = None) -> None:
        self._syncs = syncs
        self._syncs_before = 0 if syncs is None else syncs()
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
            None if self._syncs is None else self._syncs() - self._syncs_before,
        )


@dataclass(slots=True)
class Figure:
    """One row of the page in the making: its slices, and the ratio it should reach."""

    name: str
    goal: float | None = None
    callers: int | None = None
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

    def row(self) -> Row:
        """Return the row of the page."""
        per_s = [each.per_s for each in self.slices]
        cpu_us = _median(each.each(each.cpu_s, MICROSECONDS) for each in self.slices)
        assert cpu_us is not None, "a slice without work"
        held = [each.children_bytes for each in self.slices if each.children_bytes is not None]
        return Row(
            name=self.name,
            callers=self.callers,
            per_s=median(per_s),
            per_s_min=min(per_s),
            per_s_max=max(per_s),
            ratio=self.ratio,
            ratio_min=min(self.ratios),
            ratio_max=max(self.ratios),
            goal=self.goal,
            syncs=_median(each.each(each.syncs) for each in self.slices),
            cpu_us=cpu_us,
            children_us=_median(each.each(each.children_s, MICROSECONDS) for each in self.slices),
            children_bytes=max(held, default=None),
        )


def _median(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return median(known) if known else None


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: rounds, seconds of a slice, and what single sections need."""

    rounds: int
    slice_s: float
    yardstick_s: float
    rows: int  # of the full store
    runs: int  # of a slice of whole runs
    run_s: float  # of a slice of whole runs of a peer
    idle: int  # how often the time to begin is measured
    workflows: tuple[int, ...]


WHOLE = Size(
    rounds=5,
    slice_s=0.6,
    yardstick_s=0.3,
    rows=1_000_000,
    runs=400,
    run_s=2.0,
    idle=30,
    workflows=(1, 10, 100),
)
QUICK = Size(
    rounds=1,
    slice_s=0.01,
    yardstick_s=0.01,
    rows=1_000,
    runs=1,
    run_s=0.1,
    idle=2,
    workflows=(1, 10),
)

Measured = Callable[[float], Slice]
MeasuredLater = Callable[[float], Awaitable[Slice]]


@dataclass(frozen=True, slots=True)
class Trial:
    """A figure, and how to take one slice of its work and of its yardstick."""

    figure: Figure
    work: MeasuredLater
    yardstick: Measured

    async def take(self, work_s: float, yardstick_s: float, *, is_kept: bool) -> None:
        """Take one slice between two of the yardstick."""
        before = self.yardstick(yardstick_s)
        done = await self.work(work_s)
        after = self.yardstick(yardstick_s)
        if is_kept:
            self.figure.add(before, done, after)


async def take_all(
    trials: Sequence[Trial], rounds: int, work_s: float, yardstick_s: float
) -> list[Row]:
    """Take every trial in every round; a first round only warms the caches."""
    for number in range(rounds + 1):
        for trial in trials:
            await trial.take(work_s, yardstick_s, is_kept=number > 0)
    return [trial.figure.row() for trial in trials]


def itself(name: str, work: Measured) -> Trial:
    """Measure a yardstick against itself: how far its ratio strays from 1 is the noise."""

    async def again(seconds: float) -> Slice:
        return work(seconds)

    return Trial(Figure(name), again, work)


def idle(name: str, found_ms: Sequence[float], goal_ms: float | None = None) -> Idle:
    """Sum up how long something that rested took to begin."""
    return Idle(name, median(found_ms), min(found_ms), max(found_ms), goal_ms)


def plural(count: int, word: str) -> str:
    """Write a number of things."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
