"""A change whose success the store could not keep, at an outside that shows it late."""

from __future__ import annotations

from typing import Any

from duly.errors import StoreUnavailable
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
