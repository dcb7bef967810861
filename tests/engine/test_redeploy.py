"""A new version in the middle of things: what runs on, what follows, and nothing is stranded."""

from __future__ import annotations

import pytest

from duly.rules.word import Kind, Status
from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    DECLINE,
    IN,
    NAME,
    NEXT,
    NOTHING,
    OUT,
    PREPARE,
    PRODUCER,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
)
from verification.moves import Call, Return, Throw, When, ref

SLOW_S = 20


async def slow_call(stage: Stage) -> Play:
    """A run whose call is out for a while."""
    play = await opened(stage)
    plan(stage, Fault.SLOW(SLOW_S))
    await play.deploy(flow())
    await play.drain()
    await play.publish("a")
    return play


# -- Versions -------------------------------------------------------------------------------------


async def test_a_run_pins_its_version(duly_world: Stage) -> None:
    """W8: a deploy while its call is out changes nothing about what its next does."""
    play = await slow_call(duly_world)
    async with play.host.running():
        await duly_world.advance(5)
        await play.deploy(flow({CONSUMER: consumer(then=(Return("new"),))}))
        await duly_world.advance(60)
    ran = next(each for each in await play.runs() if each.row)
    assert (ran.version, ran.status) == ("1.0", Status.COMMITTED)
    assert list(await play.payloads()) == ["a"]


async def test_a_successor_uses_the_active_version(duly_world: Stage) -> None:
    """W8, R5: passing trouble under the old version ends under the new one."""
    play = await opened(duly_world)
    plan(duly_world, Fault.NOT_SENT)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await play.deploy(flow({CONSUMER: consumer(then=None)}))
    await play.pass_by(12)
    heir = next(each for each in await play.runs() if each.retry_of)
    assert (heir.version, await play.payloads()) == ("2.0", {})
    assert await play.is_clean()


async def test_a_successor_after_the_mutation_runs_the_active_versions_next(
    duly_world: Stage,
) -> None:
    """R5, W8: with the inputs and the result of the run before."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(then=(Throw("old"),))}))
    await play.publish("a")
    await play.drain()
    await play.deploy(flow({CONSUMER: consumer(mutate=(Throw("not again"),))}))
    await play.drain()
    heir = next(each for each in await play.runs() if each.retry_of)
    assert (heir.version, heir.status) == ("2.0", Status.COMMITTED)
    assert await play.payloads() == {"a": {"status": "applied", "result": {"row": 1}}}


async def test_a_failed_logic_run_gets_its_successor_with_the_deploy(duly_world: Stage) -> None:
    """F3, W8: in the same transaction; the event is worked on by the new version."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(mutate=(Throw("no"),))}))
    await play.publish("a")
    await play.drain()
    stopped = await play.run()
    await play.deploy(flow())
    heir = await play.run()
    assert (heir.retry_of, heir.version, heir.status) == (stopped.id, "2.0", Status.ACTIVE)
    await play.drain()
    assert (await play.statuses(), await play.is_clean()) == ({"a": "consumed"}, True)


@pytest.mark.parametrize("fault", [Fault.NOT_SENT, Fault.CRASH_AFTER])
async def test_an_open_run_of_a_removed_handler_is_finished_with_its_own_version(
    duly_world: Stage, fault: Fault
) -> None:
    """W9, R5: before anything else of the workflow runs."""
    play = await opened(duly_world)
    plan(duly_world, fault)
    await play.deploy(flow())
    await play.publish("a")
    if fault is Fault.CRASH_AFTER:
        await duly_world.crash(play.host, play.host.drain())
        play.host = await duly_world.host(**play.options)
    else:
        await play.drain()
    await play.deploy(flow({"other": consumer(subscribe=(OUT,), prepare=(Return(NOTHING),))}))
    await play.pass_by(12)
    heir = next(each for each in await play.runs() if each.retry_of)
    assert (heir.handler, heir.version, heir.status) == (CONSUMER, "1.0", Status.COMMITTED)
    assert (await play.statuses(), duly_world.count()) == ({"a": "consumed"}, 1)
    assert await play.is_clean()


async def test_an_orphaned_event_is_never_scheduled_and_can_be_skipped(duly_world: Stage) -> None:
    """W9: it stays visible; a handler that comes back finds it."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(DECLINE)}))
    await play.publish("a", "b")
    await play.drain()
    gone = flow({}, {PRODUCER: producer(publish("x", OUT))}, topics=(OUT,))
    await play.deploy(gone)
    await play.drain()
    runs = len(await play.runs())
    await play.pass_by(86_400)
    assert (await play.statuses(), len(await play.runs())) == (
        {"a": "pending", "b": "pending"},
        runs,
    )
    await play.host.skip(NAME, IN, "a")
    await play.deploy(flow())
    await play.drain()
    assert await play.statuses() == {"a": "skipped", "b": "consumed"}


# -- Times and state ------------------------------------------------------------------------------


@pytest.mark.parametrize(("every", "is_kept"), [("5m", True), ("10m", False)])
async def test_an_unchanged_schedule_keeps_its_time(
    duly_world: Stage, every: str, is_kept: bool
) -> None:
    """W9, S2: a changed one is due now; state stays with the handler's name."""
    play = await opened(duly_world)
    await play.deploy(flow({}, {PRODUCER: producer(Return({"n": 1}), every="5m")}))
    await play.drain()
    await duly_world.advance(60)
    again = producer(When("state.n", (Return({"n": 2}),)), every=every)
    await play.deploy(flow({}, {PRODUCER: again}))
    await play.drain()
    handler = await play.handler(PRODUCER)
    assert handler.next_run_at is not None
    wait_s = (handler.next_run_at - play.now) / 1000
    expected = (240, '{"n":1}') if is_kept else (600, '{"n":2}')
    assert (wait_s, handler.state) == expected


