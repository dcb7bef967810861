"""Every operation on the disk fails once, in every way, for a moment and for good.

A store lives its whole life: it is opened, written to by one caller and by several at once,
checkpointed and closed. That life is lived again for each of its writes, syncs and truncations,
which then answer FULL, IOERR or READONLY.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from duly.errors import StoreUnavailable
from duly.store.base import Durability
from duly.store.sqlite import PAGE_BYTES, SqliteBackend, open_sqlite
from duly.store.wal import LOG_GROWTH_MAX
from duly.store.writer import BATCH_JOBS_MAX
from tests.store import notebook
from tests.store.virtual import VirtualEnv
from verification.disk import NAME, Kind, Loss, MemoryDisk, Operation

CHECKPOINT_PAGES = 10
CAUSES = ("the disk is full", "the disk returned an error", "cannot be written")
LIFE = (
    (("alone", 10, Durability.BARRIER),),
    (
        ("together 1", 10, Durability.RIDER),
        ("together 2", 9_000, Durability.BARRIER),
        ("together 3", 3_000, Durability.RIDER),
    ),
    (("big", 30_000, Durability.RIDER),),
    (("again 1", 5_000, Durability.BARRIER), ("again 2", 10, Durability.BARRIER)),
    (("last", 10, Durability.RIDER),),
)


@dataclass(slots=True)
class Told:
    """What the callers of a store were told."""

    durable: list[str] = field(default_factory=list)
    committed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    errors: list[StoreUnavailable] = field(default_factory=list)

    @property
    def has_stopped(self) -> bool:
        return any("the store stopped" in str(error) for error in self.errors)


async def live(disk: MemoryDisk, told: Told) -> None:
    """Open a store, write to it, close it; note every answer."""

    async def call(
        backend: SqliteBackend, label: str, size_bytes: int, durability: Durability
    ) -> None:
        try:
            await backend.transact(notebook.write(label, size_bytes), durability)
        except StoreUnavailable as error:
            told.errors.append(error)
            told.refused.append(label)
        else:
            told.committed.append(label)
            if durability is Durability.BARRIER:
                told.durable.append(label)

    try:
        backend = await open_sqlite(
            disk, VirtualEnv(), schema=notebook.SCHEMA, checkpoint_pages=CHECKPOINT_PAGES
        )
    except StoreUnavailable as error:
        told.errors.append(error)
        return
    for together in LIFE:
        await asyncio.gather(*(call(backend, *line) for line in together))
    try:
        await backend.close()
    except StoreUnavailable as error:
        told.errors.append(error)


def positions() -> Iterator[tuple[Operation, int]]:
    """Answer every operation of an undisturbed life."""
    disk = MemoryDisk()
    asyncio.run(live(disk, Told()))
    for operation in Operation:
        for position in range(disk.counts[operation]):
            yield operation, position


async def read_back(disk: MemoryDisk) -> list[str]:
    """Open what is left, go on working with it, and answer its history."""
    backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)
    await backend.integrity_check(full=True)
    history = await backend.transact(notebook.read, Durability.READ)
    await backend.transact(notebook.write("work goes on"), Durability.BARRIER)
    await backend.close()
    return history


def check(told: Told, killed: list[str], powerless: list[str], *, sync_failed: bool) -> None:
    """See that what callers were told agrees with what is there."""
    assert len(set(killed)) == len(killed)
    assert set(told.committed) <= set(killed)
    assert set(told.durable) <= set(powerless)
    if not sync_failed:
        # A caller that was refused without a failed sync was told that nothing was written.
        assert not set(told.refused) & set(killed)
    for error in told.errors:
        assert NAME in str(error)
        assert "planted" in str(error)
        assert any(cause in str(error) for cause in CAUSES) or "the store stopped" in str(error)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("kind", Kind)
def test_every_failing_operation_is_all_or_nothing(kind: Kind, lasting: bool) -> None:
    """H3: no torn transaction, no lost acknowledged one, a clear message, and work goes on."""
    for operation, position in positions():
        disk, told = MemoryDisk(), Told()
        disk.fail(operation, position, kind, lasting=lasting)
        asyncio.run(live(disk, told))
        assert disk.faults_met, (operation, position)
        after_kill = disk.next_process()
        after_cut = MemoryDisk(disk.cut_power(Loss.ALL, Random(position)))
        disk.drop()
        killed = asyncio.run(read_back(after_kill))
        powerless = asyncio.run(read_back(after_cut))
        check(told, killed, powerless, sync_failed=operation is Operation.SYNC)


@pytest.mark.parametrize("kind", Kind)
def test_a_write_that_failed_once_stops_nobody(kind: Kind) -> None:
    """H3: the host goes on in the same process when the fault is over."""

    async def scene() -> None:
        disk = MemoryDisk()
        backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)
        disk.fail(Operation.WRITE, 0, kind, lasting=True)
        for label in ("refused 1", "refused 2"):
            with pytest.raises(StoreUnavailable, match=r"memory\.db: .*; nothing was written"):
                await backend.transact(notebook.write(label), Durability.BARRIER)
        disk.heal()
        await backend.transact(notebook.write("accepted"), Durability.BARRIER)
        assert await backend.transact(notebook.read, Durability.READ) == ["accepted"]
        await backend.close()

    asyncio.run(scene())


@pytest.mark.parametrize("wait", [0, 1], ids=["SQLite's own", "ours"])
@pytest.mark.parametrize("callers", [1, 2])
def test_a_failed_sync_stops_the_store_until_it_is_opened_again(wait: int, callers: int) -> None:
    """H3: after a failed sync nothing is confirmed, not even by a sync that would succeed."""

    async def scene() -> None:
        disk = MemoryDisk()
        backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)
        disk.fail(Operation.SYNC, wait, Kind.IOERR, lasting=False)
        answers = await asyncio.gather(
            *(backend.transact(notebook.write(f"{n}"), Durability.BARRIER) for n in range(callers)),
            return_exceptions=True,
        )
        for answer in answers:
            assert isinstance(answer, StoreUnavailable)
            assert "memory.db: the store stopped" in str(answer)
            assert "Open it again" in str(answer)
        for call in (
            backend.sync(),
            backend.transact(notebook.write("later"), Durability.RIDER),
            backend.transact(notebook.read, Durability.READ),
        ):
            with pytest.raises(StoreUnavailable, match="the store stopped"):
                await call
        syncs = disk.counts[Operation.SYNC]
        await backend.close()
        assert disk.counts[Operation.SYNC] == syncs

    asyncio.run(scene())


def test_a_failed_sync_is_told_to_those_who_wait_for_a_later_batch() -> None:
    """H3: nobody waits for ever."""

    async def scene() -> None:
        disk, env = MemoryDisk(), VirtualEnv()
        backend = await open_sqlite(disk, env, schema=notebook.SCHEMA)
        disk.fail(Operation.SYNC, 0, Kind.IOERR, lasting=True)
        calls = [
            asyncio.ensure_future(backend.transact(notebook.write(f"{n}"), Durability.BARRIER))
            for n in range(BATCH_JOBS_MAX + 1)
        ]
        await env.rest()
        assert all(call.done() for call in calls)
        assert all(isinstance(call.exception(), StoreUnavailable) for call in calls)
        await backend.close()

    asyncio.run(scene())


def test_what_a_host_reads_after_a_failed_sync_is_made_durable_anew() -> None:
    """H3, L2: a page that no sync will write any more is copied before anything rests on it."""

    async def scene() -> None:
        disk = MemoryDisk()
        backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)
        # The first sync is of the log's header, which SQLite begins anew; the second is ours.
        disk.fail(Operation.SYNC, 1, Kind.IOERR, lasting=False)
        with pytest.raises(StoreUnavailable):
            await backend.transact(notebook.write("in memory only"), Durability.BARRIER)
        second = disk.next_process()
        disk.drop()
        backend = await open_sqlite(second, VirtualEnv(), schema=notebook.SCHEMA)
        seen = await backend.transact(notebook.read, Durability.BARRIER)
        assert seen == ["in memory only"]
        left = MemoryDisk(second.cut_power(Loss.ALL, Random(0)))
        second.drop()
        assert await read_back(left) == seen

    asyncio.run(scene())


@pytest.mark.parametrize("is_log_emptied", [True, False])
def test_riders_of_a_killed_process_are_durable_after_the_first_barrier_of_the_next(
    is_log_emptied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L2: a barrier that changed no row confirms what it read, whichever task wrote it.

    Opening empties the log; the barrier does not rely on that.
    """
    if not is_log_emptied:
        monkeypatch.setattr("duly.store.sqlite._empty_log", lambda connection: None)

    async def scene() -> None:
        disk = MemoryDisk()
        backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)
        await backend.transact(notebook.write("rider"), Durability.RIDER)
        second = disk.next_process()
        disk.drop()
        backend = await open_sqlite(second, VirtualEnv(), schema=notebook.SCHEMA)
        assert await backend.transact(notebook.read, Durability.BARRIER) == ["rider"]
        left = MemoryDisk(second.cut_power(Loss.ALL, Random(0)))
        second.drop()
        assert await read_back(left) == ["rider"]

    asyncio.run(scene())


