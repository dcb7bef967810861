"""The numbers that decide when a consumer looks again (S3), as every verb writes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from duly.rules.schedule import EMPTY_PUBLISH_PAUSE_MS
from duly.rules.word import Failure
from duly.store.record import Commit, Reserve
from tests.store.exam import World
from tests.store.scene import (
    EMITTING,
    MUTATING,
    PREPARED,
    PREPARING,
    WORKFLOW,
    Scene,
    Then,
    at,
    deployment,
    publication,
)
from tests.store.scene import opened as opened_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened_world(tmp_path) as world:
        yield world


async def numbers(scene: Scene) -> tuple[int, dict[str, int]]:
    """Read the workflow's counter, and `changed` of each consumer."""
    counter = (await scene.store.get_workflow(WORKFLOW)).counter
    rows = await scene.store.list_handlers(WORKFLOW)
    return counter, {row.name: row.changed for row in rows if row.kind == "consumer"}


async def due_names(scene: Scene) -> list[str]:
    """Read which consumers are due now."""
    return [each.name for each in (await scene.store.due(scene.now)).consumers]


async def _publish(scene: Scene) -> None:
    await scene.publish("mail", "mail:9")


async def _replace(scene: Scene) -> None:
    await scene.publish("mail", "mail:2", "second")


async def _reserve(scene: Scene) -> None:
    await scene.prepare()


async def _release(scene: Scene) -> None:
    await scene.prepare()
    await scene.store.abandon_run(scene.run_id, action=scene.action(), now=scene.tick())


async def _skip(scene: Scene) -> None:
    action, now = scene.action(), scene.tick()
    await scene.store.skip_event(
        WORKFLOW, "mail", "mail:2", successor_id="run_x", action=action, now=now
    )


async def _deploy(scene: Scene) -> None:
    newer = deployment("2.0", "1.0")
    await scene.store.deploy(newer, successor_id="x", action=scene.action(), now=scene.tick())


CHANGES: list[tuple[Callable[[Scene], Awaitable[None]], int, set[str]]] = [
    (_publish, 1, {"file"}),
    (_replace, 1, {"file"}),
    (_reserve, 1, {"file"}),
    (_release, 2, {"file"}),
    (_skip, 1, {"file"}),
    (_deploy, 1, {"file", "tell"}),
]


@pytest.mark.parametrize(
    ("change", "taken", "told"), CHANGES, ids=[row[0].__name__[1:] for row in CHANGES]
)
async def test_whatever_touches_a_topic_numbers_its_consumer(
    change: Callable[[Scene], Awaitable[None]], taken: int, told: set[str], world: World
) -> None:
    """S3, T6: it takes the next number and writes it on the consumers it concerns, on no other."""
    scene = await at(world.store, PREPARING)
    counter, before = await numbers(scene)
    await change(scene)
    now, after = await numbers(scene)
    assert now == counter + taken
    assert {name for name in after if after[name] != before[name]} == told
    assert {after[name] for name in told} == {now}


async def test_what_came_while_a_run_worked_makes_it_due_again(world: World) -> None:
    """S3: `seen` is the counter before the run's first peek."""
    scene = await at(world.store, EMITTING)
    await scene.commit()
    assert "file" in await due_names(scene)  # its own reservation, and mail:2 is still pending
    await scene.start()
    await scene.prepare(())
    await scene.commit()
    assert "file" not in await due_names(scene)  # it looked at everything and wanted nothing
    await scene.start("tell")
    await scene.prepare(())
    await scene.publish("mail", "mail:3")
    await scene.commit()
    assert await due_names(scene) == ["file"]


async def test_a_failed_run_does_not_count_as_having_looked(world: World) -> None:
    """S3: only a commit copies the counter."""
    scene = await at(world.store, MUTATING)
    seen = (await scene.store.list_handlers(WORKFLOW))[1].seen
    await scene.go(Failure.LOGIC)
    await scene.store.abandon_run(scene.run_id, action=scene.action(), now=scene.tick())
    assert (await scene.store.list_handlers(WORKFLOW))[1].seen == seen
    assert "file" in await due_names(scene)


