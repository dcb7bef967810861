"""What the ledger may believe and what it may repeat (L6, L7).

Law: "it did not happen" is believed only when nothing sent earlier can land any more, and a call
is repeated only under the key of the first one, while the outside still remembers that key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

from duly.rules.catalog import Tool
from duly.rules.schedule import DAY_MS
from duly.rules.value import Json, digest
from duly.rules.word import Known

RESENDS_MAX: Final = 5  # an unknown idempotent call is sent again at most so often
GRACE_MS: Final = 10_000  # how long, at least, a send whose time is over may take to return
CLOCK_MARGIN_MS: Final = DAY_MS  # how far a wall clock may be off after a reboot (L7)
ENDLESS_MS: Final = 2**53 - 1  # the lifetime of a key that the outside never forgets


# -- How an outcome became known (L12) ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Knowledge:
    """How an outcome became known: from a person, if `by` is given; what the outside said."""

    how: Known
    by: str | None = None
    said: str | None = None


# -- What a row keeps of its tool (L6) ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Terms:
    """What a tool promised when its call was made; no key lifetime means it is never repeated."""

    lag_ms: int
    timeout_ms: int
    key_lifetime_ms: int | None = None

    @classmethod
    def of(cls, tool: Tool) -> Terms:
        """Read what a tool promises now."""
        lifetime_s = tool.key_lifetime_s if tool.idempotent else None
        lifetime_ms = None if lifetime_s is None else min(lifetime_s * 1000, ENDLESS_MS)
        return cls(
            lag_ms=math.ceil(tool.lag_s * 1000),
            timeout_ms=math.ceil(tool.timeout_s * 1000),
            key_lifetime_ms=None if lifetime_ms is None else math.floor(lifetime_ms),
        )


# What holds for a call of which nothing was kept, without its connector: a row of an older schema.
# A person who knows better opens the host with the connector, and its own terms hold.
UNKNOWN_TERMS: Final = Terms(lag_ms=DAY_MS, timeout_ms=DAY_MS)


def terms_of(kept: Terms | None, tool: Tool | None) -> Terms:
    """Return the terms of a call: what its row keeps and what its tool says, the stricter (L6)."""
    if tool is None:
        return kept or UNKNOWN_TERMS
    own = Terms.of(tool)
    if kept is None:
        return own
    lifetimes = (kept.key_lifetime_ms, own.key_lifetime_ms)
    known = [each for each in lifetimes if each is not None]
    return Terms(
        max(kept.lag_ms, own.lag_ms),
        max(kept.timeout_ms, own.timeout_ms),
        # A key that was no key at the first send protects no second one.
        min(known) if len(known) == len(lifetimes) else None,
    )


def is_absence_settled(lag_ms: int, since_end_ms: int) -> bool:
    """Tell whether "it did not happen" can be believed yet (L6).

    `since_end_ms` is monotonic: since the sending process saw the send end, or else since this
    host took the row over. Never since the recorded send time: a late request may still land.
    """
    return since_end_ms >= lag_ms


def overdue_ms(terms: Terms) -> int:
    """Return how long after its beginning a send that is still out is shown to a person (L6).

    A tool that promises no lag still gets a moment to obey when its time is over.
    """
    return terms.timeout_ms + max(terms.lag_ms, GRACE_MS)


# -- Sending again (L7) ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stamp:
    """A moment by three clocks: the wall's, which can be set, one boot's, and that of the server.

    The server's is one for all machines; the host of a file has none (H2).
    """

    at_ms: int
    boot: str | None = None
    boot_ms: int | None = None
    clock_ms: int | None = None

    def since(self, first: Stamp) -> int | None:
        """Return how long ago another moment of the same boot was, if both are known."""
        if self.boot is None or self.boot != first.boot:
            return None
        if self.boot_ms is None or first.boot_ms is None or self.boot_ms < first.boot_ms:
            return None
        return self.boot_ms - first.boot_ms


@dataclass(frozen=True, slots=True)
class FirstSends:
    """When each row with a key was first sent, and what the server's clock showed at the reading.

    `asked_ms` is from before they were asked for, by the clock of durations of the one who asked.
    """

    stamps: tuple[Stamp, ...] = ()
    clock_ms: int | None = None
    asked_ms: int = 0

    def clock_at(self, now_ms: int) -> int | None:
        """Return the server's clock at a moment of that clock of durations; never less than it is.

        >>> FirstSends((), 50_000, 1_000).clock_at(3_000)
        52000
        """
        return None if self.clock_ms is None else self.clock_ms + now_ms - self.asked_ms


NO_SENDS: Final = FirstSends()


def age_ms(first: Stamp, now: Stamp) -> float:
    """Return how old something first sent then is now; never younger than it is (L7).

    Within one boot its clock is exact. It misses only the time in which a whole virtual machine
    stood still, which the wall clock knows: the older of the two is believed. After a reboot, or
    on another machine, there is the server's clock, which is one for all of them, or else only the
    wall clock. It counts with a margin; one that stands before the first send says nothing.
    """
    by_wall = now.at_ms - first.at_ms
    by_boot = now.since(first)
    if by_boot is not None:
        return max(by_boot, by_wall)
    if now.clock_ms is not None and first.clock_ms is not None:
        by_wall = now.clock_ms - first.clock_ms
    return by_wall + CLOCK_MARGIN_MS if by_wall >= 0 else math.inf


def may_resend(terms: Terms, firsts: Iterable[Stamp], now: Stamp, *, resends: int) -> bool:
    """Tell whether an unknown call may be sent again under its key (L7).

    `firsts` are the first sends with this key, of any row: the outside has known it since the
    oldest of them.
    """
    return resends < RESENDS_MAX and is_key_alive(terms, firsts, now)


def is_key_alive(terms: Terms, firsts: Iterable[Stamp], now: Stamp) -> bool:
    """Tell whether the outside still remembers a key when a send of now has ended (L7)."""
    if terms.key_lifetime_ms is None:
        return False
    if terms.key_lifetime_ms >= ENDLESS_MS:
        return True
    oldest_ms = max((age_ms(each, now) for each in firsts), default=math.inf)
    return oldest_ms + terms.timeout_ms + terms.lag_ms < terms.key_lifetime_ms


# -- Asking (L5) ----------------------------------------------------------------------------------


class Recourse(StrEnum):
    """What can be done about a call whose outcome is unknown (L5, L7)."""

    SEND_AGAIN = "send again"
    ASK = "ask"
    WAIT = "wait"
    GIVE_UP = "give up"


# Keyed by: may it be sent again, can it be asked about, is the workflow paused. A paused one sends
# nothing (F7), so what can only be sent again waits for resume.
RECOURSES: Final[Mapping[tuple[bool, bool, bool], Recourse]] = {
    (True, True, False): Recourse.SEND_AGAIN,
    (True, False, False): Recourse.SEND_AGAIN,
    (True, True, True): Recourse.ASK,
    (True, False, True): Recourse.WAIT,
    (False, True, False): Recourse.ASK,
    (False, True, True): Recourse.ASK,
    (False, False, False): Recourse.GIVE_UP,
    (False, False, True): Recourse.GIVE_UP,
}


def recourse(*, is_repeatable: bool, can_be_asked: bool, is_paused: bool) -> Recourse:
    """Choose how to settle an unknown call."""
    return RECOURSES[is_repeatable, can_be_asked, is_paused]


def is_last_ask(asks: int, attempts: int) -> bool:
    """Tell whether the answer "unsure" was the last one; a person is asked then (L5)."""
    return asks + 1 >= attempts


def inputs_digest(workflow_id: str, consumer: str, reserved: Iterable[tuple[str, str]]) -> str:
    """Name the set of inputs of a mutation; the same for every run, version and host."""
    inputs: list[Json] = [[*each] for each in sorted(reserved)]
    named: Json = [workflow_id, consumer, inputs]
    return digest(named)


def idempotency_key(digest: str, generation: int) -> str:
    """Make the key of a mutation: its inputs, and how often they were refused on merits (L7)."""
    return sha256(f"{digest}:{generation}".encode()).hexdigest()
