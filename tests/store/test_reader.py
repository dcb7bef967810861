"""Questions are read beside the writer: they see one moment, and no commit waits for them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from duly.env import Loop
from duly.errors import RequestRefused, StoreUnavailable
from duly.store import reader, sqlite
from duly.store.base import Durability, Transaction
from duly.store.wal import LOG_WAIT
from tests.store import notebook
from tests.store.notebook import write
from tests.store.test_sqlite import files_beside, open_notebook, run

BARRIER, RIDER = Durability.BARRIER, Durability.RIDER
SLOW_S = 1.5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.db"


def labels(tx: Transaction) -> list[str]:
    """Read what was written."""
    return [row[0] for row in tx.all("read_labels")]


def slow(tx: Transaction) -> tuple[list[str], list[str]]:
    """Read, take long, and read again."""
    before = labels(tx)
    time.sleep(SLOW_S)
    return before, labels(tx)


def test_a_long_question_does_not_hold_up_a_commit(path: Path) -> None:
    """H1: hundreds of commits are made while it is read, and it sees one moment."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("before"), BARRIER)
        asked = asyncio.ensure_future(backend.ask(slow))
        await asyncio.sleep(SLOW_S / 5)
        made = 0
        while not asked.done():
            await backend.transact(write(f"meanwhile {made}"), BARRIER)
            made += 1
        assert await asked == (["before"], ["before"])
        assert made > 10
        assert len(await backend.ask(labels)) == made + 1
        await backend.close()

    run(story)


@pytest.mark.parametrize("durability", [BARRIER, RIDER])
def test_a_question_sees_what_was_committed_before_it(path: Path, durability: Durability) -> None:
    """U6: a question after an act sees the act."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        for number in range(50):
            await backend.transact(write(f"{number}"), durability)
            assert len(await backend.ask(labels)) == number + 1
        await backend.close()

    run(story)


def test_the_log_is_not_moved_while_a_question_is_read_and_is_moved_after_it(path: Path) -> None:
    """H1: a part of the log in the main file would look like all of it, were the log lost then."""

    async def story(env: Loop) -> None:
        backend = await sqlite.open_sqlite(path, env, schema=notebook.SCHEMA, checkpoint_pages=10)
        writer = backend._writer
        asked = asyncio.ensure_future(backend.ask(slow))
        await asyncio.sleep(SLOW_S / 5)
        for number in range(40):
            await backend.transact(write(f"{number}"), BARRIER)
        assert writer.log.pages >= 40
        await asked
        await asyncio.sleep(0.3)
        assert writer.log.pages < 10
        await backend.close()

    run(story)


def test_questions_that_overlap_do_not_keep_the_log_from_being_moved(path: Path) -> None:
    """H1, H3: with a question at every moment the log would never be moved; the next one waits."""
    is_over = threading.Event()

    async def story(env: Loop) -> None:
        backend = await sqlite.open_sqlite(path, env, schema=notebook.SCHEMA, checkpoint_pages=10)
        writer = backend._writer
        other = reader.Reader(backend._disk, env, writer)
        first = asyncio.ensure_future(backend.ask(lambda _: is_over.wait(3)))
        await asyncio.sleep(0.1)
        for number in range(60):
            await backend.transact(write(f"{number}"), BARRIER)
        assert writer.log.pages > LOG_WAIT * 10
        second = asyncio.ensure_future(other.read(lambda _: writer.log.pages, limit_ms=1000))
        await backend.transact(write("the last"), BARRIER)  # no commit waits for either
        await asyncio.sleep(0.1)
        assert (writer._reading, second.done()) == (1, False)
        is_over.set()
        await first
        assert await asyncio.wait_for(second, 10) < 10
        await other.close()
        await backend.close()

    run(story)


@pytest.mark.parametrize("durability", [BARRIER, RIDER])
def test_what_a_question_saw_is_on_the_disk_before_it_is_returned(
    path: Path, durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L2: a commit is visible before its sync; a power cut then would take it away."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.ask(labels)
        synced: list[int] = []
        sync_wal = backend._writer._sync_wal

        def sync_late() -> None:
            time.sleep(0.4)
            sync_wal()
            synced.append(1)

        monkeypatch.setattr(backend._writer, "_sync_wal", sync_late)
        writing = asyncio.ensure_future(backend.transact(write("one"), durability))
        await asyncio.sleep(0.2)
        assert (await backend.ask(labels), bool(synced)) == (["one"], True)
        await writing
        await backend.close()

    run(story)


def test_a_question_whose_time_is_over_at_its_begin_leaves_no_transaction(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1: a transaction that stays open would hold the log back, and fail every later question."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.ask(labels)
        assert backend._questions is not None
        asking = backend._questions._reader
        asking._steps_per_look = 1
        monkeypatch.setattr(asking, "_is_over", lambda: True)
        with pytest.raises(RequestRefused):
            await backend.ask(labels)
        assert asking._connection is not None
        assert not asking._connection.in_transaction
        monkeypatch.setattr(asking, "_is_over", lambda: False)
        assert await backend.ask(labels) == []
        await backend.close()

    run(story)


def test_a_question_cannot_write(path: Path) -> None:
    """H1: the connection refuses it."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        with pytest.raises(Exception, match=r"cannot be written"):
            await backend.ask(write("one"))
        assert await backend.ask(labels) == []
        await backend.close()

    run(story)


