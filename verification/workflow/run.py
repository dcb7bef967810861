"""Runs one scenario: lives of a host on one disk, one outside, and the oracles over them.

Law 1  The engine, the rules and the store are the ones that ship; only time, chance, the disk,
       the scripts and the outside are ours.
Law 2  The trace is everything that happened, in order; the same scenario has the same trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, cast

from duly.config import Policy
from duly.connectors.base import Call
from duly.connectors.registry import Registry
from duly.engine.base import Parts
from duly.engine.scheduler import Engine
from duly.errors import DulyError, StoreLost, StoreUnavailable
from duly.host import CLOSE_S
from duly.host import Host as ShippedHost
from duly.store import Store
from duly.store.base import Durability
from duly.store.sqlite import open_sqlite
from duly.testing.crash import Crash, CrashPoints
from duly.testing.env import START, VirtualEnv
from duly.testing.loop import VirtualLoop
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
from verification.point import PointedBackend, PointedDisk
from verification.scripted import ScriptedSandbox
from verification.sight import Sight
from verification.workflow.consent import Consent
from verification.workflow.oracle import Oracle
from verification.workflow.outside import Outside, Sheet, register
from verification.workflow.person import WAITING, Host, Person, deploy
from verification.workflow.scenario import LENGTH_MS, Action, DiskFault, Do, PlannedCrash, Scenario
from verification.workflow.seen import Seen, see
from verification.workflow.shape import NAME, TOLD, Shape, Tool

_templates: dict[tuple[Shape, Tool, bool], Mapping[str, bytes]] = {}


def run(scenario: Scenario, on_point: OnPoint | None = None) -> Ending:
    """Run a scenario from its beginning to its end; `on_point` is called at every point."""
    template(scenario.shape, scenario.tool, is_granted=scenario.is_granted)
    with stage() as (runner, loop):
        return runner.run(_ScenarioRun(scenario, loop, on_point).run())


@dataclass(slots=True)
class Closing:
    """As much of a host as its wait for sends needs."""

    _outside: Registry


class _ScenarioRun(Lives):
    def __init__(self, scenario: Scenario, loop: VirtualLoop, on_point: OnPoint | None) -> None:
        problems: list[str] = []
        super().__init__(loop, scenario.crashes, scenario.dice, problems)
        self._scenario = scenario
        self._on_point = on_point
        self._outside = Outside(
            list(scenario.outcomes),
            list(scenario.sayings),
            self._tell,
            self._now_s,
            loop.sleep,
            self._see_leave,
        )
        consent = Consent(scenario.tool.value, scenario.is_asked)
        self._oracle = Oracle(
            self._outside.effects, consent, problems=problems, unsure=self._outside.unsure
        )
        self._actions = [action for action in scenario.actions if not action.at]
        self._doors = [action for action in scenario.actions if action.at]
        self._guests: set[asyncio.Task[None]] = set()
        self._faults = list(scenario.faults)
        self._policy = Policy(approvals={"*": scenario.approval.value})
        self._person = Person(
            scenario, self._env, self._outside, self._oracle, self._tell, self._is_wrong.set
        )

    async def run(self) -> Ending:
        scenario = self._scenario
        await self._live_on(template(scenario.shape, scenario.tool, is_granted=scenario.is_granted))
        return self._end(self._person.published)

    def _forget(self) -> None:
        self._oracle.forget()

    # -- One life -------------------------------------------------------------------------------

    async def _live(self, disk: PointedDisk, crash: PlannedCrash | None) -> None:
        """Let a host live until it dies as planned, or until everything has come to rest."""
        points = self._place(disk, crash)
        self._oracle.lives += 1
        backend = await open_sqlite(disk, self._env, schema=schema(), is_direct=False)
        self._watch(await backend.transact(see, Durability.READ))  # what the last one left
        disk.points = points

        sight = Sight(backend.connection, schema().statements)
        look = partial(see, read=sight.read)
        pointed = PointedBackend(backend, points, look, self._watch, lambda: self._env.sleep(0))
        store = Store(pointed)
        outside = register(Sheet(self._outside, points))
        sandbox = ScriptedSandbox(self._env, self._policy.limits)
        parts = Parts(self._env, store, sandbox, outside, self._policy)
        host = Host(parts, Engine(parts), points)
        points.on_point = lambda name: self._come_by(name, points, disk, host)
        tasks = {
            "host": asyncio.ensure_future(host.desk.engine.serve()),
            "scenario": asyncio.ensure_future(self._run_scenario(host)),
            "death": asyncio.ensure_future(points.died.wait()),
            "wrong": asyncio.ensure_future(self._is_wrong.wait()),
            "closing": asyncio.ensure_future(self._is_closing.wait()),
        }
        await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        if not points.is_dead and not self._is_lost(tasks, disk):
            self._examine(tasks)
        if self._is_closing.is_set() and not points.is_dead and not self._problems:
            await self._close(host, outside, points, disk, tasks)
        else:
            await self._bury(points, disk)

    async def _close(
        self,
        host: Host,
        outside: Registry,
        points: CrashPoints,
        disk: PointedDisk,
        tasks: Mapping[str, asyncio.Future[Any]],
    ) -> None:
        """Close the host in order; what it leaves behind goes on beside the next one (L6)."""
        serving = tasks["host"]
        for others in (
            [each for each in (*tasks.values(), *self._guests) if each is not serving],
            [serving],
        ):
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        self._guests.clear()
        try:
            # The wait is the shipped host's own; the rest of it does not run here.
            await ShippedHost._until_sent(cast("ShippedHost", Closing(outside)), CLOSE_S)
            await host.desk.engine.close()
            await host.desk.parts.store.backend.close()
        except DulyError as error:
            # It keeps the store, and says what is out: the end of its process frees both.
            self._tell(f"the host cannot close: {error}")
            self._next_disk = leave(disk)
            await self._bury(points, disk)
            return
        self._next_disk = leave(disk)
        self._put_away(points, disk)

    def _is_lost(self, tasks: Mapping[str, asyncio.Future[Any]], disk: PointedDisk) -> bool:
        """Tell whether the disk ended the host, or a person who was told so; another one starts."""
        over = [tasks[name] for name in ("host", "scenario") if tasks[name].done()]
        errors = [task.exception() for task in over if not task.cancelled()]
        if not disk.faults_met or not any(isinstance(each, StoreLost) for each in errors):
            return False
        self._tell("the host has lost its store")
        self._deaths += 1
        self._next_disk = leave(disk)
        return True

    def _watch(self, seen: Seen) -> None:
        self._oracle.look(seen)
        if self._oracle.problems:
            self._is_wrong.set()

    def _see_leave(self, call: Call) -> None:
        self._oracle.see_leave(call)
        if self._oracle.problems:
            self._is_wrong.set()

    def _come_by(self, name: str, points: CrashPoints, disk: PointedDisk, host: Host) -> None:
        """Start the actions that waited for the host to come by here."""
        if self._on_point is not None or self._doors or self._faults:
            self._meet(name, points, disk, host)

    def _meet(self, name: str, points: CrashPoints, disk: PointedDisk, host: Host) -> None:
        for action in [each for each in self._doors if each.at == name]:
            if action.times in (0, points.names[name]):
                if action.times:
                    self._doors.remove(action)
                self._tell(f"an action comes in {name}")
                guest = self._loop.create_task(self._person.do(host, action))
                self._guests.add(guest)
                guest.add_done_callback(self._guests.discard)
        for fault in [each for each in self._faults if each.at == name]:
            if fault.times == points.names[name]:
                self._faults.remove(fault)
                self._fail(disk, fault)
        if self._on_point is not None:
            self._on_point(self._deaths, name, self._moment(disk))

    def _fail(self, disk: PointedDisk, fault: DiskFault) -> None:
        """Let the disk fail for a while; when it works again the host finds out by itself (H3)."""
        self._tell(f"the disk fails: {fault.operation} {fault.kind}, for {fault.lasts_s:g} s")
        disk.fail(fault.operation, fault.wait, fault.kind, lasting=fault.lasts_s > 0)
        self._loop.call_later(fault.lasts_s or LENGTH_MS / 1000, disk.heal)

    def _moment(self, disk: PointedDisk) -> Moment:
        """Name what the next host would find if this one died now: disk, outside and time."""
        outside, consent = self._outside, self._oracle.consent
        rest = (
            self._loop.elapsed_ms,
            sorted(outside.rows),
            sorted(outside.refusals),
            sorted(outside.ended_at.items()),
            sorted(outside.first_at.items()),
            (tuple(outside.landing), len(outside.outcomes), len(outside.sayings)),
            (len(self._actions), len(self._doors), len(self._faults), self._person.published),
            sorted(self._oracle.acknowledged),
            (sorted(consent.approved), sorted(consent.rejected), consent.is_taken_back),
        )
        return moment(disk, rest, outside.calls)

    def _examine(self, tasks: Mapping[str, asyncio.Future[Any]]) -> None:
        """See that a host that was not meant to die did not, and that the scenario ended."""
        for name in ("host", "scenario"):
            task = tasks[name]
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                self._oracle.problems.append(f"the {name} broke: {error!r}")
            elif task.done() and name == "host":
                self._oracle.problems.append("the host stopped by itself")

    # -- The scenario ------------------------------------------------------------------------------

    async def _run_scenario(self, host: Host) -> None:
        """Do what the scenario says, then wait until everything has come to rest."""
        while self._person.published < self._scenario.mails:
            await self._person.do(host, Action(0, Do.PUBLISH))
        while self._actions:
            action = self._actions[0]
            await self._loop.sleep(max(0.0, action.at_ms / 1000 - self._now_s()))
            self._actions.pop(0)
            await self._person.do(host, action)
        await self._loop.sleep(max(0.0, LENGTH_MS / 1000 - self._now_s()))
        self._doors.clear()
        self._faults.clear()
        self._person.set_clock_right()
        for _ in range(CALM_ROUNDS):
            await self._loop.sleep(CALM_S)
            try:
                seen = await host.see()
            except StoreLost:
                raise  # an idle host does not notice; its process is started again
            except StoreUnavailable as error:
                self._tell(f"the store cannot be read: {error}")
                continue
            if is_at_rest(seen):
                self._oracle.look_at_the_end(seen)
                return
            await self._person.help(host, seen)
        workflow = await host.workflow(NAME)
        standing = f"{workflow.standing}, {workflow.reason.code}"
        self._oracle.problems.append(f"it did not come to rest: {standing}")


def is_at_rest(seen: Seen) -> bool:
    """Tell whether nothing is open and nothing waits."""
    if seen.is_removed:
        return True
    if seen.is_paused or seen.open_run is not None:
        return False
    return not any(event.status in WAITING for event in seen.events.values() if event.topic != TOLD)


def template(shape: Shape, tool: Tool, *, is_granted: bool = True) -> Mapping[str, bytes]:
    """Return a disk on which the workflow is deployed; it is made once."""
    if (shape, tool, is_granted) not in _templates:
        with stage() as (runner, loop):
            made = runner.run(_make_template(shape, tool, is_granted, loop))
            _templates[shape, tool, is_granted] = made
    return _templates[shape, tool, is_granted]


async def _make_template(
    shape: Shape, tool: Tool, is_granted: bool, loop: VirtualLoop
) -> Mapping[str, bytes]:
    # The day before, so that no id made later is one of these.
    env = VirtualEnv(loop, start=START - timedelta(days=1))
    disk = PointedDisk()
    backend = await open_sqlite(disk, env, schema=schema(), is_direct=False)
    points = CrashPoints()
    outside = Outside([], [], lambda _: None, lambda: 0.0, env.sleep, lambda _: None)
    registry = register(Sheet(outside, points))
    parts = Parts(env, Store(backend), ScriptedSandbox(env), registry, Policy())
    await deploy(Host(parts, Engine(parts), points), shape, tool, grant=is_granted)
    await backend.close()
    with suppress(Crash):
        disk.drop()
    return {name: bytes(file.content) for name, file in disk.files.items()}
