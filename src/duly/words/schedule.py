"""Schedules in words: “Checks every 5 minutes”, “Runs daily at 9am” (U1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from duly.rules.planned import Planned
from duly.words.phrase import Clock

UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
DAYS: Final = ("Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays")
DAY_WORDS: Final[Mapping[str, str]] = {
    "*": "daily",
    "1-5": "on weekdays",
    "MON-FRI": "on weekdays",
    **{str(number): f"on {day}" for number, day in enumerate((*DAYS, "Sundays"))},
    **{day[:3].upper(): f"on {day}" for day in DAYS},
}
SIMPLE_CRON: Final = re.compile(r"([0-9]{1,2}) ([0-9]{1,2}) \* \* (\S+)", re.ASCII)


def say_schedule(planned: Planned, clock: Clock) -> str:
    """Say a schedule in words; a zone other than the reader's is named (U1)."""
    if planned.every_s is not None:
        return f"Checks every {_say_interval(planned.every_s)}"
    if planned.cron is None:
        return "Runs only when you ask"
    is_foreign = planned.timezone is not None and planned.timezone != clock.zone
    where = f" ({planned.timezone})" if is_foreign else ""
    simple = SIMPLE_CRON.fullmatch(planned.cron)
    days = DAY_WORDS.get(simple[3].upper()) if simple else None
    if simple is None or days is None:
        return f"Runs on the schedule {planned.cron}{where}"
    return f"Runs {days} at {_say_time(int(simple[2]), int(simple[1]))}{where}"


def say_next(at: datetime | None, clock: Clock) -> str:
    """Say how far away the next check is, rounded up so that it never comes late (U1)."""
    return "No check is planned" if at is None else f"Next check {clock.say_wait(at)}"


def _say_interval(every_s: int) -> str:
    unit_s, word = next((unit, word) for unit, word in UNITS if every_s % unit == 0)
    count = every_s // unit_s
    return word if count == 1 else f"{count} {word}s"


def _say_time(hour: int, minute: int) -> str:
    if minute == 0 and hour in (0, 12):
        return "midnight" if hour == 0 else "noon"
    shown = f":{minute:02}" if minute else ""
    return f"{hour % 12 or 12}{shown}{'am' if hour < 12 else 'pm'}"
