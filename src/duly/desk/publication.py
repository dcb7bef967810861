"""How an event comes in from outside: by a request, or by a webhook (T10, G12)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from duly.bus.cause import handled_event
from duly.desk.base import Desk, find, find_topic
from duly.errors import Invalid
from duly.rules.event import Republish, parse_publication
from duly.rules.value import Json
from duly.store.base import Transaction
from duly.store.record import Action

RESERVED: Final = ("bus:", "run_")  # how the bus and runs are named as makers of events (T2)


async def publish(
    desk: Desk, workflow: str, topic: str, message: Mapping[str, Json], action: Action
) -> Republish:
    """Publish a message into a topic with ingress; return what became of it (T5)."""
    _check_publisher(action.by)

    def look(tx: Transaction) -> str:
        found = find(tx, workflow)
        find_topic(tx, found, topic, is_orphan_fine=False)
        return found.id

    workflow_id = await desk.look(look)
    publication = parse_publication(topic, message, desk.parts.policy.limits)
    verb = partial(
        desk.parts.store.publish,
        workflow_id,
        publication,
        action=action,
        bus_event=handled_event(desk.parts.store),
        now=desk.now_ms,
    )
    republish, _ = await desk.carry_out(verb, workflow_id)
    return republish


def _check_publisher(by: str) -> None:
    """Refuse a name under which a script or the bus publishes: the two would look alike."""
    if by.startswith(RESERVED):
        raise Invalid(code="reserved_name", path="by", facts={"given": by, "reserved": [*RESERVED]})
