"""Topics through the engine: what a script sees of events, and where each came from (T)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from duly.rules.value import Json, decode
from duly.rules.word import Kind, Status
from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    IN,
    NAME,
    NOTHING,
    OUT,
    PRODUCER,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
)
from verification.moves import Call, Move, Return, ref


def looking(*calls: Move, keep: str = "seen") -> dict[str, Any]:
    """A consumer that looks and keeps what it saw as its state."""
    data: Json = {"reservations": [], "data": {"seen": ref(keep)}}
    return consumer((*calls, Return(data)), None, (Return(ref("prepared.data.seen")),))


async def see(play: Play, *calls: Move, keep: str = "seen") -> Any:
    """What a consumer sees that makes these calls in its prepare."""
    await play.deploy(flow({CONSUMER: looking(*calls, keep=keep)}))
    await play.drain()
    return decode((await play.handler()).state or "null")


async def holding(stage: Stage, *ids: str) -> Play:
    """A workflow with pending events that nobody takes."""
    play = await opened(stage)
    await play.deploy(flow({CONSUMER: consumer((Return(NOTHING),), None, None)}))
    await play.publish(*ids)
    await play.drain()
    return play


# -- peek and getByIds ----------------------------------------------------------------------------


async def test_peek_shows_pending_events_in_their_order(duly_world: Stage) -> None:
    """T6, T7: by number, at most as many as asked for, each with exactly its own fields."""
    play = await holding(duly_world, "b", "a", "c")
    seen = await see(play, Call("peek", (IN,), {"limit": 2}, into="seen"))
    assert [each["message_id"] for each in seen] == ["b", "a"]
    assert sorted(seen[0]) == ["id", "message_id", "payload", "title", "topic"]
    after = await see(play, Call("peek", (IN,), {"after": "b"}, into="seen"))
    assert [each["id"] for each in after] == ["a", "c"]


@pytest.mark.parametrize("limit", [1, 1000])
async def test_a_limit_within_bounds_is_taken(duly_world: Stage, limit: int) -> None:
    """T6: one and a thousand are the bounds."""
    play = await holding(duly_world, "a", "b")
    seen = await see(play, Call("peek", (IN,), {"limit": limit}, into="seen"))
    assert len(seen) == min(limit, 2)


@pytest.mark.parametrize("named", [{"limit": 0}, {"limit": 1001}, {"after": "nobody"}, {"x": 1}])
async def test_a_peek_out_of_bounds_is_a_logic_failure(
    duly_world: Stage, named: dict[str, Json]
) -> None:
    """T6: a limit outside 1 to 1000, an unknown place to begin, an unknown word."""
    play = await holding(duly_world, "a")
    await see(play, Call("peek", (IN,), named, into="seen"))
    assert (await play.run()).status == Status.FAILED_LOGIC


@pytest.mark.parametrize(
    "call",
    [Call("get_by_ids", (IN, ["a"], ["b"])), Call("get_by_ids", (IN, ["a"]), {"ids": ["b"]})],
    ids=["one more", "said twice"],
)
async def test_an_argument_too_many_is_a_logic_failure(duly_world: Stage, call: Call) -> None:
    """T7: ids that would be overlooked are no shorter answer."""
    play = await holding(duly_world, "a", "b")
    await see(play, call)
    assert (await play.run()).status == Status.FAILED_LOGIC
    assert "at most 2 arguments" in (await play.error())["message"]


@pytest.mark.parametrize("call", [Call("peek", (OUT,)), Call("get_by_ids", (OUT, ["a"]))])
async def test_a_topic_not_subscribed_to_is_not_shown(duly_world: Stage, call: Call) -> None:
    """T7: a logic failure that names the topic."""
    play = await holding(duly_world, "a")
    await play.deploy(flow({CONSUMER: consumer((call, Return(NOTHING)), None, None)}))
    await play.drain()
    assert (await play.run()).status == Status.FAILED_LOGIC
    assert OUT in (await play.error())["message"]


async def test_get_by_ids_shows_events_of_any_status_and_leaves_out_unknown(
    duly_world: Stage,
) -> None:
    """T7: consumed, skipped and pending ones, in one list."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(mutate=None, then=None)}))
    await play.publish("done")
    await play.drain()
    await play.deploy(flow({CONSUMER: consumer((Return(NOTHING),), None, None)}))
    await play.publish("skipped", "waiting")
    await play.host.skip(NAME, IN, "skipped")
    ids: Json = ["done", "nobody", "skipped", "waiting"]
    seen = await see(play, Call("get_by_ids", (IN, ids), into="seen"))
    assert sorted(each["id"] for each in seen) == ["done", "skipped", "waiting"]


