"""Who subscribes, from when on, and what waits for a subscriber that is not there (B13)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.bus.dispatcher import SUBSCRIBERS_MAX
from duly.errors import Invalid, NotFound, RequestRefused
from duly.host import Host
from duly.rules.announcement import Topic
from duly.rules.delivery import Event, Retry
from duly.testing import Stage
from tests.bus.extension.stand import User
from tests.bus.stand import Ear, again, announce, delivered, listen, say, statuses, store_of
from tests.bus.test_ingress import BUS, hearing, way
from tests.engine.stand import opened
from tests.spoken import short


@pytest.mark.parametrize("wrong", ["", " ", "a\nb", "x" * 321, 7])
async def test_a_subscriber_needs_a_readable_name(duly_world: Stage, wrong: Any) -> None:
    """B13: 1 to 320 printable characters."""
    host = await duly_world.host()
    with pytest.raises(Invalid):
        host.bus.subscribe("mail", Ear(host, "x").hear, subscriber_id=wrong)


async def test_a_name_is_connected_once_and_not_taken_from_its_owner(duly_world: Stage) -> None:
    """B13: a second handler under one name, and a name of an extension's, are refused."""
    host = await duly_world.host()
    host.bus.reserve("reminders")
    listen(host, subscriber_id="first")
    with pytest.raises(RequestRefused, match="connected already"):
        listen(host, subscriber_id="first")
    for owner in ("duly", "reminders"):
        with pytest.raises(RequestRefused, match="belongs to"):
            listen(host, subscriber_id=f"{owner}:mail:x")
    with pytest.raises(NotFound):
        await host.bus.unsubscribe("duly:mail:x")
    listen(host, subscriber_id="reminders")  # a name, not something of the extension's


async def test_so_many_subscribers_are_connected_and_not_one_more(duly_world: Stage) -> None:
    """B6: they are what bounds how many handlers run, for topics never wait for each other."""
    host = await duly_world.host()
    for number in range(SUBSCRIBERS_MAX):
        listen(host, subscriber_id=f"s{number}")
    with pytest.raises(RequestRefused, match=str(SUBSCRIBERS_MAX)):
        listen(host, subscriber_id="one more")


async def test_a_subscription_is_written_by_the_next_call_before_its_own_work(
    duly_world: Stage,
) -> None:
    """B13: a host that dies right after the emit has the event for the subscriber all the same."""
    host = await duly_world.host()
    listen(host, subscriber_id="first")
    await say(host)
    host = await again(duly_world, host)
    await host.drain()
    (waiting,) = await host.bus.deliveries()
    assert (waiting.event_id, waiting.subscriber_id, waiting.status) == (1, "first", "waiting")


@pytest.mark.parametrize("call", ["emit", "schedule_at", "drain", "serve"])
async def test_every_way_to_work_writes_waiting_subscriptions(duly_world: Stage, call: str) -> None:
    """B13: emit, schedule_at, drain and serve."""
    host = await duly_world.host()
    listen(host, subscriber_id="first")
    if call == "emit":
        await say(host)
    elif call == "schedule_at":
        await host.bus.schedule_at(9, "mail", {}, source="test")
    elif call == "drain":
        await host.drain()
    else:
        async with host.running():
            await duly_world.advance(1)
    (row,) = await store_of(host).list_subscriptions()
    assert (row.subscriber_id, row.topic) == ("first", "mail")


async def test_a_subscriber_that_is_missing_after_a_restart_gets_its_events_when_it_comes(
    duly_world: Stage,
) -> None:
    """B13: its deliveries wait, and say for whom; the others are not held back."""
    host = await duly_world.host()
    listen(host, subscriber_id="first")
    listen(host, subscriber_id="second")
    await host.drain()
    host = await again(duly_world, host)
    first = listen(host, subscriber_id="first")
    await say(host)
    await say(host)
    await host.drain()
    assert first.ids == [1, 2]
    waiting = await host.bus.deliveries(status="waiting")
    assert [(each.event_id, short(host, each)) for each in waiting] == [
        (event_id, "Waits for the subscriber second, which is not connected here.")
        for event_id in (1, 2)
    ]
    assert await statuses(host) == {1: "processing", 2: "processing"}
    second = listen(host, subscriber_id="second")
    await host.drain()
    assert second.ids == [1, 2]
    assert await statuses(host) == {1: "done", 2: "done"}


