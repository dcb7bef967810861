"""Measure whole runs: every program in turn, each slice between two of the yardstick.

The goals are reported, never asserted: a missed goal is a reason to look, not a failed build.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from bench.measure import Figure, Size, Slice, Trial, idle, take_all
from bench.report import Row, Section
from bench.runs import peer as peers
from bench.runs.peer import Peer
from bench.yardstick import Yardstick

LANGUAGES = ("JavaScript", "Python")
PEERS = ("DBOS", "Restate", "huey")
# How many times a peer's ratio to the yardstick, by the number of workflows.
GOALS = {
    "Duly, JavaScript": {"DBOS": {1: 3.0, 10: 6.0, 100: 6.0}, "Restate": {10: 1.5, 100: 1.5}},
    "Duly, Python": {"DBOS": {1: 2.5, 10: 5.0, 100: 5.0}},
}
IDLE_GOALS_MS = {"Duly, JavaScript": 2.0, "Duly, Python": 3.0}


async def measure(
    folder: Path, size: Size, languages: Sequence[str], others: Sequence[peers.Program]
) -> Section:
    """Measure each number of workflows, all programs in turn, then the times to begin."""
    yardstick = Yardstick(folder)
    rows: list[Row] = []
    with ExitStack() as stack:
        programs = [*(peers.duly(each) for each in languages), *others]
        opened = [stack.enter_context(peers.started(each, folder)) for each in programs]
        for workflows in size.workflows:
            trials = [
                Trial(
                    Figure(each.name, callers=workflows),
                    _work(each, workflows, size),
                    yardstick.run4,
                )
                for each in opened
            ]
            taken = await take_all(trials, size.rounds, size.run_s, size.yardstick_s)
            rows += _compared(trials, taken, workflows)
        begun = [
            idle(each.name, each.latencies_ms(size.idle), IDLE_GOALS_MS.get(each.name))
            for each in opened
            if not each.name.startswith("huey")  # measured beside the bus
        ]
    yardstick.close()
    return Section(rows, begun)


def _work(peer: Peer, callers: int, size: Size) -> Callable[[float], Awaitable[Slice]]:
    """Return how a program makes one slice of runs."""

    async def make(seconds: float) -> Slice:
        order = partial(peer.slice, work="run", callers=callers, count=size.runs, seconds=seconds)
        if not peer.name.startswith("DBOS"):
            return order()
        # In threads or in tasks, whichever is faster here.
        both = [order(seconds=seconds / 2, is_async=is_async) for is_async in (False, True)]
        return max(both, key=lambda each: each.per_s)

    return make


def _compared(trials: Sequence[Trial], rows: Sequence[Row], workflows: int) -> list[Row]:
    """Add to each row of Duly's how many times as fast as each peer it was, round by round."""
    ratios = {trial.figure.name: trial.figure.ratios for trial in trials}
    compared = []
    for row in rows:
        if not row.name.startswith("Duly"):
            compared.append(row)
            continue
        against = {
            name.partition(" ")[0]: median(
                own / other for own, other in zip(ratios[row.name], found, strict=True)
            )
            for name, found in ratios.items()
            if not name.startswith("Duly")
        }
        goals = {
            peer: goal[workflows]
            for peer, goal in GOALS[row.name].items()
            if peer in against and workflows in goal
        }
        compared.append(replace(row, against=against, goals=goals))
    return compared
