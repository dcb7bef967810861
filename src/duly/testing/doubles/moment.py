"""The clock of a double: that of the machine, since a connector compares its times with its own."""

from __future__ import annotations

from typing import Final

from duly.env import Loop
from duly.rules.schedule import moment

CLOCK: Final = Loop()


def wall_ms() -> int:
    """Return the moment in milliseconds since 1970."""
    return CLOCK.now_ms()


def write_moment(form: str) -> str:
    """Write the moment, in UTC."""
    return moment(wall_ms()).strftime(form)
