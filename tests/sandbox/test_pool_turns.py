"""Tasks that wait for a worker, a place or a thread, and what becomes of them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack

import pytest

from duly.env import Loop
from duly.errors import DulyError
from duly.sandbox import wire
from duly.sandbox.base import Asked, Broke, Returned
from duly.sandbox.pool import STARTING_MAX, Pool, Worker
from duly.sandbox.slot import RUNNING_MAX, Slots
from tests.sandbox.test_pool import standing


async def test_a_script_that_waits_for_a_place_learns_that_the_pool_was_closed() -> None:
    """H1: it does not wait for the calls of the scripts that have a place."""
    async with standing() as stand, AsyncExitStack() as stack:
        late, *others = [
            await stand.script("return await ctx.a.b()") for _ in range(RUNNING_MAX + 1)
        ]
        for script in others:
            assert isinstance(await (await stack.enter_async_context(script)).start(), Asked)
        entering = asyncio.ensure_future(late.__aenter__())
        await asyncio.sleep(0)
        await stand.pool.close()
        async with asyncio.timeout(60):
            with pytest.raises(DulyError, match="closed"):
                await entering
        async with asyncio.timeout(60):
            with pytest.raises(DulyError, match="closed"):
                await late.__aenter__()


async def test_a_task_that_is_cancelled_while_slots_close_gives_none_back() -> None:
    """H1: it never had one."""
    slots = Slots(1)
    await slots.take("first")
    waiting = asyncio.ensure_future(slots.take("second"))
    await asyncio.sleep(0)
    slots.close()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert slots.free == 0


class SlowToStart(Worker):
    """A worker that says for a while nothing after its start, from the second one on."""

    started = 0

    async def ready(self) -> wire.Ready:
        SlowToStart.started += 1
        if SlowToStart.started > 1:
            await asyncio.sleep(4)
        return await super().ready()


async def test_a_script_gets_an_idle_worker_while_others_are_slow_to_start() -> None:
    """X2: it waits for its turn to start one, and takes the one that became idle meanwhile."""
    SlowToStart.started = 0
    pool = Pool(Loop(), worker=SlowToStart)
    try:
        first = await pool.take("first")
        names = [str(number) for number in range(STARTING_MAX + 1)]
        taking = [asyncio.ensure_future(pool.take(name)) for name in names]
        await asyncio.sleep(0.1)
        assert SlowToStart.started == 1 + STARTING_MAX
        await pool.give_back(first)
        async with asyncio.timeout(2):
            assert await taking[-1] is first
        for worker in await asyncio.gather(*taking):
            await pool.give_back(worker)
        assert SlowToStart.started == 1 + STARTING_MAX
    finally:
        await pool.close()


async def test_a_script_starts_a_worker_when_one_fewer_starts() -> None:
    """X2: it waits for that, and not for one to become idle."""
    pool = Pool(Loop())
    try:
        async with asyncio.timeout(30):
            names = [str(number) for number in range(STARTING_MAX + 1)]
            workers = await asyncio.gather(*(pool.take(name) for name in names))
        for worker in workers:
            await pool.give_back(worker)
    finally:
        await pool.close()


async def test_a_script_that_waits_to_start_a_worker_learns_that_the_pool_was_closed() -> None:
    """H1: it does not wait for the workers that are slow to start."""
    SlowToStart.started = 1
    pool = Pool(Loop(), worker=SlowToStart)
    taking = [asyncio.ensure_future(pool.take(str(each))) for each in range(STARTING_MAX + 1)]
    await asyncio.sleep(0.1)
    async with asyncio.timeout(2):
        await pool.close()
        with pytest.raises(DulyError, match="closed"):
            await taking[-1]
    await asyncio.gather(*taking, return_exceptions=True)


async def test_to_close_a_pool_does_not_stop_the_loop_while_something_is_read_beside_it() -> None:
    """X2, H1: what runs in a thread is waited for outside of the loop."""
    pool = Pool(Loop())
    goes_on, began = threading.Event(), threading.Event()

    def read() -> bool:
        began.set()
        return goes_on.wait(2)

    reading = asyncio.ensure_future(pool.apart(read))
    await asyncio.to_thread(began.wait)
    asyncio.get_running_loop().call_later(0.1, goes_on.set)
    await pool.close()
    assert await reading  # else the loop did not turn for two seconds


async def test_a_script_that_was_left_before_its_turn_says_nothing_to_its_old_worker() -> None:
    """C1, C3: its slot comes when it is gone, and another script has the worker by then."""
    running = Slots(1)
    async with standing(running=running, workers_max=1) as stand:
        left, other = await stand.script("return 'left'"), await stand.script("return 'other'")
        await running.take("another")
        async with left:
            waiting = asyncio.ensure_future(left.start())
            await asyncio.sleep(0)
        async with other:
            running.give_back()
            turn = await waiting
            assert isinstance(turn, Broke)
            assert turn.is_lost
            assert await other.start() == Returned("other")
