"""A burst of events for three subscribers, as fast as they go (B6, B14).

A commit sends two thousand; `TEST_EVERY_CASE=1` sends ten thousand.
"""

from __future__ import annotations

import asyncio
import os

from duly.testing import Stage
from tests.bus.stand import listen, say, store_of

EVENTS = 10_000 if os.environ.get("TEST_EVERY_CASE") else 2_000
SUBSCRIBERS = ("a", "b", "c")
BUNCH = 500


async def test_a_burst_of_events_reaches_three_subscribers_once_and_in_order(
    duly_world: Stage,
) -> None:
    """B4, B6: none twice, none lost, none out of turn, and no time passes."""
    host = await duly_world.host()
    ears = [listen(host, subscriber_id=name) for name in SUBSCRIBERS]
    for _ in range(EVENTS // BUNCH):
        await asyncio.gather(*(say(host) for _ in range(BUNCH)))
    start = duly_world.env.now_ms()
    await host.drain()
    for ear in ears:
        assert ear.ids == list(range(1, EVENTS + 1))
    assert duly_world.env.now_ms() - start < 100
    assert await host.bus.journal(status="pending") == ()
    found = await store_of(host).list_journal(status="done", limit=1)
    assert found[0].id == EVENTS
