"""What handlers came to, until the store has it (H3).

Law: a result stays here until the store has taken it, and no handler is called again for it. Each
is tried by itself: one that the store refuses holds up its own lane and no other (B6), and is tried
again at growing intervals, each time with a line in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from duly.bus.attempt import EndedAttempt
from duly.env import Env
from duly.loop import REST_MS

REST_LONGEST_MS: Final = 300_000  # between two tries to record the same result

log = logging.getLogger("duly.bus")


@dataclass(slots=True)
class _Kept:
    """A result with the time of its next try, by the clock of the boot, and why the last failed."""

    ended: EndedAttempt
    due_ms: int = 0
    rest_ms: int = REST_MS
    error: Exception | None = None


class Unrecorded:
    """The results that the store does not have yet, at most one of each subscriber."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._kept: dict[str, _Kept] = {}

    def __contains__(self, subscriber_id: object) -> bool:
        return subscriber_id in self._kept

    def keep(self, ended: EndedAttempt) -> None:
        """Keep a result that is to be recorded now."""
        self._kept[ended.subscriber_id] = _Kept(ended)

    def drop(self, ended: EndedAttempt) -> None:
        """Forget a result: the store has it, or will never take it."""
        self._kept.pop(ended.subscriber_id, None)

    def clear(self) -> None:
        """Forget every result: another host calls these subscribers now (H8)."""
        self._kept.clear()

    def postpone(self, ended: EndedAttempt, error: Exception) -> None:
        """Try a result again later, each time twice as late as before."""
        if (kept := self._kept.get(ended.subscriber_id)) is None:
            return
        log.error(
            "the result of event %s for %s is not recorded yet; the next try is in %s s: %s",
            ended.event_id,
            ended.subscriber_id,
            kept.rest_ms // 1000,
            error,
            exc_info=error,
        )
        kept.error = error
        kept.due_ms = self._env.boot().ms + kept.rest_ms
        kept.rest_ms = min(2 * kept.rest_ms, REST_LONGEST_MS)

    def hurry(self) -> None:
        """Try every result at the next look: a caller begins to work, or the host stops."""
        for kept in self._kept.values():
            kept.due_ms = 0

    def due(self, at_work: Container[str | int]) -> list[EndedAttempt]:
        """Return what is to be tried now; not what a lane that is at work is recording itself."""
        now_ms = self._env.boot().ms
        rest = ((name, kept) for name, kept in self._kept.items() if name not in at_work)
        return [kept.ended for _, kept in rest if kept.due_ms <= now_ms]

    def pairs(self, at_work: Container[str | int] = ()) -> frozenset[tuple[int, str]]:
        """Return event and subscriber of each result that no lane at work is recording itself."""
        return frozenset(
            (kept.ended.event_id, name) for name, kept in self._kept.items() if name not in at_work
        )

    @property
    def next_at(self) -> int | None:
        """When to look again, as the wall clock shows it now; None if nothing waits for a try."""
        waits = [kept.due_ms for kept in self._kept.values() if kept.error is not None]
        if not waits:
            return None
        return self._env.now_ms() + max(0, min(waits) - self._env.boot().ms)

    @property
    def error(self) -> Exception | None:
        """Why the first of these results is not recorded; None if each has still to be tried."""
        errors = (kept.error for kept in self._kept.values())
        return next((error for error in errors if error is not None), None)
