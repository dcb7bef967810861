"""A repair that loses work, or makes work that was not asked for, is not adopted (F3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from duly.rules.access import Step
from duly.rules.declaration import (
    ConsumerDeclaration,
    Declaration,
    ProducerDeclaration,
    TopicDeclaration,
)
from duly.rules.repair import added, left_out
from duly.rules.schedule import parse
from duly.testing import Stage
from duly.words.repair import say_deed
from tests.engine.repairing import Smith, active, broken, failing, played, repairing, versions
from tests.engine.stand import (
    CONSUMER,
    NOTHING,
    OUT,
    PRODUCER,
    consumer,
    flow,
    producer,
    publish,
)
from tests.spoken import told
from verification.moves import Call, Return, Throw, When, ref

__all__ = ["played"]

pytestmark = pytest.mark.usefixtures("played")

EVERY = parse({"interval": "5m"})
POLL = ProducerDeclaration("poll", EVERY)
FILE = ConsumerDeclaration("file", ("mail",), (Step.PREPARE, Step.MUTATE, Step.NEXT))
WAYS = (
    TopicDeclaration("mail", ingress=True),
    TopicDeclaration("letter", bus="user.message"),
    TopicDeclaration("done"),
)
OLD = Declaration("flow", WAYS, (POLL,), (FILE,))


# -- Less ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "lost"),
    [
        (replace(OLD, producers=(ProducerDeclaration("poll"),)), "the schedule of “poll”"),
        (
            replace(OLD, producers=(replace(POLL, schedule=parse({"interval": "30d"})),)),
            "the schedule of “poll”",
        ),
        (
            replace(OLD, consumers=(replace(FILE, steps=(Step.PREPARE, Step.MUTATE)),)),
            "what follows “file”",
        ),
        (replace(OLD, topics=(TopicDeclaration("mail"), *WAYS[1:])), "the way into “mail”"),
        (
            replace(OLD, topics=(WAYS[0], TopicDeclaration("letter", bus="other"), WAYS[2])),
            "the way into “letter”",
        ),
    ],
    ids=["no schedule", "another schedule", "no next", "no way in", "another bus topic"],
)
def test_what_would_come_no_more_is_left_out(new: Declaration, lost: str) -> None:
    """F3, W9: what is never due, never let in or never told loses events in silence."""
    assert tuple(map(say_deed, left_out(OLD, new))) == (lost,)
    assert left_out(OLD, OLD) == ()


async def test_a_repair_that_lets_a_producer_never_run_again_is_not_adopted(
    duly_world: Stage,
) -> None:
    """F3, S2: a producer without a schedule does not fail either."""
    smith = Smith(flow(producers={PRODUCER: producer(publish("a"))}).source())
    play = await repairing(duly_world, smith)
    await play.deploy(flow(producers={PRODUCER: producer(Throw("no"), every="5m")}))
    await play.drain()
    assert await active(play) == "1.0"
    assert "leaves out the schedule of “poll”" in told(await play.run())


# -- More ---------------------------------------------------------------------------------------


def test_a_change_or_a_way_in_that_was_not_there_is_added() -> None:
    """F3, W9: a handler that only looks and tells may come along, one that changes may not."""
    looking = ConsumerDeclaration("look", ("done",), (Step.PREPARE, Step.NEXT))
    assert added(OLD, replace(OLD, consumers=(FILE, looking))) == ()
    writing = replace(looking, steps=(Step.PREPARE, Step.MUTATE))
    assert tuple(map(say_deed, added(OLD, replace(OLD, consumers=(FILE, writing))))) == (
        "“look” for “done”",
        "the change “look” makes",
    )
    wider = replace(FILE, subscribe=("mail", "done"))
    assert tuple(map(say_deed, added(OLD, replace(OLD, consumers=(wider,))))) == (
        "“file” for “done”",
    )
    opened = replace(OLD, topics=(*WAYS[:2], TopicDeclaration("done", ingress=True)))
    assert tuple(map(say_deed, added(OLD, opened))) == ("the way into “done”",)


async def test_a_repair_does_not_make_changes_of_what_was_put_out_long_ago(
    duly_world: Stage,
) -> None:
    """F3, W9: a topic that gains a consumer delivers its backlog, so only a person lets it."""
    reserve: Any = {
        "reservations": [{"topic": OUT, "ids": ref("pending.*.id")}],
        "data": {"text": "again"},
    }
    prepare = (
        Call("peek", (OUT,), {"limit": 1}, into="pending"),
        When("pending", (Return(reserve),), (Return(NOTHING),)),
    )
    twice = consumer(prepare=prepare, then=None, subscribe=(OUT,))
    play = await repairing(duly_world, Smith(flow({CONSUMER: consumer(), "twice": twice}).source()))
    await play.deploy(flow())
    await play.publish("a", "b", "c")
    await play.drain()
    await play.deploy(broken())
    await play.publish("d")
    await play.drain()
    assert (await active(play), duly_world.count()) == ("2.0", 3)
    assert "it adds “twice” for “out”" in told(await play.run())


# -- Once more ----------------------------------------------------------------------------------


async def test_a_repair_a_person_took_back_is_only_proposed_the_next_time(
    duly_world: Stage,
) -> None:
    """F3, W8: a person who was faster wins, and so does one who came after."""
    good = flow().source()
    play = await failing(duly_world, Smith(good, good))
    await play.drain()
    assert await active(play) == "1.1"
    await play.deploy(broken("it stays as it was"))
    await play.publish("b")
    await play.drain()
    assert (await active(play), duly_world.count()) == ("2.0", 1)
    assert "that of version 1.1, which was given up" in told(await play.run())
    assert (await versions(play))["2.1"].activated_at is None
