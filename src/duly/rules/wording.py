"""How things are named in a sentence: titles, quotes, moments (U5).

Law: whatever somebody else said stands in quotation marks that it cannot close, so that no title
can go on as if it were ours (L11).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from duly.rules.schedule import moment
from duly.rules.shown import cut, visible

QUOTE_CHARS_MAX: Final = 200
PLAIN_QUOTES: Final = str.maketrans("“”", '""')


def in_quotes(text: str) -> str:
    """Mark a text as somebody else's words; quotation marks of its own become plain ones.

    What cannot be seen is spelled out (G9).
    """
    return f"“{visible(text.translate(PLAIN_QUOTES))}”"


def name_all(titles: tuple[str, ...]) -> str:
    """Name one thing by its title, and say of many how many more there are."""
    if not titles:
        return ""
    more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
    return f"{in_quotes(titles[0])}{more}"


def quote(message: str) -> str:
    """Quote the first sentence of a message, cut to a readable length."""
    lines = message.strip().splitlines() or [""]
    first = lines[0].partition(". ")[0].rstrip(". ")
    return in_quotes(cut(first, QUOTE_CHARS_MAX)) if first else ""


def describe_moment(at_ms: int, now_ms: int, zone: str = "UTC") -> str:
    """Say when something was or will be, as people do: “3 May 09:12”."""
    at, now = _local(at_ms, zone), _local(now_ms, zone)
    year = "" if at.year == now.year else f" {at.year}"
    return f"{at.day} {at:%b}{year} {at:%H:%M}"


def _local(at_ms: int, zone: str) -> datetime:
    return moment(at_ms).astimezone(ZoneInfo(zone))


def capital(text: str) -> str:
    """Let a sentence begin."""
    return text[:1].upper() + text[1:]


def say_unconnected(needed: str, doing: str) -> str:
    """Say what a connection needs: a secret (`mail.password`), or a person who signs in (F4)."""
    name, _, secret = needed.partition(".")
    lacks = f"has no secret “{secret}”" if secret else "needs you to sign in again"
    todo = f"Sign in to {name}, then reconnect it here"
    todo = f"Set it with duly secret set {name} {secret}" if secret else todo
    return f"The connection to {name} {lacks}; Duly was {doing}. {todo}"
