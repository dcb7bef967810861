"""A crash is counted when a host has died, not when the store could not be read once (R7, H3)."""

from __future__ import annotations

from duly.rules.word import Status
from duly.testing import Fault, Stage
from tests.engine.stand import NAME, flow, opened, plan
from tests.engine.test_store_outage import failing


async def test_a_run_that_waits_for_resume_is_not_counted_as_crashed(duly_world: Stage) -> None:
    """R7, F7: it was settled while its workflow was paused; one look failed meanwhile."""
    play = await opened(duly_world, lag_s=1)
    await play.deploy(flow())
    plan(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,))
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance(1)
        assert (await play.run()).status == Status.PAUSED_RECONCILIATION
        await play.host.pause(NAME)
        await duly_world.advance(30)  # asking goes on, and it happened
        assert (await play.run()).status == Status.ACTIVE
        failing(play, "take_turn")
        await play.publish("b")
        await duly_world.advance(30)
        await play.host.resume(NAME)
        await duly_world.advance(30)
    assert await play.statuses() == {"a": "consumed", "b": "consumed"}
    assert all(run.crash_count == 0 for run in await play.runs())
