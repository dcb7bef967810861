"""The lanes of subscribers: what stands at the head of each, and what may begin (B3, B6, S9).

Law: a subscriber's *lane* is the events of its topic in the order of their ids. Only the head of a
lane may begin: an open delivery, or an event that is not opened yet and stands before it. One
statement reads the heads of all lanes, so the cost of looking for work grows with the subscribers,
never with the backlog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from duly.rules.delivery import (
    Delivery,
    Event,
    believe_due,
    is_addressed,
    startable,
)
from duly.store.base import Row, Transaction
from duly.store.bus import delivery_of, read_retry
from duly.store.people import page

# Deliveries whose handlers have ended and whose records could not be written yet, as event and
# subscriber. The store has them as running; they hold up their own lanes and no other.
Ended: TypeAlias = Collection[tuple[int, str]]
COLUMNS: Final = 9  # of a delivery, as `delivery_of` reads it


@dataclass(frozen=True, slots=True)
class OpenDelivery:
    """An event that can be begun now, and its subscriber.

    Without a subscriber id no handler can be called. Either the event has no subscriber and is to
    be closed (B11), or none of them is connected here and it is to be opened for them (B13).
    """

    event_id: int
    subscriber_id: str | None


@dataclass(frozen=True, slots=True)
class Lane:
    """A subscriber with its place in the order of registration, and what it gets first, if any."""

    subscriber_id: str
    topic: str
    position: int
    channel: str | None
    holder: str | None  # the host of a fleet that calls it (H8)
    head: Delivery | None


@dataclass(frozen=True, slots=True)
class Found:
    """What can be begun now; *isolated* if a delivery waits until no other runs (B5).

    It is *forsaken* if a host of a fleet is gone that was calling a handler (H8).
    """

    deliveries: tuple[OpenDelivery, ...]
    is_isolated: bool = False
    is_forsaken: bool = False


def find_open(
    tx: Transaction,
    connected: Collection[str],
    *,
    ended: Ended = (),
    now: int,
    limit: int,
    is_shared: bool = False,
) -> Found:
    """Find what can be begun now, oldest event first, at most one delivery of each event (B3).

    Events with a handler to call come first: a backlog without a listener delays no other (B6).
    In a fleet (`is_shared`) an event is left to the hosts that call its subscribers, if any (H8).
    """
    page(limit)
    lanes = [_lane(row, now) for row in tx.all("list_lanes")]
    rows = tx.all("running_in_fleet" if is_shared else "running_deliveries")
    running = _still_running((row[:COLUMNS] for row in rows), ended)
    here = _at_rest(connected, ended)
    called = choose(lanes, running, here, now)[:limit]
    found = [OpenDelivery(each.event_id, each.subscriber_id) for each in called]
    heard = {each.topic for each in lanes if each.subscriber_id in connected}
    if is_shared:
        heard |= {topic for (topic,) in tx.all("held_topics")}
    found += [OpenDelivery(each, None) for each in _uncalled(tx, heard, limit - len(found))]
    heads = (each.head for each in lanes if each.subscriber_id in here)
    return Found(
        tuple(sorted(found, key=lambda each: each.event_id)),
        is_isolated=any(head is not None and head.is_suspect for head in heads),
        is_forsaken=any(is_gone for row in rows for is_gone in row[COLUMNS:]),
    )


def open_deliveries(
    tx: Transaction, connected: Collection[str], *, now: int, limit: int
) -> tuple[OpenDelivery, ...]:
    """Find what can be begun now, oldest event first (B3, B6)."""
    return find_open(tx, connected, now=now, limit=limit).deliveries


def topic_lanes(tx: Transaction, topic: str, now: int) -> list[Lane]:
    """Read the lanes of a topic in registration order: only they wait for each other (B3, B6)."""
    return [_lane(row, now) for row in tx.all("topic_lanes", topic=topic)]


def callable_by(lanes: Iterable[Lane], connected: Collection[str], host: str | None) -> set[str]:
    """Return the connected subscribers of some lanes; for a host of a fleet those it holds (H8)."""
    here = (each for each in lanes if each.subscriber_id in connected)
    return {each.subscriber_id for each in here if host is None or each.holder == host}


def choose_in_topic(
    tx: Transaction,
    topic: str,
    lanes: Sequence[Lane],
    connected: Collection[str],
    now: int,
    ended: Ended = (),
) -> tuple[Delivery, ...]:
    """Choose what may begin in a topic; beside a suspect of it, of what runs in any topic (B5)."""
    has_suspect = any(each.head is not None and each.head.is_suspect for each in lanes)
    rows = tx.all("running_deliveries") if has_suspect else tx.all("running_beside", topic=topic)
    return choose(lanes, _still_running(rows, ended), _at_rest(connected, ended), now)


def choose(
    lanes: Iterable[Lane], running: Iterable[Delivery], connected: Collection[str], now: int
) -> tuple[Delivery, ...]:
    """Choose what may begin, of the heads of the connected subscribers' lanes."""
    heads = [
        each.head for each in lanes if each.head is not None and each.subscriber_id in connected
    ]
    return startable([*running, *heads], connected, now)


def addressees(lanes: Sequence[Lane], event: Event | None) -> list[Lane]:
    """Return the lanes that an event is opened in; of channels only the one it names (B13)."""
    channel_id = None if event is None else event.payload.get("channel_id")
    names = {each.subscriber_id for each in lanes}
    return [
        each for each in lanes if is_addressed(each.subscriber_id, each.channel, channel_id, names)
    ]


def _at_rest(connected: Collection[str], ended: Ended) -> Collection[str]:
    """Leave out the subscribers whose last result is not recorded yet."""
    return connected if not ended else set(connected) - {name for _, name in ended}


def _still_running(rows: Iterable[Row], ended: Ended) -> list[Delivery]:
    running = map(delivery_of, rows)
    return [each for each in running if (each.event_id, each.subscriber_id) not in ended]


def _lane(row: Row, now: int) -> Lane:
    name, topic, position, channel, holder, attempts_max, delays_s, unopened, *opened = row
    if opened[0] is not None and (unopened is None or opened[0] < unopened):
        head: Delivery | None = delivery_of(tuple(opened))
        if head is not None and head.due_at_ms > now:
            head = believe_due(head, read_retry(attempts_max, delays_s), now)
    else:
        head = _unopened(name, topic, position, unopened, now)
    return Lane(name, topic, position, channel, holder, head)


def _unopened(
    name: str, topic: str, position: int, event_id: int | None, now: int
) -> Delivery | None:
    """Return what the record of an event will look like when it is opened."""
    if event_id is None:
        return None
    return Delivery(event_id, topic, name, position, due_at_ms=now)


def _uncalled(tx: Transaction, heard: Collection[str], limit: int) -> list[int]:
    """Find unopened events of topics that none of the connected subscribes to, topic by topic."""
    found: list[int] = []
    topic = ""
    while len(found) < limit and (next_one := tx.one("next_unopened_topic", after=topic)):
        (topic,) = next_one
        if topic not in heard:
            left = limit - len(found)
            found += [row[0] for row in tx.all("unopened_events", topic=topic, limit=left)]
    return found
