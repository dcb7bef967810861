"""A wall clock that is wrong: a deferred event waits for its delay, neither less nor more (B2)."""

from __future__ import annotations

import pytest

from duly.rules.deferral import remaining_ms
from duly.rules.schedule import DAY_MS
from duly.testing import Stage
from tests.bus.stand import again, listen

YEARS_MS = 3650 * DAY_MS


@pytest.mark.parametrize("jump_ms", [YEARS_MS, DAY_MS, 3_600_000, -120_000, -3 * DAY_MS])
async def test_a_clock_that_is_set_neither_hastens_nor_delays_an_event(
    duly_world: Stage, jump_ms: int
) -> None:
    """B2, S9: it fires when its delay is over by a clock that cannot be set; no busy loop."""
    host = await duly_world.host()
    ear = listen(host)
    async with host.running():
        began = duly_world.loop.time()
        await host.bus.schedule_at(600, "mail", {}, source="test")
        await duly_world.advance(300)
        duly_world.env.jump(jump_ms)
        wakes = duly_world.env.wakes
        await duly_world.advance(299)
        assert ear.events == []
        await duly_world.advance(1)
        assert len(ear.events) == 1
        assert duly_world.env.wakes - wakes < 100
        assert duly_world.loop.time() - began == 600


async def test_a_clock_years_ahead_for_a_minute_fires_nothing_and_plans_nothing_there(
    duly_world: Stage,
) -> None:
    """B2: also for what is scheduled within that minute."""
    host = await duly_world.host()
    ear = listen(host)
    async with host.running():
        await host.bus.schedule_at(3600, "mail", {"text": "before"}, source="test")
        duly_world.env.jump(YEARS_MS)
        await host.bus.schedule_at(600, "mail", {"text": "meanwhile"}, source="test")
        await duly_world.advance(60)
        duly_world.env.jump(-YEARS_MS)
        assert ear.events == []
        await duly_world.advance(540)
        assert ear.texts == ["meanwhile"]
        await duly_world.advance(3000)
    assert ear.texts == ["meanwhile", "before"]


async def test_a_restart_in_the_same_boot_trusts_the_boot(duly_world: Stage) -> None:
    """B2: the clock was set while no host ran."""
    host = await duly_world.host()
    await host.bus.schedule_at(600, "mail", {}, source="test")
    duly_world.env.jump(YEARS_MS)
    host = await again(duly_world, host)
    ear = listen(host)
    async with host.running():
        await duly_world.advance(599)
        assert ear.events == []
        await duly_world.advance(1)
    assert len(ear.events) == 1


async def test_another_boot_trusts_the_wall_clock_once(duly_world: Stage) -> None:
    """B2: it says how long each has still to wait; later changes of it do nothing."""
    host = await duly_world.host()
    await host.bus.schedule_at(60, "mail", {"text": "overdue"}, source="test")
    await host.bus.schedule_at(600, "mail", {"text": "later"}, source="test")
    await duly_world.crash(host)
    duly_world.env.reboot()
    duly_world.env.jump(300_000)  # it was off for so long
    host = await duly_world.host()
    ear = listen(host)
    async with host.running():
        await duly_world.advance(1)
        assert ear.texts == ["overdue"]
        duly_world.env.jump(-3 * DAY_MS)
        await duly_world.advance(298)
        assert ear.texts == ["overdue"]
        await duly_world.advance(1)
    assert ear.texts == ["overdue", "later"]


async def test_another_boot_does_not_wait_for_a_time_that_a_wrong_clock_wrote(
    duly_world: Stage,
) -> None:
    """B2: an event made in the future waits no longer than its delay."""
    duly_world.env.jump(YEARS_MS)
    host = await duly_world.host()
    await host.bus.schedule_at(60, "mail", {}, source="test")
    await duly_world.crash(host)
    duly_world.env.reboot()
    duly_world.env.jump(-YEARS_MS)
    host = await duly_world.host()
    ear = listen(host)
    async with host.running():
        await duly_world.advance(59)
        assert ear.events == []
        await duly_world.advance(1)
    assert len(ear.events) == 1


async def test_more_events_than_a_turn_holds_are_measured_before_any_fires(
    duly_world: Stage,
) -> None:
    """B2, B14: in the order of their times, also over a boot and in turns of one."""
    from duly.config import BusSettings

    host = await duly_world.host()
    for delay in (50, 10, 30):
        await host.bus.schedule_at(delay, "mail", {"text": str(delay)}, source="test")
    await duly_world.crash(host)
    duly_world.env.reboot()
    await duly_world.advance(60)
    host = await duly_world.host(bus=BusSettings(batch=1))
    ear = listen(host)
    await host.drain()
    assert ear.texts == ["10", "30", "50"]


def test_what_is_left_to_wait_is_at_most_the_delay() -> None:
    """B2: by the wall clock, which may have been another when it was made."""
    assert remaining_ms(created_at=100, fire_at=160, now=120) == 40
    assert remaining_ms(created_at=100, fire_at=160, now=200) == -40
    assert remaining_ms(created_at=100, fire_at=160, now=50) == 60
