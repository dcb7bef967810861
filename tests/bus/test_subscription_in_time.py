"""A handler that is connected before a commit hears of it (B13, B10)."""

from __future__ import annotations

import pytest

from duly.testing import Stage
from tests.bus.stand import listen
from tests.engine.stand import CONSUMER, consumer, flow, opened
from tests.engine.test_store_outage import failing

COMMITTED = "run.committed"


@pytest.mark.parametrize("times", [2])
async def test_a_store_that_fails_at_the_start_loses_no_announcement(
    duly_world: Stage, times: int
) -> None:
    """B13, H3: the record is written before the host's own work, or the work waits for it."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    ear = listen(play.host, COMMITTED)
    failing(play, "subscribe", times)
    async with play.host.running():
        await duly_world.advance(60)
    assert await play.statuses() == {"a": "consumed"}
    assert len(ear.events) == len(await play.runs())


async def test_a_handler_that_is_connected_before_a_run_starts_hears_of_its_commit(
    duly_world: Stage,
) -> None:
    """B13: later subscriptions get later events; this run starts after `subscribe` returned."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(mutate=None, then=None)}))
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(60)
        count = len(await play.runs())
        ear = listen(play.host, COMMITTED)
        await play.publish("b")
        await duly_world.advance(60)
    assert await play.statuses() == {"a": "consumed", "b": "consumed"}
    assert len(ear.events) == len(await play.runs()) - count
