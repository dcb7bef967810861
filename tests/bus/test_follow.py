"""A lane that goes on: the record of one delivery begins the next (B4–B7)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from duly.bus.dispatcher import STOP_S
from duly.host import Host
from duly.loop import REST_MS
from duly.rules.delivery import Event, Retry
from duly.testing import Stage
from tests.bus.stand import again, delivered, listen, say, statuses, store_of

EVENTS = 20
MANY = 200
BUSY = 50
VERBS = ("bus_outlook", "begin_delivery", "finish_delivery")


def count_verbs(host: Host) -> Counter[str]:
    """Return a counter of the calls of the store from now on."""
    store, counts = store_of(host), Counter[str]()
    for verb in VERBS:
        setattr(store, verb, _counted(getattr(store, verb), verb, counts))
    return counts


def _counted(working: Any, verb: str, counts: Counter[str]) -> Any:
    async def counted(*args: Any, **named: Any) -> Any:
        counts[verb] += 1
        return await working(*args, **named)

    return counted


@pytest.mark.parametrize("subscribers", [1, 3])
async def test_a_backlog_costs_one_transaction_for_each_delivery(
    duly_world: Stage, subscribers: int
) -> None:
    """B6: each subscriber gets all events in order, and the bus looks only to begin and to end."""
    host = await duly_world.host()
    ears = [listen(host, subscriber_id=f"s{number}") for number in range(subscribers)]
    await host.drain()
    for _ in range(EVENTS):
        await say(host)
    counts = count_verbs(host)
    await host.drain()
    assert [ear.done for ear in ears] == [list(range(1, EVENTS + 1))] * subscribers
    assert counts["finish_delivery"] == EVENTS * subscribers
    assert counts["begin_delivery"] <= 2 * subscribers
    assert counts["bus_outlook"] <= 2 * subscribers + 2


async def test_subscribers_of_a_topic_are_one_event_apart(duly_world: Stage) -> None:
    """B3, B6: a subscriber waits until the one before it has ended the event, not its lane."""
    host = await duly_world.host()

    async def work(event: Event) -> None:
        await duly_world.env.sleep(1)

    ears = [listen(host, subscriber_id=f"s{number}", then=work) for number in range(3)]
    for _ in range(EVENTS):
        await say(host)
    start_ms = duly_world.env.now_ms()
    await host.drain()
    for place, ear in enumerate(ears):
        assert ear.times == [start_ms + 1_000 * (place + number) for number in range(EVENTS)]


async def test_a_record_whose_answer_is_lost_calls_neither_event_twice(duly_world: Stage) -> None:
    """B4, B5, H3: the store has the record, and says that the next one runs; nothing does."""
    host = await duly_world.host()
    ear = listen(host)
    store, finish, calls = store_of(host), store_of(host).finish_delivery, []

    async def lose(*args: Any, **named: Any) -> Any:
        answer = await finish(*args, **named)
        calls.append(answer.next)
        if len(calls) == 1:
            raise OSError("the answer is lost")
        return answer

    store.finish_delivery = lose
    for _ in range(3):
        await say(host)
    async with host.running():
        await duly_world.advance(3 * REST_MS / 1000)
    assert calls[0] is not None
    assert ear.done == [1, 2, 3]
    assert set((await delivered(host)).values()) == {("done", 1)}


@pytest.mark.parametrize("late_s", [1, STOP_S + 60])
async def test_what_was_begun_as_the_host_stops_is_given_back_uncounted(
    duly_world: Stage, late_s: float
) -> None:
    """B5, B7: a stop begins nothing new, also if its record comes late or never."""
    host = await duly_world.host()
    ear = listen(host)
    store, finish = store_of(host), store_of(host).finish_delivery

    async def answer_late(*args: Any, **named: Any) -> Any:
        answer = await finish(*args, **named)
        await duly_world.env.sleep(late_s)
        return answer

    store.finish_delivery = answer_late
    for _ in range(2):
        await say(host)
    async with host.running():
        await duly_world.advance(0.5)
    assert ear.ids == [1]
    pairs = {event_id: found for (event_id, _), found in (await delivered(host)).items()}
    assert pairs == {1: ("done", 1), 2: ("waiting", 0)}
    store.finish_delivery = finish
    await host.drain()
    assert (ear.done, await statuses(host)) == ([1, 2], {1: "done", 2: "done"})


async def test_a_handler_that_ends_during_a_stop_begins_nothing(duly_world: Stage) -> None:
    """B7: its record is written; the next event of its lane was not opened."""
    host = await duly_world.host()

    async def work(event: Event) -> None:
        await duly_world.env.sleep(1)

    ear = listen(host, then=work)
    for _ in range(2):
        await say(host)
    async with host.running():
        await duly_world.advance(0.5)
    assert (ear.done, len(await delivered(host))) == ([1], 1)


async def test_a_suspect_has_its_turn_although_another_lane_has_a_backlog(
    duly_world: Stage,
) -> None:
    """B5, B6: it must run alone, so the lanes that are at work come to an end first."""
    host = await duly_world.host()

    async def die(event: Event) -> None:
        duly_world.env.crash()

    listen(host, "deadly", then=die, retry=Retry())
    await say(host, "deadly")
    await duly_world.crash(host, host.drain())
    host = await duly_world.host()
    done_when_heard: list[int] = []

    async def work(event: Event) -> None:
        await duly_world.env.sleep(0.01)
        if len(busy.done) == 3:
            listen(host, "deadly", then=hear, retry=Retry())

    async def hear(event: Event) -> None:
        done_when_heard.append(len(busy.done))

    busy = listen(host, "busy", then=work)
    for _ in range(MANY):
        await say(host, "busy")
    await host.drain()
    assert len(busy.done) == MANY
    assert done_when_heard
    assert done_when_heard[0] < 10


async def test_a_lost_begin_is_given_back_although_two_lanes_take_turns(
    duly_world: Stage,
) -> None:
    """B5, B6, H3: two busy lanes whose handlers overlap; one of them is always at work."""
    host = await duly_world.host()
    done_when_heard: list[int] = []

    async def work(event: Event) -> None:
        await duly_world.env.sleep(1)

    async def work_later(event: Event) -> None:
        await duly_world.env.sleep(1 if later.done else 1.5)

    async def hear(event: Event) -> None:
        done_when_heard.append(len(busy.done))

    busy = listen(host, "busy", then=work)
    later = listen(host, "later", then=work_later)
    listen(host, "lost", then=hear)
    await host.drain()
    for _ in range(BUSY):
        await say(host, "busy")
        await say(host, "later")
    await say(host, "lost")
    store, begin = store_of(host), store_of(host).begin_delivery

    async def lose(*args: Any, **named: Any) -> Any:
        answer = await begin(*args, **named)
        if "test:lost" in args[1]:
            store.begin_delivery = begin
            raise OSError("the answer is lost")
        return answer

    store.begin_delivery = lose
    async with host.running():
        await duly_world.advance(3 * BUSY)
    assert len(busy.done) == len(later.done) == BUSY
    assert done_when_heard
    assert done_when_heard[0] < 3 * REST_MS / 1000


async def test_a_lane_lets_other_topics_and_tasks_have_their_turn(duly_world: Stage) -> None:
    """B6: an event of another topic that comes during a backlog is delivered at once."""
    host = await duly_world.host()
    done_when_heard: list[int] = []

    async def speak(event: Event) -> None:
        if event.id == 3:
            await say(host, "other")

    async def hear(event: Event) -> None:
        done_when_heard.append(len(busy.done))

    busy = listen(host, "busy", then=speak)
    listen(host, "other", then=hear)
    for _ in range(MANY):
        await say(host, "busy")
    await host.drain()
    assert len(busy.done) == MANY
    assert done_when_heard[0] < 10


async def test_events_that_a_handler_emits_are_delivered_in_its_own_lane(
    duly_world: Stage,
) -> None:
    """B4, B6: what is emitted while the lane is at work follows when it is on the disk."""
    host = await duly_world.host()

    async def speak(event: Event) -> None:
        if event.id < EVENTS:
            await say(host)

    ear = listen(host, then=speak)
    await say(host)
    await host.drain()
    assert ear.done == list(range(1, EVENTS + 1))


async def test_a_crash_after_a_record_leaves_the_next_one_to_the_next_host(
    duly_world: Stage,
) -> None:
    """B4, B7: the success is not repeated; what was begun with it is, and its death counts."""
    host = await duly_world.host()
    first = listen(host, retry=Retry())
    for _ in range(2):
        await say(host)
    duly_world.crash_at(finish_delivery="after")
    await duly_world.crash(host, host.drain())
    host = await duly_world.host()
    second = listen(host, retry=Retry())
    await host.drain()
    assert (first.ids, second.ids) == ([1], [2])
    assert await delivered(host) == {(1, "test:mail"): ("done", 1), (2, "test:mail"): ("done", 2)}


async def test_a_subscriber_that_leaves_in_its_handler_gets_no_more(duly_world: Stage) -> None:
    """B13: its lane has ended, whatever was waiting in it."""
    host = await duly_world.host()
    leaving: list[asyncio.Task[Any]] = []

    async def leave(event: Event) -> None:
        leaving.append(asyncio.ensure_future(host.bus.unsubscribe("test:mail")))
        await asyncio.sleep(0.1)

    ear = listen(host, then=leave)
    for _ in range(3):
        await say(host)
    await host.drain()
    await asyncio.wait(leaving)
    await host.drain()
    assert ear.ids == [1]
    host = await again(duly_world, host)
    await host.drain()
    assert (await statuses(host))[1] == "done"


async def test_a_begin_that_ends_during_a_stop_calls_no_handler(duly_world: Stage) -> None:
    """B5, B7: a stop begins nothing new; a record that a begin wrote is given back uncounted."""
    host = await duly_world.host()
    ear = listen(host)
    store, begin = store_of(host), store_of(host).begin_delivery

    async def answer_late(*args: Any, **named: Any) -> Any:
        answer = await begin(*args, **named)
        await duly_world.env.sleep(1)
        return answer

    store.begin_delivery = answer_late
    await say(host)
    async with host.running():
        await duly_world.advance(0.5)
    assert ear.ids == []
    assert await delivered(host) == {(1, "test:mail"): ("waiting", 0)}
