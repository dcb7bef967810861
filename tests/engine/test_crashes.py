"""Crashes in a row of runs that had reserved and sent nothing (R7)."""

from __future__ import annotations

from typing import Any

import pytest

from duly.rules.standing import Standing
from duly.rules.word import Status
from duly.testing import Stage
from tests.engine.stand import (
    CONSUMER,
    DECLINE,
    NAME,
    PRODUCER,
    Play,
    consumer,
    flow,
    opened,
    producer,
    publish,
)
from tests.spoken import short

# Where a kill meets a run that holds nothing: in a producer, in a prepare, in the `next` of a look
# that reserved nothing.
EMPTY = {
    "producer": (producer(publish("tick"), every="5m"), None, "commit_producer"),
    "prepare": (None, consumer(), "prepare_run"),
    "next": (None, consumer(DECLINE), "commit_run"),
}
BACKED_OFF = 9


async def staged(stage: Stage, name: str) -> tuple[Play, dict[str, Any]]:
    """A workflow whose next run is killed at the moment that is returned."""
    poll, file, verb = EMPTY[name]
    play = await opened(stage)
    consumers = {} if file is None else {CONSUMER: file}
    producers = {} if poll is None else {PRODUCER: poll}
    topics = {"in", "out"}
    await play.deploy(flow(consumers, producers, topics=tuple(sorted(topics))))
    if file is not None:
        await play.publish("a")
    return play, {verb: "before"}


async def told(play: Play, topic: str) -> list[str]:
    return [str((each.payload or {})["text"]) for each in await play.host.bus.journal(topic)]


async def crash(play: Play, moments: dict[str, Any], count: int) -> None:
    """Kill the host so many times during the next run; waits in between are waited for."""
    for _ in range(count):
        runs = await play.runs()
        if runs and runs[-1].crash_count >= 2:
            await play.drain()
            await play.stage.advance(720)
        await play.crash_during(**moments)


@pytest.mark.parametrize("name", EMPTY)
async def test_the_third_empty_crash_backs_off_and_is_told(duly_world: Stage, name: str) -> None:
    """R7: nothing waits for a person; after a wait it is tried again and done."""
    play, moments = await staged(duly_world, name)
    await crash(play, moments, 3)
    await play.drain()
    run = await play.run()
    assert (run.status, run.open, run.crash_count, run.escalated) == (Status.CRASHED, 1, 3, None)
    assert run.due_at is not None
    assert 8_000 <= run.due_at - play.now <= 12_000
    (notice,) = await told(play, "workflow.notice")
    assert "3 times in a row" in notice
    assert "nothing is needed from you" in notice
    seen = await play.host.workflow(NAME)
    assert seen.standing is Standing.RUNNING
    assert short(play.host, seen).startswith("Interrupted again and again; retrying in ")
    await play.pass_by(12)
    assert (await play.run()).status == Status.COMMITTED
    assert await told(play, "workflow.needs_attention") == []


@pytest.mark.parametrize("name", EMPTY)
async def test_the_tenth_empty_crash_waits_for_a_persons_retry(
    duly_world: Stage, name: str
) -> None:
    """R7: waits grow up to the longest; the notice is given once; retry sets the count to zero."""
    play, moments = await staged(duly_world, name)
    await crash(play, moments, BACKED_OFF)
    await play.drain()
    ninth = await play.run()
    assert (ninth.crash_count, ninth.escalated, ninth.due_at is None) == (9, None, False)
    await crash(play, moments, 1)
    await play.drain()
    tenth = await play.run()
    assert (tenth.crash_count, bool(tenth.escalated), tenth.due_at) == (10, True, None)
    assert len(await told(play, "workflow.notice")) == 1
    assert len(await told(play, "workflow.needs_attention")) == 1
    await play.pass_by(86_400)
    assert (await play.run()).id == tenth.id
    await play.host.retry(tenth.id)
    await play.drain()
    assert (await play.run()).crash_count == 0
    assert await play.is_clean()


async def test_a_crash_that_holds_reservations_keeps_the_old_rule(duly_world: Stage) -> None:
    """R7: the third crash in a row waits for a person, though the two before it were empty."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(mutate=None)}))
    await play.publish("a")
    await crash(play, {"prepare_run": "before"}, 2)
    await crash(play, {"commit_run": "before"}, 1)
    await play.drain()
    run = await play.run()
    assert (run.crash_count, bool(run.escalated), run.due_at) == (3, True, None)


async def test_no_backoff_of_a_crash_ends_while_paused(duly_world: Stage) -> None:
    """R7, F7: it is followed when a person resumes."""
    play, moments = await staged(duly_world, "producer")
    await crash(play, moments, 3)
    await play.drain()
    await play.host.pause(NAME)
    await play.pass_by(3600)
    assert (await play.run()).status == Status.CRASHED
    await play.host.resume(NAME)
    await play.drain()
    assert (await play.run()).status == Status.COMMITTED


async def test_a_backoff_of_a_crash_outlives_a_restart(duly_world: Stage) -> None:
    """R7, S8: the due time is stored, and a restart neither shortens nor repeats it."""
    play, moments = await staged(duly_world, "producer")
    await crash(play, moments, 3)
    await play.drain()
    before = await play.run()
    await play.restart()
    await play.drain()
    after = await play.run()
    assert (after.id, after.due_at) == (before.id, before.due_at)
    assert len(await told(play, "workflow.notice")) == 1
