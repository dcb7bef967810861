"""Breaks of the bus in the store: B, and the way into a workflow (T10)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from duly.rules.delivery import Delivery, DeliveryStatus, Event, JournalStatus, startable
from duly.store import bus, delivery
from duly.store.base import Transaction, rider
from duly.store.bus import JournalRow, delivery_of, find_subscription
from tests.breaks import Break

BUS = ("tests/store/test_bus.py", "tests/store/test_exam_bus.py")
DELIVERY = ("tests/store/test_bus.py", "tests/store/test_exam_delivery.py")
COMPLETE = ("tests/store/test_exam_complete.py",)
RESTORED = ("tests/bus/test_restored.py",)

_close = delivery._close
_read = delivery._read
_subscriptions = delivery._subscriptions


def _head_among_opened(tx: Transaction, subscriber_id: str, now: int) -> Delivery | None:
    subscription = find_subscription(tx, subscriber_id)
    assert subscription is not None
    here = {"subscriber_id": subscriber_id, "topic": subscription.topic}
    opened = tx.one("first_open_delivery", **here)
    if opened is not None:
        return delivery_of(opened)
    unopened = tx.all("unopened_events", topic=subscription.topic, limit=1000)
    if not unopened:
        return None
    return Delivery(unopened[-1][0], subscription.topic, subscriber_id, due_at_ms=now)


def _startable_beside_others(
    tx: Transaction, connected: Collection[str], now: int
) -> tuple[Delivery, ...]:
    heads = [delivery._head(tx, each, now) for each in sorted(connected)]
    return startable([head for head in heads if head is not None], connected, now)


def _read_anything(row: JournalRow) -> tuple[Event | None, str | None]:
    event, error = _read(row)
    if error is None or "cannot be read" not in error:
        return event, error
    return Event(row.id, row.topic, row.source, {}, 0.0), None


def _close_quietly(
    tx: Transaction, event: JournalRow, status: JournalStatus, now: int, **more: Any
) -> delivery.Begun:
    return _close(tx, event, status, now, **{**more, "undelivered": 0})


def _share_state(tx: Transaction, extension: str, key: str, value: str, *, now: int) -> None:
    for each in ("postman", "milkman"):
        bus.put_state(tx, each, key, value, now=now)


def _broken(rule: str, attribute: str, replacement: Any, says: str) -> Break:
    return Break(rule, "duly.store.delivery", attribute, replacement, DELIVERY, says)


BREAKS = (
    Break(
        "B1",
        "duly.store",
        "Store.emit",
        rider(bus.emit),
        COMPLETE,
        "an emit does not wait for the disk",
    ),
    Break(
        "B2",
        "duly.store.bus",
        "_move_deferred",
        lambda tx, deferred_id, move, *, fired_at, event_id: None,
        BUS,
        "the store forgets that a deferred event has fired",
    ),
    Break(
        "B12",
        "duly.store.bus",
        "depth_after",
        lambda handled, delay_ms=0: handled + 1,
        BUS,
        "the store keeps the depth of what was deferred",
    ),
    Break(
        "B9",
        "duly.store",
        "Store.put_state",
        rider(_share_state),
        BUS,
        "extensions share their keys in the store",
    ),
    Break(
        "B14",
        "duly.store.bus",
        "page",
        lambda limit: limit,
        BUS,
        "a page of the bus has no limit",
    ),
    _broken("B3", "_startable", _startable_beside_others, "the store begins two handlers at once"),
    _broken(
        "B4", "settle_event", lambda tx, event_id, now: JournalStatus.DONE, "no event ever ends"
    ),
    _broken("B4", "list_failures", lambda deliveries: (), "the journal names no failure"),
    _broken(
        "B5",
        "begin",
        lambda found: replace(found, status=DeliveryStatus.RUNNING),
        "the store does not count an attempt",
    ),
    _broken(
        "B5",
        "_dead",
        lambda tx, event_id, name, move: delivery._known_delivery(tx, event_id, name),
        "any delivery can be retried or discarded",
    ),
    _broken("B6", "_head", _head_among_opened, "the newest event overtakes the older ones"),
    _broken(
        "B7",
        "recover_delivery",
        lambda lost, retry, now, *, is_alone: lost,
        "what a dead host was at runs for ever",
    ),
    _broken("B7", "_read", _read_anything, "an event that cannot be read is delivered"),
    _broken("B11", "_close", _close_quietly, "nobody sees that nobody was told"),
    _broken("B12", "is_loop", lambda depth: False, "the store lets a loop go on"),
    _broken(
        "B13",
        "_subscriptions",
        lambda tx, topic: _subscriptions(tx, topic)[:1],
        "an event is opened for its first subscriber alone",
    ),
    _broken(
        "B13", "close", lambda found: found, "what waits for a subscriber that left stays open"
    ),
    _broken("T10", "_enter", lambda tx, found, ingress, now: None, "the workflow hears nothing"),
    _broken(
        "T10",
        "check_ingress",
        lambda topic, way, bus_topic: None,
        "a topic that does not listen gets the event",
    ),
    Break(
        "H5",
        "duly.store.bus",
        "hold",
        lambda tx, since, *, now: None,
        RESTORED,
        "a restored bus tells everything again",
    ),
    Break("H5", "duly.store.bus", "RESTORED_STEP", 1, RESTORED, "a number is given twice"),
    Break("H5", "duly.store.bus", "NUMBERS_PER_MS", 0, RESTORED, "two restores give one number"),
    Break(
        "H5",
        "duly.store.due",
        "held_since",
        lambda tx: None,
        RESTORED,
        "a bus that is held back delivers",
    ),
    Break(
        "H5",
        "duly.desk.attention",
        "_held",
        lambda tx: iter(()),
        RESTORED,
        "nobody is told that the bus is held back",
    ),
)
