"""The bus: the journal, deferred events, and what extensions keep (B).

Law: an event is on the bus when the transaction that gave cause to it is committed (B1, B10); a
deferred event fires once or is cancelled once, never both (B2); a subscription lasts from its first
registration until it is ended (B13). Subscribers stand in `subscription`, deliveries in `delivery`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from duly.config import DEFERRED_MAX, Limits
from duly.env import Boot
from duly.errors import Invalid, NotFound, RequestRefused, see
from duly.rules.deferral import (
    Deferred,
    DeferredMove,
    DeferredStatus,
    move_deferred,
    promotable,
    remaining_ms,
)
from duly.rules.delivery import (
    Delivery,
    DeliveryStatus,
    Retry,
    check_topic,
    depth_after,
)
from duly.rules.value import DEFAULT_LIMITS, check_column, decode
from duly.store import statements
from duly.store.base import Row, Transaction
from duly.store.people import page
from duly.store.record import Action, JournalEvent

STATE_KEY_CHARS = 500
RETRIES_KEPT = 100
LAST_ID = 2**62  # behind every event
HELD = "held"  # the mark of a restored bus: what moment it shows
NUMBERS_PER_MS = 1_000  # a restored bus goes on at its time times this; no host emits so fast
RESTORED_STEP = 10**12  # or so far on, where that is behind: the clock was set back


@dataclass(frozen=True, slots=True)
class JournalRow:
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
    created_at: int
    processed_at: int | None


@lru_cache(RETRIES_KEPT)  # it is read with every delivery, and is almost always the same
def read_retry(attempts_max: int, delays_s: str) -> Retry:
    """Read a retry as a subscription keeps it (B5)."""
    return Retry(attempts_max, tuple(cast("list[float]", decode(delays_s))))


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A subscription, from its first registration until it is ended (B13)."""

    subscriber_id: str
    topic: str
    position: int
    attempts_max: int
    delays_s: str
    created_at: int
    leaving: int = 0
    channel: str | None = None

    @property
    def retry(self) -> Retry:
        """How often it is tried, and after which waits (B5)."""
        return read_retry(self.attempts_max, self.delays_s)


@dataclass(frozen=True, slots=True)
class DeferredRow:
    """An event that is to be put on the bus later, or was (B2)."""

    id: int
    topic: str
    source: str
    payload: str
    correlation_id: str | None
    causation_id: str | None
    depth: int
    status: str
    fire_at: int
    created_at: int
    fired_at: int | None
    event_id: int | None
    due_ms: int = 0


# -- Events now and later (B1, B2) --------------------------------------------------------------


def emit(tx: Transaction, event: JournalEvent, *, now: int, action: Action | None = None) -> int:
    """Put an event on the bus; return its id (B1). Who sent it is written with it (A6)."""
    check_topic(event.topic)
    number = statements.emit(tx, event, now)
    if action is not None:
        statements.note(tx, action, now, workflow_id=None, target=f"bus:{number}")
    return number


def defer(
    tx: Transaction,
    event: JournalEvent,
    *,
    delay_ms: int,
    now: int,
    boot: Boot | None = None,
    scheduled_max: int = DEFERRED_MAX,
    action: Action | None = None,
) -> int:
    """Keep an event until its time; return the id it can be cancelled by (B2).

    Without a boot clock the wall clock is the one that counts. Who sent it is written with it (A6).
    """
    check_topic(event.topic)
    (scheduled,) = tx.all("count_deferred_of", source=event.source, limit=scheduled_max)[0]
    if scheduled >= scheduled_max:
        raise RequestRefused(
            code="too_many_deferred",
            subject=event.source,
            facts={"limit": scheduled_max},
            next=see("bus.deferred"),
        )
    boot = boot or Boot("", now)
    (number,) = statements.must(tx.one("take_bus_number", name="deferred"), "The bus's counter")
    tx.write(
        "insert_deferred_event",
        id=number,
        topic=event.topic,
        source=event.source,
        payload=event.payload,
        correlation_id=event.correlation_id,
        causation_id=event.causation_id,
        # The event stands one below what was handled; a long enough wait begins a new chain (B12).
        depth=depth_after(event.depth - 1, delay_ms),
        fire_at=now + max(0, delay_ms),
        now=now,
        boot=boot.id,
        due_ms=boot.ms + max(0, delay_ms),
    )
    if action is not None:
        statements.note(tx, action, now, workflow_id=None, target=str(number))
    return int(number)


