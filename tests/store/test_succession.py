"""What follows a stopped run: what it inherits, where the events go, and who else may be open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from duly.errors import RequestRefused, Stale
from duly.rules import lifecycle
from duly.rules.lifecycle import Change, Counts, Run
from duly.rules.word import Act, Answer, Failure, Progress, Status, Verdict
from duly.rules.word import MutationStatus as Row
from duly.store.record import Commit, Reserve, RunRow
from tests.store.exam import World
from tests.store.memory import MUTATION, RUN_TIMES, Memory
from tests.store.scene import (
    EMITTING,
    FAILED,
    IN_FLIGHT,
    INDETERMINATE,
    LATER,
    MUTATING,
    PATHS,
    PREPARED,
    PROPOSED,
    UNKNOWN,
    WORKFLOW,
    Scene,
    Then,
    at,
    publication,
    statuses,
    title_of,
)
from tests.store.scene import opened as opened_world

PINNED = ("prepared", "prepared_by", "wake_at_asked", "result", "state_before", "clock_at", "seed")
INHERITED = (*PINNED, "counter", "chain", "handler", "kind", "workflow_id")
FRESH = ("prepared", "prepared_by", "wake_at_asked", "result", "outcome", "clock_at", "seed")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened_world(tmp_path) as world:
        yield world


def following(run: Run) -> Change | None:
    """Answer what follows a run: after a crash, by the host, or by a person's retry."""
    if run.status is Status.ACTIVE:
        return lifecycle.crash(run, Counts(crash=1))
    if run.status in lifecycle.FOLLOWED_BY_HOST:
        return lifecycle.succeed(run)
    try:
        return lifecycle.act(run, Act.RETRY)
    except RequestRefused:
        return None


FOLLOWED = {run: change for run in PATHS if (change := following(run)) is not None}


def fields(run: RunRow, names: tuple[str, ...]) -> list[object]:
    """Read some fields of a run."""
    return [getattr(run, name) for name in names]


def lost_events(world: World) -> list[str]:
    """List the events that are reserved by a run that is not open (R6)."""
    dump = world.dump()
    is_open = {row[0]: row[7] for row in dump["run"]}
    return [str(row[3]) for row in dump["event"] if row[9] and is_open.get(row[9]) != 1]


@pytest.mark.parametrize("run", FOLLOWED, ids=title_of)
async def test_a_successor_inherits_by_the_row_or_nothing_at_all(run: Run, world: World) -> None:
    """R5, R6, C12: with a row that is done or unknown everything passes on, else nothing does."""
    scene = await at(world.store, run)
    old, change = await scene.store.get_run(scene.run_id), FOLLOWED[run]
    inputs = await scene.store.list_inputs(old.id)
    await scene.follow(change, Counts(transient=2, logic=1, crash=1))
    before, new = await scene.store.get_run(old.id), await scene.store.get_run(scene.run_id)
    assert (before.open, new.open, new.retry_of, new.state) == (0, 1, old.id, change.successor)
    assert new.counts == Counts(transient=2, logic=1, crash=1)
    assert lost_events(world) == []
    if change.inherits:
        assert fields(new, INHERITED) == fields(old, INHERITED)
        kept = await scene.store.list_inputs(new.id)
        assert [(each.seq, each.content, each.body) for each in kept] == [
            (each.seq, each.content, each.body) for each in inputs
        ]
        assert {each.reserved_by for each in kept} == {new.id}
        assert (await scene.store.get_mutation(scene.mutation_id)).held_by == new.id
    else:
        assert fields(new, FRESH) == [None] * len(FRESH)
        assert new.chain == old.chain
        assert new.counter == (await scene.store.get_workflow(WORKFLOW)).counter
        assert set((await statuses(world.store)).values()) == {"pending"}
        assert await scene.store.list_inputs(new.id) == ()


async def test_a_fresh_successor_gets_the_state_of_its_handler(world: World) -> None:
    """R5, P2: as a first run would."""
    scene = await at(world.store, EMITTING)
    await scene.commit(Commit(state='{"n":1}'))
    await scene.start()
    await scene.go(Failure.TRANSIENT)
    await scene.follow(lifecycle.succeed(scene.run), Counts(transient=1))
    assert (await scene.store.get_run(scene.run_id)).state_before == '{"n":1}'


