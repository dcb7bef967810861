"""A Python script whose leaving is itself cancelled."""

from __future__ import annotations

import asyncio

import pytest

from duly.config import Limits
from duly.env import Loop
from duly.rules.access import Step
from duly.sandbox.base import MISSING, Broke, Returned
from duly.sandbox.python import PythonSandbox
from duly.sandbox.slot import Slots
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.contract import CATALOG, WORLD, Body
from tests.sandbox.test_pool import is_gone, wait_until

LIMITS = Limits(load_s=20, step_cpu_s=20, step_wall_s=40)
SPIN = Body(python="while True:\n    pass")
DONE = Body(python="return 1")


async def test_a_script_whose_leaving_is_cancelled_is_ended_all_the_same() -> None:
    """C3, X2: cancelled twice it runs on nowhere, and the next script has its worker's place."""
    sandbox = PythonSandbox(Loop(), LIMITS, names=NAMES, refuse=refuse_lacking, workers_max=1)
    spin = await sandbox.load(SPIN.source("python"), CATALOG)
    done = await sandbox.load(DONE.source("python"), CATALOG)
    script = sandbox.open(spin, "poll", Step.PRODUCE, (MISSING,), WORLD)

    async def run() -> None:
        async with script:
            await script.start()

    running = asyncio.ensure_future(run())
    while script._worker is None or script._worker.is_clean:  # noqa: ASYNC110
        await asyncio.sleep(0)
    pid = script._worker.pid
    for _ in range(3):  # the turn, then the leaving, then the leaving again
        running.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await running
    # Half of what the lost script may compute: its place is free long before.
    async with asyncio.timeout(LIMITS.step_cpu_s / 2):
        async with sandbox.open(done, "poll", Step.PRODUCE, (MISSING,), WORLD) as after:
            assert await after.start() == Returned(1)
    wait_until(lambda: is_gone(pid))
    await sandbox.close()


async def test_a_script_that_was_left_before_its_turn_says_nothing_to_a_worker() -> None:
    """C3, X2: its slot comes when it is gone; it begins nothing, and is lost to who still waits."""
    running = Slots(1)
    sandbox = PythonSandbox(Loop(), LIMITS, names=NAMES, refuse=refuse_lacking, running=running)
    loaded = await sandbox.load(DONE.source("python"), CATALOG)
    await running.take("another")
    script = sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD)
    async with script:
        worker = script._worker
        waiting = asyncio.ensure_future(script.start())
        await asyncio.sleep(0)
    running.give_back()
    turn = await waiting
    assert isinstance(turn, Broke)
    assert turn.is_lost
    assert worker is not None
    assert worker.is_clean
    assert running.free == 1
    await sandbox.close()
