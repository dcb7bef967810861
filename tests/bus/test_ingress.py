"""From the bus into a workflow: in one transaction, once, and from the deploy on (T10)."""

from __future__ import annotations

from typing import Any

import pytest

from duly.config import Limits, Policy
from duly.errors import RequestRefused
from duly.rules.delivery import Event
from duly.testing import Stage
from tests.bus.stand import delivered, listen, say, statuses
from tests.engine.stand import IN, NAME, OUT, consumer, flow, opened
from verification.moves import Call, Return
from verification.scripted import Scripted

BUS = "user.message"


def hearing(*topics: tuple[str, str], name: str = NAME, **more: Any) -> Scripted:
    """Write a workflow whose topics hear the bus, the usual one if none is named."""
    script = flow(name=name, **more)
    declared: dict[str, Any] = script.declaration
    for topic, bus_topic in topics or ((IN, BUS),):
        declared["topics"][topic] = {"ingress": {"bus": bus_topic}}
    return script


def deaf(name: str = NAME) -> Scripted:
    """Write the same workflow, hearing nothing."""
    return flow(name=name)


def way(workflow_id: str, topic: str = IN, bus_topic: str = BUS) -> str:
    return f"duly:{bus_topic}:{workflow_id}.{topic}"


async def test_a_bus_event_enters_the_workflow_and_is_worked_on_in_one_drain(
    duly_world: Stage,
) -> None:
    """T10: message id bus:<id>, the payload as it is; the engine is woken for it."""
    play = await opened(duly_world)
    workflow_id = await play.deploy(hearing())
    id_1 = await say(play.host, BUS, text="hello", title="A message from Ada")
    await play.drain()
    (event,) = await play.events()
    assert (event.message_id, event.title) == (f"bus:{id_1}", "A message from Ada")
    assert (event.status, event.created_by) == ("consumed", f"bus:{id_1}")
    assert duly_world.count("sheet.append") == 1
    assert await delivered(play.host) == {(id_1, way(workflow_id)): ("done", 1)}


@pytest.mark.parametrize(
    ("payload", "title"),
    [
        ({"title": "The title", "text": "The text"}, "The title"),
        ({"text": "x" * 200}, "x" * 119 + "…"),
        ({"title": "\n", "text": ""}, f"{BUS} from test (bus:1)"),
        ({"title": 7}, f"{BUS} from test (bus:1)"),
    ],
)
async def test_an_event_gets_the_words_it_brings_or_else_topic_source_and_id(
    duly_world: Stage, payload: dict[str, Any], title: str
) -> None:
    """T10: payload.title, else payload.text cut, else topic, source and id."""
    play = await opened(duly_world)
    await play.deploy(hearing())
    await say(play.host, BUS, **payload)
    await play.drain()
    assert [event.title for event in await play.events()] == [title]


async def test_a_serving_host_works_on_it_at_once(duly_world: Stage) -> None:
    """T10, S4: without a poll, neither of the bus nor of the engine."""
    play = await opened(duly_world)
    await play.deploy(hearing())
    async with play.host.running():
        await duly_world.advance(1)
        start = duly_world.env.now_ms()
        id_1 = await say(play.host, BUS)
        await duly_world.loop.rest()
        assert await play.statuses() == {f"bus:{id_1}": "consumed"}
        assert duly_world.env.now_ms() == start


async def test_an_event_right_after_the_deploy_is_not_missed(duly_world: Stage) -> None:
    """T10: the subscription is written in the deploy's own transaction; no drain comes between."""
    play = await opened(duly_world)
    await play.deploy(hearing())
    id_1 = await say(play.host, BUS)
    await play.restart()
    await play.drain()
    assert await play.statuses() == {f"bus:{id_1}": "consumed"}


async def test_an_event_from_before_the_deploy_does_not_enter(duly_world: Stage) -> None:
    """B13: later subscriptions get later events; the drain has closed the earlier one."""
    play = await opened(duly_world)
    await say(play.host, BUS)
    await play.drain()
    await play.deploy(hearing())
    id_2 = await say(play.host, BUS)
    await play.drain()
    assert await play.statuses() == {f"bus:{id_2}": "consumed"}


