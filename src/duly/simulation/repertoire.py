"""The kinds of stories there are, and what can be done with each.

Law: whatever can be done with one kind can be done with every other: making one up from a seed,
playing it, making it smaller, counting through every crash, and looking for planted bugs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from duly.simulation import (
    bus_exhaustive,
    bus_planted,
    bus_play,
    bus_shrink,
    bus_story,
    exhaustive,
    planted,
    play,
    shrink,
    unkind,
)
from duly.simulation.exhaustive import Base, Case
from duly.simulation.life import Ending
from duly.simulation.planted import Bug


@dataclass(frozen=True, slots=True)
class Repertoire:
    """One kind of stories; a story is whatever its own functions take."""

    name: str
    from_seed: Callable[[int], Any]
    play: Callable[[Any], Ending]
    simpler: Callable[[Any], Iterator[Any]]
    cases: Callable[[], tuple[Case[Any], ...]]
    unfold: Callable[..., Base[Any]]
    never_reached: Callable[[Iterable[str]], tuple[str, ...]]
    bugs: tuple[Bug, ...]
    find: Callable[[Bug, Iterable[int]], int | None]


WORKFLOW: Final = Repertoire(
    "workflow",
    unkind.from_seed,
    play.play,
    shrink.simpler,
    exhaustive.cases,
    exhaustive.unfold,
    exhaustive.never_reached,
    planted.BUGS,
    planted.find,
)
BUS: Final = Repertoire(
    "bus",
    bus_story.from_seed,
    bus_play.play,
    bus_shrink.simpler,
    bus_exhaustive.cases,
    bus_exhaustive.unfold,
    bus_exhaustive.never_reached,
    bus_planted.BUGS,
    bus_planted.find,
)
REPERTOIRES: Final[Mapping[str, Repertoire]] = {each.name: each for each in (WORKFLOW, BUS)}
