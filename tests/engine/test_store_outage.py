"""A store that fails for a while, or for good (H3, L6, R7)."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest

from duly.engine import scheduler
from duly.errors import StoreUnavailable
from duly.store import due
from duly.testing import Fault, Stage
from tests.engine.stand import Play, flow, opened, plan


def failing(play: Play, verb: str, times: int = 1) -> None:
    """Let a verb of the store fail so many times, nothing written."""
    works, left = getattr(play.store, verb), [times]

    async def call(*args: Any, **named: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise StoreUnavailable("disk full; nothing was written")
        return await works(*args, **named)

    object.__setattr__(play.store, verb, call)


@pytest.mark.parametrize("verb", ["prepare_run", "list_grants", "send", "commit_run", "peek"])
async def test_a_store_that_fails_for_a_while_is_no_crash(duly_world: Stage, verb: str) -> None:
    """H3, R7: the host goes on by itself when the fault is over; nobody is called."""
    play = await opened(duly_world, lag_s=1)
    await play.deploy(flow())
    await play.publish("a")
    failing(play, verb, times=5)
    async with play.host.running():
        await duly_world.advance(600)
    assert (duly_world.count(), await play.is_clean()) == (1, True)  # was crashed, escalated
    assert all(run.counts.crash == 0 for run in await play.runs())


async def test_serve_begins_while_the_store_cannot_be_read(duly_world: Stage) -> None:
    """H3: a fault at the very beginning does not end serving."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    failing(play, "list_strays")
    async with play.host.running():
        await duly_world.advance(60)
    assert duly_world.count() == 1


# A change whose success the store could not keep, at an outside that shows it late.


async def test_a_change_the_store_was_not_told_of_is_not_made_again(duly_world: Stage) -> None:
    """L6: "not there" is believed only a lag after the send ended, also if `applied` was lost."""
    play = await opened(duly_world, lag_s=60)
    await play.deploy(flow())
    await duly_world.advance(3600)  # the host is older than the lag
    plan(duly_world, reconcile=(Fault.NOT_YET_VISIBLE,))
    failing(play, "record")
    await play.publish("a")
    await play.drain()
    for _ in range(20):
        await play.pass_by(30)
    assert duly_world.count() == 1  # was 2
    assert await play.is_clean()


# A failed sync, after which the store must be opened again.


async def test_serving_ends_with_the_store_it_served(duly_world: Stage) -> None:
    """H3: the program that serves is told that this host can do nothing any more."""
    play = await opened(duly_world)
    await play.deploy(flow())
    serving = asyncio.ensure_future(play.host.serve())
    await duly_world.advance(1)
    backend: Any = play.store.backend
    writer = getattr(backend, "_writer", backend)
    writer._break(OSError("sync failed"), [])  # what a failed sync does (decision 010)
    play.desk.engine.wake()
    await duly_world.advance(60)
    assert serving.done()  # was pending for ever
    with pytest.raises(StoreUnavailable, match="Open it again"):
        await serving


async def test_a_store_that_fails_while_a_run_is_unblocked_is_no_crash(duly_world: Stage) -> None:
    """H3, R7: also where the run goes on because its connection is back."""
    play = await opened(duly_world, lag_s=1)
    plan(duly_world, Fault.AUTH)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert await play.host.reconnect("sheet") == 1
    failing(play, "commit_run")
    async with play.host.running():
        await duly_world.advance(600)
    assert (duly_world.count(), await play.is_clean()) == (1, True)
    assert all(run.counts.crash == 0 for run in await play.runs())  # was counted


async def test_a_store_that_fails_after_asking_is_no_crash(duly_world: Stage) -> None:
    """H3, R7: also where the run goes on because its call turned out to be applied."""
    play = await opened(duly_world, lag_s=1)
    plan(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,))
    await play.deploy(flow())
    await play.publish("a")
    failing(play, "commit_run")
    async with play.host.running():
        await duly_world.advance(600)
    assert (duly_world.count(), await play.is_clean()) == (1, True)
    assert all(run.counts.crash == 0 for run in await play.runs())  # was counted


# More is due than one look names.


async def test_a_store_that_takes_no_writes_is_left_alone_however_much_is_due(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3, S9: a turn that failed is no reason to look for more; that comes after the rest."""
    for module in (scheduler, due):
        monkeypatch.setattr(module, "DUE_LIMIT_MAX", 2)
    play = await opened(duly_world)
    names = [f"flow-{number}" for number in range(3)]
    for name in names:
        await play.deploy(flow(name=name))
        await play.publish("a", name=name)
    failing(play, "take_turn", times=6)
    async with play.host.running():
        await duly_world.advance(5)
        assert duly_world.count() == 0  # was tried again at once, without an end
        await duly_world.advance(60)
    assert [await play.statuses(name=name) for name in names] == [{"a": "consumed"}] * len(names)


async def test_more_than_one_look_names_is_looked_for_again_by_itself(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S9, H2: nothing could be done in what was named; the next look comes without a wake."""
    for module in (scheduler, due):
        monkeypatch.setattr(module, "DUE_LIMIT_MAX", 2)
    play = await opened(duly_world)
    for number in range(3):
        await play.deploy(flow(name=f"flow-{number}"))
        await play.publish("a", name=f"flow-{number}")
    claims = play.desk.engine._worker.claims
    with monkeypatch.context() as held:
        held.setattr(claims, "take", AsyncMock(return_value=None))  # another host has them
        serving = asyncio.ensure_future(play.host.serve())
        await duly_world.advance(5)
    await duly_world.advance(10)
    assert duly_world.count() == 3
    serving.cancel()
    await asyncio.wait([serving])
