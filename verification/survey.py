"""Runs many scenarios, in several processes if asked to, and counts what became of them.

Law: what is counted does not depend on how the work was divided.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, TypeVar

from verification.suite import SUITES, WORKFLOW, Suite
from verification.workflow import planted

W = TypeVar("W")

SEEDS_AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True)
class Failure:
    """A scenario that went wrong, by its name."""

    name: str
    scenario: Any
    problems: tuple[str, ...]


@dataclass(slots=True)
class Tally:
    """What became of many scenarios."""

    schedules: int = 0
    cpu_s: float = 0.0
    events: Counter[int] = field(default_factory=Counter)
    deaths: Counter[int] = field(default_factory=Counter)
    power_cuts: int = 0
    points: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def run(self, name: str, scenario: Any, of: Suite = WORKFLOW) -> None:
        """Run a scenario and count it."""
        ending = of.run(scenario)
        self.schedules += 1
        self.events[ending.events] += 1
        self.deaths[ending.deaths] += 1
        self.power_cuts += ending.power_cuts
        self.points.update(ending.points)
        if ending.problems:
            self.failures.append(Failure(name, scenario, ending.problems))

    def add(self, other: Tally) -> None:
        """Take over what another has counted."""
        self.schedules += other.schedules
        self.cpu_s += other.cpu_s
        self.events.update(other.events)
        self.deaths.update(other.deaths)
        self.power_cuts += other.power_cuts
        self.points.update(other.points)
        self.failures.extend(other.failures)

    @property
    def per_second(self) -> float:
        """Schedules per second of one core."""
        return self.schedules / self.cpu_s if self.cpu_s else 0.0

    @property
    def events_median(self) -> float:
        """How many events a schedule has, in the middle."""
        return median(self.events.elements()) if self.events else 0

    @property
    def deaths_median(self) -> float:
        """How often the host dies in a schedule, in the middle."""
        return median(self.deaths.elements()) if self.deaths else 0


def cpu_s() -> float:
    """Return how long this process has computed, which other processes do not change."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# Each names its suite, since what is handed to another process must have a name there.


def run_seeds(seeds: range, of: str = WORKFLOW.name) -> Tally:
    """Run the scenario of every seed."""
    tally, begun = Tally(), cpu_s()
    suite = SUITES[of]
    for seed in seeds:
        tally.run(f"seed {seed}", suite.from_seed(seed), suite)
    tally.cpu_s = cpu_s() - begun
    return tally


def run_case(number: int, of: str = WORKFLOW.name, *, is_thorough: bool = False) -> Tally:
    """Run every scenario with one crash of one situation, or also those with the same future."""
    tally, begun = Tally(), cpu_s()
    suite = SUITES[of]
    case = suite.cases()[number]
    tally.run(case.name, case.scenario, suite)
    for scenario in suite.unfold(case, is_thorough=is_thorough).scenarios:
        tally.run(case.name, scenario, suite)
    tally.cpu_s = cpu_s() - begun
    return tally


def hunt(task: tuple[int, int], of: str = WORKFLOW.name) -> tuple[str, int, int | None]:
    """Look for a planted bug from the beginning of a range; return the seed that finds it."""
    number, start = task
    suite = SUITES[of]
    bug = suite.bugs[number]
    return bug.name, start, suite.find(bug, planted.seeds_of(start))


def slices(start: int, count: int) -> list[range]:
    """Divide a range of seeds."""
    end = start + count
    return [range(at, min(end, at + SEEDS_AT_ONCE)) for at in range(start, end, SEEDS_AT_ONCE)]


R = TypeVar("R")


def spread(work: Callable[[W], R], pieces: Iterable[W], jobs: int) -> Iterator[R]:
    """Do the pieces in so many processes, or in this one; return in their order."""
    if jobs == 1:
        yield from map(work, pieces)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, pieces)
