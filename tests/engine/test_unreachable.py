"""An outage: retried for as long as it lasts, told once, and over by itself (F2)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from duly.rules.schedule import DAY_MS
from duly.rules.standing import Standing
from duly.rules.word import Failure, Status
from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    NAME,
    PREPARE,
    Play,
    consumer,
    flow,
    opened,
    plan,
)
from tests.spoken import long, short
from verification.moves import Call, Lose

FIND = "sheet.find"
READING = (Call(FIND), *PREPARE)
LONG = 1000


async def offline(stage: Stage, fault: Fault = Fault.NOT_SENT) -> Play:
    """A consumer whose prepare reads the outside, which cannot be reached."""
    play = await opened(stage)
    stage.plan(FIND, *[fault] * LONG)
    await play.deploy(flow({CONSUMER: consumer(READING)}))
    await play.publish("a")
    return play


def back(stage: Stage, tool: str = FIND) -> None:
    """Let the outside be reached again."""
    stage._plans[tool].clear()


async def notices(play: Play) -> list[Any]:
    """What the person was told, oldest first."""
    found = await play.host.bus.journal("workflow.notice", limit=100)
    return [each.payload["text"] for each in reversed(found) if each.payload]


@pytest.mark.parametrize(
    "fault",
    [Fault.NOT_SENT, Fault.TIMEOUT_BEFORE, Fault.AMBIGUOUS, Fault.RATE_LIMIT(5)],
    ids=["no connection", "timeout", "5xx", "rate limit"],
)
async def test_an_outage_of_twelve_hours_ends_by_itself(duly_world: Stage, fault: Fault) -> None:
    """F2: no person is asked; ten minutes after the outside is back, the work is done."""
    play = await offline(duly_world, fault)
    async with play.host.running():
        await duly_world.advance("12h")
        seen = await play.host.workflow(NAME)
        run = await play.run()
        assert (seen.standing, run.escalated) == (Standing.RUNNING, None)
        assert (await play.error())["class"] == Failure.UNREACHABLE
        assert await play.host.bus.journal("workflow.needs_attention") == ()
        back(duly_world)
        await duly_world.advance("10m")
    assert (await play.statuses(), await play.is_clean()) == ({"a": "consumed"}, True)
    assert len(await notices(play)) == 1


async def test_the_outage_is_tried_every_ten_minutes(duly_world: Stage) -> None:
    """F2: five times as after any temporary error, then at the longest wait or a little sooner."""
    play = await offline(duly_world)
    async with play.host.running():
        await duly_world.advance("6h")
    runs = await play.runs()
    waits = [(b.created_at - a.created_at) / 1000 for a, b in pairwise(runs)]
    for wait_s, planned_s in zip(waits, (10, 20, 40, 80, 160), strict=False):
        assert 0.8 * planned_s <= wait_s <= 1.2 * planned_s
    assert len(waits) > 30
    assert all(480 <= each <= 600 for each in waits[5:])
    assert len({*waits[5:]}) > 1
    assert [each.outage_count for each in runs] == [*range(1, len(runs) + 1)]
    assert {each.transient_count for each in runs} == {0}


async def test_the_person_is_told_once_after_an_hour(duly_world: Stage) -> None:
    """F2, B10: what, since when, and that nothing is needed; a restart does not repeat it."""
    play = await offline(duly_world)
    async with play.host.running():
        await duly_world.advance("55m")
        assert await notices(play) == []
        await duly_world.advance("20m")
        (told,) = await notices(play)
    assert told.startswith("flow: The outside cannot be reached since 1 Jan 00:00 UTC: “sheet.find")
    assert "nothing is needed from you" in told
    await play.restart()
    async with play.host.running():
        await duly_world.advance("1d")
    assert await notices(play) == [told]


async def test_the_notice_is_in_the_transaction_of_the_stop(duly_world: Stage) -> None:
    """F2, B10: a crash before the stop tells nothing, and the next attempt tells."""
    play = await offline(duly_world)
    async with play.host.running():
        await duly_world.advance("55m")
    told: list[Any] = []
    while not (told := await notices(play)):
        await duly_world.advance("10m")
        await play.crash_during(stop_run="before")
        assert (await notices(play), (await play.run()).outage_told) == ([], 0)
        await play.drain()
        await play.pass_by(600)
    assert len(told) == 1


async def test_the_standing_says_since_when_and_when_it_is_tried_next(duly_world: Stage) -> None:
    """U1, U7, F2: the workflow runs, and the sentence says that nothing is needed."""
    play = await offline(duly_world)
    async with play.host.running():
        await duly_world.advance("2h")
        seen = await play.host.workflow(NAME)
        why = await play.host.why(NAME)
    assert seen.standing is Standing.RUNNING
    assert short(play.host, seen).startswith(
        "The outside cannot be reached since 1 Jan 00:00 UTC; retrying in "
    )
    assert "nothing is needed from you" in long(play.host, why)


@pytest.mark.parametrize("fault", [Fault.NOT_SENT, Fault.RATE_LIMIT(5)])
async def test_a_send_that_cannot_leave_is_an_outage_too(duly_world: Stage, fault: Fault) -> None:
    """F2: not sent and rate-limited mutations never wait for a person; the change is made once."""
    play = await opened(duly_world)
    plan(duly_world, *[fault] * LONG)
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance("3h")
        assert (await play.host.workflow(NAME)).standing is Standing.RUNNING
        back(duly_world, "sheet.append")
        await duly_world.advance("10m")
    assert (duly_world.count(), await play.statuses()) == (1, {"a": "consumed"})
    assert len(await notices(play)) == 1


async def test_an_outage_uses_up_none_of_the_other_attempts(duly_world: Stage) -> None:
    """F2: after hours offline a lost worker has its five successors."""
    play = await opened(duly_world)
    duly_world.plan(FIND, *[Fault.NOT_SENT] * 20)
    await play.deploy(flow({CONSUMER: consumer((Call(FIND), Lose()))}))
    async with play.host.running():
        await duly_world.advance("1d")
    runs = await play.runs()
    assert [each.transient_count for each in runs[20:]] == [1, 2, 3, 4, 5, 6]
    assert [each.outage_since for each in runs[20:]] == [None] * 6


async def test_a_crash_does_not_end_an_outage(duly_world: Stage) -> None:
    """F2, R7: since when and how long are kept through restarts."""
    play = await offline(duly_world)
    await play.drain()
    first = await play.run()
    for _ in range(2):
        await play.pass_by(600)
        await duly_world.advance(600)
        await play.crash_during(stop_run="before")
        await play.drain()
    last = await play.run()
    assert (last.outage_since, last.outage_count) == (first.outage_since, 5)


@pytest.mark.parametrize("jump_ms", [-30 * DAY_MS, 3650 * DAY_MS])
@pytest.mark.parametrize("at", ["1s", "30m", "3h"])
async def test_a_wrong_clock_tells_neither_twice_nor_never(
    duly_world: Stage, jump_ms: int, at: str
) -> None:
    """F2: the hour is counted by the waits; the clock is set for ten minutes and set right."""
    play = await offline(duly_world)
    async with play.host.running():
        await duly_world.advance(at)
        duly_world.env.jump(jump_ms)
        await duly_world.advance("10m")
        duly_world.env.jump(-jump_ms)
        await duly_world.advance("3h")
    assert len(await notices(play)) == 1
    assert (await play.run()).status in (Status.PAUSED_TRANSIENT, Status.ACTIVE)


async def test_a_clock_set_back_for_good_tells_once(duly_world: Stage) -> None:
    """F2: since when is said by the clock of now; the hour comes all the same."""
    play = await offline(duly_world)
    async with play.host.running():
        await duly_world.advance("5m")
        duly_world.env.jump(-400 * DAY_MS)
        await duly_world.advance("3h")
        seen = await play.host.workflow(NAME)
    assert len(await notices(play)) == 1
    assert "2026" not in short(play.host, seen)


async def test_a_long_retry_after_is_told_at_once(duly_world: Stage) -> None:
    """F2: a service that says a day says that it lasts longer than an hour."""
    play = await offline(duly_world, Fault.RATE_LIMIT(86_400))
    async with play.host.running():
        await duly_world.advance("1m")
        assert len(await notices(play)) == 1
        await duly_world.advance("3d")
    assert len(await notices(play)) == 1


async def test_a_persons_retry_begins_anew(duly_world: Stage) -> None:
    """F2, R9: the counts, the outage among them, begin again."""
    play = await offline(duly_world)
    async with play.host.running():
        await duly_world.advance("3h")
        retried = await play.run()
        await play.host.retry(retried.id)
        await duly_world.advance(1)
    last = await play.run()
    assert (last.outage_count, last.outage_since) == (1, last.created_at)


# An outage of changes alone, in which questions are answered, is an outage all the same (F2).


@pytest.mark.parametrize(
    "fault", [Fault.AMBIGUOUS_BEFORE, Fault.TIMEOUT_BEFORE], ids=lambda each: each.name
)
async def test_changes_that_fail_and_did_not_happen_need_no_person(
    duly_world: Stage, fault: Fault
) -> None:
    """F2, L6: sends break off for three hours, and the outside says each time that none arrived."""
    play = await opened(duly_world)
    plan(duly_world, *[fault] * LONG)
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance("3h")
        assert (await play.host.workflow(NAME)).standing is Standing.RUNNING
        back(duly_world, "sheet.append")
        await duly_world.advance("10m")
    assert (duly_world.count(), await play.statuses()) == (1, {"a": "consumed"})
    assert len(await notices(play)) == 1


async def test_a_connector_that_fails_again_and_again_needs_one(duly_world: Stage) -> None:
    """F2: an error that says nothing of the outside is no outage; after five the person is told."""
    play = await opened(duly_world)
    plan(duly_world, *[Fault.AMBIGUOUS_BEFORE] * 3, *[Fault.ERROR] * LONG)
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance("3h")
    assert (await play.host.workflow(NAME)).standing is Standing.NEEDS_ATTENTION
    assert [each.transient_count for each in await play.runs()] == [0, 0, 0, 1, 2, 3, 4, 5, 6]
    assert await notices(play) == []


async def test_a_send_nobody_heard_is_no_outage(duly_world: Stage) -> None:
    """F2, R7: a change that kills its host again and again is shown, also after an outage."""
    play = await opened(duly_world)
    plan(duly_world, Fault.AMBIGUOUS_BEFORE, *[Fault.CRASH_BEFORE] * 6)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await play.pass_by(120)
    for _ in range(6):
        await duly_world.advance(700)
        await duly_world.crash(play.host, play.host.drain())
        play.host = await duly_world.host(**play.options)
        await play.drain()
        await play.pass_by(120)
    assert (await play.host.workflow(NAME)).standing is Standing.NEEDS_ATTENTION
