"""A host's place in a fleet: its lease, its right to write, and the bell of the hosts (H2, H9).

Law 1  The lease has a connection and a thread of its own: neither a write of the host nor what is
       done after a promotion holds up its renewal, nor do lines that hang.
Law 2  Every write of the host is refused when the host was evicted (`postgres_session`).
Law 3  What this host cannot do with its memory of runs when the lease is over, it does not do: it
       comes back as another host, or its process ends (`engine/lease.py`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duly.bus.dispatcher import Dispatcher
from duly.connectors.offering import Offering
from duly.connectors.registry import Registry
from duly.desk.secret import Vault
from duly.desk.upkeep import note_restore
from duly.engine.lease import Lease, note_of_promotion
from duly.engine.scheduler import Engine
from duly.env import Env
from duly.errors import Fenced, StoreError, StoreOlder
from duly.rules.blind import BlindCause
from duly.rules.lease import LeaseTimes
from duly.rules.schedule import moment
from duly.store import Store
from duly.store.base import Durability, Transaction
from duly.store.bell import ALL, BUS, Bell
from duly.store.claim import note_promotion
from duly.words.seal import say_blind

if TYPE_CHECKING:
    from duly.store.postgres import PostgresBackend


log = logging.getLogger("duly.host")


MACHINE_ID: Final = Path("/etc/machine-id")


def find_machine() -> str:
    """Return the id of this machine; where it has none, as in a container, its name (H7)."""
    try:
        found = MACHINE_ID.read_text("ascii").strip()
    except (OSError, ValueError):
        found = ""
    return found or socket.gethostname()


class Fleet:
    """What a host on a PostgreSQL server has that the host of a file does not need."""

    def __init__(
        self,
        env: Env,
        url: str,
        backend: PostgresBackend,
        times: LeaseTimes,
        end: Callable[[], None],
        vault: Vault,
        outside: Registry,
        machine: str | None = None,
    ) -> None:
        self._env = env
        self._vault = vault
        self._reading: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._comparing: asyncio.Task[None] | None = None
        self._unable_ms: int | None = None  # since when this host has not been able to write
        self._is_unable_said = False
        # What is sent here is small, so a line that does not take it hangs.
        self._plain, self._leasing = (backend.alone(times.renew_ms) for _ in range(2))
        self._leasing.call = env.call_leasing
        for each in (self._plain, self._leasing):
            # What waits here must not outlast the lease.
            each.beside.times = LeaseTimes(times.lease_ms // 3)
        name = f"{socket.gethostname()}:{os.getpid()}"
        place = (name, machine or find_machine())
        self.lease = Lease(env, Store(self._leasing), end, times, *place, Offering(outside))
        self._bell = Bell(env, url, self._plain)
        backend.write_as(self.find_host, times)
        self._backend = backend
        backend.on_older = partial(self._note_older, self._plain)
        backend.beside.on_enter = self._note

    def find_host(self) -> str:
        """Return the id under which this host writes now."""
        return self.lease.host_id

    async def join(self, engine: Engine, dispatcher: Dispatcher) -> None:
        """Come as a host, keep the lease, and listen to the others."""

        def hear(what: str) -> None:
            if what in (ALL, BUS):
                dispatcher.hear()
            if what != BUS:
                engine.hear(None if what == ALL else what)

        def doubt() -> None:
            log.warning("the server came back without the last writes; what they did is done again")
            engine.doubt()
            dispatcher.doubt()

        def renewed() -> None:
            self._renewed()
            # A host that died while it called no handler has told no one what is free now (H8).
            dispatcher.hear()

        await self._plain.transact(self._note, Durability.BARRIER)
        self._backend.on_lost_riders = doubt
        self.lease.tell = self._bell.ring
        self.lease.is_calling = lambda: dispatcher.is_calling
        self.lease.lapsed = dispatcher.forget
        self.lease.renewed = renewed
        self.lease.refused = self._compare
        self.lease.read_secrets = partial(self._vault.read_again, Store(self._plain))
        dispatcher.tell = lambda: self._bell.ring(BUS)
        self._bell.rung = hear
        await engine.join()
        # From now on no key is replaced; until now another host may have done it (H12).
        await self._vault.agree(self._backend.agree_on_key)
        self._bell.open()

    def _renewed(self) -> None:
        """See what other hosts have set (H12), and what has become of the server (H10).

        A secret is known here within a renewal. Neither waits for the other: a line may hang.
        """
        if self._looking is None or self._looking.done():
            self._looking = self._env.spawn(self._try(self._look), "duly look")
        if self._reading is None or self._reading.done():
            read = partial(self._vault.read_again, Store(self._plain))
            self._reading = self._env.spawn(self._try(read), "duly secrets")

    async def _try(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except StoreError as error:
            log.info("what other hosts changed could not be read yet: %s", error)

    async def _look(self) -> None:
        """Hear that the server is another, or older; all hosts wait for that (H10).

        Where the server lets no connection in but that of the lease, or a line hangs, it is
        compared there. A write that hangs is left to its end: no other begins beside it, and what
        it finds is not forgotten.
        """
        cause = "its connections give no answer"
        writing = self._writing
        if writing is None or writing.done():
            writing = self._writing = self._aside(self._write(), "duly write")
            await asyncio.wait([writing], timeout=self.lease.times.renew_ms / 1000)
        if writing.done():
            try:
                writing.result()
            except (Fenced, StoreOlder):
                raise
            except StoreError as error:
                cause = str(error)
            else:
                self._unable_ms, self._is_unable_said = None, False
                return
        self._say_unable(cause)
        await self._compare_by_lease()

    def _say_unable(self, cause: str) -> None:
        """Say once that this host renews its lease and has written nothing for a whole one."""
        now = self._env.monotonic_ms()
        self._unable_ms = now if self._unable_ms is None else self._unable_ms
        if now - self._unable_ms >= self.lease.times.lease_ms and not self._is_unable_said:
            self._is_unable_said = True
            told = "this host keeps its lease, but has not been able to write for %d s: %s"
            log.warning(told, (now - self._unable_ms) // 1000, cause)

    def _aside(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start what its caller may stop waiting for; what it raises is read, at least here."""
        task = self._env.spawn(work, name)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _write(self) -> None:
        """Write something: an idle host hears of it, too.

        A barrier under its present id ends the comparing of what it was told under a former one.
        """
        slots = self._backend.beside.slots

        def look(tx: Transaction) -> int | None:
            self._note(tx)
            return tx.started

        slots.see(await self._backend.transact(look, Durability.RIDER))
        if slots.has_former:
            await self._backend.transact(self._note, Durability.BARRIER)
        elif slots.must_compare:  # the server was started anew under this connection
            await self._backend.transact(self._note, Durability.RIDER)

    async def _compare_by_lease(self) -> None:
        """Compare in one short transaction: the lease is renewed on this connection (law 1)."""
        host_id = self.find_host()
        try:
            await self._leasing.compare_for(self._backend, host_id)
        except StoreOlder:
            await self._note_older(self._leasing, host_id)
            self._backend.beside.slots.give_up(host_id)
            raise

    def _note(self, tx: Transaction) -> None:
        """Note a promotion or a newer schema before this host writes on a connection (H10, H11)."""
        self._backend.check_version(tx)
        action, now = note_of_promotion(self._env), self._env.now_ms()
        since = note_promotion(tx, action=action, now=now)
        if since is not None:
            log.warning("%s", say_blind(moment(since), BlindCause.PROMOTION))

    async def _compare(self) -> None:
        """Compare what this host was told with what is there; it may be older (H10).

        The connection of the lease has just given an answer. What is found is not forgotten if the
        lease does not wait for it.
        """
        self._comparing = self._aside(self._compare_by_lease(), "duly compare")
        with suppress(StoreError):
            await asyncio.shield(self._comparing)

    async def _note_older(self, beside: PostgresBackend, host_id: str | None) -> None:
        """Pause everything in a store that lost what it had confirmed, and come as another (H10).

        The claims of this host may be among what is lost, so it keeps none of them. The pool and
        the lease may both find it out: the later one does nothing to the host that came since.
        """
        slots = self._backend.beside.slots
        if slots.has_given_up(host_id):
            return
        await note_restore(Store(beside), self._env, is_lost=True)
        if not slots.has_given_up(host_id):
            self.lease.lapse(self.lease.host_id)

    async def close(self) -> None:
        """Tell the others to look at what this host has given back, and hang up."""
        if self._looking is not None:
            await asyncio.wait([self._looking])  # it may yet begin a write
        begun = (self._writing, self._comparing, self._reading)
        if open_still := [each for each in begun if each is not None]:
            await asyncio.wait(open_still)
        self._bell.ring(ALL)
        await self._bell.close()
        await self._plain.close()
        await self._leasing.close()
