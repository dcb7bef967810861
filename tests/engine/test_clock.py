"""A clock that is wrong for a while, or was wrong: nothing waits for the time it wrote (S2, S6)."""

from __future__ import annotations

import pytest

from duly.config import Policy
from duly.rules.schedule import DAY_MS, HOUR_MS, MINUTE_MS
from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    NAME,
    PEEK_ONE,
    PREPARE,
    PRODUCER,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
    statements,
)
from verification.moves import Call, Return

FIND = "sheet.find"
YEARS_MS = 3650 * DAY_MS


async def polling(stage: Stage, *, every: str | None = "5m", cron: str | None = None) -> Play:
    play = await opened(stage)
    poll = producer(Call(FIND), every=every, cron=cron)
    await play.deploy(flow({}, {PRODUCER: poll}))
    return play


@pytest.mark.parametrize("schedule", [{"every": "5m"}, {"every": None, "cron": "*/5 * * * *"}])
@pytest.mark.parametrize("jump_ms", [-3 * DAY_MS, -2 * HOUR_MS, -20 * MINUTE_MS])
async def test_a_clock_set_back_silences_no_producer(
    duly_world: Stage, schedule: dict[str, str | None], jump_ms: int
) -> None:
    """S2: its next time is planned again, without a restart, within one interval."""
    play = await polling(duly_world, **schedule)
    async with play.host.running():
        await duly_world.advance("11m")
        before = duly_world.calls.count(FIND)
        duly_world.env.jump(jump_ms)
        await duly_world.advance("1h")
    assert 11 <= duly_world.calls.count(FIND) - before <= 14


@pytest.mark.parametrize("schedule", [{"every": "5m"}, {"every": None, "cron": "*/5 * * * *"}])
async def test_a_clock_years_ahead_for_a_minute_leaves_no_plan_there(
    duly_world: Stage, schedule: dict[str, str | None]
) -> None:
    """S2: what it wrote is recomputed, not waited for."""
    play = await polling(duly_world, **schedule)
    async with play.host.running():
        await duly_world.advance("11m")
        duly_world.env.jump(YEARS_MS)
        await duly_world.advance("2m")
        assert ((await play.handler(PRODUCER)).next_run_at or 0) >= play.now
        duly_world.env.jump(-YEARS_MS)
        before = duly_world.calls.count(FIND)
        await duly_world.advance("1h")
    assert 11 <= duly_world.calls.count(FIND) - before <= 13
    assert ((await play.handler(PRODUCER)).next_run_at or 0) - play.now <= 10 * MINUTE_MS


@pytest.mark.parametrize("jump_ms", [-3 * DAY_MS, YEARS_MS])
async def test_a_restart_finds_a_plan_of_a_wrong_clock(duly_world: Stage, jump_ms: int) -> None:
    """S2, S8: from the store alone."""
    play = await polling(duly_world)
    if jump_ms > 0:
        duly_world.env.jump(jump_ms)
    await play.drain()
    duly_world.env.jump(-abs(jump_ms))
    await play.restart()
    before = duly_world.calls.count(FIND)
    async with play.host.running():
        await duly_world.advance("11m")
    assert duly_world.calls.count(FIND) - before >= 2


async def test_a_bell_after_a_correction_does_not_let_a_host_oversleep(duly_world: Stage) -> None:
    """S2, S9: the deadline is kept on a clock that cannot be set."""
    play = await polling(duly_world)
    async with play.host.running():
        await duly_world.advance("1m")
        duly_world.env.jump(-3 * DAY_MS)
        await play.host.bus.emit("news", {}, source="test")
        await play.host.pause(NAME)
        await play.host.resume(NAME)
        await duly_world.advance("10m")
    assert duly_world.calls.count(FIND) >= 3


