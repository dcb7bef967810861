"""Why an event of the bus stands as it does: for whom it waits, or how it ended (U7, B13).

Law: it is read from the store; only who can be reached in this process is asked of the bus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from duly.desk import offer
from duly.desk.record import Why
from duly.desk.sight import Sight
from duly.errors import NotFound
from duly.fact import Offer, Reason
from duly.rules.account import Waiting
from duly.rules.blind import BlindCause, blind_facts
from duly.rules.delivery import (
    OPEN,
    Delivery,
    DeliveryStatus,
    JournalStatus,
    Presence,
)
from duly.rules.schedule import earliest, moment
from duly.rules.standing import Mover
from duly.rules.waiting import EventFate, Wait, find_wait
from duly.store import bus
from duly.store.base import Transaction
from duly.store.bus import JournalRow
from duly.store.upkeep import list_blind

OFFERS_MAX: Final = 5


def why(tx: Transaction, sight: Sight, presence: Callable[[str], Presence], event_id: int) -> Why:
    """Say why an event of the bus waits, and for whom, or what became of it."""
    event = bus.find_event(tx, event_id)
    if event is None:
        if not 1 <= event_id <= bus.last_number(tx, "journal"):
            raise NotFound(code="no_bus_event", subject=str(event_id))
        return _answer(None, Reason(EventFate.GONE, f"bus:{event_id}"), Mover.NOTHING)
    deliveries = bus.deliveries_of(tx, event_id)
    is_open = event.status in (JournalStatus.PENDING, JournalStatus.PROCESSING)
    if not is_open:
        return _ended(sight, event, deliveries)
    held = bus.held_since(tx)
    if held is not None:
        reason = explain_held(tx, held)
        return _answer(event, reason, Mover.PERSON, offers=(offer.resume_bus(),))
    return _open(sight, presence, event, deliveries)


def explain_held(tx: Transaction, since: int) -> Reason:
    """Say why the bus delivers nothing (H5, H10)."""
    cause = list_blind(tx).get(since, BlindCause.BACKUP)
    return Reason(Waiting.BUS_HELD, "bus", blind_facts(since, cause))


def _open(
    sight: Sight,
    presence: Callable[[str], Presence],
    event: JournalRow,
    deliveries: tuple[Delivery, ...],
) -> Why:
    waiting = [each for each in deliveries if each.status in OPEN]
    if not waiting:
        return _answer(event, _reason(event, EventFate.QUEUED), Mover.HOST)
    found = [_wait(sight, presence, each) for each in waiting]
    waits = [{"code": each.code, "facts": dict(each.facts)} for each in found]
    away = all(presence(each.subscriber_id) is Presence.AWAY for each in waiting)
    later = [each.due_at_ms for each in waiting if each.due_at_ms > sight.now_ms]
    return _answer(
        event,
        _reason(event, EventFate.WAITS, {"deliveries": waits}),
        Mover.SUBSCRIBER if away else Mover.HOST,
        at_ms=None if away else earliest(later),
    )


def _wait(sight: Sight, presence: Callable[[str], Presence], delivery: Delivery) -> Reason:
    name = sight.text(delivery.subscriber_id)
    waits = find_wait(delivery, presence(delivery.subscriber_id), sight.now_ms, is_held=False)
    found = waits or Reason(Wait.BEING_TOLD, str(delivery.event_id))
    return Reason(found.code, found.subject, {**found.facts, "subscriber": name})


def _ended(sight: Sight, event: JournalRow, deliveries: tuple[Delivery, ...]) -> Why:
    at = moment(event.processed_at or event.created_at)
    if event.undelivered:
        return _answer(event, _reason(event, EventFate.UNHEARD, {"at": at}), Mover.NOTHING)
    names = sight.texts(each.subscriber_id for each in deliveries)
    if event.status == JournalStatus.DONE:
        facts = {"at": at, "subscribers": names}
        return _answer(event, _reason(event, EventFate.HEARD, facts), Mover.NOTHING)
    dead = [each for each in deliveries if each.status is DeliveryStatus.DEAD]
    offers = tuple(
        made
        for each in dead[:OFFERS_MAX]
        for made in offer.deliver(each.event_id, each.subscriber_id)
    )
    facts = {"at": at, **({"errors": sight.text(event.error)} if event.error else {})}
    reason = _reason(event, EventFate.GIVEN_UP, facts)
    return _answer(event, reason, Mover.PERSON if dead else Mover.NOTHING, offers=offers)


def _reason(event: JournalRow, code: EventFate, facts: Mapping[str, Any] | None = None) -> Reason:
    return Reason(code, f"bus:{event.id}", facts or {})


def _answer(
    event: JournalRow | None,
    reason: Reason,
    mover: Mover,
    *,
    at_ms: int | None = None,
    offers: tuple[Offer, ...] = (),
) -> Why:
    return Why(
        workflow="",
        reason=reason,
        inputs=() if event is None else (f"{event.topic} from {event.source}",),
        claimed=None,
        observed=None,
        mover=mover,
        at=None if at_ms is None else moment(at_ms),
        offers=offers,
    )
