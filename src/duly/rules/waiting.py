"""What a delivery of the bus waits for, and what became of an event, as codes (B13, U7).

Law: it is decided by the delivery and by who can be reached in this process, and by nothing else.
"""

from __future__ import annotations

from enum import StrEnum

from duly.fact import Reason
from duly.rules.delivery import Delivery, DeliveryStatus, Presence
from duly.rules.schedule import moment


class Wait(StrEnum):
    """For whom or for what a delivery waits, or a whole event does (B13, U7)."""

    BUS_HELD = "delivery_held"
    SUBSCRIBER_AWAY = "subscriber_away"
    SUBSCRIBER_STUCK = "subscriber_stuck"
    ATTEMPT_AHEAD = "attempt_ahead"
    IN_TURN = "in_turn"
    BEING_TOLD = "being_told"


class EventFate(StrEnum):
    """What became of an event of the bus (U7)."""

    WAITS = "event_waits"
    QUEUED = "event_queued"
    HEARD = "event_heard"
    UNHEARD = "event_unheard"
    GIVEN_UP = "event_given_up"
    GONE = "event_gone"


def find_wait(
    delivery: Delivery, presence: Presence, now_ms: int, *, is_held: bool
) -> Reason | None:
    """Say for whom or for what a delivery waits, if it waits (B13)."""
    if delivery.status is not DeliveryStatus.WAITING:
        return None
    facts: dict[str, object] = {"subscriber": delivery.subscriber_id}
    if is_held:
        code = Wait.BUS_HELD
    elif presence is Presence.AWAY:
        code = Wait.SUBSCRIBER_AWAY
    elif presence is Presence.STUCK:
        code = Wait.SUBSCRIBER_STUCK
    elif delivery.due_at_ms > now_ms:
        code = Wait.ATTEMPT_AHEAD
        facts |= {"attempt": delivery.attempts + 1, "retry_at": moment(delivery.due_at_ms)}
    else:
        code = Wait.IN_TURN
    return Reason(code, str(delivery.event_id), facts)
