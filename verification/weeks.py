"""Three weeks of a laptop in virtual time: it sleeps, travels, crashes, and is left alone.

Law 1  The engine, the rules and the store are the ones that ship; the scripts are data.
Law 2  Every input becomes one change, and everything that waited is done soon after each return.
Law 3  A person is asked only what only a person knows: the lost token, and the approvals.

    python -m verification --three-weeks
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, cast

from duly.config import Policy
from duly.connectors.registry import Registry
from duly.desk.deploy import Draft, activate
from duly.desk.grant import RightsGiven
from duly.engine.base import Parts
from duly.engine.scheduler import Engine
from duly.host import CLOSE_S
from duly.host import Host as ShippedHost
from duly.rules.value import decode
from duly.store import Store
from duly.store.base import Durability, Transaction
from duly.store.sqlite import open_sqlite
from duly.testing.crash import CrashingBackend, CrashPoints
from duly.testing.dice import Dice
from duly.testing.env import VirtualEnv
from duly.testing.loop import VirtualLoop
from verification.life import leave, schema, stage
from verification.point import PointedDisk
from verification.scripted import ScriptedSandbox
from verification.survey import cpu_s
from verification.weeks_world import (
    BILL,
    DIGEST,
    INPUT,
    INVOICES,
    MAILBOXES,
    Box,
    World,
    script,
    tools,
)
from verification.workflow.person import Host

R = TypeVar("R")

HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
NIGHT_FROM_S: Final = 23 * HOUR_S
NIGHT_S: Final = 8 * HOUR_S
OFFLINE_S: Final = 1800.0
DOWN_S: Final = 60.0  # how long it takes to start again after a crash
TICK_S: Final = 0.001  # what the clock shows; a shorter wait would never come to an end
SOON_S: Final = 600.0  # everything is caught up so long after each return
CALM_S: Final = 3 * HOUR_S + 137.0  # between two looks at the mailboxes: nothing is at work then
WORKFLOWS: Final = (*MAILBOXES, DIGEST, INVOICES)
POINTS_MAX: Final = 40  # a crash comes at one of so many points
POLICY: Final = Policy(approvals={f"{BILL}.*": "always"})


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, how much, and how often what goes wrong."""

    start: datetime
    days: int
    changes: int
    crashes: int
    upgrades: tuple[int, ...]  # on these days, in the evening
    address_day: int
    token_day: int
    invoice_days: tuple[int, ...]
    ignored_s: float  # how long an approval waits
    seed: int = 1


