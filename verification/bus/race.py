"""Cancelling against firing: every order in which the two can meet, with a crash at every point.

Law 1  The task that runs next is a choice, and every choice is tried: after each one, all tasks
       that can run do so until none can go on without another choice.
Law 2  In every order a deferred event fires once or is cancelled once. A caller that was told that
       it is cancelled never sees it fire; one that was told it is too late finds it fired (B2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Final

from duly.bus.bus import Bus
from duly.bus.dispatcher import Dispatcher
from duly.config import Limits
from duly.store import Store
from duly.store.base import Durability
from duly.store.record import JournalEvent
from duly.store.sqlite import open_sqlite
from duly.testing.crash import AFTER, CrashPoints
from duly.testing.dice import Dice
from duly.testing.env import VirtualEnv
from duly.testing.loop import VirtualLoop
from verification.bus.seen import BusSeen, see_bus
from verification.disk import Loss
from verification.life import bury, leave, schema, stage
from verification.point import PointedBackend, PointedDisk
from verification.workflow.scenario import Death, PlannedCrash

DEFERRED: Final = 1
LIMIT: Final = 100
LIMITS: Final = Limits()
A_MOMENT_S: Final = 0.001
TOLD: Final = "the answer"


class Runner(StrEnum):
    """Who takes part."""

    CANCEL = "cancel"
    CANCEL_TOO = "cancel too"
    PROMOTE = "promote"
    SERVE = "serve"  # the whole dispatcher, which promotes


@dataclass(frozen=True, slots=True)
class Race:
    """Who meets whom, which choice is taken at each turn, and where the host dies."""

    runners: tuple[Runner, ...]
    choices: tuple[int, ...] = ()
    crash: PlannedCrash | None = None


@dataclass(slots=True)
class Finish:
    """How a race ended: what was said, where it came by, and how many choices each turn had."""

    problems: list[str] = field(default_factory=list)
    answers: list[bool] = field(default_factory=list)
    promoted: list[int] = field(default_factory=list)
    points: list[str] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)


class ChosenEnv(VirtualEnv):
    """Virtual time in which a task that lets others run waits until it is chosen."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(loop)
        self.waiting: list[asyncio.Future[None]] = []
        self.is_chosen = False

    async def sleep(self, seconds: float) -> None:
        """Sleep; a moment for others ends when it is chosen."""
        if seconds or not self.is_chosen:
            await super().sleep(seconds)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        await turn


def races(*runners: Runner) -> Iterator[tuple[Race, Finish]]:
    """Run every order in which they can meet, none of them with a crash; return how each ended."""
    choices: list[int] = []
    while True:
        race = Race(runners, tuple(choices))
        finish = run(race)
        yield race, finish
        widths = finish.widths
        choices += [0] * (len(widths) - len(choices))
        while choices and choices[-1] + 1 == widths[len(choices) - 1]:
            choices.pop()
        if not choices:
            return
        choices[-1] += 1


def crashes_of(race: Race, finish: Finish) -> Iterator[Race]:
    """Return the race with a crash at every point it came by, of either kind."""
    for place in range(1, len(finish.points) + 1):
        for death in (Death.KILL, Death.POWER):
            yield replace(race, crash=PlannedCrash(place, death))


def run(race: Race) -> Finish:
    """Run a race to its end, and what the next host makes of it."""
    found = _template()
    with stage() as (runner, loop):
        return runner.run(_Track(race, loop).run(found))


