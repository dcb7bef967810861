"""A pause while the outside is being asked."""

from __future__ import annotations

from duly.testing import Fault, Stage
from tests.engine.stand import NAME, flow, opened, plan


async def test_an_answer_that_comes_after_the_pause_waits_for_resume(duly_world: Stage) -> None:
    """F7: the answer is written, nothing follows from it before resume, and then the same run."""
    play = await opened(duly_world, lag_s=1)
    plan(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE, Fault.SLOW(5)))
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance(12)  # the second question is out
        await play.host.pause(NAME)
        await duly_world.advance(60)
        run = await play.run()
        assert ((await play.row()).status, run.status) == ("applied", "active")  # was committed
        await play.host.resume(NAME)
        await duly_world.advance(60)
        found = await play.store.get_run(run.id)
        assert found.status == "committed"