async def test_an_heir_has_the_state_the_clock_and_the_seed_of_the_first_attempt(
    world: World,
) -> None:
    """C12, C13: `next` computes the same, however often it is tried."""
    scene = await at(world.store, PREPARED)
    await scene.go(Progress.BEGIN_MUTATE, Progress.NO_CALL)
    await scene.commit(Commit(state='{"n":1}'))
    await scene.publish("letter", "letter:2")
    await scene.start()
    await scene.prepare((Reserve("letter", "letter:2"),))
    clock_at = scene.now - 1
    await scene.go(Progress.BEGIN_MUTATE, Progress.SEND, Answer.APPLIED, Progress.BEGIN_NEXT)
    for _ in range(2):
        await scene.go(Failure.TRANSIENT, Then.FOLLOW)
        heir = await scene.store.get_run(scene.run_id)
        assert (heir.state_before, heir.clock_at, heir.seed) == ('{"n":1}', clock_at, "seed")


async def test_a_proposal_is_withdrawn_before_its_run_is_followed(world: World) -> None:
    """R5, R9: it can never be approved later."""
    scene = await at(world.store, PROPOSED)
    await scene.store.retry_run(scene.run_id, "run_next", action=scene.action(), now=scene.tick())
    row = await scene.store.get_mutation(scene.mutation_id)
    assert (row.status, row.held_by) == (Row.FAILED, scene.run_id)
    with pytest.raises(Stale, match="it is failed"):
        await scene.store.approve(
            scene.mutation_id,
            "shown",
            seal="sealed",
            action=scene.action(),
            now=scene.tick(),
        )


async def test_the_same_run_goes_on_after_a_resend_was_cut_short(world: World) -> None:
    """R7: its row is unknown again and is asked about at once; the run stays."""
    scene = await at(world.store, lifecycle.resend(UNKNOWN))
    change = lifecycle.crash(scene.run, Counts(crash=1))
    here = (scene.fence, scene.run_id, scene.run, change.run)
    await scene.store.move_run(*here, now=scene.tick())
    row = await scene.store.get_mutation(scene.mutation_id)
    assert (row.status, row.due_at, row.held_by) == (Row.NEEDS_RECONCILE, scene.now, scene.run_id)


async def test_a_chain_that_crashed_too_often_stays_until_a_person_acts(world: World) -> None:
    """R7: no automatic successor, the events stay reserved by the open run."""
    scene = await at(world.store, MUTATING)
    crashed = lifecycle.crash(scene.run, Counts(crash=3)).run
    stop = scene.stop(crashed)
    here = (scene.fence, scene.run_id, scene.run, crashed, stop)
    await scene.store.stop_run(*here, now=scene.tick())
    assert (await scene.store.get_run(scene.run_id)).open == 1
    assert (await scene.store.due(scene.now + 10**9)).runs == ()
    await scene.store.retry_run(scene.run_id, "run_next", action=scene.action(), now=scene.tick())
    assert (await scene.store.get_run("run_next")).counts == Counts()


# -- What the database itself refuses ------------------------------------------------------------


def test_a_second_open_run_is_refused_by_the_database() -> None:
    """F6: whatever a verb believes."""
    memory = Memory()
    memory.workflow("workflow")
    memory.run("workflow", "run 1", status="failed:logic")
    with pytest.raises(apsw.ConstraintError, match=r"run\.workflow_id"):
        memory.run("workflow", "run 2")
    memory.workflow("another")
    memory.run("another", "run 3")


def test_a_second_successor_is_refused_by_the_database() -> None:
    """R1: successors form a line."""
    memory = Memory()
    memory.workflow("workflow")
    memory.run("workflow", "run 1", status="crashed", open=0)
    memory.run("workflow", "run 2", status="crashed", open=0, retry_of="run 1")
    with pytest.raises(apsw.ConstraintError, match=r"run\.retry_of"):
        memory.run("workflow", "run 3", status="crashed", open=0, retry_of="run 1")


@pytest.mark.parametrize("column", ["run_id", "held_by"])
def test_a_second_row_of_a_run_is_refused_by_the_database(column: str) -> None:
    """L1: one row per run that made one, one per run that holds one."""
    memory = Memory()
    memory.workflow("workflow")
    for number in (1, 2):
        memory.run("workflow", f"run {number}", status="crashed", open=0)
    memory.mutation("workflow", "run 1", "mutation 1", status="applied")
    columns = {"run_id": "run 2", "held_by": "run 2", column: "run 1", "status": "applied"}
    known = {**MUTATION, **RUN_TIMES, "id": "mutation 2", "workflow_id": "workflow"}
    with pytest.raises(apsw.ConstraintError, match=rf"mutation\.{column}"):
        memory.insert("mutation", **known, **columns)


