"""Who runs when: slots and turns, wakes and waits, and a host with nothing due does nothing."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from duly.config import Policy
from duly.desk.deploy import Draft, _deployment
from duly.rules.declaration import parse
from duly.rules.value import Json
from duly.rules.word import Status
from duly.store.base import Durability, Transaction
from duly.store.workflow import deploy
from duly.testing import Fault, Stage, open_stage
from tests.engine.stand import (
    CONSUMER,
    DECLINE,
    IN,
    MUTATE,
    NAME,
    NOTHING,
    OUT,
    PEEK_ONE,
    PREPARE,
    PRODUCER,
    RESERVE,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
    statements,
)
from verification.moves import Call, Exceed, Move, Return, Throw, When, ref

FIND = Call("sheet.find")


async def spans(play: Play) -> list[tuple[int, int]]:
    """When each run began and ended, in their order."""
    return sorted((each.created_at, each.updated_at) for each in await play.runs(None))


# -- Slots and turns ------------------------------------------------------------------------------


async def test_one_workflow_runs_one_thing_at_a_time(duly_world: Stage) -> None:
    """S1, F6: two consumers and a producer, all slow, all due: never two at once."""
    play = await opened(duly_world)
    slow = (FIND, *DECLINE)
    other = consumer((FIND, Return(NOTHING)), None, None, (OUT,))
    duly_world.plan("sheet.find", *[Fault.SLOW(10)] * 6)
    script = flow(
        {CONSUMER: consumer(slow, None, None), "other": other}, {PRODUCER: producer(FIND)}
    )
    await play.deploy(script)
    await play.publish("a")
    await play.drain()
    found = await spans(play)
    assert len(found) == 3
    assert all(one[1] <= other[0] for one, other in pairwise(found))


async def test_workflows_run_beside_each_other(duly_world: Stage) -> None:
    """S1: five slow ones take as long as one."""
    play = await opened(duly_world)
    for each in range(5):
        await play.deploy(flow(name=f"f{each}"))
        await play.publish("a", name=f"f{each}")
    plan(duly_world, *[Fault.SLOW(10)] * 5)
    await play.drain()
    assert (duly_world.loop.time(), duly_world.count()) == (10, 5)


async def test_beyond_the_slots_workflows_take_turns(duly_world: Stage) -> None:
    """S1: two slots, five workflows: everybody has one run before anybody has a second."""
    play = await opened(duly_world, policy=Policy(runs_max=2))
    for each in range(5):
        await play.deploy(flow(name=f"f{each}"))
    await play.drain()
    for each in range(5):
        for number in range(3):
            await play.publish(f"{number}", payload=f"f{each}", name=f"f{each}")
    plan(duly_world, *[Fault.SLOW(10)] * 15)
    await play.drain()
    turns = [str(each.args["text"]) for each in duly_world.effects]
    assert [sorted(turns[at : at + 5]) for at in (0, 5, 10)] == [[f"f{n}" for n in range(5)]] * 3
    assert duly_world.loop.time() == 80  # two at a time, fifteen calls of ten seconds


async def test_a_thousand_workflows_wait_for_one_slot_in_peace(duly_world: Stage) -> None:
    """S1, S9: while the only slot is taken nobody looks again and again who else is due."""
    play = await opened(duly_world, policy=Policy(runs_max=1))
    script = flow({}, {PRODUCER: producer(FIND)})
    await play.deploy(script)
    duly_world.plan("sheet.find", Fault.SLOW(20))
    async with play.host.running():
        await duly_world.advance(1)
        await play.deploy(flow({}, {PRODUCER: producer()}, name="other"))
        copies = await clone(play, 1000)
        play.desk.engine.wake()
        await duly_world.loop.rest()
        seen = statements(play)
        await duly_world.advance(18)
        assert seen == []
        await duly_world.advance(2)
    await play.drain()
    assert (await play.store.due(play.now)).producers == ()
    assert copies.isdisjoint(each.workflow_id for each in await play.runs(NAME))


async def clone(play: Play, count: int, *, later_ms: int = 0) -> set[str]:
    """Deploy a producer many times over, straight into the store; it is due now, or later."""
    script = flow({}, {PRODUCER: producer(every="1d" if later_ms else None)})
    draft = Draft(script.source(), parse(script.declaration), (), {}, frozenset())
    pattern = _deployment(play.desk, draft, None, by="me", grants={})
    made = [
        replace(pattern, workflow_id=play.desk.parts.env.new_id("workflow"), name=f"copy {number}")
        for number in range(count)
    ]

    def deploy_all(tx: Transaction) -> None:
        for each in made:
            action = play.desk.action("me", "deploy")
            deploy(tx, each, successor_id="none", action=action, now=play.now + later_ms)

    await play.store.backend.transact(deploy_all, Durability.BARRIER)
    return {each.workflow_id for each in made}


# -- What is due ----------------------------------------------------------------------------------


async def test_a_new_event_starts_an_idle_consumer_at_once(duly_world: Stage) -> None:
    """S4: no time passes between the publish and its run."""
    play = await opened(duly_world)
    await play.deploy(flow())
    async with play.host.running():
        await duly_world.advance(1000)
        published_at = play.now
        await play.publish("a")
        await duly_world.loop.rest()
        assert (await play.statuses(), play.now) == ({"a": "consumed"}, published_at)


async def test_an_event_published_by_a_run_starts_its_consumer_at_once(duly_world: Stage) -> None:
    """S4: also one that a producer or another consumer made."""
    play = await opened(duly_world)
    await play.deploy(flow(producers={PRODUCER: producer(publish("x"), every="5m")}))
    await play.drain()
    assert (await play.statuses(), duly_world.loop.time()) == ({"x": "consumed"}, 0)


async def test_consumers_go_before_producers_and_the_oldest_event_first(duly_world: Stage) -> None:
    """S5: among consumers the smallest pending number; those without pending events last."""
    play = await opened(duly_world)
    other = consumer(
        (
            Call("peek", (OUT,), into="pending"),
            When(
                "pending",
                (Return({"reservations": [{"topic": OUT, "ids": ref("pending.*.id")}]}),),
                (Return(NOTHING),),
            ),
        ),
        None,
        None,
        (OUT,),
    )
    idle = consumer((Return(NOTHING),), None, None, ("idle",))
    handlers = {"idle": idle, CONSUMER: consumer(then=None), "other": other}
    polls = {PRODUCER: producer(every="5m")}
    await play.deploy(flow(handlers, polls, topics=(IN, OUT, "idle")))
    await play.host.pause(NAME)
    await play.publish("first", topic=OUT)
    await play.publish("second")
    await play.host.resume(NAME)
    await play.drain()
    order = [each.handler for each in await play.runs()]
    assert order == ["other", CONSUMER, "idle", PRODUCER]


async def test_producers_go_by_their_time_and_then_by_declaration(duly_world: Stage) -> None:
    """S5: the one that is due longest goes first."""
    play = await opened(duly_world)
    polls = {name: producer(every=every) for name, every in (("a", "7m"), ("b", "5m"), ("c", "5m"))}
    await play.deploy(flow({}, polls))
    await play.drain()
    await play.pass_by(600)
    assert [each.handler for each in await play.runs()] == ["a", "b", "c", "b", "c", "a"]


async def test_a_consumer_that_feeds_itself_rests_for_thirty_seconds(duly_world: Stage) -> None:
    """S3: reserved nothing, published something: no busy loop."""
    play = await opened(duly_world)
    data: Json = {"reservations": [], "data": {"n": {"$now": True}}}
    feed = (Call("publish", (IN,), {"title": "Again", "payload": ref("prepared.data.n")}),)
    await play.deploy(flow({CONSUMER: consumer((PEEK_ONE, Return(data)), None, feed)}))
    async with play.host.running():
        await duly_world.advance(100)
    starts = [start for start, _ in await spans(play)]
    assert [(start - starts[0]) / 1000 for start in starts] == [0, 30, 60, 90]


async def test_a_consumer_that_feeds_itself_while_it_works_does_not_rest(
    duly_world: Stage,
) -> None:
    """S3: one that reserves goes on at once."""
    play = await opened(duly_world)
    step = (When("prepared.data.text.left", (publish("b", payload={"left": False}),)),)
    await play.deploy(flow({CONSUMER: consumer(mutate=None, then=step)}))
    await play.publish("a", payload={"left": True})
    await play.drain()
    assert await play.statuses() == {"a": "consumed", "b": "consumed"}


async def test_a_restart_causes_no_run(duly_world: Stage) -> None:
    """S8: due-ness is computed from the store."""
    play = await opened(duly_world)
    await play.deploy(flow(producers={PRODUCER: producer(publish("x"), every="1h")}))
    await play.publish("a")
    await play.drain()
    before = len(await play.runs())
    for _ in range(3):
        await play.restart()
        await play.drain()
    assert len(await play.runs()) == before
    await play.pass_by(3600)
    assert len(await play.runs()) > before


# -- wakeAt ---------------------------------------------------------------------------------------


async def woken_in_s(stage: Stage, wake_at: Json, reserve: Json = NOTHING) -> float | None:
    """After how long a consumer is woken that asked for this, in seconds."""
    play = await opened(stage)
    answer: Json = {**reserve, "wake_at": wake_at}  # type: ignore[dict-item]
    prepare = (PEEK_ONE, When("pending", (Return(answer),), (Return(NOTHING),)))
    await play.deploy(flow({CONSUMER: consumer(prepare, None, None)}))
    await play.drain()
    await stage.advance(100)
    await play.publish("a")
    # One run asks for the wake; a reserving one leaves nothing pending, so no other follows.
    await play.drain()
    wake_at_ms = (await play.handler()).wake_at
    return None if wake_at_ms is None else (wake_at_ms - play.now) / 1000


@pytest.mark.parametrize("reserve", [NOTHING, RESERVE], ids=["empty", "reserving"])
@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("2026-01-01T00:10:00Z", 500),
        ("2026-01-01T00:10:00", 500),
        ("2026-01-01T01:10:00+01:00", 500),
        ("2020-01-01T00:00:00Z", 30),
        ("2026-01-01T00:01:41Z", 30),
        ("2030-01-01T00:00:00Z", 86_400),
        ("tomorrow", None),
        (1767225700, None),
        (None, None),
    ],
)
async def test_wake_at_is_kept_within_its_bounds(
    duly_world: Stage, asked: Json, seconds: float | None, reserve: Json
) -> None:
    """S6: 30 s to 24 h from the commit; what is no ISO time is ignored."""
    assert await woken_in_s(duly_world, asked, reserve) == seconds


async def test_a_wake_at_nobody_can_read_is_a_warning(duly_world: Stage) -> None:
    """S6: the run commits, and its author is told."""
    play = await opened(duly_world)
    answer: Json = {"reservations": [], "wake_at": "soon"}
    await play.deploy(flow({CONSUMER: consumer((Return(answer),), None, None)}))
    await play.drain()
    run = await play.run()
    assert (run.status, "soon" in (run.logs or "")) == (Status.COMMITTED, True)


async def test_a_wake_starts_its_consumer_once_and_outlives_a_restart(duly_world: Stage) -> None:
    """S6, S3: persisted, taken at its time, and cleared by a run that asks for none."""
    play = await opened(duly_world)
    answer: Json = {"reservations": [], "wake_at": "2026-01-01T01:00:00Z"}
    prepare = (When("state", (Return(NOTHING),), (Return(answer),)),)
    await play.deploy(flow({CONSUMER: consumer(prepare, None, (Return("asked"),))}))
    await play.drain()
    await play.restart()
    async with play.host.running():
        await duly_world.advance("1d")
    starts = [start for start, _ in await spans(play)]
    assert [(start - starts[0]) / 1000 for start in starts] == [0, 3600]
    assert (await play.handler()).wake_at is None


async def test_a_wake_takes_effect_at_the_commit_of_the_successor(duly_world: Stage) -> None:
    """S6, R5: clamped when it commits, not when it was asked for."""
    play = await opened(duly_world)
    answer: Json = {**RESERVE, "wake_at": "2026-01-01T00:00:40Z"}  # type: ignore[dict-item]
    prepare = (PEEK_ONE, When("pending", (Return(answer),), (Return(NOTHING),)))
    await play.deploy(flow({CONSUMER: consumer(prepare)}))
    await play.drain()
    await play.publish("a")
    await play.crash_during(commit_run="before")
    await duly_world.advance(1000)
    await play.drain()
    handler = await play.handler()
    assert handler.wake_at == play.now + 30_000


# -- Idle -----------------------------------------------------------------------------------------


async def test_a_day_of_a_thousand_idle_workflows_costs_nothing(duly_world: Stage) -> None:
    """S9: no statement of the store, no wake of the loop."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    await clone(play, 1000)
    await play.drain()
    async with play.host.running():
        await duly_world.advance("1m")
        seen = statements(play)
        before = (duly_world.env.wakes, duly_world.env.blocking_calls)
        await duly_world.advance("1d")
        after = (duly_world.env.wakes, duly_world.env.blocking_calls)
        # The one wake is the test's own.
        assert (seen, after[0] - before[0], after[1] - before[1]) == ([], 1, 0)
        await play.publish("b")
        await duly_world.loop.rest()
        assert await play.statuses() == {"a": "consumed", "b": "consumed"}
    assert {each.status for each in await play.runs(None)} == {Status.COMMITTED}


