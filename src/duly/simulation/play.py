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
from duly.connectors.registry import Registry
from duly.desk.base import Desk
from duly.desk.commands import Commands
from duly.desk.deploy import Draft, activate
from duly.desk.views import Views
from duly.engine.base import Parts
from duly.engine.scheduler import Engine
from duly.errors import DulyError
from duly.rules.event import EventStatus
from duly.rules.value import Json
from duly.rules.word import MutationStatus, Status, Waits
from duly.sandbox.scripted import ScriptedSandbox
from duly.simulation.dice import Dice
from duly.simulation.disk import Loss
from duly.simulation.oracle import Oracle, Seen, see
from duly.simulation.outside import Outside, Sheet
from duly.simulation.point import Crash, PointedBackend, PointedDisk, Points
from duly.simulation.shape import INPUT, NAME, TOLD, Shape, Tool, make
from duly.simulation.story import LENGTH_MS, Act, Death, Story, Wish
from duly.simulation.story import Crash as PlannedCrash
from duly.store import Store, queries
from duly.store.base import Durability
from duly.store.sqlite import Schema, open_sqlite
from duly.testing.env import START, VirtualEnv
from duly.testing.loop import VirtualLoop

POLICY: Final = Policy()
CALM_ROUNDS: Final = 90  # a clock set back by a day, twice, makes a wait that much longer
CALM_S: Final = 3600.0
DAY_MS: Final = 86_400_000
DELAYS_S: Final = (0.0, 0.0, 0.0, 0.0, 0.001, 0.004, 0.05)

_templates: dict[tuple[Shape, Tool], Mapping[str, bytes]] = {}


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


class Host(Commands, Views):
    """A host's desk, without the rest of a host."""

    def __init__(self, parts: Parts, engine: Engine) -> None:
        self.desk = Desk(parts, engine)

    def _desk(self) -> Desk:
        return self.desk


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
    template(story.shape, story.tool)
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
    return (name == crash.at and times >= crash.gap) if crash.at else count >= crash.gap


