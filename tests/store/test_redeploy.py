"""A new version over an old one: what stays with a name, what is orphaned, who is followed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from duly.errors import NotFound, Stale
from duly.rules.lifecycle import CONSUMER_START, Counts
from duly.rules.schedule import DAY_MS
from duly.rules.word import Act, Failure, Kind, Progress
from duly.store.record import Commit, HandlerRow, HandlerSpec, Origin, Reserve, Stop, TopicSpec
from tests.store.exam import World
from tests.store.scene import (
    FAILED,
    FILE,
    HANDLERS,
    MUTATING,
    NAME,
    POLL,
    PREPARED,
    PREPARING,
    PROPOSED,
    TELL,
    TOPICS,
    UNTOLD,
    WORKFLOW,
    Scene,
    Then,
    at,
    deployed,
    deployment,
    publication,
    statuses,
    version,
)
from tests.store.scene import opened as opened_world

NEXT = "run_next"
WITHOUT_FILE = (
    TopicSpec("mail", None, ingress=True),
    TopicSpec("letter", None, ingress=True),
    *TOPICS[2:],
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened_world(tmp_path) as world:
        yield world


async def redeploy(
    scene: Scene,
    *,
    handlers: tuple[HandlerSpec, ...] = HANDLERS,
    topics: tuple[TopicSpec, ...] = TOPICS,
    origin: Origin = Origin.DEPLOY,
    number: str = "2.0",
    replaces: str = "1.0",
) -> str | None:
    """Deploy a newer version; its successor, if there is one, is the scene's run from now on."""
    newer = deployment(number, replaces, handlers=handlers, topics=topics, origin=origin)
    action, now = scene.action("deploy"), scene.tick()
    return await scene.store.deploy(newer, successor_id=NEXT, action=action, now=now)


async def handler(scene: Scene, name: str) -> HandlerRow:
    """Read one handler."""
    rows = await scene.store.list_handlers(WORKFLOW)
    return next(row for row in rows if row.name == name)


# -- W9: schedules, state, orphans ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "is_kept"),
    [(POLL.schedule, True), ('{"interval":"1m"}', False), (None, False)],
    ids=["unchanged", "changed", "by hand now"],
)
async def test_an_unchanged_schedule_keeps_its_next_time(
    schedule: str | None, is_kept: bool, world: World
) -> None:
    """W9, S2: a changed one is due now."""
    scene = await deployed(world.store)
    await scene.start("poll")
    planned = scene.now + 300_000
    await scene.commit(Commit(next_run_at=planned))
    await redeploy(scene, handlers=(replace(POLL, schedule=schedule), FILE, TELL))
    assert (await handler(scene, "poll")).next_run_at == (planned if is_kept else scene.now)


async def test_a_producer_by_hand_that_ran_once_is_not_due_after_a_redeploy(world: World) -> None:
    """W2, W9: due once when it first appears, then on Run now."""
    by_hand = (replace(POLL, schedule=None), FILE, TELL)
    scene = await deployed(world.store)
    await redeploy(scene, handlers=by_hand)
    assert [each.name for each in (await scene.store.due(scene.now)).producers] == ["poll"]
    await scene.start("poll")
    await scene.commit()
    await redeploy(scene, handlers=by_hand, number="3.0", replaces="2.0")
    assert (await scene.store.due(scene.now + 10**9)).producers == ()


async def test_state_and_wake_at_stay_with_the_name(world: World) -> None:
    """W9: also while the handler was away for a version."""
    scene = await at(world.store, PREPARING)
    await scene.prepare(())
    wake_at = scene.now + 60_000
    await scene.commit(Commit(state='{"n":1}', wake_at=wake_at))
    await redeploy(scene, handlers=(POLL, TELL), topics=WITHOUT_FILE)
    assert (await handler(scene, "file")).orphaned
    await redeploy(scene, number="3.0", replaces="2.0")
    file = await handler(scene, "file")
    assert (file.orphaned, file.state, file.wake_at) == (0, '{"n":1}', wake_at)


