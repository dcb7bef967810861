"""When a producer runs, as a fact to show (U1); `rules/schedule.py` decides it.

It stands apart so that a face can say it without the machinery of schedules.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Pace(StrEnum):
    """What starts a producer."""

    INTERVAL = "interval"
    CRON = "cron"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Planned:
    """When one producer of a workflow runs, as a fact to show (U1)."""

    producer: str
    kind: Pace
    every_s: int | None = None
    cron: str | None = None
    timezone: str | None = None
    on_deploy: bool = True
