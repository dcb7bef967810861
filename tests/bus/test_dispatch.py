"""Who is told, in which order, and who waits for whom (B3, B4, B6, B11, B13)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from duly.config import BusSettings
from duly.errors import Invalid
from duly.host import Host
from duly.rules.delivery import Event, Retry
from duly.testing import Stage
from duly.testing.stage import open_stage
from tests.bus.stand import (
    ONCE,
    count_looks,
    delivered,
    listen,
    say,
    statuses,
    store_of,
)

A_MINUTE_S = 60


# -- In turn (B3) -------------------------------------------------------------------------------


async def test_subscribers_of_one_event_are_called_in_turn(duly_world: Stage) -> None:
    """B3: in registration order, each after the one before returned or failed."""
    host = await duly_world.host()
    told: list[str] = []

    def slow(name: str, error: Exception | None = None) -> Any:
        async def handle(event: Event) -> None:
            told.append(f"{name} begins")
            await duly_world.env.sleep(1)
            told.append(f"{name} ends")
            if error is not None:
                raise error

        return handle

    host.bus.subscribe("mail", slow("b"), subscriber_id="b", retry=ONCE)
    host.bus.subscribe("mail", slow("a", ValueError("no")), subscriber_id="a", retry=ONCE)
    host.bus.subscribe("mail", slow("c"), subscriber_id="c", retry=ONCE)
    await say(host)
    await host.drain()
    assert told == [f"{name} {word}" for name in "bac" for word in ("begins", "ends")]
    assert await delivered(host) == {
        (1, "b"): ("done", 1),
        (1, "a"): ("dead", 1),
        (1, "c"): ("done", 1),
    }


async def test_only_async_handlers_are_taken(duly_world: Stage) -> None:
    """B3: a plain function is refused; a bound method, a partial and a callable object are not."""
    host = await duly_world.host()

    class Callable:
        async def __call__(self, event: Event) -> None: ...

    for number, wrong in enumerate((print, lambda event: None, None, "handler")):
        with pytest.raises(Invalid, match="async def"):
            host.bus.subscribe("mail", wrong, subscriber_id=f"w{number}")  # type: ignore[arg-type]
    host.bus.subscribe("mail", Callable(), subscriber_id="object")
    listen(host)
    await host.drain()


# -- Lanes (B6) ---------------------------------------------------------------------------------


async def times_of_others(stage: Stage, is_blocked: bool) -> list[int]:
    """Serve three topics, one of which may hang for a minute; answer when the others heard."""
    host = await stage.host()

    async def block(event: Event) -> None:
        if is_blocked:
            await stage.env.sleep(A_MINUTE_S)

    listen(host, "slow", then=block)
    ears = [listen(host, "mail"), listen(host, "news", retry=Retry())]
    start = stage.env.now_ms()
    async with host.running():
        for number in range(30):
            for topic in ("slow", "mail", "news"):
                await say(host, topic, number=number)
            await host.bus.schedule_at(0.5, "mail", {}, source="test")
            await stage.advance(1)
        await stage.advance(A_MINUTE_S * 2)
    return [at - start for ear in ears for at in ear.times]


def test_a_blocked_handler_delays_no_other_topic_by_a_millisecond(tmp_path: Path) -> None:
    """B6: delivery times on other topics are those of the run without it."""
    seen = []
    for name, is_blocked in (("free", False), ("blocked", True)):
        (tmp_path / name).mkdir()
        with open_stage(tmp_path / name) as stage:
            seen.append(stage.run(times_of_others(stage, is_blocked)))
    free, blocked = seen
    assert len(free) == 90
    assert blocked == free


async def test_each_subscriber_sees_a_topic_in_the_order_of_ids(duly_world: Stage) -> None:
    """B6: however long each takes and whichever fails on the way."""
    host = await duly_world.host()

    async def stumble(event: Event) -> None:
        await duly_world.env.sleep(event.id % 3)
        if event.id % 4 == 0:
            raise ValueError("stumbled")

    quick = listen(host, subscriber_id="quick")
    slow = listen(host, subscriber_id="slow", then=stumble)
    for _ in range(20):
        await say(host)
    await host.drain()
    assert quick.ids == slow.ids == list(range(1, 21))


async def test_a_retry_holds_back_its_own_subscriber_alone(duly_world: Stage) -> None:
    """B6, B5: its later events of that topic wait; everybody else's go on."""
    host = await duly_world.host()
    failing = {1}

    async def fail_once(event: Event) -> None:
        if event.id in failing:
            failing.discard(event.id)
            raise ValueError("not yet")

    stuck = listen(host, subscriber_id="stuck", then=fail_once, retry=Retry(2, (10,)))
    free = listen(host, subscriber_id="free")
    start = duly_world.env.now_ms()
    async with host.running():
        for _ in range(3):
            await say(host)
        await duly_world.advance(20)
    assert free.ids == [1, 2, 3]
    assert {at - start for at in free.times} == {0}
    assert stuck.ids == [1, 1, 2, 3]
    assert [at - start for at in stuck.times] == [0, 10_000, 10_000, 10_000]


