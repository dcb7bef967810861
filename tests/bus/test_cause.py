"""What caused an event, which correlation it belongs to, and how deep it stands (B12)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duly.errors import Invalid
from duly.host import Host
from duly.rules.delivery import DEPTH_MAX, Event
from duly.rules.source import Language, Source
from duly.testing import Stage
from tests.bus.stand import announce, listen, say
from tests.bus.test_ingress import hearing
from tests.engine.stand import IN, NAME, OUT, consumer, flow, opened
from verification.moves import Call, Return, Throw


async def test_what_a_handler_emits_names_its_cause_and_correlation(duly_world: Stage) -> None:
    """B12: one step deeper; a correlation of its own is kept."""
    host = await duly_world.host()

    async def answer(event: Event) -> None:
        await host.bus.emit("answer", {}, source="test")
        await host.bus.emit("answer", {}, source="test", correlation_id="own")

    listen(host, then=answer)
    await host.bus.emit("mail", {}, source="test", correlation_id="c1")
    await host.drain()
    first, second, third = reversed(await host.bus.journal())
    assert (first.causation_id, first.depth) == (None, 0)
    assert (second.causation_id, second.correlation_id, second.depth) == ("bus:1", "c1", 1)
    assert (third.causation_id, third.correlation_id, third.depth) == ("bus:1", "own", 1)


async def test_what_a_handler_defers_keeps_its_cause_when_it_fires(duly_world: Stage) -> None:
    """B12, B2: a short deferral stands deeper, one of a second or more begins a new chain."""
    host = await duly_world.host()

    async def remind(event: Event) -> None:
        await host.bus.schedule_at(0.999, "short", {}, source="test")
        await host.bus.schedule_at(1, "long", {}, source="test")

    listen(host, then=remind)
    await host.bus.emit("mail", {}, source="test", correlation_id="c1")
    async with host.running():
        await duly_world.advance(5)
    _, short, long = reversed(await host.bus.journal())
    assert (short.topic, short.depth, long.topic, long.depth) == ("short", 1, "long", 0)
    assert {each.causation_id for each in (short, long)} == {"bus:1"}
    assert {each.correlation_id for each in (short, long)} == {"c1"}


async def test_handlers_side_by_side_do_not_mix_their_causes(duly_world: Stage) -> None:
    """B12: each speaks for the event it handles, also from a task it started."""
    host = await duly_world.host()

    async def answer(event: Event) -> None:
        await duly_world.env.sleep(1)
        await asyncio.gather(say(host, "answer", to=event.id))

    for topic in ("a", "b", "c"):
        listen(host, topic, then=answer)
        await say(host, topic)
    await host.drain()
    answers = await host.bus.journal("answer")
    assert {each.causation_id: each.payload for each in answers} == {
        f"bus:{number}": {"to": number} for number in (1, 2, 3)
    }


async def test_what_is_emitted_outside_of_a_handler_has_no_cause(duly_world: Stage) -> None:
    """B12: also by a caller who drains, and after a handler ran."""
    host = await duly_world.host()
    listen(host)
    await say(host)
    await host.drain()
    await say(host)
    assert {(each.causation_id, each.depth) for each in await host.bus.journal()} == {(None, 0)}


@pytest.mark.parametrize("in_a_task", [False, True])
async def test_a_loop_is_stopped_past_its_depth(duly_world: Stage, in_a_task: bool) -> None:
    """B12: a hundred steps are a chain, one more is a loop, and the event says so."""
    host = await duly_world.host()

    async def echo(event: Event) -> None:
        if in_a_task:
            await asyncio.ensure_future(say(host))
        else:
            await say(host)

    ear = listen(host, then=echo)
    await say(host)
    await host.drain()
    assert len(ear.events) == DEPTH_MAX + 1
    last = (await host.bus.journal())[0]
    assert (last.depth, last.status) == (DEPTH_MAX + 1, "failed")
    assert last.error is not None
    assert "a loop" in last.error


async def test_a_chain_that_waits_a_second_goes_on_for_ever(duly_world: Stage) -> None:
    """B12: that is a habit, not a loop."""
    host = await duly_world.host()

    async def again(event: Event) -> None:
        await host.bus.schedule_at(1, "mail", {}, source="test")

    ear = listen(host, then=again)
    await say(host)
    async with host.running():
        await duly_world.advance(DEPTH_MAX * 3)
    assert len(ear.events) > DEPTH_MAX * 2


@pytest.mark.parametrize("takes", [True, False])
async def test_a_workflow_that_hears_of_its_own_commits_comes_to_an_end(
    duly_world: Stage, takes: bool
) -> None:
    """B12, S3: also if it looks at them and reserves none."""
    play = await opened(duly_world)
    silent = consumer(prepare=(Call("peek", (IN,)), Return({"reservations": []})), mutate=None)
    more: dict[str, Any] = {} if takes else {"consumers": {"file": silent}}
    await play.deploy(hearing((IN, "run.committed"), **more))
    await announce(play.host, "run.committed", "test")
    commit, commits = play.store.commit_run, 0

    async def counted(*args: Any, **kwargs: Any) -> bool:
        nonlocal commits
        commits += 1
        assert commits < 4 * DEPTH_MAX, "it goes on and on"
        return await commit(*args, **kwargs)

    play.store.commit_run = counted
    await play.drain()
    last = (await play.host.bus.journal("run.committed"))[0]
    assert (last.depth, last.status) == (2, "done")


async def test_what_came_before_a_workflow_last_looked_is_not_its_cause(duly_world: Stage) -> None:
    """B12, S3: what it left lying is no chain; only what is new to it is."""
    play = await opened(duly_world)
    silent = consumer(prepare=(Call("peek", (IN,)), Return({"reservations": []})), mutate=None)
    await play.deploy(hearing((IN, "mail"), (OUT, "news"), consumers={"file": silent}))
    await play.drain()
    id_1 = await say(play.host)
    await play.drain()
    assert (await play.host.bus.journal("run.committed"))[0].causation_id == f"bus:{id_1}"
    await play.deploy(hearing((IN, "mail"), (OUT, "news"), consumers={"file": silent}))
    await play.drain()
    assert (await play.host.bus.journal("run.committed"))[0].causation_id is None


# -- Through host.publish (B12) -----------------------------------------------------------------


async def test_what_a_handler_publishes_into_a_workflow_goes_on_its_chain(
    duly_world: Stage,
) -> None:
    """B12: what the run announces names the event that was handled, its correlation and depth."""
    play = await opened(duly_world)
    await play.deploy(flow())

    async def publish(event: Event) -> None:
        await play.publish("a")

    listen(play.host, then=publish)
    id_1 = await play.host.bus.emit("mail", {}, source="test", correlation_id="c1")
    await play.drain()
    (event,) = await play.events()
    assert event.created_by == "user"
    (told,) = await play.host.bus.journal("run.committed")
    assert (told.causation_id, told.correlation_id, told.depth) == (f"bus:{id_1}", "c1", 1)


async def test_a_handler_that_answers_a_commit_by_publishing_is_a_loop(duly_world: Stage) -> None:
    """B12: through a workflow, a handler and back it comes to its end."""
    play = await opened(duly_world)
    await play.deploy(flow())
    count = 0

    async def again(event: Event) -> None:
        nonlocal count
        count += 1
        assert count <= DEPTH_MAX + 2, "it goes on and on"
        await play.publish(f"m{count}")

    listen(play.host, "run.committed", then=again)
    await play.publish("m0")
    await play.drain()
    last = (await play.host.bus.journal("run.committed"))[0]
    assert (last.depth, last.status) == (DEPTH_MAX + 1, "failed")


async def test_a_handler_that_retries_whatever_has_failed_is_a_loop(duly_world: Stage) -> None:
    """B12: it comes to its end, and the run that failed last stays in sight."""
    play = await opened(duly_world)
    await play.deploy(flow(consumers={"file": consumer(prepare=(Throw("no"),))}))
    count = 0

    async def again(event: Event) -> None:
        nonlocal count
        count += 1
        assert count <= DEPTH_MAX + 2, "it goes on and on"
        await play.host.retry(event.payload["run"])

    listen(play.host, "run.failed", then=again)
    await play.publish("a")
    await play.drain()
    last, before = (await play.host.bus.journal("run.failed"))[:2]
    assert (last.depth, last.status) == (DEPTH_MAX + 1, "failed")
    assert (last.causation_id, before.status) == (f"bus:{before.id}", "done")
    assert [each.key for each in await play.host.attention()] == [f"{NAME}/open"]


async def test_what_a_handler_says_to_another_host_names_no_event_of_its_own(
    duly_world: Stage, tmp_path: Path
) -> None:
    """B12: there the number is another event's; correlation and depth go on."""
    host = await duly_world.host()
    async with Host(f"sqlite:///{tmp_path}/other.db", env=duly_world.env) as other:

        async def pass_on(event: Event) -> None:
            await other.bus.emit("news", {}, source="bridge")
            await host.bus.emit("news", {}, source="bridge")

        listen(host, then=pass_on)
        await say(host, "nobody")
        id_2 = await host.bus.emit("mail", {}, source="test", correlation_id="c1")
        await host.drain()
        (there,) = await other.bus.journal("news")
        assert (there.causation_id, there.correlation_id, there.depth) == (None, "c1", 1)
        (here,) = await host.bus.journal("news")
        assert (here.causation_id, here.correlation_id, here.depth) == (f"bus:{id_2}", "c1", 1)


