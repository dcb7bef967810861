"""When the line of a day is due (B9).

Law: one line for one day. What is due is the last moment that has passed, so a host that was away
tells it late, once; a clock that is set back tells nothing twice.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from duly.errors import Invalid, short

DAY: Final = timedelta(days=1)
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_daily(text: object) -> int:
    """Return the minute of the day that a text such as 08:30 names, or refuse it."""
    found = _TIME.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        facts = {"wanted": "time_of_day", "given": short(text)}
        raise Invalid(code="wrong_value", path="daily", facts=facts)
    return 60 * int(found[1]) + int(found[2])


def last_daily_ms(minute: int, zone: str, now_ms: int) -> int:
    """Return the last moment at which it was this minute of a day, there."""
    now = _EPOCH + timedelta(milliseconds=now_ms)
    there = now.astimezone(ZoneInfo(zone))
    at = there.replace(hour=minute // 60, minute=minute % 60, second=0, microsecond=0, fold=0)
    while at.astimezone(UTC) > now:  # an hour that is skipped may come after now
        at -= DAY
    return round((at.astimezone(UTC) - _EPOCH).total_seconds()) * 1000
