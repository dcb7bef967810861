"""A repair keeps the names of events, and tells what came of them as before (F3)."""

from __future__ import annotations

import pytest

from duly.testing import Stage
from tests.engine.repairing import Smith, active, played, repairing
from tests.engine.stand import (
    CONSUMER,
    IN,
    NEXT,
    OUT,
    PRODUCER,
    Play,
    consumer,
    flow,
    producer,
    publish,
)
from tests.spoken import told
from verification.moves import Call, Throw, ref
from verification.scripted import Scripted

__all__ = ["played"]

pytestmark = pytest.mark.usefixtures("played")


def polling(*names: object, is_broken: bool = False, query: str = "new") -> Scripted:
    """A workflow whose producer looks and publishes by these names."""
    look = Call("sheet.find", (), {"query": query}, into="found")
    work = consumer(mutate=(Throw("no"),)) if is_broken else consumer()
    poll = producer(look, *(publish(name) for name in names), every="5m")
    return flow({CONSUMER: work}, {PRODUCER: poll})


async def failed_later(stage: Stage, smith: Smith, *names: object) -> Play:
    """A workflow that has done its work for a while, until its consumer breaks."""
    play = await repairing(stage, smith)
    await play.deploy(polling(*names))
    await play.drain()
    await play.deploy(polling(*names, is_broken=True))
    await play.publish("later")
    await play.drain()
    return play


async def test_a_repair_that_names_what_was_published_otherwise_is_not_adopted(
    duly_world: Stage,
) -> None:
    """F3, T5: by another name it is another event, and its change would be made again."""
    smith = Smith(polling("mail-1", "m2").source())
    play = await failed_later(duly_world, smith, "m1", "m2")
    assert duly_world.count("sheet.append") == 2
    assert await active(play) == "2.0"
    assert f"“m1” in {IN}" in told(await play.run())
    await play.pass_by(600)
    await play.drain()
    assert duly_world.count("sheet.append") == 2


async def test_a_repair_that_keeps_the_names_is_adopted(duly_world: Stage) -> None:
    """F3: the producer is asked with what it read then, and nobody outside is."""
    smith = Smith(polling("m1", ref("found.0")).source())
    play = await failed_later(duly_world, smith, "m1", "found")
    assert await active(play) == "2.1"
    assert await play.statuses() == dict.fromkeys(("m1", "found", "later"), "consumed")
    assert duly_world.count("sheet.append") == 3


async def test_a_repair_whose_producer_looks_elsewhere_is_not_adopted(duly_world: Stage) -> None:
    """F3: what it would find there nobody knows."""
    smith = Smith(polling("m1", query="all").source())
    play = await failed_later(duly_world, smith, "m1")
    assert await active(play) == "2.0"
    assert "asks sheet.find for something" in told(await play.run())


async def test_of_a_producer_the_newest_run_that_published_is_kept(duly_world: Stage) -> None:
    """F3, S9: one recording each, however often it runs and however little it finds."""
    play = await repairing(duly_world, Smith())
    await play.deploy(polling("m1"))
    for _ in range(3):
        await play.drain()
        await play.pass_by(300)
    (kept,) = await play.store.list_produced(await play.workflow_id())
    runs = [run.id for run in await play.runs() if run.kind == "producer"]
    assert f'"run":"{max(runs)}"' in kept
    await play.deploy(polling())
    await play.drain()
    await play.pass_by(300)
    await play.drain()
    assert await play.store.list_produced(await play.workflow_id()) == (kept,)


@pytest.mark.parametrize(
    "after",
    [(), (Call("publish", (OUT,), {"message_id": "another", "title": "Told"}),)],
    ids=["nothing", "by another name"],
)
async def test_a_repair_that_no_longer_tells_what_it_told_is_not_adopted(
    duly_world: Stage, after: tuple[Call, ...]
) -> None:
    """F3, T9: a workflow that waits for what was told would wait in silence."""
    smith = Smith(flow({CONSUMER: consumer(then=after)}).source())
    play = await repairing(duly_world, smith)
    await play.deploy(flow())
    await play.publish("m1", "m2")
    await play.drain()
    assert set(await play.statuses(OUT)) == {"m1", "m2"}
    await play.deploy(flow({CONSUMER: consumer(mutate=(Throw("no"),))}))
    await play.publish("later")
    await play.drain()
    assert await active(play) == "2.0"
    assert f"no longer publish “m2” in {OUT}" in told(await play.run())


async def test_a_repair_that_tells_more_than_before_is_only_proposed(duly_world: Stage) -> None:
    """F3: an event more may be a change more, in a topic that has a consumer."""
    more = Call("publish", (OUT,), {"message_id": "besides", "title": "Told besides"})
    smith = Smith(flow({CONSUMER: consumer(then=(*NEXT, more))}).source())
    play = await repairing(duly_world, smith)
    await play.deploy(flow())
    await play.publish("m1")
    await play.drain()
    await play.deploy(flow({CONSUMER: consumer(mutate=(Throw("no"),))}))
    await play.publish("later")
    await play.drain()
    assert await active(play) == "2.0"
    assert f"also publish “besides” in {OUT}" in told(await play.run())
