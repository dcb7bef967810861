"""Virtual time: it moves when nobody can run, stands still for what is real, and never hangs."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.testing.loop import Stuck, VirtualLoop

DAY_S = 86_400


def test_a_day_passes_at_once_and_exactly(runner: asyncio.Runner, loop: VirtualLoop) -> None:
    runner.run(asyncio.sleep(DAY_S))
    assert (loop.time(), loop.elapsed_ms, loop.jumps) == (DAY_S, DAY_S * 1000, 1)


def test_timers_run_in_their_order_each_at_its_time(
    runner: asyncio.Runner, loop: VirtualLoop
) -> None:
    seen: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, loop.time()))

    async def all_of_them() -> None:
        await asyncio.gather(sleep("late", 3600), sleep("soon", 0.001), sleep("middle", 7.25))

    runner.run(all_of_them())
    assert seen == [("soon", 0.001), ("middle", 7.25), ("late", 3600)]


@given(st.lists(st.integers(min_value=0, max_value=10**9), max_size=20))
def test_sleeping_milliseconds_adds_up_to_them(waits_ms: list[int]) -> None:
    async def sleep() -> None:
        for wait_ms in waits_ms:
            await asyncio.sleep(wait_ms / 1000)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(sleep())
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        assert loop.elapsed_ms == sum(waits_ms)


def test_a_timer_is_reached_after_a_century(runner: asyncio.Runner, loop: VirtualLoop) -> None:
    runner.run(asyncio.sleep(100 * 365 * DAY_S))
    runner.run(asyncio.sleep(0.001))
    assert loop.elapsed_ms == 100 * 365 * DAY_S * 1000 + 1


def test_a_timeout_is_virtual(runner: asyncio.Runner, loop: VirtualLoop) -> None:
    async def wait() -> None:
        async with asyncio.timeout(30):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        runner.run(wait())
    assert loop.time() == 30


def test_time_stands_still_while_something_is_outstanding(
    runner: asyncio.Runner, loop: VirtualLoop
) -> None:
    """The timer of an hour would win at once if time did not wait for the thread."""

    async def wait() -> str:
        came = asyncio.Event()
        go = threading.Event()
        loop.call_soon(go.set)
        threading.Thread(target=lambda: go.wait() and loop.call_soon_threadsafe(came.set)).start()
        with loop.outstanding():
            async with asyncio.timeout(3600):
                await came.wait()
        return "came"

    assert runner.run(wait()) == "came"
    assert (loop.time(), loop.busy) == (0, 0)


@pytest.mark.parametrize("has_pool", [False, True])
def test_a_thread_of_the_loop_is_outstanding(
    runner: asyncio.Runner, loop: VirtualLoop, has_pool: bool
) -> None:
    async def wait() -> bool:
        with ThreadPoolExecutor(1) as pool:
            async with asyncio.timeout(1):
                chosen = pool if has_pool else None
                return await loop.run_in_executor(chosen, threading.Event().wait, 0.05)

    assert runner.run(wait()) is False
    assert (loop.time(), loop.busy) == (0, 0)


def test_who_waits_for_nothing_is_named_instead_of_waiting(runner: asyncio.Runner) -> None:
    async def wait() -> None:
        asyncio.current_task().set_name("the waiter")  # type: ignore[union-attr]
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="waits for something that never comes: the waiter"):
        runner.run(wait())


def test_what_never_comes_back_is_said(
    runner: asyncio.Runner, loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.testing.loop.OUTSTANDING_MAX_S", 0)

    async def wait() -> None:
        with loop.outstanding():
            await asyncio.Event().wait()

    with pytest.raises(Stuck, match="never came back"):
        runner.run(wait())


def test_resting_lets_everybody_run_and_no_time_pass(
    runner: asyncio.Runner, loop: VirtualLoop
) -> None:
    seen: list[str] = []

    async def work() -> None:
        for _ in range(1000):
            await asyncio.sleep(0)
        seen.append("done")
        await asyncio.sleep(5)
        seen.append("later")

    async def rest() -> list[str]:
        task = asyncio.create_task(work())
        await loop.rest()
        before = list(seen)
        await task
        return before

    assert runner.run(rest()) == ["done"]
    assert (seen, loop.jumps) == (["done", "later"], 1)


def test_two_who_rest_wake_one_after_the_other(runner: asyncio.Runner, loop: VirtualLoop) -> None:
    async def rest() -> None:
        await asyncio.gather(loop.rest(), loop.rest())

    runner.run(rest())
    assert loop.jumps == 0