async def test_handlers_and_workflows_hear_the_same_event(duly_world: Stage) -> None:
    """T10, B3: a workflow is a subscriber like any other, and two topics are two."""
    play = await opened(duly_world)
    ear = listen(play.host, BUS)
    await play.deploy(hearing((IN, BUS), (OUT, BUS)))
    await play.deploy(hearing(name="other"))
    id_1 = await say(play.host, BUS)
    await play.drain()
    assert ear.ids == [id_1]
    assert await play.statuses(IN) == {f"bus:{id_1}": "consumed"}
    assert f"bus:{id_1}" in await play.statuses(OUT)
    assert await play.statuses(IN, "other") == {f"bus:{id_1}": "consumed"}
    assert set((await delivered(play.host)).values()) == {("done", 1)}


async def test_what_cannot_be_published_is_a_dead_delivery_with_its_sentence(
    duly_world: Stage,
) -> None:
    """T10, B5: tried once, since it would be refused again; the bus goes on."""
    play = await opened(duly_world, policy=Policy(limits=Limits(payload_bytes=100)))
    await play.deploy(hearing())
    # The bus of another time took larger payloads.
    await play.restart(policy=Policy())
    id_1 = await say(play.host, BUS, text="x" * 200)
    await play.restart(policy=Policy(limits=Limits(payload_bytes=100)))
    id_2 = await say(play.host, BUS, text="short")
    await play.drain()
    (dead,) = await play.host.bus.deliveries(status="dead")
    assert (dead.event_id, dead.attempts) == (id_1, 1)
    assert dead.error is not None
    assert "100 bytes" in dead.error
    assert await play.statuses() == {f"bus:{id_2}": "consumed"}


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_crash_around_the_entry_lets_it_in_once(duly_world: Stage, moment: Any) -> None:
    """T10, B4: the event and the record of its delivery are one transaction."""
    play = await opened(duly_world)
    await play.deploy(hearing())
    id_1 = await say(play.host, BUS)
    await play.crash_during(finish_delivery=moment)
    await play.drain()
    assert await play.statuses() == {f"bus:{id_1}": "consumed"}
    assert duly_world.count("sheet.append") == 1


async def test_a_redeploy_that_stays_keeps_its_place_and_one_that_leaves_hears_no_more(
    duly_world: Stage,
) -> None:
    """T10, W9: what entered stays; later events are for nobody."""
    play = await opened(duly_world)
    workflow_id = await play.deploy(hearing())
    id_1 = await say(play.host, BUS)
    assert await play.deploy(hearing()) == workflow_id
    await play.drain()
    assert await play.statuses() == {f"bus:{id_1}": "consumed"}
    await play.deploy(deaf())
    id_2 = await say(play.host, BUS)
    await play.drain()
    assert await play.statuses() == {f"bus:{id_1}": "consumed"}
    assert await statuses(play.host) == {id_1: "done", id_2: "done"}


async def test_a_redeploy_that_leaves_closes_what_waited_and_says_so(duly_world: Stage) -> None:
    """W9, B13: an event that was opened for it and not yet delivered."""
    play = await opened(duly_world)
    first = listen(play.host, BUS, "first")
    await play.drain()  # so that it is registered before the workflow
    workflow_id = await play.deploy(hearing())

    async def redeploy(event: Event) -> None:
        await play.deploy(deaf())

    first.then = redeploy
    id_1 = await say(play.host, BUS)
    await play.drain()
    assert await play.statuses() == {}
    assert (await delivered(play.host))[id_1, way(workflow_id)] == ("discarded", 0)
    assert await statuses(play.host) == {id_1: "done"}


async def test_a_way_that_changes_its_bus_topic_hears_the_new_one(duly_world: Stage) -> None:
    """W9: the topic of the workflow is the same, the topic of the bus another."""
    play = await opened(duly_world)
    await play.deploy(hearing())
    await play.deploy(hearing((IN, "task.received")))
    await say(play.host, BUS)
    id_2 = await say(play.host, "task.received")
    await play.drain()
    assert await play.statuses() == {f"bus:{id_2}": "consumed"}