# -- F7: while a workflow is paused --------------------------------------------------------------


async def pause(scene: Scene) -> str | None:
    """Pause the workflow and answer the run that this dropped."""
    action, now = scene.action("pause"), scene.tick()
    return await scene.store.set_paused(WORKFLOW, is_paused=True, action=action, now=now)


@pytest.mark.parametrize("run", PATHS, ids=title_of)
async def test_a_pause_drops_only_what_has_not_begun_to_change_the_outside(
    run: Run, world: World
) -> None:
    """F7, F6: active and no call begun; everything else stands as it stood."""
    scene = await at(world.store, run)
    before = await scene.store.get_run(scene.run_id)
    is_dropped = run.status is Status.ACTIVE and run.row is None and run.outcome is None
    assert await pause(scene) == (scene.run_id if is_dropped else None)
    after = await scene.store.get_run(scene.run_id)
    if is_dropped:
        assert (after.status, after.open) == (Status.ABANDONED, 0)
        assert set((await statuses(world.store)).values()) == {"pending"}
    else:
        assert after == before
    # A run that has a call out is seen all the same: no answer may be left to wait.
    found = (await scene.store.due(scene.now + 10**9)).runs
    assert bool(found) is (run.row is Row.IN_FLIGHT)


async def test_what_has_begun_comes_to_its_commit_while_paused(world: World) -> None:
    """F7: the answer is written, `next` runs, the events end."""
    scene = await at(world.store, IN_FLIGHT)
    await pause(scene)
    await scene.go(Answer.APPLIED, Progress.BEGIN_NEXT)
    await scene.commit(Commit((publication("row", "row:1"),)))
    assert (await statuses(world.store))["mail:1"] == "consumed"


async def test_asking_goes_on_while_paused(world: World) -> None:
    """F7, L5: it only asks."""
    scene = await at(world.store, UNKNOWN)
    await pause(scene)
    await scene.go(Verdict.APPLIED)
    assert (await scene.store.get_mutation(scene.mutation_id)).status == Row.APPLIED


async def test_a_person_may_answer_while_paused(world: World) -> None:
    """F7, L10: the answer is written, and nothing follows from it before resume."""
    scene = await at(world.store, INDETERMINATE)
    await pause(scene)
    await scene.go(Act.HAPPENED)
    assert (await scene.store.due(scene.now)).runs == ()
    action, now = scene.action("resume"), scene.tick()
    await scene.store.set_paused(WORKFLOW, is_paused=False, action=action, now=now)
    assert [each.run_id for each in (await scene.store.due(now)).runs] == [scene.run_id]


async def test_a_run_that_became_active_after_the_pause_sends_nothing(world: World) -> None:
    """F7: the host had decided before the pause was stored, and is stopped before it sends."""
    scene = await at(world.store, FAILED)
    await pause(scene)
    await scene.store.retry_run(scene.run_id, "run_next", action=scene.action(), now=scene.tick())
    scene.run_id, scene.run = "run_next", lifecycle.CONSUMER_START
    await scene.go(Progress.PREPARE_DONE, Progress.BEGIN_MUTATE)
    before = world.dump()
    with pytest.raises(Stale, match="paused"):
        await scene.go(Progress.SEND)
    assert world.dump() == before


async def test_a_pause_stays_as_old_as_it_is(world: World) -> None:
    """F7: pausing once more does not make it younger; resuming ends it."""
    scene = await at(world.store, LATER)
    await pause(scene)
    since = scene.now
    await pause(scene)
    assert (await scene.store.get_workflow(WORKFLOW)).paused_since == since
    assert (await scene.store.get_run(scene.run_id)).state == LATER


async def test_an_event_reserved_by_a_paused_run_stays_reserved(world: World) -> None:
    """L8: nothing frees it but the end of its run."""
    scene = await at(world.store, PREPARED)
    await scene.go(Progress.BEGIN_MUTATE, Progress.SEND, Answer.UNKNOWN)
    await pause(scene)
    assert (await statuses(world.store))["mail:1"] == "reserved"
