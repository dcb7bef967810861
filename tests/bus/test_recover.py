"""Dying, starting again and stopping in order (B7, B5)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pytest

from duly.bus.attempt import GRACE_S
from duly.bus.dispatcher import STOP_S
from duly.rules.delivery import HOST_DEATHS_MAX, HOST_DIED, Event, Retry
from duly.testing import Stage
from duly.testing.crash import Moment
from tests.bus.stand import ONCE, again, count_looks, delivered, listen, say, statuses

RECOVERED = "EventBus: recovered"


async def test_a_start_says_how_many_events_it_gave_back(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """B7: those that were being processed and those that were overdue; else nothing."""
    host = await duly_world.host()
    for name in ("first", "second"):
        listen(host, subscriber_id=name)
    await say(host)
    await host.bus.schedule_at(1, "mail", {}, source="test")
    duly_world.crash_at(finish_delivery="before")
    await duly_world.crash(host, host.drain())
    await duly_world.advance(5)
    host = await duly_world.host()
    ears = [listen(host, subscriber_id=name) for name in ("first", "second")]
    with caplog.at_level(logging.INFO, "duly.bus"):
        await host.drain()
        assert f"{RECOVERED} 2 events" in caplog.text
        caplog.clear()
        host = await again(duly_world, host)
        await host.drain()
    assert RECOVERED not in caplog.text
    assert [ear.ids for ear in ears] == [[1, 2], [1, 2]]


async def test_recovery_comes_before_anything_is_dispatched_and_once(duly_world: Stage) -> None:
    """B7: a second drain of the same host does not give back what waits for its retry."""
    host = await duly_world.host()

    async def fail(event: Event) -> None:
        raise ValueError("no")

    listen(host, then=fail, retry=Retry())
    await say(host)
    await host.drain()
    assert await statuses(host) == {1: "processing"}
    await host.drain()
    assert await statuses(host) == {1: "processing"}


PLACES: list[tuple[str, Moment, list[int]]] = [
    # Where the host dies, and how often the first and the second subscriber succeed in all.
    ("begin_delivery", "before", [1, 1]),
    ("begin_delivery", "after", [1, 1]),
    ("finish_delivery", "before", [2, 1]),
    ("finish_delivery", "after", [1, 1]),
    ("promote_due", "before", [1, 1]),
    ("promote_due", "after", [1, 1]),
    ("recover_bus", "before", [1, 1]),
    ("recover_bus", "after", [1, 1]),
    ("bus_outlook", "before", [1, 1]),
    ("subscribe", "after", [1, 1]),
]


@pytest.mark.parametrize(("verb", "moment", "successes"), PLACES)
async def test_a_crash_anywhere_repeats_only_what_was_in_hand(
    duly_world: Stage, verb: str, moment: Moment, successes: list[int]
) -> None:
    """B4, B7: a recorded success is never called again; one that was not recorded is, once."""
    host = await duly_world.host()
    if verb != "recover_bus":
        await host.drain()  # it has recovered, so what is overdue is promoted
    deferred_id = await host.bus.schedule_at(0, "mail", {}, source="test")
    done: list[str] = []
    ears = [listen(host, subscriber_id=name) for name in ("first", "second")]
    duly_world.crash_at(**{verb: moment})
    await duly_world.crash(host, host.drain())
    done += [ear.subscriber_id for ear in ears for _ in ear.done]
    host = await duly_world.host()
    ears = [listen(host, subscriber_id=name) for name in ("first", "second")]
    await host.drain()
    await host.drain()
    done += [ear.subscriber_id for ear in ears for _ in ear.done]
    assert [done.count("first"), done.count("second")] == successes
    assert await statuses(host) == {1: "done"}
    assert [each.id for each in await host.bus.deferred(status="fired")] == [deferred_id]


async def test_a_crash_between_two_subscribers_calls_only_the_second(duly_world: Stage) -> None:
    """B4: the first one's success was recorded."""
    host = await duly_world.host()

    async def die(event: Event) -> None:
        duly_world.env.crash()

    first = listen(host, subscriber_id="first")
    listen(host, subscriber_id="second", then=die)
    await say(host)
    await duly_world.crash(host, host.drain())
    host = await duly_world.host()
    again_first = listen(host, subscriber_id="first")
    second = listen(host, subscriber_id="second")
    await host.drain()
    assert (first.ids, again_first.ids, second.ids) == ([1], [], [1])
    assert await delivered(host) == {(1, "first"): ("done", 1), (1, "second"): ("done", 2)}


