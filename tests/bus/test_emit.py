"""Putting events on the bus, now and later, and taking back what has not fired (B1, B2)."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import Any

import pytest

from duly.config import Policy
from duly.errors import Invalid, NotFound, RequestRefused
from duly.rules.delivery import DELAY_MAX_MS, Event
from duly.testing import Stage
from tests.bus.stand import again, listen, say, statuses, store_of

KIB = 1024


async def test_an_emitted_event_is_heard_with_everything_it_was_given(duly_world: Stage) -> None:
    """B1, B8: id, topic, source, payload, time and correlation; the handler sees it processing."""
    host = await duly_world.host()
    ear = listen(host)
    event_id = await host.bus.emit("mail", {"text": "a"}, source="post", correlation_id="c1")
    at_s = duly_world.env.now_ms() / 1000
    await host.drain()
    assert ear.events == [Event(event_id, "mail", "post", {"text": "a"}, at_s, "c1")]
    assert ear.events[0].status == "processing"
    (row,) = await host.bus.journal()
    assert (row.status, row.error, row.undelivered) == ("done", None, False)


async def test_an_emitted_event_outlives_the_host(duly_world: Stage) -> None:
    """B1: emit returns when the event is durable, and nothing was dispatched before a drain."""
    host = await duly_world.host()
    ear = listen(host)
    await say(host, text="kept")
    assert ear.events == []
    host = await again(duly_world, host)
    ear = listen(host)
    await host.drain()
    assert ear.texts == ["kept"]


async def test_what_the_caller_does_to_its_dict_afterwards_changes_nothing(
    duly_world: Stage,
) -> None:
    """B1: the payload is copied when it is emitted."""
    host = await duly_world.host()
    ear = listen(host)
    payload: dict[str, Any] = {"text": "a", "deep": [1]}
    await host.bus.emit("mail", payload, source="test")
    payload["deep"].append(2)
    await host.drain()
    assert ear.events[0].payload == {"text": "a", "deep": [1]}


async def test_handlers_of_one_event_have_each_their_own_copy(duly_world: Stage) -> None:
    """B8: what one handler does to its payload the next one does not see."""
    host = await duly_world.host()

    async def spoil(event: Event) -> None:
        event.payload["text"] = "spoilt"

    listen(host, subscriber_id="first", then=spoil)
    second = listen(host, subscriber_id="second")
    await say(host, text="fresh")
    await host.drain()
    assert second.texts == ["fresh"]


WRONG: list[dict[str, Any]] = [
    {"payload": ["a"]},
    {"payload": {"a": math.nan}},
    {"payload": {1: "a"}},
    {"payload": {"a": object()}},
    {"payload": {"text": "x" * (256 * KIB)}},
    {"topic": "two words"},
    {"topic": ""},
    {"topic": "x" * 101},
    {"source": ""},
    {"source": "a:b"},
    {"source": None},
    {"source": []},
    {"source": "x" * 101},
    {"correlation_id": ""},
    {"correlation_id": "x" * 501},
    {"correlation_id": "a\0b"},
    {"correlation_id": "\ud800"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: ",".join(each))
async def test_what_cannot_be_emitted_is_refused_and_nothing_is_stored(
    duly_world: Stage, wrong: dict[str, Any]
) -> None:
    """B1, B2: the caller is told, at once or deferred, and the bus knows nothing of it."""
    host = await duly_world.host()
    given = {"topic": "mail", "payload": {}, "source": "test", "correlation_id": None} | wrong
    topic, payload = given.pop("topic"), given.pop("payload")
    with pytest.raises(Invalid):
        await host.bus.emit(topic, payload, **given)
    with pytest.raises(Invalid):
        await host.bus.schedule_at(1, topic, payload, **given)
    assert await host.bus.journal() == ()
    assert await host.bus.deferred() == ()


async def test_names_at_their_limit_are_taken(duly_world: Stage) -> None:
    """B1: a topic and a source of 100 characters, a correlation id of 500."""
    host = await duly_world.host()
    await host.bus.emit("x" * 100, {}, source="y" * 100, correlation_id="z" * 500)
    (row,) = await host.bus.journal(correlation_id="z" * 500)
    assert (row.topic, row.source) == ("x" * 100, "y" * 100)


async def test_a_payload_at_its_limit_is_taken(duly_world: Stage) -> None:
    """B1: 256 KiB of JSON, to the byte."""
    host = await duly_world.host()
    await host.bus.emit("mail", {"text": "x" * (256 * KIB - len('{"text":""}'))}, source="test")
    assert len(await host.bus.journal()) == 1


async def test_nobody_can_speak_as_the_host_or_an_extension(duly_world: Stage) -> None:
    """B1: the source cannot be forged, neither now nor later; its own line can say it."""
    host = await duly_world.host()
    line = host.bus.reserve("reminders")
    for source in ("duly", "reminders"):
        with pytest.raises(RequestRefused, match=source):
            await host.bus.emit("mail", {}, source=source)
        with pytest.raises(RequestRefused, match=source):
            await host.bus.schedule_at(1, "mail", {}, source=source)
        with pytest.raises(RequestRefused, match="taken"):
            host.bus.reserve(source)
    await line.emit("mail", {}, source="reminders")
    (row,) = await host.bus.journal()
    assert row.source == "reminders"


# -- Later (B2) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0.3, timedelta(milliseconds=300)])
async def test_a_deferred_event_fires_at_its_time_and_not_by_a_poll(
    duly_world: Stage, delay: float | timedelta
) -> None:
    """B2: to the millisecond, with nobody else to wake the loop."""
    host = await duly_world.host()
    ear = listen(host)
    async with host.running():
        await duly_world.advance(1)
        start = duly_world.env.now_ms()
        deferred_id = await host.bus.schedule_at(
            delay, "mail", {"text": "later"}, source="post", correlation_id="c1"
        )
        (waiting,) = await host.bus.deferred()
        assert (waiting.id, waiting.status, waiting.fired_at) == (deferred_id, "scheduled", None)
        await duly_world.advance(10)
    assert ear.times == [start + 300]
    (fired,) = await host.bus.deferred(status="fired")
    (row,) = await host.bus.journal()
    assert (fired.event_id, fired.fired_at) == (row.id, row.created_at)
    assert (row.source, row.payload, row.correlation_id) == ("post", {"text": "later"}, "c1")


@pytest.mark.parametrize("delay", [0, -5, timedelta(seconds=-1), -math.inf])
async def test_a_delay_of_nothing_or_less_is_at_once(
    duly_world: Stage, delay: float | timedelta
) -> None:
    """B2: it goes through the journal like any other, in the next drain."""
    host = await duly_world.host()
    ear = listen(host)
    await host.bus.schedule_at(delay, "mail", {"text": "now"}, source="test")
    await host.drain()
    assert ear.texts == ["now"]


@pytest.mark.parametrize("delay", [math.nan, math.inf, DELAY_MAX_MS / 1000 + 1, "soon", None, True])
async def test_a_delay_that_is_no_time_is_refused(duly_world: Stage, delay: Any) -> None:
    """B2: NaN, a word, and more than a century."""
    host = await duly_world.host()
    with pytest.raises(Invalid):
        await host.bus.schedule_at(delay, "mail", {}, source="test")
    assert await host.bus.deferred() == ()


async def test_deferred_events_fire_in_the_order_of_their_time(duly_world: Stage) -> None:
    """B2: whichever was made first; of the same time, the one made first."""
    host = await duly_world.host()
    ear = listen(host)
    for delay, text in ((3, "d"), (1, "a"), (2, "b"), (2, "c")):
        await host.bus.schedule_at(delay, "mail", {"text": text}, source="test")
    async with host.running():
        await duly_world.advance(5)
    assert ear.texts == ["a", "b", "c", "d"]


async def test_an_overdue_event_fires_at_the_next_start_and_once(duly_world: Stage) -> None:
    """B2, B7: its time passed while no host was there; a second start fires nothing more."""
    host = await duly_world.host()
    await host.bus.schedule_at(60, "mail", {"text": "late"}, source="test")
    host = await again(duly_world, host)
    await duly_world.advance("1h")
    ear = listen(host)
    await host.drain()
    assert ear.texts == ["late"]
    host = await again(duly_world, host)
    ear = listen(host)
    await host.drain()
    assert ear.texts == []


async def test_a_drain_does_not_wait_for_a_later_time(duly_world: Stage) -> None:
    """B2: what is due in a second is due in a second."""
    host = await duly_world.host()
    ear = listen(host)
    await host.bus.schedule_at(1, "mail", {}, source="test")
    start = duly_world.env.now_ms()
    await host.drain()
    assert (ear.events, duly_world.env.now_ms()) == ([], start)


async def test_an_event_is_cancelled_once_and_never_fires(duly_world: Stage) -> None:
    """B2: true, then false; and nobody hears it."""
    host = await duly_world.host()
    ear = listen(host)
    deferred_id = await host.bus.schedule_at(1, "mail", {}, source="test")
    assert await host.bus.cancel(deferred_id) is True
    assert await host.bus.cancel(deferred_id) is False
    async with host.running():
        await duly_world.advance(5)
    assert ear.events == []
    (row,) = await host.bus.deferred(status="cancelled")
    assert (row.id, row.fired_at, row.event_id) == (deferred_id, None, None)


async def test_an_event_that_has_fired_cannot_be_cancelled(duly_world: Stage) -> None:
    """B2: the loser is told."""
    host = await duly_world.host()
    deferred_id = await host.bus.schedule_at(1, "mail", {}, source="test")
    async with host.running():
        await duly_world.advance(1)
        assert await host.bus.cancel(deferred_id) is False
    assert await statuses(host) == {1: "done"}
    with pytest.raises(NotFound, match="never was"):
        await host.bus.cancel(99)


async def test_an_event_that_retention_removed_cannot_be_cancelled(duly_world: Stage) -> None:
    """B2, H5: it had fired or was cancelled, and the answer is still false."""
    host = await duly_world.host(policy=Policy(retention_days=1))
    fired = await host.bus.schedule_at(0, "mail", {}, source="test")
    cancelled = await host.bus.schedule_at(1, "mail", {}, source="test")
    assert await host.bus.cancel(cancelled) is True
    await host.drain()
    await duly_world.advance("2d")
    assert (await host.tidy()).deferred == 2
    for deferred_id in (fired, cancelled):
        assert await host.bus.cancel(deferred_id) is False
    for never in (0, cancelled + 1):
        with pytest.raises(NotFound, match="never was"):
            await host.bus.cancel(never)


MOMENTS = 12  # turns of the loop that either transaction takes, and some more


@pytest.mark.parametrize("early", [-1, 0, 1], ids=["before", "at", "after"])
async def test_of_cancel_and_firing_exactly_one_wins(duly_world: Stage, early: int) -> None:
    """B2: in every interleaving of the two transactions the answer and the journal agree."""
    host = await duly_world.host()
    ear = listen(host)
    won = {True: 0, False: 0}
    async with host.running():
        for moments in range(MOMENTS):
            heard = len(ear.events)
            deferred_id = await host.bus.schedule_at(1, "mail", {"text": "x"}, source="test")
            await duly_world.env.sleep(1 + early / 1000)
            for _ in range(moments):
                await duly_world.env.sleep(0)
            is_cancelled = await host.bus.cancel(deferred_id)
            won[is_cancelled] += 1
            await duly_world.advance(2)
            assert len(ear.events) - heard == (0 if is_cancelled else 1)
            status = "cancelled" if is_cancelled else "fired"
            (row,) = [each for each in await host.bus.deferred(status) if each.id == deferred_id]
            assert (row.event_id is None) == is_cancelled
    if early == 0:  # otherwise the loop above did not try both orders
        assert min(won.values()) > 0
    if early < 0:
        assert won == {True: MOMENTS, False: 0}
    if early > 0:
        assert won == {True: 0, False: MOMENTS}


async def test_cancel_and_promotion_side_by_side_agree_in_either_order(duly_world: Stage) -> None:
    """B2: the two transactions themselves, handed to the store in both orders at one moment."""
    host = await duly_world.host()
    store, now = store_of(host), duly_world.env.now_ms
    for is_cancel_first in (True, False):
        deferred_id = await host.bus.schedule_at(0, "mail", {}, source="test")
        cancel = store.cancel(deferred_id, now=now())
        promote = store.promote_due(now=now(), limit=10)
        order = (cancel, promote) if is_cancel_first else (promote, cancel)
        first, second = await asyncio.gather(*order)
        is_cancelled, promoted = (first, second) if is_cancel_first else (second, first)
        assert is_cancelled is is_cancel_first
        assert bool(promoted) is not is_cancel_first
