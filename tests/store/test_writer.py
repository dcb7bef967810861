"""The writer: who is in which batch, who is answered when, and what a failure costs the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import apsw
import pytest

from duly.errors import IllegalTransition, Stale, StoreUnavailable
from duly.store.base import Durability, Transaction
from duly.store.sqlite import SqliteBackend, open_sqlite
from duly.store.writer import (
    BATCH_JOBS_MAX,
    DIRECT_JOBS_MAX,
    IDLE_SYNC_MS,
    INLINE_JOBS_MAX,
    INLINE_SLOW_MS,
)
from tests.store import notebook
from tests.store.notebook import ChangedItsMind, write, write_and_fail
from tests.store.virtual import VirtualEnv
from verification.disk import Kind, Loss, MemoryDisk, Operation

BARRIER, RIDER, READ = Durability.BARRIER, Durability.RIDER, Durability.READ


@dataclass(frozen=True, slots=True)
class Scene:
    """A fresh store on a disk in memory, with a line in it."""

    backend: SqliteBackend
    disk: MemoryDisk
    env: VirtualEnv

    async def labels(self) -> list[str]:
        return await self.backend.transact(notebook.read, READ)

    @property
    def syncs(self) -> int:
        return self.disk.counts[Operation.SYNC]

    async def labels_after_power_cut(self) -> list[str]:
        disk = MemoryDisk(self.disk.cut_power(Loss.ALL, Random(0)))
        backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)
        try:
            return await backend.transact(notebook.read, READ)
        finally:
            await backend.close()


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    disk, env = MemoryDisk(), VirtualEnv()
    backend = await open_sqlite(disk, env, schema=notebook.SCHEMA)
    # The first commit into a new log syncs its header; the tests count what comes after.
    await backend.transact(write("first"), BARRIER)
    yield Scene(backend, disk, env)
    await backend.close()


def play(story: Callable[[Scene], Any]) -> None:
    async def main() -> None:
        async with scene() as stage:
            await story(stage)

    asyncio.run(main())


async def together(stage: Scene, *jobs: tuple[Callable[[Transaction], Any], Durability]) -> Any:
    calls = (stage.backend.transact(body, durability) for body, durability in jobs)
    return await asyncio.gather(*calls, return_exceptions=True)


def test_all_who_wait_share_one_sync() -> None:
    """L2: the running sync is the batching window; a batch has one sync."""

    async def story(stage: Scene) -> None:
        before = stage.syncs
        numbers = await together(stage, *((write(f"line {n}"), BARRIER) for n in range(100)))
        assert numbers == list(range(2, 102))
        assert stage.syncs == before + 1

    play(story)


def test_a_batch_takes_no_more_than_its_limit() -> None:
    """L2: one past the limit is in the next batch."""

    async def story(stage: Scene) -> None:
        for callers, syncs in ((BATCH_JOBS_MAX, 1), (BATCH_JOBS_MAX + 1, 2)):
            before = stage.syncs
            await together(stage, *((write(f"{callers}.{n}"), BARRIER) for n in range(callers)))
            assert stage.syncs == before + syncs

    play(story)


def test_jobs_are_committed_in_the_order_they_came() -> None:
    """L2: riders and barriers keep their order, in one batch and over many."""

    async def story(stage: Scene) -> None:
        jobs = [(write(f"line {n}"), BARRIER if n % 3 else RIDER) for n in range(30)]
        await together(stage, *jobs)
        assert await stage.labels() == ["first"] + [f"line {n}" for n in range(30)]

    play(story)


def test_who_writes_again_at_once_is_served_by_one_drain() -> None:
    """L2: a second one beside it would commit out of turn."""

    async def story(stage: Scene) -> None:
        begun: list[str] = []
        spawn = stage.env.spawn

        def counted(work: Any, name: str) -> Any:
            begun.append(name)
            return spawn(work, name)

        object.__setattr__(stage.env, "spawn", counted)
        for number in range(5):
            await stage.backend.transact(write(f"line {number}"), BARRIER)
        assert begun == ["store writer"] * 5

    play(story)


def test_a_job_that_fails_in_a_batch_fails_alone() -> None:
    """H3: the others of its batch are committed, its own writes are gone."""

    async def story(stage: Scene) -> None:
        answers = await together(
            stage,
            (write("before"), BARRIER),
            (write_and_fail("broken"), BARRIER),
            (write("after"), BARRIER),
        )
        assert answers[0] == 2
        assert isinstance(answers[1], ChangedItsMind)
        assert answers[2] == 3
        assert await stage.labels() == ["first", "before", "after"]

    play(story)


def test_a_job_that_fails_alone_leaves_nothing() -> None:
    """H3: what it wrote before it failed is rolled back."""

    async def story(stage: Scene) -> None:
        with pytest.raises(ChangedItsMind):
            await stage.backend.transact(write_and_fail("broken"), RIDER)
        assert await stage.labels() == ["first"]

    play(story)


def test_errors_of_a_body_pass_unchanged() -> None:
    """H3: what a verb says to its caller is not ours to reword."""
    error = Stale("run_1 is no longer active")

    def body(transaction: Transaction) -> None:
        raise error

    async def story(stage: Scene) -> None:
        with pytest.raises(Stale) as caught:
            await stage.backend.transact(body, BARRIER)
        assert caught.value is error

    play(story)


def test_a_stop_iteration_of_a_body_harms_nobody_else() -> None:
    """H3: a future cannot carry it, so it is reworded."""

    def body(transaction: Transaction) -> Any:
        return next(iter(()))

    async def story(stage: Scene) -> None:
        answers = await together(stage, (body, RIDER), (write("other"), RIDER))
        assert isinstance(answers[0], IllegalTransition)
        assert answers[1] == 2

    play(story)


def test_a_lost_batch_is_run_again_one_by_one() -> None:
    """H3: a full disk in the middle of a batch refuses one job and commits the others once."""

    async def story(stage: Scene) -> None:
        stage.disk.fail(Operation.WRITE, 0, Kind.FULL, lasting=False)
        answers = await together(stage, *((write(f"line {n}"), BARRIER) for n in range(3)))
        assert stage.disk.faults_met == 1
        assert answers == [2, 3, 4]
        assert await stage.labels() == ["first", "line 0", "line 1", "line 2"]

    play(story)


def test_a_transaction_that_sqlite_gave_up_commits_nothing() -> None:
    """H3: a body that rolls back behind the writer's back is noticed, alone and in a batch."""

    async def story(stage: Scene) -> None:
        connection = stage.backend._connection

        def body(transaction: Transaction) -> None:
            write("lost")(transaction)
            connection.execute("rollback")

        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await stage.backend.transact(body, BARRIER)
        answers = await together(stage, (write("one"), RIDER), (body, RIDER), (write("two"), RIDER))
        assert answers[0] == 2
        assert isinstance(answers[1], StoreUnavailable)
        assert answers[2] == 3
        assert await stage.labels() == ["first", "one", "two"]

    play(story)


