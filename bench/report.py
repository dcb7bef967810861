"""What a bench leaves behind: facts about each section, as JSON in `figures.json`.

Law: every figure on a page is read from here, so no table is written by hand. Each section keeps
the day, the load and the number of rounds of its own run, so one section can be measured again
without making the others look newer than they are.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import apsw
import msgspec

FIGURES = Path(__file__).with_name("figures.json")
OTHERS_QUIET = 0.1


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: how often in a second, in proportion to the yardstick, and at what cost.

    Rates, ratios and costs are medians over the rounds; costs are microseconds of processor time
    each time, of the process itself and of its children.
    """

    name: str
    per_s: float
    per_s_min: float
    per_s_max: float
    ratio: float
    ratio_min: float
    ratio_max: float
    cpu_us: float
    callers: int | None = None
    goal: float | None = None
    syncs: float | None = None
    children_us: float | None = None
    children_bytes: int | None = None
    against: dict[str, float] = field(default_factory=dict)  # how many times a peer's ratio
    goals: dict[str, float] = field(default_factory=dict)  # the same, as it should be


@dataclass(frozen=True, slots=True)
class Idle:
    """How long something that rested takes to begin."""

    name: str
    median_ms: float
    min_ms: float
    max_ms: float
    goal_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """When and on what a section was measured, and how busy that machine was."""

    on: str
    rounds: int
    cores: int
    load_before: float
    load_after: float
    others: float  # the part of all processor time that went to other programs
    python: str
    sqlite: str
    system: str

    @property
    def is_quiet(self) -> bool:
        """Whether the machine did little else."""
        return self.others <= OTHERS_QUIET


@dataclass(frozen=True, slots=True)
class Section:
    """One table: its rows, the times to begin, and what could not be measured."""

    rows: list[Row]
    idle: list[Idle] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    conditions: Conditions | None = None


Report = dict[str, Section]


class Surroundings:
    """What the machine does beside the bench, from the moment this is made.

    Child processes count as the bench's own once they have ended, so it is asked after that.
    """

    def __init__(self) -> None:
        self._load_before = os.getloadavg()[0]
        self._busy_before_s, self._own_before_s = _busy_s(), _own_s()
        self._began_s = time.perf_counter()

    def conditions(self, rounds: int) -> Conditions:
        """Say what was measured on."""
        cores = os.cpu_count() or 1
        all_s = (time.perf_counter() - self._began_s) * cores
        others_s = (_busy_s() - self._busy_before_s) - (_own_s() - self._own_before_s)
        return Conditions(
            on=datetime.now(UTC).date().isoformat(),
            rounds=rounds,
            cores=cores,
            load_before=self._load_before,
            load_after=os.getloadavg()[0],
            others=min(1.0, max(0.0, others_s / all_s)),
            python=platform.python_version(),
            sqlite=apsw.sqlite_lib_version(),
            system=platform.system(),
        )


def _busy_s() -> float:
    """Return the processor time that the whole machine has spent, but not on waiting."""
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return 0.0
    user, nice, system, _, _, *interrupts = (int(each) for each in line.split()[1:9])
    return float(user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def encode(report: Report) -> bytes:
    """Write a report as JSON, with few enough digits to be read."""
    text = msgspec.json.encode(_rounded(msgspec.to_builtins(report)))
    return msgspec.json.format(text, indent=1) + b"\n"


def decode(text: bytes) -> Report:
    """Read a report."""
    return msgspec.json.decode(text, type=Report)


def kept() -> Report:
    """Read what was kept of the runs before."""
    return decode(FIGURES.read_bytes()) if FIGURES.exists() else {}


def keep(report: Report) -> Report:
    """Keep the sections that were measured, and those of the runs before that were not.

    What is returned has been rounded as the file is: pages are written from that.
    """
    FIGURES.write_bytes(encode({**kept(), **report}))
    return kept()


def _rounded(value: object) -> object:
    """Keep four digits of every number with a point."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value
