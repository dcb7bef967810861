"""One thing that `duly doctor` looked at, and how it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How one thing is."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: how it is, in a sentence, and what to do about it."""

    what: str
    state: State
    sentence: str
    advice: str = ""