@pytest.mark.parametrize("retry", [ONCE, Retry(), Retry(5, (1,))])
async def test_an_event_that_kills_its_host_every_time_is_parked(
    duly_world: Stage, retry: Retry
) -> None:
    """B5: repeated without backoff until its attempts are used up, and three hosts at least."""
    host = await duly_world.host()
    deaths = 0

    async def kill(event: Event) -> None:
        nonlocal deaths
        if event.id == 1:
            deaths += 1
            duly_world.env.crash()

    ear = listen(host, then=kill, retry=retry)
    await say(host)
    await say(host)
    while deaths < 10:
        with suppress(BaseException):
            await host.drain()
        if 2 in ear.ids:
            break
        await duly_world.crash(host)
        host = await duly_world.host()
        ear = listen(host, then=kill, retry=retry)
    assert deaths == retry.attempts - 1 + HOST_DEATHS_MAX
    (dead,) = await host.bus.deliveries(status="dead")
    assert (dead.event_id, dead.error) == (1, HOST_DIED)
    assert await statuses(host) == {1: "failed", 2: "done"}


async def test_a_crash_in_the_last_attempt_is_not_the_handler_s_failure(duly_world: Stage) -> None:
    """B5: it failed twice by itself and its host died once; it is repeated at the next start."""
    host = await duly_world.host()
    calls = 0

    async def fail_or_die(event: Event) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            duly_world.env.crash()
        raise ValueError("not now")

    listen(host, then=fail_or_die, retry=Retry())
    await say(host)
    for _ in range(2):
        await host.drain()
        await duly_world.advance(5)
    await duly_world.crash(host, host.drain())
    host = await duly_world.host()
    ear = listen(host, retry=Retry())
    await host.drain()
    assert (calls, ear.done) == (3, [1])
    assert await delivered(host) == {(1, "test:mail"): ("done", 4)}


# -- Stopping (B7) ------------------------------------------------------------------------------


async def test_a_stop_lets_handlers_end_and_begins_nothing_new(duly_world: Stage) -> None:
    """B7: within ten seconds; what was not begun is there at the next drain."""
    host = await duly_world.host()

    async def work(event: Event) -> None:
        await duly_world.env.sleep(STOP_S - 1)

    ear = listen(host, then=work)
    async with host.running():
        await say(host)
        await say(host)
        await duly_world.advance(0.5)
    assert ear.done == [1]
    assert await statuses(host) == {1: "done", 2: "pending"}
    await host.drain()
    assert ear.done == [1, 2]


async def test_a_handler_that_ends_as_the_stop_gives_up_on_it_is_not_called_again(
    duly_world: Stage,
) -> None:
    """B4, B7: it has returned, so that is recorded; nobody died."""
    host = await duly_world.host()

    async def work(event: Event) -> None:
        await duly_world.env.sleep(STOP_S + 5)

    ear = listen(host, then=work)
    await say(host)
    async with host.running():
        await duly_world.advance(5)
    assert (ear.done, await statuses(host)) == ([1], {1: "done"})
    await host.drain()
    assert ear.ids == [1]


async def test_a_handler_that_outlasts_the_stop_is_repeated_at_the_next_start(
    duly_world: Stage,
) -> None:
    """B7, B5: it is cancelled, its attempt is given back, and it is called again at once."""
    host = await duly_world.host()
    cancelled: list[int] = []

    async def work(event: Event) -> None:
        if not cancelled:
            try:
                await duly_world.env.sleep(STOP_S * 5)
            except asyncio.CancelledError:
                cancelled.append(event.id)
                raise

    ear = listen(host, then=work, retry=Retry())
    async with host.running():
        await say(host)
        await duly_world.advance(1)
        stopped_at = duly_world.env.now_ms()
    assert duly_world.env.now_ms() - stopped_at == STOP_S * 1000
    assert cancelled == [1]
    assert await delivered(host) == {(1, "test:mail"): ("waiting", 0)}
    await host.drain()
    assert ear.done == [1]
    assert await delivered(host) == {(1, "test:mail"): ("done", 1)}


async def test_a_handler_that_is_stopped_may_still_tidy_up(duly_world: Stage) -> None:
    """B7: it is cancelled once, and has its grace to end well."""
    host = await duly_world.host()
    tidied: list[int] = []

    async def work(event: Event) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await duly_world.env.sleep(GRACE_S - 1)
            tidied.append(event.id)

    listen(host, then=work)
    await say(host)
    async with host.running():
        await duly_world.advance(1)
    assert tidied == [1]


async def test_closing_leaves_no_task_behind(duly_world: Stage) -> None:
    """B7: whatever ran, waited or was deferred."""
    before = set(asyncio.all_tasks())
    host = await duly_world.host()

    async def hang(event: Event) -> None:
        await asyncio.Event().wait()

    listen(host, then=hang)
    await say(host)
    await host.bus.schedule_at(60, "mail", {}, source="test")
    async with host.running():
        await duly_world.advance(1)
        await host.close()
    await duly_world.loop.rest()
    assert {task for task in asyncio.all_tasks() if task not in before} == set()


async def test_an_idle_bus_does_nothing(duly_world: Stage) -> None:
    """S9, B14: no poll, also with events that wait for a subscriber that is not there."""
    host = await duly_world.host()
    listen(host, subscriber_id="away")
    await say(host)
    host = await again(duly_world, host)
    looks = count_looks(host)
    async with host.running():
        await duly_world.advance("1h")
        seen = len(looks)
        await duly_world.advance("7d")
        assert len(looks) == seen
