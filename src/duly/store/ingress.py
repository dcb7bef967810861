"""The topics of workflows that listen to the bus, and their names as subscribers (T10).

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
class IngressTopic:
    """A topic of a workflow that listens to a topic of the bus."""

    workflow_id: str
    topic: str
    bus_topic: str

    @property
    def subscriber_id(self) -> str:
        """Its name among the subscribers (B13)."""
        return f"{OWN_SOURCE}:{self.bus_topic}:{self.workflow_id}.{self.topic}"


def list_ingress(tx: Transaction) -> tuple[IngressTopic, ...]:
    """Read every listening topic of the workflows that are deployed now."""
    return tuple(IngressTopic(*row) for row in tx.all("list_ingress_topics"))


def ingress_of(tx: Transaction, workflow_id: str) -> tuple[IngressTopic, ...]:
    """Read the listening topics of one workflow."""
    return tuple(IngressTopic(*row) for row in tx.all("ingress_topics", workflow_id=workflow_id))


def change_ingress(
    tx: Transaction, workflow_id: str, before: tuple[IngressTopic, ...], *, now: int
) -> None:
    """Subscribe the topics that listen since `before`, and end those that stopped (W9, W10).

    Deliveries that waited for a topic that stopped are closed, the first turn of them here, and
    say so; a topic that still listens keeps its place.
    """
    after = ingress_of(tx, workflow_id)
    for each in before:
        if each not in after:
            subscription.unsubscribe(tx, each.subscriber_id, now=now)
    for each in after:
        if each not in before:
            subscription.subscribe(tx, each.subscriber_id, each.bus_topic, ONCE, now=now)


def unsubscribe(
    tx: Transaction,
    subscriber_id: str,
    *,
    now: int,
    limit: int = PAGE_ROWS_MAX,
    action: Action | None = None,
) -> subscription.Left:
    """End a subscription that is not a workflow's own; return what was closed for it (B13)."""
    for each in list_ingress(tx):
        if each.subscriber_id == subscriber_id:
            raise RequestRefused(
                code="subscriber_of_workflow",
                subject=subscriber_id,
                facts={"topic": each.topic, "bus_topic": each.bus_topic},
            )
    return subscription.unsubscribe(tx, subscriber_id, now=now, limit=limit, action=action)
