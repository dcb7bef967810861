"""When something is due: producers by the clock, consumers by what changed (S of the rules).

Law 1  Due-ness is computed from stored facts and the time alone; there is no flag to lose, so a
       restart needs none and causes no extra run (S3, S8).
Law 2  A planned time never comes twice, and missed ones come once together: the next time is
       always later than both the one before and now (S2).
Law 3  A time further away than anything that is ever planned was written by a clock that was
       wrong: it is recomputed or due, and never waited for (S2, S6).
Law 4  Nothing here reads a clock or rolls dice; times are integer milliseconds UTC.

A cron pattern is a list of wall clock minutes, and each of them happens once, even if the wall
clock jumps. A minute the clock jumps over happens at the jump, together with all others it jumps
over. A minute the clock shows twice happens the first time: in the hour that is repeated in
autumn even `* * * * *` is silent, since every one of its minutes has had its turn. An author who
needs an even pace writes an interval, which knows no wall clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, cast
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from duly.config import Backoff
from duly.errors import Invalid, RequestRefused, do, see
from duly.rules.planned import Pace, Planned
from duly.rules.value import refuse_unknown

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

EMPTY_PUBLISH_PAUSE_MS: Final = 30 * SECOND_MS  # S3: what holds back a consumer that feeds itself
RETRY_AFTER_MAX_MS: Final = DAY_MS  # F2: no outside can put us off for longer
WAIT_MAX_MS: Final = DAY_MS + HOUR_MS  # no wait is longer; a later time is a wrong clock's
WAKE_SLACK_MS: Final = 5 * MINUTE_MS  # S6: a wakeAt further away than the maximum and this is due
WAKE_CHARS_MAX: Final = 100
INTERVAL_MAX_MS: Final = 36_525 * DAY_MS  # a century: beyond it the sum leaves the calendar
CRON_CHARS_MAX: Final = 200
JITTER: Final = 0.2  # F2: × 0.8–1.2

UNIT_MS: Final[Mapping[str, int]] = {"s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}

_INTERVAL: Final = re.compile(r"([0-9]{1,12})([smhd])", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MINUTE: Final = timedelta(minutes=1)


# -- What a schedule is (W2, W5) ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a producer runs: at an interval, by a cron pattern, or, with neither, only by hand."""

    interval_ms: int | None = None
    cron: str | None = None
    timezone: str | None = None
    on_deploy: bool = True  # due as soon as it is deployed, not first at its own time (W2)


MANUAL: Final = Schedule()


def parse(declared: object, *, path: str = "schedule") -> Schedule:
    """Read a declared schedule; nothing declared is a producer that runs only by hand (W2, W5)."""
    if declared is None:
        return MANUAL
    if not isinstance(declared, Mapping):
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "schedule"})
    refuse_unknown(declared, ("interval", "cron", "timezone", "on_deploy"), path)
    if ("interval" in declared) == ("cron" in declared):
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "interval_or_cron"})
    on_deploy = declared.get("on_deploy", True)
    if not isinstance(on_deploy, bool):
        raise Invalid(
            code="wrong_value", path=f"{path}.on_deploy", facts={"wanted": "true_or_false"}
        )
    if "interval" not in declared:
        timezone = _parse_timezone(declared.get("timezone"), f"{path}.timezone")
        cron = _parse_cron(declared["cron"], f"{path}.cron")
        return Schedule(cron=cron, timezone=timezone, on_deploy=on_deploy)
    if "timezone" in declared:
        raise Invalid(code="interval_timezone", path=f"{path}.timezone")
    interval_ms = _parse_interval(declared["interval"], f"{path}.interval")
    return Schedule(interval_ms=interval_ms, on_deploy=on_deploy)


def declare(schedule: Schedule) -> dict[str, str | bool] | None:
    """Write a schedule so that `parse` reads the same one again; it is stored like this (W7)."""
    late: dict[str, str | bool] = {} if schedule.on_deploy else {"on_deploy": False}
    if schedule.interval_ms is not None:
        return {"interval": f"{schedule.interval_ms // SECOND_MS}s", **late}
    if schedule.cron is None:
        return None
    zone = {} if schedule.timezone is None else {"timezone": schedule.timezone}
    return {"cron": schedule.cron, **zone, **late}


