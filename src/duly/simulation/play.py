"""Plays one story: lives of a host on one disk, one outside, and the oracles over them.

Law 1  The engine, the rules and the store are the ones that ship; only time, chance, the disk,
       the scripts and the outside are ours.
Law 2  The trace is everything that happened, in order; the same story has the same trace.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from hashlib import sha256
from typing import Any, Final

from duly.config import Policy
from duly.connectors.base import Call
from duly.connectors.registry import Registry
from duly.engine.base import Parts
from duly.engine.scheduler import Engine
from duly.sandbox.scripted import ScriptedSandbox
from duly.simulation.allowance import Allowance
from duly.simulation.dice import Dice
from duly.simulation.disk import Loss
from duly.simulation.oracle import Oracle
from duly.simulation.outside import Outside, Sheet
from duly.simulation.person import WAITING, Host, Person, deploy
from duly.simulation.point import Crash, PointedBackend, PointedDisk, Points
from duly.simulation.seen import Seen, see
from duly.simulation.shape import NAME, TOLD, Shape, Tool
from duly.simulation.story import LENGTH_MS, Act, Death, Story, Wish
from duly.simulation.story import Crash as PlannedCrash
from duly.store import Store, queries
from duly.store.base import Durability
from duly.store.sqlite import Schema, open_sqlite
from duly.testing.env import START, VirtualEnv
from duly.testing.loop import VirtualLoop

CALM_ROUNDS: Final = 90  # a clock set back by a day, twice, makes a wait that much longer
CALM_S: Final = 3600.0
PATIENCE: Final = 80  # a host that does not come by its place in so many points dies anyway
DELAYS_S: Final = (0.0, 0.0, 0.0, 0.0, 0.001, 0.004, 0.05)

_templates: dict[tuple[Shape, Tool, bool], Mapping[str, bytes]] = {}


@cache
def schema() -> Schema:
    """Read the schema that ships, with the oracles' questions beside its statements."""
    statements = queries.load("queries", "bus", "views", "oracle")
    return Schema(queries.read("schema"), statements)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a story ended."""

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
    """Virtual time in which whoever may run next is left to chance."""

    def __init__(self, loop: VirtualLoop, dice: int) -> None:
        super().__init__(loop, seed=dice)
        self._dice = Dice(dice) if dice else None

    async def sleep(self, seconds: float) -> None:
        """Sleep; a moment for others may last a little longer."""
        if seconds == 0 and self._dice is not None:
            seconds = self._dice.choose(DELAYS_S)
        await super().sleep(seconds)


def play(story: Story, on_point: OnPoint | None = None) -> Ending:
    """Play a story from its beginning to its end; tell whoever asks of every point."""
    template(story.shape, story.tool, is_granted=story.is_granted)
    with _stage() as (runner, loop):
        return runner.run(_Play(story, loop, on_point).run())


@contextmanager
def _stage() -> Iterator[tuple[asyncio.Runner, VirtualLoop]]:
    """Give a loop of virtual time on which nobody mourns the dead: they are many."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, VirtualLoop), loop
            loop.set_exception_handler(lambda _, __: None)
            yield runner, loop
    finally:
        logging.disable(level)


def _is_last(crash: PlannedCrash | None, name: str, count: int, times: int) -> bool:
    """Tell whether this is the point a crash was planned for."""
    if crash is None:
        return False
    if crash.at and count < PATIENCE:
        return name == crash.at and times >= crash.gap
    return count >= crash.gap


