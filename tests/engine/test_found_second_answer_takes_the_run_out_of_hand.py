"""Two people answer at the same moment."""

from __future__ import annotations

import asyncio

from duly.testing import Fault, Stage
from tests.engine.stand import flow, opened, plan


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