async def left_behind(label: str) -> MemoryDisk:
    """Answer the disk of a process that was killed with a line in the log."""
    disk = MemoryDisk()
    backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)
    await backend.transact(notebook.write(label), Durability.BARRIER)
    left = disk.next_process()
    disk.drop()
    return left


def test_a_store_whose_log_cannot_be_emptied_is_not_opened() -> None:
    """H3: on a full disk the log stays as it is; when there is room again it is opened whole."""

    async def scene() -> None:
        disk = await left_behind("in the log")
        disk.fail(Operation.WRITE, 0, Kind.FULL, lasting=True)
        with pytest.raises(StoreUnavailable, match=r"memory\.db: the disk is full; nothing was"):
            await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)
        assert disk.faults_met
        assert await read_back(disk.next_process()) == ["in the log"]

    asyncio.run(scene())


def test_a_store_whose_log_cannot_be_synced_is_not_opened() -> None:
    """H3: nothing is answered on the strength of a disk that has just failed."""

    async def scene() -> None:
        disk = await left_behind("in the log")
        disk.fail(Operation.SYNC, 0, Kind.IOERR, lasting=False)
        with pytest.raises(StoreUnavailable, match=r"memory\.db: the disk returned an error"):
            await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)

    asyncio.run(scene())


def test_a_checkpoint_that_fails_fails_nobody() -> None:
    """H3: a write that was committed was answered, and the log still has it all."""

    async def scene() -> None:
        disk = MemoryDisk()
        backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA, checkpoint_pages=1)
        disk.fail(Operation.WRITE, 0, Kind.FULL, lasting=False, file=NAME)
        await backend.transact(notebook.write("checkpoint fails"), Durability.BARRIER)
        await backend.transact(notebook.write("and goes on"), Durability.BARRIER)
        assert disk.faults_met == 1
        await backend.close()

    asyncio.run(scene())


