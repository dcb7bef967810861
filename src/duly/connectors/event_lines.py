"""How times, dates and texts stand in an event, and how a caller may write them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from duly.connectors.ics_text import escape
from duly.errors import ConfigError, Refused

TITLE_CHARS_MAX: Final = 200
TEXT_CHARS_MAX: Final = 10_000
YEAR_MIN: Final = 1000  # an earlier one has fewer than four digits in an event


def event_lines(
    *, title: str | None, start: str | None, end: str | None, location: str | None
) -> dict[str, str]:
    """Write what is given as lines of an event."""
    lines: dict[str, str] = {}
    if title is not None:
        if not title.strip() or len(title) > TITLE_CHARS_MAX:
            raise Refused(f"title: an event has a title of 1 to {TITLE_CHARS_MAX} characters.")
        lines["SUMMARY"] = f":{escape(title)}"
    if start is not None and end is not None:
        first, last = read_point(start, "start"), read_point(end, "end")
        if isinstance(first, datetime) is not isinstance(last, datetime):
            raise Refused("end: start and end are both times, or both dates.")
        if not first < last:
            raise Refused("end: an event ends after it has begun.")
        lines["DTSTART"], lines["DTEND"] = spell_point(first), spell_point(last)
    if location is not None:
        lines["LOCATION"] = f":{escape(check_text(location, 'location'))}"
    return lines


def read_point(text: str, what: str) -> date | datetime:
    """Read a date, or a time with its offset, which is returned in UTC."""
    found: date | datetime | None = None
    try:
        if len(text) == 10:
            found = date.fromisoformat(text)
        elif (given := datetime.fromisoformat(text)).tzinfo is not None:
            found = given.astimezone(UTC)
    except (ValueError, OverflowError):
        found = None
    if found is None or found.year < YEAR_MIN:
        raise Refused(
            f"{what}: {text[:50]!r} is no time. Write 2026-05-01T09:00:00+02:00, or a date."
        )
    return found


def spell_point(point: date | datetime) -> str:
    """Write a time or a date as a line of an event has it."""
    if isinstance(point, datetime):
        return f":{point:%Y%m%dT%H%M%SZ}"
    return f";VALUE=DATE:{point:%Y%m%d}"


def read_time(text: str, what: str, timezone: str) -> datetime:
    """Read one end of the time that is asked for; a date begins in the calendar's zone."""
    found = read_point(text, what)
    if isinstance(found, datetime):
        return found
    return datetime.combine(found, datetime.min.time(), ZoneInfo(timezone)).astimezone(UTC)


def check_text(text: str, what: str) -> str:
    """Refuse a text that is too long."""
    if len(text) > TEXT_CHARS_MAX:
        raise Refused(f"{what}: at most {TEXT_CHARS_MAX} characters are written.")
    return text


def spell_stamp(at: datetime) -> str:
    """Write a time in UTC."""
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def check_zone(timezone: str) -> str:
    """Refuse a word of the settings that is no time zone."""
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(f"timezone: {timezone[:80]!r} is no time zone.") from None
    return timezone
