"""An orderly stop, a cancelled serve, and two hosts on one file (R7, H1)."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import apsw
import pytest

from duly.errors import RequestRefused, StoreInUse
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Phase, Status
from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    NAME,
    NOTHING,
    PEEK_ONE,
    RESERVE,
    Play,
    consumer,
    flow,
    opened,
    plan,
)
from tests.engine.test_store_outage import failing
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


async def test_a_host_that_is_closed_leaves(duly_world: Stage) -> None:
    """H2, H6: its row is there while it works and gone after an orderly close."""
    play = await busy(duly_world, "sheet.append", 1)
    await play.drain()
    file = duly_world.url.removeprefix("sqlite:///")
    found = []
    for _ in range(2):
        with closing(apsw.Connection(file, apsw.SQLITE_OPEN_READONLY)) as connection:
            found.append(connection.execute("select count(*) from host").fetchall())
        await play.host.close()
    assert found == [[(1,)], [(0,)]]


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


# Closing a host whose open run no task is at.


async def test_a_run_that_waits_for_resume_goes_on_after_a_stop(duly_world: Stage) -> None:
    """R7: an orderly stop counts no crash, also for a run that had not begun."""
    play = await opened(duly_world)
    await play.deploy(flow())
    plan(duly_world, Fault.REFUSE)
    await play.publish("a")
    await play.drain()
    await play.host.pause(NAME)
    await play.host.retry((await play.run()).id)
    await play.drain()
    await play.host.close()
    play.host = await duly_world.host(**play.options)
    await play.host.resume(NAME)
    await play.drain()
    runs = await play.runs()
    assert [run.status for run in sorted(runs, key=lambda run: run.id)] == [
        "failed:logic",
        "committed",
    ]
    assert all(run.counts.crash == 0 for run in runs)  # was crashed, crash 1


async def test_a_run_let_go_before_its_send_is_laid_down_by_closing(duly_world: Stage) -> None:
    """R7, H3: a full disk kept it from sending; the stop is stored, and no crash is counted."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    failing(play, "send", times=1)
    async with play.host.running():
        await duly_world.advance(1)
    assert (await play.run()).phase == Phase.PREPARED
    await play.host.close()
    play.host = await duly_world.host(**play.options)
    stopped = await play.run()
    assert (stopped.phase, stopped.status) == (Phase.MUTATING, Status.PAUSED_TRANSIENT)
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)
    assert all(run.counts.crash == 0 for run in await play.runs())


# A caller that is cancelled twice, as anyio and an impatient person do.


async def test_a_second_cancel_does_not_cut_short_a_call_that_is_out(duly_world: Stage) -> None:
    """R7: calls in flight are awaited, and closing waits for them."""
    play = await opened(duly_world, reconcile=False)
    plan(duly_world, Fault.SLOW(10))
    await play.deploy(flow())
    await play.publish("a")
    draining = asyncio.ensure_future(play.host.drain())
    await duly_world.advance(1)
    for _ in range(2):
        draining.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await asyncio.wait([draining])
    await play.host.close()
    play.host = await duly_world.host(**play.options)
    await play.drain()
    assert (await play.row()).status == "applied"  # was indeterminate
