"""A backlog that is being closed holds up no workflow when the host starts (B13, S1)."""

from __future__ import annotations

import asyncio
from typing import Any

from duly.config import BusSettings
from duly.testing import Stage
from tests.bus.stand import listen
from tests.engine.stand import CONSUMER, consumer, flow, opened

COMMITTED = "run.committed"
BACKLOG = 60


async def test_a_start_does_not_wait_until_an_old_backlog_is_closed(duly_world: Stage) -> None:
    """B13: unsubscribing a backlog goes in turns and holds up no other work, also at a start."""
    play = await opened(duly_world)
    play.options["bus"] = BusSettings(batch=1)
    await play.deploy(flow({CONSUMER: consumer(mutate=None, then=None)}))
    listen(play.host, COMMITTED, subscriber_id="s")
    await play.drain()
    await play.restart()
    await play.publish(*(f"{number}" for number in range(BACKLOG)))
    await play.drain()
    leaving = asyncio.ensure_future(play.host.bus.unsubscribe("s"))
    for _ in range(20):
        await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    await play.restart()
    close_left = play.store.close_left

    async def slow(*args: Any, **named: Any) -> Any:
        await asyncio.sleep(1)  # a turn of a large backlog
        return await close_left(*args, **named)

    object.__setattr__(play.store, "close_left", slow)
    listen(play.host, COMMITTED, subscriber_id="s")
    await play.publish("urgent")
    async with play.host.running():
        await duly_world.advance(10)
        assert (await play.statuses())["urgent"] == "consumed"
