"""The bus: what becomes of an event and of each delivery of it (B of the rules).

Law 1  One event, one delivery per subscriber. A success is final and never called again; a failed
       delivery stays in sight, as waiting, dead or discarded, and is never lost in silence (B4).
Law 2  A status moves only along its table; a key missing from a table is the error.
Law 3  Each subscriber sees a topic's events in the order of their ids, one at a time. A slow
       subscriber holds back only itself (B6).
Law 4  What is emitted while something is handled stands one step deeper; a chain that does not
       end is stopped by its depth (B12).
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, cast

from duly.config import Limits
from duly.errors import IllegalTransition, Invalid, RequestRefused, short
from duly.rules.declaration import NAME
from duly.rules.shown import cut
from duly.rules.value import DEFAULT_LIMITS, copy, encode

OWN_SOURCE: Final = "duly"  # the host itself; no other source may have this name (B1, B10)
LOOKALIKES: Final = str.maketrans("1I", "ll")  # of the letters a name may have (N)
HANDLER_TIMEOUT_S: Final = 300  # B3: a handler that takes longer has failed
DEPTH_MAX: Final = 100  # B12
RESETTING_DELAY_MS: Final = 1_000  # B12: a loop that waits is a habit, not a loop
HOST_DEATHS_MAX: Final = 3  # B5: fewer deaths than these do not park what a crash cut short
HOST_DIED: Final = "host_died"  # the error of a delivery that its host did not survive
UNSUBSCRIBED: Final = "unsubscribed before delivery"
ATTEMPTS_MAX: Final = 100
DELAY_MAX_MS: Final = 36_525 * 24 * 60 * 60 * 1_000  # a century
SUBSCRIBER_ID_CHARS: Final = 320  # three names of 100 characters and an ordinal
ERROR_CHARS: Final = 500
WIRED_BEFORE: Final = 2**40  # more registrations than there will ever be


# -- The words and their moves ------------------------------------------------------------------


class JournalStatus(StrEnum):
    """Where an event of the bus stands (B4)."""

    PENDING = "pending"
    PROCESSING = "processing"
    DONE = "done"
    FAILED = "failed"


class DeliveryStatus(StrEnum):
    """Where the delivery of one event to one subscriber stands; *waiting* also for a retry."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    DISCARDED = "discarded"


class Presence(StrEnum):
    """How a subscriber can be reached in this process."""

    HERE = "here"
    AWAY = "away"  # no handler is connected under its name (B13)
    STUCK = "stuck"  # its last call was cancelled and still runs (B3)


class DeliveryMove(StrEnum):
    """What can happen to a delivery."""

    BEGIN = "begin"
    SUCCEED = "succeed"
    FAIL = "fail"
    GIVE_UP = "give up"
    LOSE_HOST = "lose its host"
    GIVE_BACK = "be given back"
    RETRY = "be retried"
    DISCARD = "be discarded"
    LOSE_SUBSCRIBER = "lose its subscriber"


# An event fails without a call when it stands too deep (B12) or cannot be read (B7); it is done
# without one when it has no subscriber (B11). A retry opens a failed event again (B5).
JOURNAL: Final[Mapping[JournalStatus, frozenset[JournalStatus]]] = {
    JournalStatus.PENDING: frozenset(
        {JournalStatus.PROCESSING, JournalStatus.DONE, JournalStatus.FAILED}
    ),
    JournalStatus.PROCESSING: frozenset(
        {JournalStatus.PENDING, JournalStatus.DONE, JournalStatus.FAILED}
    ),
    JournalStatus.FAILED: frozenset({JournalStatus.PROCESSING}),
    JournalStatus.DONE: frozenset(),
}


def first_status(*, is_heard: bool) -> JournalStatus:
    """Return what a new event is: one that has no subscriber is over (B11)."""
    return JournalStatus.PENDING if is_heard else JournalStatus.DONE


