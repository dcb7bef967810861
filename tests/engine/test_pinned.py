"""What a run pins: its state, its clock and its chance, for itself and all that follow (C)."""

from __future__ import annotations

from typing import Any

from duly.rules.value import Json, decode
from duly.rules.word import Status
from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    NOTHING,
    OUT,
    PEEK_ONE,
    PRODUCER,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
)
from verification.moves import (
    NOW,
    RANDOM,
    Call,
    Let,
    Move,
    Return,
    Throw,
    When,
    ref,
)


async def acting(stage: Stage, *ids: str, play: Play | None = None, **steps: Any) -> Play:
    """Deploy a consumer of these steps, publish events to it and let it act."""
    play = play or await opened(stage)
    await play.deploy(flow({CONSUMER: consumer(**steps)}))
    await play.publish(*(ids or ("a",)))
    await play.drain()
    return play


async def test_handlers_share_no_state(duly_world: Stage) -> None:
    """C1: state belongs to the handler's name, and nothing survives between steps."""
    play = await opened(duly_world)
    steps = consumer(
        (PEEK_ONE, Let("left", 1), Return(NOTHING)), then=(When("left", (Throw("left"),)),)
    )
    other = consumer((Return(NOTHING),), None, (Return({"of": "other"}),), (OUT,))
    await play.deploy(flow({CONSUMER: steps, "other": other}, {PRODUCER: producer(Return(1))}))
    await play.drain()
    states = [(await play.handler(each)).state for each in (CONSUMER, "other", PRODUCER)]
    assert states == [None, '{"of":"other"}', "1"]


async def test_next_gets_the_state_prepare_got(duly_world: Stage) -> None:
    """C12: a successor that does not start fresh is given the same snapshot."""
    remember = (When("state", (Return([ref("state")]),), (Return("first"),)),)
    play = await acting(duly_world, "a", then=remember)
    assert (await play.handler()).state == '"first"'
    await play.publish("b")
    await play.crash_during(commit_run="before")
    await play.drain()
    assert (await play.handler()).state == '["first"]'
    heir = await play.run()
    assert (heir.retry_of is not None, heir.state_before) == (True, '"first"')


SEE: tuple[Move, ...] = (Call(TOOL, (), {"text": [NOW, RANDOM, RANDOM]}),)
KEEP: tuple[Move, ...] = (When("prepared.reservations", (Return([NOW, RANDOM]),)),)


async def test_the_clock_stands_still_in_mutate_and_next(duly_world: Stage) -> None:
    """C13: both see the moment the prepare result was stored; chance differs by step."""
    play = await opened(duly_world)
    plan(duly_world, Fault.SLOW(20))
    await acting(duly_world, play=play, mutate=SEE, then=KEEP)
    run = next(each for each in await play.runs() if each.prepared is not None and each.row)
    (effect,) = duly_world.effects
    seen: Any = effect.args["text"]
    at, *dice = seen
    then: Any = decode((await play.handler()).state or "")
    assert (at, then[0]) == (run.clock_at, run.clock_at)
    assert then[1] not in dice
    assert play.now - (run.clock_at or 0) >= 20_000


async def test_clock_and_chance_are_the_same_after_a_successor_and_a_deploy(
    duly_world: Stage,
) -> None:
    """C13: what next saw before the crash is what it sees after it, under another version too."""
    play = await opened(duly_world)
    await acting(duly_world, play=play, then=(Throw("first"),))
    first = await play.run()
    await duly_world.advance(100)
    await play.deploy(flow({CONSUMER: consumer(then=KEEP)}))
    await play.crash_during(commit_run="before")
    await play.drain()
    heir = next(each for each in reversed(await play.runs()) if each.chain == first.chain)
    one: Any = decode((await play.handler()).state or "")
    assert (heir.chain, heir.seed, heir.clock_at) == (first.chain, first.seed, first.clock_at)
    assert one[0] == first.clock_at
    # The same chain elsewhere throws the same dice: they depend on nothing but it and the step.
    assert heir.version != first.version
    assert one[1] == dice_of(first.chain)


def dice_of(chain: str) -> float:
    from duly.config import Limits
    from duly.rules.access import Step
    from duly.rules.prepared import seed
    from duly.sandbox.base import World
    from verification.moves import Context

    return Context(World(0, True, seed(chain, Step.NEXT)), Limits()).throw_dice()


async def test_mutate_run_again_sees_the_same_clock_and_chance(duly_world: Stage) -> None:
    """C13, F4: a run that waited for its grant proposes the very call it would have made."""
    play = await opened(duly_world)
    workflow_id = await play.deploy(flow({CONSUMER: consumer(mutate=SEE)}), grant=False)
    await play.publish("a")
    await play.drain()
    run = await play.run()
    assert (run.status, run.waits_on, await play.rows()) == (Status.PAUSED_APPROVAL, TOOL, [])
    await duly_world.advance(100)
    action = play.desk.action("me", "grant")
    await play.store.grant(workflow_id, TOOL, action=action, now=play.now)
    await play.drain()
    assert ((await play.run()).id, (await play.run()).status) == (run.id, Status.COMMITTED)
    (effect,) = duly_world.effects
    seen: Any = effect.args["text"]
    assert seen[0] == run.clock_at


async def test_time_is_free_in_prepare(duly_world: Stage) -> None:
    """C13: prepare sees the time at which it runs."""
    data: Json = {"reservations": [], "data": {"at": NOW}}
    play = await opened(duly_world)
    then = (Return(ref("prepared.data.at")),)
    await play.deploy(flow({CONSUMER: consumer((Return(data),), None, then)}))
    await play.drain()
    await duly_world.advance(100)
    await play.deploy(flow({CONSUMER: consumer((Return(data),), None, then)}))
    await play.drain()
    assert (await play.handler()).state == str(play.now)
