"""Measure whole runs in the sandbox, beside DBOS in the same minutes, and print a table.

The goals are reported, never asserted: a missed goal is a reason to look, not a failed build.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from bench.__main__ import FOLDER, machine
from bench.measure import Figure, Slice
from bench.runs import peer as peers
from bench.runs.peer import Peer
from bench.runs.subject import SOURCES, STRANGERS, Costs, counting_syncs, open_subject
from bench.yardstick import Yardstick

WORKFLOWS = (1, 10, 100)
PEER_GOAL = 5.0  # times the peer, with ten workflows
PEER_GOAL_WORKFLOWS = 10
LATENCY_GOAL_MS = 5.0
MEGABYTE = 1_000_000
COLUMNS = (
    "figure",
    "per second",
    "× run4",
    "× DBOS",
    "goal",
    "",
    "syncs",
    "host µs",
    "worker µs",
    "workers MB",
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: rounds, runs of a slice, seconds of the others', idle publishes."""

    rounds: int
    runs: int
    peer_s: float
    yardstick_s: float
    publishes: int
    workflows: tuple[int, ...] = WORKFLOWS
    languages: tuple[str, ...] = tuple(SOURCES)


WHOLE = Size(rounds=3, runs=200, peer_s=3, yardstick_s=0.3, publishes=50)
QUICK = Size(rounds=1, runs=1, peer_s=0.1, yardstick_s=0.01, publishes=2, workflows=(1, 10))


@dataclass(slots=True)
class Row:
    """One line of the table: against the disk, against the peer, and what a run costs."""

    name: str
    goal: float | None
    disk: Figure
    peer: Figure
    worker_us: list[float] = field(default_factory=list)
    worker_bytes: int = 0

    @classmethod
    def of(cls, name: str, goal: float | None = None) -> Row:
        """Make an empty row."""
        return cls(name, goal, Figure(name, None), Figure(name, goal))

    def cells(self) -> tuple[str, ...]:
        """Spell the row for the table."""
        figures = self.disk.row()
        has_peer = bool(self.peer.ratios)
        return (
            self.name,
            f"{figures['per_s']:,.0f}",
            f"{self.disk.ratio:.2f}",
            f"{self.peer.ratio:.1f}" if has_peer else "–",
            "" if self.goal is None else f"{self.goal:.1f}",
            self.peer.verdict if has_peer else "",
            f"{figures['syncs']:.2f}" if self.worker_us else "–",
            f"{figures['cpu_us']:,.0f}",
            f"{median(self.worker_us):,.0f}" if self.worker_us else "–",
            f"{self.worker_bytes / MEGABYTE:,.0f}" if self.worker_us else "–",
        )

    def to_json(self) -> dict[str, object]:
        """Spell the row for programs."""
        return {
            **self.disk.row(),
            "goal": self.goal,
            "times_dbos": self.peer.ratio if self.peer.ratios else None,
            "verdict": self.peer.verdict if self.peer.ratios else "",
            "worker_us": median(self.worker_us) if self.worker_us else None,
            "worker_bytes": self.worker_bytes if self.worker_us else None,
        }


@dataclass(slots=True)
class Report:
    """All that was measured."""

    rows: list[Row] = field(default_factory=list)
    latencies_ms: dict[str, list[float]] = field(default_factory=dict)


async def measure(folder: Path, size: Size, peer: Peer | None) -> Report:
    """Measure each number of workflows in both languages, the others before and after."""
    report = Report()
    yardstick = Yardstick(folder)
    for workflows in size.workflows:
        await _measure_one(folder, size, peer, yardstick, workflows, report)
    yardstick.close()
    if peer is not None:
        report.latencies_ms["DBOS"] = peer.latencies_ms(size.publishes)
    return report


