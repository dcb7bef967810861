"""Processes that nobody needs end after a while; here in virtual time, with real processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from duly.sandbox.base import Returned
from duly.sandbox.pool import Pool
from duly.sandbox.python import PythonSandbox
from duly.sandbox.reaper import IDLE_S, Reaper
from duly.sandbox.slot import RUNNING_MAX
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from duly.testing.env import VirtualEnv
from duly.testing.loop import VirtualLoop
from tests.sandbox.contract import children
from tests.sandbox.python_stand import CATALOG, LIMITS, opened, source
from tests.sandbox.test_pool import has_ended, is_gone, wait_until

ALMOST_S = 0.001


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=VirtualLoop) as made:
        yield made


def virtual(runner: asyncio.Runner) -> tuple[VirtualLoop, VirtualEnv]:
    loop = runner.get_loop()
    assert isinstance(loop, VirtualLoop)
    return loop, VirtualEnv(loop)


def test_a_reaper_comes_again_while_somebody_is_left(runner: asyncio.Runner) -> None:
    """S9: and not once more; an idle host sets no timer."""
    loop, _ = virtual(runner)
    came: list[float] = []

    def reap() -> bool:
        came.append(loop.time())
        return len(came) < 3

    async def play() -> None:
        reaper = Reaper(60, reap)
        reaper.come_later()
        reaper.come_later()
        await asyncio.sleep(600)
        reaper.come_later()
        reaper.stay_away()
        await asyncio.sleep(600)

    runner.run(play())
    assert came == [60, 120, 180]


def test_a_javascript_worker_ends_after_a_minute_of_nothing(runner: asyncio.Runner) -> None:
    """S9: to the moment; one that was used meanwhile stays for its own minute."""
    loop, env = virtual(runner)

    async def play() -> None:
        pool = Pool(env)
        with loop.outstanding():
            idle, used = await pool.take(), await pool.take()
        await pool.give_back(idle)
        await asyncio.sleep(IDLE_S / 2)
        await pool.give_back(used)
        await asyncio.sleep(IDLE_S / 2 - ALMOST_S)
        assert set(pool.pids) == {idle.pid, used.pid}
        await asyncio.sleep(2 * ALMOST_S)
        assert set(pool.pids) == {used.pid}
        await asyncio.sleep(2 * IDLE_S)
        assert pool.pids == ()
        with loop.outstanding():
            await pool.close()
        assert is_gone(idle.pid)
        assert is_gone(used.pid)

    runner.run(play())


class Pythons:
    """A sandbox in virtual time, its script, and its processes."""

    def __init__(self, runner: asyncio.Runner, **options: Any) -> None:
        self.loop, env = virtual(runner)
        self.others = children()
        self.sandbox = PythonSandbox(
            env, LIMITS, names=NAMES, refuse=refuse_lacking, idle_s=IDLE_S, **options
        )

    async def load(self) -> None:
        with self.loop.outstanding():
            self.loaded = await self.sandbox.load(source("return 1"), CATALOG)

    async def run(self, count: int = 1) -> None:
        """Run so many scripts at once."""
        with self.loop.outstanding():
            async with AsyncExitStack() as stack:
                for _ in range(count):
                    script = await stack.enter_async_context(opened(self.sandbox, self.loaded))
                    assert await script.start() == Returned(1)

    def processes(self) -> set[int]:
        return {pid for pid in children() - self.others if not has_ended(pid)}


def test_python_workers_end_when_nobody_needed_them_for_a_while(runner: asyncio.Runner) -> None:
    """S9: after a minute of nothing, at the second look at the latest; the next gets a new one."""
    pythons = Pythons(runner)

    async def play() -> None:
        assert pythons.processes() == set()
        await pythons.load()
        await pythons.run()
        first = pythons.processes()
        assert len(first) == 1
        await asyncio.sleep(IDLE_S - ALMOST_S)
        assert pythons.processes() == first
        await asyncio.sleep(2 * IDLE_S)
        wait_until(lambda: not pythons.processes())
        await pythons.run()
        assert len(pythons.processes()) == 1
        with pythons.loop.outstanding():
            await pythons.sandbox.close()
        wait_until(lambda: not pythons.processes())

    runner.run(play())


def test_python_workers_that_only_a_crowd_needed_end_with_it(runner: asyncio.Runner) -> None:
    """S9: one workflow that runs every few seconds does not keep those of many."""
    pythons = Pythons(runner)

    async def play() -> None:
        await pythons.load()
        await pythons.run(RUNNING_MAX)
        assert len(pythons.processes()) == RUNNING_MAX
        for _ in range(8):
            await asyncio.sleep(IDLE_S / 2)
            await pythons.run()
        wait_until(lambda: len(pythons.processes()) <= 1)
        with pythons.loop.outstanding():
            await pythons.sandbox.close()

    runner.run(play())


def test_a_script_keeps_its_process_however_long_it_waits(runner: asyncio.Runner) -> None:
    """C1, S9: it waits for an answer for an hour, and finds all it had."""
    pythons = Pythons(runner)

    async def play() -> None:
        with pythons.loop.outstanding():
            asking = await pythons.sandbox.load(
                source("kept = [7]\nawait ctx.mail.send()\nreturn kept"), CATALOG
            )
        await pythons.load()
        await pythons.run(RUNNING_MAX)
        async with AsyncExitStack() as stack:
            with pythons.loop.outstanding():
                script = await stack.enter_async_context(opened(pythons.sandbox, asking))
                await script.start()
            assert script._worker is not None
            pid = script._worker.pid
            await asyncio.sleep(3600)
            wait_until(lambda: pythons.processes() == {pid})
            with pythons.loop.outstanding():
                assert await script.answer(0, None) == Returned([7])
        await pythons.run()
        with pythons.loop.outstanding():
            await pythons.sandbox.close()
        wait_until(lambda: not pythons.processes())

    runner.run(play())


def test_a_sandbox_that_was_never_used_has_no_process(runner: asyncio.Runner) -> None:
    """X2: nothing is started before the first script, not even a spare."""
    pythons = Pythons(runner)

    async def play() -> None:
        await asyncio.sleep(10 * IDLE_S)
        assert pythons.processes() == set()
        await pythons.sandbox.close()

    runner.run(play())
