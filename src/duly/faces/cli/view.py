"""How one answer is shown: short or at length, in which zone, and how each id is written (U6).

Law 1  A time names its zone: in a sentence behind the time, in a table once, in the head of its
       column. The zone is that of the project, as in every sentence the host makes.
Law 2  An id is shown as short as still names one thing; the host says how short that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from duly.api.clock import read_clocks
from duly.api.word import is_whole
from duly.words import Clock

OFFERS_SHOWN: Final = 3
OFFERS_SHOWN_FULL: Final = 5
IDS_MAX: Final = 1000  # so many a host shortens in one question; the rest is shown in full


@dataclass(frozen=True, slots=True)
class View:
    """How one answer is shown; `ids` maps an id to how it is written here."""

    is_full: bool = False
    zone: str = "UTC"
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def offers_max(self) -> int:
        """How much of what can be done is written down."""
        return OFFERS_SHOWN_FULL if self.is_full else OFFERS_SHOWN

    @property
    def clock(self) -> Clock:
        """The time and the zone, for sentences that are made here."""
        return Clock(read_clocks()[0], self.zone)

    def at(self, moment: str | None) -> str:
        """Write a time in a sentence, with the zone behind it."""
        return "" if moment is None else f"{self._there(moment):%Y-%m-%d %H:%M:%S %Z}"

    def cell(self, moment: str | None) -> str:
        """Write a time in a table, whose head names the zone."""
        return "" if moment is None else f"{self._there(moment):%Y-%m-%d %H:%M:%S}"

    def head(self, name: str) -> str:
        """Write the head of a column of times."""
        return f"{name} ({self.zone})"

    def _there(self, moment: str) -> datetime:
        return datetime.fromisoformat(moment).astimezone(ZoneInfo(self.zone))

    def named(self, whole: str) -> str:
        """Write an id with its kind, where it could be of several."""
        return self.ids.get(whole, whole)

    def id(self, whole: str) -> str:
        """Write an id without its kind, where only one is possible."""
        short = self.ids.get(whole)
        return whole if short is None else short.partition("_")[2]


def list_ids(answer: Any) -> list[str]:
    """List the ids an answer has, each once, as many as a host shortens in one question."""
    return list(dict.fromkeys(_walk(answer)))[:IDS_MAX]


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if is_whole(value):
            yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _walk(each)
    elif isinstance(value, list):
        for each in value:
            yield from _walk(each)