async def test_a_removed_workflow_hears_nothing_and_passes_nothing_on(duly_world: Stage) -> None:
    """W10: one of the same name is another one; a dead letter of the first is not for it."""
    play = await opened(duly_world, policy=Policy(limits=Limits(payload_bytes=100)))
    old = await play.deploy(hearing())
    await play.drain()
    await play.restart(policy=Policy())
    id_1 = await say(play.host, BUS, text="x" * 200)
    await play.restart(policy=Policy(limits=Limits(payload_bytes=100)))
    await play.drain()
    await play.host.remove(NAME)
    await say(play.host, BUS)
    await play.restart(policy=Policy())
    await play.deploy(hearing())
    with pytest.raises(RequestRefused, match="No handler subscribes"):
        await play.host.bus.retry(id_1, way(old), by="ada")
    id_3 = await say(play.host, BUS)
    await play.drain()
    assert f"bus:{id_1}" not in await play.statuses()
    assert f"bus:{id_3}" in await play.statuses()


async def test_a_workflow_that_stops_listening_during_the_delivery_gets_nothing(
    duly_world: Stage,
) -> None:
    """T10: the entry is checked in its own transaction, and its delivery is closed."""
    play = await opened(duly_world)
    workflow_id = await play.deploy(hearing())
    id_1 = await say(play.host, BUS)
    await play.drain()
    begin = play.store.begin_delivery

    async def begin_and_redeploy(*args: Any, **kwargs: Any) -> Any:
        begun = await begin(*args, **kwargs)
        if begun.event is not None and begun.event.topic == BUS:
            await play.deploy(deaf())
        return begun

    play.store.begin_delivery = begin_and_redeploy
    id_2 = await say(play.host, BUS)
    await play.drain()
    assert await play.statuses() == {f"bus:{id_1}": "consumed"}
    (gone,) = await play.host.bus.deliveries(status="discarded")
    assert (gone.event_id, gone.subscriber_id) == (id_2, way(workflow_id))


async def test_workflows_reach_each_other_through_a_handler_on_the_bus_and_back(
    duly_world: Stage,
) -> None:
    """T10: bus to workflow to bus to workflow, in one drain."""
    play = await opened(duly_world)
    await play.deploy(hearing())
    second = hearing((IN, "relayed"), name="second")
    await play.deploy(second)

    async def relay(event: Event) -> None:
        await say(play.host, "relayed", text="from the first")

    listen(play.host, BUS, then=relay)
    id_1 = await say(play.host, BUS)
    await play.drain()
    assert await play.statuses() == {f"bus:{id_1}": "consumed"}
    (relayed,) = await play.host.bus.journal("relayed")
    second_hears = await play.statuses(name="second")
    assert second_hears == {f"bus:{relayed.id}": "consumed"}


async def test_a_handler_that_publishes_into_a_workflow_sees_it_worked_on(
    duly_world: Stage,
) -> None:
    """S4: the engine had nothing to do when the handler began; it is begun again for it."""
    play = await opened(duly_world)
    await play.deploy(flow())
    seen: list[dict[str, str]] = []

    async def publish(event: Event) -> None:
        await duly_world.env.sleep(1)  # by then the engine has been at rest
        await play.publish("a")
        await duly_world.env.sleep(1)
        seen.append(await play.statuses())

    listen(play.host, then=publish)
    await say(play.host)
    await play.drain()
    assert seen == [{"a": "consumed"}]


async def test_a_paused_workflow_takes_what_comes_and_works_on_it_when_resumed(
    duly_world: Stage,
) -> None:
    """T10, F7: triggers accumulate."""
    play = await opened(duly_world)
    silent = consumer(prepare=(Call("peek", (IN,)), Return({"reservations": []})), mutate=None)
    await play.deploy(hearing(consumers={"file": silent}))
    await play.host.pause(NAME)
    id_1 = await say(play.host, BUS)
    await play.drain()
    assert await play.statuses() == {f"bus:{id_1}": "pending"}
