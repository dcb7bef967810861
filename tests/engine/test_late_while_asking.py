"""A late yes that comes while the host asks is no crash: no host has died (R7, L1)."""

from __future__ import annotations

import asyncio

from duly.connectors.base import Applied, Call, NotApplied, Unsure, mutation
from duly.rules.word import Status
from duly.testing import Stage
from tests.engine.slow import DONE, LAG_S, TIMEOUT_S, UNKNOWN, Slow, found, hanging


class Thoughtful(Slow):
    """Its second answer to a question takes as long as the test says."""

    name = "slow"

    def __init__(self) -> None:
        super().__init__(Unsure("?"))
        self.think = asyncio.Event()

    @mutation(timeout_s=TIMEOUT_S, lag_s=LAG_S)
    async def change(self, call: Call) -> str:
        return await self._change()

    @change.reconcile
    async def change_happened(self, call: Call) -> Applied | NotApplied | Unsure:
        self.asks.append(asyncio.get_running_loop().time())
        if len(self.asks) > 1:
            await self.think.wait()
        return Unsure("?")


async def test_a_late_yes_while_the_host_asks_counts_no_crash(duly_world: Stage) -> None:
    """R7: a crash is counted when a host has died, and here none has."""
    slow = Thoughtful()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance(TIMEOUT_S + 5)
        assert await found(play) == UNKNOWN
        await duly_world.advance(15)  # it asks again, and waits for the answer
        assert len(slow.asks) == 2
        await slow.end()  # the send itself returns: it was made
        await duly_world.advance(1)
        slow.think.set()  # and now asking says that it does not know
        await duly_world.advance(60)
    assert await found(play) == DONE
    assert slow.made == 1
    assert [run.crash_count for run in await play.runs()] == [0] * len(await play.runs())


async def test_a_late_yes_after_two_crashes_does_not_stop_the_workflow(duly_world: Stage) -> None:
    """R7, L1: the change was made and is known; its run goes on to `next` by itself."""
    slow = Thoughtful()
    play = await hanging(duly_world, slow)
    for _ in range(2):
        await play.crash_during(prepare_run="before")
    async with play.host.running():
        await duly_world.advance(TIMEOUT_S + 5)
        assert await found(play) == UNKNOWN
        await duly_world.advance(15)
        assert len(slow.asks) == 2
        await slow.end()
        await duly_world.advance(1)
        slow.think.set()
        await duly_world.advance("1h")
    run = await play.run()
    assert (run.status, run.escalated) == (Status.COMMITTED, None)
