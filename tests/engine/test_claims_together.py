"""Workflows that are due together are claimed together: a start costs no sync for each (S1, S9)."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from duly.testing import Stage
from tests.engine.stand import CONSUMER, consumer, flow, opened

MANY = 20


async def test_twenty_due_workflows_are_not_claimed_one_after_the_other(duly_world: Stage) -> None:
    """S1: workflows run side by side; claims that wait for one disk share its sync."""
    play = await opened(duly_world)
    for number in range(MANY):
        name = f"flow-{number}"
        await play.deploy(flow({CONSUMER: consumer()}, name=name))
        await play.publish("a", name=name)
    claim = play.store.claim
    at_once, most = 0, 0

    async def counted(*args: Any, **named: Any) -> Any:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            await asyncio.sleep(1)  # a disk that takes a second for a sync
            return await claim(*args, **named)
        finally:
            at_once -= 1

    object.__setattr__(play.store, "claim", counted)
    began = duly_world.loop.time()
    await play.drain()
    assert duly_world.loop.time() - began < MANY / 2, (most, duly_world.loop.time() - began)


async def test_a_host_whose_row_is_gone_joins_once_for_all_that_it_claims(
    duly_world: Stage,
) -> None:
    """H6: each claim finds that out by itself; none removes the host that another one joined as."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.drain()
    claim, number = play.store.claim, count()

    async def one_after_the_other(*args: Any, **named: Any) -> Any:
        answered_in_s = next(number)
        try:
            return await claim(*args, **named)
        finally:
            await asyncio.sleep(answered_in_s)

    object.__setattr__(play.store, "claim", one_after_the_other)
    play.tamper("delete from host")
    names = [f"flow-{number}" for number in range(3)]
    for name in names:
        await play.deploy(flow(name=name))
        await play.publish("a", name=name)
    await play.drain()
    assert [await play.statuses(name=name) for name in names] == [{"a": "consumed"}] * len(names)
    (host,) = await play.store.list_hosts()
    assert host.workflows == len(names)