async def test_a_burst_then_silence_drains_at_once(duly_world: Stage) -> None:
    """B14: batch after batch, without a moment's wait, and then nothing happens any more."""
    host = await duly_world.host()
    looks = count_looks(host)
    ears = [listen(host, f"t{number}") for number in range(150)]  # more lanes than a batch
    async with host.running():
        start = duly_world.env.now_ms()
        await asyncio.gather(*(say(host, f"t{n % 150}") for n in range(600)))
        await duly_world.loop.rest()
        assert [len(ear.events) for ear in ears] == [4] * 150
        assert duly_world.env.now_ms() == start
        seen = len(looks)
        await duly_world.advance("1d")
        assert len(looks) == seen


async def test_deferred_events_of_one_time_fire_all_at_once(duly_world: Stage) -> None:
    """B14: more than a batch of them, in one moment."""
    host = await duly_world.host()
    ear = listen(host)
    for _ in range(250):
        await host.bus.schedule_at(5, "mail", {"text": "x"}, source="test")
    async with host.running():
        await duly_world.advance(5)
    assert len(ear.events) == 250
    assert len(set(ear.times)) == 1


# -- The journal (B4, B11) ----------------------------------------------------------------------


async def test_an_event_nobody_subscribes_to_ends_done_and_undelivered(duly_world: Stage) -> None:
    """B11: it is counted, and blocks nothing."""
    host = await duly_world.host()
    ear = listen(host)
    await say(host, "nobody")
    await say(host)
    await host.drain()
    assert ear.ids == [2]
    nobody, heard = reversed(await host.bus.journal())
    assert (nobody.status, nobody.undelivered) == ("done", True)
    assert (heard.status, heard.undelivered) == ("done", False)


async def test_a_backlog_nobody_listens_to_keeps_no_subscriber_waiting(duly_world: Stage) -> None:
    """B6, B11: it is closed beside the others, not before them."""
    host = await duly_world.host()
    backlog = 3 * BusSettings().batch
    for _ in range(backlog):
        await say(host, "nobody")
    left: list[int] = []

    async def look(event: Event) -> None:
        left.append(len(await host.bus.journal("nobody", "pending", limit=backlog)))

    listen(host, then=look)
    await say(host)
    await host.drain()
    assert left[0] >= backlog - BusSettings().batch


@pytest.mark.parametrize("attempts", [0, 1])
async def test_a_clock_that_was_set_back_keeps_nobody_waiting(
    duly_world: Stage, attempts: int
) -> None:
    """B5: neither a first attempt nor a retry waits for a year that will come again."""
    host = await duly_world.host()

    async def slow(event: Event) -> None:
        await duly_world.env.sleep(5)

    async def fail_once(event: Event) -> None:
        if len(second.events) == attempts:
            raise ValueError("not now")

    listen(host, subscriber_id="first", then=None if attempts else slow)
    second = listen(host, subscriber_id="second", then=fail_once, retry=Retry())
    await say(host)
    async with host.running():
        await duly_world.advance(0.5)
        now_ms = duly_world.env.now_ms
        object.__setattr__(duly_world.env, "now_ms", lambda: now_ms() - 31_536_000_000)
        await duly_world.advance("1m")
    assert second.done == [1]


