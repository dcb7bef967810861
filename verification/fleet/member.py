"""One host of a fleet: a process with its clock, its way to the store and the parts that ship.

Law 1  Engine, desk, lease and claims are the ones that ship. Time, the outside and the way to the
       store are ours.
Law 2  A process that dies takes all its memory with it; the next one has another id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final, TypeVar, cast

from duly.config import Policy
from duly.connectors.registry import Registry
from duly.engine.base import Parts
from duly.engine.lease import Lease
from duly.engine.scheduler import Engine
from duly.env import Boot
from duly.errors import DulyError, StoreUnavailable
from duly.host import CLOSE_S
from duly.host import Host as ShippedHost
from duly.rules.lease import LEASE_MS
from duly.store import Store
from duly.store.base import Durability, Transaction
from duly.store.claim import HostBackend
from duly.testing.crash import AFTER, BEFORE, CrashPoints
from duly.testing.loop import VirtualLoop
from verification.fleet.outside import FleetSheet
from verification.fleet.process import Process
from verification.fleet.scenario import Mishap, What
from verification.fleet.server import Server
from verification.life import SimulatedEnv
from verification.point import AnswerLost
from verification.scripted import ScriptedSandbox
from verification.workflow.outside import Outside
from verification.workflow.person import Host
from verification.workflow.run import Closing

R = TypeVar("R")

CONNECT_S: Final = 2.0  # how long a host tries to reach the store
PATIENCE_S: Final = 3.0  # how long it waits for an answer
CALLS_MAX: Final = 3_000  # so many transactions in one second, and it runs in circles


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
        tell: Callable[[str], None],
    ) -> None:
        self.number = number
        self.env = env
        self.points = CrashPoints()
        self.process = Process("")
        self.is_up = False
        self.is_doomed = False
        self.is_closing = False
        self.cut_until_s = 0.0
        self.hindered_until_s = -LEASE_MS / 1000  # until when something kept it from renewing
        self.calm_since_s = 0.0  # since when nothing has befallen it
        self.next_mishap: Mishap | None = None  # of its next transaction
        self.host: Host
        self.lease: Lease
        self._registry: Registry
        self._serving: asyncio.Task[None]
        self._server = server
        self._outside = outside
        self._policy = policy
        self._on_point = on_point
        self._on_check = on_check
        self._tell = tell
        self._lives = count(1)

    @property
    def host_id(self) -> str:
        """The id under which it writes now."""
        return self.lease.host_id

    @property
    def is_well(self) -> bool:
        """Tell whether it runs, and reaches the store."""
        return self.is_up and not self.process.is_stopped and not self.is_cut

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

    def start(self) -> None:
        """Start a process with a host in it."""
        self.process = Process(f"host {self.number} in its life {next(self._lives)}")
        self.is_doomed = self.is_closing = False
        self.points = CrashPoints(lambda *_: self.is_doomed)
        self.points.on_point = lambda name: self._on_point(self, name)
        plain = MemberBackend(self, self._server, self.points)
        self.lease = Lease(self.env, Store(plain), self._end)
        store = Store(HostBackend(plain, lambda: self.lease.host_id))
        sheet = FleetSheet(self._outside, self.points, lambda ago: self._on_check(self, ago))
        self._registry = Registry([sheet])
        sandbox = ScriptedSandbox(self.env, self._policy.limits)
        parts = Parts(self.env, store, sandbox, self._registry, self._policy, lease=self.lease)
        self.host = Host(parts, Engine(parts), self.points)
        self._serving = self.process.spawn(self.host.desk.engine.serve(), "serve")
        self.is_up = True
        self.calm_since_s = self.env._loop.time()

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


class MemberBackend:
    """The way of one process to the server: every transaction can be stopped, lost or late."""

    def __init__(self, member: Member, server: Server, points: CrashPoints) -> None:
        self._member = member
        self._server = server
        self._points = points
        self._second = 0
        self._calls = 0

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Send a transaction to the server and wait for its result."""
        verb = body.__name__
        is_write = durability is not Durability.READ
        self._points.stop_if_dead()
        self._check_pace()
        host_id = self._member.lease.host_id
        if is_write:
            self._points.reach(BEFORE, verb)
        await self._member.env.sleep(0)  # a host that is stopped here sends it when it goes on
        self._points.stop_if_dead()
        mishap, self._member.next_mishap = self._member.next_mishap, None
        result = await self._send(body, durability, host_id, mishap)
        self._points.stop_if_dead()
        if is_write:
            self._points.reach(AFTER, verb)
        await self._member.env.sleep(0)
        self._points.stop_if_dead()
        return result

    async def _send(
        self,
        body: Callable[[Transaction], R],
        durability: Durability,
        host_id: str,
        mishap: Mishap | None,
    ) -> R:
        env = self._member.env
        if self._member.is_cut:
            await env.sleep(CONNECT_S)
            raise StoreUnavailable("The store cannot be reached.")
        if mishap is not None and mishap.what is What.LATE:
            self._server.submit(body, durability, host_id, mishap.lasts_s)
            await env.sleep(PATIENCE_S)
            raise AnswerLost("The store has not answered.")
        result = await self._server.submit(body, durability, host_id)
        if mishap is not None:
            await env.sleep(PATIENCE_S)
            raise AnswerLost("The store has not answered.")
        return result

    def _check_pace(self) -> None:
        second = int(self._member.env._loop.time())
        if second != self._second:
            self._second, self._calls = second, 0
        self._calls += 1
        if self._calls == CALLS_MAX:
            self._member.die()
            raise AssertionError("the host runs in circles")

    async def ask(self, body: Callable[[Transaction], R]) -> R:
        """Send a question."""
        return await self.transact(body, Durability.READ)

    async def sync(self) -> None:
        """Return at once: what the server has committed is durable."""

    async def close(self) -> None:
        """Hang up."""
