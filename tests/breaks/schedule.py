"""The breaks of schedules and deliveries (S, B): each takes one guard away.

B9, B10 and B14 are not here: extensions, built-in topics and views are proved where they live.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

from duly.rules import deferral, delivery, schedule
from duly.rules.deferral import Deferred
from duly.rules.delivery import Delivery, Event, JournalStatus
from duly.rules.schedule import Candidate, Consumer, DueBy, Schedule, Wake
from duly.rules.value import encode
from tests.breaks import Break

DUE = "tests/rules/test_schedule.py"
CRON = "tests/rules/test_schedule_cron.py"
WALK = "tests/rules/test_schedule_due.py"
TURN = "tests/rules/test_turn.py"
BUS = "tests/rules/test_delivery.py"
DEFERRAL = "tests/rules/test_deferral.py"

_why_due = schedule.why_due
_parse_delay_ms = delivery.parse_delay_ms
_judge = delivery.judge


def schedule_break(
    rule: str, attribute: str, replacement: object, says: str, test: str = DUE
) -> Break:
    return Break(rule, "duly.rules.schedule", attribute, replacement, (test,), says)


def deferral_break(attribute: str, replacement: object, says: str) -> Break:
    return Break("B2", "duly.rules.deferral", attribute, replacement, (DEFERRAL,), says)


def bus_break(rule: str, attribute: str, replacement: object, says: str) -> Break:
    return Break(rule, "duly.rules.delivery", attribute, replacement, (BUS,), says)


# -- Schedules ------------------------------------------------------------------------------


def drift(declared: Schedule, planned_ms: int, now_ms: int, zone: str = "UTC") -> int | None:
    if declared.interval_ms is not None:
        return now_ms + declared.interval_ms
    return schedule.next_cron_at(declared.cron or "", now_ms, declared.timezone or zone)


def trust_the_library(pattern: str, after_ms: int, zone: str) -> int | None:
    local = datetime.fromtimestamp(after_ms / 1000, ZoneInfo(zone))
    return int(next(CronSim(pattern, local)).timestamp() * 1000)


def place_minute_without_jump(minute: datetime, zone_rules: ZoneInfo) -> int:
    return int(minute.replace(tzinfo=zone_rules).astimezone(UTC).timestamp() * 1000)


def forget_new_versions(consumer: Consumer, now_ms: int) -> DueBy | None:
    return _why_due(replace(consumer, committed_by_active_version=True), now_ms)


def miss_changes_behind_the_oldest(consumer: Consumer, now_ms: int) -> DueBy | None:
    """Look at the number of the oldest pending event instead of what changed since."""
    oldest = consumer.oldest_pending_seq
    return _why_due(replace(consumer, changed=0 if oldest is None else oldest), now_ms)


def look_again_at_what_is_pending(consumer: Consumer, now_ms: int) -> DueBy | None:
    return DueBy.CHANGED if consumer.oldest_pending_seq else _why_due(consumer, now_ms)


def poll_consumers(consumer: Consumer, now_ms: int) -> int | None:
    return now_ms + 5_000 if _why_due(consumer, now_ms) else consumer.wake_at_ms


def order_by_declaration(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    return tuple(sorted(candidates, key=lambda each: (schedule.TURNS[each.turn], each.position)))


def wake_unbounded(declared: object, now_ms: int, wake_min_s: float, wake_max_s: float) -> Wake:
    moment = datetime.fromisoformat(str(declared)).replace(tzinfo=UTC)
    return Wake(int(moment.timestamp() * 1000))


# -- The bus --------------------------------------------------------------------------------


def read_any_delay(delay: object) -> int:
    return 0 if delay != delay else _parse_delay_ms(delay)


def fire_as_found(deferred: Iterable[Deferred], now_ms: int) -> tuple[Deferred, ...]:
    return tuple(each for each in deferred if each.due_ms <= now_ms)


def start_whatever_is_due(
    lane: Callable[[Delivery], object],
) -> Callable[[Iterable[Delivery], Container[str], int], tuple[Delivery, ...]]:
    """Keep one thing at a time in each lane, and look at nothing else."""

    def startable(
        deliveries: Iterable[Delivery], connected: Container[str], now_ms: int
    ) -> tuple[Delivery, ...]:
        taken: set[object] = set()
        chosen = []
        for each in sorted(deliveries, key=lambda one: (one.event_id, one.position)):
            if each.status in delivery.OPEN and lane(each) not in taken:
                taken.add(lane(each))
                if each.status is delivery.DeliveryStatus.WAITING and each.due_at_ms <= now_ms:
                    chosen.append(each)
        return tuple(chosen)

    return startable


def forgive(deliveries: Iterable[Delivery]) -> JournalStatus:
    judged = _judge(deliveries)
    return JournalStatus.DONE if judged is JournalStatus.FAILED else judged


def keep_lonely_events(deliveries: Iterable[Delivery]) -> JournalStatus:
    found = list(deliveries)
    return _judge(found) if found else JournalStatus.PENDING


def begin_uncounted(each: Delivery) -> Delivery:
    return replace(each, status=delivery.DeliveryStatus.RUNNING)


def share_event(event: Event) -> Event:
    return event


BREAKS = (
    schedule_break("S2", "next_run_at", drift, "an interval drifts with each late run"),
    schedule_break("S2", "next_cron_at", trust_the_library, "a repeated time happens twice", CRON),
    schedule_break("S2", "_place_ms", place_minute_without_jump, "a missing time is late", CRON),
    schedule_break("S3", "why_due", forget_new_versions, "a new version waits for an event"),
    schedule_break(
        "S3",
        "why_due",
        miss_changes_behind_the_oldest,
        "a change to what was seen before is not seen",
        WALK,
    ),
    schedule_break(
        "S3", "EMPTY_PUBLISH_PAUSE_MS", 0, "a script that feeds itself is not held back"
    ),
    schedule_break("S4", "consumer_due_at", poll_consumers, "a new event waits for a poll"),
    schedule_break("S5", "order", order_by_declaration, "the oldest event does not go first"),
    schedule_break(
        "S5",
        "TURNS",
        {turn: -place for turn, place in schedule.TURNS.items()},
        "producers go before consumers",
    ),
    schedule_break("S6", "clamp_wake_at", wake_unbounded, "a wakeAt is taken as it is"),
    schedule_break("S6", "WAKE_SLACK_MS", 10**15, "a wakeAt of a wrong clock is waited for", TURN),
    Break(
        "S2",
        "duly.rules.turn",
        "is_suspect",
        lambda handler, now: False,
        (TURN,),
        "a plan of a wrong clock is waited for",
    ),
    schedule_break(
        "S7", "run_now_refusal", lambda workflow, open_run, paused: None, "Run now always runs"
    ),
    schedule_break(
        "S8", "why_due", look_again_at_what_is_pending, "a restart starts what was declined"
    ),
    schedule_break(
        "S9",
        "earliest",
        lambda times: min((time for time in times if time is not None), default=0),
        "an idle host wakes for nothing",
    ),
    bus_break(
        "B1",
        "encode_payload",
        lambda payload, limits=None: encode(payload, limit_bytes=1 << 18),
        "any JSON is a payload",
    ),
    bus_break("B2", "parse_delay_ms", read_any_delay, "NaN is at once"),
    deferral_break("promotable", fire_as_found, "deferred events fire again and out of order"),
    deferral_break(
        "DEFERRED",
        {
            **deferral.DEFERRED,
            (
                deferral.DeferredStatus.FIRED,
                deferral.DeferredMove.CANCEL,
            ): deferral.DeferredStatus.CANCELLED,
        },
        "what has fired can be cancelled",
    ),
    bus_break(
        "B3",
        "startable",
        start_whatever_is_due(lambda each: (each.subscriber_id, each.topic)),
        "handlers of one event run beside each other",
    ),
    bus_break("B4", "judge", forgive, "a dead delivery does not fail its event"),
    bus_break(
        "B4",
        "DELIVERIES",
        {
            **delivery.DELIVERIES,
            (
                delivery.DeliveryStatus.DONE,
                delivery.DeliveryMove.BEGIN,
            ): delivery.DeliveryStatus.RUNNING,
        },
        "a success is called again",
    ),
    bus_break("B5", "begin", begin_uncounted, "an attempt is not counted before it runs"),
    bus_break(
        "B6",
        "startable",
        start_whatever_is_due(lambda each: each.event_id),
        "a subscriber gets a later event before an earlier one",
    ),
    bus_break(
        "B6",
        "startable",
        start_whatever_is_due(lambda each: each.topic),
        "one subscriber holds back a whole topic",
    ),
    bus_break("B7", "recover_event", lambda status: status, "what was processing stays so"),
    bus_break("B8", "copy_event", share_event, "handlers share one payload"),
    bus_break("B11", "judge", keep_lonely_events, "an event without subscribers stays pending"),
    bus_break("B12", "DEPTH_MAX", 1 << 30, "a loop goes on for ever"),
    bus_break("B12", "RESETTING_DELAY_MS", 0, "any deferral resets the depth"),
    bus_break(
        "B13",
        "subscriber_id",
        lambda extension, topic, handler, taken: f"{extension}:{topic}:{handler}",
        "a repeated subscription has the first one's name",
    ),
)
