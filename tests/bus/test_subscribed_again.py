"""A handler that comes back while its old backlog is being closed hears of later commits (B13)."""

from __future__ import annotations

import asyncio

from duly.config import BusSettings
from duly.testing import Stage
from tests.bus.stand import listen
from tests.engine.stand import CONSUMER, consumer, flow, opened

COMMITTED = "run.committed"
BACKLOG = 60


async def test_a_handler_that_subscribes_again_hears_of_the_next_commit(duly_world: Stage) -> None:
    """B13: the run is asked for after `subscribe` has returned, so its commit is a later event."""
    play = await opened(duly_world)
    play.options["bus"] = BusSettings(batch=1)
    await play.deploy(flow({CONSUMER: consumer(mutate=None, then=None)}))
    listen(play.host, COMMITTED, subscriber_id="s")
    await play.drain()
    await play.restart()  # now it is not connected, and what it is to hear waits
    await play.publish(*(f"{number}" for number in range(BACKLOG)))
    await play.drain()
    async with play.host.running():
        await duly_world.advance(1)
        leaving = asyncio.ensure_future(play.host.bus.unsubscribe("s"))
        for _ in range(20):
            await asyncio.sleep(0)
        leaving.cancel()  # its caller went away; the rest is closed in turns
        await asyncio.wait([leaving])
        before = len(await play.runs())
        ear = listen(play.host, COMMITTED, subscriber_id="s")
        await play.publish("later")
        await duly_world.advance(60)
    assert (await play.statuses())["later"] == "consumed"
    assert len(ear.events) == len(await play.runs()) - before
