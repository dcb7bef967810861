"""A version that differs only a little from the one before is seen to differ (F3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import duly
from duly.config import Policy, WorkflowPolicy
from duly.engine.replay import replay
from duly.rules.replay import Replay
from duly.rules.value import Json
from duly.testing import Stage
from tests.engine.repairing import Smith, active, broken, played, repairing
from tests.engine.stand import (
    CONSUMER,
    IN,
    NAME,
    NOTHING,
    OUT,
    PEEK_ONE,
    RESERVE,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    publish,
)
from verification.moves import Call, Return, Wait, When, ref
from verification.scripted import Scripted

__all__ = ["played"]

PEEK_ALL = Call("peek", (IN,), {}, into="pending")
TEXTS: dict[str, Json] = {
    "data": {"text": ref("pending.*.payload")},
    "ui": {"title": "Add them"},
}


def digest(*taken: Json) -> Scripted:
    """A consumer that writes all that waits into one row, and reserves what is said."""
    reserve: Json = {**TEXTS, "reservations": [{"topic": IN, "ids": [*taken]}]}
    if not taken:
        reserve = {**TEXTS, "reservations": [{"topic": IN, "ids": ref("pending.*.id")}]}
    prepare = (PEEK_ALL, When("pending", (Return(reserve),), (Return(NOTHING),)))
    return flow({CONSUMER: consumer(prepare=prepare)})


async def what_if(play: Play, script: Scripted, **options: Any) -> Replay:
    parts = play.desk.parts
    loaded = await parts.sandbox.load(script.source(), parts.outside.catalog)
    return await replay(parts, await play.workflow_id(), loaded, **options)


# -- What is taken ------------------------------------------------------------------------------


async def test_a_version_that_leaves_events_lying_it_worked_on_is_different(
    duly_world: Stage,
) -> None:
    """F3, L7: the same change for fewer events is made a second time for the others."""
    play = await opened(duly_world)
    await play.deploy(digest())
    await play.publish("a", "b")
    await play.drain()
    assert await what_if(play, digest()) == Replay(1)
    (difference,) = (await what_if(play, digest(ref("pending.0.id")))).differences
    assert difference.problem == "it would take 1 of the 2 events that run took."


@pytest.mark.usefixtures("played")
async def test_a_repair_that_would_leave_events_lying_is_not_adopted(duly_world: Stage) -> None:
    """F3, L7: what was written for two events is not written again for the second."""
    play = await repairing(duly_world, Smith(digest(ref("pending.0.id")).source()))
    await play.deploy(digest())
    await play.publish("a", "b")
    await play.drain()
    await play.deploy(broken())
    await play.publish("c", "d")
    await play.drain()
    assert (await active(play), duly_world.count()) == ("2.0", 1)


# -- What was read ------------------------------------------------------------------------------


class Oracle(duly.Connector):
    """It never says the same thing twice, and may take its time."""

    name = "oracle"

    def __init__(self, *answers: tuple[str, float]) -> None:
        self.answers = list(answers)

    @duly.read(by_id=True)
    async def ask(self, about: str) -> str:
        said, after_s = self.answers.pop(0)
        await asyncio.sleep(after_s)
        return said


def ask(into: str, **more: Any) -> Call:
    return Call("oracle.ask", (), {"about": "it"}, into=into, **more)


async def test_prepare_and_mutate_each_hear_their_own_answers_again(duly_world: Stage) -> None:
    """F3, C2: of a question both steps asked, prepare was answered first."""
    policy = Policy(workflows={NAME: WorkflowPolicy(mutate_reads="by_id")})
    oracle = Oracle(("before", 0), ("after", 0))
    play = await opened(duly_world, policy=policy, connectors=(oracle,))
    heard: Json = {**RESERVE, "data": {"text": ref("said")}}  # type: ignore[dict-item]
    prepare = (PEEK_ONE, When("pending", (ask("said"), Return(heard)), (Return(NOTHING),)))

    def writing(where: str) -> Scripted:
        mutate = (ask("said"), Call(TOOL, (), {"text": ref(where)}))
        return flow({CONSUMER: consumer(prepare=prepare, mutate=mutate)})

    await play.deploy(writing("said"))
    await play.publish("a")
    await play.drain()
    assert duly_world.effects[0].args == {"text": "after"}
    assert await what_if(play, writing("said")) == Replay(1)
    (difference,) = (await what_if(play, writing("prepared.data.text"))).differences
    assert difference.after is not None
    assert difference.after.args == {"text": "before"}


async def test_questions_asked_together_are_answered_again_as_they_were_asked(
    duly_world: Stage,
) -> None:
    """F3, C8: whichever answer came first then."""
    oracle = Oracle(("slow", 5), ("fast", 1))
    play = await opened(duly_world, connectors=(oracle,))
    both: Json = {**RESERVE, "data": {"text": [ref("u"), ref("v")]}}  # type: ignore[dict-item]
    asks = (ask("u", waits=False), ask("v", waits=False), Wait())
    prepare = (PEEK_ONE, When("pending", (*asks, Return(both)), (Return(NOTHING),)))
    script = flow({CONSUMER: consumer(prepare=prepare)})
    await play.deploy(script)
    await play.publish("a")
    await play.drain()
    assert duly_world.effects[0].args == {"text": ["slow", "fast"]}
    assert await what_if(play, script) == Replay(1)


# -- Which runs ---------------------------------------------------------------------------------


def two(text: Json) -> Scripted:
    """One consumer that runs often and changes nothing, and one that seldom runs and does."""
    sorting = consumer(mutate=None, then=None)
    reserve: Json = {
        "reservations": [{"topic": OUT, "ids": ref("pending.*.id")}],
        "data": {"text": ref("pending.0.payload")},
        "ui": {"title": "Add a row"},
    }
    peek = Call("peek", (OUT,), {"limit": 1}, into="pending")
    prepare = (peek, When("pending", (Return(reserve),), (Return(NOTHING),)))
    filing = consumer(
        prepare=prepare, mutate=(Call(TOOL, (), {"text": text}),), then=None, subscribe=(OUT,)
    )
    return flow({"sort": sorting, CONSUMER: filing})


async def test_a_consumer_that_seldom_runs_is_tried_too(duly_world: Stage) -> None:
    """F3: of every consumer the newest runs, however often another one ran since."""
    play = await opened(duly_world)
    same = ref("prepared.data.text")
    await play.deploy(two(same))
    await play.publish("x", topic=OUT)
    await play.drain()
    await play.publish(*(str(number) for number in range(20)))
    await play.drain()
    assert (await what_if(play, two(same))).is_same
    (difference,) = (await what_if(play, two("another"))).differences
    assert difference.before is not None
    assert difference.before.args == {"text": "x"}


# -- What `next` publishes ----------------------------------------------------------------------


def telling(*publishes: Call) -> Scripted:
    """A consumer whose `next` publishes this."""
    return flow({CONSUMER: consumer(then=publishes)})


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ((publish("r", OUT, payload=2),), "it would publish “r” in out with other content."),
        ((publish("r", OUT, payload=1, title="New"),), "with other content."),
        (
            (publish("r", OUT, payload=1), publish("s", OUT)),
            "it would also publish “s” in out, which was not there.",
        ),
        ((), "it would no longer publish “r” in out"),
    ],
)
async def test_a_version_that_publishes_otherwise_is_different(
    duly_world: Stage, then: tuple[Call, ...], said: str
) -> None:
    """F3: what follows from an event is made of its content, and of there being one."""
    play = await opened(duly_world)
    before = telling(publish("r", OUT, payload=1))
    await play.deploy(before)
    await play.publish("a")
    await play.drain()
    assert await what_if(play, before) == Replay(1)
    (difference,) = (await what_if(play, telling(*then))).differences
    assert said in (difference.problem or "")


async def test_an_event_that_was_there_already_is_no_difference(duly_world: Stage) -> None:
    """F3, T5: a run is not asked again for what another one put out, or has replaced since."""
    play = await opened(duly_world)
    script = telling(publish("r", OUT, payload=ref("prepared.data.text")))
    await play.deploy(script)
    await play.publish("a", payload=1)
    await play.drain()
    await play.publish("b", payload=2)
    await play.drain()
    assert await what_if(play, script) == Replay(2)
