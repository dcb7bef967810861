"""Workers come by need: places, who keeps one, and who gives it up."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from duly.sandbox import pool as pool_module
from duly.sandbox import slot
from duly.sandbox.base import Asked, Returned, Turn
from duly.sandbox.slot import LOOKS_INSIDE, LOOKS_OUTSIDE, RUNNING_MAX, ScriptPlace, Slots
from tests.sandbox.test_pool import Stand, standing

ASK = "return await ctx.a.b()"
FAST = 60
SLOW = 5 * RUNNING_MAX


async def ask(stand: Stand, number: int) -> Turn:
    """Run a script with one call that the host answers at once."""
    async with await stand.script(f"return [{number}, await ctx.a.b()]") as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        await asyncio.sleep(0)
        return await script.answer(turn.calls[0].id, number)


async def test_a_crowd_starts_no_more_workers_than_may_run_at_once() -> None:
    """X2: calls that are answered at once keep their places, so no further process is started."""
    async with standing() as stand:
        ended = await asyncio.gather(*(ask(stand, number) for number in range(FAST)))
        assert ended == [Returned([number, number]) for number in range(FAST)]
        assert len(stand.pool.pids) <= RUNNING_MAX


async def test_calls_that_never_end_keep_no_other_script_from_running() -> None:
    """X2, F6: each has its worker for as long as its call lasts; a script that comes later too."""
    async with (
        standing(workers_max=SLOW + 1) as stand,
        AsyncExitStack() as stack,
        asyncio.timeout(60),
    ):
        for _ in range(SLOW):
            script = await stack.enter_async_context(await stand.script(ASK))
            assert isinstance(await script.start(), Asked)
            stack.enter_context(script.waiting_outside())
        for number in range(3):
            assert await ask(stand, number) == Returned([number, number])
        assert len(stand.pool.pids) == SLOW + 1


async def test_scripts_that_compute_keep_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """X2: also those that wait for their turn to run; no process is started beside them."""
    monkeypatch.setattr(slot, "LOOKS_INSIDE", 0)
    async with standing(running=Slots(1)) as stand, AsyncExitStack() as stack:
        late = await stand.script(ASK)
        scripts = [await stand.script("for (;;);") for _ in range(RUNNING_MAX)]
        for script in scripts:
            await stack.enter_async_context(script)
        running = [asyncio.ensure_future(script.start()) for script in scripts]
        entering = asyncio.ensure_future(late.__aenter__())
        await asyncio.sleep(20 * pool_module.LOOK_S)
        assert not entering.done()
        assert len(stand.pool.pids) == RUNNING_MAX
        for each in (*running, entering):
            each.cancel()
        await asyncio.gather(*running, entering, return_exceptions=True)


async def test_at_most_so_many_workers_wait_outside() -> None:
    """X2: past `workers_max` a script waits to begin, until a call has ended."""
    async with standing(workers_max=2) as stand, AsyncExitStack() as stack:
        scripts = [await stand.script(ASK) for _ in range(2)]
        for script in scripts:
            await stack.enter_async_context(script)
            assert isinstance(await script.start(), Asked)
            stack.enter_context(script.waiting_outside())
        later = asyncio.ensure_future(ask(stand, 7))
        await asyncio.sleep(20 * pool_module.LOOK_S)
        assert not later.done()
        assert len(stand.pool.pids) == 2
        await scripts[0].__aexit__(None, None, None)
        assert await later == Returned([7, 7])


async def test_a_script_without_a_place_goes_on_and_gives_back_nothing_twice() -> None:
    """X2: it lost its place while it waited, and keeps its worker; no place is lost or made."""
    async with standing() as stand:
        async with AsyncExitStack() as stack:
            scripts = [await stand.script(ASK) for _ in range(RUNNING_MAX + 1)]
            for script in scripts:
                await stack.enter_async_context(script)
                assert isinstance(await script.start(), Asked)
                stack.enter_context(script.waiting_outside())
            for script in scripts:
                assert await script.answer(1, None) == Returned(None)
        assert stand.pool._places.free == RUNNING_MAX


async def test_no_timer_is_set_while_no_script_waits_for_a_place() -> None:
    """S9: a script that waits for an hour costs the host nothing."""
    async with standing() as stand, AsyncExitStack() as stack:
        for _ in range(RUNNING_MAX):
            script = await stack.enter_async_context(await stand.script(ASK))
            assert isinstance(await script.start(), Asked)
            stack.enter_context(script.waiting_outside())
        assert stand.pool._looking is None
        assert await ask(stand, 7) == Returned([7, 7])
        await asyncio.sleep(5 * pool_module.LOOK_S)
        assert stand.pool._looking is None


async def test_a_cancelled_wait_for_a_place_loses_none() -> None:
    """X2: also if it was granted in the same moment."""
    async with standing() as stand:
        async with AsyncExitStack() as stack:
            for _ in range(RUNNING_MAX):
                await stack.enter_async_context(await stand.script(ASK))
            entering = asyncio.ensure_future(stand.pool.take("late"))
            await asyncio.sleep(0)
            entering.cancel()
        assert stand.pool._places.free == RUNNING_MAX


def looks_until_spare(place: ScriptPlace) -> int:
    count = 1
    while not place.look():
        count += 1
    return count


def test_who_waits_outside_gives_its_place_up_soon_and_who_waits_for_the_host_late() -> None:
    """X2: another process does not make a busy host faster."""
    assert looks_until_spare(ScriptPlace("w")) == LOOKS_INSIDE + 1
    place = ScriptPlace("w")
    with place.waiting_outside(), place.waiting_outside():
        assert looks_until_spare(place) == LOOKS_OUTSIDE + 1
    assert not place.look()


def test_each_call_outside_is_waited_for_anew() -> None:
    """X2: fast calls one after the other are no slow call."""
    place = ScriptPlace("w")
    for _ in range(LOOKS_INSIDE):
        with place.waiting_outside():
            assert not any(place.look() for _ in range(LOOKS_OUTSIDE))


def test_who_runs_keeps_its_place() -> None:
    """X2: however long it takes, and also while it waits for a slot to run."""
    place = ScriptPlace("w", is_still=False)
    with place.waiting_outside():
        assert not any(place.look() for _ in range(2 * LOOKS_INSIDE))
