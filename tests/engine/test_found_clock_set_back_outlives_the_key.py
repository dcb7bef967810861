"""A machine that starts with its clock days behind."""

from __future__ import annotations

from duly.testing import Fault, Stage
from tests.engine.stand import flow, opened, plan


async def test_a_clock_set_back_does_not_make_an_old_key_young(duly_world: Stage) -> None:
    """L7: three hours after a key of one hour nothing is sent again, whatever the clock says."""
    play = await opened(duly_world, idempotent=True, key_lifetime_s=3600, lag_s=60)
    await play.deploy(flow())
    plan(duly_world, Fault.AMBIGUOUS)
    await play.publish("a")
    await play.crash_during(send_again="before")
    await duly_world.advance(3 * 3600)
    duly_world.env.jump(-3 * 86_400_000)
    await play.drain()
    assert (play.sends(), play.asks()) == (1, 1)  # was (2, 0)