class _Play:
    def __init__(self, story: Story, loop: VirtualLoop, on_point: OnPoint | None) -> None:
        self._story = story
        self._on_point = on_point
        self._loop = loop
        self._env = SimulatedEnv(loop, story.dice)
        self._trace: list[str] = []
        self._outside = Outside(
            list(story.outcomes), list(story.sayings), self._tell, self._now_s, loop.sleep
        )
        self._oracle = Oracle(self._outside.effects)
        self._acts = [act for act in story.acts if not act.at]
        self._doors = [act for act in story.acts if act.at]
        self._crashes = list(story.crashes)
        self._chance = Dice(story.dice + 1)
        self._published = 0
        self._points: Counter[str] = Counter()
        self._deaths = 0
        self._power_cuts = 0
        self._next_disk: PointedDisk | None = None
        self._is_wrong = asyncio.Event()

    def _now_s(self) -> float:
        return self._loop.elapsed_ms / 1000

    def _tell(self, text: str) -> None:
        self._trace.append(f"{self._now_s():.3f} s: {text}")

    async def run(self) -> Ending:
        disk = PointedDisk(template(self._story.shape, self._story.tool))
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
            self._published,
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
        disk.points = points

        async def watch() -> None:
            seen = await backend.transact(see, Durability.READ)
            points.stop_if_dead()  # what a dead host still sees is on no disk
            self._oracle.look(seen)
            if self._oracle.problems:
                self._is_wrong.set()

        store = Store(PointedBackend(backend, points, watch, lambda: self._env.sleep(0)))
        outside = Registry([Sheet(self._outside, points)])
        sandbox = ScriptedSandbox(self._env, POLICY.limits)
        parts = Parts(self._env, store, sandbox, outside, POLICY)
        host = Host(parts, Engine(parts))
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

    def _come_by(self, name: str, points: Points, disk: PointedDisk, host: Host) -> None:
        """Let in whoever waited for the host to come by here."""
        for act in [each for each in self._doors if each.at == name]:
            if act.times in (0, points.names[name]):
                if act.times:
                    self._doors.remove(act)
                self._tell(f"somebody comes in {name}")
                self._loop.create_task(self._do(host, act))
        if self._on_point is not None:
            self._on_point(self._deaths, name, self._moment(disk))

    def _stop_circling(self) -> None:
        self._oracle.problems.append("the host runs in circles")
        self._is_wrong.set()

    def _moment(self, disk: PointedDisk) -> Moment:
        """Name what the next host would find if this one died now: disk, outside and time."""
        outside = self._outside
        rest = (
            self._loop.elapsed_ms,
            sorted(outside.rows),
            sorted(outside.refusals),
            sorted(outside.settled_at.items()),
            (outside.landing, len(outside.outcomes), len(outside.sayings)),
            (len(self._acts), len(self._doors), self._published, sorted(self._oracle.acknowledged)),
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
        while self._published < self._story.mails:
            await self._publish(host, self._published)
        while self._acts:
            act = self._acts[0]
            await self._loop.sleep(max(0.0, act.at_ms / 1000 - self._now_s()))
            self._acts.pop(0)
            await self._do(host, act)
        await self._loop.sleep(max(0.0, LENGTH_MS / 1000 - self._now_s()))
        self._doors.clear()
        for _ in range(CALM_ROUNDS):
            await self._loop.sleep(CALM_S)
            seen = await self._see(host)
            if await self._is_at_rest(host, seen):
                self._oracle.look_at_the_end(seen)
                return
            await self._help(host, seen)
        self._oracle.problems.append(f"it did not come to rest: {await self._standing(host)}")

    async def _see(self, host: Host) -> Seen:
        return await host.desk.parts.store.backend.transact(see, Durability.READ)

    async def _is_at_rest(self, host: Host, seen: Seen) -> bool:
        if (await host.workflow(NAME)).paused or seen.open_run is not None:
            return False
        waiting = (EventStatus.PENDING, EventStatus.RESERVED)
        return not any(
            event.status in waiting for event in seen.events.values() if event.topic != TOLD
        )

    async def _standing(self, host: Host) -> str:
        workflow = await host.workflow(NAME)
        return f"{workflow.standing}, {workflow.reason}"

    async def _help(self, host: Host, seen: Seen) -> None:
        """Do what a person would when everything has calmed down."""
        if (await host.workflow(NAME)).paused:
            await self._do(host, Act(0, Wish.RESUME))
        run = seen.open_run
        if run is None:
            return
        row = seen.held(run.id)
        if row is not None and row.status == MutationStatus.INDETERMINATE:
            await self._do(host, Act(0, Wish.ANSWER))
        elif run.waits == Waits.CONNECTION:
            await self._do(host, Act(0, Wish.RECONNECT))
        elif run.escalated is not None and run.status != Status.PAUSED_RECONCILIATION:
            await self._do(host, Act(0, Wish.RETRY))

    # -- People ---------------------------------------------------------------------------------

    async def _do(self, host: Host, act: Act) -> None:
        """Do one act; a refusal is an answer like any other."""
        try:
            await self._carry_out(host, act)
            self._tell(f"a person did: {act.wish}")
        except DulyError as error:
            self._tell(f"a person was refused: {act.wish} ({error})")
        except Exception as error:
            self._oracle.problems.append(f"{act.wish} broke: {error!r}")
            self._is_wrong.set()

    async def _carry_out(self, host: Host, act: Act) -> None:
        which = self._which(act)
        match act.wish:
            case Wish.PUBLISH:
                await self._publish(host, self._published)
            case Wish.REPUBLISH:
                await self._publish(host, which)
            case Wish.REPLACE:
                await self._publish(host, which, content="other")
            case Wish.PAUSE:
                await host.pause(NAME)
            case Wish.RESUME:
                await host.resume(NAME)
            case Wish.SKIP:
                await host.skip(NAME, INPUT, f"m{which}")
            case Wish.DEPLOY:
                await deploy(host, self._story.shape, self._story.tool)
            case Wish.RUN_NOW:
                await host.run_now(NAME)
            case Wish.RECONNECT:
                await reconnect(host)
            case Wish.CLOCK_FORWARD | Wish.CLOCK_BACK:
                self._env.jump(DAY_MS if act.wish is Wish.CLOCK_FORWARD else -DAY_MS)
            case Wish.RETRY | Wish.ABANDON:
                await self._end_run(host, act.wish)
            case _:
                await self._answer(host, act.wish)

    def _which(self, act: Act) -> int:
        """Choose an event: any, or for whoever comes in at a door one that is not done yet."""
        if act.at and self._oracle.before is not None:
            waiting = (EventStatus.PENDING, EventStatus.RESERVED)
            open_events = [
                int(event.message_id[1:])
                for event in self._oracle.before.events.values()
                if event.topic == INPUT and event.status in waiting and event.message_id[0] == "m"
            ]
            if open_events:
                return open_events[act.which % len(open_events)]
        return act.which % max(1, self._published)

    async def _publish(self, host: Host, number: int, *, content: str = "first") -> None:
        name = f"m{number}"
        self._published = max(self._published, number + 1)
        payload: Json = {"content": content}
        await host.publish(NAME, INPUT, message_id=name, title=f"Mail {name}", payload=payload)
        self._oracle.acknowledged.add(name)
        self._tell(f"published {name}")

    async def _end_run(self, host: Host, wish: Wish) -> None:
        run = (await self._see(host)).open_run
        if run is not None:
            await (host.retry(run.id) if wish is Wish.RETRY else host.abandon(run.id))

    async def _answer(self, host: Host, wish: Wish) -> None:
        """Answer the question about an indeterminate mutation: truly, falsely, or not really."""
        seen = await self._see(host)
        for row in seen.mutations.values():
            if row.status != MutationStatus.INDETERMINATE:
                continue
            if wish in (Wish.SKIP_MUTATION, Wish.TRY_AGAIN):
                words = {Wish.SKIP_MUTATION: "skip", Wish.TRY_AGAIN: "try_again"}
                await host.settle(row.id, words[wish])
                return
            has_happened = self._outside.has_happened(row.key)
            if wish is Wish.LIE:
                has_happened = not has_happened
                reserved = seen.reservations.get(row.held_by, frozenset())
                self._oracle.excused.update(seen.events[seq].message_id for seq in reserved)
            if has_happened:
                await host.settle(row.id, "happened", self._outside.rows.get(row.key))
            else:
                await host.settle(row.id, "did_not_happen")


def template(shape: Shape, tool: Tool) -> Mapping[str, bytes]:
    """Answer a disk on which the workflow is deployed; it is made once."""
    if (shape, tool) not in _templates:
        with _stage() as (runner, loop):
            _templates[shape, tool] = runner.run(_make_template(shape, tool, loop))
    return _templates[shape, tool]


async def _make_template(shape: Shape, tool: Tool, loop: VirtualLoop) -> Mapping[str, bytes]:
    # The day before, so that no id made later is one of these.
    env = VirtualEnv(loop, start=START - timedelta(days=1))
    disk = PointedDisk()
    backend = await open_sqlite(disk, env, schema=schema())
    points = Points(lambda _, __, ___: False, lambda _: None)
    outside = Outside([], [], lambda _: None, lambda: 0.0, env.sleep)
    registry = Registry([Sheet(outside, points)])
    parts = Parts(env, Store(backend), ScriptedSandbox(env), registry, POLICY)
    await deploy(Host(parts, Engine(parts)), shape, tool)
    await backend.close()
    with suppress(Crash):
        disk.drop()
    return {name: bytes(file.content) for name, file in disk.files.items()}


async def reconnect(host: Host) -> None:
    """Let every run go on that waits for the sheet to be connected again (F4)."""
    desk, parts = host.desk, host.desk.parts
    action = desk.action("user", "reconnect")
    await parts.store.reconnect("sheet", action=action, now=parts.env.now_ms())
    desk.engine.wake()


async def deploy(host: Host, shape: Shape, tool: Tool) -> None:
    """Deploy the script of a shape, with leave to use its tool."""
    parts = host.desk.parts
    source = make(shape, tool).source(NAME)
    loaded = await parts.sandbox.load(source, parts.outside.catalog)
    capabilities = frozenset({parts.outside.catalog.find(tool.value).capability})
    draft = Draft(source, loaded.declaration, (), {}, capabilities)
    await activate(host.desk, draft, by="user", grant=True)