async def test_events_whose_only_subscriber_is_missing_wait_in_sight(duly_world: Stage) -> None:
    """B13: they stay pending, their records say for whom, and nothing is lost."""
    host = await duly_world.host()
    listen(host, subscriber_id="only")
    await host.drain()
    host = await again(duly_world, host)
    for _ in range(3):
        await say(host)
    await host.drain()
    assert await statuses(host) == dict.fromkeys((1, 2, 3), "pending")
    assert await delivered(host) == {(n, "only"): ("waiting", 0) for n in (1, 2, 3)}
    only = listen(host, subscriber_id="only")
    await host.drain()
    assert only.ids == [1, 2, 3]
    assert await statuses(host) == dict.fromkeys((1, 2, 3), "done")


async def test_a_later_subscription_gets_later_events(duly_world: Stage) -> None:
    """B13: not those that were delivered before it came; also while the host is serving."""
    host = await duly_world.host()
    first = listen(host, subscriber_id="first")
    async with host.running():
        await say(host)
        await duly_world.advance(1)
        late = listen(host, subscriber_id="late")
        await duly_world.advance(1)
        await say(host)
        await duly_world.advance(1)
    assert (first.ids, late.ids) == ([1, 2], [2])


async def test_unsubscribing_closes_what_waited_and_says_so(duly_world: Stage) -> None:
    """B13: nothing is dropped in silence, and the name is free again."""
    host = await duly_world.host()
    listen(host, subscriber_id="first")
    await say(host)
    await say(host)
    host = await again(duly_world, host)
    await host.drain()
    assert await host.bus.unsubscribe("first") == 2
    assert await statuses(host) == {1: "done", 2: "done"}
    assert [each.undelivered for each in await host.bus.journal()] == [True, True]
    for each in await host.bus.deliveries(status="discarded"):
        assert each.error == "unsubscribed before delivery"
    with pytest.raises(NotFound):
        await host.bus.unsubscribe("first")
    ear = listen(host, subscriber_id="first")
    await say(host)
    await host.drain()
    assert ear.ids == [3]


async def test_a_subscription_that_was_never_written_can_be_taken_back(duly_world: Stage) -> None:
    """B13: nobody knows of it then."""
    host = await duly_world.host()
    ear = listen(host, subscriber_id="first")
    assert await host.bus.unsubscribe("first") == 0
    await say(host)
    await host.drain()
    assert ear.events == []


async def test_a_name_that_listens_elsewhere_is_refused_to_its_maker_and_to_no_other_caller(
    duly_world: Stage,
) -> None:
    """B13: also if the store alone finds out; an emit of another caller is not refused for it."""
    host = await duly_world.host()
    listen(host, "mail", "first")
    await host.drain()
    host = await again(duly_world, host)
    with pytest.raises(RequestRefused, match="listens to mail"):
        listen(host, "news", "first")
    host._bus._dispatcher._topics.clear()
    listen(host, "news", "first")
    other = listen(host, "news", "other")
    await say(host, "news")
    await host.drain()
    assert other.ids == [1]