FULL: Final = Plan(
    datetime(2026, 3, 16, tzinfo=UTC), 21, 20_000, 10, (8, 15), 4, 6, (3, 11), 2 * DAY_S
)
# The clocks go forward on 29 March in Berlin, in both.
SHORT: Final = Plan(datetime(2026, 3, 28, tzinfo=UTC), 2, 200, 4, (0, 1), 1, 1, (0,), DAY_S)


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it."""

    changes: int
    twice: tuple[str, ...]
    lost: tuple[str, ...]
    questions: tuple[str, ...]
    unfinished: tuple[str, ...]
    digests: int
    slowest_s: float  # how long it took at most to catch up after a return
    returns: int
    crashes: int
    lives: int
    cpu_s: float
    problems: tuple[str, ...]


@dataclass(order=True, frozen=True, slots=True)
class Happening:
    """Something at a time of the calendar, in seconds since its beginning."""

    at_s: float
    number: int
    do: str = field(compare=False)
    about: str = field(compare=False, default="")


class Life(CrashPoints):
    """One process: it crashes at a write, or is closed."""

    points_left: int | None = None  # every write has two: before it and after it

    def __init__(self) -> None:
        super().__init__(self._is_last)

    def _is_last(self, name: str, count: int, times: int) -> bool:
        if self.points_left is None:
            return False
        self.points_left -= 1
        return self.points_left < 0


def run(plan: Plan) -> Report:
    """Run a plan from its first day to its last."""
    with stage() as (runner, loop):
        return runner.run(_Weeks(plan, loop).run())


class LaptopEnv(VirtualEnv):
    """Virtual time of a machine that can sleep."""

    def suspend(self, milliseconds: int) -> None:
        """Let the process stand still while the wall clock and the boot clock go on."""
        self.jump(milliseconds)
        self._booted_ms -= milliseconds


class _Weeks:
    def __init__(self, plan: Plan, loop: VirtualLoop) -> None:
        self._plan = plan
        self._loop = loop
        self._env = LaptopEnv(loop, start=plan.start, seed=plan.seed)
        self._begun_ms = self._env.now_ms()
        self._dice = Dice(plan.seed)
        self._world = World(self._now_s, self._env.sleep, Dice(plan.seed + 1))
        self._disk = PointedDisk()
        self._version = 0
        self._returns: list[tuple[float, frozenset[str]]] = []
        self._crashes = self._lives = 0
        self._is_woken = False  # what arrived in the night is to be delivered first
        self._problems: list[str] = []

    def _now_s(self) -> float:
        """Return the calendar: the wall clock, which goes on while the laptop sleeps."""
        return (self._env.now_ms() - self._begun_ms) / 1000

    async def run(self) -> Report:
        """Live through the plan and look back."""
        begun_s = cpu_s()
        await self._open()
        await self._deploy()
        for happening in sorted(self._calendar()):
            await self._until(happening.at_s)
            await self._happen(happening)
        await self._until(self._now_s() + CALM_S)
        return await self._look_back(cpu_s() - begun_s)

    # -- The calendar ---------------------------------------------------------------------------

    def _calendar(self) -> Iterator[Happening]:
        numbers = itertools.count()

        def at(day: float, hour: float, do: str, about: str = "") -> Happening:
            return Happening(day * DAY_S + hour * HOUR_S, next(numbers), do, about)

        plan, dice = self._plan, self._dice
        for _ in range(plan.changes):
            yield at(dice.random() * plan.days, 0, "mail", dice.choose(MAILBOXES))
        for day in range(plan.days):
            yield at(day, NIGHT_FROM_S / HOUR_S, "sleep")
            hour = 11 + 4 * dice.random()
            yield at(day, hour, "offline")
            yield at(day, hour + OFFLINE_S / HOUR_S, "online")
        for _ in range(plan.crashes):
            day = dice.randrange(plan.days)
            yield at(day, 7.2 + 15 * dice.random(), "crash")
        for day in plan.upgrades:
            yield at(day, 18, "upgrade")
        yield at(plan.address_day, 10.31, "address")
        yield at(plan.token_day, 9, "token")
        yield at(plan.token_day, 16, "reconnect")
        for place, day in enumerate(plan.invoice_days):
            yield at(day, 10, "invoice", f"invoice-{place}")
            yield at(day + plan.ignored_s / DAY_S, 10.5, "approve")

    async def _happen(self, happening: Happening) -> None:
        world = self._world
        match happening.do:
            case "mail":
                world.deliver(happening.about, happening.at_s)
            case "sleep":
                world.break_connections()
                self._env.suspend(round(NIGHT_S * 1000))
                self._is_woken = True
            case "offline":
                world.is_online = False
                world.break_connections()
            case "online":
                world.is_online = True
                self._return()
            case "address":
                world.break_connections()
            case "token":
                world.is_signed_in = False
            case "crash":
                self._life.points_left = self._dice.randrange(POINTS_MAX)
            case "upgrade":
                await self._close()
                await self._open()
                await self._deploy()
            case _:
                await self._action(happening)

    async def _action(self, happening: Happening) -> None:
        """Do what a person does; one who is not answered does it again on the next host."""
        if happening.do == "reconnect":
            self._world.is_signed_in = True
            await self._host.reconnect(MAILBOXES[0])
            self._return()
        elif happening.do == "invoice":
            name = happening.about
            self._world.came_at[name] = happening.at_s
            await self._host.publish(INVOICES, INPUT, message_id=name, title=name, payload={})
        else:
            waiting = await self._host.approvals(INVOICES)
            if not waiting:
                self._problems.append("nothing waited for the approval")
            for each in waiting:
                await self._host.approve(each.mutation, each.hash)

    def _return(self) -> None:
        """Note that the laptop is back; a mailbox without its token cannot be read."""
        if self._world.is_online:
            boxes = MAILBOXES if self._world.is_signed_in else MAILBOXES[1:]
            self._returns.append((self._now_s(), frozenset(boxes)))

    # -- Lives ----------------------------------------------------------------------------------

    async def _until(self, at_s: float) -> None:
        """Let time pass; a host that dies meanwhile is started again."""
        while (left_s := at_s - self._now_s()) > 0:
            if self._is_woken:
                self._is_woken = False
                self._return()
            died = asyncio.ensure_future(self._life.died.wait())
            await asyncio.wait({died}, timeout=max(left_s, TICK_S))
            died.cancel()
            if self._life.is_dead:
                await self._bury()
                await self._loop.sleep(DOWN_S)
                await self._open()
                self._return()

    async def _open(self) -> None:
        self._lives += 1
        self._life = life = Life()
        backend = await open_sqlite(self._disk, self._env, schema=schema(), is_direct=False)
        boxes = (Box(each, self._world, lambda: life.is_dead) for each in (*MAILBOXES, BILL))
        self._registry = Registry(boxes)
        store, sandbox = Store(CrashingBackend(backend, life)), ScriptedSandbox(self._env)
        parts = Parts(self._env, store, sandbox, self._registry, POLICY)
        engine = Engine(parts)
        self._host = Host(parts, engine, CrashPoints())
        self._serving = asyncio.ensure_future(engine.serve())

    async def _deploy(self) -> None:
        """Deploy every workflow, or the next version of it."""
        self._version += 1
        parts = self._host.desk.parts
        for name in WORKFLOWS:
            source = script(name, self._version).source(name)
            loaded = await parts.sandbox.load(source, parts.outside.catalog)
            used = (parts.outside.catalog.find(each).capability for each in tools(name))
            draft = Draft(source, loaded.declaration, (), {}, frozenset(used))
            await activate(self._host.desk, draft, by="person", given=RightsGiven(all=True))

    async def _close(self) -> None:
        """Stop the host as an upgrade does."""
        self._serving.cancel()
        await asyncio.wait({self._serving})
        closing = cast("ShippedHost", _Closing(self._registry))
        await ShippedHost._until_sent(closing, CLOSE_S)
        await self._host.desk.engine.close()
        await self._host.desk.parts.store.backend.close()
        disk, self._disk = self._disk, leave(self._disk)
        disk.drop()

    async def _bury(self) -> None:
        """End every task of a host that died."""
        self._crashes += 1
        ours = asyncio.current_task()
        while others := [task for task in asyncio.all_tasks() if task is not ours]:
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        disk, self._disk = self._disk, leave(self._disk)
        disk.drop()

    # -- Looking back ---------------------------------------------------------------------------

    async def _look_back(self, used_s: float) -> Report:
        store = self._host.desk.parts.store
        questions, unfinished = await store.backend.transact(_read, Durability.READ)
        await self._close()
        effects, came_at = self._world.effects, self._world.came_at
        slowest = [self._slowest(at_s, boxes) for at_s, boxes in self._returns]
        return Report(
            changes=effects.total(),
            twice=tuple(name for name, count in effects.items() if count > 1),
            lost=tuple(name for name in came_at if not effects[name]),
            questions=questions,
            unfinished=unfinished,
            digests=sum(name not in came_at for name in effects),
            slowest_s=max(slowest, default=0.0),
            returns=len(slowest),
            crashes=self._crashes,
            lives=self._lives,
            cpu_s=used_s,
            problems=tuple(self._problems),
        )

    def _slowest(self, at_s: float, boxes: Iterable[str]) -> float:
        """Return how long after a return the last of what waited was done."""
        waited = (
            self._world.done_at.get(name, 0.0) - at_s
            for box in boxes
            for name in self._world.mails[box]
            if self._world.came_at[name] <= at_s
        )
        return max(waited, default=0.0)


@dataclass(slots=True)
class _Closing:
    """As much of a host as its wait for sends needs."""

    _outside: Registry


def _read(tx: Transaction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    questions = (cast("dict[str, Any]", decode(each)) for (each,) in tx.all("oracle_questions"))
    return (
        tuple(str(each.get("text", "")) for each in questions),
        tuple(f"{kind} {name}" for kind, name in tx.all("oracle_unfinished")),
    )


def wrong(plan: Plan, report: Report) -> tuple[str, ...]:
    """Say what a report has that it must not have."""
    found = list(report.problems)
    if report.twice or report.lost:
        found.append(f"{len(report.twice)} changes were made twice, {len(report.lost)} are lost")
    if report.unfinished:
        found.append(f"unfinished at the end: {', '.join(report.unfinished[:5])}")
    if len(report.questions) > 1 + len(plan.invoice_days):
        found.append(f"a person was asked {len(report.questions)} times")
    if report.slowest_s > SOON_S:
        found.append(f"it took {report.slowest_s:.0f} s to catch up")
    # One at the deploy, one for every morning, also for the last: none twice when clocks change.
    if report.digests != plan.days + 2:
        found.append(f"{report.digests} digests in {plan.days} days")
    if report.crashes != plan.crashes:
        found.append(f"{report.crashes} crashes came of {plan.crashes}")
    return tuple(found)