def test_a_body_that_shrugs_at_a_failed_statement_fails() -> None:
    """H3: on a full disk SQLite has rolled back; the next statement would commit alone."""

    def body(transaction: Transaction) -> None:
        with pytest.raises(apsw.ConstraintError):
            transaction.run("add_line", number=1, label="first", body="")
        with pytest.raises(apsw.ConstraintError):
            write("next")(transaction)

    async def story(stage: Scene) -> None:
        with pytest.raises(IllegalTransition, match=r"UNIQUE constraint failed: line\."):
            await stage.backend.transact(body, BARRIER)
        assert await stage.labels() == ["first"]

    play(story)


def test_a_transaction_kept_after_its_body_is_dead() -> None:
    """H3: a statement outside of a transaction would commit alone."""

    async def story(stage: Scene) -> None:
        kept = await stage.backend.transact(lambda transaction: transaction, RIDER)
        with pytest.raises(IllegalTransition, match="outside of its body"):
            write("late")(kept)
        assert await stage.labels() == ["first"]

    play(story)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"number": 9, "label": "x"}, r"missing parameters \['body'\]"),
        (
            {"number": 9, "label": "x", "body": "", "colour": 1},
            r"unknown parameters \['colour'\]",
        ),
    ],
)
def test_wrong_parameters_are_named(given: dict[str, Any], message: str) -> None:
    """H1: a statement gets exactly its parameters."""

    async def story(stage: Scene) -> None:
        with pytest.raises(IllegalTransition, match=f"statement add_line: .*{message}"):
            await stage.backend.transact(lambda tx: tx.run("add_line", **given), RIDER)

    play(story)


