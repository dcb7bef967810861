"""A caller that is cancelled twice, as anyio and an impatient person do."""

from __future__ import annotations

import asyncio

from duly.testing import Fault, Stage
from tests.engine.stand import flow, opened, plan


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
