"""The end of a store: closed, closed in the middle of work, or left by its own writer."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from duly.errors import StoreUnavailable
from duly.store.base import Durability
from duly.store.sqlite import open_sqlite
from duly.store.writer import BATCH_JOBS_MAX
from tests.store import notebook
from tests.store.fault_vfs import Loss, MemoryDisk
from tests.store.notebook import write
from tests.store.virtual import VirtualEnv

BARRIER, RIDER, READ = Durability.BARRIER, Durability.RIDER, Durability.READ


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
    """H3, L2: whoever was not confirmed is refused, whoever was is there."""

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
        (drain,) = [task for task in asyncio.all_tasks() if task.get_name() == "store writer"]
        drain.cancel()
        with pytest.raises(StoreUnavailable, match="the store stopped"):
            await waiting
        with pytest.raises(StoreUnavailable, match="the store stopped"):
            await backend.transact(notebook.read, READ)
        assert drain.cancelled()
        await backend.close()

    asyncio.run(main())