async def test_a_time_that_is_near_enough_is_kept(duly_world: Stage) -> None:
    """S2: a clock set back by less than two intervals changes no plan, and no second run comes."""
    play = await polling(duly_world, every="1h")
    await play.drain()
    planned = (await play.handler(PRODUCER)).next_run_at
    duly_world.env.jump(-30 * MINUTE_MS)
    await play.drain()
    assert (await play.handler(PRODUCER)).next_run_at == planned
    assert duly_world.calls.count(FIND) == 1


async def test_a_wake_years_away_is_due(duly_world: Stage) -> None:
    """S6: a stored wakeAt further away than the maximum and five minutes."""
    play = await opened(duly_world)
    asks = Return({"reservations": [], "wake_at": "2999-01-01T00:00:00Z"})
    await play.deploy(flow({CONSUMER: consumer((PEEK_ONE, asks))}))
    await play.publish("a")
    duly_world.env.jump(YEARS_MS)
    await play.drain()
    duly_world.env.jump(-YEARS_MS)
    before = len(await play.runs())
    await play.drain()
    assert len(await play.runs()) == before + 1
    wake_at = (await play.handler()).wake_at
    assert wake_at == play.now + DAY_MS
    await play.drain()
    assert len(await play.runs()) == before + 1


async def test_a_longer_maximum_is_believed(duly_world: Stage) -> None:
    """S6: the policy says how far away a wakeAt can be."""
    play = await opened(duly_world, policy=Policy(wake_max_s=7 * 86_400))
    asks = Return({"reservations": [], "wake_at": "2999-01-01T00:00:00Z"})
    await play.deploy(flow({CONSUMER: consumer((PEEK_ONE, asks))}))
    await play.publish("a")
    await play.drain()
    await play.drain()
    assert len(await play.runs()) == 1


@pytest.mark.parametrize("jump_ms", [-3 * DAY_MS, -20 * HOUR_MS, -HOUR_MS])
async def test_a_retry_is_not_put_off_by_a_clock_set_back(duly_world: Stage, jump_ms: int) -> None:
    """F2, S2: a due time that was written when the clock showed more than now is due."""
    play = await opened(duly_world)
    duly_world.plan(FIND, Fault.NOT_SENT)
    await play.deploy(flow({CONSUMER: consumer((Call(FIND), *PREPARE))}))
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance(1)
        duly_world.env.jump(jump_ms)
        await duly_world.advance(30)
    assert await play.statuses() == {"a": "consumed"}


@pytest.mark.parametrize("jump_ms", [-3 * DAY_MS, -20 * HOUR_MS, -HOUR_MS])
async def test_a_question_is_not_put_off_by_a_clock_set_back(
    duly_world: Stage, jump_ms: int
) -> None:
    """L5, S2: an unknown mutation is asked about at its time on the clock nobody sets."""
    play = await opened(duly_world)
    plan(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE, Fault.UNSURE))
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance(1)
        asked = play.asks()
        duly_world.env.jump(jump_ms)
        await duly_world.advance(120)
    assert play.asks() > asked


async def test_an_idle_host_looks_no_more_often(duly_world: Stage) -> None:
    """S9: with plans in order a day costs no look besides those of the planned times."""
    play = await polling(duly_world, every="1d")
    async with play.host.running():
        await duly_world.advance("1m")
        seen = statements(play)
        await duly_world.advance("20h")
        assert seen == []
        duly_world.env.jump(-3 * DAY_MS)
        await duly_world.advance("3h")
        assert seen == []


async def test_manual_producers_deployed_by_a_wrong_clock_run(duly_world: Stage) -> None:
    """S2, W2: due once when it first appears, also if the clock was years ahead then."""
    play = await opened(duly_world)
    duly_world.env.jump(YEARS_MS)
    await play.deploy(flow({}, {PRODUCER: producer(publish("tick"))}))
    duly_world.env.jump(-YEARS_MS)
    await play.drain()
    assert await play.statuses() == {"tick": "pending"}


# A machine that starts with its clock days behind.


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
