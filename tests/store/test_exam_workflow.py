"""The workflows' verbs sit their exam: deploy, pause, remove, secrets, the lease."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.errors import NotFound, RequestRefused, Stale
from duly.rules import lifecycle
from duly.rules.lifecycle import Counts
from duly.rules.word import Status
from duly.store.record import Action, JournalEvent, Origin
from tests.store.exam import Again, Call, Case, Refusal, Trial, World, exam, nothing
from tests.store.scene import (
    CONNECTOR,
    FAILED,
    NAME,
    NOON,
    PREPARED,
    UNSIGNED,
    WORKFLOW,
    arranged,
    deployment,
    journal,
    last_action,
    on,
    pause,
    statuses,
    version,
)

NEXT = "run_next"
TOLD = (JournalEvent("workflow.deployed", "duly", "{}"),)


def act(verb: str) -> Action:
    """Make the record of an act whose id a second call repeats."""
    return Action(f"action_{verb}", "me", verb)


async def run_status(world: World, run_id: str | None = None) -> tuple[str, int]:
    """Read how the run of the scene stands."""
    run = await world.store.get_run(run_id or on(world).run_id)
    return run.status, run.open


# -- deploy, keep_version -----------------------------------------------------------------------


async def _deploy_new(world: World, name: str = NAME) -> str | None:
    new = deployment(name=name)
    return await world.store.deploy(
        new, successor_id=NEXT, action=act("deploy"), now=NOON, announce=TOLD
    )


async def _see_new(world: World, answer: str | None) -> None:
    assert answer is None
    workflow = await world.store.find_workflow(NAME)
    assert workflow is not None
    assert (workflow.id, workflow.active_version, workflow.counter) == (WORKFLOW, "1.0", 1)
    poll, file, tell = await world.store.list_handlers(WORKFLOW)
    assert (poll.next_run_at, poll.untried, poll.changed) == (NOON, 0, 1)
    assert [(each.next_run_at, each.untried, each.changed) for each in (file, tell)] == [
        (None, 1, 1),
        (None, 1, 1),
    ]
    assert (await world.store.get_version(WORKFLOW, "1.0")).activated_at == NOON
    assert last_action(world) == ("me", "deploy", WORKFLOW, "1.0")
    assert journal(world) == ["workflow.deployed"]


async def _take_the_name(world: World) -> None:
    other = deployment(workflow_id="workflow_2")
    await world.store.deploy(other, successor_id=NEXT, action=act("other"), now=NOON)


DEPLOY = Case(
    "deploy",
    nothing,
    _deploy_new,
    _see_new,
    Again.STALE,
    refusals=(Refusal("a name another has", Stale, broken=_take_the_name, match="another"),),
)


def _redeploy(number: str = "2.0", replaces: str = "1.0", **more: Any) -> Call:
    async def call(world: World) -> str | None:
        scene = on(world)
        newer = deployment(number, replaces, **more)
        return await scene.store.deploy(
            newer, successor_id=NEXT, action=act("deploy"), now=scene.tick(), announce=TOLD
        )

    return call


async def _see_followed(world: World, answer: str | None) -> None:
    old, new = await world.store.get_run(on(world).run_id), await world.store.get_run(NEXT)
    assert answer == old.id
    assert (old.status, old.open, new.version, new.counts) == ("failed:logic", 0, "2.0", Counts())
    assert new.state == lifecycle.CONSUMER_START
    assert (await world.store.get_workflow(WORKFLOW)).active_version == "2.0"
    assert set((await statuses(world.store)).values()) == {"pending"}
    assert journal(world) == ["workflow.deployed"]


async def _deploy_meanwhile(world: World) -> None:
    scene = on(world)
    other = deployment("1.1", "1.0", origin=Origin.REPAIR)
    await scene.store.deploy(other, successor_id="run_other", action=act("other"), now=scene.now)


REDEPLOY = Case(
    "deploy",
    arranged(FAILED),
    _redeploy(),
    _see_followed,
    Again.STALE,
    refusals=(
        Refusal("what another deploy replaced", Stale, broken=_deploy_meanwhile),
        Refusal("a number that exists", Stale, call=_redeploy("1.0"), match="exists"),
        Refusal(
            "a workflow nobody knows", NotFound, call=_redeploy(workflow_id="workflow_9", name="x")
        ),
    ),
    says="over a failed run",
)


async def _keep(world: World, workflow_id: str = WORKFLOW) -> None:
    proposal = version("1.1", Origin.REPAIR)
    await world.store.keep_version(
        workflow_id, proposal, action=act("propose"), now=NOON + 9, announce=TOLD
    )


async def _keep_nowhere(world: World) -> None:
    await _keep(world, "workflow_9")


async def _see_kept(world: World, answer: None) -> None:
    kept = await world.store.get_version(WORKFLOW, "1.1")
    assert (kept.activated_at, kept.origin, kept.created_at) == (None, "repair", NOON + 9)
    assert (await world.store.get_workflow(WORKFLOW)).active_version == "1.0"
    assert last_action(world) == ("me", "propose", WORKFLOW, "1.1")
    assert journal(world) == ["workflow.deployed"]


KEEP = Case(
    "keep_version",
    arranged(),
    _keep,
    _see_kept,
    Again.STALE,
    refusals=(Refusal("a workflow nobody knows", NotFound, call=_keep_nowhere),),
)


async def _arrange_proposed(world: World) -> None:
    await arranged()(world)
    await _keep(world)


async def _decline(world: World, number: str = "1.1", workflow_id: str = WORKFLOW) -> bool:
    return await world.store.decline_version(
        workflow_id, number, action=Action("action_z", "me", "decline"), now=NOON + 10
    )


async def _decline_active(world: World) -> bool:
    return await _decline(world, "1.0")


async def _decline_nothing(world: World) -> bool:
    return await _decline(world, "7.0")


async def _decline_nowhere(world: World) -> bool:
    return await _decline(world, workflow_id="workflow_9")


async def _see_declined(world: World, answer: bool) -> None:
    assert answer
    assert (await world.store.get_version(WORKFLOW, "1.1")).activated_at is None
    assert last_action(world) == ("me", "decline", WORKFLOW, "1.1")


DECLINE = Case(
    "decline_version",
    _arrange_proposed,
    _decline,
    _see_declined,
    Again.NOTHING,
    refusals=(
        Refusal("a version that was active", RequestRefused, call=_decline_active),
        Refusal("a version that is not there", NotFound, call=_decline_nothing),
        Refusal("a workflow that is not there", NotFound, call=_decline_nowhere),
    ),
)


# -- set_paused, run_now, remove ------------------------------------------------------------------


async def _pause(world: World, workflow_id: str = WORKFLOW) -> str | None:
    now = on(world).tick()
    return await world.store.set_paused(workflow_id, is_paused=True, action=act("pause"), now=now)


async def _pause_nobody(world: World) -> str | None:
    return await _pause(world, "workflow_9")


async def _see_paused(world: World, answer: str | None) -> None:
    scene = on(world)
    workflow = await world.store.get_workflow(WORKFLOW)
    assert (workflow.paused, workflow.paused_since) == (1, scene.now + 1)
    assert answer == scene.run_id
    assert await run_status(world) == (Status.ABANDONED, 0)
    assert set((await statuses(world.store)).values()) == {"pending"}
    assert last_action(world) == ("me", "pause", WORKFLOW, None)


NO_WORKFLOW = "a workflow nobody knows"
PAUSE = Case(
    "set_paused",
    arranged(PREPARED),
    _pause,
    _see_paused,
    Again.STALE,
    refusals=(Refusal(NO_WORKFLOW, NotFound, call=_pause_nobody),),
)


async def _resume(world: World) -> str | None:
    now = on(world).tick()
    return await world.store.set_paused(WORKFLOW, is_paused=False, action=act("resume"), now=now)


async def _see_resumed(world: World, answer: str | None) -> None:
    workflow = await world.store.get_workflow(WORKFLOW)
    assert (workflow.paused, workflow.paused_since, answer) == (0, None, None)


async def _arrange_paused(world: World) -> None:
    await arranged()(world)
    await pause(world)


RESUME = Case("set_paused", _arrange_paused, _resume, _see_resumed, Again.STALE, says="to go on")


async def _run_now(world: World, workflow_id: str = WORKFLOW, producer: str | None = None) -> int:
    return await world.store.run_now(workflow_id, producer, action=act("run now"), now=NOON + 500)


async def _run_stranger_now(world: World) -> int:
    return await _run_now(world, producer="pol")


async def _run_nobody_now(world: World) -> int:
    return await _run_now(world, "workflow_9")


async def _see_due_now(world: World, answer: int) -> None:
    assert answer == 1
    assert (await world.store.list_handlers(WORKFLOW))[0].next_run_at == NOON + 500
    assert last_action(world) == ("me", "run now", WORKFLOW, None)


async def _start(world: World) -> None:
    await on(world).start()


RUN_NOW = Case(
    "run_now",
    arranged(),
    _run_now,
    _see_due_now,
    Again.STALE,
    refusals=(
        Refusal("an open run", RequestRefused, broken=_start, match="still works on"),
        Refusal("a paused workflow", RequestRefused, broken=pause, match="paused"),
        Refusal(NO_WORKFLOW, NotFound, call=_run_nobody_now),
        Refusal("no such producer", NotFound, call=_run_stranger_now, match='Did you mean "poll"?'),
    ),
)


async def _remove(world: World) -> None:
    now = NOON + 500
    await world.store.remove(WORKFLOW, action=act("remove"), now=now, announce=TOLD)


async def _see_removed(world: World, answer: None) -> None:
    workflow = await world.store.get_workflow(WORKFLOW)
    assert (workflow.removed_at, workflow.holder) == (NOON + 500, None)
    assert await world.store.find_workflow(NAME) is None
    assert len(await world.store.list_events(WORKFLOW)) == 3
    assert all(each.orphaned for each in await world.store.list_handlers(WORKFLOW))
    assert all(each.orphaned for each in await world.store.list_topics(WORKFLOW))
    assert last_action(world) == ("me", "remove", WORKFLOW, None)
    due = await world.store.due(NOON + 10**9)
    assert (due.consumers, due.producers, due.next_at) == ((), (), None)


REMOVE = Case(
    "remove",
    arranged(),
    _remove,
    _see_removed,
    Again.MISSING,
    refusals=(Refusal("an open run", RequestRefused, broken=_start, match="open run"),),
)


# -- reconnect, set_secret ----------------------------------------------------------------------


async def _reconnect(world: World) -> tuple[str, ...]:
    return await world.store.reconnect(CONNECTOR, action=act("reconnect"), now=NOON + 500)


async def _see_reconnected(world: World, answer: tuple[str, ...]) -> None:
    run = await world.store.get_run(on(world).run_id)
    assert (answer, run.due_at, run.state) == ((run.id,), NOON + 500, UNSIGNED)
    assert last_action(world) == ("me", "reconnect", None, CONNECTOR)


async def _reconnect_before(world: World) -> None:
    await _reconnect(world)


DONE_BEFORE = Refusal("an act that was done", Stale, broken=_reconnect_before, match="already")
RECONNECT = Case(
    "reconnect", arranged(UNSIGNED), _reconnect, _see_reconnected, Again.STALE, (DONE_BEFORE,)
)


async def _set_secret(world: World) -> None:
    await world.store.set_secret(CONNECTOR, "token", "sealed", action=act("secret"), now=NOON)


async def _see_secret(world: World, answer: None) -> None:
    assert (await world.store.get_secret(CONNECTOR, "token")).sealed == "sealed"
    assert last_action(world) == ("me", "secret", None, f"{CONNECTOR}.token")
    assert "sealed" not in str(world.dump()["action"])


async def _set_before(world: World) -> None:
    await _set_secret(world)


async def _set_over_another(world: World) -> None:
    await world.store.set_secret(
        CONNECTOR, "token", "sealed anew", over="another", action=act("over"), now=NOON
    )


SET_SECRET = Case(
    "set_secret",
    nothing,
    _set_secret,
    _see_secret,
    Again.STALE,
    refusals=(
        Refusal("an act that was done", Stale, broken=_set_before, match="already"),
        Refusal("another secret lies there", Stale, broken=_set_before, call=_set_over_another),
        Refusal("the one to replace is gone", Stale, call=_set_over_another),
    ),
)


async def _swap_secret(world: World) -> bool:
    return await world.store.swap_secret(CONNECTOR, "token", "sealed", "sealed anew")


async def _see_swapped(world: World, is_done: bool) -> None:
    assert is_done
    assert (await world.store.get_secret(CONNECTOR, "token")).sealed == "sealed anew"


SWAP_SECRET = Case(
    "swap_secret",
    _set_secret,
    _swap_secret,
    _see_swapped,
    Again.NOTHING,
    never_refuses="a secret that another host has replaced is an answer, not a fault",
)


@pytest.mark.parametrize(
    "trial",
    exam(
        DEPLOY,
        REDEPLOY,
        KEEP,
        DECLINE,
        PAUSE,
        RESUME,
        RUN_NOW,
        REMOVE,
        RECONNECT,
        SET_SECRET,
        SWAP_SECRET,
    ),
)
async def test_the_verbs_of_workflows_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """W8, A6, H2: what a person does is done whole, once, and written down with who did it."""
    await trial.sit(tmp_path)
