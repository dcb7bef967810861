"""The built-in connector `clock`, and the base of connectors that need the host's time.

Law: the time is the host's own, so it is virtual where the host's is. A connector that is not in a
host yet asks the machine.

No interpreter of the sandbox knows time zones, so scripts ask for wall clock times here. A wall
time that is jumped over in spring comes at the jump, one that is shown twice in autumn comes the
first time: the same rule by which producers run (S2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypedDict
from zoneinfo import ZoneInfo

from duly.connectors.base import Connector, read
from duly.env import Env, Loop
from duly.errors import Invalid, Refused
from duly.rules import schedule

WALL_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
WEEKDAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")


class Timed(Connector):
    """A connector that needs the time; the host gives it the host's own."""

    _env: Env | None = None

    def keep_time(self, env: Env) -> None:
        """Take the time from this environment from now on."""
        object.__setattr__(self, "_env", env)  # A connector may be a frozen dataclass.

    def now_ms(self) -> int:
        """Return the wall clock, in milliseconds since 1970 UTC."""
        if self._env is None:
            self.keep_time(Loop())
        assert self._env is not None
        return self._env.now_ms()

    def monotonic_ms(self) -> int:
        """Return a clock that cannot be set, to measure how long something takes."""
        if self._env is None:
            self.keep_time(Loop())
        assert self._env is not None
        return self._env.monotonic_ms()


class Now(TypedDict):
    """This moment, in three spellings."""

    iso: str
    unix_ms: int
    local: str


class Clock(Timed):
    """Tells scripts the time; every host has one without being given it."""

    name = "clock"

    @read
    async def now(self, timezone: str = "UTC") -> Now:
        """Tell this moment in UTC, and as a wall clock in that time zone shows it.

        Returns {iso, unix_ms, local}; `local` has the offset: `2026-03-01T09:00:00.250000+01:00`.
        """
        now_ms = self.now_ms()
        local = schedule.moment(now_ms).astimezone(_zone(timezone))
        return {"iso": iso(now_ms), "unix_ms": now_ms, "local": local.isoformat()}

    @read
    async def next(self, at: str, timezone: str = "UTC", weekday: str | None = None) -> str:
        """Find the next moment at which a wall clock in that time zone shows this time.

        `at="09:00"`, `weekday="monday"`.

        Returns a text: the moment in UTC, as ISO 8601.
        """
        found = WALL_TIME.fullmatch(at)
        if found is None:
            raise Refused(f'clock.next: at is {at[:40]!r}. Write hours and minutes, as in "09:00".')
        if weekday is not None and weekday not in WEEKDAYS:
            raise Refused(
                f"clock.next: weekday is {weekday[:40]!r}. Say one of {', '.join(WEEKDAYS)}."
            )
        day = "*" if weekday is None else WEEKDAYS.index(weekday)
        _zone(timezone)
        pattern = f"{int(found[2])} {int(found[1])} * * {day}"
        next_ms = schedule.next_cron_at(pattern, self.now_ms(), timezone)
        assert next_ms is not None, pattern  # every day has every minute, or jumps over it
        return iso(next_ms)


def with_clock(connectors: Iterable[Connector]) -> tuple[Connector, ...]:
    """Add the built-in clock, unless a connector of that name is given."""
    given = tuple(connectors)
    is_given = any(getattr(each, "name", None) == Clock.name for each in given)
    return given if is_given else (*given, Clock())


def iso(at_ms: int) -> str:
    """Write a moment as ISO 8601 in UTC, to the millisecond."""
    return schedule.moment(at_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _zone(name: str) -> ZoneInfo:
    try:
        schedule.parse({"cron": "0 0 * * *", "timezone": name}, path="clock")
    except Invalid as error:
        raise Refused(str(error)) from error
    return ZoneInfo(name)
