"""Which subscribers this host calls: in a fleet those that it holds, elsewhere all of them (H8).

Law 1  One host calls a subscriber at a time, so order and once hold as on one host (B3, B6).
Law 2  What a host held is free when it is gone. What it was telling subscribers is given back by
       the next host that looks, also where the subscription has ended since.
Law 3  The store compares the holder when a delivery begins. What is remembered here only saves
       questions: a subscription may have ended and have been made again.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

from duly.env import Boot, Env
from duly.store import Store
from duly.store.base import Durability
from duly.store.due import settle_bus

FLEET_BOOT: Final = "fleet"  # the name of the wall clock that the hosts of a fleet share


class Holding:
    """The subscribers that a host of a fleet holds, and those that another has."""

    def __init__(self, env: Env, store: Store, find_host: Callable[[], str] | None) -> None:
        self._env = env
        self._store = store
        self._find_host = find_host
        self._held: set[str] = set()
        self._elsewhere: set[str] = set()
        self._is_forsaken = False

    @property
    def is_shared(self) -> bool:
        """Tell whether other hosts may call the same subscribers."""
        return self._find_host is not None

    @property
    def host_id(self) -> str | None:
        """The host of a fleet that this one is now; None where it is alone."""
        return None if self._find_host is None else self._find_host()

    @property
    def held(self) -> frozenset[str] | None:
        """The subscribers this host holds; None where it is alone, and has all."""
        return frozenset(self._held) if self.is_shared else None

    @property
    def boot(self) -> Boot:
        """What the hosts of a fleet have for the clock of a boot: each machine has another (B2)."""
        return Boot(FLEET_BOOT, self._env.now_ms())

    def of(self, names: Set[str]) -> Set[str]:
        """Return those of some subscribers that this host may call."""
        return names & self._held if self.is_shared else names

    def is_asked(self, names: Set[str]) -> bool:
        """Tell whether it is known of some subscribers which host has them."""
        return not self.is_shared or not (names - self._held - self._elsewhere)

    async def take(self, names: Set[str]) -> None:
        """Take those of some subscribers that no other host holds.

        What hosts that are gone were telling theirs is given back with that.
        """
        wanted = names - self._held - self._elsewhere
        if self._find_host is None or not (wanted or self._is_forsaken):
            return
        host_id = self._find_host()
        held = await self._store.hold_subscribers(host_id, wanted, now=self._env.now_ms())
        if host_id == self._find_host():  # it may have lapsed meanwhile
            self._held.update(held)
            self._elsewhere |= wanted - self._held
            self._is_forsaken = False

    async def sync(self, newest_id: int) -> int:
        """Return up to which event all are on the disk; a look has found this one (B4).

        A server may have died since that look and have lost the newest event. Its number is then
        given to another one, so the server is asked again, in a write that waits for its disk.
        """
        if self.is_shared:
            return await self._store.backend.transact(settle_bus, Durability.BARRIER)
        await self._store.sync()
        return newest_id

    def note_forsaken(self) -> None:
        """Remember that a host is gone which was calling a handler."""
        self._is_forsaken = True

    def doubt(self, subscriber_id: str | None) -> None:
        """Ask again for a subscriber: the store did not let a delivery to it begin."""
        self._held -= {subscriber_id}

    def look_again(self) -> None:
        """Ask again for what another host held."""
        self._elsewhere.clear()

    def forget(self) -> None:
        """Forget everything: the host has lapsed, and comes back as another."""
        self._held.clear()
        self._elsewhere.clear()
        self._is_forsaken = False
