"""The bus in a few states: who has subscribed, what was emitted, how far its deliveries got.

Law: a state is made by verbs alone, so whatever it shows the product can reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duly.rules.delivery import Retry
from duly.rules.event import bus_publication
from duly.store.delivery import Ingress
from duly.store.record import Action, JournalEvent, TopicSpec
from tests.store.exam import NOW, World
from tests.store.scene import WORKFLOW, deployment

MAIL = JournalEvent("mail", "postman", '{"text":"hello"}', "thread-1", "cause-1", depth=2)
NEWS = JournalEvent("news", "postman", "{}")
FIRST, SECOND = "first:mail:read", "second:mail:read"
BOTH = frozenset({FIRST, SECOND})
ONCE = Retry(1, ())
SAID = Action("action_1", "ada", "decide")
A_SECOND = 1_000
A_MINUTE = 60_000


async def subscribed(world: World) -> None:
    """Two subscribers of one topic."""
    await world.store.subscribe(FIRST, "mail", Retry(), now=NOW)
    await world.store.subscribe(SECOND, "mail", ONCE, now=NOW)


async def emitted(world: World) -> None:
    """Two subscribers, and two events they were not told of."""
    await subscribed(world)
    for _ in range(2):
        await world.store.emit(MAIL, now=NOW)


async def begun(world: World) -> None:
    """The first subscriber is at the first event."""
    await emitted(world)
    await world.store.begin_delivery(1, BOTH, now=NOW)


async def dead(world: World) -> None:
    """The second subscriber has used up its only attempt; the first is done."""
    await begun(world)
    await world.store.finish_delivery(1, FIRST, 1, now=NOW)
    await world.store.begin_delivery(1, BOTH, now=NOW)
    await world.store.finish_delivery(1, SECOND, 1, error="it rained", now=NOW)


async def deferred(world: World) -> None:
    """Three events that fire at the same time or earlier than the one made before."""
    for delay_ms in (3 * A_SECOND, A_SECOND, A_SECOND):
        await world.store.defer(MAIL, delay_ms=delay_ms, now=NOW)


async def left_behind(world: World) -> None:
    """A host died: one delivery runs, one waits for its retry, a deferred event is overdue."""
    await deferred(world)
    await begun(world)
    await world.store.finish_delivery(1, FIRST, 1, error="it rained", now=NOW)
    await world.store.begin_delivery(1, BOTH, now=NOW)


async def listened(world: World) -> None:
    """A workflow's topic listens to the bus, and its subscriber is at the first event."""
    topics = (TopicSpec("letters", bus_topic="mail"), TopicSpec("deaf"))
    action = Action("action_0", "ada", "deploy")
    await world.store.deploy(
        deployment(handlers=(), topics=topics), successor_id="run_0", action=action, now=NOW
    )
    await begun(world)


async def statuses(world: World) -> list[str]:
    """Read the statuses of all events, oldest first."""
    return [each.status for each in reversed(await world.store.list_journal())]


async def delivered(world: World) -> list[tuple[int, str, str, int]]:
    """Read event, subscriber, status and attempts of all deliveries."""
    found = await world.store.list_deliveries()
    return [(each.event_id, each.subscriber_id, each.status, each.attempts) for each in found]


def ingress(topic: str) -> Ingress:
    """Make the way of the first event into a workflow's topic."""
    publication = bus_publication(
        topic, bus_topic="mail", source="postman", event_id=1, payload={"text": "hello"}
    )
    return Ingress(WORKFLOW, publication)


async def mixed(world: World) -> None:
    """Dead and waiting deliveries, three events, two topics, deferred events."""
    await dead(world)
    await world.store.emit(NEWS, now=NOW)
    await deferred(world)


def ids(rows: Iterable[Any]) -> list[int]:
    """Read the ids of rows."""
    return [row.id for row in rows]
