"""What every run of a scenario needs: a loop of virtual time, disks, and what is counted.

Law 1  Only time, chance and the disk are ours; the host is the one that ships.
Law 2  The trace is everything that happened, in order; the same scenario has the same trace.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar

from duly.store import queries
from duly.store.sqlite import Schema, default_schema
from duly.testing.crash import CrashPoints
from duly.testing.dice import Dice
from duly.testing.env import VirtualEnv
from duly.testing.loop import VirtualLoop
from verification.disk import Loss
from verification.loop import QuickLoop
from verification.point import PointedDisk
from verification.workflow.scenario import Death, PlannedCrash

R = TypeVar("R")

CALM_ROUNDS: Final = 90  # a clock set back by a day, twice, makes a wait that much longer
CALM_S: Final = 3600.0
PATIENCE: Final = 110  # a host that does not come by its place in so many points dies anyway
DELAYS_S: Final = (0.0, 0.0, 0.0, 0.0, 0.001, 0.004, 0.05)


@cache
def schema() -> Schema:
    """Read the schema that ships, with the oracles' questions beside its statements."""
    questions = Path(__file__).with_name("oracle.sql").read_text(encoding="utf-8")
    shipped = default_schema()
    statements = dict(shipped.statements)
    statements |= queries.parse(questions, "oracle.sql")
    # The counters of connections, which only a server has.
    own = queries.load("postgres")
    statements |= {name: own[name] for name in ("enter_slot", "list_slots", "move_slot")}
    return Schema(shipped.text + statements["oracle_create_slots"], statements)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a scenario ended."""

    problems: tuple[str, ...]
    trace: tuple[str, ...]
    points: Counter[str]
    deaths: int
    power_cuts: int
    events: int

    @property
    def hash(self) -> str:
        """Name the trace by its content."""
        return sha256("\n".join(self.trace).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Moment:
    """What the next host would find, by the way this one dies; equal moments have equal futures."""

    after_kill: str
    after_power_cut: str
    calls: int  # how many calls the outside has seen


OnPoint = Callable[[int, str, Moment], None]  # in which life, where, and what a death would leave


class SimulatedEnv(VirtualEnv):
    """Virtual time in which chance decides which task runs next."""

    def __init__(self, loop: VirtualLoop, dice: int) -> None:
        super().__init__(loop, seed=dice)
        self._dice = Dice(dice) if dice else None

    async def sleep(self, seconds: float) -> None:
        """Sleep; a moment for others may last a little longer."""
        if seconds == 0 and self._dice is not None:
            seconds = self._dice.choose(DELAYS_S)
        await super().sleep(seconds)


class QuickRunner(asyncio.Runner):  # type: ignore[misc]  # Python does not call it final
    """A runner that handles no signals: to ask for a handler makes Python print the task."""

    def run(self, coro: Coroutine[Any, Any, R], *, context: Context | None = None) -> R:
        """Run a task to its end."""
        loop = self.get_loop()
        return loop.run_until_complete(loop.create_task(coro, context=context))


@contextmanager
def stage(
    make_loop: Callable[[], VirtualLoop] = QuickLoop,
) -> Iterator[tuple[asyncio.Runner, VirtualLoop]]:
    """Give a loop of virtual time that does not log the tasks of dead hosts: they are many."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with QuickRunner(loop_factory=make_loop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, VirtualLoop), loop
            loop.set_exception_handler(lambda _, __: None)
            yield runner, loop
    finally:
        logging.disable(level)


