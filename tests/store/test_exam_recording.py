"""What reads answered sits its exam: kept with its step, by its chain, of the newest runs alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from duly.errors import Invalid
from duly.rules import lifecycle
from duly.rules.word import Failure, Kind, Progress
from duly.store import recording
from duly.store.record import Commit, Pinned, Reserve
from duly.store.recording import PAST_RUNS_MAX, RECORDINGS_MAX, Past
from tests.store.exam import Again, Case, ReadCase, Refusal, Trial, World, exam
from tests.store.scene import (
    INPUTS,
    MUTATING,
    PREPARED,
    PREPARING,
    WORKFLOW,
    Scene,
    arranged,
    on,
    opened,
)
from tests.store.scene import deployed as deploy


def kept(world: World) -> list[tuple[str, str, str]]:
    """List the recordings: chain, step, text."""
    return [(chain, step, reads) for _, chain, step, reads in world.dump()["recording"]]


# -- Writing ------------------------------------------------------------------------------------


async def _prepare(world: World) -> None:
    await prepare(on(world), "what it read", on(world).run_id)


async def prepare(
    scene: Scene,
    reads: str | None,
    chain: str,
    reserves: tuple[Reserve, ...] = INPUTS,
) -> None:
    """Pin a prepare result with what it read."""
    pinned = Pinned('{"data":1}', scene.now, chain, reads=reads)
    await scene.store.prepare_run(
        scene.fence, scene.run_id, PREPARING, PREPARED, pinned, reserves, now=scene.tick()
    )


async def _see_prepared(world: World, answer: object) -> None:
    assert kept(world) == [(on(world).run_id, "prepare", "what it read")]


async def _send(world: World) -> None:
    scene = on(world)
    after = lifecycle.advance(MUTATING, Progress.SEND)
    call = replace(scene.call(), reads="what mutate read")
    await scene.store.send(scene.fence, scene.run_id, MUTATING, after, call, now=scene.tick())


async def _propose(world: World) -> None:
    scene = on(world)
    after = lifecycle.advance(MUTATING, Progress.ASK_APPROVAL)
    call = replace(scene.call(), reads="what mutate read")
    await scene.store.propose(scene.fence, scene.run_id, MUTATING, after, call, now=scene.tick())


async def _commit(world: World) -> None:
    scene = on(world)
    change = lifecycle.commit(scene.run)
    commit = Commit(reads="what mutate read")
    here = (scene.fence, scene.run_id, scene.run, change, commit)
    await scene.store.commit_run(*here, now=scene.tick())


async def _see_mutated(world: World, answer: object) -> None:
    assert kept(world) == [(on(world).run_id, "mutate", "what mutate read")]


async def _commit_producer(world: World) -> None:
    scene = on(world)
    change = lifecycle.commit(scene.run)
    here = (scene.fence, scene.run_id, scene.run, change, Commit(reads="what it published"))
    await scene.store.commit_producer(*here, now=scene.tick())


async def _see_produced(world: World, answer: object) -> None:
    assert kept(world) == [(on(world).run_id, "produce", "what it published")]


EMITTING = lifecycle.advance(lifecycle.advance(MUTATING, Progress.NO_CALL), Progress.BEGIN_NEXT)
EXECUTING = lifecycle.START[Kind.PRODUCER]
WITH_READS = "with what it read"
WRITES = (
    Case("prepare_run", arranged(PREPARING), _prepare, _see_prepared, Again.STALE, says=WITH_READS),
    Case("send", arranged(MUTATING), _send, _see_mutated, Again.STALE, says=WITH_READS),
    Case("propose", arranged(MUTATING), _propose, _see_mutated, Again.STALE, says=WITH_READS),
    Case("commit_run", arranged(EMITTING), _commit, _see_mutated, Again.STALE, says=WITH_READS),
    Case(
        "commit_producer",
        arranged(EXECUTING),
        _commit_producer,
        _see_produced,
        Again.STALE,
        says=WITH_READS,
    ),
)


# -- Reading ------------------------------------------------------------------------------------


async def _ask(world: World, limit: int = 20) -> tuple[Past, ...]:
    return await world.store.list_past(WORKFLOW, limit=limit)


async def _ask_none(world: World) -> tuple[Past, ...]:
    return await _ask(world, 0)


async def _ask_too_many(world: World) -> tuple[Past, ...]:
    return await _ask(world, PAST_RUNS_MAX + 1)


async def _finish(world: World) -> None:
    """End a run that took something, and one that took nothing."""
    scene = on(world)
    await prepare(scene, "what it read", scene.run_id)
    scene.run = PREPARED
    await scene.commit()
    await scene.start()
    await scene.prepare(())
    await scene.commit()


async def _arranged_past(world: World) -> None:
    await arranged(PREPARING)(world)
    await _finish(world)


async def _see_past(world: World, answer: tuple[Past, ...]) -> None:
    (past,) = answer
    assert [each.message_id for each in past.inputs] == ["mail:1", "letter:1"]
    assert (past.mutation, past.reads) == (None, ("what it read",))


async def _see_the_most(world: World) -> None:
    assert len(await _ask(world, PAST_RUNS_MAX)) == 1
    assert await world.store.list_past("workflow_9") == ()


PAST = ReadCase(
    "list_past",
    _arranged_past,
    _ask,
    _see_past,
    (
        Refusal("no runs at all", Invalid, call=_ask_none),
        Refusal("more than are kept", Invalid, call=_ask_too_many, match="from 1 to 50"),
    ),
    _see_the_most,
)


async def _ask_produced(world: World) -> tuple[str, ...]:
    return await world.store.list_produced(WORKFLOW)


async def _arranged_produced(world: World) -> None:
    await arranged(EXECUTING)(world)
    await _commit_producer(world)


async def _see_what_was_produced(world: World, answer: tuple[str, ...]) -> None:
    assert answer == ("what it published",)


async def _see_nothing_of_another(world: World) -> None:
    assert await world.store.list_produced("workflow_9") == ()


PRODUCED = ReadCase(
    "list_produced",
    _arranged_produced,
    _ask_produced,
    _see_what_was_produced,
    (),
    _see_nothing_of_another,
)


@pytest.mark.parametrize("trial", exam(*WRITES, PAST, PRODUCED))
async def test_what_reads_answered_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """F3, R1: it is there with its step, or neither is."""
    await trial.sit(tmp_path)


# -- How long -----------------------------------------------------------------------------------


async def test_a_fresh_attempt_replaces_what_the_one_before_it_read(tmp_path: Path) -> None:
    """R5, F3: also by nothing, if it asked nothing."""
    async with opened(tmp_path) as world:
        scene = await deploy(world.store)
        await scene.start()
        chain = scene.run_id
        for reads in ("first", "second", None):
            await prepare(scene, reads, chain)
            scene.run = PREPARED
            assert kept(world) == ([] if reads is None else [(chain, "prepare", reads)])
            stopped = lifecycle.fail(
                lifecycle.advance(PREPARED, Progress.BEGIN_MUTATE), Failure.TRANSIENT
            )
            here = (scene.fence, scene.run_id, PREPARED, stopped)
            await scene.store.stop_run(*here, scene.stop(stopped), now=scene.tick())
            scene.run = stopped
            await scene.follow(lifecycle.succeed(stopped), scene.counts)


async def test_only_the_newest_recordings_of_a_workflow_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5, F3: one past the limit lets the oldest go."""
    assert RECORDINGS_MAX >= 2 * PAST_RUNS_MAX
    monkeypatch.setattr(recording, "RECORDINGS_MAX", 2)
    async with opened(tmp_path) as world:
        scene = await deploy(world.store)
        chains = []
        for _ in range(3):
            await scene.start()
            chains.append(scene.run_id)
            await prepare(scene, "read", scene.run_id, ())
            scene.run = PREPARED
            await world.store.abandon_run(scene.run_id, action=scene.action(), now=scene.tick())
            assert [chain for chain, _, _ in kept(world)] == chains[-2:]
