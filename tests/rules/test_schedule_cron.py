"""Cron over a year of wall clocks, against a clock that is walked minute by minute.

The oracle below knows nothing of the code under test: it looks at a wall clock once per minute of
the year and writes down each wall clock minute the first time it is shown or jumped over.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.rules.schedule import Schedule, next_cron_at, next_run_at

# A zone, and a year in which it did something worth seeing. In São Paulo midnight itself is
# missing in spring and the hour before midnight is repeated; Lord Howe moves by half an hour.
YEARS = {
    "Europe/Berlin": 2026,
    "America/New_York": 2026,
    "Australia/Lord_Howe": 2026,
    "America/Sao_Paulo": 2018,
    "Asia/Kathmandu": 2026,
}
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MINUTES = 24 * 60
A_MINUTE = timedelta(minutes=1)


# -- The oracle ---------------------------------------------------------------------------------


@cache
def shown(zone: str) -> tuple[array[int], array[int]]:
    """Walk the year: for every wall clock minute its first showing, both in minutes since 1970."""
    first = datetime(YEARS[zone], 1, 1, tzinfo=UTC)
    rules, epoch = ZoneInfo(zone), datetime(1970, 1, 1, tzinfo=UTC)
    begin = int((first - epoch).total_seconds()) // 60
    utc_minutes, wall_minutes = array("q"), array("q")
    highest: int | None = None
    for minute in range(begin, begin + 365 * DAY_MINUTES):
        offset = datetime.fromtimestamp(minute * 60, rules).utcoffset()
        assert offset is not None
        wall = minute + offset // A_MINUTE
        while highest is None or highest < wall:
            highest = wall if highest is None else highest + 1
            utc_minutes.append(minute)
            wall_minutes.append(highest)
    return utc_minutes, wall_minutes


def numbers(field: str, low: int, end: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = low, end - 1
        else:
            start, _, stop = span.partition("-")
            first, last = int(start), int(stop or start)
        found |= set(range(first, last + 1, int(step or 1)))
    return found


def expected(pattern: str, zone: str, begin_ms: int = 0, end_ms: int = 1 << 62) -> list[int]:
    """Answer every time the pattern happens in the stretch of the year, in milliseconds."""
    minute, hour, day, month, weekday = pattern.split()
    minutes, hours = numbers(minute, 0, 60), numbers(hour, 0, 24)
    days, months = numbers(day, 1, 32), numbers(month, 1, 13)
    weekdays = {number % 7 for number in numbers(weekday, 0, 8)}
    both = day.startswith("*") or weekday.startswith("*")

    @cache
    def is_day(number: int) -> bool:
        shown_day = date(1970, 1, 1) + timedelta(days=number)
        in_month, in_week = shown_day.day in days, shown_day.isoweekday() % 7 in weekdays
        matches = (in_month and in_week) if both else (in_month or in_week)
        return shown_day.month in months and matches

    utc_minutes, wall_minutes = shown(zone)
    begin = bisect_right(utc_minutes, begin_ms // MINUTE_MS - 1)
    end = bisect_right(utc_minutes, end_ms // MINUTE_MS)
    happens = {
        utc * MINUTE_MS
        for utc, wall in zip(utc_minutes[begin:end], wall_minutes[begin:end], strict=True)
        if wall % 60 in minutes and wall // 60 % 24 in hours and is_day(wall // DAY_MINUTES)
    }
    return sorted(happens)


@cache
def jumps(zone: str) -> list[int]:
    """Answer the moments of the year, in milliseconds, at which the wall clock was moved."""
    utc_minutes, _ = shown(zone)
    return [
        minute * MINUTE_MS for minute, following in pairwise(utc_minutes) if following != minute + 1
    ]


def walk(pattern: str, zone: str, begin_ms: int, end_ms: int) -> list[int]:
    found: list[int] = []
    at_ms = next_cron_at(pattern, begin_ms - 1, zone)
    while at_ms is not None and at_ms <= end_ms:
        found.append(at_ms)
        at_ms = next_cron_at(pattern, at_ms, zone)
    return found


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


# -- A year in five zones -----------------------------------------------------------------------

SPARSE = ("30 1 * * *", "30 2 * * *", "15 0 * * *", "30 23 * * *", "0 9 * * 1-5", "0 0 1,31 * 5")
DENSE = ("* * * * *", "*/15 * * * *", "30 * * * *", "*/7 1-3 * * *", "5,50 0,23 * * *")


@pytest.mark.parametrize("zone", YEARS)
@pytest.mark.parametrize("pattern", SPARSE)
def test_a_year_of_a_pattern_happens_exactly_as_the_wall_clock_shows_it(
    zone: str, pattern: str
) -> None:
    """S2: every matching wall clock minute of the year happens once, in order."""
    times = expected(pattern, zone)
    assert walk(pattern, zone, times[0], times[-1]) == times


@pytest.mark.parametrize("zone", YEARS)
@pytest.mark.parametrize("pattern", DENSE)
def test_a_dense_pattern_is_right_for_hours_around_every_jump(zone: str, pattern: str) -> None:
    """S2: also a pattern that happens many times an hour happens once per wall clock minute."""
    for jump_ms in jumps(zone) or [ms(f"{YEARS[zone]}-06-01T00:00Z")]:
        begin_ms, end_ms = jump_ms - 4 * HOUR_MS, jump_ms + 4 * HOUR_MS
        assert walk(pattern, zone, begin_ms, end_ms) == expected(pattern, zone, begin_ms, end_ms)


def test_the_walked_years_contain_jumps_worth_testing() -> None:
    """S2: the oracle sees the clock being moved in four of the five zones."""
    assert {zone: len(jumps(zone)) > 0 for zone in YEARS} == {
        "Europe/Berlin": True,
        "America/New_York": True,
        "Australia/Lord_Howe": True,
        "America/Sao_Paulo": True,
        "Asia/Kathmandu": False,
    }


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(1, high).map(lambda every: f"*/{every}")
    several = st.lists(number, min_size=1, max_size=4).map(lambda some: ",".join(map(str, some)))
    return st.one_of(st.just("*"), number.map(str), span, step, several)


PATTERNS = st.tuples(
    field(0, 59),
    st.one_of(field(0, 3), field(0, 23)),
    st.one_of(st.just("*"), field(1, 31)),
    st.one_of(st.just("*"), field(1, 12)),
    st.one_of(st.just("*"), field(0, 6)),
).map(" ".join)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(zone=st.sampled_from(sorted(YEARS)), pattern=PATTERNS, chance=st.data())
def test_the_next_time_of_any_pattern_is_the_oracles(
    zone: str, pattern: str, chance: st.DataObject
) -> None:
    """S2: from any moment near a jump the next time is the first one the wall clock shows."""
    center_ms = chance.draw(st.sampled_from(jumps(zone) or [ms(f"{YEARS[zone]}-03-01T00:00Z")]))
    after_ms = center_ms + chance.draw(st.integers(-3 * HOUR_MS, 3 * HOUR_MS))
    end_ms = after_ms + 3 * DAY_MINUTES * MINUTE_MS
    following = [at for at in expected(pattern, zone, after_ms, end_ms) if at > after_ms]
    found = next_cron_at(pattern, after_ms, zone)
    if following:
        assert found == following[0]
    else:
        assert found is None or found > end_ms


# -- The cases one can name ---------------------------------------------------------------------


def test_a_daily_time_in_the_repeated_hour_happens_once() -> None:
    """S2: 02:30 is shown twice in Berlin on 25 October 2026 and happens the first time."""
    assert walk(
        "30 2 * * *", "Europe/Berlin", ms("2026-10-24T12:00Z"), ms("2026-10-26T12:00Z")
    ) == [
        ms("2026-10-25T02:30+02:00"),
        ms("2026-10-26T02:30+01:00"),
    ]


def test_a_daily_half_past_one_happens_once_when_new_york_repeats_it() -> None:
    """S2: 01:30 is shown twice in New York on 1 November 2026 and happens the first time."""
    found = walk("30 1 * * *", "America/New_York", ms("2026-11-01T00:00Z"), ms("2026-11-02T00:00Z"))
    assert found == [ms("2026-11-01T01:30-04:00")]


def test_no_time_in_the_past_comes_out_of_the_repeated_hour() -> None:
    """S2: asked in the second turn of the repeated hour, the next 02:30 is tomorrow's."""
    second_turn_ms = ms("2026-10-25T02:10+01:00")
    found = next_cron_at("30 2 * * *", second_turn_ms, "Europe/Berlin")
    assert found == ms("2026-10-26T02:30+01:00")