async def test_what_a_handler_deploys_is_announced_as_caused_by_its_event(
    duly_world: Stage,
) -> None:
    """B12: a handler that deploys whenever something was deployed would not end otherwise."""
    host = await duly_world.host()

    async def deploy(event: Event) -> None:
        text = 'from duly import workflow\nflow = workflow("w", topics=["t"])\n'
        body = "@flow.producer()\nasync def poll(ctx, state):\n    return None\n"
        await host.deploy(Source(Language.PYTHON, text + body))

    listen(host, then=deploy)
    id_1 = await say(host)
    await host.drain()
    (told,) = await host.bus.journal("workflow.deployed")
    assert (told.causation_id, told.depth) == (f"bus:{id_1}", 1)


async def test_new_content_that_a_handler_brings_goes_on_its_chain_too(duly_world: Stage) -> None:
    """B12, T5: an event that was there before is replaced, and the run goes back to the handler."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.pause(NAME)
    await play.publish("a")

    async def replace(event: Event) -> None:
        await play.publish("a", payload={"other": 1})

    listen(play.host, then=replace)
    id_1 = await say(play.host)
    await play.drain()
    await play.host.resume(NAME)
    await play.drain()
    (told,) = await play.host.bus.journal("run.committed")
    assert (told.causation_id, told.depth) == (f"bus:{id_1}", 1)


@pytest.mark.parametrize("by", ["bus:1", "run_0192"])
async def test_nobody_publishes_under_the_name_of_the_bus_or_of_a_run(
    duly_world: Stage, by: str
) -> None:
    """B12, T2: a cause cannot be forged by a name that a caller gives."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await say(play.host)
    with pytest.raises(Invalid, match="by is"):
        await play.host.publish(NAME, IN, title="A", message_id="a", by=by)
    assert await play.events() == []
    await play.host.publish(NAME, IN, title="A", message_id="a", by="bus 1")
    await play.drain()
    assert (await play.host.bus.journal("run.committed"))[0].causation_id is None
