"""A disk that fails under `send` and under `commit_run`, at each of their writes, in every way.

These two decide the promise: a call must not leave without its row, and a run must not end by
half. Each is called again for every write it makes, which then fails once or for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from duly.errors import StoreUnavailable
from duly.rules import lifecycle
from duly.rules.word import Progress
from duly.store import Store
from duly.store.record import Commit
from duly.store.sqlite import open_sqlite
from tests.store.exam import SCHEMA
from tests.store.scene import APPLIED, MUTATING, Scene, at, publication
from tests.store.virtual import VirtualEnv
from verification.disk import NAME, Kind, Loss, MemoryDisk, Operation

Facts = tuple[str, str | None, str, bool]
Verb = Callable[[Scene], Awaitable[None]]


async def send(scene: Scene) -> None:
    """Write the row of the call that is about to leave."""
    after = lifecycle.advance(scene.run, Progress.SEND)
    await scene.store.send(scene.fence, scene.run_id, scene.run, after, scene.call(), now=scene.now)


async def commit(scene: Scene) -> None:
    """End the run with a state and an event that is larger than a page of the database."""
    change = lifecycle.commit(lifecycle.advance(scene.run, Progress.BEGIN_NEXT))
    brought = Commit((publication("row", "row:1", "x" * 400),), state=f'"{"y" * 9_000}"')
    await scene.store.commit_run(
        scene.fence, scene.run_id, scene.run, change, brought, now=scene.now
    )
    await scene.store.sync()


VERBS = {"send": (MUTATING, send), "commit_run": (APPLIED, commit)}


async def facts(store: Store, scene: Scene) -> Facts:
    """Read all that the two verbs write: the run, its row, its input, what it published."""
    run = await store.get_run(scene.run_id)
    events = {event.message_id: event for event in await store.list_events(run.workflow_id)}
    return run.phase, run.row, events["mail:1"].status, "row:1" in events


async def arrange(verb: str, disk: MemoryDisk) -> tuple[Scene, Verb]:
    run, call = VERBS[verb]
    store = Store(await open_sqlite(disk, VirtualEnv(), schema=SCHEMA))
    scene = await at(store, run)
    await store.sync()
    return scene, call


def count_writes(verb: str) -> int:
    """Answer how often a verb writes when nothing fails."""

    async def story() -> int:
        disk = MemoryDisk()
        scene, call = await arrange(verb, disk)
        before = disk.counts[Operation.WRITE]
        await call(scene)
        return disk.counts[Operation.WRITE] - before

    return asyncio.run(story())


async def fail_once(verb: str, position: int, kind: Kind, *, is_lasting: bool) -> None:
    """Let one write of the verb fail; see that nothing was written, and that work goes on."""
    disk = MemoryDisk()
    scene, call = await arrange(verb, disk)
    before = await facts(scene.store, scene)
    disk.fail(Operation.WRITE, position, kind, lasting=is_lasting)
    with pytest.raises(StoreUnavailable) as refused:
        await call(scene)
    assert NAME in str(refused.value)
    assert "planted" in str(refused.value)
    assert disk.faults_met
    disk.heal()
    killed, powerless = disk.next_process(), MemoryDisk(disk.cut_power(Loss.ALL, Random(position)))
    for left in (killed, powerless):
        store = Store(await open_sqlite(left, VirtualEnv(), schema=SCHEMA))
        assert await facts(store, scene) == before
        left.drop()
    assert await facts(scene.store, scene) == before
    await call(scene)
    assert await facts(scene.store, scene) != before
    disk.drop()


@pytest.mark.parametrize("is_lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("verb", VERBS)
def test_each_failing_write_of_a_verb_is_all_or_nothing(
    verb: str, kind: Kind, is_lasting: bool
) -> None:
    """H3, L2, C11: not one row changed, the caller is told, and the same call then succeeds."""
    writes = count_writes(verb)
    assert writes >= 3
    for position in range(writes):
        asyncio.run(fail_once(verb, position, kind, is_lasting=is_lasting))


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_whose_sync_failed_was_not_confirmed_and_can_be_found_out(verb: str) -> None:
    """H3, L2: the store stops; after reopening the verb happened whole or not at all."""

    async def story() -> None:
        disk = MemoryDisk()
        scene, call = await arrange(verb, disk)
        before = await facts(scene.store, scene)
        disk.fail(Operation.SYNC, 0, Kind.IOERR, lasting=False)
        with pytest.raises(StoreUnavailable, match="Open it again"):
            await call(scene)
        for left in (disk.next_process(), MemoryDisk(disk.cut_power(Loss.ALL, Random(0)))):
            store = Store(await open_sqlite(left, VirtualEnv(), schema=SCHEMA))
            found = await facts(store, scene)
            if found == before:
                await call(_on(scene, store))
            assert await facts(store, scene) != before
            left.drop()
        disk.drop()

    asyncio.run(story())


def _on(scene: Scene, store: Store) -> Scene:
    scene.store = store
    return scene