async def _measure_one(
    folder: Path,
    size: Size,
    peer: Peer | None,
    yardstick: Yardstick,
    workflows: int,
    report: Report,
) -> None:
    goal = PEER_GOAL if workflows == PEER_GOAL_WORKFLOWS else None
    beside = Row.of(f"DBOS, {_callers(workflows)}")
    report.rows += [beside] if peer is not None else []
    for language in size.languages:
        row = Row.of(f"{language}, {_callers(workflows)}", goal)
        report.rows.append(row)
        host, subject = await open_subject(folder, language, workflows)
        try:
            for _ in range(size.rounds):
                around = [_others(size, peer, yardstick, workflows)]
                costs = await subject.run(max(1, size.runs // workflows))
                around.append(_others(size, peer, yardstick, workflows))
                _add(row, beside, costs, around)
            if workflows == 1:
                report.latencies_ms[language] = await subject.latencies_ms(size.publishes)
        finally:
            await host.close()


def _others(
    size: Size, peer: Peer | None, yardstick: Yardstick, workflows: int
) -> tuple[Slice, Slice | None]:
    disk = yardstick.run4(size.yardstick_s)
    return disk, None if peer is None else peer.run(workflows, size.peer_s)


def _add(row: Row, beside: Row, costs: Costs, around: Sequence[tuple[Slice, Slice | None]]) -> None:
    (disk_before, peer_before), (disk_after, peer_after) = around
    row.disk.add(disk_before, costs.slice, disk_after)
    row.worker_us.append(costs.worker_us)
    row.worker_bytes = max(row.worker_bytes, costs.worker_bytes)
    if peer_before is not None and peer_after is not None:
        row.peer.add(peer_before, costs.slice, peer_after)
        beside.disk.add(disk_before, peer_before, disk_after)


def _callers(workflows: int) -> str:
    return f"{workflows} workflow" if workflows == 1 else f"{workflows} workflows"


def table(report: Report) -> str:
    """Lay out the rows, then the times from a publish to its handler."""
    lines = [COLUMNS, *(row.cells() for row in report.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    laid = [
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    laid.append(f"\nfrom a publish to the handler, idle; the goal is {LATENCY_GOAL_MS:g} ms")
    for name, found in report.latencies_ms.items():
        low, middle, high = min(found), median(found), max(found)
        laid.append(f"{name:<12}{middle:6.1f} ms  ({low:.1f} to {high:.1f})")
    return "\n".join(laid)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and leave nothing behind but the peer's environment."""
    parser = argparse.ArgumentParser(prog="python -m bench.runs", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny slices: does it run at all?")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--alone", action="store_true", help="without the peer; nothing is fetched")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="which disk to measure")
    parser.add_argument("--workflows", type=int, nargs="+", help="how many of them")
    parser.add_argument("--language", choices=SOURCES, help="one of the two languages alone")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    size = QUICK if options.quick else WHOLE
    if options.workflows:
        size = replace(size, workflows=tuple(options.workflows))
    if options.language:
        size = replace(size, languages=(options.language,))
    try:
        with ExitStack() as stack:
            stack.enter_context(counting_syncs())
            peer = None if options.alone else _start_peer(stack, options.folder, folder)
            report = asyncio.run(measure(folder, size, peer))
    finally:
        shutil.rmtree(folder)
    if options.json:
        rows = [row.to_json() for row in report.rows]
        print(json.dumps({"machine": machine(), "runs": rows, "latencies_ms": report.latencies_ms}))
    else:
        print(table(report))
        print("\n" + ", ".join(f"{name} {value}" for name, value in machine().items()))


def _start_peer(stack: ExitStack, kept: Path, folder: Path) -> Peer | None:
    """Start the peer; where it cannot be fetched, say so and measure without it."""
    try:
        python = peers.prepare(kept)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"DBOS is not measured: {error}")
        return None
    peer = stack.enter_context(peers.started(python, folder))
    STRANGERS.add(peer.pid)
    return peer


if __name__ == "__main__":
    main()
