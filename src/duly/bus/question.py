"""Reads the arguments of questions to the bus: ids, topics, pages.

Law: a wrong argument is refused to its caller, with its name and what to give instead; none of
them reaches the store. The error does not repeat the value: it may have any length.
"""

from __future__ import annotations

from duly.bus.record import Deferred
from duly.config import Limits
from duly.errors import Invalid
from duly.rules.delivery import check_subscriber_id, check_topic
from duly.rules.event import parse_message_id
from duly.store.bus import LAST_ID


def read_id(given: object, path: str) -> int:
    """Read the number of an event, or of a deferred one."""
    if type(given) is not int or not 0 <= given <= LAST_ID:
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "bus_id"})
    return given


def read_topic(given: object, limits: Limits) -> str | None:
    """Read the name of a topic, or none."""
    return None if given is None else check_topic(given, limits)


def read_correlation(given: object, limits: Limits) -> str | None:
    """Read a correlation id, or none."""
    return None if given is None else parse_message_id(given, "correlation_id", limits)


def read_place(given: object) -> tuple[int, str]:
    """Read behind which delivery a page begins."""
    try:
        event_id, name = given if isinstance(given, tuple | list) else ()
        return read_id(event_id, "after"), "" if name == "" else check_subscriber_id(name)
    except (Invalid, ValueError):
        raise Invalid(code="wrong_value", path="after", facts={"wanted": "last_delivery"}) from None


def read_time(given: object) -> tuple[int, int]:
    """Read behind which deferred event a page begins: its time, then its id."""
    if given is None:
        return 0, 0
    if not isinstance(given, Deferred):
        raise Invalid(code="wrong_value", path="after", facts={"wanted": "last_deferred"})
    return round(given.fire_at.timestamp() * 1000), given.id
