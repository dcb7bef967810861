"""Questions beside everything else that happens to a store, in real threads (H1).

Law: a question ends in an answer of one moment or in an error with a code. It never hangs, and it
never stops the writer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from duly.env import Loop
from duly.errors import RequestRefused, StoreError, StoreLost, StoreUnavailable
from duly.store import reader, sqlite
from duly.store.base import Durability, Transaction
from tests.store import notebook
from tests.store.notebook import write
from tests.store.test_reader import endless, labels
from tests.store.test_sqlite import open_notebook, run

BARRIER = Durability.BARRIER
SOON_S = 15  # only ends what hangs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.db"


def held(begun: threading.Event, may_end: threading.Event) -> Any:
    """Make a question that reads, waits until it may end, and reads again."""

    def body(tx: Transaction) -> tuple[list[str], list[str]]:
        before = labels(tx)
        begun.set()
        assert may_end.wait(SOON_S)
        return before, labels(tx)

    return body


async def until(event: threading.Event) -> None:
    """Wait for another thread."""
    assert await asyncio.to_thread(event.wait, SOON_S)


def test_a_store_that_is_lost_ends_the_question_that_is_being_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L2, H1: what it saw may not be on the disk, so it is not returned; each error has a code."""
    begun, may_end = threading.Event(), threading.Event()

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("kept"), BARRIER)
        asked = asyncio.ensure_future(backend.ask(held(begun, may_end)))
        await until(begun)
        waiting = asyncio.ensure_future(backend.ask(labels))

        def fail() -> None:
            raise OSError(5, "the disk is gone")

        monkeypatch.setattr(backend._writer, "_sync_wal", fail)
        with pytest.raises(StoreLost):
            await backend.transact(write("lost"), BARRIER)
        may_end.set()
        for each in (asked, waiting, backend.ask(labels)):
            with pytest.raises(StoreLost) as lost:
                await asyncio.wait_for(each, SOON_S)
            assert lost.value.code == "store_stopped"
        with pytest.raises(StoreLost):
            await backend.transact(write("after"), BARRIER)
        with suppress(StoreError):  # it cannot make the last commit durable, and says so
            await asyncio.wait_for(backend.close(), SOON_S)

    run(story)


def test_closing_ends_a_question_that_takes_long_and_those_that_wait(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1: a host that is stopped does not wait for every question; each is told why."""
    monkeypatch.setattr(reader, "CLOSE_MS_MAX", 100)

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("one"), BARRIER)
        await backend.ask(labels)
        asked = [asyncio.ensure_future(backend.ask(endless)) for _ in range(3)]
        await asyncio.sleep(0.3)
        await asyncio.wait_for(backend.close(), SOON_S)
        for each in asked:
            with pytest.raises(StoreUnavailable) as closed:
                await asyncio.wait_for(each, SOON_S)
            assert closed.value.code == "store_closed"
        again = await open_notebook(path, env)
        assert await again.ask(labels) == ["one"]
        await again.close()

    run(story)


def test_a_question_whose_time_ends_within_it_leaves_no_transaction(path: Path) -> None:
    """H1: its transaction is ended although its time is over, or the log could not be moved."""

    async def story(env: Loop) -> None:
        backend = await sqlite.open_sqlite(path, env, schema=notebook.SCHEMA, checkpoint_pages=10)
        await backend.ask(labels)
        assert backend._questions is not None
        asking = backend._questions._reader
        asking._steps_per_look = 1

        def late(tx: Transaction) -> list[str]:
            labels(tx)
            asking._ends_ms = 0
            return labels(tx)

        for _ in range(2):
            with pytest.raises(RequestRefused) as refused:
                await backend.ask(late)
            assert refused.value.code == "took_too_long"
            assert asking._connection is not None
            assert not asking._connection.in_transaction
        for number in range(40):
            await backend.transact(write(f"{number}"), BARRIER)
        await asyncio.sleep(0.3)
        assert backend._writer.log.pages < 10
        await backend.close()

    run(story)


def test_many_questions_beside_many_commits_each_see_one_moment(path: Path) -> None:
    """H1, U6: two rows of one transaction are seen together or not at all, and no commit waits."""

    def write_two(number: int) -> Any:
        def body(tx: Transaction) -> None:
            write(f"{number} a")(tx)
            write(f"{number} b")(tx)

        return body

    def see_two(tx: Transaction) -> int:
        first = labels(tx)
        time.sleep(0.02)
        assert labels(tx) == first
        assert len(first) % 2 == 0
        return len(first)

    async def story(env: Loop) -> None:
        backend = await sqlite.open_sqlite(path, env, schema=notebook.SCHEMA, checkpoint_pages=20)

        async def ask() -> list[int]:
            return [await backend.ask(see_two) for _ in range(15)]

        asking = [asyncio.ensure_future(ask()) for _ in range(3)]
        made = 0
        while not all(each.done() for each in asking):
            await backend.transact(write_two(made), BARRIER)
            made += 1
        for counts in await asyncio.gather(*asking):
            assert counts == sorted(counts)
        assert made >= 10
        assert await backend.ask(see_two) == 2 * made
        await backend.close()

    run(story)
