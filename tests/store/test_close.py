"""The end of a store: closed, closed in the middle of work, or left by its own writer."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from random import Random

import pytest

from duly.env import Loop
from duly.errors import StoreUnavailable
from duly.store.base import Durability, Transaction
from duly.store.sqlite import open_sqlite
from duly.store.writer import BATCH_JOBS_MAX, IDLE_SYNC_MS
from tests.store import notebook
from tests.store.notebook import write
from tests.store.test_sqlite import open_notebook, run
from tests.store.virtual import VirtualEnv
from verification.disk import Loss, MemoryDisk

BARRIER, RIDER, READ = Durability.BARRIER, Durability.RIDER, Durability.READ
PATIENCE_S = 120


def test_a_closed_store_says_so() -> None:
    """H3: closing answers everybody who waits, makes riders durable, and is final."""

    async def main() -> None:
        disk, env = MemoryDisk(), VirtualEnv()
        backend = await open_sqlite(disk, env, schema=notebook.SCHEMA)
        waiting = asyncio.ensure_future(backend.transact(write("waiting"), RIDER))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(backend.close())
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match=r"memory\.db: the store is closed"):
            await backend.transact(write("too late"), RIDER)
        assert await waiting == 1
        await closing
        await backend.close()
        for call in (backend.transact(write("late"), RIDER), backend.sync()):
            with pytest.raises(StoreUnavailable, match=r"^memory\.db: the store is closed"):
                await call
        left = MemoryDisk(disk.cut_power(Loss.ALL, Random(0)))
        again = await open_sqlite(left, env, schema=notebook.SCHEMA)
        assert await again.transact(notebook.read, READ) == ["waiting"]
        await again.close()

    asyncio.run(main())


def test_closing_waits_for_all_who_came_before() -> None:
    """H3: also for those who wait for a later batch."""

    async def main() -> None:
        backend = await open_sqlite(MemoryDisk(), VirtualEnv(), schema=notebook.SCHEMA)
        calls = [
            asyncio.ensure_future(backend.transact(write(f"line {number}"), BARRIER))
            for number in range(2 * BATCH_JOBS_MAX + 1)
        ]
        await asyncio.sleep(0)
        await backend.close()
        assert [await call for call in calls] == list(range(1, len(calls) + 1))

    asyncio.run(main())


def test_a_close_that_is_cancelled_answers_everybody_and_loses_no_barrier() -> None:
    """H3, L2: a write that was not confirmed is refused, one that was is there."""

    async def main() -> None:
        disk, env = MemoryDisk(), VirtualEnv()
        backend = await open_sqlite(disk, env, schema=notebook.SCHEMA)
        calls = [
            asyncio.ensure_future(backend.transact(write(f"{number}"), BARRIER))
            for number in range(5 * BATCH_JOBS_MAX)
        ]
        closing = asyncio.ensure_future(backend.close())
        assert await calls[0] == 1
        closing.cancel()
        await env.rest()
        assert closing.cancelled()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        refused = [answer for answer in answers if not isinstance(answer, int)]
        assert refused
        assert all(isinstance(answer, StoreUnavailable) for answer in refused)
        assert all("the store is closed" in str(answer) for answer in refused)
        left = MemoryDisk(disk.cut_power(Loss.ALL, Random(0)))
        again = await open_sqlite(left, env, schema=notebook.SCHEMA)
        confirmed = [f"{number}" for number in range(len(calls) - len(refused))]
        assert await again.transact(notebook.read, READ) == confirmed
        await again.close()

    asyncio.run(main())


def test_a_drain_that_is_cancelled_answers_everybody() -> None:
    """H3: nobody waits for ever, and nothing is confirmed by a writer that is gone."""

    async def main() -> None:
        disk, env = MemoryDisk(), VirtualEnv()
        backend = await open_sqlite(disk, env, schema=notebook.SCHEMA)
        waiting = asyncio.ensure_future(backend.transact(write("waiting"), BARRIER))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        drain = the_drain()
        drain.cancel()
        with pytest.raises(StoreUnavailable, match="the store stopped"):
            await waiting
        with pytest.raises(StoreUnavailable, match="the store stopped"):
            await backend.transact(notebook.read, READ)
        assert drain.cancelled()
        await backend.close()

    asyncio.run(main())


def test_a_drain_that_is_cancelled_before_it_began_lets_nobody_wait() -> None:
    """H3: it has done nothing, so another takes its place."""

    async def main() -> None:
        backend = await open_sqlite(MemoryDisk(), VirtualEnv(), schema=notebook.SCHEMA)
        waiting = asyncio.ensure_future(backend.transact(write("waiting"), BARRIER))
        await asyncio.sleep(0)
        drain = the_drain()
        drain.cancel()
        assert await asyncio.wait_for(waiting, PATIENCE_S) == 1
        assert drain.cancelled()
        assert await backend.transact(write("later"), BARRIER) == 2
        await backend.close()

    asyncio.run(main())


def test_a_program_that_ends_while_a_call_waits_can_close_its_store() -> None:
    """H3: at its end asyncio cancels the caller and the drain together; closing still works."""

    async def main() -> None:
        disk = MemoryDisk()
        backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)

        async def work() -> None:
            try:
                await backend.transact(write("waiting"), BARRIER)
            finally:
                await asyncio.wait_for(backend.close(), PATIENCE_S)

        working = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        for task in (working, the_drain()):
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        again = await open_sqlite(disk.next_process(), VirtualEnv(), schema=notebook.SCHEMA)
        assert await again.transact(notebook.read, READ) == []
        await again.close()

    asyncio.run(main())


def test_a_sweep_that_is_cancelled_before_it_began_leaves_no_rider_behind() -> None:
    """L2: the next drain starts another."""

    async def main() -> None:
        disk, env = MemoryDisk(), VirtualEnv()
        backend = await open_sqlite(disk, env, schema=notebook.SCHEMA)
        await backend.transact(write("first"), BARRIER)
        await backend.transact(write("one"), RIDER)
        (sweep,) = [task for task in asyncio.all_tasks() if task.get_name() == "store sync"]
        sweep.cancel()
        await env.rest()
        await backend.transact(write("two"), RIDER)
        await env.advance(IDLE_SYNC_MS)
        left = MemoryDisk(disk.cut_power(Loss.ALL, Random(0)))
        again = await open_sqlite(left, env, schema=notebook.SCHEMA)
        assert await again.transact(notebook.read, READ) == ["first", "one", "two"]
        await again.close()
        await backend.close()

    asyncio.run(main())


def test_closing_waits_for_the_thread_of_a_cancelled_drain(tmp_path: Path) -> None:
    """H1, H3: the store is not given back while a batch still runs in it."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(tmp_path / "duly.db", env)
        has_begun, may_end = threading.Event(), threading.Event()

        def body(transaction: Transaction) -> int:
            has_begun.set()
            may_end.wait(PATIENCE_S)
            return write("late")(transaction)

        waiting = asyncio.ensure_future(backend.transact(body, BARRIER))
        assert await asyncio.to_thread(has_begun.wait, PATIENCE_S)
        the_drain().cancel()
        with pytest.raises(StoreUnavailable, match="the store stopped"):
            await waiting
        closing = asyncio.ensure_future(backend.close())
        await asyncio.wait([closing], timeout=0.1)
        assert not closing.done()
        may_end.set()
        await closing
        again = await open_notebook(tmp_path / "duly.db", env)
        assert await again.transact(notebook.read, READ) in ([], ["late"])
        await again.close()

    run(story)


def test_the_lock_goes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """H1: the last checkpoint is made while other hosts are kept away."""
    order: list[str] = []
    monkeypatch.setattr("duly.store.writer.shut", lambda connection: order.append("shut"))

    async def main() -> None:
        disk = MemoryDisk()
        monkeypatch.setattr(disk, "release", lambda: order.append("release"))
        await (await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)).close()

    asyncio.run(main())
    assert order == ["shut", "release"]


def the_drain() -> asyncio.Task[None]:
    (drain,) = [task for task in asyncio.all_tasks() if task.get_name() == "store writer"]
    return drain
