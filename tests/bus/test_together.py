"""Engine and bus at work together, and how they end (H3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.errors import RequestRefused, StoreUnavailable
from duly.loop import HostWork
from duly.rules.delivery import Event
from duly.testing import Stage
from tests.bus.stand import count_looks, listen, say, statuses, store_of
from tests.engine.stand import flow, opened

FULL = StoreUnavailable("the disk is full")


async def test_nothing_is_dispatched_before_somebody_drains_or_serves(duly_world: Stage) -> None:
    """B13: however long it waits."""
    host = await duly_world.host()
    ear = listen(host)
    await say(host)
    await duly_world.advance("1h")
    assert ear.events == []


async def test_a_host_that_is_not_open_or_closed_has_no_bus(duly_world: Stage) -> None:
    """B13: it says so, like every other part of a host."""
    host = await duly_world.host()
    await host.close()
    with pytest.raises(RequestRefused, match="closed"):
        _ = host.bus


async def test_a_second_drain_is_refused_and_the_first_goes_on(duly_world: Stage) -> None:
    """S1: one at a time, also while the engine already rests and only a handler runs."""
    host = await duly_world.host()

    async def work(event: Event) -> None:
        await duly_world.env.sleep(5)

    ear = listen(host, then=work)
    await say(host)
    draining = asyncio.ensure_future(host.drain())
    await duly_world.advance(1)
    for again in (host.drain, host.serve):
        with pytest.raises(RequestRefused, match="one at a time"):
            await again()
    await draining
    assert ear.done == [1]


@pytest.mark.parametrize("is_heard", [True, False])
async def test_the_bus_looks_again_when_the_engine_announced_what_it_must_deliver(
    duly_world: Stage, is_heard: bool
) -> None:
    """B10, B11: a commit without a listener is over when it is written, and wakes nothing."""
    play = await opened(duly_world)
    await play.deploy(flow())
    ear = listen(play.host, "run.committed" if is_heard else "run.failed")
    looks = count_looks(play.host)
    async with play.host.running():
        await duly_world.advance(1)
        before = len(looks)
        await play.publish("a")
        await duly_world.advance(1)
        assert (len(looks) > before) is is_heard
    told = await play.host.bus.journal("run.committed")
    assert {(each.status, each.undelivered) for each in told} == {("done", not is_heard)}
    assert len(ear.done) == (len(told) if is_heard else 0)


async def test_a_handler_that_subscribes_before_the_work_begins_hears_of_the_first_run(
    duly_world: Stage,
) -> None:
    """B13: also if the bus has much to recover before its first look."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    ear = listen(play.host, "run.committed")
    recover = play.store.recover_bus

    async def slowly(**how: Any) -> Any:
        await duly_world.env.sleep(1)
        return await recover(**how)

    play.store.recover_bus = slowly
    await play.host.drain()
    assert len(ear.done) == len(await play.host.bus.journal("run.committed"))


async def test_an_error_of_the_engine_ends_a_drain_and_the_handlers_come_to_their_end(
    duly_world: Stage,
) -> None:
    """H3: in order; the caller hears the error."""
    host = await duly_world.host()

    async def work(event: Event) -> None:
        await duly_world.env.sleep(5)

    async def refuse(now: int, **given: Any) -> Any:
        await duly_world.env.sleep(1)  # by then the handler is at work
        raise FULL

    ear = listen(host, then=work)
    await say(host)
    store_of(host).due = refuse
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await host.drain()
    assert (ear.done, await statuses(host)) == ([1], {1: "done"})


class Part:
    """One who works: for so long, and then fails or ends."""

    def __init__(self, stage: Stage, error: Exception | None = None) -> None:
        self.stage = stage
        self.error = error
        self.told: list[str] = []
        self.bell = asyncio.Event()
        self.drains = 0

    @property
    def is_rung(self) -> bool:
        return self.bell.is_set()

    async def until_rung(self) -> None:
        await self.bell.wait()

    async def drain(self) -> None:
        self.bell.clear()
        self.drains += 1
        await self.stage.env.sleep(1)
        if self.error is not None:
            raise self.error

    async def serve(self) -> None:
        try:
            await self.stage.env.sleep(1)
            if self.error is not None:
                raise self.error
            await self.stage.env.sleep(1000)
        finally:
            await self.stage.env.sleep(2)  # an orderly stop takes its time
            self.told.append("ended")


@pytest.mark.parametrize("word", ["drain", "serve"])
async def test_the_error_of_one_ends_both_and_is_what_the_caller_hears(
    duly_world: Stage, word: str
) -> None:
    """H3: the other one is stopped in order before anybody hears of it."""
    good, bad = Part(duly_world), Part(duly_world, FULL)
    work = HostWork(duly_world.env, good, bad)
    with pytest.raises(StoreUnavailable):
        await getattr(work, word)()
    assert word == "drain" or good.told == ["ended"]


async def test_cancelling_twice_does_not_cut_the_stop_short(duly_world: Stage) -> None:
    """R7: a caller that is cancelled again waits for the end all the same."""
    parts = Part(duly_world), Part(duly_world)
    serving = asyncio.ensure_future(HostWork(duly_world.env, *parts).serve())
    await duly_world.advance(0.5)
    serving.cancel()
    await duly_world.advance(1)
    serving.cancel()
    await asyncio.wait([serving])
    assert serving.cancelled()
    assert [part.told for part in parts] == [["ended"], ["ended"]]


async def test_a_part_that_is_rung_while_the_other_works_is_drained_again(
    duly_world: Stage,
) -> None:
    """B13: a drain ends when neither has anything due."""
    first, second = Part(duly_world), Part(duly_world)
    rings = 3

    async def drain_and_ring() -> None:
        nonlocal rings
        await Part.drain(second)
        if rings:
            rings -= 1
            first.bell.set()
            await duly_world.env.sleep(1)
            second.bell.set()

    second.drain = drain_and_ring  # type: ignore[method-assign]
    await HostWork(duly_world.env, first, second).drain()
    assert (first.drains, second.drains) == (4, 4)
    assert first.is_rung is second.is_rung is False