DELIVERIES: Final[Mapping[tuple[DeliveryStatus, DeliveryMove], DeliveryStatus]] = {
    (DeliveryStatus.WAITING, DeliveryMove.BEGIN): DeliveryStatus.RUNNING,
    (DeliveryStatus.WAITING, DeliveryMove.LOSE_SUBSCRIBER): DeliveryStatus.DISCARDED,
    (DeliveryStatus.RUNNING, DeliveryMove.SUCCEED): DeliveryStatus.DONE,
    (DeliveryStatus.RUNNING, DeliveryMove.FAIL): DeliveryStatus.WAITING,
    (DeliveryStatus.RUNNING, DeliveryMove.GIVE_UP): DeliveryStatus.DEAD,
    (DeliveryStatus.RUNNING, DeliveryMove.LOSE_HOST): DeliveryStatus.WAITING,
    (DeliveryStatus.RUNNING, DeliveryMove.GIVE_BACK): DeliveryStatus.WAITING,
    (DeliveryStatus.DEAD, DeliveryMove.RETRY): DeliveryStatus.WAITING,
    (DeliveryStatus.DEAD, DeliveryMove.DISCARD): DeliveryStatus.DISCARDED,
}

OPEN: Final = frozenset({DeliveryStatus.WAITING, DeliveryStatus.RUNNING})


def move_delivery(status: DeliveryStatus, move: DeliveryMove) -> DeliveryStatus:
    """Return a delivery's status after a move (B4, B5)."""
    try:
        return DELIVERIES[status, move]
    except KeyError:
        raise IllegalTransition(
            code="bug", facts={"detail": "delivery", "status": status, "move": move}
        ) from None


# -- What is put on the bus (B1, B2, B8, B12, B13) ----------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """What a handler gets: the id is the same however often it is called (B8)."""

    id: int
    topic: str
    source: str
    payload: dict[str, Any]
    created_at: float
    correlation_id: str | None = None
    status: str = "processing"


def copy_event(event: Event) -> Event:
    """Give a handler its own copy, so that no handler sees what another did to it (B8)."""
    return replace(event, payload=cast("dict[str, Any]", copy(event.payload)))


def check_topic(topic: object, limits: Limits = DEFAULT_LIMITS) -> str:
    """Refuse what is not the name of a topic (N)."""
    is_name = isinstance(topic, str) and NAME.fullmatch(topic) is not None
    if not isinstance(topic, str) or not is_name or len(topic) > limits.name_chars:
        facts = {"given": short(topic), "most": limits.name_chars}
        raise Invalid(code="not_name", path="topic", facts=facts)
    return topic


def check_source(source: object, limits: Limits = DEFAULT_LIMITS) -> str:
    """Refuse what cannot be the name of a source on the bus (B1, N)."""
    is_name = isinstance(source, str) and NAME.fullmatch(source) is not None
    if not isinstance(source, str) or not is_name or len(source) > limits.name_chars:
        raise Invalid(code="not_name", path="source", facts={"most": limits.name_chars})
    return source


def looks_like_own(source: str) -> bool:
    """Tell whether a person would read a name as the host's own: DULY, du1y, duIy (B1)."""
    return source.translate(LOOKALIKES).casefold() == OWN_SOURCE


def encode_payload(payload: object, limits: Limits = DEFAULT_LIMITS) -> str:
    """Refuse what is not a JSON object within its size; else copy it, as the text kept (B1)."""
    if type(payload) is not dict:
        raise Invalid(code="wrong_value", path="payload", facts={"wanted": "object"})
    most_bytes, depth = limits.payload_bytes, limits.json_depth
    return encode(payload, "payload", limit_bytes=most_bytes, depth=depth)


def parse_delay_ms(delay: object) -> int:
    """Read a delay in seconds or as a timedelta; none or less is at once (B2).

    A fraction of a millisecond is rounded up: an event fires not before its time.
    """
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds != seconds:
        raise Invalid(code="wrong_value", path="delay", facts={"wanted": "duration"})
    # Bounded before it is multiplied: infinity has no ceiling.
    delay_ms = math.ceil(min(max(seconds, 0), DELAY_MAX_MS) * 1_000)
    if delay_ms > DELAY_MAX_MS:
        raise Invalid(code="too_long", path="delay", facts={"limit": 100, "unit": "years"})
    return delay_ms


