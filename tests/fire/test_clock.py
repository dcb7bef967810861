"""Clocks that are set by a day while a host runs: nothing twice, nothing early, nothing stuck.

The wall clock decides when something is due; how long a call may still land is measured by a clock
that nobody sets (L6). Virtual time: a jump sets the wall clock and wakes nobody.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from duly.sandbox.play import Call, Return
from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    IN,
    PRODUCER,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
    timed,
)

MINUTE_S: Final = 60
HOUR_S: Final = 3600
DAY_S: Final = 86_400
DAY_MS: Final = DAY_S * 1000
JUMPS: Final = {"a day ahead": DAY_MS, "a day back": -DAY_MS}
either_way = pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS.keys())
# After a day back everything that waits may wait a day longer, and not much more.
LONGEST_S: Final = DAY_S + 2 * HOUR_S


async def test_a_no_is_as_old_as_its_question(duly_world: Stage) -> None:
    """L6, L5: asked before the lag was over and answered after it, it says nothing of between."""
    play = await opened(duly_world, lag_s=20)
    await play.deploy(flow())
    plan(duly_world, Fault.LATE(10), reconcile=(Fault.SLOW(25),))
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(HOUR_S)
    assert duly_world.count(TOOL) == 1
    assert await play.statuses() == {"a": "consumed"}


async def test_a_later_no_is_as_old_as_its_question(duly_world: Stage) -> None:
    """L6, L5: the same of a question that is asked in the background."""
    play = await opened(duly_world, lag_s=20)
    await play.deploy(flow())
    plan(duly_world, Fault.LATE(19), reconcile=(Fault.UNSURE, Fault.SLOW(25)))
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(HOUR_S)
    assert duly_world.count(TOOL) == 1
    assert await play.statuses() == {"a": "consumed"}
