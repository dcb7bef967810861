"""What a restored or paused workflow does not do, and what it says about it (H5, F7, U7)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.api.codec import perform
from duly.api.registry import Scope
from duly.config import Policy
from duly.errors import Invalid, RequestRefused
from duly.rules.standing import Mover
from duly.testing import Fault, Stage
from tests.desk.stores import folder_of
from tests.desk.test_allowance import posting
from tests.desk.test_upkeep import restored
from tests.engine.stand import (
    CONSUMER,
    IN,
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
    """Makes a backup the first time it is looked at."""

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
    """H5, U7: a person who looks up what was done since must know by which clock."""
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


async def test_a_webhook_that_was_closed_stays_closed_when_a_backup_is_restored(
    duly_world: Stage,
) -> None:
    """G12, H5: its secret was leaked and replaced since; whose secrets the backup has is over."""
    play = await opened(duly_world)
    await play.deploy(flow())
    leaked = await play.host.new_hook(NAME, IN)
    copy = folder_of(duly_world) / "copy.db"
    await play.host.backup(copy)
    await play.host.new_hook(NAME, IN, replace=True)
    for _ in ("before", "after"):
        with pytest.raises(RequestRefused) as raised:
            await play.host.receive(NAME, IN, "{}", key=leaked.key)
        assert raised.value.code == "hook_key_refused"
        await restored(play, copy)
    assert await play.host.secrets() == ()


async def test_an_allowance_that_was_revoked_stays_so_when_a_backup_is_restored(
    duly_world: Stage,
) -> None:
    """A3, H5: the next call asks, and does not go out under a yes that was taken back."""
    play, post, call = await posting(duly_world)
    where = {"body": "*", "to": "*", "note": "*"}
    await play.host.allow(call.mutation, call.hash, 20, "2026-01-20T00:00:00Z", where=where)
    await play.drain()
    copy = folder_of(duly_world) / "copy.db"
    await play.host.backup(copy)
    (allowance,) = await play.host.allowances()
    await play.host.revoke_allowance(allowance.id)
    await restored(play, copy)
    await play.host.resume(NAME)
    await play.publish("b")
    await play.drain()
    assert [each["body"] for each in post.sent] == ["a"]


@pytest.mark.parametrize("is_asked_to_sign_in", [False, True])
async def test_an_agent_does_not_resume_a_workflow_that_was_restored(
    is_asked_to_sign_in: bool, duly_world: Stage
) -> None:
    """G4, H5: what was done since the backup would be done again, whatever else it waits for."""
    play = await opened(duly_world)
    if is_asked_to_sign_in:
        plan(duly_world, Fault.AUTH)
    await play.deploy(flow())
    await play.publish("a")
    if is_asked_to_sign_in:
        await play.drain()
    copy = folder_of(duly_world) / "copy.db"
    await play.host.backup(copy)
    await restored(play, copy)
    resume = partial(perform, play.host, "resume", {"workflow": NAME}, by="token:helper")
    with pytest.raises(RequestRefused) as raised:
        await resume(scope=Scope.AGENT)
    assert raised.value.code == "beyond_scope"
    assert (await play.host.workflow(NAME)).paused
    with pytest.raises(Invalid):
        await perform(
            play.host, "resume", {"workflow": NAME, "right": "admin"}, by="x", scope=Scope.AGENT
        )
    await resume(scope=Scope.DECIDE)
    await play.host.pause(NAME)
    await resume(scope=Scope.AGENT)  # a pause of a person or an agent is no restore
    assert not (await play.host.workflow(NAME)).paused