def depth_after(handled: int | None, delay_ms: int = 0) -> int:
    """Return how deep an event stands that is emitted while one at `handled` is handled (B12)."""
    if handled is None or delay_ms >= RESETTING_DELAY_MS:
        return 0
    return handled + 1


def starts_runs(source: str, caused_by: str | None) -> bool:
    """Tell whether an event may go into workflows (B12).

    What the host announces of a run that an announcement had started does not: two workflows that
    listen to commits would otherwise start each other, twice as many at every step.
    """
    return not (source == OWN_SOURCE and caused_by == OWN_SOURCE)


def is_loop(depth: int) -> bool:
    """Tell whether an event stands too deep in a chain of events, and so is failed (B12)."""
    return depth > DEPTH_MAX


def subscriber_id(extension: str, topic: str, handler: str, taken: Container[str]) -> str:
    """Name a subscription; a repeated one gets an ordinal, in the order of registration (B13)."""
    name, ordinal = f"{extension}:{topic}:{handler}", 1
    found = name
    while found in taken:
        ordinal += 1
        found = f"{name}:{ordinal}"
    return found


def listens_elsewhere(subscriber_id: str, known: str, topic: str) -> RequestRefused:
    """Return why a subscriber cannot subscribe to a topic: it listens to another one (B13)."""
    return RequestRefused(
        code="listens_elsewhere", subject=subscriber_id, facts={"known": known, "topic": topic}
    )


def is_addressed(
    subscriber_id: str, channel: str | None, channel_id: object, present: Container[str]
) -> bool:
    """Tell whether an event is for a subscriber of its topic (B9, B13).

    Of a channel's own subscriber only what names the channel is; of the one for all channels only
    what names none that has its own; of every other subscriber each event.
    """
    if channel is None:
        return True
    if channel:
        return channel == channel_id
    return f"{subscriber_id}.{channel_id}" not in present


def place_of(number: int, *, is_wired: bool) -> int:
    """Return the place of a registration: what a manifest asks for comes before all code (B3, B9).

    The number may be a place already, of the other kind as well.
    """
    number += WIRED_BEFORE if number < 0 else 0
    return number - WIRED_BEFORE if is_wired else number


def check_subscriber_id(name: object) -> str:
    """Refuse a name that could not be read in a list (B13)."""
    if not isinstance(name, str) or not 1 <= len(name) <= SUBSCRIBER_ID_CHARS:
        raise Invalid(
            code="wrong_length",
            path="subscriber_id",
            facts={"least": 1, "most": SUBSCRIBER_ID_CHARS},
        )
    if not name.isprintable() or name.isspace():
        raise Invalid(code="unprintable", path="subscriber_id", facts={"given": name})
    return name


