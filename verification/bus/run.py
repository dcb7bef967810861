"""Runs one scenario of the bus: lives of a host on one disk, one program, and the oracles.

Law 1  Bus, dispatcher, publisher and store are the ones that ship; only time, chance, the disk and
       the handlers are ours. No engine runs: what enters a workflow stays there to be counted.
Law 2  The trace is everything that happened, in order; the same scenario has the same trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import Context
from datetime import timedelta
from functools import cache, partial
from typing import Any, Final

from duly.bus.bus import Bus
from duly.bus.dispatcher import Dispatcher
from duly.config import BusSettings, Limits, Policy
from duly.connectors.registry import Registry
from duly.desk.deploy import Draft, activate
from duly.desk.grant import RightsGiven
from duly.engine.base import Parts
from duly.engine.scheduler import Engine
from duly.rules.access import Step
from duly.rules.delivery import DeliveryStatus
from duly.store import Store
from duly.store.base import Backend, Durability
from duly.store.sqlite import open_sqlite
from duly.testing.crash import CrashPoints
from duly.testing.dice import Dice
from duly.testing.env import START, VirtualEnv
from duly.testing.loop import VirtualLoop
from verification.bus.oracle import BusOracle
from verification.bus.program import PLANNED, BusHost, Program
from verification.bus.record import Record
from verification.bus.scenario import HEARD, LENGTH_MS, BusAction, BusDo, BusScenario
from verification.bus.seen import BusSeen, see_bus
from verification.disk import Loss, MemoryDisk
from verification.lent import LendingDisk
from verification.life import (
    CALM_ROUNDS,
    CALM_S,
    Ending,
    Lives,
    Moment,
    OnPoint,
    leave,
    moment,
    schema,
    stage,
)
from verification.moves import Return
from verification.point import PointedBackend, PointedDisk
from verification.scripted import Scripted, ScriptedSandbox
from verification.sight import Sight
from verification.workflow.person import Host
from verification.workflow.scenario import PlannedCrash

LOOKED_FOR_WORK: Final = "bus_outlook"
LIMITS: Final = Limits()
LISTED_MAX: Final = 1_000


def run(scenario: BusScenario, on_point: OnPoint | None = None) -> Ending:
    """Run a scenario from its beginning to its end; `on_point` is called at every point."""
    template(is_heard=scenario.is_heard)
    with stage() as (runner, loop):
        running = _BusScenarioRun(scenario, loop, on_point)
        try:
            return runner.run(running.run())
        except (SystemExit, KeyboardInterrupt) as error:
            if PLANNED not in error.args:
                raise
            return running.end_by_handler()


class _BusScenarioRun(Lives):
    _patience = 300  # a delivery has many points

    def __init__(self, scenario: BusScenario, loop: VirtualLoop, on_point: OnPoint | None) -> None:
        problems: list[str] = []
        super().__init__(loop, scenario.crashes, scenario.dice, problems)
        self._scenario = scenario
        self._on_point = on_point
        self._record = Record()
        self._actions = [action for action in scenario.actions if not action.at]
        self._doors = [action for action in scenario.actions if action.at]
        self._emitted = 0
        self._life = 0
        self._stop = asyncio.Event()
        self._disk: PointedDisk | None = None
        self._oracle = BusOracle(
            scenario,
            self._record,
            self._env.monotonic_ms,
            lambda: self._env.boot().id,
            self._newest_durable,
            problems,
        )
        self._program = Program(
            scenario,
            self._env,
            self._record,
            self._oracle,
            self._tell,
            self._is_wrong.set,
            self._stop.set,
        )

    async def run(self) -> Ending:
        await self._live_on(template(is_heard=self._scenario.is_heard))
        return self._end(len(self._record.emissions))

    def end_by_handler(self) -> Ending:
        """Return how a scenario ended in which what a handler raised ended the host (B3)."""
        self._problems.append("what a handler raised ended the host")
        return self._end(len(self._record.emissions))

    def _forget(self) -> None:
        self._oracle.forget()

    def _newest_durable(self) -> int:
        assert self._disk is not None
        return newest_durable(self._disk)

    # -- One life -------------------------------------------------------------------------------

    async def _live(self, disk: PointedDisk, crash: PlannedCrash | None) -> None:
        """Let a host live until it dies as planned, is stopped, or everything has come to rest."""
        self._disk = disk
        self._stop.clear()
        points = self._place(disk, crash)
        backend = await open_sqlite(disk, self._env, schema=schema(), is_direct=False)
        self._oracle.begin_life(await backend.transact(see_bus, Durability.READ), self._life)
        disk.points = points
        sight = Sight(backend.connection, schema().statements)
        pointed = PointedBackend(
            backend,
            points,
            partial(see_bus, read=sight.read),
            self._watch,
            lambda: self._env.sleep(0),
            (LOOKED_FOR_WORK, self._oracle.glance),
        )
        store = Store(pointed)
        dispatcher = Dispatcher(
            self._env,
            store,
            limits=LIMITS,
            settings=BusSettings(batch=self._scenario.batch),
            entered=lambda _: None,
        )
        host = BusHost(self._life, Bus(self._env, store, dispatcher, LIMITS), dispatcher, points)
        points.on_point = lambda name: self._come_by(name, points, disk, host)
        self._oracle.connected = self._program.connect(host)
        tasks = {
            "host": asyncio.ensure_future(dispatcher.serve()),
            "scenario": asyncio.ensure_future(self._run_scenario(host, pointed)),
            "death": asyncio.ensure_future(points.died.wait()),
            "wrong": asyncio.ensure_future(self._is_wrong.wait()),
            "stop": asyncio.ensure_future(self._stop.wait()),
        }
        await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        if not points.is_dead and self._stop.is_set() and not self._problems:
            await self._end_well(tasks, dispatcher, backend, disk, points)
        if not points.is_dead:
            self._examine(tasks)
        if points.died.is_set():
            self._oracle.died.add(self._life)
        await self._bury(points, disk)
        self._life += 1

    def _watch(self, seen: BusSeen) -> None:
        self._oracle.look(seen)
        if self._problems:
            self._is_wrong.set()

    def _come_by(self, name: str, points: CrashPoints, disk: PointedDisk, host: BusHost) -> None:
        """Start the actions that waited for the host to come by here."""
        for action in [each for each in self._doors if each.at == name]:
            if action.times == points.names[name]:
                self._doors.remove(action)
                self._tell(f"an action comes in {name}")
                # In a context of its own: the action does not speak for the event being handled.
                self._loop.create_task(self._program.do(host, action), context=Context())
        if self._on_point is not None:
            self._on_point(self._deaths, name, self._moment(disk))

    def _moment(self, disk: PointedDisk) -> Moment:
        """Name what the next host would find if this one died now: disk, record and time."""
        record = self._record
        rest = (
            self._loop.elapsed_ms,
            self._env.now_ms(),
            [repr(each) for each in record.emissions.values()],
            sorted((pair, repr(calls)) for pair, calls in record.calls.items()),
            sorted(record.called.items()),
            (len(self._actions), len(self._doors), self._emitted),
            (sorted(record.leaving), sorted(record.gone), sorted(record.asked)),
        )
        return moment(disk, rest)

    async def _end_well(
        self,
        tasks: Mapping[str, asyncio.Future[Any]],
        dispatcher: Dispatcher,
        backend: Backend,
        disk: PointedDisk,
        points: CrashPoints,
    ) -> None:
        """Stop the host as a program does that ends in order; it may die on that (B7)."""
        self._tell("the program stops")
        self._oracle.end_life()
        tasks["scenario"].cancel()
        tasks["host"].cancel()

        async def close() -> None:
            await asyncio.wait([tasks["host"], tasks["scenario"]])
            await dispatcher.close()
            await backend.close()

        closing = asyncio.ensure_future(close())
        await asyncio.wait([closing, tasks["death"]], return_when=asyncio.FIRST_COMPLETED)
        if points.is_dead:
            return
        if closing.done() and (error := closing.exception()) is not None:
            self._problems.append(f"the stop broke: {error!r}")
        self._next_disk = leave(disk)

    def _examine(self, tasks: Mapping[str, asyncio.Future[Any]]) -> None:
        """See that a host that was not meant to end did not, and that the scenario ended."""
        for name in ("host", "scenario"):
            task = tasks[name]
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                self._problems.append(f"the {name} broke: {error!r}")
            elif task.done() and name == "host" and not self._stop.is_set():
                self._problems.append("the host stopped by itself")

    # -- The scenario ------------------------------------------------------------------------------

    async def _run_scenario(self, host: BusHost, backend: Backend) -> None:
        """Do what the scenario says, then wait until everything has come to rest."""
        while self._emitted < self._scenario.events:
            self._emitted += 1
            await self._program.do(host, BusAction(0, BusDo.EMIT, self._emitted - 1))
        while self._actions:
            action = self._actions[0]
            await self._loop.sleep(max(0.0, action.at_ms / 1000 - self._now_s()))
            self._actions.pop(0)
            await self._program.do(host, action)
        await self._loop.sleep(max(0.0, LENGTH_MS / 1000 - self._now_s()))
        self._doors.clear()
        await self._program.complete(host)
        for _ in range(CALM_ROUNDS):
            await self._loop.sleep(CALM_S)
            seen = await backend.transact(see_bus, Durability.READ)
            if _is_at_rest(seen):
                self._oracle.look_at_the_end(seen)
                await self._see_dead_letters(host, seen)
                return
        open_ones = [each.id for each in seen.events.values() if each.status not in ENDED]
        self._problems.append(f"it did not come to rest: events {open_ones} are open")

    async def _see_dead_letters(self, host: BusHost, seen: BusSeen) -> None:
        """See that every dead letter is listed (B5)."""
        listed = await host.bus.deliveries(DeliveryStatus.DEAD, limit=LISTED_MAX)
        dead = {pair for pair, each in seen.deliveries.items() if each.status == "dead"}
        if {(each.event_id, each.subscriber_id) for each in listed} != dead:
            self._problems.append(f"{len(listed)} dead letters are listed, there are {len(dead)}")


ENDED: Final = frozenset({"done", "failed"})


def _is_at_rest(seen: BusSeen) -> bool:
    return all(each.status in ENDED for each in seen.events.values()) and not any(
        each.status == "scheduled" for each in seen.deferred.values()
    )


def newest_durable(disk: MemoryDisk) -> int:
    """Return the newest event that would be there if the power failed now."""
    left = LendingDisk(disk.cut_power(Loss.ALL, Dice(0)))
    try:
        rows = left.connect().execute(schema().statements["newest_event"]).fetchall()
        return int(rows[0][0] or 0)
    finally:
        left.drop()


# -- What there is before a scenario begins -------------------------------------------------------


@cache
def template(*, is_heard: bool) -> Mapping[str, bytes]:
    """Return a disk on which nothing is, or a workflow that listens to the first topic."""
    with stage() as (runner, loop):
        return runner.run(_make_template(loop, is_heard=is_heard))


async def _make_template(loop: VirtualLoop, *, is_heard: bool) -> Mapping[str, bytes]:
    # The day before, so that no id made later is one of these.
    env = VirtualEnv(loop, start=START - timedelta(days=1))
    disk = PointedDisk()
    backend = await open_sqlite(disk, env, schema=schema(), is_direct=False)
    if is_heard:
        parts = Parts(env, Store(backend), ScriptedSandbox(env), Registry([]), Policy())
        host = Host(parts, Engine(parts), CrashPoints())
        script = Scripted(
            declaration={
                "name": "reader",
                "topics": {"message": {"ingress": {"bus": HEARD}}},
                "consumers": {"read": {"subscribe": ["message"], "prepare": "function"}},
            },
            steps={"read": {Step.PREPARE: (Return({"reservations": []}),)}},
        )
        source = script.source("reader")
        loaded = await parts.sandbox.load(source, parts.outside.catalog)
        draft = Draft(source, loaded.declaration, (), {}, frozenset())
        await activate(host.desk, draft, by="user", given=RightsGiven())
    await backend.close()
    disk.drop()
    return {name: bytes(file.content) for name, file in disk.files.items()}
