"""A tool without lag whose send does not end."""

from __future__ import annotations

import asyncio

from duly.connectors.base import Call, Connector, NotApplied, mutation
from duly.testing import Stage
from tests.engine.stand import CONSUMER, consumer, flow, opened
from verification import moves


class Endless(Connector):
    """It takes a minute, whoever cancels it."""

    name = "slow"
    asks = 0

    @mutation(lag_s=0, timeout_s=5)
    async def change(self, call: Call) -> None:
        while asyncio.get_running_loop().time() < 60:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue

    @change.reconcile
    async def change_happened(self, call: Call) -> NotApplied:
        self.asks += 1
        return NotApplied()


async def test_a_send_that_hangs_is_not_asked_about_all_the_time(duly_world: Stage) -> None:
    """L6, S9: one that has not ended is asked about again after a while."""
    slow = Endless()
    play = await opened(duly_world, connectors=(slow,))
    await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("slow.change"),))}))
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(40)
    assert slow.asks < 10  # was 34,001