# -- How an attempt ends (B5) -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a subscription is tried, and how long it waits before each further time."""

    attempts: int = 3
    delays_s: tuple[float, ...] = (1, 5)

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or not 1 <= self.attempts <= ATTEMPTS_MAX:
            raise Invalid(
                code="out_of_range", path="retry.attempts", facts={"least": 1, "most": ATTEMPTS_MAX}
            )
        is_listed = isinstance(self.delays_s, tuple | list)
        if not is_listed or any(isinstance(each, timedelta) for each in self.delays_s):
            raise Invalid(
                code="wrong_value", path="retry.delays_s", facts={"wanted": "seconds_tuple"}
            )
        object.__setattr__(self, "delays_s", tuple(self.delays_s))
        if self.attempts > 1 and not self.delays_s:
            raise Invalid(code="empty", path="retry.delays_s")
        if len(self.delays_s) > ATTEMPTS_MAX:
            facts = {"limit": ATTEMPTS_MAX, "unit": "delays"}
            raise Invalid(code="too_many", path="retry.delays_s", facts=facts)
        for delay_s in self.delays_s:
            parse_delay_ms(delay_s)

    def delay_ms(self, attempts: int) -> int:
        """Return the wait after so many attempts; the last delay serves all that follow."""
        return parse_delay_ms(self.delays_s[min(attempts, len(self.delays_s)) - 1])


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one subscriber; `position` is the subscriber's place in registration order.

    A *suspect* was being delivered when a host died; it runs alone until an attempt has ended (B5).
    """

    event_id: int
    topic: str
    subscriber_id: str
    position: int = 0
    status: DeliveryStatus = DeliveryStatus.WAITING
    attempts: int = 0
    due_at_ms: int = 0
    error: str | None = None
    is_suspect: bool = False


def begin(delivery: Delivery) -> Delivery:
    """Count the attempt before the handler runs, so that a crash cannot hide it (B5)."""
    status = move_delivery(delivery.status, DeliveryMove.BEGIN)
    return replace(delivery, status=status, attempts=delivery.attempts + 1)


def end(
    delivery: Delivery, error: str | None, retry: Retry, now_ms: int, *, is_final: bool = False
) -> Delivery:
    """Decide what an ended attempt makes of a delivery (B3, B5).

    A failure is final when the handler said so, or when its attempts are used up.
    """
    if error is None:
        status = move_delivery(delivery.status, DeliveryMove.SUCCEED)
        return replace(delivery, status=status, error=None, is_suspect=False)
    error = cut(error, ERROR_CHARS) or "no message"
    if is_final or delivery.attempts >= retry.attempts:
        status = move_delivery(delivery.status, DeliveryMove.GIVE_UP)
        return replace(delivery, status=status, error=error, is_suspect=False)
    status = move_delivery(delivery.status, DeliveryMove.FAIL)
    due_at_ms = now_ms + retry.delay_ms(delivery.attempts)
    return replace(delivery, status=status, error=error, due_at_ms=due_at_ms, is_suspect=False)


def believe_due(delivery: Delivery, retry: Retry, now_ms: int) -> Delivery:
    """Return a delivery with a possible time: a wait longer than any retry delay is over.

    It was written by a clock that has been set back since. A first attempt waits for no time.
    """
    has_waited = delivery.attempts > 0 and retry.delays_s
    longest_ms = retry.delay_ms(delivery.attempts) if has_waited else 0
    if delivery.due_at_ms <= now_ms + longest_ms:
        return delivery
    return replace(delivery, due_at_ms=now_ms)


def reopen(delivery: Delivery, now_ms: int) -> Delivery:
    """Give a dead delivery all its attempts again, beginning now (B5)."""
    status = move_delivery(delivery.status, DeliveryMove.RETRY)
    return replace(delivery, status=status, attempts=0, due_at_ms=now_ms)


def discard(delivery: Delivery) -> Delivery:
    """Close a dead delivery for good; its error stays (B5)."""
    return replace(delivery, status=move_delivery(delivery.status, DeliveryMove.DISCARD))


def close(delivery: Delivery) -> Delivery:
    """Close a waiting delivery whose subscription ended; it was not delivered and says so (B13)."""
    status = move_delivery(delivery.status, DeliveryMove.LOSE_SUBSCRIBER)
    return replace(delivery, status=status, error=delivery.error or UNSUBSCRIBED)


def is_unasked(delivery: Delivery) -> bool:
    """Tell whether a subscription ended before its handler was called: nothing went wrong."""
    is_untouched = delivery.attempts == 0 and delivery.error == UNSUBSCRIBED
    return is_untouched and delivery.status is DeliveryStatus.DISCARDED


# -- What the deliveries make of their event (B4, B7, B11) --------------------------------------


def judge(deliveries: Iterable[Delivery]) -> JournalStatus:
    """Return an event's status once its first call was made, or there was no handler to call (B4).

    Discarding does not make a failed event done: done means that every call succeeded. A subscriber
    that unsubscribed before it was called is no failure (B13).
    """
    statuses = {delivery.status for delivery in deliveries if not is_unasked(delivery)}
    if statuses & OPEN:
        return JournalStatus.PROCESSING
    return JournalStatus.DONE if statuses <= {DeliveryStatus.DONE} else JournalStatus.FAILED


def list_failures(deliveries: Iterable[Delivery]) -> tuple[tuple[str, str], ...]:
    """List subscriber and error of every failure, in the order of registration (B4)."""
    return tuple(
        (delivery.subscriber_id, delivery.error)
        for delivery in sorted(deliveries, key=lambda each: each.position)
        if delivery.error is not None
        and delivery.status is not DeliveryStatus.DONE
        and not is_unasked(delivery)
    )


def recover_event(status: JournalStatus) -> JournalStatus:
    """Return an event's status at a start: what was being processed is pending again (B7)."""
    return JournalStatus.PENDING if status is JournalStatus.PROCESSING else status