def cancel(
    tx: Transaction,
    deferred_id: int,
    *,
    now: int,
    action: Action | None = None,
    source: str | None = None,
) -> bool:
    """Stop a deferred event; false if it has fired or was cancelled before (B2).

    A person's act is written down; a program cancels what it likes, and that is its own affair.
    An extension, which gives its `source`, cancels only what it scheduled itself (B9).
    """
    found = tx.one("get_deferred_event", id=deferred_id)
    if found is None:
        if not 1 <= deferred_id <= last_number(tx, "deferred"):
            raise NotFound(code="no_deferred", subject=str(deferred_id), next=see("bus.deferred"))
        return False  # retention removes only what has fired or was cancelled (H5)
    deferred = DeferredRow(*found)
    if source is not None and deferred.source != source:
        raise RequestRefused(
            code="not_your_deferred", subject=str(deferred_id), facts={"source": source}
        )
    if deferred.status != DeferredStatus.SCHEDULED:
        return False
    _move_deferred(tx, deferred_id, DeferredMove.CANCEL, fired_at=None, event_id=None)
    if action is not None:
        statements.note(tx, action, now, workflow_id=None, target=str(deferred_id))
    return True


def promote_due(
    tx: Transaction, *, now: int, limit: int, boot: Boot | None = None
) -> tuple[int, ...]:
    """Put what is overdue on the bus, in order of its time; return the events' ids (B2)."""
    page(limit)
    if held_since(tx) is not None:
        return ()
    boot_ms = now if boot is None else boot.ms
    rows = tx.all("overdue_deferred_events", boot_ms=boot_ms, limit=limit)
    overdue = {row[0]: DeferredRow(*row) for row in rows}
    chosen = promotable(
        (Deferred(each.id, each.due_ms, DeferredStatus(each.status)) for each in overdue.values()),
        boot_ms,
    )
    return tuple(_promote(tx, overdue[each.id], now) for each in chosen)


def adopt_deferred(tx: Transaction, boot: Boot, *, now: int, limit: int) -> int:
    """Measure what another boot deferred by the clock of this one; return how many these were (B2).

    The wall clock says once how long each has still to wait; after that it is not asked again.
    """
    rows = tx.all("deferred_of_another_boot", boot=boot.id, limit=limit)
    for deferred_id, fire_at, created_at in rows:
        due_ms = boot.ms + remaining_ms(created_at, fire_at, now)
        tx.write("adopt_deferred_event", id=deferred_id, boot=boot.id, due_ms=due_ms)
    return len(rows)


# -- After a restore (H5) -----------------------------------------------------------------------


def hold(tx: Transaction, since: int, *, now: int) -> None:
    """Hold everything back that a copy shows as still to be told, if there is any.

    And give no number twice: those of the time the copy does not know name other events, for which
    something may have been done outside (L7, T10). Where to go on is said by the clock, since the
    copy cannot: it may have been restored before.
    """
    for name in ("journal", "deferred"):
        least = now * NUMBERS_PER_MS
        tx.write("skip_bus_numbers", name=name, least=least, step=RESTORED_STEP)
    if held_since(tx) is None and tx.one("find_untold") is not None:
        tx.write("put_upkeep", name=HELD, at=since)


def held_since(tx: Transaction) -> int | None:
    """Read since when a restored bus knows nothing and delivers nothing; None if it delivers."""
    found = tx.one("get_upkeep", name=HELD)
    return None if found is None else int(found[0])


def resume_bus(tx: Transaction, *, action: Action, now: int) -> bool:
    """Let a bus that was held back tell what waits; return whether it was."""
    if not tx.run("drop_upkeep", name=HELD):
        return False
    statements.note(tx, action, now, workflow_id=None, target="bus")
    return True


# -- What extensions keep -----------------------------------------------------------------------


