"""Days as people name them, and the time between two of them (U6).

Law: a day is one of the project's time zone. It begins with the first moment that a clock there
shows it, also where midnight is skipped or comes twice, and it ends where the next day begins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from duly.errors import Invalid, short
from duly.rules.value import INTEGER_MAX

_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MARGIN: Final = timedelta(days=2)  # no zone is further from UTC


@dataclass(frozen=True, slots=True)
class Between:
    """A time from one moment on until just before another."""

    first_at: int
    end_at: int


def read_days(first: object, last: object, zone: str) -> Between | None:
    """Return the time from the first day to the last one, both included; None if neither is named.

    >>> read_days("2026-05-02", "2026-05-02", "Europe/Berlin")
    Between(first_at=1777672800000, end_at=1777759200000)
    """
    if first is None and last is None:
        return None
    begins = None if first is None else _read_day(first, "first_day")
    ends = None if last is None else _read_day(last, "last_day")
    if begins is not None and ends is not None and ends < begins:
        raise Invalid(
            code="wrong_value",
            path="last_day",
            facts={"wanted": "later_day", "given": short(last)},
        )
    return Between(
        -INTEGER_MAX if begins is None else _begin_ms(begins, zone),
        INTEGER_MAX if ends is None else _begin_ms(ends + timedelta(days=1), zone),
    )


def _read_day(text: object, path: str) -> date:
    try:
        if isinstance(text, str) and _DAY.fullmatch(text):
            day = date.fromisoformat(text)
            if date.min + _MARGIN < day < date.max - _MARGIN:
                return day
    except ValueError:
        pass  # such as the thirtieth of February
    raise Invalid(code="wrong_value", path=path, facts={"wanted": "day", "given": short(text)})


def _begin_ms(day: date, zone: str) -> int:
    midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
    return (midnight.astimezone(UTC) - _EPOCH) // _MILLISECOND