class _Play:
    def __init__(self, story: Story, loop: VirtualLoop, on_point: OnPoint | None) -> None:
        self._story = story
        self._on_point = on_point
        self._loop = loop
        self._env = SimulatedEnv(loop, story.dice)
        self._trace: list[str] = []
        self._outside = Outside(
            list(story.outcomes),
            list(story.sayings),
            self._tell,
            self._now_s,
            loop.sleep,
            self._see_leave,
        )
        allowance = Allowance(story.tool.value, story.is_asked)
        self._oracle = Oracle(self._outside.effects, allowance)
        self._acts = [act for act in story.acts if not act.at]
        self._doors = [act for act in story.acts if act.at]
        self._crashes = list(story.crashes)
        self._chance = Dice(story.dice + 1)
        self._points: Counter[str] = Counter()
        self._deaths = 0
        self._power_cuts = 0
        self._next_disk: PointedDisk | None = None
        self._is_wrong = asyncio.Event()
        self._policy = Policy(approvals={"*": story.approval.value})
        self._person = Person(
            story, self._env, self._outside, self._oracle, self._tell, self._is_wrong.set
        )

    def _now_s(self) -> float:
        return self._loop.elapsed_ms / 1000

    def _tell(self, text: str) -> None:
        self._trace.append(f"{self._now_s():.3f} s: {text}")

    async def run(self) -> Ending:
        story = self._story
        disk = PointedDisk(template(story.shape, story.tool, is_granted=story.is_granted))
        while True:
            crash = self._crashes.pop(0) if self._crashes else None
            try:
                await self._live(disk, crash)
            except Exception as error:
                self._oracle.problems.append(f"the simulation broke: {error!r}")
            if self._next_disk is None or self._oracle.problems:
                break
            disk, self._next_disk = self._next_disk, None
        return Ending(
            tuple(self._oracle.problems),
            tuple(self._trace),
            self._points,
            self._deaths,
            self._power_cuts,
            self._person.published,
        )

    # -- One life -------------------------------------------------------------------------------

    async def _live(self, disk: PointedDisk, crash: PlannedCrash | None) -> None:
        """Let a host live until it dies as planned, or until everything has come to rest."""
        points = Points(
            lambda name, count, times: _is_last(crash, name, count, times),
            lambda name: self._die(disk, crash, name),
        )
        points.on_circle = self._stop_circling
        backend = await open_sqlite(disk, self._env, schema=schema())
        self._watch(await backend.transact(see, Durability.READ))  # what the last one left
        disk.points = points

        store = Store(PointedBackend(backend, points, self._watch, lambda: self._env.sleep(0)))
        outside = Registry([Sheet(self._outside, points)])
        sandbox = ScriptedSandbox(self._env, self._policy.limits)
        parts = Parts(self._env, store, sandbox, outside, self._policy)
        host = Host(parts, Engine(parts), points)
        points.on_point = lambda name: self._come_by(name, points, disk, host)
        tasks = {
            "host": asyncio.ensure_future(host.desk.engine.serve()),
            "story": asyncio.ensure_future(self._tell_story(host)),
            "death": asyncio.ensure_future(points.died.wait()),
            "wrong": asyncio.ensure_future(self._is_wrong.wait()),
        }
        await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        if not points.is_dead:
            self._examine(tasks)
        await self._bury(points, disk)
        self._points.update(points.names)

    def _watch(self, seen: Seen) -> None:
        self._oracle.look(seen)
        if self._oracle.problems:
            self._is_wrong.set()

    def _see_leave(self, call: Call) -> None:
        self._oracle.see_leave(call)
        if self._oracle.problems:
            self._is_wrong.set()

    def _come_by(self, name: str, points: Points, disk: PointedDisk, host: Host) -> None:
        """Let in whoever waited for the host to come by here."""
        for act in [each for each in self._doors if each.at == name]:
            if act.times in (0, points.names[name]):
                if act.times:
                    self._doors.remove(act)
                self._tell(f"somebody comes in {name}")
                self._loop.create_task(self._person.do(host, act))
        if self._on_point is not None:
            self._on_point(self._deaths, name, self._moment(disk))

    def _stop_circling(self) -> None:
        self._oracle.problems.append("the host runs in circles")
        self._is_wrong.set()

    def _moment(self, disk: PointedDisk) -> Moment:
        """Name what the next host would find if this one died now: disk, outside and time."""
        outside, allowance = self._outside, self._oracle.allowance
        rest = (
            self._loop.elapsed_ms,
            sorted(outside.rows),
            sorted(outside.refusals),
            sorted(outside.settled_at.items()),
            (outside.landing, len(outside.outcomes), len(outside.sayings)),
            (len(self._acts), len(self._doors), self._person.published),
            sorted(self._oracle.acknowledged),
            (sorted(allowance.approved), sorted(allowance.rejected), allowance.is_taken_back),
        )
        seen, durable = sha256(repr(rest).encode()), sha256(repr(rest).encode())
        for name, file in sorted(disk.files.items()):
            seen.update(name.encode() + file.content)
            durable.update(name.encode() + file.durable + repr(file.pending).encode())
        return Moment(seen.hexdigest(), durable.hexdigest(), outside.calls)

    def _examine(self, tasks: Mapping[str, asyncio.Future[Any]]) -> None:
        """See that a host that was not meant to die did not, and that its story was told."""
        for name in ("host", "story"):
            task = tasks[name]
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                self._oracle.problems.append(f"the {name} broke: {error!r}")
            elif task.done() and name == "host":
                self._oracle.problems.append("the host stopped by itself")

    def _die(self, disk: PointedDisk, crash: PlannedCrash | None, name: str) -> None:
        assert crash is not None
        self._deaths += 1
        self._tell(f"the host dies ({crash.death}) {name}")
        if crash.death is Death.KILL:
            self._next_disk = PointedDisk()
            self._next_disk.files = disk.next_process().files
            return
        self._power_cuts += 1
        loss = self._chance.choose(tuple(Loss)) if self._story.dice else Loss.ALL
        self._next_disk = PointedDisk(disk.cut_power(loss, self._chance))
        self._oracle.forget()

    async def _bury(self, points: Points, disk: PointedDisk) -> None:
        """End every task of a life; the outside has none, so what was on its way still lands."""
        points.is_dead = True
        disk.points = None
        ours = asyncio.current_task()
        while others := [task for task in asyncio.all_tasks() if task is not ours]:
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        disk.drop()

    # -- The story ------------------------------------------------------------------------------

    async def _tell_story(self, host: Host) -> None:
        """Do what the story says, then wait until everything has come to rest."""
        while self._person.published < self._story.mails:
            await self._person.do(host, Act(0, Wish.PUBLISH))
        while self._acts:
            act = self._acts[0]
            await self._loop.sleep(max(0.0, act.at_ms / 1000 - self._now_s()))
            self._acts.pop(0)
            await self._person.do(host, act)
        await self._loop.sleep(max(0.0, LENGTH_MS / 1000 - self._now_s()))
        self._doors.clear()
        for _ in range(CALM_ROUNDS):
            await self._loop.sleep(CALM_S)
            seen = await host.see()
            if _is_at_rest(seen):
                self._oracle.look_at_the_end(seen)
                return
            await self._person.help(host, seen)
        workflow = await host.workflow(NAME)
        standing = f"{workflow.standing}, {workflow.reason}"
        self._oracle.problems.append(f"it did not come to rest: {standing}")


