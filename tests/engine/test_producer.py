"""Producers: when they run, what one commit holds, and what a failure leaves (P, S2)."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from duly.config import Policy
from duly.errors import RequestRefused
from duly.rules.value import Json
from duly.rules.word import Phase, Status
from duly.testing import Fault, Stage
from tests.engine.stand import IN, PRODUCER, TOOL, Play, flow, opened, producer, publish
from verification.moves import Call, Move, Return, Say, Throw, When, ref

TICK: tuple[Move, ...] = (publish("tick"),)


async def polling(
    stage: Stage, *moves: Move, every: str | None = None, cron: str | None = None
) -> Play:
    play = await opened(stage, policy=Policy(timezone="Europe/Berlin"))
    await play.deploy(flow({}, {PRODUCER: producer(*(moves or TICK), every=every, cron=cron)}))
    return play


async def starts_s(play: Play) -> list[float]:
    """When the runs began, in seconds of the test's time."""
    began_ms = play.now - play.stage.loop.elapsed_ms
    return [(each.created_at - began_ms) / 1000 for each in await play.runs()]


async def state_after(play: Play, *moves: Move) -> Json:
    await play.deploy(flow({}, {PRODUCER: producer(*moves, every="5m")}))
    await play.pass_by(600)
    return (await play.handler(PRODUCER)).state


# -- When -----------------------------------------------------------------------------------------


async def test_a_producer_runs_when_deployed_and_then_at_its_interval(duly_world: Stage) -> None:
    """S2, P4: the times are the first one plus whole intervals."""
    play = await polling(duly_world, every="5m")
    async with play.host.running():
        await duly_world.advance("1h")
    assert await starts_s(play) == [300.0 * each for each in range(13)]
    assert {each.phase for each in await play.runs()} == {Phase.COMMITTED}


async def test_a_slow_producer_does_not_drift(duly_world: Stage) -> None:
    """S2: a run that takes a minute moves no later time."""
    play = await polling(duly_world, Call("sheet.find"), every="5m")
    duly_world.plan("sheet.find", *[Fault.SLOW(20)] * 4)
    async with play.host.running():
        await duly_world.advance("16m")
    assert await starts_s(play) == [0, 300, 600, 900]


async def test_missed_times_come_once_together(duly_world: Stage) -> None:
    """S2: after an hour asleep there is one run, and the next is at the planned rhythm."""
    play = await polling(duly_world, every="5m")
    await play.drain()
    await play.pass_by(3700)
    assert await starts_s(play) == [0, 3700]
    handler = await play.handler(PRODUCER)
    assert handler.next_run_at is not None
    assert handler.next_run_at - play.now == 200_000


async def test_a_cron_producer_runs_at_its_wall_clock_time(duly_world: Stage) -> None:
    """S2: in the policy's zone, where the schedule names none."""
    play = await polling(duly_world, cron="0 9 * * *")
    async with play.host.running():
        await duly_world.advance("3d")
    hours = [datetime.fromtimestamp(each.created_at / 1000, UTC) for each in await play.runs()]
    # Berlin is an hour ahead of UTC in January; the first run is the deploy's.
    assert [(each.day, each.hour) for each in hours] == [(1, 0), (1, 8), (2, 8), (3, 8)]


async def test_a_manual_producer_runs_once_and_then_when_asked(duly_world: Stage) -> None:
    """W2, S2, S7: due when it first appears, then on Run now alone."""
    play = await polling(duly_world)
    await play.drain()
    await play.pass_by(86_400)
    assert len(await play.runs()) == 1
    assert await play.host.run_now("flow") == 1
    await play.drain()
    await play.pass_by(86_400)
    assert len(await play.runs()) == 2


async def test_run_now_does_not_shift_the_rhythm_into_the_past(duly_world: Stage) -> None:
    """S7, S2: the next time is one interval after the asked one."""
    play = await polling(duly_world, every="5m")
    await play.drain()
    await duly_world.advance(100)
    await play.host.run_now("flow")
    await play.drain()
    handler = await play.handler(PRODUCER)
    assert handler.next_run_at == play.now + 300_000


async def test_a_failed_run_leaves_its_producer_due(duly_world: Stage) -> None:
    """S2, P3: nothing is written, and the planned time stays."""
    play = await polling(duly_world, publish("lost"), Throw("no"), every="5m")
    planned = (await play.handler(PRODUCER)).next_run_at
    await play.drain()
    assert (await play.handler(PRODUCER)).next_run_at == planned
    assert await play.events() == []
    assert (await play.run()).status == Status.FAILED_LOGIC