async def test_an_event_is_processing_from_the_first_call_also_while_a_retry_waits(
    duly_world: Stage,
) -> None:
    """B4: then failed, with subscriber and message of every failure, and the time."""
    host = await duly_world.host()

    async def fail(event: Event) -> None:
        (row,) = await host.bus.journal()
        assert row.status == "processing"
        raise ValueError("no luck")

    listen(host, subscriber_id="first", then=fail, retry=Retry(2, (5,)))
    listen(host, subscriber_id="second", then=fail)
    await say(host)
    async with host.running():
        await duly_world.advance(1)
        (row,) = await host.bus.journal()
        assert (row.status, row.processed_at) == ("processing", None)
        await duly_world.advance(10)
    (row,) = await host.bus.journal()
    assert (row.status, row.error) == (
        "failed",
        "first: ValueError: no luck; second: ValueError: no luck",
    )
    assert row.processed_at is not None


async def test_nobody_is_called_for_an_event_that_is_not_on_the_disk(duly_world: Stage) -> None:
    """B4: what was promoted or announced without a barrier is synced first."""
    host = await duly_world.host()
    store, told = store_of(host), []
    sync, promote = store.sync, store.promote_due

    async def watched_sync() -> None:
        await sync()
        told.append("synced")

    async def watched_promote(**given: Any) -> Any:
        promoted = await promote(**given)
        told.append("promoted")
        return promoted

    async def hear(event: Event) -> None:
        told.append("called")

    store.sync = watched_sync  # type: ignore[method-assign]
    store.promote_due = watched_promote
    host.bus.subscribe("mail", hear, subscriber_id="first")
    await say(host)  # this one is: its emit has waited for it
    await host.drain()
    await host.bus.schedule_at(0, "mail", {}, source="test")
    await host.drain()
    assert told[-3:] == ["promoted", "synced", "called"]


async def test_an_emitted_event_is_not_synced_a_second_time(duly_world: Stage) -> None:
    """B4, S9: the barrier of its emit covers it and all before it."""
    host = await duly_world.host()
    store, syncs = store_of(host), []

    async def count() -> None:
        syncs.append(1)

    listen(host)
    await host.drain()
    store.sync = count  # type: ignore[method-assign]
    await say(host)
    await host.drain()
    assert syncs == []


async def test_an_unreadable_row_is_failed_with_its_reason_and_the_rest_goes_on(
    duly_world: Stage,
) -> None:
    """B7: nobody is called for it, and the loop lives."""
    host = await duly_world.host()
    ear = listen(host)
    for _ in range(3):
        await say(host)
    await spoil(duly_world, host, 2)
    host = await duly_world.host()
    ear = listen(host)
    await host.drain()
    assert ear.ids == [1, 3]
    assert await statuses(host) == {1: "done", 2: "failed", 3: "done"}
    row = (await host.bus.journal(status="failed"))[0]
    assert row.payload is None
    assert row.error is not None
    assert "cannot be read" in row.error


async def test_a_row_that_becomes_unreadable_between_two_handlers_fails_its_delivery(
    duly_world: Stage,
) -> None:
    """B7: a subscriber that was not called yet has a dead delivery that says why."""
    host = await duly_world.host()
    listen(host, subscriber_id="first")
    await say(host)
    await host.drain()
    listen(host, subscriber_id="second", retry=ONCE)
    await say(host)
    store = store_of(host)
    await store.begin_delivery(2, {"first"}, now=duly_world.env.now_ms())
    await spoil(duly_world, host, 2)
    host = await duly_world.host()
    ears = [listen(host, subscriber_id=name) for name in ("first", "second")]
    await host.drain()
    assert [ear.events for ear in ears] == [[], []]
    dead = await host.bus.deliveries(status="dead")
    assert [each.error for each in dead] == ["This event can no longer be read."] * 2


async def spoil(stage: Stage, host: Host, event_id: int) -> None:
    """Put into the journal what no verb would, as a damaged disk or another program may."""
    await stage.crash(host)
    connection = apsw.Connection(stage.url.removeprefix("sqlite:///"))
    connection.execute("update journal set payload = '{' where id = ?", (event_id,))
    connection.close()
