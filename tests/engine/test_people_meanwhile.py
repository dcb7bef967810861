"""What people do at the same moment as the host, or as each other (F7, L10)."""

from __future__ import annotations

import asyncio

from duly.testing import Fault, Stage
from tests.engine.stand import NAME, flow, opened, plan


async def test_of_two_answers_at_once_one_wins_and_its_run_goes_on(duly_world: Stage) -> None:
    """L10, R4: the same run goes on; nothing has crashed."""
    play = await opened(duly_world, reconcile=False)
    plan(duly_world, Fault.AMBIGUOUS)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    row = await play.row()
    answers = (play.host.settle(row.id, "happened"), play.host.settle(row.id, "skip"))
    got = await asyncio.gather(*answers, return_exceptions=True)
    assert [each is None for each in got] == [True, False]
    await play.drain()
    assert {run.status for run in await play.runs()} == {"committed"}  # was crashed, too


# A pause while the outside is being asked.


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
