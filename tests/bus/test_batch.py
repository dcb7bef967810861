"""So many at a time, until nothing is left: `bus.batch` (B14), at the start too (B7)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from duly.config import BATCH_MAX, BusSettings
from duly.errors import ConfigError, StoreUnavailable
from duly.host import Host
from duly.rules.delivery import Event
from duly.testing import Stage
from tests.bus.stand import listen, say, statuses, store_of

TWO = BusSettings(batch=2)


def watch(host: Host, verb: str) -> list[int]:
    """Answer a list of the limits that a verb of the store is called with."""
    store, limits = store_of(host), []
    working: Any = getattr(store, verb)

    async def watched(*args: Any, **kwargs: Any) -> Any:
        limits.append(kwargs["limit"])
        return await working(*args, **kwargs)

    setattr(store, verb, watched)
    return limits


async def test_a_burst_larger_than_a_batch_is_drained_until_empty(duly_world: Stage) -> None:
    """B14: two at a time is what the store is asked for, and everybody is told."""
    host = await duly_world.host(bus=TWO)
    limits = watch(host, "bus_outlook")
    ears = [listen(host, topic) for topic in ("a", "b", "c", "d", "e")]
    for topic in ("a", "b", "c", "d", "e", "nobody"):
        for _ in range(3):
            await say(host, topic)
    await host.drain()
    assert [len(ear.events) for ear in ears] == [3] * 5
    assert set((await statuses(host)).values()) == {"done"}
    assert set(limits) == {2}


async def test_a_full_batch_of_slow_handlers_keeps_no_other_topic_waiting(
    duly_world: Stage,
) -> None:
    """B6, B14: what a look left out is looked for when the others have begun, not have ended."""
    host = await duly_world.host(bus=BusSettings(batch=1))

    async def rest(event: Event) -> None:
        await duly_world.env.sleep(60)

    for topic in ("a", "b", "c"):
        listen(host, topic, then=rest)
        await say(host, topic)
    quick = listen(host, "z")
    await say(host, "z")
    start = duly_world.env.now_ms()
    await host.drain()
    assert quick.times == [start]
    assert duly_world.env.now_ms() == start + 60_000


async def test_an_overdue_backlog_is_promoted_in_batches_before_anybody_is_called(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """B7, B14: at most so many in a transaction, all before the first call, counted once."""
    host = await duly_world.host()
    for number in range(5):
        await host.bus.schedule_at(1, "mail", {"number": number}, source="test")
    await duly_world.crash(host)
    await duly_world.advance(5)
    host = await duly_world.host(bus=TWO)
    limits = watch(host, "recover_bus")
    left: list[int] = []

    async def count(event: Event) -> None:
        left.append(len(await host.bus.deferred()))

    ear = listen(host, then=count)
    with caplog.at_level(logging.INFO, "duly.bus"):
        await host.drain()
    assert [event.payload["number"] for event in ear.events] == [0, 1, 2, 3, 4]
    assert (limits, left) == ([2, 2, 2], [0] * 5)
    assert caplog.text.count("EventBus: recovered") == 1
    assert "EventBus: recovered 5 events" in caplog.text


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_a_host_that_dies_between_two_batches_leaves_the_rest_to_the_next(
    duly_world: Stage, count: int
) -> None:
    """B7, B2: recovery may be cut short after any batch; every event fires once, in order."""
    host = await duly_world.host()
    for number in range(5):
        await host.bus.schedule_at(1, "mail", {"number": number}, source="test")
    await duly_world.crash(host)
    await duly_world.advance(5)
    for _ in range(count):
        host = await duly_world.host(bus=TWO)
        duly_world.crash_at(recover_bus="after")
        await duly_world.crash(host, host.drain())
    host = await duly_world.host(bus=TWO)
    ear = listen(host)
    await host.drain()
    assert [event.payload["number"] for event in ear.events] == [0, 1, 2, 3, 4]


async def test_a_start_that_the_store_interrupts_says_the_whole_number_once(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """B7, H3: what was given back before the disk was full counts too."""
    host = await duly_world.host()
    for _ in range(5):
        await host.bus.schedule_at(1, "mail", {}, source="test")
    await duly_world.crash(host)
    await duly_world.advance(5)
    host = await duly_world.host(bus=TWO)
    store = store_of(host)
    working: Any = store.recover_bus
    calls = 0

    async def full_once(**kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise StoreUnavailable("duly.db: the disk is full")
        return await working(**kwargs)

    store.recover_bus = full_once
    with caplog.at_level(logging.INFO, "duly.bus"):
        async with host.running():
            await duly_world.advance(60)
    said = [each.getMessage() for each in caplog.records if "recovered" in each.getMessage()]
    assert said == ["EventBus: recovered 5 events"]


@pytest.mark.parametrize("batch", [0, 0.5, BATCH_MAX + 1])
def test_a_batch_nobody_can_have_is_refused(batch: Any) -> None:
    """B14: 1 to a thousand, whole."""
    assert BusSettings(batch=BATCH_MAX).batch == BATCH_MAX
    with pytest.raises(ConfigError, match="batch is"):
        BusSettings(batch=batch)


async def test_a_name_that_moved_to_another_topic_holds_up_no_other(duly_world: Stage) -> None:
    """B6: its old handler runs for a minute; a look does not find its new lane meanwhile."""
    host = await duly_world.host(bus=BusSettings(batch=1))
    heard: list[float] = []

    async def take_long(event: Event) -> None:
        await duly_world.env.sleep(60)

    async def hear(event: Event) -> None:
        heard.append(duly_world.env.monotonic_ms() / 1000 - started_s)

    listen(host, "old", "mover", then=take_long)
    listen(host, "other", then=hear)
    await say(host, "old")
    async with host.running():
        await duly_world.advance(1)
        await host.bus.unsubscribe("mover")
        listen(host, "new", "mover")
        started_s = duly_world.env.monotonic_ms() / 1000
        await say(host, "new")
        await say(host, "other")
        await duly_world.advance(120)
    assert heard
    assert heard[0] < 1
