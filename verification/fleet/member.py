"""One host of a fleet: a process with its clock, its way to the store and the parts that ship.

Law 1  Engine, desk, lease and claims are the ones that ship. Time, the outside and the way to the
       store are ours.
Law 2  A process that dies takes all its memory with it; the next one has another id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import count
from typing import cast

from duly.config import Policy
from duly.connectors.registry import Registry
from duly.desk.upkeep import note_restore
from duly.engine.base import Parts
from duly.engine.lease import Lease, note_of_promotion
from duly.engine.scheduler import Engine
from duly.env import Boot, give_turn
from duly.errors import DulyError, StoreError, StoreUnavailable
from duly.host import CLOSE_S
from duly.host import Host as ShippedHost
from duly.rules.catalog import Catalog
from duly.rules.lease import LEASE_MS
from duly.rules.share import Offers, offers_of
from duly.store import Store
from duly.store.base import Durability, Transaction
from duly.store.claim import note_promotion
from duly.testing.crash import CrashPoints
from duly.testing.loop import VirtualLoop
from verification.fleet.line import CountedBackend, Line
from verification.fleet.outside import FleetSheet, LongKeySheet
from verification.fleet.process import Process
from verification.fleet.scenario import Mishap
from verification.fleet.server import Server
from verification.life import DELAYS_S, SimulatedEnv
from verification.scripted import ScriptedSandbox
from verification.workflow.outside import Outside, register
from verification.workflow.person import Host
from verification.workflow.run import Closing


class FleetEnv(SimulatedEnv):
    """The clocks, ids and dice of one machine."""

    def __init__(self, loop: VirtualLoop, dice: int, number: int) -> None:
        super().__init__(loop, dice + number if dice else 0)
        self._number = number
        self._ids = count((number + 1) << 40)
        self._seed = number

    def boot(self) -> Boot:
        """Return the virtual boot of this machine."""
        boot = super().boot()
        return Boot(f"machine-{self._number} {boot.id}", boot.ms)

    async def sleep(self, seconds: float) -> None:
        """Sleep; a moment for others may last a little longer."""
        if seconds == 0 and self._dice is not None:
            seconds = self._dice.choose(DELAYS_S)
        if seconds > 0:
            await self._loop.sleep(seconds)
        else:
            await give_turn()  # the same in one turn of the loop; a host does it all the time


class NotingLease(Lease):
    """A lease that notes in which step of its process it was looked at last before a send.

    It also notes whether a send was out when it was over; a host may cut its sends after that.
    """

    looked_in_step = 0
    was_sending = False

    def __init__(
        self,
        env: FleetEnv,
        store: Store,
        end: Callable[[], None],
        of: Process,
        offers: Offers,
        is_sending: Callable[[], bool],
    ) -> None:
        super().__init__(env, store, end, name=of.name.partition(" in")[0], offers=lambda: offers)
        self._process = of
        self._is_sending = is_sending

    async def keep(self, on_look: Callable[[], None]) -> None:
        """Renew until the lease is over."""
        await super().keep(on_look)
        self.was_sending |= self._is_sending()

    async def until_sendable(self) -> None:
        """Look at the lease."""
        await super().until_sendable()
        self.looked_in_step = self._process.steps


class Member:
    """One place in a fleet, with one process after the other in it."""

    def __init__(
        self,
        number: int,
        env: FleetEnv,
        server: Server,
        outside: Outside,
        policy: Policy,
        on_point: Callable[[Member, str], None],
        on_check: Callable[[Member, float], None],
        on_leave: Callable[[Member, float], None],
        tell: Callable[[str], None],
        lacks: str = "",
        has_long_keys: bool = False,
    ) -> None:
        self.number = number
        self.lacks = lacks  # the tool that its settings lack, if there is one
        self.lacks_now = lacks  # the one that its process lacks, which has read them
        self.env = env
        self.points = CrashPoints()
        self.process = Process("")
        self.is_up = False
        self.is_doomed = False
        self.is_closing = False
        self.cut_until_s = 0.0
        self.refused_until_s = 0.0
        self.hindered_until_s = -LEASE_MS / 1000  # until when something kept it from renewing
        self.calm_since_s = 0.0  # since when nothing has befallen it
        self.next_mishap: Mishap | None = None  # of its next transaction
        self.host: Host
        self.lease: NotingLease
        self.stops_in: tuple[int, Callable[[], None]] = (-1, lambda: None)  # of its first process
        self._registry: Registry
        self._serving: asyncio.Task[None]
        self._server = server
        self._outside = outside
        self._policy = policy
        self._on_point = on_point
        self._on_check = on_check
        self._on_leave = on_leave
        self._tell = tell
        self._has_long_keys = has_long_keys
        self._lives = count(1)

    @property
    def host_id(self) -> str:
        """The id under which it writes now."""
        return self.lease.host_id

    @property
    def is_well(self) -> bool:
        """Tell whether it runs, and reaches the store."""
        is_reached = not (self.is_cut or self.is_refused)
        return self.is_up and not self.process.is_stopped and is_reached

    @property
    def is_hindered(self) -> bool:
        """Tell whether something has kept it from renewing its lease within the last one."""
        return self.env._loop.elapsed_ms < self.hindered_until_s * 1000 + 2 * LEASE_MS

    @property
    def is_sending(self) -> bool:
        """Tell whether a send of it is out."""
        return bool(self._registry.sends_out())

    @property
    def is_cut(self) -> bool:
        """Tell whether it does not reach the store."""
        return self.env._loop.time() < self.cut_until_s

    @property
    def is_refused(self) -> bool:
        """Tell whether it gets no connection but that of its lease."""
        return self.env._loop.time() < self.refused_until_s

    def start(self) -> None:
        """Start a process with a host in it."""
        self.process = Process(f"host {self.number} in its life {next(self._lives)}")
        self.process.last_step, self.process.on_step = self.stops_in
        self.stops_in = (-1, lambda: None)
        self.is_doomed = self.is_closing = False
        self.points = CrashPoints(lambda *_: self.is_doomed)
        self.points.on_point = lambda name: self._on_point(self, name)
        line = Line(self, self._server, self.points)
        plain = Store(line)
        self.lacks_now = self.lacks
        catalog, offers = _catalog(self.lacks, self._has_long_keys)
        self.lease = NotingLease(
            self.env, plain, self._end, self.process, offers, lambda: self.is_sending
        )

        # As a host on a real server does (`duly.fleet`).
        def note(tx: Transaction) -> None:
            note_promotion(tx, action=note_of_promotion(self.env), now=self.env.now_ms())

        async def note_older() -> None:
            self._tell(f"host {self.number} finds a store that lacks what it confirmed")
            await note_restore(plain, self.env, is_lost=True)
            self.lease.lapse(self.lease.host_id)

        def doubt() -> None:
            self._tell(f"host {self.number} finds a store without its last riders")
            self.host.desk.engine.doubt()

        counted = CountedBackend(line, lambda: self.lease.host_id, note, note_older, doubt)

        def renewed() -> None:
            self.env.spawn(self._ping(counted, note), "ping")

        self.lease.renewed = renewed
        self.lease.refused = lambda: self._compare(counted)
        store = Store(counted)
        sheet = _kind(self._has_long_keys)(
            self._outside,
            self.points,
            lambda ago_s: self._on_check(self, ago_s),
            lambda ago_s: self._on_leave(self, ago_s),
        )
        self._registry = register(sheet)
        self._registry.catalog = catalog
        sandbox = ScriptedSandbox(self.env, self._policy.limits)
        parts = Parts(self.env, store, sandbox, self._registry, self._policy, lease=self.lease)
        self.host = Host(parts, Engine(parts), self.points)
        self._serving = self.process.spawn(self.host.desk.engine.serve(), "serve")
        self.is_up = True
        # A new process is cut off as long as the one before it was.
        self.calm_since_s = max(self.calm_since_s, self.env._loop.time())

    async def _ping(self, backend: CountedBackend, note: Callable[[Transaction], None]) -> None:
        with suppress(StoreError):
            try:
                await backend.transact(note, Durability.RIDER)
                if backend.has_former:
                    await backend.transact(note, Durability.BARRIER)
            except StoreUnavailable:
                if self.is_cut or not self.is_refused:  # the lease has no connection either
                    raise
                await backend.compare()

    async def _compare(self, backend: CountedBackend) -> None:
        with suppress(StoreError):
            await backend.compare()

    def _end(self) -> None:
        self._tell(f"host {self.number} ends its process: its lease is over and a send is out")
        self.die()

    def die(self) -> None:
        """Let the process be dead from now on; `bury` ends its tasks."""
        self.points.is_dead = True
        self.points.died.set()

    async def ended(self) -> BaseException | None:
        """Wait until the process is dead, or its host has stopped by itself; return why."""
        dying = asyncio.ensure_future(self.points.died.wait())
        await asyncio.wait((dying, self._serving), return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if self.points.is_dead or self._serving.cancelled() or not self._serving.done():
            return None
        return self._serving.exception() or RuntimeError("the host stopped by itself")

    async def bury(self) -> None:
        """End what is left of the process."""
        self.is_up = False
        self.points.is_dead = True
        await self.process.end()

    async def close(self) -> None:
        """Close the host in order, as the one that ships does; what cannot is killed."""
        self.is_up, self.is_closing = False, True
        closing = self.process.spawn(self._close(), "close")
        dying = asyncio.ensure_future(self.points.died.wait())
        await asyncio.wait((closing, dying), return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        await self.bury()

    async def _close(self) -> None:
        self._serving.cancel()
        await asyncio.wait([self._serving])
        desk = self.host.desk
        while acts := [each for each in desk.acts if not each.done()]:
            await asyncio.wait(acts)
        try:
            await ShippedHost._until_sent(cast("ShippedHost", Closing(self._registry)), CLOSE_S)
            await desk.engine.close()
        except DulyError as error:
            self._tell(f"host {self.number} cannot close: {error}")
        else:
            self._tell(f"host {self.number} has closed")


async def _stay(seconds: float) -> None:
    """Take no time: the sheet of the catalogue is never called."""


def _kind(has_long_keys: bool) -> type[FleetSheet]:
    return LongKeySheet if has_long_keys else FleetSheet


@cache
def _catalog(lacks: str, has_long_keys: bool) -> tuple[Catalog, Offers]:
    """Return the tools of a process that lacks one, and what it says of them."""
    plain = Outside([], [], lambda _: None, lambda: 0.0, _stay, lambda _: None)
    sheet = _kind(has_long_keys)(plain, CrashPoints(), lambda _: None, lambda _: None)
    known = register(sheet).catalog
    tools = tuple(each for each in known.tools if each.name != lacks)
    catalog = replace(known, tools=tools) if lacks else known
    return catalog, offers_of((each.name for each in tools), {})
