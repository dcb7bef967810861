"""Upkeep as ordinary work: once a day, in turns, behind everything else that is due (H5, K15).

Law 1: without `retention_days` in the policy no history is ever read or removed here (S9), and
       without blobs none of them.
Law 2: only the store knows when retention was last done; what is remembered is where to go on, and
       a host that forgets it begins again from the front, which changes nothing.
"""

from __future__ import annotations

from typing import Final

from duly.engine.base import Parts
from duly.engine.blobs import sweep
from duly.rules import retention
from duly.rules.retention import Tidied
from duly.rules.schedule import DAY_MS, earliest
from duly.store.blob import BlobPlace
from duly.store.upkeep import TidyTurn

UPKEEP: Final = "upkeep"  # in the queue of workflows, where no workflow has such an id


class Upkeep:
    """The daily rounds through one store: retention, then blobs that nothing uses."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._tidied_at: int | None = None
        self._is_known = False
        self._next: TidyTurn | None = TidyTurn()
        self._sweeper = Sweeper(parts)

    async def due_at(self, now_ms: int) -> int | None:
        """Return when the next round begins; nothing if there is nothing to look after."""
        return earliest((await self._tidy_at(now_ms), await self._sweeper.due_at(now_ms)))

    async def take_turn(self) -> bool:
        """Take one short turn; return whether the round goes on."""
        now_ms = self._parts.env.now_ms()
        tidy_at = await self._tidy_at(now_ms)
        if tidy_at is not None and tidy_at <= now_ms:
            return await self._tidy(now_ms)
        return await self._sweeper.take_turn(now_ms)

    async def _tidy_at(self, now_ms: int) -> int | None:
        if self._parts.policy.retention_days is None:
            return None
        if not self._is_known:
            self._tidied_at = await self._parts.store.tidied_at()
            self._is_known = True
        return retention.next_tidy_at(self._tidied_at, now_ms)

    async def _tidy(self, now_ms: int) -> bool:
        days = self._parts.policy.retention_days
        assert days is not None
        before_ms = retention.cutoff_ms(now_ms, days)
        turn = self._next or TidyTurn()
        self._next = None  # a turn that fails begins the round anew
        turned = await self._parts.store.tidy(turn, before=before_ms, now=now_ms)
        self._next = turned.next
        if turned.next is None:
            self._tidied_at = now_ms
        return turned.next is not None


class Sweeper:
    """The daily round through the blobs, where there are any."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._asked_at: int | None = None
        self._due_at: int | None = None
        self._next = BlobPlace()

    async def due_at(self, now_ms: int) -> int | None:
        """Return when blobs are looked at next; the store is asked once a day for the oldest."""
        asked_at = self._asked_at
        if asked_at is None or not 0 <= now_ms - asked_at < DAY_MS:
            oldest = await self._parts.store.oldest_blob()
            self._asked_at = now_ms
            # A time that a wrong clock left is not waited for.
            self._due_at = None if oldest is None else min(max(oldest, 0), now_ms) + DAY_MS
        return self._due_at

    async def take_turn(self, now_ms: int) -> bool:
        """Take one short turn; return whether the round goes on."""
        days, place = self._parts.policy.blob_days, self._next
        self._next = BlobPlace()  # a turn that fails begins the round anew
        swept = await sweep(self._parts.store, place, now_ms=now_ms, days=days)
        if swept.next is None:
            self._asked_at, self._due_at = now_ms, now_ms + DAY_MS
            return False
        self._next = swept.next
        return True


async def tidy(parts: Parts, retention_days: int) -> Tidied:
    """Go through the whole store now; return what was removed."""
    now_ms = parts.env.now_ms()
    before_ms = retention.cutoff_ms(now_ms, retention_days)
    turn: TidyTurn | None = TidyTurn()
    tidied = Tidied()
    while turn is not None:
        turned = await parts.store.tidy(turn, before=before_ms, now=now_ms)
        tidied += turned.tidied
        turn = turned.next
    place: BlobPlace | None = BlobPlace()
    while place is not None:
        swept = await sweep(parts.store, place, now_ms=now_ms, days=parts.policy.blob_days)
        tidied += Tidied(blobs=swept.count)
        place = swept.next
    return tidied
