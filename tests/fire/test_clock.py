"""Clocks that are set by a day while a host runs: nothing twice, nothing early, nothing stuck.

The wall clock decides when something is due; how long a call may still land is measured by a clock
that nobody sets (L6). Virtual time: a jump sets the wall clock and wakes nobody.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    PRODUCER,
    TOOL,
    consumer,
    flow,
    opened,
    plan,
    producer,
    timed,
)
from verification.moves import Call, Return

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


@either_way
async def test_the_lag_of_a_call_is_not_measured_by_the_wall_clock(
    duly_world: Stage, jump: int
) -> None:
    """L6: a day that passed only on the wall does not make a request land sooner."""
    play = await opened(duly_world, lag_s=60)
    await play.deploy(flow())
    plan(duly_world, Fault.LATE(50))
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(5)
        duly_world.env.jump(jump)
        await duly_world.advance(40)
        assert (duly_world.count(TOOL), play.sends()) == (0, 1)
        assert (await play.row()).status == "needs_reconcile"
        await duly_world.advance(LONGEST_S)
    assert (duly_world.count(TOOL), play.sends()) == (1, 1)
    assert await play.statuses() == {"a": "consumed"}


@either_way
async def test_a_question_is_asked_again_though_the_clock_was_set(
    duly_world: Stage, jump: int
) -> None:
    """L5: five questions at their times; a jump spares none of them and adds none."""
    play = await opened(duly_world)
    await play.deploy(flow())
    plan(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,) * 4)
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(5)
        duly_world.env.jump(jump)
        await duly_world.advance(LONGEST_S)
    assert (duly_world.count(TOOL), play.sends(), play.asks()) == (1, 1, 5)
    assert await play.statuses() == {"a": "consumed"}


@either_way
async def test_a_backoff_ends_though_the_clock_was_set(duly_world: Stage, jump: int) -> None:
    """F2: once, and not before its time unless the wall clock says that it has come."""
    play = await opened(duly_world)
    await play.deploy(flow())
    plan(duly_world, Fault.NOT_SENT)
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance(1)
        duly_world.env.jump(jump)
        await duly_world.advance(1)
        assert play.sends() == 1
        await duly_world.advance(LONGEST_S)
    assert (duly_world.count(TOOL), play.sends()) == (1, 2)
    assert await play.is_clean()


@either_way
async def test_an_interval_goes_on_at_its_own_beat(duly_world: Stage, jump: int) -> None:
    """S2: what a day ahead missed comes once; a day back, which is no wait of an hour, is none."""
    play = await opened(duly_world)
    poll = producer(Call("sheet.find"), every="1h")
    await play.deploy(flow(consumers={}, producers={PRODUCER: poll}))
    calls = timed(duly_world)
    async with play.host.running():
        await duly_world.advance(HOUR_S + MINUTE_S)
        assert calls.times("sheet.find") == [0, HOUR_S]
        duly_world.env.jump(jump)
        await duly_world.advance(LONGEST_S)
    later = calls.times("sheet.find")[2:]
    if jump > 0:
        assert HOUR_S + MINUTE_S <= later.pop(0) <= HOUR_S + 2 * MINUTE_S
        assert later[:3] == [2 * HOUR_S, 3 * HOUR_S, 4 * HOUR_S]
    else:
        # At the hour it had planned it finds the time a day away, and plans the next hour.
        assert later[:3] == [3 * HOUR_S, 4 * HOUR_S, 5 * HOUR_S]


async def test_a_long_sleep_ends_when_the_clock_is_set_ahead(duly_world: Stage) -> None:
    """S2, S9: the machine woke up without a clock and was told the time a minute later."""
    play = await opened(duly_world)
    poll = producer(Call("sheet.find"), cron="0 9 * * *")
    await play.deploy(flow(consumers={}, producers={PRODUCER: poll}))
    calls = timed(duly_world)
    async with play.host.running():
        await duly_world.advance(MINUTE_S)
        assert calls.times("sheet.find") == [0]
        duly_world.env.jump(365 * DAY_MS)
        await duly_world.advance(2 * MINUTE_S)
        assert len(calls.times("sheet.find")) == 2
        await duly_world.advance(DAY_S)
    assert len(calls.times("sheet.find")) == 3


@either_way
async def test_a_wake_comes_though_the_clock_was_set(duly_world: Stage, jump: int) -> None:
    """S6: at its time by the wall clock, whichever way that was set."""
    play = await opened(duly_world)
    later = (datetime.fromtimestamp(play.now / 1000, UTC) + timedelta(hours=1)).isoformat()
    prepare = (Call("sheet.find"), Return({"reservations": [], "wake_at": later}))
    await play.deploy(flow({CONSUMER: consumer(prepare, None, None)}))
    calls = timed(duly_world)
    async with play.host.running():
        await duly_world.advance(MINUTE_S)
        duly_world.env.jump(jump)
        await duly_world.advance(2 * MINUTE_S if jump > 0 else LONGEST_S - HOUR_S)
    first, woken = calls.times("sheet.find")[:2]
    assert first == 0
    if jump > 0:
        assert MINUTE_S <= woken <= 2 * MINUTE_S
    else:
        assert woken == DAY_S + HOUR_S
