"""Retention as ordinary work: once a day, in turns, behind everything else that is due (H5).

Law 1: without `retention_days` in the policy nothing is ever read or removed here (S9).
Law 2: only the store knows when it was last done; what is remembered is where to go on, and a host
       that forgets it begins again from the front, which changes nothing.
"""

from __future__ import annotations

from typing import Final

from duly.engine.base import Parts
from duly.rules import retention
from duly.rules.retention import Tidied
from duly.store.upkeep import TidyTurn

UPKEEP: Final = "upkeep"  # in the queue of workflows, where no workflow has such an id


class Upkeep:
    """The daily round of retention through one store."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._tidied_at: int | None = None
        self._is_known = False
        self._next: TidyTurn | None = TidyTurn()

    async def due_at(self, now_ms: int) -> int | None:
        """Return when the next round begins, or nothing if history is kept for ever."""
        if self._parts.policy.retention_days is None:
            return None
        if not self._is_known:
            self._tidied_at = await self._parts.store.tidied_at()
            self._is_known = True
        return retention.next_tidy_at(self._tidied_at, now_ms)

    async def take_turn(self) -> bool:
        """Take one short turn; return whether the round goes on."""
        days = self._parts.policy.retention_days
        assert days is not None
        now_ms = self._parts.env.now_ms()
        before_ms = retention.cutoff_ms(now_ms, days)
        turn = self._next or TidyTurn()
        self._next = None  # a turn that fails begins the round anew
        turned = await self._parts.store.tidy(turn, before=before_ms, now=now_ms)
        self._next = turned.next
        if turned.next is None:
            self._tidied_at = now_ms
        return turned.next is not None


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
    return tidied
