"""An event of the journal: what a handler gets of it, and what its deliveries make of it (B4).

Law: what becomes of an event follows from all its delivery records, in the transaction that changes
one of them. An event moves only along its table; one that stays as it is, is not written.
"""

from __future__ import annotations

from dataclasses import dataclass

from duly.errors import Invalid
from duly.rules.delivery import (
    JOURNAL,
    Delivery,
    Event,
    JournalStatus,
    Retry,
    is_loop,
    is_unasked,
    judge,
    list_failures,
)
from duly.rules.value import decode
from duly.store.base import Row, Transaction
from duly.store.bus import JournalRow, delivery_of, read_retry
from duly.words.delivery import say_failures, say_loop

DELIVERY_COLUMNS = 9  # of a record's row; then come five of the event, and two of the subscription
EVENT_COLUMNS = 5


def read_payload(row: JournalRow) -> tuple[Event | None, str | None]:
    """Read the event that a handler gets, or say why no handler gets it (B7, B8, B12)."""
    if is_loop(row.depth):
        return None, say_loop(row.depth)
    try:
        payload = decode(row.payload, "payload")
    except Invalid as invalid:
        return None, f"This event cannot be read: {invalid}"
    if not isinstance(payload, dict):
        return None, "This event cannot be read: its payload is not a JSON object."
    created_at_s = row.created_at / 1000
    return Event(row.id, row.topic, row.source, payload, created_at_s, row.correlation_id), None


@dataclass(frozen=True, slots=True)
class Records:
    """An event as it is, with all its deliveries, and the retry of each as it is kept."""

    id: int
    status: str
    opened: int
    undelivered: int
    error: str | None
    processed_at: int | None
    deliveries: tuple[Delivery, ...]
    retries: tuple[Row, ...]

    def find(self, subscriber_id: str) -> Delivery | None:
        """Return the delivery to a subscriber, if there is one."""
        return next((each for each in self.deliveries if each.subscriber_id == subscriber_id), None)

    def retry_of(self, subscriber_id: str) -> Retry | None:
        """Read how often a subscriber is tried; None if its subscription has ended."""
        for delivery, (attempts_max, delays_s) in zip(self.deliveries, self.retries, strict=True):
            if delivery.subscriber_id == subscriber_id and attempts_max is not None:
                return read_retry(attempts_max, delays_s)
        return None

    def after(self, moved: Delivery) -> tuple[Delivery, ...]:
        """Return the deliveries with one of them as it is now."""
        name = moved.subscriber_id
        return tuple(moved if each.subscriber_id == name else each for each in self.deliveries)


def read_records(tx: Transaction, event_id: int) -> Records | None:
    """Read an event that was opened, with all its deliveries."""
    rows = tx.all("event_records", event_id=event_id)
    if not rows:
        return None
    split = DELIVERY_COLUMNS + EVENT_COLUMNS
    status, opened, undelivered, error, processed_at = rows[0][DELIVERY_COLUMNS:split]
    return Records(
        event_id,
        status,
        opened,
        undelivered,
        error,
        processed_at,
        tuple(delivery_of(row[:DELIVERY_COLUMNS]) for row in rows),
        tuple(row[split:] for row in rows),
    )


def settle_event(tx: Transaction, event_id: int, now: int) -> JournalStatus:
    """Write what its deliveries make of an event (B4)."""
    records = read_records(tx, event_id)
    assert records is not None, event_id  # one of its deliveries was moved
    return settle(tx, records, records.deliveries, now)


def settle(
    tx: Transaction, event: Records, deliveries: tuple[Delivery, ...], now: int
) -> JournalStatus:
    """Write what its deliveries, as they are now, make of an event that was read (B4)."""
    status = judge(deliveries)
    # Every subscriber left before it was called: no handler got the event (B11).
    undelivered = int(all(map(is_unasked, deliveries)))
    if status is JournalStatus.PROCESSING and event.status == JournalStatus.PENDING:
        # It was given back at a start, and no handler was called since (B7).
        status = JournalStatus.PENDING
    error = say_failures(list_failures(deliveries))
    move_event(tx, event, status, now, error=error, undelivered=undelivered)
    return status


def move_event(
    tx: Transaction,
    event: JournalRow | Records,
    status: JournalStatus,
    now: int,
    *,
    error: str | None,
    undelivered: int = 0,
) -> None:
    """Write what became of an event, if anything did."""
    old = JournalStatus(event.status)
    known = event.opened, old, event.error, event.undelivered
    if known == (1, status, error, undelivered):
        return
    assert status is old or status in JOURNAL[old], (event, status)
    is_closed = status in (JournalStatus.DONE, JournalStatus.FAILED)
    tx.change(
        "move_journal_event",
        f"Event {event.id}",
        id=event.id,
        old_status=old,
        status=status,
        undelivered=undelivered,
        error=error,
        processed_at=(event.processed_at or now) if is_closed else None,
    )