async def test_a_retried_producer_keeps_the_rhythm(duly_world: Stage) -> None:
    """S2: a successor that commits late plans from the time its chain was due at."""
    play = await polling(duly_world, Call("sheet.find"), every="5m")
    duly_world.plan("sheet.find", Fault.NOT_SENT)
    async with play.host.running():
        await duly_world.advance("11m")
    starts = await starts_s(play)
    assert (starts[0], starts[2:]) == (0, [300, 600])


# -- What a commit holds --------------------------------------------------------------------------


async def test_events_state_and_time_are_one_commit(duly_world: Stage) -> None:
    """P3: a crash before the commit leaves none of them."""
    play = await polling(duly_world, publish("a"), publish("b"), Return({"n": 1}), every="5m")
    planned = (await play.handler(PRODUCER)).next_run_at
    await play.crash_during(commit_producer="before")
    handler = await play.handler(PRODUCER)
    assert (handler.state, handler.next_run_at, await play.events()) == (None, planned, [])
    await play.drain()
    handler = await play.handler(PRODUCER)
    assert (handler.state, await play.statuses()) == ('{"n":1}', {"a": "pending", "b": "pending"})
    assert handler.next_run_at is not None
    assert handler.next_run_at > play.now


async def test_a_crash_after_the_commit_repeats_nothing(duly_world: Stage) -> None:
    """P3, S8: what was committed is there, and no run follows."""
    play = await polling(duly_world, publish("a"), every="5m")
    await play.crash_during(commit_producer="after")
    await play.drain()
    assert len(await play.runs()) == 1
    assert list(await play.statuses()) == ["a"]


async def test_the_first_run_has_no_state_and_later_ones_the_last(duly_world: Stage) -> None:
    """P2: a producer is given what its last commit returned."""
    moves = (When("state", (Say(ref("state")), Return({"n": 2})), (Say("none"), Return({"n": 1}))),)
    play = await polling(duly_world, *moves, every="5m")
    await play.drain()
    await play.pass_by(300)
    assert [each.state_after for each in await play.runs()] == ['{"n":1}', '{"n":2}']
    assert '"none"' in str((await play.runs())[0].logs)


@pytest.mark.parametrize("value", [False, 0, "", [], {}, None])
async def test_an_empty_state_is_a_state(duly_world: Stage, value: Json) -> None:
    """P2: only returning nothing keeps the old state."""
    play = await polling(duly_world, Return({"n": 1}), every="5m")
    await play.drain()
    assert await state_after(play, Say("nothing is returned")) == '{"n":1}'
    assert await state_after(play, Return(value)) == json.dumps(value)


# -- What it may not do ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [Call(TOOL, (), {"text": "x"}), Call("peek", (IN,)), Call("get_by_ids", (IN, ["a"]))],
    ids=lambda call: call.path,
)
async def test_a_producer_that_does_more_than_read_is_stopped(
    duly_world: Stage, call: Call
) -> None:
    """P1, C2, C3: nothing is sent, no ledger row, and what it published before is gone."""
    play = await polling(duly_world, publish("a"), call, Say("observed"), every="5m")
    await play.drain()
    run = await play.run()
    assert (run.status, run.logs, play.sends()) == (Status.FAILED_LOGIC, None, 0)
    assert (await play.events(), await play.rows()) == ([], [])
    assert (await play.error())["tool"] == call.path


async def test_a_read_that_fails_ends_the_run_unseen_by_the_script(duly_world: Stage) -> None:
    """C3, F2: a passing trouble waits, and nothing the script says after it is heard."""
    play = await polling(duly_world, Call("sheet.find"), Say("caught it"), every="5m")
    duly_world.plan("sheet.find", Fault.RATE_LIMIT(60))
    await play.drain()
    run = await play.run()
    assert (run.status, run.logs) == (Status.PAUSED_TRANSIENT, None)


async def test_a_paused_workflow_refuses_run_now(duly_world: Stage) -> None:
    """S7: the sentence says what to do first."""
    play = await polling(duly_world, every="5m")
    await play.drain()
    await play.host.pause("flow")
    with pytest.raises(RequestRefused, match="Resume"):
        await play.host.run_now("flow")
