"""The kinds of scenarios there are, and what can be done with each.

Law: all that can be done with one kind can be done with every other: making one up from a seed,
running it, making it smaller, counting through every crash, and looking for planted bugs. Of a
fleet not the crashes are counted through, but the pauses of a host that loses its lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from verification.bus import exhaustive as bus_exhaustive
from verification.bus import planted as bus_planted
from verification.bus import run as bus_run
from verification.bus import scenario as bus_scenario
from verification.bus import shrink as bus_shrink
from verification.fleet import paused
from verification.fleet import planted as fleet_planted
from verification.fleet import run as fleet_run
from verification.fleet import scenario as fleet_scenario
from verification.life import Ending
from verification.workflow import exhaustive, planted, shrink, unkind
from verification.workflow import run as run
from verification.workflow.planted import Bug


@dataclass(frozen=True, slots=True)
class Suite:
    """One kind of scenarios; a scenario is what its own functions take."""

    name: str
    option: str  # of the command, for scenarios of this kind
    from_seed: Callable[[int], Any]
    run: Callable[[Any], Ending]
    simpler: Callable[[Any], Iterator[Any]]
    cases: Callable[[], tuple[Any, ...]]  # situations, each with a name and a scenario
    unfold: Callable[..., Any]  # of a situation: all `scenarios` with one crash or pause more
    never_reached: Callable[[Iterable[str]], tuple[str, ...]]
    bugs: tuple[Bug, ...]
    find: Callable[[Bug, Iterable[int]], int | None]


WORKFLOW: Final = Suite(
    "workflow",
    "",
    unkind.from_seed,
    run.run,
    shrink.simpler,
    exhaustive.cases,
    exhaustive.unfold,
    exhaustive.never_reached,
    planted.BUGS,
    planted.find,
)
BUS: Final = Suite(
    "bus",
    "--bus ",
    bus_scenario.from_seed,
    bus_run.run,
    bus_shrink.simpler,
    bus_exhaustive.cases,
    bus_exhaustive.unfold,
    bus_exhaustive.never_reached,
    bus_planted.BUGS,
    bus_planted.find,
)
FLEET: Final = Suite(
    "fleet",
    "--fleet ",
    fleet_scenario.from_seed,
    fleet_run.run,
    fleet_scenario.simpler,
    paused.situations,
    paused.unfold,
    lambda points: (),
    fleet_planted.BUGS,
    fleet_planted.find,
)
SUITES: Final[Mapping[str, Suite]] = {each.name: each for each in (WORKFLOW, BUS, FLEET)}
