"""What questions to the bus return: one frozen record for each thing that can be asked about.

Law 1  Every word is its enum, every time an aware datetime in UTC, every list a tuple; each caller
       gets a copy of its own.
Law 2  A text that came from outside is shown without secrets (A5). The names by which a delivery
       is retried or discarded stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from duly.errors import Invalid
from duly.fact import Reason
from duly.rules.deferral import DeferredStatus
from duly.rules.delivery import Delivery as DeliveryRow
from duly.rules.delivery import (
    DeliveryStatus,
    JournalStatus,
    Presence,
)
from duly.rules.redaction import Redactor, redact, redact_text
from duly.rules.value import decode
from duly.store.bus import DeferredRow, JournalRow, SubscriptionRow


@dataclass(frozen=True, slots=True)
class Journaled:
    """An event of the bus; a payload that cannot be read is None.

    `undelivered` says that it ended because it had no subscriber (B11).
    """

    id: int
    topic: str
    source: str
    payload: dict[str, Any] | None
    correlation_id: str | None
    causation_id: str | None
    depth: int
    status: JournalStatus
    undelivered: bool
    error: str | None
    created_at: datetime
    processed_at: datetime | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event for one subscriber; `reason` is what it waits for, if it waits."""

    event_id: int
    topic: str
    subscriber_id: str
    status: DeliveryStatus
    attempts: int
    due_at: datetime
    error: str | None
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Deferred:
    """An event that is to be put on the bus later, or was: then `event_id` is its number there."""

    id: int
    topic: str
    source: str
    payload: dict[str, Any] | None
    correlation_id: str | None
    causation_id: str | None
    status: DeferredStatus
    fire_at: datetime
    created_at: datetime
    fired_at: datetime | None
    event_id: int | None


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subscriber of the bus: the topic it hears, and how often a delivery to it is tried.

    `reached` says how it can be reached in this host: here, away or stuck.
    """

    subscriber_id: str
    topic: str
    attempts_max: int
    reached: Presence
    created_at: datetime


def show_subscriber(row: SubscriptionRow, reached: Presence) -> Subscribed:
    """Show a subscription."""
    return Subscribed(row.subscriber_id, row.topic, row.attempts_max, reached, _at(row.created_at))


def show_event(row: JournalRow, secrets: Redactor) -> Journaled:
    """Show an event of the journal."""
    return Journaled(
        id=row.id,
        topic=row.topic,
        source=redact_text(row.source, secrets),
        payload=_payload(row.payload, secrets),
        correlation_id=_text(row.correlation_id, secrets),
        causation_id=row.causation_id,
        depth=row.depth,
        status=JournalStatus(row.status),
        undelivered=bool(row.undelivered),
        error=_text(row.error, secrets),
        created_at=_at(row.created_at),
        processed_at=None if row.processed_at is None else _at(row.processed_at),
    )


def show_delivery(row: DeliveryRow, reason: Reason | None, secrets: Redactor) -> Delivery:
    """Show a delivery, and for whom or for what it waits (B13)."""
    return Delivery(
        event_id=row.event_id,
        topic=row.topic,
        subscriber_id=row.subscriber_id,
        status=row.status,
        attempts=row.attempts,
        due_at=_at(row.due_at_ms),
        error=_text(row.error, secrets),
        reason=reason,
    )


def show_deferred(row: DeferredRow, secrets: Redactor) -> Deferred:
    """Show a deferred event."""
    return Deferred(
        id=row.id,
        topic=row.topic,
        source=redact_text(row.source, secrets),
        payload=_payload(row.payload, secrets),
        correlation_id=_text(row.correlation_id, secrets),
        causation_id=row.causation_id,
        status=DeferredStatus(row.status),
        fire_at=_at(row.fire_at),
        created_at=_at(row.created_at),
        fired_at=None if row.fired_at is None else _at(row.fired_at),
        event_id=row.event_id,
    )


def _text(text: str | None, secrets: Redactor) -> str | None:
    return None if text is None else redact_text(text, secrets)


def _payload(text: str, secrets: Redactor) -> dict[str, Any] | None:
    try:
        payload = redact(decode(text, "payload"), secrets)
    except Invalid:
        return None
    return payload if isinstance(payload, dict) else None


def _at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