def test_a_missing_time_happens_once_at_the_jump() -> None:
    """S2: 02:30 is never shown in Berlin on 29 March 2026; it happens when 03:00 is shown."""
    assert walk(
        "30 2 * * *", "Europe/Berlin", ms("2026-03-28T12:00Z"), ms("2026-03-30T12:00Z")
    ) == [
        ms("2026-03-29T03:00+02:00"),
        ms("2026-03-30T02:30+02:00"),
    ]


def test_all_that_is_jumped_over_happens_together() -> None:
    """S2: four missing quarters and the one at the jump itself are one time."""
    assert walk(
        "*/15 * * * *", "Europe/Berlin", ms("2026-03-29T00:45Z"), ms("2026-03-29T01:15Z")
    ) == [
        ms("2026-03-29T01:45+01:00"),
        ms("2026-03-29T03:00+02:00"),
        ms("2026-03-29T03:15+02:00"),
    ]


def test_every_minute_is_silent_while_the_wall_clock_repeats_itself() -> None:
    """S2: each wall clock minute happens once, so `* * * * *` has no turn in the repeated hour."""
    last_ms = ms("2026-10-25T02:59+02:00")
    assert next_cron_at("* * * * *", last_ms, "Europe/Berlin") == ms("2026-10-25T03:00+01:00")


