"""Days as people name them, and the time between two of them (U6)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from duly.errors import Invalid
from duly.rules.day import Between, read_days
from duly.rules.value import INTEGER_MAX


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "day", "first_at", "end_at"),
    [
        ("UTC", "2026-05-02", "2026-05-02T00:00", "2026-05-03T00:00"),
        ("Europe/Berlin", "2026-05-02", "2026-05-01T22:00", "2026-05-02T22:00"),
        # The clock is set forward and back: 23 hours, 25 hours.
        ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00", "2026-03-29T22:00"),
        ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00", "2026-10-25T23:00"),
        # Midnight is skipped: the first moment of the day is shown as 01:00.
        ("Asia/Beirut", "2019-03-31", "2019-03-30T22:00", "2019-03-31T21:00"),
        # The hour before midnight comes twice, and so does the hour after it.
        ("Asia/Beirut", "2019-10-26", "2019-10-25T21:00", "2019-10-26T22:00"),
        ("America/Havana", "2019-11-03", "2019-11-03T04:00", "2019-11-04T05:00"),
        # A day that was left out of the calendar has no moment.
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00", "2011-12-30T10:00"),
    ],
)
def test_a_day_is_one_of_the_zone(zone: str, day: str, first_at: str, end_at: str) -> None:
    """U6: by the clock of the project, from its first moment to the next day's first moment."""
    assert read_days(day, day, zone) == Between(ms(first_at), ms(end_at))


def test_several_days_and_an_open_end() -> None:
    """U6: both days are included; without one there is no limit on that side."""
    begins, ends = ms("2026-05-01T00:00"), ms("2026-05-04T00:00")
    assert read_days("2026-05-01", "2026-05-03", "UTC") == Between(begins, ends)
    assert read_days("2026-05-01", None, "UTC") == Between(begins, INTEGER_MAX)
    assert read_days(None, "2026-05-03", "UTC") == Between(-INTEGER_MAX, ends)
    assert read_days(None, None, "UTC") is None


FORMS = ("", "today", "2026-5-2", "20260502", "2026-W18-6", "2026-02-30", "2026-05-02T10:00")


@pytest.mark.parametrize("given", [*FORMS, 5, True, "0001-01-01", "9999-12-31", "\u0662026-05-02"])
@pytest.mark.parametrize("name", ["first_day", "last_day"])
def test_what_names_no_day_is_refused(name: str, given: object) -> None:
    """U6: in one form only, so that no program reads another day than the one that was meant."""
    days = {"first_day": None, "last_day": None, name: given}
    with pytest.raises(Invalid, match="a day such as 2026-05-31") as refused:
        read_days(days["first_day"], days["last_day"], "UTC")
    assert refused.value.path == name


def test_days_in_the_wrong_order_are_refused() -> None:
    """U6: an empty answer would look as if nothing had come."""
    with pytest.raises(Invalid, match=r"last_day .*not before the first"):
        read_days("2026-05-02", "2026-05-01", "UTC")
