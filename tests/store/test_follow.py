"""What the record of an ended delivery begins in the same transaction, and what it does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest

from duly.errors import Stale
from duly.rules.delivery import Retry
from duly.store.delivery import Finished, Reach
from duly.store.lane import OpenDelivery
from duly.store.record import JournalEvent
from tests.store.exam import NOW, World
from tests.store.post import A_MINUTE, BOTH, FIRST, MAIL, NEWS, SECOND, begun, delivered, emitted

ALL_EVENTS = 9  # behind every event of these tests


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """An open store with nothing in it."""
    world = await World(tmp_path / "world").open()
    yield world
    await world.close()


async def finish(
    world: World,
    event_id: int,
    name: str,
    *,
    error: str | None = None,
    here: Collection[str] = BOTH,
    durable_id: int = ALL_EVENTS,
) -> Finished:
    """End the first attempt at a delivery, and let the next one follow."""
    reach = Reach(here, durable_id)
    return await world.store.finish_delivery(event_id, name, 1, error=error, reach=reach, now=NOW)


async def begin(world: World, event_id: int, name: str) -> None:
    """Begin a delivery to one subscriber."""
    answer = await world.store.begin_delivery(event_id, {name}, now=NOW)
    assert answer.delivery is not None


def next_of(finished: Finished) -> tuple[int, str, int] | None:
    """Return event, subscriber and attempt of what follows."""
    if finished.next is None or finished.next.delivery is None:
        return None
    delivery = finished.next.delivery
    return delivery.event_id, delivery.subscriber_id, delivery.attempts


async def test_a_lane_goes_on_event_after_event(world: World) -> None:
    """B6: each in its turn, each attempt counted before its handler is called (B5)."""
    await begun(world)
    assert next_of(await finish(world, 1, FIRST)) == (2, FIRST, 1)
    await begin(world, 1, SECOND)
    # The first subscriber is at event 2: one delivery of an event at a time (B3).
    assert next_of(await finish(world, 1, SECOND)) is None
    last = await finish(world, 2, FIRST)
    assert (next_of(last), last.free) == (None, (OpenDelivery(2, SECOND),))


async def test_an_event_that_is_open_already_follows_too(world: World) -> None:
    """B13: its records were written for another subscriber; here only the attempt is counted."""
    await begun(world)
    await finish(world, 1, FIRST)
    await finish(world, 2, FIRST)
    await begin(world, 1, SECOND)
    assert next_of(await finish(world, 1, SECOND)) == (2, SECOND, 1)
    assert await delivered(world) == [
        (1, FIRST, "done", 1),
        (1, SECOND, "done", 1),
        (2, FIRST, "done", 1),
        (2, SECOND, "running", 1),
    ]


async def test_without_a_reach_nothing_follows(world: World) -> None:
    """B7: a host that stops, or lets a suspect run alone, begins nothing new."""
    await begun(world)
    finished = await world.store.finish_delivery(1, FIRST, 1, now=NOW)
    assert (finished.next, finished.free) == (None, ())


async def test_an_event_that_is_not_on_the_disk_does_not_follow(world: World) -> None:
    """B4: it can be begun, but only after a sync."""
    await begun(world)
    finished = await finish(world, 1, FIRST, durable_id=1)
    assert finished.next is None
    assert finished.free == (OpenDelivery(1, SECOND),)
    assert [each.event_id for each in await world.store.list_deliveries()] == [1, 1]


async def test_a_subscriber_that_is_not_here_is_not_begun(world: World) -> None:
    """B13: neither the one whose delivery ended, nor another."""
    await begun(world)
    finished = await finish(world, 1, FIRST, here=())
    assert (finished.next, finished.free) == (None, ())


async def test_a_subscription_that_ended_is_not_begun(world: World) -> None:
    """B13: what runs may end; nothing follows it."""
    await begun(world)
    await world.store.unsubscribe(FIRST, now=NOW)
    assert next_of(await finish(world, 1, FIRST)) is None


@pytest.mark.parametrize("delay_s", [0, 60])
async def test_a_failure_is_not_overtaken_and_not_repeated_at_once(
    world: World, delay_s: int
) -> None:
    """B5, B6: its retry is begun by a look, also if it waits for no time."""
    await world.store.subscribe(FIRST, "mail", Retry(2, (delay_s,)), now=NOW)
    for _ in range(2):
        await world.store.emit(MAIL, now=NOW)
    await begin(world, 1, FIRST)
    assert next_of(await finish(world, 1, FIRST, error="it rained")) is None
    assert await delivered(world) == [(1, FIRST, "waiting", 1)]


async def test_the_order_of_registration_holds_for_what_follows(world: World) -> None:
    """B3: the first subscriber is idle and has the first turn at event 2."""
    await begun(world)
    await world.store.finish_delivery(1, FIRST, 1, now=NOW)
    await begin(world, 1, SECOND)
    finished = await finish(world, 1, SECOND)
    assert (finished.next, finished.free) == (None, (OpenDelivery(2, FIRST),))


async def test_nothing_follows_beside_a_suspect_of_another_topic(world: World) -> None:
    """B5: what ran when a host died runs alone; here it still runs."""
    await world.store.subscribe("reader", "news", Retry(), now=NOW)
    await emitted(world)
    await world.store.emit(NEWS, now=NOW)
    await begin(world, 3, "reader")
    await world.store.recover_bus(now=NOW)
    await begin(world, 3, "reader")
    # No rule lets this begin beside it; the row is put there to see what its end begins.
    world.connection.execute("update delivery set suspect = 0")
    await begin(world, 1, FIRST)
    world.connection.execute("update delivery set suspect = 1 where subscriber_id = 'reader'")
    finished = await finish(world, 1, FIRST, here={*BOTH, "reader"})
    assert (finished.next, finished.free) == (None, ())


async def test_a_suspect_of_the_topic_waits_until_nothing_runs(world: World) -> None:
    """B5: it follows if it is alone, and nothing follows beside it."""
    await begun(world)
    await world.store.recover_bus(now=NOW)
    assert (await world.store.bus_outlook(BOTH, now=NOW, limit=9)).is_isolated
    await begin(world, 1, FIRST)
    finished = await world.store.finish_delivery(1, FIRST, 2, reach=Reach(BOTH, 9), now=NOW)
    assert next_of(finished) == (2, FIRST, 1)
    assert not (await world.store.bus_outlook(BOTH, now=NOW, limit=9)).is_isolated


async def test_a_suspect_begins_beside_nothing_of_another_topic(world: World) -> None:
    """B5: neither by a begin, nor after what ends in its own topic."""
    await world.store.subscribe("reader", "news", Retry(), now=NOW)
    await begun(world)
    await world.store.emit(NEWS, now=NOW)
    await world.store.recover_bus(now=NOW)
    await begin(world, 3, "reader")
    with pytest.raises(Stale):
        await begin(world, 1, FIRST)
    # Event 1 is no suspect for a moment, so that its end may be followed by one.
    world.connection.execute("update delivery set suspect = 0")
    await begin(world, 1, FIRST)
    world.connection.execute("update delivery set suspect = 1 where status = 'waiting'")
    finished = await world.store.finish_delivery(1, FIRST, 2, reach=Reach(BOTH, 9), now=NOW)
    assert (finished.next, finished.free) == (None, ())


@pytest.mark.parametrize("is_suspect", [False, True])
async def test_what_has_ended_holds_up_its_own_lane_alone(world: World, is_suspect: bool) -> None:
    """B3, B5, B6: the store has it as running; the host knows that its handler has ended."""
    await begun(world)
    world.connection.execute(
        "update delivery set suspect = ? where status = 'running'", (is_suspect,)
    )
    ended = {(1, FIRST)}
    assert (await world.store.bus_outlook(BOTH, now=NOW, limit=9)).deliveries == ()
    found = await world.store.bus_outlook(BOTH, ended=ended, now=NOW, limit=9)
    assert found.deliveries == (OpenDelivery(1, SECOND),)
    assert not found.is_isolated
    with pytest.raises(Stale):
        await begin(world, 1, SECOND)
    with pytest.raises(Stale):
        await world.store.begin_delivery(2, {FIRST}, ended=ended, now=NOW)
    begun_beside = await world.store.begin_delivery(1, {SECOND}, ended=ended, now=NOW)
    assert begun_beside.delivery is not None
    finished = await world.store.finish_delivery(1, SECOND, 1, reach=Reach(BOTH, 9, ended), now=NOW)
    assert next_of(finished) == (2, SECOND, 1)


@pytest.mark.parametrize("payload", ["{", "[]"])
async def test_an_event_that_cannot_be_read_is_left_to_a_look(world: World, payload: str) -> None:
    """B7: it is closed by itself, with its reason."""
    await begun(world)
    world.connection.execute("update journal set payload = ? where id = 2", (payload,))
    assert next_of(await finish(world, 1, FIRST)) is None
    assert (await world.store.list_journal())[0].status == "pending"


async def test_an_event_for_another_channel_is_left_to_a_look(world: World) -> None:
    """B9, B13: it is opened for the subscriber it names alone."""
    for name, channel in ((FIRST, "here"), (SECOND, "there")):
        await world.store.subscribe(name, "mail", Retry(), channel=channel, now=NOW)
    for channel in ("here", "there"):
        payload = f'{{"channel_id":"{channel}"}}'
        await world.store.emit(JournalEvent("mail", "postman", payload), now=NOW)
    await begin(world, 1, FIRST)
    finished = await finish(world, 1, FIRST)
    assert finished.next is None
    assert await delivered(world) == [(1, FIRST, "done", 1)]


async def test_a_time_of_a_wrong_clock_holds_up_nothing_that_follows(world: World) -> None:
    """B5: a retry further ahead than any delay was written by a clock that was set back."""
    await begun(world)
    await finish(world, 1, FIRST)
    world.connection.execute(
        "update delivery set due_at = ? where event_id = 1", (NOW + 99 * A_MINUTE,)
    )
    last = await finish(world, 2, FIRST)
    assert OpenDelivery(1, SECOND) in last.free