async def test_a_consumers_state_and_wake_outlive_a_deploy(duly_world: Stage) -> None:
    """W9: both stay with the handler's name."""
    play = await opened(duly_world)
    sleepy = (Return({"reservations": [], "wake_at": "2026-01-01T00:10:00Z"}),)
    await play.deploy(flow({CONSUMER: consumer(sleepy, None, (Return(1),))}))
    await play.drain()
    before = await play.handler()
    await play.host.pause(NAME)
    await play.deploy(flow({CONSUMER: consumer(sleepy, None, (Return(2),))}))
    after = await play.handler()
    assert (after.state, after.wake_at) == (before.state, before.wake_at)


# -- Nothing is stranded --------------------------------------------------------------------------


async def test_a_declined_event_is_looked_at_by_a_new_version(duly_world: Stage) -> None:
    """S3: a deploy strands nothing."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(DECLINE)}))
    await play.publish("a")
    await play.drain()
    await play.deploy(flow())
    await play.drain()
    assert await play.statuses() == {"a": "consumed"}


async def test_an_event_published_during_a_deploys_first_run_is_seen(duly_world: Stage) -> None:
    """S3: what came after the first peek counts as not seen."""
    play = await opened(duly_world)
    prepare = (Call("peek", (IN,), {"limit": 1}, into="pending"), Call("sheet.find"), *PREPARE[1:])
    duly_world.plan("sheet.find", Fault.SLOW(10))
    await play.deploy(flow({CONSUMER: consumer(prepare)}))
    async with play.host.running():
        await duly_world.advance(5)
        await play.publish("a")
        await duly_world.advance(10)
    assert await play.statuses() == {"a": "consumed"}


async def test_a_replaced_event_is_looked_at_again(duly_world: Stage) -> None:
    """S3, T5: a replace strands nothing."""
    play = await opened(duly_world)
    picky = (
        Call("peek", (IN,), {"limit": 1}, into="pending"),
        When("pending.0.payload", PREPARE[1:], (Return(NOTHING),)),
    )
    await play.deploy(flow({CONSUMER: consumer(picky)}))
    await play.publish("a", payload=0)
    await play.drain()
    assert await play.statuses() == {"a": "pending"}
    await play.publish("a", payload="now")
    await play.drain()
    assert await play.statuses() == {"a": "consumed"}


async def test_a_released_event_is_looked_at_again(duly_world: Stage) -> None:
    """S3, R9: a release strands nothing."""
    play = await opened(duly_world)
    plan(duly_world, Fault.REFUSE)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await play.host.abandon((await play.run()).id)
    await play.drain()
    assert await play.statuses() == {"a": "consumed"}


async def test_a_skip_lets_a_consumer_look_at_the_rest(duly_world: Stage) -> None:
    """S3, U3: a consumer that waited behind the skipped event looks again."""
    play = await opened(duly_world)
    picky = (
        Call("peek", (IN,), {"limit": 1}, into="pending"),
        When("pending.0.payload.ready", PREPARE[1:], (Return(NOTHING),)),
    )
    await play.deploy(flow({CONSUMER: consumer(picky)}))
    await play.publish("first", payload={"ready": False})
    await play.publish("second", payload={"ready": True})
    await play.drain()
    assert await play.statuses() == {"first": "pending", "second": "pending"}
    await play.host.skip(NAME, IN, "first")
    await play.drain()
    assert await play.statuses() == {"first": "skipped", "second": "consumed"}


async def test_a_new_subscription_delivers_the_backlog(duly_world: Stage) -> None:
    """W9, S3: a topic with old events gains a consumer."""
    play = await opened(duly_world)
    made = producer(publish("a", OUT), publish("b", OUT))
    await play.deploy(flow({}, {PRODUCER: made}))
    await play.drain()
    reader = consumer(
        (
            Call("peek", (OUT,), {"limit": 1}, into="pending"),
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
    await play.deploy(flow({"reader": reader}, {PRODUCER: made}))
    await play.drain()
    assert await play.statuses(OUT) == {"a": "consumed", "b": "consumed"}


async def test_a_consumer_that_also_subscribes_to_an_old_topic_gets_its_backlog(
    duly_world: Stage,
) -> None:
    """W9, S3: a consumer that was there before gains a topic with old events."""
    play = await opened(duly_world)
    made = {PRODUCER: producer(publish("old", OUT))}
    await play.deploy(flow({CONSUMER: consumer(then=None)}, made))
    await play.drain()
    both = (
        Call("peek", (OUT,), into="found"),
        When(
            "found",
            (Return({"reservations": [{"topic": OUT, "ids": ref("found.*.id")}]}),),
            PREPARE,
        ),
    )
    await play.deploy(flow({CONSUMER: consumer(both, None, None, (IN, OUT))}, made))
    await play.drain()
    assert await play.statuses(OUT) == {"old": "consumed"}


async def test_a_consumer_that_declines_runs_once_per_change_and_once_after_a_deploy(
    duly_world: Stage,
) -> None:
    """S3, S8: neither time nor a restart starts it."""
    play = await opened(duly_world)
    declining = flow({CONSUMER: consumer(DECLINE, None, NEXT)})
    await play.deploy(declining)
    await play.drain()
    counts = [len(await play.runs())]
    for message_id in ("a", "b"):
        await play.publish(message_id)
        await play.drain()
        counts.append(len(await play.runs()))
    await play.pass_by(86_400)
    await play.restart()
    await play.drain()
    counts.append(len(await play.runs()))
    await play.deploy(declining)
    await play.drain()
    counts.append(len(await play.runs()))
    assert counts == [1, 2, 3, 3, 4]
    assert {each.kind for each in await play.runs()} == {Kind.CONSUMER}
