"""Breaks of the bus in the store: B, and the way into a workflow (T10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from duly.rules import delivery as rules
from duly.rules.delivery import DeliveryStatus, Event, JournalStatus
from duly.store import bus, delivery, journal, lane
from duly.store.base import Row, Transaction, rider
from duly.store.bus import JournalRow
from duly.store.lane import Lane
from tests.breaks import Break

BUS = ("tests/store/test_bus.py", "tests/store/test_exam_bus.py")
DELIVERY = ("tests/store/test_bus.py", "tests/store/test_exam_delivery.py")
FOLLOW = ("tests/store/test_follow.py",)
COMPLETE = ("tests/store/test_exam_complete.py",)
RESTORED = ("tests/bus/test_restored.py",)

_close = delivery._close
_follow = rules.follow
_read_payload = journal.read_payload
_read_lane = lane._lane
_choose = lane.choose
_addressees = lane.addressees


def _lane_of_newer(row: Row, now: int) -> Lane:
    name, topic, position, _, _, _, _, unopened, *_ = row
    found = _read_lane(row, now)
    newer = lane._unopened(name, topic, position, unopened, now)
    return found if newer is None else replace(found, head=newer)


def _read_anything(row: JournalRow) -> tuple[Event | None, str | None]:
    event, error = _read_payload(row)
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


def _broken(
    rule: str, attribute: str, replacement: Any, says: str, *, module: str = "delivery"
) -> Break:
    return Break(rule, f"duly.store.{module}", attribute, replacement, DELIVERY, says)


def _following(rule: str, replacement: Any, says: str) -> Break:
    return Break(rule, "duly.rules.delivery", "follow", replacement, FOLLOW, says)


def _in_journal(rule: str, attribute: str, replacement: Any, says: str) -> Break:
    return _broken(rule, attribute, replacement, says, module="journal")


def _in_lane(rule: str, attribute: str, replacement: Any, says: str) -> Break:
    return _broken(rule, attribute, replacement, says, module="lane")


BREAKS = (
    Break(
        "H8",
        "duly.store.subscription",
        "recover_gone",
        lambda tx, now: None,
        ("tests/store/test_exam_holding.py",),
        "what a gone host was telling is not given back",
    ),
    _following(
        "B4",
        lambda able, ended, durable_id: _follow(able, ended, 2**62),
        "the next of a lane is begun before it is on the disk",
    ),
    _following(
        "B6",
        lambda able, ended, durable_id: next(iter(able), None),
        "what ends in one lane begins a delivery of another",
    ),
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
    _in_lane(
        "B3",
        "choose",
        lambda lanes, running, connected, now: _choose(lanes, (), connected, now),
        "the store begins two handlers at once",
    ),
    _in_journal(
        "B4",
        "settle",
        lambda tx, event, deliveries, now: JournalStatus.DONE,
        "no event ever ends",
    ),
    _in_journal("B4", "list_failures", lambda deliveries: (), "the journal names no failure"),
    _broken(
        "B5",
        "begin",
        lambda found: replace(found, status=DeliveryStatus.RUNNING),
        "the store does not count an attempt",
    ),
    _broken(
        "B5",
        "_dead",
        lambda tx, event_id, name, move: bus.delivery_of(
            tx.all("get_delivery", event_id=event_id, subscriber_id=name)[0]
        ),
        "any delivery can be retried or discarded",
    ),
    _in_lane("B6", "_lane", _lane_of_newer, "a new event overtakes one that is open"),
    _broken(
        "B7",
        "recover_delivery",
        lambda lost, retry, now, *, is_alone: lost,
        "what a dead host was at runs for ever",
    ),
    _in_journal("B7", "read_payload", _read_anything, "an event that cannot be read is delivered"),
    _broken("B11", "_close", _close_quietly, "nobody sees that nobody was told"),
    _in_journal("B12", "is_loop", lambda depth: False, "the store lets a loop go on"),
    _in_lane(
        "B13",
        "addressees",
        lambda lanes, event: _addressees(lanes, event)[:1],
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
