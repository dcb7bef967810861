"""Accounts of a channel that take nothing: they have blocked the bot, or are gone (G11).

Law: an account that takes nothing holds up no other one. It is tried again after a pause that
grows; a channel has failed when none of its accounts takes anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from duly.errors import PermissionDenied

PAUSE_MS: Final = 5_000
PAUSE_MAX_MS: Final = 300_000


@dataclass(frozen=True, slots=True)
class _Miss:
    error: PermissionDenied
    until_ms: int
    pause_ms: int


class Unreached:
    """The accounts of one channel that take nothing now, by the clock of durations."""

    def __init__(self) -> None:
        self._missed: dict[str, _Miss] = {}

    def list_due(self, accounts: Iterable[str], now_ms: int) -> tuple[str, ...]:
        """Return the accounts that may be tried; those that are not paired any more are forgotten.

        Those that took what was sent come first.
        """
        known = tuple(accounts)
        self._missed = {each: miss for each, miss in self._missed.items() if each in known}
        well = [each for each in known if each not in self._missed]
        again = [each for each, miss in self._missed.items() if miss.until_ms <= now_ms]
        return (*well, *again)

    def miss(self, account: str, error: PermissionDenied, now_ms: int) -> None:
        """Leave an account alone for a while, each time for longer."""
        before = self._missed.get(account)
        pause_ms = PAUSE_MS if before is None else min(2 * before.pause_ms, PAUSE_MAX_MS)
        self._missed[account] = _Miss(error, now_ms + pause_ms, pause_ms)

    def reach(self, account: str) -> None:
        """Note that an account takes what is sent."""
        self._missed.pop(account, None)

    def last(self) -> PermissionDenied | None:
        """Return what was said of one of them; None if every account is reached."""
        return next((each.error for each in self._missed.values()), None)

    def are_all(self, accounts: Collection[str]) -> bool:
        """Tell whether no account takes anything."""
        return bool(accounts) and all(each in self._missed for each in accounts)
