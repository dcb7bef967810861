"""How a host of a fleet stays one: it renews its lease, and sees which others do not (H2).

Law 1  The host counts by its own clock, from before it asked. When its lease is over by that count,
       or the store says so, it has lapsed: it never renews, it comes back as another host. One that
       lapsed with a send out does not: its process ends.
Law 2  A send begins only with enough of the lease left; where too little is, it waits for the next
       renewal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from duly.env import Env
from duly.errors import Fenced, StoreError, StoreLost, StoreUnavailable
from duly.rules.kept import DULY
from duly.rules.lease import (
    CLOCK_OFF_MAX_MS,
    DEFAULT_TIMES,
    LeaseTimes,
    clock_off_ms,
    may_evict,
    may_send,
)
from duly.rules.share import Kin, Offers, Shares
from duly.store import Store
from duly.store.base import Fence
from duly.store.claim import HostRow
from duly.store.record import Action

log = logging.getLogger("duly.engine")


def note_of_promotion(env: Env) -> Action:
    """Make what is written down where workflows are paused because a standby was promoted (A6)."""
    return Action(env.new_id("action"), DULY, "pause", "a standby was promoted")


class Lease:
    """The lease of one host, which is kept as long as `keep` runs.

    The host sets what else must know: how the other hosts are told where to look, whether a handler
    of the bus runs, and who forgets what the host held.
    """

    def __init__(
        self,
        env: Env,
        store: Store,
        end: Callable[[], None],
        times: LeaseTimes = DEFAULT_TIMES,
        name: str | None = None,
        machine: str | None = None,
        offers: Callable[[], Offers | None] = lambda: None,
    ) -> None:
        self.end = end  # ends the process: called when the lease lapses while a send is out
        self.lost: Callable[[], StoreLost] | None = None  # set with that: it never joins again
        self.tell: Callable[[str], None] = lambda _: None
        self.is_calling: Callable[[], bool] = lambda: False
        self.lapsed: Callable[[], None] = lambda: None
        self.renewed: Callable[[], None] = lambda: None
        # Called when the store has refused this host: it may be older than the host was told (H10).
        self.refused: Callable[[], Awaitable[None]] | None = None
        self.read_secrets: Callable[[], Awaitable[None]] | None = None  # that others have set
        self.times = times
        self.serves = False  # this host runs workflows now
        self._has_served = False
        self.gone: frozenset[str] = frozenset()  # what waits for a machine for too long (H7)
        self.shares = Shares()  # how many workflows this host holds at most, of which kind (H7)
        self.kin_of: Mapping[str, Kin] = {}  # of those that it held at the last renewal
        self.offers = offers  # what this host can do: nothing is said of one that has not said it
        self._env = env
        self._store = store
        self._name = name
        self._machine = machine
        # By workflow: the claim under which it was bound to this machine, and the one under which
        # it is known whether it must be (H7).
        self.bound: dict[str, Fence] = {}
        self.looked_at: dict[str, Fence] = {}
        self.host_id = ""
        self.clock_off_ms = 0  # how far the server's clock was ahead at the last renewal
        self._until_ms = 0  # by this host's own clock
        self._shown: tuple[int, int] | None = None  # the server's clock, and when that was heard
        self._least: int | None = None  # how far it was ahead of our clock of durations, at least
        self._renewed = asyncio.Event()
        self._over = asyncio.Event()  # the store has said that the lease is over
        self._stirred = asyncio.Event()  # that, or something the other hosts should know soon
        self._seen: dict[str, tuple[int, int]] = {}  # of other hosts: their lease, and since when
        self._stuck: set[str] = set()  # of them: those whose transactions do not end

    @property
    def left_ms(self) -> int:
        """How much is left of the lease, by this host's own count."""
        return self._until_ms - self._env.monotonic_ms()

    @property
    def clock_ms(self) -> int | None:
        """What the server's clock shows, or a little less: from the last renewal on (L7)."""
        if self._shown is None:
            return None
        return self._shown[0] + self._env.monotonic_ms() - self._shown[1]

    def clock_least_ms(self, at_ms: int) -> int | None:
        """What the server's clock showed at a moment of our clock of durations, or less (L6).

        As it was when it was furthest behind: one that is set forward makes no time pass.
        """
        return None if self._least is None else self._least + at_ms

    async def join(self) -> str:
        """Come as a new host; return its id."""
        if self.lost is not None:
            raise self.lost()  # a process that its program did not end takes no act of a person
        asked_at, host_id = self._env.monotonic_ms(), self._env.new_id("host")
        lease_ms = self.times.lease_ms
        named = {"name": self._name, "machine": self._machine}
        now, offers = self._env.now_ms(), self.offers()
        was_here = self.host_id != ""
        clock = await self._store.join(
            host_id, now=now, lease_ms=lease_ms, **named, offers=offers, is_again=was_here
        )
        self.shares, self.kin_of = Shares(host_id, {host_id: self._machine}), {}
        assert clock is not None, host_id
        self._see_clock(clock)
        self.host_id = host_id
        self._over.clear()
        self._count(asked_at)
        return host_id

    def lapse(self, host_id: str) -> None:
        """End the lease: the store has refused this host as one that is gone."""
        if host_id == self.host_id:  # and not the one it has come back as since
            self._until_ms = min(self._until_ms, self._env.monotonic_ms())
            self._over.set()
            self._renewed.set()
            self._stirred.set()

    def serve(self, *, is_on: bool) -> None:
        """Let the other hosts know that this one runs workflows from now on, or no more (H7).

        The first time they hear of it at once. After that with the next renewal: a drain begins
        and ends often, and each renewal makes it look again.
        """
        self.serves = is_on
        if is_on and not self._has_served:
            self._has_served = True
            self._stirred.set()

    async def until_sendable(self) -> None:
        """Return when a send may begin; raise `Fenced` if the lease is over."""
        while not may_send(self.left_ms, self.times):
            if self.left_ms <= 0:
                raise Fenced(code="lapsed", subject=self.host_id)
            self._renewed.clear()
            try:
                async with asyncio.timeout(self.left_ms / 1000):
                    await self._renewed.wait()
            except TimeoutError:
                continue

    async def keep(self, on_look: Callable[[], None]) -> None:
        """Renew until the lease is over; after each renewal the host looks for what is free."""
        began = self._env.monotonic_ms()
        while True:
            with suppress(TimeoutError):
                # An eviction that took long is no reason to renew later.
                due_ms = began + self.times.renew_ms - self._env.monotonic_ms()
                wait_ms = max(0, min(due_ms, self.left_ms))
                async with asyncio.timeout(wait_ms / 1000):
                    await self._stirred.wait()
            self._stirred.clear()
            if self.left_ms <= 0:
                return
            began = self._env.monotonic_ms()
            try:
                async with asyncio.timeout(self.left_ms / 1000):
                    others = await self._renew()
                async with asyncio.timeout(self.left_ms / 1000):  # which is more than it was
                    await self._watch(others, until=began + self.times.renew_ms)
            except Fenced:
                await self._compare()
                return
            except TimeoutError:
                return
            except StoreError as error:
                log.warning("the lease could not be renewed yet: %s", error)
            else:
                on_look()

    async def _compare(self) -> None:
        """Find out why this host was refused, before its process may have to end (H10)."""
        self.lapse(self.host_id)
        if self.refused is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.times.renew_ms / 1000):
                    await self.refused()

    async def _renew(self) -> tuple[HostRow, ...]:
        """Make the lease last longer; return the other hosts."""
        asked_at, asked_ms = self._env.monotonic_ms(), self._env.now_ms()
        renewed = await self._store.renew(
            self.host_id,
            lease_ms=self.times.lease_ms,
            serves=self.serves,
            offers=self.offers(),
        )
        if self._over.is_set():  # the store has said so meanwhile: that is final (law 1)
            raise Fenced(code="lapsed", subject=self.host_id)
        self._count(asked_at)
        self._see_clock(renewed.clock_ms)
        self.gone = renewed.gone
        self._compare_clocks(clock_off_ms(renewed.clock_ms, asked_ms, self._env.now_ms()))
        self.shares, self.kin_of = renewed.shares, renewed.held
        return renewed.others

    def _see_clock(self, clock_ms: int) -> None:
        heard_ms = self._env.monotonic_ms()
        self._shown, ahead_ms = (clock_ms, heard_ms), clock_ms - heard_ms
        self._least = ahead_ms if self._least is None else min(self._least, ahead_ms)

    def _compare_clocks(self, off_ms: int) -> None:
        """Say that the clocks differ, once: this machine's decides when schedules are due (S2)."""
        was_off, self.clock_off_ms = abs(self.clock_off_ms) > CLOCK_OFF_MAX_MS, off_ms
        if abs(off_ms) > CLOCK_OFF_MAX_MS and not was_off:
            way = "ahead of" if off_ms > 0 else "behind"
            told = "the server's clock is %d s %s this machine's; set both by a time server"
            log.warning(told, abs(off_ms) // 1000, way)

    async def _watch(self, others: tuple[HostRow, ...], until: int) -> None:
        """Evict the hosts that have not renewed for a whole lease, as this host saw it.

        An eviction waits for the transactions of that host (H2). One that waits too long is given
        up until after the next renewal, and then comes behind the others. None begins when that
        renewal is due: this host's own lease would be over behind a few slow ones.
        """
        now = self._env.monotonic_ms()
        seen = {
            each.id: self._seen[each.id]
            if self._seen.get(each.id, (None, 0))[0] == each.lease_until
            else (each.lease_until, now)
            for each in others
        }
        self._seen = seen
        self._stuck &= seen.keys()
        for each in sorted(others, key=lambda other: other.id in self._stuck):
            unrenewed_ms = now - seen[each.id][1]
            if not may_evict(unrenewed_ms, is_over=each.is_over, times=self.times):
                continue
            if self._env.monotonic_ms() >= until:
                return
            action = note_of_promotion(self._env)
            now_ms = self._env.now_ms()
            try:
                is_gone = await self._store.evict(
                    each.id, each.lease_until, action=action, now=now_ms
                )
            except StoreUnavailable as error:
                log.warning("host %s is gone, and cannot be evicted yet: %s", each.id, error)
                self._stuck.add(each.id)
                return
            if is_gone:
                log.warning("host %s is gone: its lease was over, and it is evicted", each.id)

    def _count(self, asked_at: int) -> None:
        self._until_ms = asked_at + self.times.lease_ms
        self._renewed.set()