def _is_at_rest(seen: Seen) -> bool:
    if seen.is_removed:
        return True
    if seen.is_paused or seen.open_run is not None:
        return False
    return not any(event.status in WAITING for event in seen.events.values() if event.topic != TOLD)


def template(shape: Shape, tool: Tool, *, is_granted: bool = True) -> Mapping[str, bytes]:
    """Answer a disk on which the workflow is deployed; it is made once."""
    if (shape, tool, is_granted) not in _templates:
        with _stage() as (runner, loop):
            made = runner.run(_make_template(shape, tool, is_granted, loop))
            _templates[shape, tool, is_granted] = made
    return _templates[shape, tool, is_granted]


async def _make_template(
    shape: Shape, tool: Tool, is_granted: bool, loop: VirtualLoop
) -> Mapping[str, bytes]:
    # The day before, so that no id made later is one of these.
    env = VirtualEnv(loop, start=START - timedelta(days=1))
    disk = PointedDisk()
    backend = await open_sqlite(disk, env, schema=schema())
    points = Points(lambda _, __, ___: False, lambda _: None)
    outside = Outside([], [], lambda _: None, lambda: 0.0, env.sleep, lambda _: None)
    registry = Registry([Sheet(outside, points)])
    parts = Parts(env, Store(backend), ScriptedSandbox(env), registry, Policy())
    await deploy(Host(parts, Engine(parts), points), shape, tool, grant=is_granted)
    await backend.close()
    with suppress(Crash):
        disk.drop()
    return {name: bytes(file.content) for name, file in disk.files.items()}
