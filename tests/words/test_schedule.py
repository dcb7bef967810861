"""Schedules in the words a person reads."""

from __future__ import annotations

import pytest

from duly.rules import schedule
from duly.rules.schedule import DAY_MS, HOUR_MS, MINUTE_MS
from duly.words import Clock, say_next, say_schedule

NOW = 1_780_000_000_000


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (None, "Runs only when you ask"),
        ({"interval": "5m"}, "Checks every 5 minutes"),
        ({"interval": "60s"}, "Checks every minute"),
        ({"interval": "90s"}, "Checks every 90 seconds"),
        ({"interval": "1s"}, "Checks every second"),
        ({"interval": "90m"}, "Checks every 90 minutes"),
        ({"interval": "24h"}, "Checks every day"),
        ({"cron": "0 9 * * *"}, "Runs daily at 9am"),
        ({"cron": "30 17 * * *"}, "Runs daily at 5:30pm"),
        ({"cron": "5 0 * * *"}, "Runs daily at 12:05am"),
        ({"cron": "0 0 * * *"}, "Runs daily at midnight"),
        ({"cron": "0 12 * * 1-5"}, "Runs on weekdays at noon"),
        ({"cron": "0 9 * * mon"}, "Runs on Mondays at 9am"),
        ({"cron": "0 9 * * 0"}, "Runs on Sundays at 9am"),
        ({"cron": "0 9 * * 7"}, "Runs on Sundays at 9am"),
        ({"cron": "0 9 1 * *"}, "Runs on the schedule 0 9 1 * *"),
        ({"cron": "0 9 * * 1,3"}, "Runs on the schedule 0 9 * * 1,3"),
        ({"cron": "0 9 * * *", "timezone": "UTC"}, "Runs daily at 9am"),
        ({"cron": "0 9 * * *", "timezone": "Asia/Tokyo"}, "Runs daily at 9am (Asia/Tokyo)"),
    ],
)
def test_a_schedule_is_said_in_words(declared: object, words: str) -> None:
    """U1: a person reads when, and a zone only where it is not their own."""
    assert say_schedule(schedule.plan("poll", schedule.parse(declared)), Clock(NOW)) == words


@pytest.mark.parametrize(
    ("wait_ms", "words"),
    [
        (-1, "Next check now"),
        (0, "Next check now"),
        (1, "Next check in 1 s"),
        (60_000, "Next check in 60 s"),
        (60_001, "Next check in 2 min"),
        (3 * MINUTE_MS, "Next check in 3 min"),
        (HOUR_MS + 1, "Next check in 2 h"),
        (2 * DAY_MS + 1, "Next check in 3 days"),
    ],
)
def test_the_next_check_is_said_in_words(wait_ms: int, words: str) -> None:
    """U1: rounded up, so that it never comes later than it was said."""
    assert say_next(schedule.moment(NOW + wait_ms), Clock(NOW)) == words


def test_a_producer_without_a_plan_says_so() -> None:
    """U1: there is no next check to speak of."""
    assert say_next(None, Clock(NOW)) == "No check is planned"
