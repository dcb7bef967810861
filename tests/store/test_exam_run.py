"""The runs' verbs sit their exam: start, prepare, move, stop, succeed, commit, abandon, retry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.errors import Invalid, NotFound, RequestRefused, Stale
from duly.rules import lifecycle
from duly.rules.lifecycle import Counts
from duly.rules.prepared import Judgement
from duly.rules.word import Act, Phase, Progress, Status
from duly.rules.word import MutationStatus as Row
from duly.store.record import Commit, JournalEvent, Pinned, Reserve, RunRow
from duly.store.run import Started
from tests.store.exam import Again, Case, Refusal, Trial, World, exam
from tests.store.scene import (
    EMITTING,
    FAILED,
    IN_FLIGHT,
    INPUTS,
    LATER,
    MUTATING,
    NOON,
    PREPARED,
    PREPARING,
    PROPOSED,
    UNKNOWN,
    WORKFLOW,
    abandon,
    arranged,
    journal,
    last_action,
    on,
    pause,
    publication,
    reached,
    starting,
    statuses,
)

NEXT = "run_next"
TOLD = (JournalEvent("run.failed", "duly", "{}"),)


async def run_of(world: World, run_id: str | None = None) -> RunRow:
    """Read the run of the scene, or another one."""
    return await world.store.get_run(run_id or on(world).run_id)


DROPPED = Refusal("a run that a person ended", Stale, broken=abandon)


# -- take_turn ----------------------------------------------------------------------------------


async def _start(world: World, handler: str = "file") -> Started:
    scene = on(world)
    taken = await scene.store.take_turn(scene.fence, NEXT, starting(handler), now=scene.tick())
    assert taken.started is not None
    return taken.started


async def _start_nobody(world: World) -> Started:
    return await _start(world, "nobody")


async def _see_started(world: World, answer: Started) -> None:
    counter = (await world.store.get_workflow(WORKFLOW)).counter
    assert answer == Started(NEXT, "1.0", None, counter)
    run = await run_of(world, NEXT)
    assert run.state == lifecycle.CONSUMER_START
    assert (run.open, run.chain, run.retry_of, run.version) == (1, NEXT, None, "1.0")
    assert run.counter == counter


async def _start_another(world: World) -> None:
    await on(world).start("poll")


START = Case(
    "take_turn",
    arranged(),
    _start,
    _see_started,
    Again.STALE,
    refusals=(
        Refusal("a second open run", Stale, broken=_start_another, match="open run already"),
        Refusal("a paused workflow", Stale, broken=pause, match="paused"),
        Refusal("a handler nobody declared", NotFound, call=_start_nobody),
    ),
)


# -- prepare_run --------------------------------------------------------------------------------


async def _prepare(world: World, reserves: tuple[Reserve, ...] = INPUTS) -> Judgement:
    scene = on(world)
    pinned = Pinned('{"data":1}', scene.now, "seed", "soon")
    return await scene.store.prepare_run(
        scene.fence, scene.run_id, PREPARING, PREPARED, pinned, reserves, now=scene.tick()
    )


def _prepare_with(*reserves: Reserve) -> Any:
    async def call(world: World) -> Judgement:
        return await _prepare(world, reserves)

    return call


async def _see_prepared(world: World, answer: Judgement) -> None:
    assert answer is Judgement.RESERVE
    run = await run_of(world)
    assert run.state == PREPARED
    assert (run.prepared, run.prepared_by, run.seed, run.clock_at, run.wake_at_asked) == (
        '{"data":1}',
        "1.0",
        "seed",
        on(world).now,
        "soon",
    )
    assert await statuses(world.store) == {
        "mail:1": "reserved",
        "letter:1": "reserved",
        "mail:2": "pending",
    }
    inputs = await world.store.list_inputs(run.id)
    assert [(each.message_id, each.reserved_by, each.attempts) for each in inputs] == [
        ("mail:1", run.id, 1),
        ("letter:1", run.id, 1),
    ]


async def _see_nothing_reserved(world: World, answer: Judgement) -> None:
    assert answer is Judgement.RESERVE
    assert (await run_of(world)).state == PREPARED
    assert set((await statuses(world.store)).values()) == {"pending"}


PREPARE = Case(
    "prepare_run",
    arranged(PREPARING),
    _prepare,
    _see_prepared,
    Again.STALE,
    refusals=(
        DROPPED,
        Refusal(
            "an event nobody knows",
            Invalid,
            call=_prepare_with(INPUTS[0], Reserve("mail", "mail:9")),
            match="mail:9 of topic mail cannot be reserved",
        ),
        Refusal(
            "an event of another topic",
            Invalid,
            call=_prepare_with(INPUTS[0], Reserve("letter", "mail:2")),
        ),
    ),
)
PREPARE_NOTHING = Case(
    "prepare_run",
    arranged(PREPARING),
    _prepare_with(),
    _see_nothing_reserved,
    Again.STALE,
    says="with nothing",
)


# -- move_run, stop_run -------------------------------------------------------------------------


async def _move(world: World) -> None:
    scene = on(world)
    await scene.store.move_run(scene.fence, scene.run_id, PREPARED, MUTATING, now=scene.tick())


async def _see_moved(world: World, answer: None) -> None:
    run = await run_of(world)
    assert (run.state, run.updated_at) == (MUTATING, on(world).now + 1)


MOVE = Case("move_run", arranged(PREPARED), _move, _see_moved, Again.STALE, (DROPPED,))


async def _stop(world: World) -> None:
    scene = on(world)
    stop = scene.stop(FAILED)
    here = (scene.fence, scene.run_id, MUTATING, FAILED, stop)
    await scene.store.stop_run(*here, now=scene.tick(), announce=TOLD)


async def _see_stopped(world: World, answer: None) -> None:
    run = await run_of(world)
    assert (run.state, run.open, run.error) == (FAILED, 1, "stopped: failed:logic")
    assert run.counts == Counts(logic=1)
    assert (await statuses(world.store))["mail:1"] == "reserved"
    assert journal(world) == ["run.failed"]


STOP = Case("stop_run", arranged(MUTATING), _stop, _see_stopped, Again.STALE, (DROPPED,))


# -- succeed_run --------------------------------------------------------------------------------


def _succeed(change: lifecycle.Change, counts: Counts) -> Any:
    async def call(world: World) -> None:
        scene = on(world)
        here = (scene.fence, scene.run_id, scene.run, change, NEXT, counts)
        await scene.store.succeed_run(*here, now=scene.tick(), announce=TOLD)

    return call


async def _see_fresh(world: World, answer: None) -> None:
    old, new = await run_of(world), await run_of(world, NEXT)
    assert (old.state, old.open) == (LATER, 0)
    assert (new.state, new.open, new.retry_of, new.chain) == (PREPARING, 1, old.id, old.chain)
    assert (new.prepared, new.counts) == (None, Counts(transient=1))
    assert set((await statuses(world.store)).values()) == {"pending"}
    assert journal(world) == ["run.failed"]


async def _see_heir(world: World, answer: None) -> None:
    old, new = await run_of(world), await run_of(world, NEXT)
    assert (old.status, old.open, old.row) == (Status.CRASHED, 0, None)
    assert new.state == UNKNOWN
    assert (await statuses(world.store))["mail:1"] == "reserved"
    mutation = await world.store.get_mutation("mutation_1")
    assert (mutation.status, mutation.held_by, mutation.run_id) == (
        Row.NEEDS_RECONCILE,
        NEXT,
        old.id,
    )
    # A crash says nothing about the outside, so it is asked at once (L5, R7).
    assert mutation.due_at == on(world).now + 1


SUCCEED_FRESH = Case(
    "succeed_run",
    arranged(LATER),
    _succeed(lifecycle.succeed(LATER), Counts(transient=1)),
    _see_fresh,
    Again.STALE,
    (DROPPED,),
    says="afresh",
)
SUCCEED_HEIR = Case(
    "succeed_run",
    arranged(IN_FLIGHT),
    _succeed(lifecycle.crash(IN_FLIGHT, Counts(crash=1)), Counts(crash=1)),
    _see_heir,
    Again.STALE,
    says="with an heir",
)


# -- commit_producer, commit_run ----------------------------------------------------------------

PUBLISHED = (publication("row", "row:1"), publication("told", "told:1"))


async def _commit_producer(world: World) -> None:
    scene = on(world)
    commit = Commit(
        (publication("mail", "mail:3"),), '{"cursor":3}', next_run_at=scene.now + 300_000
    )
    change = lifecycle.commit(lifecycle.PRODUCER_START)
    here = (scene.fence, scene.run_id, lifecycle.PRODUCER_START, change, commit)
    await scene.store.commit_producer(*here, now=scene.tick(), announce=TOLD)


async def _see_produced(world: World, answer: None) -> None:
    run = await run_of(world)
    assert (run.status, run.open, run.state_after) == (Status.COMMITTED, 0, '{"cursor":3}')
    assert (await statuses(world.store))["mail:3"] == "pending"
    poll, file, _ = await world.store.list_handlers(WORKFLOW)
    assert (poll.state, poll.next_run_at) == ('{"cursor":3}', on(world).now + 300_000)
    assert file.changed == (await world.store.get_workflow(WORKFLOW)).counter
    assert journal(world) == ["run.failed"]


COMMIT_PRODUCER = Case(
    "commit_producer",
    arranged(lifecycle.PRODUCER_START),
    _commit_producer,
    _see_produced,
    Again.STALE,
    (DROPPED,),
)


EARLIER = NOON - 1_000_000_000  # what the clock shows once it was set right


async def _replan(world: World, old: int = NOON) -> None:
    new = EARLIER + 300_000
    await world.store.replan(on(world).fence, "poll", old, new, now=EARLIER)


async def _replan_another(world: World) -> None:
    await _replan(world, NOON + 1)


async def _see_replanned(world: World, answer: None) -> None:
    poll, *_ = await world.store.list_handlers(WORKFLOW)
    assert poll.next_run_at == EARLIER + 300_000
    assert (await world.store.due(EARLIER)).suspects == ()


REPLAN = Case(
    "replan",
    arranged(),
    _replan,
    _see_replanned,
    Again.STALE,
    (Refusal("another time", Stale, call=_replan_another),),
)


async def _commit(world: World) -> None:
    scene = on(world)
    commit = Commit(PUBLISHED, '{"rows":1}', wake_at=scene.now + 60_000, logs="[]")
    here = (scene.fence, scene.run_id, EMITTING, lifecycle.commit(EMITTING), commit)
    await scene.store.commit_run(*here, now=scene.tick(), announce=TOLD)


async def _see_committed(world: World, answer: None) -> None:
    run = await run_of(world)
    assert (run.phase, run.status, run.open) == (Phase.COMMITTED, Status.COMMITTED, 0)
    assert await statuses(world.store) == {
        "mail:1": "consumed",
        "letter:1": "consumed",
        "mail:2": "pending",
        "row:1": "pending",
        "told:1": "pending",
    }
    _, file, tell = await world.store.list_handlers(WORKFLOW)
    assert (file.state, file.wake_at, file.untried) == (
        '{"rows":1}',
        on(world).now + 60_000,
        0,
    )
    # `seen` is the counter from before the first peek: the run's own reservation is behind it (S3).
    assert (file.seen, file.changed) == (run.counter, run.counter + 1)
    assert tell.changed > tell.seen
    assert journal(world) == ["run.failed"]


COMMIT = Case("commit_run", arranged(EMITTING), _commit, _see_committed, Again.STALE, (DROPPED,))


# -- abandon_run, retry_run ---------------------------------------------------------------------


async def _abandon(world: World, run_id: str | None = None) -> lifecycle.Change:
    scene = on(world)
    return await scene.store.abandon_run(
        run_id or scene.run_id, action=scene.action("abandon"), now=scene.tick(), announce=TOLD
    )


async def _abandon_nobody(world: World) -> lifecycle.Change:
    return await _abandon(world, "run_nobody")


async def _see_abandoned(world: World, answer: lifecycle.Change) -> None:
    run = await run_of(world)
    assert answer.run == run.state
    assert (run.status, run.open, run.row) == (Status.ABANDONED, 0, Row.FAILED)
    assert set((await statuses(world.store)).values()) == {"pending"}
    assert last_action(world) == ("me", "abandon", WORKFLOW, run.id)
    assert journal(world) == ["run.failed"]


async def commit_it(world: World) -> None:
    """Let the run come to its commit."""
    scene = on(world)
    await scene.go(Act.REJECT, Progress.BEGIN_NEXT)
    await scene.commit()


ABANDON = Case(
    "abandon_run",
    arranged(PROPOSED),
    _abandon,
    _see_abandoned,
    Again.REFUSED,
    refusals=(
        Refusal(
            "a call that is out",
            RequestRefused,
            broken=reached(Act.APPROVE),
            match="Settle it first",
        ),
        Refusal("a committed run", RequestRefused, broken=commit_it, match="already committed"),
        Refusal("a run nobody knows", NotFound, call=_abandon_nobody),
    ),
)


async def _retry(world: World, run_id: str | None = None) -> lifecycle.Change:
    scene = on(world)
    return await scene.store.retry_run(
        run_id or scene.run_id, NEXT, action=scene.action("retry"), now=scene.tick(), announce=TOLD
    )


async def _retry_nobody(world: World) -> lifecycle.Change:
    return await _retry(world, "run_nobody")


async def _see_retried(world: World, answer: lifecycle.Change) -> None:
    old, new = await run_of(world), await run_of(world, NEXT)
    assert (old.state, old.open) == (FAILED, 0)
    assert (new.state, new.retry_of, new.counts) == (PREPARING, old.id, Counts())
    assert set((await statuses(world.store)).values()) == {"pending"}
    assert last_action(world) == ("me", "retry", WORKFLOW, old.id)
    assert journal(world) == ["run.failed"]


RETRY = Case(
    "retry_run",
    arranged(FAILED),
    _retry,
    _see_retried,
    Again.STALE,
    refusals=(
        Refusal("an ended run", RequestRefused, broken=abandon, match="already abandoned"),
        Refusal("a run nobody knows", NotFound, call=_retry_nobody),
    ),
)


@pytest.mark.parametrize(
    "trial",
    exam(
        START,
        PREPARE,
        PREPARE_NOTHING,
        MOVE,
        STOP,
        SUCCEED_FRESH,
        SUCCEED_HEIR,
        COMMIT_PRODUCER,
        REPLAN,
        COMMIT,
        ABANDON,
        RETRY,
    ),
)
async def test_the_verbs_of_runs_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """R8, H2, C11: a run moves whole, from the state it was seen in, by who holds it, or not."""
    await trial.sit(tmp_path)
