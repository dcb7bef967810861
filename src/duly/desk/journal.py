"""Why an event of the bus stands as it does: for whom it waits, or how it ended (U7, B13).

Law: it is read from the store; only who can be reached in this process is asked of the bus.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from duly.desk import offer
from duly.desk.record import Offer, Why
from duly.desk.sight import Sight
from duly.errors import NotFound
from duly.rules.account import explain_held
from duly.rules.delivery import (
    OPEN,
    Delivery,
    DeliveryStatus,
    JournalStatus,
    Presence,
    explain_wait,
)
from duly.rules.schedule import earliest, moment
from duly.rules.standing import MOVERS
from duly.rules.word import Way
from duly.store import bus
from duly.store.base import Transaction
from duly.store.bus import JournalRow

NOTHING_MORE: Final = "Nothing more happens to it."
BY_SUBSCRIBER: Final = "The subscriber, when a program connects it under this name."
GONE: Final = (
    "It is not here any more: it was over and retention removed it, or it came after the backup "
    "that was restored."
)
OFFERS_MAX: Final = 5


def why(tx: Transaction, sight: Sight, presence: Callable[[str], Presence], event_id: int) -> Why:
    """Say why an event of the bus waits, and for whom, or what became of it."""
    event = bus.find_event(tx, event_id)
    if event is None:
        if not 1 <= event_id <= bus.last_number(tx, "journal"):
            raise NotFound(code="no_bus_event", subject=str(event_id))
        return _answer("", GONE, NOTHING_MORE)
    name = f"{event.topic} from {event.source}"
    deliveries = bus.deliveries_of(tx, event_id)
    is_open = event.status in (JournalStatus.PENDING, JournalStatus.PROCESSING)
    if not is_open:
        return _ended(sight, event, name, deliveries)
    held = bus.held_since(tx)
    if held is not None:
        said = explain_held(f"{sight.moment(held)} ({sight.policy.timezone})")
        return _answer(name, said, MOVERS[Way.PERSON], offers=(offer.resume_bus(),))
    return _open(sight, presence, name, deliveries)


def _open(
    sight: Sight, presence: Callable[[str], Presence], name: str, deliveries: tuple[Delivery, ...]
) -> Why:
    waiting = [each for each in deliveries if each.status in OPEN]
    if not waiting:
        return _answer(name, "It waits for its turn; nobody was told of it yet.", MOVERS[Way.HOST])
    said = [_wait(sight, presence, each) for each in waiting]
    away = all(presence(each.subscriber_id) is Presence.AWAY for each in waiting)
    later = [each.due_at_ms for each in waiting if each.due_at_ms > sight.now_ms]
    return _answer(
        name,
        " ".join(dict.fromkeys(said)),
        BY_SUBSCRIBER if away else MOVERS[Way.HOST],
        at_ms=None if away else earliest(later),
    )


def _wait(sight: Sight, presence: Callable[[str], Presence], delivery: Delivery) -> str:
    name = delivery.subscriber_id
    waits = explain_wait(delivery, presence(name), sight.now_ms, is_held=False)
    said = f"{name} is being told." if waits is None else waits
    return sight.text(said)


def _ended(sight: Sight, event: JournalRow, name: str, deliveries: tuple[Delivery, ...]) -> Why:
    at = sight.moment(event.processed_at or event.created_at)
    if event.undelivered:
        return _answer(name, f"It ended on {at}: nobody subscribes to it.", NOTHING_MORE)
    if event.status == JournalStatus.DONE:
        told = " and ".join(each.subscriber_id for each in deliveries)
        return _answer(name, sight.text(f"It ended on {at}: {told} heard of it."), NOTHING_MORE)
    dead = [each for each in deliveries if each.status is DeliveryStatus.DEAD]
    offers = tuple(
        made
        for each in dead[:OFFERS_MAX]
        for made in offer.deliver(each.event_id, each.subscriber_id)
    )
    said = sight.text(f"It was given up on {at}. {event.error or ''}".strip())
    return _answer(name, said, MOVERS[Way.PERSON] if dead else NOTHING_MORE, offers=offers)


def _answer(
    name: str,
    said: str,
    moved_on_by: str,
    *,
    at_ms: int | None = None,
    offers: tuple[Offer, ...] = (),
) -> Why:
    return Why(
        workflow="",
        sentence=said,
        inputs=(name,) if name else (),
        claimed=None,
        observed=None,
        reason=said,
        moved_on_by=moved_on_by,
        at=None if at_ms is None else moment(at_ms),
        offers=offers,
    )
