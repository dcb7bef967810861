"""Everything the store of a simulation says about the bus at one moment.

Law: it is read in one transaction, right before its commit, so every commit is seen by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from duly.rules.value import decode
from duly.store.base import Transaction
from verification.sight import Part, Read, read_afresh

OPEN: Final = frozenset({"waiting", "running"})
WAY: Final = "duly:"  # how the name of a subscriber begins that is a workflow's topic
DEPTH_MAX: Final = 100  # an event that stands deeper ends a loop
MARKS_KEPT: Final = 10_000
UNASKED: Final = "unsubscribed before delivery"

Pair = tuple[int, str]  # an event and a subscriber


class EventSeen(NamedTuple):
    """An event of the bus."""

    id: int
    topic: str
    source: str
    payload: str
    correlation_id: str | None
    causation_id: str | None
    depth: int
    status: str
    opened: int
    undelivered: int
    error: str | None

    @property
    def is_unopened(self) -> bool:
        """Tell whether no subscriber was called with it yet."""
        return self.status == "pending" and not self.opened


class DeliverySeen(NamedTuple):
    """The delivery of an event to a subscriber."""

    event_id: int
    subscriber_id: str
    topic: str
    position: int
    status: str
    attempts: int
    error: str | None
    suspect: int

    @property
    def is_unasked(self) -> bool:
        """Tell whether its subscriber left before it was ever called: no failure (B13)."""
        return (self.status, self.attempts, self.error) == ("discarded", 0, UNASKED)

    @property
    def is_open(self) -> bool:
        """Tell whether it is still to be done."""
        return self.status in OPEN


class DeferredSeen(NamedTuple):
    """An event that is to fire later, or did."""

    id: int
    topic: str
    payload: str
    status: str
    due_ms: int  # by the clock of the boot
    event_id: int | None


class SubscriptionSeen(NamedTuple):
    """A subscription."""

    subscriber_id: str
    topic: str
    position: int


@dataclass(frozen=True, slots=True)
class BusSeen:
    """Everything the store says about the bus at one moment."""

    events: Mapping[int, EventSeen]
    deliveries: Mapping[Pair, DeliverySeen]
    deferred: Mapping[int, DeferredSeen]
    subscriptions: Mapping[str, SubscriptionSeen]
    entered: tuple[tuple[str, str], ...]  # of a workflow's events: message id and who made it

    def deliveries_of(self, event_id: int) -> list[DeliverySeen]:
        """The deliveries of one event, in the order of registration."""
        return [each for each in self.deliveries.values() if each.event_id == event_id]

    def lane_of(self, subscriber_id: str, topic: str) -> list[DeliverySeen]:
        """What a subscriber has still to do in a topic, oldest first."""
        return [
            each
            for each in self.deliveries.values()
            if each.subscriber_id == subscriber_id and each.topic == topic and each.is_open
        ]

    def subscribers_of(self, topic: str) -> set[str]:
        """Who subscribes to a topic."""
        return {each.subscriber_id for each in self.subscriptions.values() if each.topic == topic}


JOURNAL: Final = Part("oracle_journal", lambda rows: {row[0]: EventSeen(*row) for row in rows})
DELIVERIES: Final = Part(
    "oracle_deliveries", lambda rows: {(row[0], row[1]): DeliverySeen(*row) for row in rows}
)
DEFERRED: Final = Part("oracle_deferred", lambda rows: {row[0]: DeferredSeen(*row) for row in rows})
SUBSCRIPTIONS: Final = Part(
    "oracle_subscriptions", lambda rows: {row[0]: SubscriptionSeen(*row) for row in rows}
)
ENTERED: Final = Part("oracle_events", lambda rows: tuple((row[2], row[6]) for row in rows))


def see_bus(tx: Transaction, read: Read = read_afresh) -> BusSeen:
    """Read everything."""
    return BusSeen(
        read(tx, JOURNAL),
        read(tx, DELIVERIES),
        read(tx, DEFERRED),
        read(tx, SUBSCRIPTIONS),
        read(tx, ENTERED),
    )


@lru_cache(MARKS_KEPT)
def mark_of(payload: str) -> int | None:
    """Return the mark that its emitter put into a payload, if it is there."""
    found = cast("dict[str, Any]", decode(payload)).get("mark")
    return found if isinstance(found, int) else None