def plan(producer: str, schedule: Schedule) -> Planned:
    """Show a schedule as a fact."""
    if schedule.interval_ms is not None:
        every_s = schedule.interval_ms // SECOND_MS
        return Planned(producer, Pace.INTERVAL, every_s, on_deploy=schedule.on_deploy)
    if schedule.cron is None:
        return Planned(producer, Pace.MANUAL)
    return Planned(
        producer,
        Pace.CRON,
        cron=schedule.cron,
        timezone=schedule.timezone,
        on_deploy=schedule.on_deploy,
    )


def _parse_interval(text: object, path: str) -> int:
    match = _INTERVAL.fullmatch(text) if isinstance(text, str) else None
    if match is None or int(match[1]) < 1:
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "interval"})
    interval_ms = int(match[1]) * UNIT_MS[match[2]]
    if interval_ms > INTERVAL_MAX_MS:
        raise Invalid(
            code="too_long", path=path, facts={"limit": INTERVAL_MAX_MS // DAY_MS, "unit": "days"}
        )
    return interval_ms


def _parse_cron(text: object, path: str) -> str:
    if not isinstance(text, str) or len(text) > CRON_CHARS_MAX or len(text.split()) != 5:
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "cron"})
    pattern = " ".join(text.split())
    try:
        happens = next(CronSim(pattern, datetime(2000, 1, 1, tzinfo=UTC)), None)
    except CronSimError as error:
        raise Invalid(
            code="wrong_cron", path=path, facts={"given": pattern, "cause": str(error)}
        ) from error
    if happens is None:
        raise Invalid(code="cron_never", path=path, facts={"given": pattern})
    return pattern


def _parse_timezone(name: object, path: str) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str):
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "timezone"})
    _find_zone(name, path)
    return name