async def test_a_host_that_waits_for_a_time_wakes_at_that_time_only(duly_world: Stage) -> None:
    """S9: one look per planned time."""
    play = await opened(duly_world)
    await play.deploy(flow({}, {PRODUCER: producer(every="1d")}))
    await play.drain()
    async with play.host.running():
        await duly_world.advance("1m")
        seen = statements(play)
        await duly_world.advance("12h")
        assert seen == []
        await duly_world.advance("12h")
        assert len(seen) < 10
    assert len(await play.runs()) == 2


def memory_bytes() -> int:
    """What Python and SQLite hold, which does not depend on how fast the machine is."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] + apsw.memory_used()


async def test_ten_thousand_workflows_need_little_memory(duly_world: Stage) -> None:
    """S9: less than 20 MB more than a host without any."""
    play = await opened(duly_world)
    held = []
    for count in (0, 10_000):
        await clone(play, count, later_ms=86_400_000)
        await play.host.close()
        tracemalloc.start()
        try:
            before = memory_bytes()
            play.host = await duly_world.host(**play.options)
            async with play.host.running():
                await duly_world.advance("1h")
                held.append(memory_bytes() - before)
        finally:
            tracemalloc.stop()
    assert held[1] - held[0] < 20 * 1024 * 1024


# -- Fifty-one ------------------------------------------------------------------------------------

ODD = "odd one"
FEED: tuple[Move, ...] = (Call("publish", (IN,), {"title": "Tick", "payload": {"$now": True}}),)


def odd(kind: str) -> Any:
    """The one that is different: poisoned, running away, hanging, or waiting for long."""
    made = {PRODUCER: producer(*FEED, every="10m")}
    steps = {
        "poison": consumer(mutate=(Throw("poison"),)),
        "runaway": consumer((Exceed("10 s CPU time"),)),
        "hanging": consumer(mutate=(Call("odd.hang", (), {"text": "x"}),)),
        "backoff": consumer((Call("odd.look"), *PREPARE)),
    }
    return flow({CONSUMER: steps[kind]}, made, name=ODD)


async def lives_of_fifty(stage: Stage, kind: str | None) -> list[tuple[str, int, int]]:
    """When the runs of fifty workflows began and committed, beside the odd one or without it."""
    stage.connector("odd", reads={"look": lambda: 1}, mutations={"hang": lambda text: 1})
    stage.plan("odd.hang", *[Fault.TIMEOUT_BEFORE] * 50)
    stage.plan("odd.look", *[Fault.RATE_LIMIT(300)] * 50)
    play = await opened(stage)
    names = [f"flow {each:02}" for each in range(50)]
    for name in names:
        made = {PRODUCER: producer(*FEED, every="10m")}
        await play.deploy(flow({CONSUMER: consumer(PREPARE, MUTATE, None)}, made, name=name))
    if kind is not None:
        await play.deploy(odd(kind))
    async with play.host.running():
        await stage.advance("21m")
    workflows = {await play.workflow_id(name): name for name in names}
    if kind is not None:
        assert (await play.runs(ODD))[-1].status != Status.COMMITTED
    return sorted(
        (workflows[each.workflow_id], each.created_at, each.updated_at)
        for each in await play.runs(None)
        if each.workflow_id in workflows
    )


@pytest.mark.parametrize("kind", ["poison", "runaway", "hanging", "backoff"])
def test_fifty_workflows_do_not_notice_an_odd_one(tmp_path: Path, kind: str) -> None:
    """S1, F6, X2: run starts and commits are the same with it and without it."""
    lives = {}
    for beside in (None, kind):
        folder = tmp_path / str(beside)
        folder.mkdir()
        with open_stage(folder) as stage:
            lives[beside] = stage.run(lives_of_fifty(stage, beside))
    assert len(lives[None]) >= 300
    # Not the lists themselves: to show how two long ones differ takes longer than all tests.
    assert (lives[kind] == lives[None]) is True
