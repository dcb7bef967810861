"""Measure the store and the sandbox, each beside its yardstick, and print a table of each.

The goals are reported, never asserted: a missed goal is a reason to look, not a failed build.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import apsw

from bench import crowd, sandbox
from bench.measure import Figure, Slice
from bench.store import Subject, open_subject
from bench.yardstick import Yardstick
from duly.env import Loop

FOLDER = Path(__file__).parents[1] / ".bench"
WORKFLOWS = 100
RUN_GOALS = {1: 0.8, 10: 3.0, 100: 6.0}
PUBLISH_GOALS = {1: 0.6, 10: 3.0}
FULL_STORE_PART = 0.8  # within 20 % of the small store
COLUMNS = ("figure", "per second", "ratio", "min", "max", "goal", "", "syncs", "CPU µs")
SANDBOX_COLUMNS = COLUMNS[:-2]  # a script syncs nothing, and its worker's CPU is not ours


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: rounds, seconds of a slice, and rows of the full store."""

    rounds: int
    slice_s: float
    yardstick_s: float
    rows: int


WHOLE = Size(rounds=7, slice_s=0.6, yardstick_s=0.3, rows=1_000_000)
QUICK = Size(rounds=1, slice_s=0.01, yardstick_s=0.01, rows=1_000)

Measured = Callable[[float], Slice]
MeasuredLater = Callable[[float], Awaitable[Slice]]


@dataclass(frozen=True, slots=True)
class Trial:
    """A figure and how to take one slice of it and of its yardstick."""

    figure: Figure
    work: MeasuredLater
    yardstick: Measured

    async def take(self, size: Size, *, is_kept: bool) -> None:
        """Take one slice between two of the yardstick; the first round only warms the caches."""
        before = self.yardstick(size.yardstick_s)
        done = await self.work(size.slice_s)
        after = self.yardstick(size.yardstick_s)
        if is_kept:
            self.figure.add(before, done, after)


def trials(subject: Subject, yardstick: Yardstick, suffix: str = "") -> list[Trial]:
    """List what is measured on one store."""
    runs = [
        Trial(
            Figure(f"runs, {_callers(callers)}{suffix}", goal),
            partial(subject.run, callers),
            yardstick.run4,
        )
        for callers, goal in RUN_GOALS.items()
    ]
    publishes = [
        Trial(
            Figure(f"publish, {_callers(callers)}{suffix}", goal),
            partial(subject.publish, callers),
            yardstick.publish,
        )
        for callers, goal in PUBLISH_GOALS.items()
    ]
    return runs + publishes


async def measure(folder: Path, size: Size) -> list[Figure]:
    """Measure everything, round after round, so that no figure has a better hour than another."""
    env = Loop()
    yardstick = Yardstick(folder)
    small, full = folder / "small.db", folder / "full.db"
    for path in (small, full):
        fresh = await open_subject(path, env)
        await fresh.deploy(WORKFLOWS)
        await fresh.store.close()
    crowd.fill(full, size.rows // WORKFLOWS)
    subjects = [await open_subject(path, env) for path in (small, full)]
    for subject in subjects:
        await subject.claim(WORKFLOWS)
    plain = trials(subjects[0], yardstick)
    crowded = trials(subjects[1], yardstick, f", {size.rows:,} rows")
    own = [
        _itself("yardstick run4", yardstick.run4),
        _itself("yardstick publish", yardstick.publish),
    ]
    every = [*own, *plain, *crowded]
    for number in range(size.rounds + 1):
        for trial in every:
            await trial.take(size, is_kept=number > 0)
    for subject in subjects:
        await subject.store.close()
    yardstick.close()
    env.close()
    for small_trial, full_trial in zip(plain, crowded, strict=True):
        full_trial.figure.goal = small_trial.figure.ratio * FULL_STORE_PART
    return [trial.figure for trial in every]


def _itself(name: str, work: Measured) -> Trial:
    """Measure the yardstick against itself: how far its ratio strays from 1 is the noise."""

    async def again(seconds: float) -> Slice:
        return work(seconds)

    return Trial(Figure(name, None), again, work)


def _callers(count: int) -> str:
    return f"{count} caller" if count == 1 else f"{count} callers"


def table(figures: Sequence[Figure], columns: Sequence[str] = COLUMNS) -> str:
    """Lay the figures out in columns."""
    lines = [tuple(columns), *(_cells(figure)[: len(columns)] for figure in figures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(figure: Figure) -> tuple[str, ...]:
    row = figure.row()
    return (
        figure.name,
        f"{row['per_s']:,.0f}",
        f"{row['ratio']:.2f}",
        f"{row['ratio_min']:.2f}",
        f"{row['ratio_max']:.2f}",
        "" if figure.goal is None else f"{figure.goal:.2f}",
        figure.verdict,
        f"{row['syncs']:.2f}",
        f"{row['cpu_us']:,.0f}",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and leave nothing behind."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny slices: does it run at all?")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="which disk to measure")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    size = QUICK if options.quick else WHOLE
    try:
        figures = asyncio.run(measure(folder, size))
    finally:
        shutil.rmtree(folder)
    steps = asyncio.run(sandbox.measure(size.rounds, size.slice_s, size.yardstick_s))
    if options.json:
        rows = {"figures": figures, "sandbox": steps}
        printed = {name: [each.row() for each in part] for name, part in rows.items()}
        print(json.dumps({"machine": machine(), **printed}))
    else:
        print(table(figures))
        print("\n" + table(steps, SANDBOX_COLUMNS))
        print("\n" + ", ".join(f"{name} {value}" for name, value in machine().items()))


def machine() -> dict[str, str]:
    """Say what was measured on."""
    return {
        "Python": platform.python_version(),
        "SQLite": apsw.sqlite_lib_version(),
        "system": platform.system(),
        "cores": str(os.cpu_count()),
    }


if __name__ == "__main__":
    main()
