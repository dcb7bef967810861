"""The exam of upkeep: a turn of retention, acts on the whole store, a restored copy (H5, A6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.errors import NotFound, RequestRefused, Stale
from duly.rules.retention import Tidied
from duly.store.record import Action
from duly.store.upkeep import COPIED, TIDIED, Section, TidyTurn, Turned
from tests.store.attic import BEFORE, NOW, act, attic
from tests.store.exam import Again, Case, ReadCase, Refusal, Trial, World, exam
from tests.store.exam import nothing as empty
from tests.store.scene import (
    CONNECTOR,
    NOON,
    PROPOSED,
    WORKFLOW,
    at,
    deployment,
    last_action,
)

SINCE = NOON - 5
OTHER = "workflow_2"
FIRST = TidyTurn(Section.EVENTS, WORKFLOW)


async def _it_took_the_events(world: World, answer: Any) -> None:
    assert answer == Turned(Tidied(events=4), TidyTurn(Section.EVENTS, WORKFLOW, 8))
    assert [row[1] for row in world.dump()["payload"]] == [0, 8]


TIDY = Case(
    verb="tidy",
    arrange=attic,
    call=lambda world: world.store.tidy(FIRST, before=BEFORE, now=NOW),
    effect=_it_took_the_events,
    again=Again.NOTHING,
    never_refuses="there is always something to look at, if only to find nothing",
)


async def _tidied(world: World) -> None:
    await world.store.tidy(TidyTurn(Section.DEFERRED), before=BEFORE, now=NOW)


async def _it_was_tidied(world: World, answer: Any) -> None:
    assert answer == NOW
    assert world.dump()["upkeep"] == [(TIDIED, NOW)]


async def _it_never_was(world: World) -> None:
    world.connection.execute("delete from upkeep")
    assert await world.store.tidied_at() is None


TIDIED_AT = ReadCase(
    verb="tidied_at",
    arrange=_tidied,
    call=lambda world: world.store.tidied_at(),
    effect=_it_was_tidied,
    edge=_it_never_was,
)


async def _it_is_noted(world: World, answer: Any) -> None:
    assert last_action(world) == ("ada", "backup", None, "/copy.db")


def _note_act(world: World) -> Any:
    return world.store.note_act(target="/copy.db", action=act("backup"), now=NOW)


def _note_older(world: World) -> Any:
    return world.store.note_act(target="/copy.db", action=act("backup"), now=NOW, forgotten=1)


NOTE_ACT = Case(
    verb="note_act",
    arrange=empty,
    call=_note_act,
    effect=_it_is_noted,
    again=Again.STALE,
    refusals=(
        Refusal("an act that was done", Stale, broken=_note_act),
        Refusal("a file that is older than what was forgotten", RequestRefused, call=_note_older),
    ),
)


# -- A restored copy ------------------------------------------------------------------------------


async def _copied(world: World) -> None:
    """Two workflows, one removed, one with a call that was approved and not sent; a copy of it."""
    scene = await at(world.store, PROPOSED)
    await world.store.approve(
        scene.mutation_id,
        "shown",
        seal="sealed",
        action=scene.action(),
        now=scene.tick(),
    )
    other = deployment(workflow_id=OTHER, name="post")
    await world.store.deploy(other, successor_id="run_none", action=scene.action(), now=NOON)
    await world.store.remove(OTHER, action=scene.action(), now=NOON)
    world.connection.execute("insert into upkeep (name, at) values (?, ?)", (COPIED, SINCE))


def _restore(world: World) -> Any:
    action = Action("action_restore", "duly", "pause", "restored from a backup")
    return world.store.note_restore(action=action, now=NOW)


async def _it_is_paused_and_blind(world: World, answer: Any) -> None:
    assert answer == SINCE
    here = await world.store.get_workflow(WORKFLOW)
    assert (here.paused, here.paused_since, here.blind_since) == (1, NOW, SINCE)
    gone = await world.store.get_workflow(OTHER)
    assert (gone.paused, gone.blind_since) == (0, None)
    assert world.dump()["upkeep"] == []
    actions = await world.store.list_actions(WORKFLOW)
    assert [(each.by, each.verb, each.at) for each in actions if each.by == "duly"] == [
        ("duly", "pause", NOW)
    ]
    row = await world.store.get_mutation("mutation_1")
    assert (row.status, row.sent_at, row.first_sent_at, row.attempt, row.is_unsent) == (
        "in_flight",
        SINCE,
        SINCE,
        1,
        False,
    )


NOTE_RESTORE = Case(
    verb="note_restore",
    arrange=_copied,
    call=_restore,
    effect=_it_is_paused_and_blind,
    again=Again.NOTHING,
    never_refuses="a store that is no copy is left as it is",
)


# -- A secret nobody needs ------------------------------------------------------------------------


async def _sealed(world: World) -> None:
    for name in ("token", "password"):
        await world.store.set_secret(
            CONNECTOR, name, "sealed", action=Action(f"action_{name}", "me", "set"), now=NOW
        )


async def _it_is_gone(world: World, answer: Any) -> None:
    assert [each.name for each in await world.store.list_secrets()] == ["password"]
    assert ("ada", "drop_secret", None, f"{CONNECTOR}.token") in [
        row[2:6] for row in world.dump()["action"]
    ]


def _drop(name: str) -> Any:
    return lambda world: world.store.drop_secret(
        CONNECTOR, name, action=act("drop_secret"), now=NOW
    )


DROP_SECRET = Case(
    verb="drop_secret",
    arrange=_sealed,
    call=_drop("token"),
    effect=_it_is_gone,
    again=Again.MISSING,
    refusals=(Refusal("one that is not there", NotFound, call=_drop("tokn")),),
)


@pytest.mark.parametrize("trial", exam(TIDY, TIDIED_AT, NOTE_ACT, NOTE_RESTORE, DROP_SECRET))
async def test_upkeep_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """H5, A6: each is one transaction, whole or not at all, and twice is once."""
    await trial.sit(tmp_path)


async def test_a_workflow_that_was_paused_and_blind_keeps_the_earlier_times(
    tmp_path: Path,
) -> None:
    """H5, F7: a copy of a copy nobody resumed is blind since the first."""
    world = await World(tmp_path / "world").open()
    try:
        await _copied(world)
        await pause_here(world)
        await _restore(world)
        world.connection.execute("insert into upkeep (name, at) values (?, ?)", (COPIED, NOW))
        again = Action("action_again", "duly", "pause")
        assert await world.store.note_restore(action=again, now=NOW + 9) == NOW
        row = await world.store.get_workflow(WORKFLOW)
        assert (row.paused_since, row.blind_since) == (NOON + 99, SINCE)
    finally:
        await world.close()


async def pause_here(world: World) -> None:
    action = Action("action_pause", "me", "pause")
    await world.store.set_paused(WORKFLOW, is_paused=True, action=action, now=NOON + 99)


async def test_resume_takes_a_restored_workflow_as_it_is(tmp_path: Path) -> None:
    """H5: pausing it again does not; resuming ends both."""
    world = await World(tmp_path / "world").open()
    try:
        await _copied(world)
        await _restore(world)
        await pause_here(world)
        assert (await world.store.get_workflow(WORKFLOW)).blind_since == SINCE
        action = Action("action_resume", "me", "resume")
        await world.store.set_paused(WORKFLOW, is_paused=False, action=action, now=NOW)
        row = await world.store.get_workflow(WORKFLOW)
        assert (row.paused, row.blind_since) == (0, None)
    finally:
        await world.close()