def test_a_log_that_cannot_be_moved_grows_to_its_limit_and_then_says_so() -> None:
    """H3: past the limit nothing is written, readers are answered, and work goes on by itself."""

    async def scene() -> None:
        disk = MemoryDisk()
        backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA, checkpoint_pages=1)
        disk.fail(Operation.WRITE, 0, Kind.FULL, lasting=True, file=NAME)
        written: list[str] = []
        while log_pages(disk) <= LOG_GROWTH_MAX:
            written.append(f"line {len(written)}")
            await backend.transact(notebook.write(written[-1]), Durability.RIDER)
        pages = log_pages(disk)
        refused = await asyncio.gather(
            *(backend.transact(notebook.write(f"{n}"), Durability.BARRIER) for n in range(2)),
            backend.transact(notebook.write("rider"), Durability.RIDER),
            return_exceptions=True,
        )
        for error in refused:
            assert isinstance(error, StoreUnavailable)
            assert "memory.db: the disk is full; nothing was" in str(error)
            assert "the log is at its limit" in str(error)
        await backend.sync()
        assert await backend.transact(notebook.read, Durability.READ) == written
        assert log_pages(disk) == pages
        disk.heal()
        await backend.transact(notebook.write("room again"), Durability.BARRIER)
        assert await backend.transact(notebook.read, Durability.READ) == [*written, "room again"]
        await backend.close()

    asyncio.run(scene())


