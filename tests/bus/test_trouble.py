"""A store that says no: nothing is called twice for it, and nothing is lost (H3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.errors import IllegalTransition, Invalid, StoreLost, StoreUnavailable
from duly.host import Host
from duly.loop import REST_MS
from duly.testing import Stage
from tests.bus.stand import again, delivered, listen, say, statuses, store_of

FULL = StoreUnavailable("duly.db: the disk is full; free some space; nothing was written")
LOST = StoreLost("duly.db: the store stopped")
BUG = IllegalTransition("this is a bug in Duly")


def refuse(host: Host, verb: str, error: Exception, times: int) -> list[int]:
    """Let a verb of the store fail so many times; answer the list that counts its calls."""
    store = store_of(host)
    working, calls = getattr(store, verb), []

    async def failing(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) <= times:
            raise error
        return await working(*args, **kwargs)

    setattr(store, verb, failing)
    return calls


@pytest.mark.parametrize("error", [FULL, BUG])
@pytest.mark.parametrize(
    "verb",
    ["begin_delivery", "finish_delivery", "bus_outlook", "promote_due", "recover_bus", "sync"],
)
async def test_a_host_that_serves_goes_on_when_the_fault_is_over(
    duly_world: Stage, verb: str, error: Exception
) -> None:
    """H3, B4: every handler succeeds once, however often the store said no."""
    host = await duly_world.host()
    if verb != "recover_bus":
        await host.drain()  # it has recovered, so what is overdue is promoted
    await host.bus.schedule_at(0, "mail", {}, source="test")
    ears = [listen(host, subscriber_id=name) for name in ("first", "second")]
    calls = refuse(host, verb, error, 3)
    async with host.running():
        await duly_world.advance(REST_MS * 6 / 1000)
    assert len(calls) > 3
    assert [ear.done for ear in ears] == [[1], [1]]
    assert await statuses(host) == {1: "done"}
    assert set((await delivered(host)).values()) == {("done", 1)}


async def test_a_damaged_row_is_not_looked_at_again_and_again(duly_world: Stage) -> None:
    """H3, S9: only a refused subscription is over when it was told; all else is rested after."""
    host = await duly_world.host()
    ear = listen(host)
    await host.drain()
    calls = refuse(host, "bus_outlook", Invalid("retry is no JSON."), 3)
    async with host.running():
        await duly_world.advance(REST_MS / 1000 - 1)
        assert len(calls) == 1
        await duly_world.advance(REST_MS * 4 / 1000)
        await say(host)
        await duly_world.advance(1)
    assert ear.ids == [1]


async def test_what_a_handler_came_to_is_kept_until_the_store_has_it(duly_world: Stage) -> None:
    """H3: it is not called again in this life, and its lane waits; other lanes do not."""
    host = await duly_world.host()
    ear, other = listen(host), listen(host, "news")
    calls = refuse(host, "finish_delivery", FULL, 2)
    async with host.running():
        await say(host)
        await say(host)
        await duly_world.advance(1)
        await say(host, "news")
        await duly_world.advance(REST_MS * 3 / 1000)
    assert ear.ids == [1, 2]
    assert other.ids == [3]
    assert len(calls) >= 5
    assert await statuses(host) == {1: "done", 2: "done", 3: "done"}


async def test_a_caller_that_drains_is_told_and_the_next_drain_records_it(
    duly_world: Stage,
) -> None:
    """H3: a drain that ended in silence would look as if nothing was due."""
    host = await duly_world.host()
    ear = listen(host)
    await say(host)
    refuse(host, "finish_delivery", FULL, 2)  # the record, and the try as the drain ends
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await host.drain()
    assert await delivered(host) == {(1, "test:mail"): ("running", 1)}
    await host.drain()
    assert ear.ids == [1]
    assert await delivered(host) == {(1, "test:mail"): ("done", 1)}


async def test_what_was_not_recorded_before_a_crash_is_called_again(duly_world: Stage) -> None:
    """B4: with the same event id; that is what at least once means."""
    host = await duly_world.host()
    first = listen(host)
    await say(host)
    refuse(host, "finish_delivery", FULL, 9)
    with pytest.raises(StoreUnavailable):
        await host.drain()
    host = await again(duly_world, host)
    second = listen(host)
    await host.drain()
    assert first.ids == second.ids == [1]


@pytest.mark.parametrize("verb", ["begin_delivery", "finish_delivery", "bus_outlook"])
async def test_a_store_that_is_lost_ends_the_serving(duly_world: Stage, verb: str) -> None:
    """H3: it never comes back, so the program that serves must hear of it."""
    host = await duly_world.host()
    listen(host)
    await say(host)
    refuse(host, verb, LOST, 99)
    with pytest.raises(StoreLost):
        await asyncio.wait_for(host.serve(), 60)


async def test_an_emit_the_store_refuses_is_told_to_its_caller(duly_world: Stage) -> None:
    """B1, H3: nothing was emitted, and the next one is."""
    host = await duly_world.host()
    ear = listen(host)
    refuse(host, "emit", FULL, 1)
    with pytest.raises(StoreUnavailable):
        await say(host, text="lost")
    await say(host, text="kept")
    await host.drain()
    assert ear.texts == ["kept"]


async def test_a_subscription_the_store_refuses_is_written_by_the_next_call(
    duly_world: Stage,
) -> None:
    """B13, H3: the call that could not write it fails, and emits nothing."""
    host = await duly_world.host()
    ear = listen(host)
    refuse(host, "subscribe", FULL, 1)
    with pytest.raises(StoreUnavailable):
        await say(host, text="lost")
    await say(host, text="kept")
    await host.drain()
    assert ear.texts == ["kept"]


async def test_an_emit_whose_caller_went_away_is_delivered_if_it_was_stored(
    duly_world: Stage,
) -> None:
    """B1: either nothing was stored or a subscriber is told; never stored and asleep."""
    host = await duly_world.host()
    ear = listen(host)
    async with host.running():
        await duly_world.advance(1)
        for moments in range(8):
            emitting = asyncio.ensure_future(say(host))
            for _ in range(moments):
                await duly_world.env.sleep(0)
            emitting.cancel()
            await asyncio.wait([emitting])
            await duly_world.loop.rest()
            assert len(ear.events) == len(await host.bus.journal())
    assert len(ear.events) > 0