def _find_zone(name: str, path: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise Invalid(
            code="wrong_value", path=path, facts={"wanted": "timezone", "given": name[:100]}
        ) from error


# -- When a producer runs next (S2, W9) ---------------------------------------------------------


def next_run_at(schedule: Schedule, planned_ms: int, now_ms: int, zone: str = "UTC") -> int | None:
    """Return the first time after the planned one and now; `None` for a manual producer (S2).

    A planned time that is further away than the next one is a wrong clock's and is passed over, so
    what is answered is never further away than two intervals, or than the second next cron time.
    """
    if schedule.interval_ms is not None:
        # The first planned time + k × interval after now; k may be negative.
        steps = (now_ms - planned_ms) // schedule.interval_ms + 1
        first = planned_ms + steps * schedule.interval_ms
        return first + schedule.interval_ms if first == planned_ms else first
    if schedule.cron is None:
        return None
    first_cron = next_cron_at(schedule.cron, now_ms, schedule.timezone or zone)
    if first_cron is None or planned_ms <= now_ms or planned_ms > first_cron:
        return first_cron
    return next_cron_at(schedule.cron, planned_ms, schedule.timezone or zone)


def next_run_at_on_deploy(
    stored: Schedule | None,
    declared: Schedule,
    planned_ms: int | None,
    now_ms: int,
    zone: str = "UTC",
) -> int | None:
    """Return a producer's time after a deploy: kept if unchanged, else now or its own (W9, W2)."""
    first_ms = now_ms if declared.on_deploy else next_run_at(declared, now_ms, now_ms, zone)
    return planned_ms if stored == declared else first_ms


def next_cron_at(pattern: str, after_ms: int, zone: str) -> int | None:
    """Return the first moment after `after_ms` at which the pattern happens in the zone (S2).

    The pattern is walked over the wall clock, which knows no jumps, and each minute found is then
    placed in time. The order of the minutes is the order of their places. A minute before the one
    the wall clock shows has had its place; only in the second turn of a repeated
    hour do minutes still follow whose place was in the first.
    """
    zone_rules = _find_zone(zone, "timezone")
    wall_clock = moment(after_ms).astimezone(zone_rules).replace(tzinfo=None)
    for minute in CronSim(pattern, wall_clock):
        happens_ms = _place_ms(minute, zone_rules)
        if happens_ms > after_ms:
            return happens_ms
    return None


def _place_ms(minute: datetime, zone_rules: ZoneInfo) -> int:
    """Return when the wall clock first shows this minute, or jumps over it."""
    while True:
        moment = minute.replace(tzinfo=zone_rules, fold=0).astimezone(UTC)
        if moment.astimezone(zone_rules).replace(tzinfo=None) == minute:
            return _milliseconds(moment)
        minute += _MINUTE  # never shown: the first minute that is shown again is the jump


def moment(at_ms: int) -> datetime:
    """Read stored milliseconds as people do: a time with a zone, which is UTC."""
    return _EPOCH + at_ms * _MILLISECOND


def read_moment(given: object, path: str) -> int:
    """Read a time with its zone, in milliseconds."""
    try:
        at = datetime.fromisoformat(cast("str", given))
        if at.utcoffset() is not None:
            # A time at the end of the calendar may have no time in UTC.
            return round(at.astimezone(UTC).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        pass
    raise Invalid(code="wrong_value", path=path, facts={"wanted": "aware_time"})


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


# -- What is due (S1, S3, S4, S8, S9) -----------------------------------------------------------


class DueBy(StrEnum):
    """Why a consumer is due (S3)."""

    NEW_VERSION = "new version"
    CHANGED = "changed"
    WAKE = "wake"


@dataclass(frozen=True, slots=True)
class Producer:
    """What the store knows of a producer's time."""

    next_run_at: int | None


@dataclass(frozen=True, slots=True)
class Consumer:
    """What the store knows of a consumer (S3).

    `changed` is the number of the last change to its topics, `seen` the number its last committed
    run had looked at; `not_before_ms` holds back one that reserved nothing but published;
    `wake_max_ms` is how far away a wakeAt can be asked for (S6).
    """

    changed: int
    seen: int
    committed_by_active_version: bool
    oldest_pending_seq: int | None = None
    wake_at_ms: int | None = None
    not_before_ms: int | None = None
    wake_max_ms: int = DAY_MS


def is_producer_due(producer: Producer, now_ms: int) -> bool:
    """Say whether a producer's time has come (S2)."""
    return producer.next_run_at is not None and producer.next_run_at <= now_ms


def is_consumer_due(consumer: Consumer, now_ms: int) -> bool:
    """Say whether a consumer is to be started now (S3)."""
    return why_due(consumer, now_ms) is not None


def why_due(consumer: Consumer, now_ms: int) -> DueBy | None:
    """Return the first reason to start a consumer now, or `None` (S3)."""
    if _is_held_back(consumer, now_ms):
        return None
    if not consumer.committed_by_active_version:
        return DueBy.NEW_VERSION
    if consumer.changed > consumer.seen and consumer.oldest_pending_seq is not None:
        return DueBy.CHANGED
    if _is_wake_due(consumer, now_ms):
        return DueBy.WAKE
    return None


def _is_wake_due(consumer: Consumer, now_ms: int) -> bool:
    """Say whether wakeAt has come, or is so far away that a wrong clock wrote it (S6)."""
    wake_at = consumer.wake_at_ms
    if wake_at is None:
        return False
    return wake_at <= now_ms or wake_at > now_ms + consumer.wake_max_ms + WAKE_SLACK_MS


def _is_held_back(consumer: Consumer, now_ms: int) -> bool:
    """Say whether a consumer rests; a rest that ends too late was set by a clock that was wrong."""
    until_ms = consumer.not_before_ms
    return until_ms is not None and now_ms < until_ms <= now_ms + EMPTY_PUBLISH_PAUSE_MS


def consumer_due_at(consumer: Consumer, now_ms: int) -> int | None:
    """Return when a consumer is due if nothing else happens, so that a host can sleep (S9)."""
    times = (now_ms, consumer.not_before_ms, consumer.wake_at_ms)
    moments = sorted(time for time in times if time is not None and time >= now_ms)
    return next((time for time in moments if is_consumer_due(consumer, time)), None)


def earliest(times: Iterable[int | None]) -> int | None:
    """Return the next time a host must wake at; `None` lets it sleep until it is woken (S9)."""
    return min((time for time in times if time is not None), default=None)


def pause_after_commit(reserved: int, published: int, now_ms: int) -> int | None:
    """Return until when a consumer is held back: only one that fed itself on nothing (S3)."""
    return now_ms + EMPTY_PUBLISH_PAUSE_MS if published and not reserved else None


# -- Whose turn it is (S1, S5, S7) --------------------------------------------------------------


class StartOrder(StrEnum):
    """What can be started, in the order in which it goes (S5)."""

    OPEN_RUN = "open run"
    CONSUMER = "consumer"
    PRODUCER = "producer"


TURNS: Final = {turn: place for place, turn in enumerate(StartOrder)}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something due in one workflow; `position` is where its handler was declared."""

    turn: StartOrder
    handler: str
    position: int = 0
    oldest_pending_seq: int | None = None
    next_run_at: int | None = None


def order(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Put what is due in one workflow in the order in which it goes (S5, F6)."""

    def precedence(candidate: Candidate) -> tuple[int, float, int]:
        key = candidate.next_run_at
        if candidate.turn is StartOrder.CONSUMER:
            key = candidate.oldest_pending_seq
        # A consumer without pending events goes behind every one that has some.
        return TURNS[candidate.turn], math.inf if key is None else key, candidate.position

    return tuple(sorted(candidates, key=precedence))


def run_now_refusal(workflow: str, open_run: bool, paused: bool) -> RequestRefused | None:
    """Return why *Run now* is refused, or `None` (S7)."""
    if open_run:
        return RequestRefused(code="busy", subject=workflow, next=see("why", id=workflow))
    if paused:
        return RequestRefused(
            code="workflow_paused", subject=workflow, next=do("resume", workflow=workflow)
        )
    return None


# -- How long to wait (S6, F2, L5) --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wake:
    """What a script's wakeAt became: a time or none; `ignored` shows one that is no time."""

    at_ms: int | None = None
    ignored: str | None = None


_ISO_TIME: Final = re.compile(r"[0-9W-]{7,10}(T[0-9:.,]+(Z|[+-][0-9:]+)?)?", re.ASCII)
_SHOWN_CHARS: Final = 60


def clamp_wake_at(declared: object, now_ms: int, wake_min_s: float, wake_max_s: float) -> Wake:
    """Read a wakeAt and bring it within bounds; what cannot be read is no failure (S6)."""
    if declared is None:
        return Wake()
    try:
        if not isinstance(declared, str) or len(declared) > WAKE_CHARS_MAX:
            raise ValueError
        if _ISO_TIME.fullmatch(declared) is None:
            raise ValueError
        moment = datetime.fromisoformat(declared)
    except ValueError:
        shown = (
            repr(declared)[:_SHOWN_CHARS] if isinstance(declared, str) else type(declared).__name__
        )
        return Wake(ignored=shown)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    soonest_ms = now_ms + round(wake_min_s * SECOND_MS)
    latest_ms = now_ms + round(wake_max_s * SECOND_MS)
    return Wake(at_ms=min(max(_milliseconds(moment), soonest_ms), latest_ms))


def reconcile_delay_ms(backoff: Backoff, attempt: int) -> int:
    """Return how long to wait before asking again, `attempt` counted from 0 (L5)."""
    delay_s = backoff.first_s
    for _ in range(attempt):
        delay_s *= backoff.factor
        if delay_s >= backoff.longest_s:
            break
    return math.ceil(min(delay_s, backoff.longest_s) * SECOND_MS)


def backoff_ms(
    backoff: Backoff, count: int, jitter: float, retry_after_s: float | None = None
) -> int:
    """Return how long a transient failure waits, `count` failures before it, `jitter` in [0, 1).

    Jitter spreads what failed together; Retry-After only ever lengthens the wait (F2).
    """
    spread = 1 - JITTER + 2 * JITTER * jitter
    delay_ms = math.ceil(reconcile_delay_ms(backoff, count) * spread)
    return at_least_retry_after(delay_ms, retry_after_s)


def at_least_retry_after(delay_ms: int, retry_after_s: float | None) -> int:
    """Lengthen a wait to what the outside asked for, at most a day (F2)."""
    # A connector may hand on a header as it came, which is no number of seconds.
    if not isinstance(retry_after_s, int | float) or math.isnan(retry_after_s):
        return delay_ms
    return max(delay_ms, math.ceil(min(retry_after_s * SECOND_MS, RETRY_AFTER_MAX_MS)))