def test_a_question_that_takes_too_long_is_ended(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1: the log waits for it, so it has a limit."""
    monkeypatch.setattr(reader, "QUESTION_MS_MAX", 200)

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        with pytest.raises(RequestRefused, match=r"longer than 0\.2 s"):
            await backend.ask(endless)
        assert await backend.ask(labels) == []
        await backend.close()

    run(story)


def endless(tx: Any) -> None:
    """Compute for ever, on the connection of the question."""
    tx._cursor.execute(
        "with recursive n (x) as (select 1 union all select x + 1 from n) select max(x) from n"
    ).fetchall()


def test_a_caller_that_leaves_ends_its_own_question_and_no_other(path: Path) -> None:
    """H1: one that waits for its turn takes nothing from the one that has it."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        first = asyncio.ensure_future(backend.ask(slow))
        await asyncio.sleep(SLOW_S / 5)
        second = asyncio.ensure_future(backend.ask(labels))
        await asyncio.sleep(0)
        second.cancel()
        assert await first == ([], [])
        gone = asyncio.ensure_future(backend.ask(endless))
        await asyncio.sleep(0.2)
        gone.cancel()
        assert await asyncio.wait_for(backend.ask(labels), 10) == []
        await backend.close()

    run(story)


def test_closing_waits_for_the_question_and_leaves_no_log(path: Path) -> None:
    """H1: the writer's connection is the last one, and moves the log."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("one"), BARRIER)
        asked = asyncio.ensure_future(backend.ask(slow))
        await asyncio.sleep(SLOW_S / 5)
        await backend.close()
        assert (await asked)[1] == ["one"]
        assert files_beside(path) == ["duly.db", "duly.db.lock"]
        with pytest.raises(StoreUnavailable, match="closed"):
            await backend.ask(labels)
        assert apsw.Connection(str(path)).execute("select count(*) from line").get == 1

    run(story)


NUMBERS = "with recursive n (x) as (select 1 union all select x + 1 from n where x < :count) "
WIDE = "printf('%0100d', x)"
ROW_NUMBER = f"select max(p) from (select row_number() over (order by {WIDE} desc) as p from n)"
LIMITED = f"select max(x) from (select x, {WIDE} as y from n order by y limit :count)"
DISTINCT = f"select count(*) from (select distinct {WIDE} as y from n)"


def sort_rows(ordered: str, count: int) -> Callable[[Any], Any]:
    """Sort so many rows of about a hundred bytes, on the connection of the question."""
    return lambda tx: tx._cursor.execute(NUMBERS + ordered, {"count": count}).fetchall()[0][0]


def temporary_files() -> list[str]:
    """List the temporary files that SQLite has open in this process."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(each.readlink()))
    return [name for name in found if "etilqs" in name]


@pytest.mark.parametrize("ordered", [ROW_NUMBER, LIMITED, DISTINCT])
def test_a_question_that_sorts_too_much_is_ended(
    path: Path, monkeypatch: pytest.MonkeyPatch, ordered: str
) -> None:
    """H1: no question fills the disk with temporary files, nor the memory; below it is answered."""
    monkeypatch.setattr(reader, "MEMORY_BYTES_MAX", 32 * 1024 * 1024)
    left: list[str] = []

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.ask(labels)
        watched = backend._questions._reader._is_over  # type: ignore[union-attr]

        def watch() -> bool:
            left.extend(temporary_files())
            return watched()

        monkeypatch.setattr(backend._questions._reader, "_is_over", watch)  # type: ignore[union-attr]
        for _ in range(2):  # each question is measured alone
            assert await backend.ask(sort_rows(ordered, 50_000)) == 50_000
        with pytest.raises(RequestRefused) as refused:
            await backend.ask(sort_rows(ordered, 400_000))
        assert (refused.value.code, refused.value.facts["unit"]) == (
            "took_too_much_memory",
            "bytes",
        )
        await backend.transact(write("the writer goes on"), BARRIER)
        assert len(await backend.ask(labels)) == 1
        assert left == []
        await backend.close()

    run(story)