class Lives:
    """The lives of a host, one after the other, until one of them ends its scenario."""

    _patience = PATIENCE

    def __init__(
        self, loop: VirtualLoop, crashes: tuple[PlannedCrash, ...], dice: int, problems: list[str]
    ) -> None:
        self._loop = loop
        self._env = SimulatedEnv(loop, dice)
        self._crashes = list(crashes)
        self._is_plain = dice == 0
        self._chance = Dice(dice + 1)
        self._problems = problems
        self._trace: list[str] = []
        self._points: Counter[str] = Counter()
        self._deaths = 0
        self._power_cuts = 0
        self._next_disk: PointedDisk | None = None
        self._is_wrong = asyncio.Event()
        self._is_closing = asyncio.Event()
        self._closed: list[CrashPoints] = []  # of lives that ended in order
        self._closes = 0

    def _now_s(self) -> float:
        return self._loop.elapsed_ms / 1000

    def _tell(self, text: str) -> None:
        self._trace.append(f"{self._now_s():.3f} s: {text}")

    async def _live_on(self, files: Mapping[str, bytes]) -> None:
        """Live until a host does not die, or something is wrong."""
        disk = PointedDisk(files)
        while True:
            crash = self._crashes.pop(0) if self._crashes else None
            self._is_closing.clear()
            try:
                await self._live(disk, crash)
            except Exception as error:
                self._problems.append(f"the simulation broke: {error!r}")
            if self._next_disk is None or self._problems:
                break
            disk, self._next_disk = self._next_disk, None
            if crash is not None and crash.down_s:
                self._tell(f"the machine is off for {crash.down_s:g} s")
                await self._loop.sleep(crash.down_s)
            if crash is not None and crash.is_reboot:
                self._env.reboot()

    def _end(self, events: int) -> Ending:
        return Ending(
            tuple(self._problems),
            tuple(self._trace),
            self._points,
            self._deaths,
            self._power_cuts,
            events,
        )

    async def _live(self, disk: PointedDisk, crash: PlannedCrash | None) -> None:
        """Let a host live until it dies as planned, or until everything has come to rest."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Forget what was committed and not durable: the power was cut."""
        raise NotImplementedError

    def _place(self, disk: PointedDisk, crash: PlannedCrash | None) -> CrashPoints:
        """Make the places of one life, at one of which it may end."""
        points = CrashPoints(
            lambda name, count, times: self._is_last(crash, name, count, times),
            lambda name: self._die(disk, crash, name),
        )
        points.on_circle = self._stop_circling
        return points

    def _is_last(self, crash: PlannedCrash | None, name: str, count: int, times: int) -> bool:
        """Tell whether this is the point a crash was planned for."""
        if crash is None or self._is_closing.is_set():
            return False
        if not self._is_time(crash, name, count, times):
            return False
        if crash.death is Death.CLOSE:
            self._tell(f"the host is closed {name}")
            self._is_closing.set()
            return False
        return True

    def _is_time(self, crash: PlannedCrash, name: str, count: int, times: int) -> bool:
        if crash.at and count < self._patience:
            return name == crash.at and times >= crash.gap
        return count >= crash.gap

    def _stop_circling(self) -> None:
        self._problems.append("the host runs in circles")
        self._is_wrong.set()

    def _die(self, disk: PointedDisk, crash: PlannedCrash | None, name: str) -> None:
        assert crash is not None
        self._deaths += 1
        self._tell(f"the host dies ({crash.death}) {name}")
        if crash.death is Death.KILL:
            self._next_disk = leave(disk)
            return
        self._power_cuts += 1
        loss = Loss.ALL if self._is_plain else self._chance.choose(tuple(Loss))
        self._next_disk = PointedDisk(disk.cut_power(loss, self._chance))
        self._forget()

    async def _bury(self, points: CrashPoints, disk: PointedDisk) -> None:
        for earlier in self._closed:  # what they left behind runs in the same process
            earlier.is_dead = True
        self._closed.clear()
        await bury(points, disk)
        self._points.update(points.names)

    def _put_away(self, points: CrashPoints, disk: PointedDisk) -> None:
        """Let go of a host that was closed in order; its process lives on."""
        disk.points = None
        disk.drop()
        self._closed.append(points)
        self._points.update(points.names)
        self._closes += 1


async def bury(points: CrashPoints, disk: PointedDisk) -> None:
    """End every task of a life; the outside has none, so what was on its way still lands."""
    points.is_dead = True
    disk.points = None
    ours = asyncio.current_task()
    while others := [task for task in asyncio.all_tasks() if task is not ours]:
        for task in others:
            task.cancel()
        await asyncio.wait(others)
    disk.drop()


def leave(disk: PointedDisk) -> PointedDisk:
    """Return the same disk as the next process finds it."""
    return disk.next_process()


def moment(disk: PointedDisk, rest: tuple[object, ...], calls: int = 0) -> Moment:
    """Name what the next host would find if this one died now: the disk, and all the rest."""
    said = repr(rest).encode()
    after_kill, after_power_cut = (sha256(said + each).hexdigest() for each in disk.digest())
    return Moment(after_kill, after_power_cut, calls)
