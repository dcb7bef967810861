"""The ways from the bus into workflows: which topics listen, and under which name (T10).

Law 1  A topic that listens to the bus is a subscriber like any other, from the deploy that declares
       it until the one that does not: its record is written in the transaction of that deploy, so
       no event between is missed.
Law 2  So only a deploy, or the removal of the workflow, can end its subscription.
Law 3  Its name is made of the workflow's id, never of its name: a workflow that comes after one of
       the same name inherits nothing (W10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from duly.errors import RequestRefused
from duly.rules.delivery import OWN_SOURCE, Retry
from duly.store import subscription
from duly.store.base import Transaction
from duly.store.people import PAGE_ROWS_MAX
from duly.store.record import Action

# What cannot be published once cannot be published the next time either.
ONCE: Final = Retry(attempts=1, delays_s=())


@dataclass(frozen=True, slots=True)
class Way:
    """A topic of a workflow that listens to a topic of the bus."""

    workflow_id: str
    topic: str
    bus_topic: str

    @property
    def subscriber_id(self) -> str:
        """Its name among the subscribers (B13)."""
        return f"{OWN_SOURCE}:{self.bus_topic}:{self.workflow_id}.{self.topic}"


def list_ways(tx: Transaction) -> tuple[Way, ...]:
    """Read every way into a workflow that is deployed now."""
    return tuple(Way(*row) for row in tx.all("list_ingress_topics"))


def ways_of(tx: Transaction, workflow_id: str) -> tuple[Way, ...]:
    """Read the ways into one workflow."""
    return tuple(Way(*row) for row in tx.all("ingress_topics", workflow_id=workflow_id))


def change_ways(tx: Transaction, workflow_id: str, before: tuple[Way, ...], *, now: int) -> None:
    """Open the ways that are new since `before` and close those that are gone (W9, W10).

    What waited for a way that is gone is closed, the first turn of it here, and says so; a way that
    stays keeps its place.
    """
    after = ways_of(tx, workflow_id)
    for way in before:
        if way not in after:
            subscription.unsubscribe(tx, way.subscriber_id, now=now)
    for way in after:
        if way not in before:
            subscription.subscribe(tx, way.subscriber_id, way.bus_topic, ONCE, now=now)


def unsubscribe(
    tx: Transaction,
    subscriber_id: str,
    *,
    now: int,
    limit: int = PAGE_ROWS_MAX,
    action: Action | None = None,
) -> subscription.Left:
    """End a subscription that is no way into a workflow; return what was closed for it (B13)."""
    for way in list_ways(tx):
        if way.subscriber_id == subscriber_id:
            raise RequestRefused(
                code="subscriber_of_workflow",
                subject=subscriber_id,
                facts={"topic": way.topic, "bus_topic": way.bus_topic},
            )
    return subscription.unsubscribe(tx, subscriber_id, now=now, limit=limit, action=action)