async def test_a_refused_name_does_not_end_a_host_that_serves(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """B13: it is logged, and the others are told."""
    host = await duly_world.host()
    listen(host, "mail", "first")
    await host.drain()
    host = await again(duly_world, host)
    host._bus._dispatcher._topics.clear()
    async with host.running():
        await duly_world.advance(1)
        listen(host, "news", "first")
        other = listen(host, "news", "other")
        await duly_world.advance(1)
        await say(host, "news")
        await duly_world.advance(1)
    assert other.ids == [1]
    assert "a subscription was refused: Subscriber first listens to mail" in caplog.text


# -- The host's own (B13) -----------------------------------------------------------------------


async def test_what_the_host_left_behind_can_be_ended_and_what_it_uses_cannot(
    duly_world: Stage,
) -> None:
    """B13: a channel that was taken away leaves a subscription, which nobody else could end."""
    own = f"duly:{Topic.NEEDS_ATTENTION}:notify_user"
    host = await duly_world.host(channels=[User()])
    with pytest.raises(RequestRefused, match="belongs to duly"):
        await host.bus.unsubscribe(own)
    host = await again(duly_world, host)
    await announce(host, Topic.NEEDS_ATTENTION, "test")
    await host.drain()
    assert await statuses(host) == {1: "pending"}
    assert await host.bus.unsubscribe(own) == 1
    assert await statuses(host) == {1: "done"}


@pytest.mark.parametrize("drained", [True, False])
async def test_a_way_into_a_workflow_is_ended_by_the_workflow_alone(
    duly_world: Stage, drained: bool
) -> None:
    """T10, B13: also before the host has ever looked at its bus."""
    play = await opened(duly_world)
    name = way(await play.deploy(hearing()))
    if drained:
        await play.drain()
    with pytest.raises(RequestRefused, match=r"belongs to"):
        await play.host.bus.unsubscribe(name)
    id_1 = await say(play.host, BUS)
    await play.drain()
    assert await play.statuses() == {f"bus:{id_1}": "consumed"}


# -- Under the same name for another topic (B13) ------------------------------------------------


async def move(host: Host, subscriber_id: str, topic: str) -> None:
    """Let a subscriber leave its topic and come back for another one."""
    await host.bus.unsubscribe(subscriber_id)
    listen(host, topic, subscriber_id, retry=Retry())
    await say(host, "other")  # which writes it down


async def test_what_fails_after_its_subscriber_went_elsewhere_is_closed(duly_world: Stage) -> None:
    """B13, B4: it would wait for a subscriber that never looks at this topic again."""
    host = await duly_world.host()

    async def leave_and_fail(event: Event) -> None:
        await move(host, "s", "news")
        raise ValueError("no")

    listen(host, "mail", "s", leave_and_fail, retry=Retry())
    await say(host)
    await host.drain()
    assert await delivered(host) == {(1, "s"): ("discarded", 1)}
    assert (await statuses(host))[1] == "failed"


async def test_what_a_crash_cut_short_after_its_subscriber_went_elsewhere_is_closed(
    duly_world: Stage,
) -> None:
    """B13, B7: recovery gives it back to nobody."""
    host = await duly_world.host()

    async def leave_and_die(event: Event) -> None:
        await move(host, "s", "news")
        duly_world.env.crash()

    listen(host, "mail", "s", leave_and_die, retry=Retry())
    await say(host)
    await duly_world.crash(host, host.drain())
    host = await duly_world.host()
    await host.drain()
    assert (await delivered(host))[1, "s"] == ("discarded", 1)
    assert (await statuses(host))[1] == "failed"


async def test_a_dead_letter_is_not_retried_for_a_subscriber_that_went_elsewhere(
    duly_world: Stage,
) -> None:
    """B5: it would be open for ever; it is refused, and can be discarded."""
    host = await duly_world.host()

    async def fail(event: Event) -> None:
        raise ValueError("no")

    listen(host, "mail", "s", fail)
    await say(host)
    await host.drain()
    await move(host, "s", "news")
    with pytest.raises(RequestRefused, match="No handler subscribes to mail as s"):
        await host.bus.retry(1, "s")
    assert await host.bus.discard(1, "s") == "failed"


# -- Threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["subscribe", "emit", "schedule_at"])
async def test_a_call_from_another_thread_is_refused(duly_world: Stage, call: str) -> None:
    """B1, S9: nobody would be woken for it, and a host that is idle stays so."""
    host = await duly_world.host()
    bus, hear = host.bus, Ear(host, "s").hear

    async def there() -> None:
        if call == "subscribe":
            bus.subscribe("mail", hear, subscriber_id="s")
        elif call == "emit":
            await bus.emit("mail", {}, source="test")
        else:
            await bus.schedule_at(0, "mail", {}, source="test")

    with pytest.raises(RequestRefused, match="run_coroutine_threadsafe"):
        await asyncio.to_thread(lambda: asyncio.run(there()))
    assert await host.bus.journal() == ()


async def test_a_subscription_without_any_loop_is_refused(duly_world: Stage) -> None:
    """B13: a thread has none."""
    host = await duly_world.host()
    bus, hear = host.bus, Ear(host, "s").hear
    with pytest.raises(RequestRefused, match="run_coroutine_threadsafe"):
        await asyncio.to_thread(lambda: bus.subscribe("mail", hear, subscriber_id="s"))


async def test_a_person_who_ends_or_cancels_is_written_down_and_a_program_is_not(
    duly_world: Stage,
) -> None:
    """A6, B13: who, what, on what, with the act itself; what changed nothing is not."""
    host = await duly_world.host()
    listen(host, subscriber_id="ours")
    listen(host, subscriber_id="theirs")
    timers = [await host.bus.schedule_at(60, "tea", {}, source="kettle") for _ in range(2)]
    assert await host.bus.cancel(timers[0])
    await host.bus.unsubscribe("ours")
    assert await host.actions() == ()
    assert await host.bus.cancel(timers[1], by="ada")
    assert not await host.bus.cancel(timers[1], by="ada")
    await host.bus.unsubscribe("theirs", by="ada")
    told = [(each.by, each.verb, each.target) for each in await host.actions()]
    assert told == [("ada", "unsubscribe", "theirs"), ("ada", "cancel_deferred", str(timers[1]))]
    with pytest.raises(Invalid, match="by must be"):
        await host.bus.cancel(timers[1], by=" ")