def recover_delivery(
    delivery: Delivery, retry: Retry, now_ms: int, *, is_alone: bool = True
) -> Delivery:
    """Give a delivery whose host died back at once, to be tried alone (B5, B7).

    The death counts only if nothing else was being delivered: otherwise the attempt is given back.
    A handler that takes its host with it every time is not called for ever: when its attempts are
    used up, and a host has died often enough for it not to be chance, the delivery is dead. All its
    attempts but one may have failed by themselves; those beyond them are deaths of a host.
    """
    if delivery.status is not DeliveryStatus.RUNNING:
        return delivery
    if not is_alone:
        return replace(give_back(delivery, now_ms), is_suspect=True)
    if delivery.attempts >= retry.attempts - 1 + HOST_DEATHS_MAX:
        status = move_delivery(delivery.status, DeliveryMove.GIVE_UP)
        return replace(delivery, status=status, error=HOST_DIED, is_suspect=False)
    status = move_delivery(delivery.status, DeliveryMove.LOSE_HOST)
    return replace(delivery, status=status, due_at_ms=now_ms, is_suspect=True)


def give_back(delivery: Delivery, now_ms: int) -> Delivery:
    """Give an attempt back that its handler could not finish; it does not count (B5)."""
    status = move_delivery(delivery.status, DeliveryMove.GIVE_BACK)
    return replace(delivery, status=status, attempts=delivery.attempts - 1, due_at_ms=now_ms)


# -- What may begin (B3, B5, B6, B13) -----------------------------------------------------------


def startable(
    deliveries: Iterable[Delivery], connected: Container[str], now_ms: int
) -> tuple[Delivery, ...]:
    """Choose the deliveries that may begin now, side by side, oldest event first.

    Of one event one handler runs at a time, in registration order (B3); a handler that must wait,
    for its retry, an earlier event or its connection, lets the others of the event go first (B6).
    """
    still_open = [delivery for delivery in deliveries if delivery.status in OPEN]
    running = [each for each in still_open if each.status is DeliveryStatus.RUNNING]
    busy_events = {delivery.event_id for delivery in running}
    # A reopened delivery is older than the one its subscriber may be at, so ids are not enough; one
    # that moved to another topic may still be at an event of the old one.
    busy_names = {delivery.subscriber_id for delivery in running}
    taken_lanes = set()
    chosen = []
    for delivery in sorted(still_open, key=lambda each: (each.event_id, each.position)):
        lane = (delivery.subscriber_id, delivery.topic)
        if delivery.subscriber_id in busy_names or lane in taken_lanes:
            continue
        taken_lanes.add(lane)
        is_ready = delivery.due_at_ms <= now_ms and delivery.subscriber_id in connected
        if is_ready and delivery.event_id not in busy_events:
            busy_events.add(delivery.event_id)
            chosen.append(delivery)
    return _isolate(chosen, running)


def follow(able: Iterable[Delivery], ended: Delivery, durable_id: int) -> Delivery | None:
    """Choose what a subscriber gets right after a delivery has ended, of all that may begin now.

    Only the next event of the same lane, and only if it is on the disk (B4, B6). A retry waits for
    its own time.
    """
    lane = (ended.subscriber_id, ended.topic)
    for each in able:
        is_next = (each.subscriber_id, each.topic) == lane and each.event_id != ended.event_id
        if is_next and each.event_id <= durable_id:
            return each
    return None


def _isolate(chosen: list[Delivery], running: list[Delivery]) -> tuple[Delivery, ...]:
    """Let a suspect run alone: begin it when nothing runs, and nothing beside it (B5).

    A suspect that cannot begin, because its subscriber is not here, holds up no other delivery.
    """
    suspects = tuple(each for each in chosen if each.is_suspect)
    if any(each.is_suspect for each in running):
        return ()
    if not suspects:
        return tuple(chosen)
    return () if running else suspects[:1]