def test_a_log_that_cannot_be_moved_takes_a_commit_at_its_limit_and_none_past_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """H3: one page decides; the way to a refusal tries the disk, so it is not the event loop's."""

    async def scene() -> None:
        disk, env = MemoryDisk(), VirtualEnv()
        backend = await open_sqlite(disk, env, schema=notebook.SCHEMA, checkpoint_pages=1)
        disk.fail(Operation.WRITE, 0, Kind.FULL, lasting=True, file=NAME)
        await backend.transact(notebook.write("first"), Durability.BARRIER)
        monkeypatch.setattr("duly.store.wal.LOG_GROWTH_MAX", log_pages(disk))
        await backend.transact(notebook.write("at the limit"), Durability.RIDER)
        monkeypatch.setattr("duly.store.wal.LOG_GROWTH_MAX", log_pages(disk) - 1)
        await env.rest()
        calls = env.blocking_calls
        with pytest.raises(StoreUnavailable, match="the log is at its limit"):
            await backend.transact(notebook.write("past it"), Durability.RIDER)
        assert env.blocking_calls == calls + 1
        await backend.close()

    asyncio.run(scene())


def test_a_large_transaction_is_not_a_log_that_cannot_be_moved() -> None:
    """H3: a log past its limit that was moved as ever refuses nobody."""

    async def scene() -> None:
        disk = MemoryDisk()
        backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA, checkpoint_pages=1)
        large_bytes = 2 * LOG_GROWTH_MAX * PAGE_BYTES
        for label in ("large", "larger"):
            await backend.transact(notebook.write(label, large_bytes), Durability.BARRIER)
        assert log_pages(disk) > LOG_GROWTH_MAX
        await backend.close()

    asyncio.run(scene())


def log_pages(disk: MemoryDisk) -> int:
    """Answer how many pages the log has in it."""
    return len(disk.files[f"{NAME}-wal"].content) // PAGE_BYTES


def test_what_a_store_confirms_after_a_failed_sync_and_a_full_disk_is_there() -> None:
    """H3, L2: nothing is confirmed behind a page of the log that no sync will write any more."""

    async def scene() -> None:
        disk = MemoryDisk()
        backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)
        await backend.transact(notebook.write("first"), Durability.BARRIER)
        disk.fail(Operation.SYNC, 0, Kind.IOERR, lasting=False)
        with pytest.raises(StoreUnavailable, match="the store stopped"):
            await backend.transact(notebook.write("unsure"), Durability.BARRIER)
        second = disk.next_process()
        disk.drop()
        second.fail(Operation.WRITE, 0, Kind.FULL, lasting=True)
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await open_sqlite(second, VirtualEnv(), schema=notebook.SCHEMA)
        third = second.next_process()
        backend = await open_sqlite(third, VirtualEnv(), schema=notebook.SCHEMA)
        confirmed = await backend.transact(notebook.read, Durability.BARRIER)
        await backend.transact(notebook.write("third"), Durability.BARRIER)
        left = MemoryDisk(third.cut_power(Loss.ALL, Random(0)))
        third.drop()
        assert await read_back(left) == [*confirmed, "third"] == ["first", "unsure", "third"]

    asyncio.run(scene())


@pytest.mark.parametrize("wait", [0, 1], ids=["log", "database"])
def test_an_opening_that_died_of_a_failed_sync_writes_nothing_more(wait: int) -> None:
    """H3: closing must not move a log into the database whose sync has just failed."""

    async def scene() -> None:
        disk = await left_behind("in the log")
        disk.fail(Operation.SYNC, wait, Kind.IOERR, lasting=False)
        steps: list[int] = []
        disk.on_operation = lambda: steps.append(disk.faults_met)
        with pytest.raises(StoreUnavailable, match="the disk returned an error"):
            await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)
        assert disk.faults_met == 1
        assert 1 not in steps

    asyncio.run(scene())
