"""When the line of a day is due (B9)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from duly.errors import Invalid
from duly.rules.daily import last_daily_ms, read_daily


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "now", "due"),
    [
        ("UTC", "2026-05-02T08:30:00", "2026-05-02T08:30:00"),
        ("UTC", "2026-05-02T08:29:59", "2026-05-01T08:30:00"),
        ("Europe/Berlin", "2026-05-02T06:30:00", "2026-05-02T06:30:00"),
        ("Europe/Berlin", "2026-01-02T06:30:00", "2026-01-01T07:30:00"),
        ("Pacific/Kiritimati", "2026-01-01T00:00:00", "2025-12-31T18:30:00"),
    ],
)
def test_the_last_moment_that_passed_is_due(zone: str, now: str, due: str) -> None:
    """B9: by the clock of the policy."""
    assert last_daily_ms(read_daily("08:30"), zone, ms(now)) == ms(due)


@pytest.mark.parametrize(
    "now", ["2026-03-29T00:59:00", "2026-03-29T01:01:00", "2026-10-25T01:30:00"]
)
def test_an_hour_that_is_skipped_or_twice_has_one_moment(now: str) -> None:
    """B9: it is never in the future, and at most a day and an hour ago."""
    found = last_daily_ms(read_daily("02:30"), "Europe/Berlin", ms(now))
    assert 0 <= ms(now) - found <= 26 * 3_600_000


@pytest.mark.parametrize("text", ["", "8:30", "24:00", "08:60", "08:30:00", " 08:30", 830, None])
def test_what_is_no_time_of_the_day_is_refused(text: object) -> None:
    """B9: by its name."""
    with pytest.raises(Invalid, match="daily"):
        read_daily(text)
