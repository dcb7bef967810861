"""What a restored or paused workflow does not do, and what it says about it (H5, F7, U7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import duly
from duly.config import Policy
from duly.rules.standing import Mover
from duly.testing import Fault, Stage
from tests.desk.test_upkeep import folder_of, restored
from tests.engine.stand import (
    CONSUMER,
    NAME,
    PREPARE,
    TOOL,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
)
from tests.spoken import long, short
from verification.moves import Call

LOOK = Call("camera.look", into="seen")


class Camera(duly.Connector):
    """Makes a backup the first time somebody looks."""

    name = "camera"

    def __init__(self, copy: Path) -> None:
        self.copy = copy
        self.host: duly.Host | None = None

    @duly.read
    async def look(self) -> dict[str, Any]:
        assert self.host is not None
        if not self.copy.exists():
            await self.host.backup(self.copy)
        return {}


async def test_a_call_that_was_about_to_be_sent_again_in_a_backup_waits_for_a_person(
    duly_world: Stage,
) -> None:
    """H5, F4: its connection had come back; since then it was sent, so nobody just sends it."""
    play = await opened(duly_world)
    plan(duly_world, Fault.AUTH)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert await play.host.reconnect("sheet") == 1
    copy = folder_of(duly_world) / "copy.db"
    await play.host.backup(copy)
    await play.drain()
    assert duly_world.count(TOOL) == 1
    await restored(play, copy)
    await play.host.resume(NAME)
    await play.pass_by(60)
    assert duly_world.count(TOOL) == 1
    (entry,) = await play.host.attention()
    assert "reject" in [each.verb for each in entry.offers]
    await play.host.reconnect("sheet")
    await play.drain()
    assert await play.statuses() == {"a": "consumed"}


@pytest.mark.parametrize(
    ("where", "doing"),
    [("prepare", "choosing what to work on next"), ("produce", "checking for something new")],
)
async def test_what_a_backup_shows_half_way_is_not_said_to_go_on(
    duly_world: Stage, where: str, doing: str
) -> None:
    """H5, U7: no change had begun, and nothing happens before a person resumes."""
    camera = Camera(folder_of(duly_world) / "copy.db")
    play = await opened(duly_world, connectors=(camera,))
    camera.host = play.host
    if where == "prepare":
        await play.deploy(flow({CONSUMER: consumer(prepare=(LOOK, *PREPARE))}))
    else:
        await play.deploy(flow(producers={"poll": producer(LOOK, publish("a"))}))
    await play.drain()
    await restored(play, camera.copy)
    await play.pass_by(60)
    why = await play.host.why(NAME)
    assert long(play.host, why) == (
        "The workflow was restored from a backup of 1 Jan 00:00 UTC and knows nothing newer; "
        f"back then Duly was {doing}. "
        "Compare what it is about to do with what is there already, then resume it."
    )
    assert why.mover is Mover.RESUME


async def test_the_moment_of_a_backup_is_told_with_its_zone(duly_world: Stage) -> None:
    """H5, U7: whoever looks up what was done since must know by which clock."""
    play = await opened(duly_world, policy=Policy(timezone="Asia/Tokyo"))
    await play.deploy(flow())
    await play.drain()
    copy = folder_of(duly_world) / "copy.db"
    await play.host.backup(copy)
    await restored(play, copy)
    assert "a backup of 1 Jan 09:00 JST" in long(play.host, await play.host.why(NAME))


async def test_after_a_crash_a_paused_workflow_does_not_say_that_it_finishes(
    duly_world: Stage,
) -> None:
    """F7, U7: the change is done, and what follows waits until a person resumes."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    await play.crash_during(commit_run="before")
    await play.host.pause(NAME, by="anna")
    await play.pass_by(60)
    assert await play.statuses() == {"a": "reserved"}
    why = await play.host.why(NAME)
    assert long(play.host, why) == (
        "The workflow was paused by anna on 1 Jan 00:00 UTC while Duly was finishing “Event”, "
        "whose change is done. Resume it to continue."
    )
    assert (short(play.host, why), why.mover) == ("Paused by anna", Mover.RESUME)
    await play.host.resume(NAME)
    await play.drain()
    assert await play.statuses() == {"a": "consumed"}


@pytest.mark.parametrize("fault", [Fault.AUTH, Fault.FORBID])
async def test_who_is_asked_to_sign_in_is_told_that_it_is_paused_too(
    duly_world: Stage, fault: Fault
) -> None:
    """F7, U7: else they do it, and nothing happens."""
    play = await opened(duly_world)
    plan(duly_world, fault)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await play.host.pause(NAME, by="anna")
    sentence = long(play.host, await play.host.why(NAME))
    assert "and resume the workflow: the workflow was paused by anna on" in sentence
    assert "continues where it stopped" not in sentence