class _Track:
    def __init__(self, race: Race, loop: VirtualLoop) -> None:
        self._race = race
        self._loop = loop
        self._env = ChosenEnv(loop)
        self._finish = Finish()
        self._next_disk: PointedDisk | None = None

    async def run(self, found: Mapping[str, bytes]) -> Finish:
        disk = PointedDisk(found)
        points = CrashPoints(self._is_last, lambda _: self._die(disk))
        points.on_point = self._finish.points.append
        points.on_circle = lambda: self._say("it goes in circles")
        backend = await open_sqlite(disk, self._env, schema=schema(), is_direct=False)
        disk.points = points
        store = Store(
            PointedBackend(backend, points, see_bus, lambda _: None, lambda: self._env.sleep(0))
        )
        self._env.is_chosen = True
        tasks = [
            self._env.spawn(self._start(each, store, points), each.value)
            for each in self._race.runners
        ]
        await self._take_turns(tasks, points)
        self._env.is_chosen = False
        await bury(points, disk)
        await self._see_what_is_left(self._next_disk or leave(disk))
        return self._finish

    def _is_last(self, name: str, count: int, times: int) -> bool:
        return self._race.crash is not None and count == self._race.crash.gap

    def _die(self, disk: PointedDisk) -> None:
        assert self._race.crash is not None
        if self._race.crash.death is Death.KILL:
            self._next_disk = leave(disk)
        else:
            self._next_disk = PointedDisk(disk.cut_power(Loss.ALL, Dice(0)))

    async def _take_turns(self, tasks: list[asyncio.Task[None]], points: CrashPoints) -> None:
        """Let one of the waiting tasks go on, whenever no other can (law 1)."""
        turn = 0
        while not all(task.done() for task in tasks):
            await self._loop.rest()
            if points.is_dead:
                return
            waiting = [each for each in self._env.waiting if not each.done()]
            if not waiting:
                await self._loop.sleep(A_MOMENT_S)
                continue
            choices = self._race.choices
            chosen = choices[turn] if turn < len(choices) else 0
            self._finish.widths.append(len(waiting))
            turn += 1
            self._env.waiting = [each for each in waiting if each is not waiting[chosen]]
            waiting[chosen].set_result(None)

    # -- Those who run --------------------------------------------------------------------------

    async def _start(self, runner: Runner, store: Store, points: CrashPoints) -> None:
        await self._env.sleep(0)  # who begins is a choice, too
        runners: dict[Runner, Callable[[Store], Awaitable[None]]] = {
            Runner.CANCEL: self._cancel,
            Runner.CANCEL_TOO: self._cancel,
            Runner.PROMOTE: self._promote,
            Runner.SERVE: self._serve,
        }
        await runners[runner](store)
        points.reach(AFTER, TOLD)

    async def _cancel(self, store: Store) -> None:
        self._finish.answers.append(await store.cancel(DEFERRED, now=0))

    async def _promote(self, store: Store) -> None:
        now = self._env.now_ms()
        self._finish.promoted += await store.promote_due(now=now, limit=LIMIT)

    async def _serve(self, store: Store) -> None:
        dispatcher = Dispatcher(self._env, store, limits=LIMITS, entered=lambda _: None)
        await dispatcher.drain()

    # -- What is left (law 2) -------------------------------------------------------------------

    async def _see_what_is_left(self, disk: PointedDisk) -> None:
        """Open what is left as the next host does: it promotes, and a caller cancels again."""
        backend = await open_sqlite(disk, self._env, schema=schema(), is_direct=False)
        store = Store(backend)
        left = await backend.transact(see_bus, Durability.READ)
        self._check(left, "")
        if self._race.crash is None and (True in self._finish.answers) == bool(left.events):
            self._say("neither side has won")
        bus = Bus(
            self._env,
            store,
            Dispatcher(self._env, store, limits=LIMITS, entered=lambda _: None),
            LIMITS,
        )
        await store.promote_due(now=self._env.now_ms(), limit=LIMIT)
        self._finish.answers.append(await bus.cancel(DEFERRED))
        if self._finish.answers[-1]:
            self._say("it could be cancelled after it was promoted")
        self._check(await backend.transact(see_bus, Durability.READ), " after a restart")
        await backend.close()
        disk.drop()

    def _check(self, left: BusSeen, when: str) -> None:
        row, events = left.deferred[DEFERRED], len(left.events)
        answers = self._finish.answers
        if (row.status == "fired") != (events == 1) or events > 1:
            self._say(f"it is {row.status}, and there are {events} events{when}")
        if answers.count(True) > 1:
            self._say(f"it was cancelled twice{when}")
        if True in answers and row.status != "cancelled":
            self._say(f"it was cancelled and is {row.status}{when}")
        cancels = sum(each in (Runner.CANCEL, Runner.CANCEL_TOO) for each in self._race.runners)
        if False in answers and cancels == 1 and True not in answers and row.status == "scheduled":
            self._say(f"it was too late to cancel, and it is {row.status}{when}")

    def _say(self, problem: str) -> None:
        self._finish.problems.append(problem)


@cache
def _template() -> Mapping[str, bytes]:
    """Return a disk with one deferred event whose time has come."""

    async def make(loop: VirtualLoop) -> Mapping[str, bytes]:
        env = VirtualEnv(loop)
        disk = PointedDisk()
        backend = await open_sqlite(disk, env, schema=schema(), is_direct=False)
        event = JournalEvent("alpha", "program", '{"mark":1}')
        await Store(backend).defer(event, delay_ms=0, now=env.now_ms())
        await backend.close()
        disk.drop()
        return {name: bytes(file.content) for name, file in disk.files.items()}

    with stage() as (runner, loop):
        return runner.run(make(loop))