def test_a_barrier_that_changed_no_row_is_synced() -> None:
    """L2: what it saw was a rider's; the answer must not outlive it."""

    async def story(stage: Scene) -> None:
        await stage.backend.transact(write("rider"), RIDER)
        assert await stage.labels_after_power_cut() == ["first"]
        assert await stage.backend.transact(notebook.read, BARRIER) == ["first", "rider"]
        assert await stage.labels_after_power_cut() == ["first", "rider"]

    play(story)


def test_a_barrier_that_fails_is_synced_too() -> None:
    """L2: a refusal is an answer, and it rests on what was read."""

    async def story(stage: Scene) -> None:
        await stage.backend.transact(write("rider"), RIDER)
        with pytest.raises(ChangedItsMind):
            await stage.backend.transact(write_and_fail("broken"), BARRIER)
        assert await stage.labels_after_power_cut() == ["first", "rider"]

    play(story)


def test_sync_makes_riders_durable_and_costs_nothing_twice() -> None:
    """L2: what is synced stays synced."""

    async def story(stage: Scene) -> None:
        await stage.backend.transact(write("rider"), RIDER)
        before = stage.syncs
        await stage.backend.sync()
        assert await stage.labels_after_power_cut() == ["first", "rider"]
        await stage.backend.sync()
        await stage.backend.transact(notebook.read, BARRIER)
        assert stage.syncs == before + 1

    play(story)


def test_riders_are_synced_when_nobody_syncs_them() -> None:
    """L2: no rider is in memory only for longer than the idle time."""

    async def story(stage: Scene) -> None:
        await stage.backend.transact(write("rider"), RIDER)
        await stage.env.advance(IDLE_SYNC_MS - 1)
        assert await stage.labels_after_power_cut() == ["first"]
        await stage.env.advance(1)
        assert await stage.labels_after_power_cut() == ["first", "rider"]
        await stage.backend.transact(write("another"), RIDER)
        await stage.env.advance(IDLE_SYNC_MS)
        assert await stage.labels_after_power_cut() == ["first", "rider", "another"]
        before = stage.syncs
        await stage.env.advance(10 * IDLE_SYNC_MS)
        assert stage.syncs == before

    play(story)


def test_riders_that_keep_coming_do_not_put_off_their_sync() -> None:
    """L2: the idle time counts from the first unsynced rider, not from the last."""

    async def story(stage: Scene) -> None:
        for number in range(IDLE_SYNC_MS):
            await stage.backend.transact(write(f"rider {number}"), RIDER)
            await stage.env.advance(1)
        assert len(await stage.labels_after_power_cut()) == 1 + IDLE_SYNC_MS

    play(story)


def test_a_caller_that_went_away_before_its_turn_changes_nothing() -> None:
    """H3: a cancelled call that was not taken is dropped, and the drain goes on."""

    async def story(stage: Scene) -> None:
        gone = asyncio.ensure_future(stage.backend.transact(write("gone"), BARRIER))
        stays = asyncio.ensure_future(stage.backend.transact(write("stays"), BARRIER))
        await asyncio.sleep(0)
        gone.cancel()
        assert await stays == 2
        assert gone.cancelled()
        assert await stage.labels() == ["first", "stays"]

    play(story)


def test_a_job_that_was_taken_is_carried_out_though_its_caller_went_away() -> None:
    """H3: the transaction may be half done; it is finished, and nobody else is disturbed."""

    async def story(stage: Scene) -> None:
        def body(transaction: Transaction) -> int:
            gone.cancel()
            return write("taken")(transaction)

        gone = asyncio.ensure_future(stage.backend.transact(body, BARRIER))
        with pytest.raises(asyncio.CancelledError):
            await gone
        await stage.env.rest()
        assert await stage.labels() == ["first", "taken"]

    play(story)