async def test_a_removed_handler_is_never_scheduled_and_its_events_stay(world: World) -> None:
    """W9: visible as orphaned, skippable."""
    scene = await deployed(world.store)
    await redeploy(scene, handlers=(TELL,), topics=(TOPICS[2], TOPICS[3]))
    due = await scene.store.due(scene.now + 10**9)
    assert ([each.name for each in due.consumers], due.producers) == (["tell"], ())
    assert len(await scene.store.list_events(WORKFLOW, topic="mail")) == 2
    topics = {each.name: each.orphaned for each in await scene.store.list_topics(WORKFLOW)}
    assert topics == {"letter": 1, "mail": 1, "row": 0, "told": 0}
    with pytest.raises(NotFound, match='no handler "file"'):
        await scene.start()
    with pytest.raises(NotFound, match='no topic "mail"'):
        await scene.publish("mail", "mail:9")
    action, now = scene.action("skip"), scene.tick()
    skipped = await scene.store.skip_event(
        WORKFLOW, "mail", "mail:1", successor_id=NEXT, action=action, now=now
    )
    assert skipped.is_changed


async def test_a_topic_that_gains_a_consumer_delivers_its_backlog(world: World) -> None:
    """W9: what was terminal is pending work now."""
    scene = await at(world.store, PREPARING)
    await scene.prepare((Reserve("mail", "mail:1"),))
    await scene.commit(Commit((publication("told", "told:1"),)))
    archive = HandlerSpec("archive", Kind.CONSUMER, 3)
    topics = (*TOPICS[:3], TopicSpec("told", "archive"))
    await redeploy(scene, handlers=(*HANDLERS, archive), topics=topics)
    due = {each.name: each for each in (await scene.store.due(scene.now)).consumers}
    (told,) = await scene.store.get_by_ids(WORKFLOW, "told", ("told:1",))
    assert due["archive"].oldest_pending_seq == told.seq


# -- W8, W9: runs and versions -------------------------------------------------------------------


async def test_a_run_keeps_its_version_and_its_successor_gets_the_active_one(world: World) -> None:
    """W8, R5: a deploy does not touch a run that works."""
    scene = await at(world.store, MUTATING)
    assert await redeploy(scene) is None
    assert (await scene.store.get_run(scene.run_id)).version == "1.0"
    await scene.go(Failure.TRANSIENT, Then.FOLLOW)
    assert (await scene.store.get_run(scene.run_id)).version == "2.0"


async def test_an_open_run_of_a_removed_handler_is_finished_with_its_own_version(
    world: World,
) -> None:
    """W9, R5: its successor too, and what it publishes is kept."""
    scene = await at(world.store, MUTATING)
    await redeploy(scene, handlers=(POLL, TELL), topics=WITHOUT_FILE)
    await scene.go(Failure.TRANSIENT, Then.FOLLOW)
    assert (await scene.store.get_run(scene.run_id)).version == "1.0"
    assert [each.run_id for each in (await scene.store.due(scene.now)).runs] == [scene.run_id]
    await scene.prepare()
    await scene.commit(Commit((publication("row", "row:1"),)))
    assert (await statuses(world.store))["mail:1"] == "consumed"
    assert (await scene.store.due(scene.now)).runs == ()


async def test_a_name_that_is_another_kind_now_does_not_take_over_a_run(world: World) -> None:
    """W9, R5: the new version has no such consumer, so the run's own version goes on."""
    scene = await at(world.store, MUTATING)
    other = (replace(FILE, kind=Kind.PRODUCER), TELL)
    await redeploy(scene, handlers=other, topics=WITHOUT_FILE)
    await scene.go(Failure.TRANSIENT, Then.FOLLOW)
    assert (await scene.store.get_run(scene.run_id)).version == "1.0"


async def test_a_deploy_does_not_touch_a_waiting_proposal(world: World) -> None:
    """A4: it can be approved afterwards, and the run goes on with its own version."""
    scene = await at(world.store, PROPOSED)
    before = await scene.store.get_mutation(scene.mutation_id)
    assert await redeploy(scene) is None
    assert await scene.store.get_mutation(scene.mutation_id) == before
    await scene.go(Act.APPROVE)
    assert (await scene.store.get_run(scene.run_id)).version == "1.0"


# -- F3: the failed run ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (Origin.DEPLOY, Counts()),
        (Origin.ROLLBACK, Counts()),
        (Origin.REPAIR, Counts(logic=1)),
    ],
)
async def test_activating_a_version_follows_a_failed_run(
    origin: Origin, expected: Counts, world: World
) -> None:
    """F3: in the same transaction; only a repair goes on counting."""
    scene = await at(world.store, FAILED)
    assert await redeploy(scene, origin=origin) == scene.run_id
    new = await scene.store.get_run(NEXT)
    assert (new.version, new.counts, new.state) == ("2.0", expected, CONSUMER_START)


