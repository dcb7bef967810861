"""Closing a host whose open run no task is at."""

from __future__ import annotations

from duly.rules.word import Phase, Status
from duly.testing import Fault, Stage
from tests.engine.stand import NAME, flow, opened, plan
from tests.engine.test_found_store_trouble_counts_as_crashes import failing


async def test_a_run_that_waits_for_resume_is_laid_down_by_closing(duly_world: Stage) -> None:
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
    assert {run.status for run in runs} == {"failed:logic", "paused:transient", "committed"}
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