async def test_an_heir_has_seen_what_the_run_before_it_had_seen(world: World) -> None:
    """S3, R5: what came since is due after its commit."""
    scene = await at(world.store, EMITTING)
    counter = (await scene.store.get_run(scene.run_id)).counter
    await scene.publish("mail", "mail:3")
    await scene.go(Failure.TRANSIENT, Then.FOLLOW)
    await scene.commit()
    file = (await scene.store.list_handlers(WORKFLOW))[1]
    assert file.seen == counter < file.changed
    assert "file" in await due_names(scene)


async def test_a_new_version_is_tried_once(world: World) -> None:
    """S3: due until a run that the active version prepared has committed, pending events or not."""
    scene = await at(world.store, PREPARED)
    newer = deployment("2.0", "1.0")
    await scene.store.deploy(newer, successor_id="x", action=scene.action(), now=scene.tick())
    await scene.commit()
    assert (await scene.store.list_handlers(WORKFLOW))[1].untried  # the old version prepared it
    await scene.start()
    await scene.prepare(())
    await scene.commit()
    assert not (await scene.store.list_handlers(WORKFLOW))[1].untried
    assert await due_names(scene) == ["tell"]


async def test_an_heir_of_an_old_version_does_not_try_the_new_one(world: World) -> None:
    """S3: what counts is whose prepare it was, not who published."""
    scene = await at(world.store, EMITTING)
    await scene.go(Failure.LOGIC)
    newer, now = deployment("2.0", "1.0"), scene.tick()
    await scene.store.deploy(newer, successor_id="run_heir", action=scene.action(), now=now)
    scene.run_id, scene.run = "run_heir", EMITTING
    assert (await scene.store.get_run("run_heir")).version == "2.0"
    await scene.commit()
    assert (await scene.store.list_handlers(WORKFLOW))[1].untried


@pytest.mark.parametrize(
    ("reserves", "publications", "is_held"),
    [
        ((), (publication("letter", "letter:2"),), True),
        ((Reserve("mail", "mail:1"),), (publication("letter", "letter:2"),), False),
        ((), (), False),
    ],
    ids=["fed itself on nothing", "reserved something", "published nothing"],
)
async def test_who_publishes_without_reserving_rests_for_thirty_seconds(
    reserves: tuple[Reserve, ...], publications: tuple[object, ...], is_held: bool, world: World
) -> None:
    """S3: otherwise it would wake itself for ever."""
    scene = await at(world.store, PREPARING)
    await scene.prepare(reserves)
    await scene.commit(Commit(publications))  # type: ignore[arg-type]
    file = (await scene.store.list_handlers(WORKFLOW))[1]
    assert file.not_before == (scene.now + EMPTY_PUBLISH_PAUSE_MS if is_held else 0)
    assert ("file" in await due_names(scene)) is (not is_held and bool(publications))
    if is_held:
        scene.now = file.not_before - 1
        assert "file" not in await due_names(scene)
        assert (await scene.store.due(scene.now)).next_at == file.not_before
        scene.now = file.not_before
        assert "file" in await due_names(scene)


async def test_wake_at_is_kept_and_cleared_by_the_next_commit(world: World) -> None:
    """S6: absent is cleared."""
    scene = await at(world.store, PREPARING)
    await scene.prepare(())
    await scene.commit(Commit(wake_at=scene.now + 60_000))
    assert (await scene.store.list_handlers(WORKFLOW))[1].wake_at is not None
    scene.now += 60_000
    assert "file" in await due_names(scene)
    await scene.start()
    await scene.prepare(())
    await scene.commit()
    assert (await scene.store.list_handlers(WORKFLOW))[1].wake_at is None
    assert "file" not in await due_names(scene)


async def test_who_skips_a_pending_event_wakes_its_consumer(world: World) -> None:
    """U3, S3: the others behind it are looked at again."""
    scene = await at(world.store, PREPARING)
    await scene.prepare(())
    await scene.commit()
    assert "file" not in await due_names(scene)
    await _skip(scene)
    assert "file" in await due_names(scene)
