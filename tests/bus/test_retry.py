"""Attempts, dead letters, and what a person does with them (B5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from duly.errors import Invalid, NotFound, RequestRefused
from duly.rules.delivery import ATTEMPTS_MAX, Event, Retry
from duly.testing import Stage
from tests.bus.stand import ONCE, again, delivered, listen, say, statuses
from tests.spoken import short


async def fail(event: Event) -> None:
    raise ValueError("no luck")


async def test_three_attempts_after_one_and_five_seconds_then_it_is_dead(duly_world: Stage) -> None:
    """B5: the default of a subscription."""
    host = await duly_world.host()
    ear = listen(host, then=fail, retry=Retry())
    async with host.running():
        start = duly_world.env.now_ms()
        await say(host)
        await duly_world.advance("1h")
    assert [at - start for at in ear.times] == [0, 1_000, 6_000]
    assert ear.ids == [1, 1, 1]
    assert await delivered(host) == {(1, "test:mail"): ("dead", 3)}
    assert await statuses(host) == {1: "failed"}


async def test_one_attempt_is_the_bus_of_old(duly_world: Stage) -> None:
    """B5: a failure is final."""
    host = await duly_world.host()
    ear = listen(host, then=fail, retry=ONCE)
    await say(host)
    await host.drain()
    assert (ear.ids, await statuses(host)) == ([1], {1: "failed"})


async def test_a_drain_does_not_wait_for_a_retry(duly_world: Stage) -> None:
    """B5: it is due in a second, and said to be."""
    host = await duly_world.host()
    ear = listen(host, then=fail, retry=Retry())
    await say(host)
    await host.drain()
    assert ear.ids == [1]
    (waiting,) = await host.bus.deliveries(status="waiting")
    assert short(host, waiting) == "Waits for its attempt 2."
    await duly_world.advance(1)
    await host.drain()
    assert ear.ids == [1, 1]


async def test_a_retry_outlives_a_restart_with_its_count(duly_world: Stage) -> None:
    """B5: attempts and due time are the store's, not the host's."""
    host = await duly_world.host()
    listen(host, then=fail, retry=Retry(2, (60,)))
    await say(host)
    await host.drain()
    host = await again(duly_world, host)
    ear = listen(host, then=fail, retry=Retry(2, (60,)))
    await host.drain()
    assert ear.events == []
    await duly_world.advance(60)
    await host.drain()
    assert await delivered(host) == {(1, "test:mail"): ("dead", 2)}


async def test_a_recorded_success_is_never_called_again(duly_world: Stage) -> None:
    """B4: not by the retry of another subscriber, and not after a restart."""
    host = await duly_world.host()
    good = listen(host, subscriber_id="good")
    bad = listen(host, subscriber_id="bad", then=fail, retry=Retry(2, (1,)))
    await say(host)
    async with host.running():
        await duly_world.advance(5)
    await host.bus.retry(1, "bad", by="ada")
    async with host.running():
        await duly_world.advance(5)
    assert (good.ids, bad.ids) == ([1], [1] * 4)
    host = await again(duly_world, host)
    good = listen(host, subscriber_id="good")
    await host.drain()
    assert good.events == []


async def test_a_dead_letter_is_retried_by_a_person_and_that_is_written_down(
    duly_world: Stage,
) -> None:
    """B5, A6: all attempts again, at once; who did it stands in the actions."""
    host = await duly_world.host()
    broken = {"is": True}

    async def fail_while_broken(event: Event) -> None:
        if broken["is"]:
            raise ValueError("broken")

    ear = listen(host, then=fail_while_broken)
    await say(host)
    await host.drain()
    broken["is"] = False
    async with host.running():
        assert await host.bus.retry(1, "test:mail", by="ada") == "processing"
        await duly_world.loop.rest()
        assert ear.ids == [1, 1]
    assert await statuses(host) == {1: "done"}
    (row,) = await host.bus.journal()
    assert row.error is None
    (action,) = await host.actions()
    assert (action.by, action.verb, action.target) == ("ada", "retry_delivery", "1/test:mail")


async def test_a_dead_letter_is_discarded_for_good(duly_world: Stage) -> None:
    """B5, A6: it stays in sight, its event stays failed, and it cannot be retried."""
    host = await duly_world.host()
    listen(host, then=fail)
    await say(host)
    await host.drain()
    assert await host.bus.discard(1, "test:mail", by="ada") == "failed"
    (gone,) = await host.bus.deliveries(status="discarded")
    assert gone.error == "ValueError: no luck"
    for act in (host.bus.retry, host.bus.discard):
        with pytest.raises(RequestRefused):
            await act(1, "test:mail", by="ada")
    (action,) = await host.actions()
    assert action.verb == "discard_delivery"


async def test_only_what_is_there_and_dead_is_moved_and_only_by_somebody(duly_world: Stage) -> None:
    """B5, A6: a delivery nobody knows, one that is done, an act of nobody."""
    host = await duly_world.host()
    listen(host)
    await say(host)
    await host.drain()
    with pytest.raises(NotFound):
        await host.bus.retry(9, "test:mail")
    with pytest.raises(RequestRefused, match="done"):
        await host.bus.retry(1, "test:mail")
    for nobody in ("", " ", "a\nb", "x" * 101):
        with pytest.raises(Invalid, match="by must be"):
            await host.bus.discard(1, "test:mail", by=nobody)
    assert await host.actions() == ()


@pytest.mark.parametrize(
    ("attempts", "delays_s"),
    [
        *((0, (1,)), (ATTEMPTS_MAX + 1, (1,)), (2, ()), (2, (float("nan"),))),
        *(("3", (1,)), (True, (1,)), (2.5, (1,)), (2, 5), (2, "55"), (2, (timedelta(1),))),
    ],
)
def test_a_retry_that_makes_no_sense_is_refused(attempts: Any, delays_s: Any) -> None:
    """B5: attempts from 1 to 100, whole, and delays that are seconds."""
    with pytest.raises(Invalid):
        Retry(attempts, delays_s)
    delays: Any = [1, 2]
    assert Retry(ATTEMPTS_MAX, delays).delays_s == (1, 2)


async def test_the_questions_refuse_words_and_pages_they_do_not_know(duly_world: Stage) -> None:
    """B14: and name those they do."""
    host = await duly_world.host()
    for ask in (host.bus.journal, host.bus.deliveries, host.bus.deferred):
        with pytest.raises(Invalid, match="Use one of"):
            await ask(status="lost")
        for limit in (0, 1001):
            with pytest.raises(Invalid):
                await ask(limit=limit)


async def test_the_questions_are_read_in_pages(duly_world: Stage) -> None:
    """B14: events newest first, deliveries and deferred events oldest first; none twice."""
    host = await duly_world.host()
    listen(host)
    for number in range(5):
        await host.bus.emit("mail", {}, source="test", correlation_id=f"c{number % 2}")
        await host.bus.schedule_at(number + 60, "news", {}, source="test")
    await host.drain()
    first = await host.bus.journal(limit=3)
    rest = await host.bus.journal(limit=3, before=first[-1].id)
    assert [each.id for each in (*first, *rest)] == [5, 4, 3, 2, 1]
    assert [each.id for each in await host.bus.journal(correlation_id="c1")] == [4, 2]
    assert await host.bus.journal("news") == await host.bus.journal(status="failed") == ()
    told = await host.bus.deliveries(limit=3)
    last = (told[-1].event_id, told[-1].subscriber_id)
    more = await host.bus.deliveries(limit=3, after=last)
    assert [each.event_id for each in (*told, *more)] == [1, 2, 3, 4, 5]
    assert [each.event_id for each in await host.bus.deliveries(event_id=3)] == [3]
    planned = await host.bus.deferred(limit=3)
    later = await host.bus.deferred(limit=3, after=planned[-1])
    assert [each.id for each in (*planned, *later)] == [1, 2, 3, 4, 5]