# -- Publishing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        publish("x", "elsewhere"),
        publish("x", OUT, more=1),
        Call("publish", (OUT,), {"message_id": "x"}),
        Call("publish", (OUT,), {"message_id": "x", "title": "two\nlines"}),
        publish("x" * 501, OUT),
    ],
    ids=["undeclared", "unknown field", "no title", "control character", "long id"],
)
async def test_a_publish_that_breaks_a_rule_is_a_logic_failure(
    duly_world: Stage, call: Call
) -> None:
    """T3, T7, W4: and nothing of the run is published."""
    play = await opened(duly_world)
    await play.deploy(flow({}, {PRODUCER: producer(publish("fine", OUT), call)}))
    await play.drain()
    assert ((await play.run()).status, await play.events(OUT)) == (Status.FAILED_LOGIC, [])


async def test_a_missing_message_id_is_the_same_every_time(duly_world: Stage) -> None:
    """T3, T5: derived from topic and payload, so a second run publishes the same event."""
    play = await opened(duly_world)
    call = Call("publish", (OUT,), {"title": "One", "payload": {"b": 1, "a": [2]}})
    await play.deploy(flow({}, {PRODUCER: producer(call, every="5m")}))
    await play.drain()
    await play.pass_by(300)
    assert (len(await play.runs()), len(await play.events(OUT))) == (2, 1)


async def test_other_content_replaces_a_pending_event(duly_world: Stage) -> None:
    """T5, S3: same number, and the consumer that declined it looks again."""
    play = await holding(duly_world, "a")
    (before,) = await play.events()
    runs = len(await play.runs())
    await play.publish("a", payload="new")
    await play.drain()
    (after,) = await play.events()
    assert (after.seq, after.body, after.content != before.content) == (before.seq, '"new"', True)
    assert len(await play.runs()) == runs + 1


async def test_identical_content_wakes_nobody(duly_world: Stage) -> None:
    """T5, S3: nothing changes, no run starts."""
    play = await holding(duly_world, "a")
    runs = len(await play.runs())
    await play.publish("a")
    await play.drain()
    assert len(await play.runs()) == runs


async def test_content_for_a_reserved_event_waits_for_its_release(duly_world: Stage) -> None:
    """T5: kept beside it, and it takes effect when the run is abandoned."""
    play = await opened(duly_world)
    plan(duly_world, Fault.REFUSE)
    await play.deploy(flow())
    await play.publish("a", payload="old")
    await play.drain()
    await play.publish("a", payload="new")
    assert [each.body for each in await play.events()] == ['"old"']
    await play.host.abandon((await play.run()).id)
    await play.drain()
    assert [each.args["text"] for each in duly_world.effects] == ["new"]
    assert await play.is_clean()


async def test_content_for_a_reserved_event_that_is_consumed_is_dropped(duly_world: Stage) -> None:
    """T5: the event ends with the content it was reserved with."""
    play = await opened(duly_world)
    plan(duly_world, Fault.SLOW(10))
    await play.deploy(flow())
    await play.publish("a", payload="old")
    async with play.host.running():
        await duly_world.advance(5)
        await play.publish("a", payload="new")
        await duly_world.advance(60)
    assert [(each.body, each.status) for each in await play.events()] == [('"old"', "consumed")]
    assert duly_world.count() == 1


