"""Limits of what waits, subscriptions that end, and writes whose answer is lost (B2, B13, H1)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from duly.config import BusSettings
from duly.errors import Invalid, NotFound, RequestRefused
from duly.host import Host
from duly.rules.delivery import Retry
from duly.store.subscription import Left
from duly.testing import Stage as World
from tests.bus.stand import listen, say, statuses, store_of

# -- Limits ---------------------------------------------------------------------------------------


async def test_a_source_schedules_so_many_events_and_not_one_more(duly_world: World) -> None:
    """B2: others are not held up by it, and what has fired or was cancelled makes room."""
    host = await duly_world.host(bus=BusSettings(deferred_max=2))
    first = await host.bus.schedule_at(60, "mail", {}, source="test")
    await host.bus.schedule_at(60, "mail", {}, source="test")
    with pytest.raises(RequestRefused, match=r"2 events scheduled.*bus\.deferred_max"):
        await host.bus.schedule_at(60, "mail", {}, source="test")
    await host.bus.schedule_at(60, "mail", {}, source="other")
    await host.bus.cancel(first)
    await host.bus.schedule_at(60, "mail", {}, source="test")


def test_a_retry_has_so_many_delays_and_not_one_more() -> None:
    """B5: a limit, and one past it."""
    assert len(Retry(3, (1,) * 100).delays_s) == 100
    with pytest.raises(Invalid, match="at most 100 delays"):
        Retry(3, (1,) * 101)


# -- Ending a subscription ------------------------------------------------------------------------


async def with_backlog(world: World, count: int, batch: int) -> Host:
    """Open a host on which so many events wait for a subscriber that is not there."""
    host = await world.host(bus=BusSettings(batch=batch))
    listen(host)
    await host.drain()
    await world.crash(host)
    host = await world.host(bus=BusSettings(batch=batch))
    for _ in range(count):
        await say(host)
    await host.drain()
    return host


async def test_unsubscribing_a_backlog_goes_in_turns(duly_world: World) -> None:
    """B13: an emit that comes meanwhile is durable before the end, and all is closed at last."""
    host = await with_backlog(duly_world, 20, batch=3)
    ending = asyncio.ensure_future(host.bus.unsubscribe("test:mail"))
    await asyncio.sleep(0)
    await say(host, "other")
    assert not ending.done()
    assert await ending == 20
    await host.drain()
    assert set((await statuses(host)).values()) == {"done"}


async def test_a_crash_between_two_turns_leaves_the_rest_to_the_next_host(
    duly_world: World,
) -> None:
    """B13: no event is left open for a subscriber that was ended."""
    host = await with_backlog(duly_world, 8, batch=3)
    assert await store_of(host).unsubscribe("test:mail", now=0, limit=3) == Left(3, is_over=False)
    await duly_world.crash(host)
    host = await duly_world.host()
    ear = listen(host)  # under the same name: what was before is not for it
    await say(host)
    await host.drain()
    assert ear.ids == [9]
    assert set((await statuses(host)).values()) == {"done"}


async def test_whoever_comes_back_during_the_ending_lets_others_have_their_turn(
    duly_world: World,
) -> None:
    """B13: what is left of before is closed in turns also then, not in one long transaction."""
    host = await with_backlog(duly_world, 20, batch=3)
    await store_of(host).unsubscribe("test:mail", now=0, limit=3)
    ear = listen(host)
    saying = asyncio.ensure_future(say(host))
    await asyncio.sleep(0)
    await store_of(host).put_state("other", "key", "1", now=0)
    assert await host.bus.deliveries("waiting")
    await host.drain()
    assert ear.ids == [await saying]
    assert set((await statuses(host)).values()) == {"done"}


@pytest.mark.parametrize("steps", range(6))
async def test_an_ending_nobody_waits_for_leaves_the_name_free(
    duly_world: World, steps: int
) -> None:
    """B13: a caller that stops waiting may have ended it; asked again, it has ended in any case."""
    host = await duly_world.host()
    listen(host)
    await say(host)
    ending = asyncio.ensure_future(host.bus.unsubscribe("test:mail"))
    for _ in range(steps):
        await asyncio.sleep(0)
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    with suppress(NotFound):  # it had come to its end before it was cancelled
        await host.bus.unsubscribe("test:mail")
    ear = listen(host)
    event_id = await say(host)
    await host.drain()
    assert event_id in ear.ids


async def test_the_loop_closes_what_a_deploy_left_open(duly_world: World) -> None:
    """B13, T10: a way into a workflow that is gone with a backlog is closed in turns, too."""
    host = await with_backlog(duly_world, 8, batch=3)
    await store_of(host).unsubscribe("test:mail", now=0, limit=1)
    await host.drain()
    assert set((await statuses(host)).values()) == {"done"}
    assert await store_of(host).list_subscriptions() == ()


# -- A watcher of the host ------------------------------------------------------------------------


async def test_a_watcher_that_raises_stops_no_delivery(duly_world: World) -> None:
    """B4: what it raises is its own matter; the write is done, and the caller hears of that."""
    host = await duly_world.host()
    ear = listen(host)

    def raises() -> None:
        raise RuntimeError("no")

    with host.watched_by(raises):
        await say(host)
        await host.drain()
    assert ear.done == [1]
    assert await statuses(host) == {1: "done"}


async def test_a_begin_whose_answer_is_lost_is_given_back(
    duly_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B5, H3: its record says that it runs, and nothing does; it is called without a restart."""
    host = await duly_world.host()
    ear = listen(host)
    store, begin, calls = store_of(host), store_of(host).begin_delivery, []

    async def lose(*args: Any, **named: Any) -> Any:
        answer = await begin(*args, **named)
        calls.append(1)
        if len(calls) == 1:
            raise OSError("the answer is lost")
        return answer

    monkeypatch.setattr(store, "begin_delivery", lose)
    await say(host)
    async with host.running():
        await duly_world.advance(30)
    assert ear.done == [1]
    (delivery,) = await host.bus.deliveries()
    assert (delivery.status, delivery.attempts) == ("done", 1)


async def test_the_folder_of_a_database_is_made(tmp_path: Path) -> None:
    """H1: as the document's own example needs it; for this user alone."""
    async with Host(f"sqlite:///{tmp_path}/sandbox/data/event_journal.db") as host:
        await host.bus.emit("mail", {}, source="test")
    assert (tmp_path / "sandbox").stat().st_mode & 0o777 == 0o700
