"""An orderly stop while an approved call is being written down: it is sent, once (A4, R7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.config import Policy
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Status
from duly.testing import Fault, Stage
from tests.engine.stand import Play, flow, opened, plan

SYNC_S = 5


def slow(play: Play, verb: str) -> None:
    """Let a verb be committed at once, and its caller wait for the disk."""
    works = getattr(play.store, verb)

    async def call(*args: Any, **named: Any) -> Any:
        answer = await works(*args, **named)
        await asyncio.sleep(SYNC_S)
        return answer

    object.__setattr__(play.store, verb, call)


async def stop_within(play: Play, serving: asyncio.Future[None]) -> None:
    await play.stage.advance(1)
    serving.cancel()
    await asyncio.wait([serving])


@pytest.mark.parametrize("can_be_asked", [True, False])
async def test_a_stop_while_an_approved_call_is_written_leaves_no_unknown_call(
    duly_world: Stage, can_be_asked: bool
) -> None:
    """A4, R7: the stop waits for it, or the next start sends it; no person is asked again."""
    policy = Policy(approvals={"*": "always"})
    play = await opened(duly_world, policy=policy, lag_s=1, reconcile=can_be_asked)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    row = await play.row()
    slow(play, "send_approved")
    serving = asyncio.ensure_future(play.host.serve())
    await play.host.approve(row.id, seen=row.hash)
    await stop_within(play, serving)
    async with play.host.running():
        await duly_world.advance(600)
    found = await play.row()
    assert (duly_world.count(), found.id, found.status) == (1, row.id, Row.APPLIED)


@pytest.mark.parametrize("can_be_asked", [True, False])
async def test_a_stop_while_a_call_goes_on_after_a_sign_in_leaves_no_unknown_call(
    duly_world: Stage, can_be_asked: bool
) -> None:
    """F4, R7: the same for a call that is sent again after a definite no."""
    play = await opened(duly_world, lag_s=1, reconcile=can_be_asked)
    await play.deploy(flow())
    plan(duly_world, Fault.AUTH)
    await play.publish("a")
    await play.drain()
    row = await play.row()
    slow(play, "send_again")
    serving = asyncio.ensure_future(play.host.serve())
    await duly_world.advance(1)
    await play.host.reconnect("sheet")
    await stop_within(play, serving)
    async with play.host.running():
        await duly_world.advance(600)
    found, run = await play.row(), await play.run()
    assert (duly_world.count(), found.id, run.status) == (1, row.id, Status.COMMITTED)


async def test_a_stop_while_a_call_is_written_waits_for_it(duly_world: Stage) -> None:
    """R7: so it is for a call that needs no yes; this one holds."""
    play = await opened(duly_world, lag_s=1, reconcile=False)
    await play.deploy(flow())
    await play.publish("a")
    slow(play, "send")
    serving = asyncio.ensure_future(play.host.serve())
    await stop_within(play, serving)
    async with play.host.running():
        await duly_world.advance(600)
    assert (duly_world.count(), (await play.row()).status) == (1, Row.APPLIED)
