"""What a person is told of that no change of a run begins, once for each beginning (F8).

Law: whether it began anew follows from when it was told last and from when it is so; a mark that
is dated ahead, by a clock that was wrong, silences nothing for longer than a day.
"""

from __future__ import annotations

from typing import Final

from duly.rules.account import Waiting
from duly.rules.schedule import DAY_MS

ALERTED: Final = frozenset({Waiting.SILENT, Waiting.STALE, Waiting.NO_BACKUP})
SKEW_MS: Final = DAY_MS  # more than the clocks of two hosts differ


def begun_at(code: str, since_ms: int, days: int) -> int:
    """Return when what is listed under attention began to be so.

    Inputs are stale since the oldest of them was `days` old: what was told of is over when none of
    those inputs is left. A backup that fails has no beginning here: a good one ends it by a word.
    """
    if code == Waiting.NO_BACKUP:
        return 0
    return since_ms + days * DAY_MS if code == Waiting.STALE else since_ms


def is_new(told_ms: int | None, begun_ms: int, now_ms: int) -> bool:
    """Tell whether a person has not been told of what began at a moment."""
    return told_ms is None or told_ms < begun_ms or told_ms > now_ms + SKEW_MS