async def test_a_consumed_event_never_changes(duly_world: Stage) -> None:
    """T5, T4: publishing it again is counted on it, and does nothing else."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    (before,) = await play.events()
    await play.publish("a", payload="new")
    await play.drain()
    (after,) = await play.events()
    assert (before.dropped, after.dropped) == (0, 1)
    assert (replace(after, dropped=0), duly_world.count()) == (before, 1)


async def test_other_content_for_a_finished_event_is_counted_and_warned_of(
    duly_world: Stage,
) -> None:
    """T5, R1: by the run that published it, in its own log; the same content says nothing."""
    play = await opened(duly_world)
    ids = ["a", "b", "c", "d"]
    for body, warned in (("old", 0), ("old", 0), ("new", 1)):
        moves = [publish(each, payload=body) for each in ids]
        await play.deploy(flow(producers={PRODUCER: producer(*moves)}))
        await play.host.run_now("flow", by="me")
        await play.drain()
        (run, *_) = [each for each in await play.runs() if each.kind == Kind.PRODUCER][::-1]
        lines = await play.host.logs(run.id)
        assert [line.source for line in lines] == ["duly"] * warned, body
    assert lines[0].text == (
        'publish: other content for finished events was not taken: "a" of in, "b" of in, "c" of in'
        " and 1 more. A finished event never changes; give what is new a message id of its own."
    )
    assert set((await play.statuses()).values()) == {"consumed"}
    assert {each.body for each in await play.events()} == {'"old"'}
    assert duly_world.count() == 4


async def test_the_same_topic_in_two_workflows_is_two_topics(duly_world: Stage) -> None:
    """T1: the same message id is another event there."""
    play = await opened(duly_world)
    for name in ("one", "two"):
        await play.deploy(flow(name=name))
    await play.publish("a", name="one")
    await play.drain()
    assert (await play.statuses(name="one"), await play.statuses(name="two")) == (
        {"a": "consumed"},
        {},
    )


async def test_a_payload_makes_the_round_trip_unchanged(duly_world: Stage) -> None:
    """T8: through publish, peek, data, the tool and the result."""
    odd: Json = {"é": [0.1, -0, 2**53 - 1, None, True, "\u2028"], "": {"a": []}}
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a", payload=odd)
    await play.drain()
    assert [each.args["text"] for each in duly_world.effects] == [odd]


# -- Causality ------------------------------------------------------------------------------------

BOTH: Json = {"reservations": [{"topic": IN, "ids": ref("pending.*.id")}]}
PAIR: tuple[Move, ...] = (Call("peek", (IN,), into="pending"), Return(BOTH))
TAKE: tuple[Move, ...] = (
    Call("peek", ("mid",), into="pending"),
    Return({"reservations": [{"topic": "mid", "ids": ref("pending.*.id")}], "data": {"text": "x"}}),
)


def chain(*then: Move) -> Any:
    """Two consumers in a row: the first joins what it finds, the second adds a row."""
    first = consumer(PAIR, None, then or (publish("joined", "mid"),))
    second = consumer(TAKE, then=(publish("end", OUT),), subscribe=("mid",))
    return flow({"join": first, "file": second}, topics=(IN, "mid", OUT))


async def causes(play: Play, topic: str) -> set[tuple[str, str]]:
    (event,) = await play.events(topic)
    return set(await play.store.list_causes(await play.workflow_id(), event.seq))


async def test_causes_are_inherited_through_two_consumers(duly_world: Stage) -> None:
    """T9: what comes out goes back to all that went in, and the mutation to its inputs."""
    play = await opened(duly_world)
    await play.deploy(chain())
    await play.host.pause(NAME)
    await play.publish("a", "b")
    await play.host.resume(NAME)
    await play.drain()
    roots = {(IN, "a"), (IN, "b")}
    assert (await causes(play, "mid"), await causes(play, OUT)) == (roots, roots)
    (row,) = await play.rows()
    inputs = await play.store.list_inputs(row.run_id)
    assert [each.message_id for each in inputs] == ["joined"]


async def test_causes_are_inherited_when_a_successor_publishes(duly_world: Stage) -> None:
    """T9, R5: a crash between the mutation and the commit changes nothing about them."""
    play = await opened(duly_world)
    plan(duly_world, Fault.CRASH_AFTER)
    await play.deploy(chain())
    await play.host.pause(NAME)
    await play.publish("a", "b")
    await play.host.resume(NAME)
    await duly_world.crash(play.host, play.host.drain())
    play.host = await duly_world.host(**play.options)
    await play.drain()
    assert await causes(play, OUT) == {(IN, "a"), (IN, "b")}
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_what_nothing_was_reserved_for_is_its_own_root(duly_world: Stage) -> None:
    """T9: an event of a run that reserved nothing, like a producer's, has no cause but itself."""
    play = await opened(duly_world)
    lonely = consumer((Return(NOTHING),), None, (publish("from nothing", OUT),))
    await play.deploy(flow({CONSUMER: lonely}))
    await play.drain()
    assert await causes(play, OUT) <= {(OUT, "from nothing")}
