"""What a bus event is called in the workflow it goes into (T10).

Law: it is validated like every publish; what cannot be published is refused with a sentence, and
nothing of it enters. Its number on the bus names it for good, so it enters once.
"""

from __future__ import annotations

from duly.config import Limits
from duly.rules.delivery import Event
from duly.rules.event import bus_publication
from duly.store.delivery import Ingress
from duly.store.ingress import IngressTopic


def enter(ingress: IngressTopic, event: Event, limits: Limits) -> Ingress:
    """Make a bus event into what a workflow's topic takes, or refuse it."""
    publication = bus_publication(
        ingress.topic,
        bus_topic=event.topic,
        source=event.source,
        event_id=event.id,
        payload=event.payload,
        limits=limits,
    )
    return Ingress(ingress.workflow_id, publication)