def test_a_whole_day_that_is_jumped_over_happens_at_the_jump() -> None:
    """S2: Apia had no 30 December 2011; its noon happened when the 31st began."""
    found = next_cron_at("0 12 30 12 *", ms("2011-12-29T12:00-10:00"), "Pacific/Apia")
    assert found == ms("2011-12-31T00:00+14:00")


def test_the_schedules_zone_goes_before_the_policys() -> None:
    """S2: cron is read in the schedule's timezone, else the policy's zone, else UTC."""
    now_ms = ms("2026-06-01T00:00Z")
    berlin = Schedule(cron="0 9 * * *", timezone="Europe/Berlin")
    bare = Schedule(cron="0 9 * * *")
    assert next_run_at(berlin, now_ms, now_ms, "Asia/Kathmandu") == ms("2026-06-01T07:00Z")
    assert next_run_at(bare, now_ms, now_ms, "Asia/Kathmandu") == ms("2026-06-01T03:15Z")
    assert next_run_at(bare, now_ms, now_ms) == ms("2026-06-01T09:00Z")


def test_missed_cron_times_come_once_together() -> None:
    """S2: after a week asleep the next time is the first one after now, not one of the missed."""
    planned_ms, now_ms = ms("2026-06-01T09:00Z"), ms("2026-06-08T10:00Z")
    assert next_run_at(Schedule(cron="0 9 * * *"), planned_ms, now_ms) == ms("2026-06-09T09:00Z")


def test_a_cron_time_does_not_come_twice_when_the_clock_was_set_back() -> None:
    """S2: a run planned for 09:00 that ends at 08:59 by a corrected clock is next due tomorrow."""
    planned_ms, now_ms = ms("2026-06-01T09:00Z"), ms("2026-06-01T08:59:59Z")
    assert next_run_at(Schedule(cron="0 9 * * *"), planned_ms, now_ms) == ms("2026-06-02T09:00Z")