def put_state(
    tx: Transaction,
    extension: str,
    key: str,
    value: str,
    *,
    now: int,
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """Keep an extension's value under a key."""
    check_column(key, "key", STATE_KEY_CHARS)
    if len(value.encode()) > limits.state_bytes:
        raise Invalid(
            code="too_long",
            path="value",
            subject=key,
            facts={"limit": limits.state_bytes, "unit": "bytes"},
        )
    tx.write("put_extension_state", extension=extension, key=key, value=value, now=now)


def get_state(tx: Transaction, extension: str, key: str) -> str | None:
    """Read what an extension kept under a key."""
    check_column(key, "key", STATE_KEY_CHARS)
    found = tx.one("get_extension_state", extension=extension, key=key)
    return None if found is None else str(found[0])


# -- What people look at (B14) ------------------------------------------------------------------


def list_journal(
    tx: Transaction,
    *,
    topic: str | None = None,
    status: str | None = None,
    correlation_id: str | None = None,
    limit: int = 100,
    before: int = LAST_ID,
) -> tuple[JournalRow, ...]:
    """Read events, newest first."""
    here: dict[str, Any] = {"before": before, "limit": page(limit)}
    if correlation_id is not None:
        here |= {"topic": topic, "status": status, "correlation_id": correlation_id}
        rows = tx.all("list_journal_by_correlation", **here)
    elif topic is not None:
        rows = tx.all("list_journal_by_topic", topic=topic, status=status, **here)
    elif status is not None:
        rows = tx.all("list_journal_by_status", status=status, **here)
    else:
        rows = tx.all("list_journal", **here)
    return tuple(JournalRow(*row) for row in rows)


def list_deliveries(
    tx: Transaction,
    *,
    event_id: int | None = None,
    status: str | None = None,
    limit: int = 100,
    after: tuple[int, str] = (0, ""),
) -> tuple[Delivery, ...]:
    """Read the deliveries of one event, or all, oldest first; dead letters by their status (B5)."""
    page(limit)
    if event_id is not None:
        found = deliveries_of(tx, event_id)
        return tuple(each for each in found if status in (None, each.status))[:limit]
    here = {"status": status, "event_id": after[0], "subscriber_id": after[1], "limit": limit}
    is_open_ended = status in (None, DeliveryStatus.DONE)
    rows = tx.all("list_deliveries" if is_open_ended else "list_unfinished_deliveries", **here)
    return tuple(map(delivery_of, rows))


def list_deferred(
    tx: Transaction,
    *,
    status: str = DeferredStatus.SCHEDULED,
    limit: int = 100,
    after: tuple[int, int] = (0, 0),
) -> tuple[DeferredRow, ...]:
    """Read deferred events of one status in the order in which they fire."""
    here = {"status": status, "fire_at": after[0], "id": after[1], "limit": page(limit)}
    return tuple(DeferredRow(*row) for row in tx.all("list_deferred", **here))


def list_subscriptions(tx: Transaction) -> tuple[SubscriptionRow, ...]:
    """Read all subscriptions in registration order."""
    return tuple(SubscriptionRow(*row) for row in tx.all("list_subscriptions"))


# -- What the verbs of `delivery` read ----------------------------------------------------------


def read_event(tx: Transaction, event_id: int) -> JournalRow:
    """Read an event as it is now."""
    found = find_event(tx, event_id)
    if found is None:
        raise NotFound(code="no_bus_event", subject=str(event_id))
    return found


def find_event(tx: Transaction, event_id: int) -> JournalRow | None:
    """Read an event, if it is there: retention removes what is over (H5)."""
    found = tx.one("get_journal_event", id=event_id)
    return None if found is None else JournalRow(*found)


def last_number(tx: Transaction, name: str) -> int:
    """Read the last number that was given out: what is not there any more has been (B2)."""
    ((number,),) = tx.all("get_bus_number", name=name)
    return int(number)


def find_subscription(tx: Transaction, subscriber_id: str) -> SubscriptionRow | None:
    """Read a subscription, if it has not ended."""
    found = read_subscription(tx, subscriber_id)
    return None if found is None or found.leaving else found


def read_subscription(tx: Transaction, subscriber_id: str) -> SubscriptionRow | None:
    """Read a subscription, also one that was ended while something still waits to be closed."""
    found = tx.one("get_subscription", subscriber_id=subscriber_id)
    return None if found is None else SubscriptionRow(*found)


def delivery_of(row: Row) -> Delivery:
    """Read a delivery as the rules see it."""
    event_id, topic, name, position, status, attempts, due_at, error, suspect = row
    word = DeliveryStatus(status)
    return Delivery(event_id, topic, name, position, word, attempts, due_at, error, bool(suspect))


def deliveries_of(tx: Transaction, event_id: int) -> tuple[Delivery, ...]:
    """Read all deliveries of an event in registration order."""
    return tuple(map(delivery_of, tx.all("event_deliveries", event_id=event_id)))


def _promote(tx: Transaction, deferred: DeferredRow, now: int) -> int:
    event = JournalEvent(
        deferred.topic,
        deferred.source,
        deferred.payload,
        deferred.correlation_id,
        deferred.causation_id,
        deferred.depth,
    )
    event_id = statements.emit(tx, event, now)
    _move_deferred(tx, deferred.id, DeferredMove.FIRE, fired_at=now, event_id=event_id)
    return event_id


def _move_deferred(
    tx: Transaction,
    deferred_id: int,
    move: DeferredMove,
    *,
    fired_at: int | None,
    event_id: int | None,
) -> None:
    old = DeferredStatus.SCHEDULED
    moved = tx.one(
        "move_deferred_event",
        id=deferred_id,
        old_status=old,
        status=move_deferred(old, move),
        fired_at=fired_at,
        event_id=event_id,
    )
    statements.must(moved, f"Deferred event {deferred_id}")