def test_a_rider_does_not_leave_the_event_loop_and_a_barrier_does() -> None:
    """S9: a commit without a sync is cheaper than the way to a thread and back."""

    async def story(stage: Scene) -> None:
        before = stage.env.blocking_calls
        await stage.backend.transact(write("rider"), RIDER)
        await stage.labels()
        assert stage.env.blocking_calls == before
        await stage.backend.transact(write("barrier"), BARRIER)
        assert stage.env.blocking_calls == before + 1

    play(story)


def test_the_first_rider_after_a_checkpoint_goes_to_a_thread() -> None:
    """S9: it begins the log anew, which syncs the log's header."""

    async def main() -> None:
        disk, env = MemoryDisk(), VirtualEnv()
        backend = await open_sqlite(disk, env, schema=notebook.SCHEMA, checkpoint_pages=20)
        for number in range(30):
            syncs, calls = disk.counts[Operation.SYNC], env.blocking_calls
            await backend.transact(write(f"line {number}"), RIDER)
            assert env.blocking_calls > calls or disk.counts[Operation.SYNC] == syncs
            await env.rest()
        await backend.close()

    asyncio.run(main())


def test_many_riders_at_once_go_to_a_thread() -> None:
    """S9: at the limit a batch runs on the event loop, one past it in a thread."""

    async def story(stage: Scene) -> None:
        for callers, calls in ((INLINE_JOBS_MAX, 0), (INLINE_JOBS_MAX + 1, 1)):
            before = stage.env.blocking_calls
            barrier = asyncio.ensure_future(stage.backend.transact(write(f"b{callers}"), BARRIER))
            await asyncio.sleep(0)  # what comes now waits in the queue
            await together(stage, *((write(f"{callers}.{n}"), RIDER) for n in range(callers)))
            await barrier
            assert stage.env.blocking_calls == before + 1 + calls

    play(story)


def test_a_rider_that_finds_no_other_caller_runs_inside_its_call() -> None:
    """S9: no task and no turn of the loop, so many times in a row; then the loop comes round."""

    async def story(stage: Scene) -> None:
        turns = 0

        def count() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(count)

        await stage.backend.transact(write("a barrier"), BARRIER)
        asyncio.get_running_loop().call_soon(count)
        for number in range(DIRECT_JOBS_MAX):
            await stage.backend.transact(write(f"line {number}"), RIDER)
            assert turns == 0
        await stage.backend.transact(write("one more"), RIDER)
        assert turns > 0
        assert await stage.labels_after_power_cut() == ["first", "a barrier"]
        await stage.env.advance(IDLE_SYNC_MS)
        assert len(await stage.labels_after_power_cut()) == DIRECT_JOBS_MAX + 3

    play(story)


def test_a_job_that_fails_inside_its_call_fails_alone() -> None:
    """L2: its caller gets the error, nothing of it is kept, and the next job is none the wiser."""

    async def story(stage: Scene) -> None:
        with pytest.raises(ChangedItsMind):
            await stage.backend.transact(write_and_fail("bad", 10), RIDER)
        await stage.backend.transact(write("good"), RIDER)
        assert await stage.labels() == ["first", "good"]

    play(story)


def test_after_a_slow_batch_the_next_ones_go_to_a_thread() -> None:
    """S9: who held up the event loop once does not do it again."""

    async def story(stage: Scene) -> None:
        for spent_ms, calls in ((INLINE_SLOW_MS - 1, 0), (INLINE_SLOW_MS, 1)):

            def body(transaction: Transaction, spent_ms: int = spent_ms) -> None:
                stage.env.spend(spent_ms)

            await stage.backend.transact(body, READ)
            before = stage.env.blocking_calls
            await stage.backend.transact(write(f"after {spent_ms}"), RIDER)
            assert stage.env.blocking_calls == before + calls

    play(story)
