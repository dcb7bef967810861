"""Closing a host whose open run no task is at."""

from __future__ import annotations

from duly.testing import Fault, Stage
from tests.engine.stand import NAME, flow, opened, plan


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
