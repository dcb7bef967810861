"""A result that the store could not take is kept, and holds up its own lane alone (B4, B6, H3)."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import pytest

from duly.bus.recorder import REST_LONGEST_MS
from duly.config import Limits, Policy
from duly.errors import StoreUnavailable
from duly.host import Host
from duly.loop import REST_MS
from duly.rules.delivery import Event, Retry
from duly.testing import Stage
from tests.bus.stand import ONCE, delivered, listen, say, store_of
from tests.bus.test_ingress import BUS, hearing
from tests.engine.stand import opened

HOUR_MS = 3_600_000


def unavailable() -> StoreUnavailable:
    """Return what a full disk raises."""
    return StoreUnavailable(code="sqlite_gave_up", subject="duly.db")


def refuse_record(host: Host, refused_id: int, subscriber_id: str) -> list[int]:
    """Refuse the record of one delivery; return the list of the times it was tried, in ms."""
    store, finish = store_of(host), store_of(host).finish_delivery
    tried: list[int] = []

    async def refuse_one(*args: Any, **named: Any) -> Any:
        if args[:2] == (refused_id, subscriber_id):
            tried.append(host._desk().now_ms)
            raise AssertionError("a rule of the store does not hold")
        return await finish(*args, **named)

    store.finish_delivery = refuse_one
    return tried


async def test_an_orderly_stop_keeps_the_success_that_the_store_could_not_take(
    duly_world: Stage,
) -> None:
    """B4, B5, H3: the store works again long before the stop; no host died, nothing is repeated."""
    host = await duly_world.host()
    first = listen(host, retry=Retry())
    store, finish = store_of(host), store_of(host).finish_delivery

    async def fail_once(*args: Any, **named: Any) -> Any:
        store.finish_delivery = finish
        raise unavailable()

    store.finish_delivery = fail_once
    await say(host)
    async with host.running():
        await duly_world.advance(1)
    assert first.done == [1]
    await host.close()
    duly_world._hosts.clear()
    host = await duly_world.host()
    second = listen(host, retry=Retry())
    await host.drain()
    assert (second.ids, await delivered(host)) == ([], {(1, "test:mail"): ("done", 1)})


async def test_a_drain_that_failed_and_a_close_repeat_no_handler(duly_world: Stage) -> None:
    """B4, B5: the caller was told of the failure and closes the host; the success is known."""
    host = await duly_world.host()
    first = listen(host, retry=ONCE)
    store, finish = store_of(host), store_of(host).finish_delivery

    async def fail_once(*args: Any, **named: Any) -> Any:
        store.finish_delivery = finish
        raise unavailable()

    store.finish_delivery = fail_once
    await say(host)
    with pytest.raises(StoreUnavailable):
        await host.drain()
    assert first.done == [1]
    await host.close()
    duly_world._hosts.clear()
    host = await duly_world.host()
    second = listen(host, retry=ONCE)
    await host.drain()
    assert (second.ids, await delivered(host)) == ([], {(1, "test:mail"): ("done", 1)})


async def test_a_record_that_is_refused_holds_up_its_own_lane_and_no_other(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """B3, B6: other topics go on, and other subscribers of the same event; each try is said."""
    host = await duly_world.host()
    tried = refuse_record(host, 1, "bad")
    bad = listen(host, subscriber_id="bad")
    beside, other = listen(host, subscriber_id="beside"), listen(host, "other")
    with caplog.at_level(logging.ERROR, logger="duly.bus"):
        async with host.running():
            for _ in range(3):
                await say(host)
                await say(host, "other")
            await duly_world.advance("1h")
            assert (beside.done, other.done, bad.done) == ([1, 3, 5], [2, 4, 6], [1])
    steps = [after - before for before, after in pairwise(tried[:-1])]  # the last as it stops
    assert steps[:3] == [REST_MS, 2 * REST_MS, 4 * REST_MS]
    assert max(steps) == REST_LONGEST_MS
    assert HOUR_MS / REST_LONGEST_MS <= len(tried) <= HOUR_MS / REST_LONGEST_MS + 9
    said = [each for each in caplog.messages if "event 1 for bad is not recorded yet" in each]
    assert len(said) == len(tried)


async def test_a_suspect_that_has_ended_and_is_not_recorded_holds_up_no_other(
    duly_world: Stage,
) -> None:
    """B5, B6: the store has it as running alone; its attempt has ended."""
    host = await duly_world.host()

    async def die(event: Event) -> None:
        duly_world.env.crash()

    listen(host, "deadly", then=die, retry=Retry())
    await say(host, "deadly")
    await duly_world.crash(host, host.drain())
    host = await duly_world.host()
    refuse_record(host, 1, "test:deadly")
    deadly, other = listen(host, "deadly", retry=Retry()), listen(host, "other")
    async with host.running():
        for _ in range(3):
            await say(host, "other")
        await duly_world.advance(1)
        assert (deadly.done, other.done) == ([1], [2, 3, 4])


async def test_a_drain_does_all_else_before_it_says_what_is_not_recorded(
    duly_world: Stage,
) -> None:
    """B6, H3: the first drain and the next; the handler is called once."""
    host = await duly_world.host()
    refuse_record(host, 1, "test:bad")
    bad, good = listen(host, "bad"), listen(host, "good")
    await say(host, "bad")
    for number in range(2):
        for _ in range(3):
            await say(host, "good")
        with pytest.raises(AssertionError, match="a rule of the store"):
            await host.drain()
        assert (bad.done, len(good.done)) == ([1], 3 * (number + 1))


async def test_a_record_whose_answer_is_lost_holds_up_no_other_topic(duly_world: Stage) -> None:
    """B4–B6: what it had begun is given back while another lane is at work."""
    host = await duly_world.host()
    store, finish = store_of(host), store_of(host).finish_delivery

    async def lose(*args: Any, **named: Any) -> Any:
        answer = await finish(*args, **named)
        if args[1] == "test:mail":
            store.finish_delivery = finish
            assert answer.next is not None
            raise OSError("the answer is lost")
        return answer

    async def work(event: Event) -> None:
        await duly_world.env.sleep(1)

    store.finish_delivery = lose
    ear, busy = listen(host), listen(host, "busy", then=work)
    for _ in range(3):
        await say(host)
    for _ in range(60):
        await say(host, "busy")
    async with host.running():
        await duly_world.advance(2 * REST_MS / 1000)
        assert ear.done == [1, 2, 3]
        assert len(busy.done) < 60
    assert set((await delivered(host)).values()) <= {("done", 1), ("waiting", 0)}


async def test_what_a_check_of_the_schema_refuses_is_a_dead_letter_and_stops_nothing(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B5, B6, T10: a title of 600 characters, and a policy that is not compared with the schema."""
    monkeypatch.setattr("duly.config.SCHEMA_CHARS", {})
    policy = Policy(limits=Limits(title_chars=1_000))
    play = await opened(duly_world, policy=policy)
    await play.deploy(hearing())
    ear = listen(play.host, "other")
    async with play.host.running():
        await duly_world.advance(1)
        poison, sound = await say(play.host, BUS, title="x" * 600), await say(play.host, BUS)
        for _ in range(3):
            await say(play.host, "other")
        await duly_world.advance(1)
        assert len(ear.done) == 3
        await duly_world.advance(60)
    found = {
        event_id: status for (event_id, _), (status, _) in (await delivered(play.host)).items()
    }
    assert (found[poison], found[sound]) == ("dead", "done")
