"""How things are named in a sentence: titles, quotes, people, moments (U5).

Law 1  Words of a script, an outside or a person stand in quotation marks that they cannot close,
       so that no title can go on as if it were ours (L11).
Law 2  A moment is said on the clock of the policy, with the name of its zone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from duly.rules.shown import cut, visible

QUOTE_CHARS_MAX: Final = 200
PLAIN_QUOTES: Final = str.maketrans("“”", '""')
USER: Final = "user"  # who acts where no name is given: the person who reads
SECOND_MS: Final = 1_000
DAY_MS: Final = 86_400_000
# A unit, up to which time it is used, and its word.
WAITS: Final = ((SECOND_MS, 60_000, "s"), (60_000, 3_600_000, "min"), (3_600_000, 2 * DAY_MS, "h"))
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """What time it is for the reader, and in which zone times are said."""

    now_ms: int
    zone: str = "UTC"

    def say(self, at: datetime) -> str:
        """Say when something was or will be: “3 May 09:12 UTC”."""
        there, now = at.astimezone(ZoneInfo(self.zone)), self.now.astimezone(ZoneInfo(self.zone))
        year = "" if there.year == now.year else f" {there.year}"
        return f"{there.day} {there:%b}{year} {there:%H:%M %Z}"

    def say_day(self, at: datetime) -> str:
        """Say when something will be, with its day of the week: “Mon 3 May 09:12 UTC”."""
        return f"{at.astimezone(ZoneInfo(self.zone)):%a} {self.say(at)}"

    def say_wait(self, until: datetime | None) -> str:
        """Say how far away a time is: “in 3 min”, or “now”."""
        wait_ms = 0 if until is None else (until - self.now).total_seconds() * SECOND_MS
        return f"in {say_wait(round(wait_ms))}" if wait_ms > 0 else "now"

    @property
    def now(self) -> datetime:
        """The time."""
        return EPOCH + timedelta(milliseconds=self.now_ms)


def say_wait(wait_ms: int) -> str:
    """Say how long something takes, rounded up to a unit a person would use."""
    for unit_ms, longest_ms, word in WAITS:
        if wait_ms <= longest_ms:
            return f"{math.ceil(wait_ms / unit_ms)} {word}"
    return f"{math.ceil(wait_ms / DAY_MS)} days"


def in_quotes(text: str) -> str:
    """Mark a text as another's words; its own quotation marks become plain ones.

    What cannot be seen is spelled out (G9).
    """
    return f"“{visible(text.translate(PLAIN_QUOTES))}”"


def name_all(titles: Sequence[str], more: int = 0) -> str:
    """Name one thing by its title, and say of many how many more there are."""
    if not titles:
        return ""
    further = len(titles) - 1 + more
    return f"{in_quotes(titles[0])}{f' and {further} more' if further else ''}"


def quote(message: str) -> str:
    """Quote the first sentence of a message, cut to a readable length."""
    lines = message.strip().splitlines() or [""]
    first = lines[0].partition(". ")[0].rstrip(". ")
    return in_quotes(cut(first, QUOTE_CHARS_MAX)) if first else ""


def person(by: str) -> str:
    """Name who did something."""
    return "you" if by == USER else visible(by)


def capital(text: str) -> str:
    """Let a sentence begin."""
    return text[:1].upper() + text[1:]


def end(text: str) -> str:
    """Let a sentence end."""
    return text if not text or text.endswith((".", "?", "!", "`", "…")) else f"{text}."