async def test_a_run_that_failed_after_its_mutation_goes_on_with_next(world: World) -> None:
    """F3, R5: the new version's next, the old run's inputs and result."""
    scene = await at(world.store, UNTOLD)
    old = await scene.store.get_run(scene.run_id)
    await redeploy(scene)
    new = await scene.store.get_run(NEXT)
    assert (new.phase, new.row, new.version, new.prepared_by) == (
        "emitting",
        "applied",
        "2.0",
        "1.0",
    )
    assert (new.prepared, new.result, new.seed) == (old.prepared, old.result, old.seed)


async def repairable(scene: Scene) -> None:
    """Make the failed run one that the host moves on (F3)."""
    stop = Stop(scene.counts, "failed", due_at=scene.now)
    await scene.store.stop_run(
        scene.fence, scene.run_id, scene.run, scene.run, stop, now=scene.tick()
    )


async def ask(scene: Scene, now: int) -> int:
    """Ask for a repair, and answer how many were asked for that day."""
    run = await scene.store.get_run(scene.run_id)
    await scene.store.ask_repair(scene.fence, run.id, run.state, run.counts, now=now)
    return (await scene.store.get_workflow(WORKFLOW)).repairs


async def test_repairs_are_counted_along_the_chain_when_they_are_asked_for(world: World) -> None:
    """F3: an adopted one is not counted twice; a person's retry begins anew."""
    scene = await at(world.store, FAILED)
    await repairable(scene)
    await ask(scene, scene.tick())
    await redeploy(scene, origin=Origin.REPAIR, number="1.1")
    scene.run_id, scene.run, scene.counts = NEXT, CONSUMER_START, Counts(logic=1, repair=1)
    assert (await scene.store.get_run(NEXT)).counts == scene.counts
    await scene.go(Failure.LOGIC)
    assert (await scene.store.get_run(NEXT)).counts == Counts(logic=2, repair=1)
    await scene.store.retry_run(NEXT, "run_last", action=scene.action(), now=scene.tick())
    assert (await scene.store.get_run("run_last")).counts == Counts()


async def test_repairs_are_counted_per_workflow_and_day(world: World) -> None:
    """F3: each question counts, a kept proposal does not; a day later the count begins anew."""
    scene = await at(world.store, FAILED)
    await repairable(scene)
    first = scene.tick()
    assert [await ask(scene, now) for now in (first, first + 5, first + DAY_MS - 1)] == [1, 2, 3]
    proposal = version("1.2", Origin.REPAIR)
    await scene.store.keep_version(WORKFLOW, proposal, action=scene.action(), now=first)
    assert (await scene.store.get_workflow(WORKFLOW)).repairs == 3
    assert await ask(scene, first + DAY_MS) == 1


async def test_a_repair_is_not_adopted_where_nothing_waits_for_one(world: World) -> None:
    """F3, F7: a person paused the workflow, or retried the run, in the same moment."""
    scene = await at(world.store, FAILED)
    for is_paused in (True, False):
        await scene.store.set_paused(
            WORKFLOW, is_paused=is_paused, action=scene.action(), now=scene.tick()
        )
        if not is_paused:
            await scene.store.retry_run(scene.run_id, "run_2", action=scene.action(), now=scene.now)
        with pytest.raises(Stale, match="no longer waits for a repair"):
            await redeploy(scene, origin=Origin.REPAIR, number="1.1")
    assert (await scene.store.get_workflow(WORKFLOW)).active_version == "1.0"


# -- W10: remove ----------------------------------------------------------------------------------


async def test_a_removed_name_starts_again_as_another_workflow(world: World) -> None:
    """W10, T1: history stays readable under the old id, and is nobody's backlog."""
    scene = await at(world.store, PREPARED)
    await scene.go(Progress.BEGIN_MUTATE, Progress.NO_CALL)
    await scene.commit()
    await scene.store.remove(WORKFLOW, action=scene.action("remove"), now=scene.tick())
    again = deployment(workflow_id="workflow_2")
    await scene.store.deploy(again, successor_id=NEXT, action=scene.action(), now=scene.tick())
    found = await scene.store.find_workflow(NAME)
    assert found is not None
    assert (found.id, found.counter) == ("workflow_2", 1)
    assert await scene.store.list_events("workflow_2") == ()
    assert len(await scene.store.list_events(WORKFLOW)) == 3
    assert len(await scene.store.list_runs(WORKFLOW)) == 1
    with pytest.raises(NotFound):
        await scene.start()
