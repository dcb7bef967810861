"""An orderly stop, a cancelled serve, and two hosts on one file (R7, H1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.errors import RequestRefused, StoreInUse
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Status
from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    NOTHING,
    PEEK_ONE,
    RESERVE,
    Play,
    consumer,
    flow,
    opened,
)
from verification.moves import Call, Return, When

READING = (
    PEEK_ONE,
    When("pending", (Call("sheet.find"), Return(RESERVE)), (Return(NOTHING),)),
)


async def busy(stage: Stage, tool: str, seconds: float, **options: Any) -> Play:
    """A workflow whose next run is busy outside for so long."""
    play = await opened(stage, **options)
    stage.plan(tool, Fault.SLOW(seconds))
    await play.deploy(flow({CONSUMER: consumer(READING)}))
    await play.drain()
    await play.publish("a")
    return play


async def test_a_stop_waits_for_a_call_that_is_out(duly_world: Stage) -> None:
    """R7: the call is recorded and its run comes to its commit."""
    play = await busy(duly_world, "sheet.append", 20)
    async with play.host.running():
        await duly_world.advance(5)
    assert duly_world.loop.time() == 20
    assert (await play.statuses(), await play.is_clean()) == ({"a": "consumed"}, True)


async def test_a_call_that_takes_too_long_is_found_at_the_next_start(duly_world: Stage) -> None:
    """R7, L3: after 30 s its run is followed, uncounted, and the outside is asked about it."""
    play = await busy(duly_world, "sheet.append", 100, timeout_s=200, lag_s=120)
    async with play.host.running():
        await duly_world.advance(5)
    assert duly_world.loop.time() == 35
    heir = await play.run()
    assert (heir.status, heir.crash_count) == (Status.PAUSED_RECONCILIATION, 0)
    assert ((await play.row()).status, (await play.row()).held_by) == (Row.NEEDS_RECONCILE, heir.id)
    await play.host.close()
    play.host = await duly_world.host(**play.options)
    async with play.host.running():
        await duly_world.advance("1h")
    assert (duly_world.count(), play.sends(), await play.is_clean()) == (1, 1, True)


async def test_a_stop_lays_down_a_run_that_is_before_its_call(duly_world: Stage) -> None:
    """R7: at once, uncounted, and the next start follows it without a wait."""
    play = await busy(duly_world, "sheet.find", 20)
    async with play.host.running():
        await duly_world.advance(5)
    assert duly_world.loop.time() == 5
    run = await play.run()
    assert run.status == Status.PAUSED_TRANSIENT
    assert (run.transient_count, run.crash_count, run.escalated) == (0, 0, None)
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_stopping_again_and_again_escalates_nothing(duly_world: Stage) -> None:
    """R7: orderly stops are no crashes and no failures."""
    play = await busy(duly_world, "sheet.find", 20)
    duly_world.plan("sheet.find", *[Fault.SLOW(20)] * 7)
    for _ in range(8):
        async with play.host.running():
            await duly_world.advance(5)
    run = await play.run()
    assert (run.transient_count, run.crash_count, run.escalated) == (0, 0, None)
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_closing_a_host_that_serves_stops_it_in_order(duly_world: Stage) -> None:
    """R7: close waits for the call; serve returns."""
    play = await busy(duly_world, "sheet.append", 20)
    serving = asyncio.ensure_future(play.host.serve())
    await duly_world.advance(5)
    await play.host.close()
    await serving
    play.host = await duly_world.host(**play.options)
    assert (await play.statuses(), await play.is_clean()) == ({"a": "consumed"}, True)


async def test_a_cancelled_serve_ends_cancelled_when_all_is_laid_down(duly_world: Stage) -> None:
    """R7: the caller's cancellation waits for the call that is out."""
    play = await busy(duly_world, "sheet.append", 20)
    serving = asyncio.ensure_future(play.host.serve())
    await duly_world.advance(5)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    await play.host.close()
    play.host = await duly_world.host(**play.options)
    assert (await play.statuses(), await play.is_clean()) == ({"a": "consumed"}, True)


async def test_a_stop_starts_nothing_new(duly_world: Stage) -> None:
    """R7: what became due while it waited is left for the next start."""
    play = await busy(duly_world, "sheet.append", 20)
    await play.publish("b")
    async with play.host.running():
        await duly_world.advance(5)
    assert await play.statuses() == {"a": "consumed", "b": "pending"}
    await play.drain()
    assert await play.statuses() == {"a": "consumed", "b": "consumed"}


async def test_a_host_is_drained_or_served_by_one_at_a_time(duly_world: Stage) -> None:
    """S1: a second drain is refused while the first goes on."""
    play = await busy(duly_world, "sheet.append", 20)
    async with play.host.running():
        await duly_world.advance(5)
        with pytest.raises(RequestRefused, match="one at a time"):
            await play.host.drain()


async def test_a_second_host_on_the_file_is_refused(duly_world: Stage) -> None:
    """H1: and the first one does not notice."""
    play = await opened(duly_world)
    with pytest.raises(StoreInUse):
        await duly_world.host(**play.options)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert duly_world.count() == 1
