"""An outage: the time during which a chain of runs finds the outside unreachable (F2).

Law 1  An outage never waits for a person. It is retried for as long as it lasts; after an hour the
       person is told once, and nothing is needed from them.
Law 2  How long it has lasted is the sum of the waits the host went through, never a difference of
       two readings of the clock: a clock that is set neither hides the hour nor makes it come
       twice. `since_ms` is for words alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from duly.config import Backoff
from duly.rules.schedule import (
    HOUR_MS,
    JITTER,
    SECOND_MS,
    at_least_retry_after,
    reconcile_delay_ms,
)

NOTICE_AFTER_MS: Final = HOUR_MS


@dataclass(frozen=True, slots=True)
class Outage:
    """What a chain keeps of an outage: since when, how often it failed, how long it has waited."""

    since_ms: int
    failures: int = 0
    waited_ms: int = 0
    is_told: bool = False


def wait_ms(
    backoff: Backoff, failures: int, jitter: float, retry_after_s: float | None = None
) -> int:
    """Return how long to wait, `failures` before this one, `jitter` in [0, 1) (F2).

    The first attempts come as after any temporary error, with their jitter. After them the longest
    wait is also the upper bound: jitter only shortens it, so that work goes on no later than that
    after the outside is back.
    """
    if failures < backoff.attempts:
        spread = 1 - JITTER + 2 * JITTER * jitter
        delay_ms = math.ceil(reconcile_delay_ms(backoff, failures) * spread)
    else:
        delay_ms = math.ceil(backoff.longest_s * SECOND_MS * (1 - JITTER * jitter))
    return at_least_retry_after(delay_ms, retry_after_s)


def go_on(outage: Outage | None, now_ms: int, next_wait_ms: int) -> Outage:
    """Count one more failure and the wait that follows it.

    The person is told when the waits so far make an hour, or when the next one alone does.
    """
    if outage is None:
        outage = Outage(now_ms)
    is_long = outage.waited_ms >= NOTICE_AFTER_MS or next_wait_ms >= NOTICE_AFTER_MS
    return Outage(
        since_ms=min(outage.since_ms, now_ms),  # a later time was written by a clock set back since
        failures=outage.failures + 1,
        waited_ms=outage.waited_ms + next_wait_ms,
        is_told=outage.is_told or is_long,
    )


def answered(outage: Outage | None) -> Outage | None:
    """End an outage of questions about a call: one was answered (L5).

    A person who was told that they may answer may still do so: that is kept.
    """
    if outage is None or not outage.is_told:
        return None
    return replace(outage, failures=0, waited_ms=0)


def is_news(before: Outage | None, after: Outage) -> bool:
    """Tell whether a person is informed now, which happens once in an outage (F2, L5)."""
    return after.is_told and not (before is not None and before.is_told)
