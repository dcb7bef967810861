"""A database whose log was lost between two lives: it is told from one that was closed (H1, H5)."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

import duly
from duly.errors import StoreUnavailable
from duly.store import Store, migrate, queries
from duly.store.backup import back_up
from duly.store.base import Durability, Transaction
from duly.store.disk import LOG_HEAD_BYTES
from duly.store.mark import LOG, MARKS, OPEN, LeftOpen, look, name_log
from duly.store.record import Action
from duly.store.sqlite import Schema, SqliteBackend, default_schema, open_sqlite
from duly.store.upkeep import COPIED, LOST
from tests.spoken import long, short
from tests.store.exam import FastDisk
from tests.store.virtual import VirtualEnv
from verification.disk import Loss, MemoryDisk

BARRIER, RIDER, READ = Durability.BARRIER, Durability.RIDER, Durability.READ
NOON = 10**13
PLAIN = duly.Source(
    "python",
    """
from duly import workflow

flow = workflow("notes", topics={"note": {"ingress": True}})


@flow.consumer("note")
class read:
    async def prepare(self, ctx, state):
        return {"reservations": []}
""",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.db"


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def marks(path: Path) -> dict[str, int]:
    """Read the marks that lie in the main file itself, whatever is in a log beside it."""
    main = apsw.Connection(
        f"file:{path}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    rows: Any = main.execute("select name, at from upkeep").fetchall()
    main.close()
    return dict(rows)


async def opened(path: Path) -> SqliteBackend:
    return await open_sqlite(FastDisk(path), VirtualEnv())


def line(number: int) -> Callable[[Transaction], int]:
    return lambda tx: tx.run("put_upkeep", name="line", at=number)


async def lines(backend: SqliteBackend) -> int | None:
    row = await backend.transact(lambda tx: tx.one("get_upkeep", name="line"), READ)
    return None if row is None else int(row[0])


async def blind_since(backend: SqliteBackend) -> int | None:
    """Do what a host does when it opens."""
    action = Action("action_restore", "duly", "pause", "restored from a backup")
    return await Store(backend).note_restore(action=action, now=NOON)


def killed(path: Path, folder: str, *, with_log: bool) -> Path:
    """Answer the files as they lie there, as the next process finds them after a kill."""
    left = path.parent / folder / path.name
    left.parent.mkdir()
    shutil.copy(path, left)
    if with_log:
        shutil.copy(wal(path), wal(left))
    return left


async def test_an_open_database_says_so_in_its_main_file_until_it_is_closed(path: Path) -> None:
    """H1: not only in its log, which may be lost; and it names that log."""
    backend = await opened(path)
    found = marks(path)
    assert set(found) == {OPEN, LOG}
    assert found[LOG] == name_log(wal(path).read_bytes()[:LOG_HEAD_BYTES])
    await backend.transact(line(1), BARRIER)
    await backend.close()
    assert marks(path) == {"line": 1}
    assert not wal(path).exists()


async def test_a_database_that_lost_its_log_starts_like_a_restored_copy(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """H1, H5: every workflow is paused and says since when the ledger is blind, once."""
    async with duly.Host(url(path)) as host:
        await host.deploy(PLAIN)
    async with duly.Host(url(path)):
        left = killed(path, "alone", with_log=False)
    with caplog.at_level(logging.WARNING, "duly.store"):
        async with duly.Host(url(left)) as host:
            notes = await host.workflow("notes")
            assert notes.paused
            assert short(host, notes).startswith("The store has lost its log; what was done since ")
            (entry,) = await host.attention()
            assert "lost its log" in long(host, entry)
            assert [act.detail for act in await host.actions("notes") if act.verb == "pause"] == [
                "the log of the store was lost"
            ]
            await host.resume("notes")
    assert "was open when its host ended, and its log is not there any more" in caplog.text
    async with duly.Host(url(left)) as host:
        assert not (await host.workflow("notes")).paused


async def test_a_killed_host_that_kept_its_log_starts_as_usual(path: Path) -> None:
    """H1, H3: nothing is blind after a kill, however often, and nothing is lost."""
    at = path
    for life in range(4):
        backend = await opened(at)
        assert await blind_since(backend) is None
        assert await lines(backend) == (life or None)
        at = killed(at, f"opened {life}", with_log=True)  # before it has written anything
        again = await opened(at)
        assert await blind_since(again) is None
        await again.transact(line(life + 1), BARRIER)
        at = killed(at, f"written {life}", with_log=True)
        await again.close()
        await backend.close()


async def test_another_databases_log_is_refused_and_left_alone(path: Path) -> None:
    """H1, H5: SQLite would write its pages over the database; without it the log is lost."""
    other = path.parent / "other.db"
    backend, stranger = await opened(path), await opened(other)
    await backend.transact(line(1), BARRIER)
    left = killed(path, "left", with_log=True)
    shutil.copy(wal(other), wal(left))
    await stranger.close()
    await backend.close()
    before = left.read_bytes(), wal(left).read_bytes()
    with pytest.raises(StoreUnavailable, match=r"duly\.db-wal is the log of another database"):
        await opened(left)
    assert (left.read_bytes(), wal(left).read_bytes()) == before
    wal(left).unlink()
    backend = await opened(left)
    assert await blind_since(backend) == at_opening()
    await backend.close()


async def test_an_empty_log_of_an_open_database_was_lost(path: Path) -> None:
    """H1: an open database never has one, not even before its first transaction."""
    backend = await opened(path)
    left = killed(path, "left", with_log=True)
    await backend.close()
    wal(left).write_bytes(b"")
    backend = await opened(left)
    assert await blind_since(backend) == at_opening()
    await backend.close()
    backend = await opened(left)
    assert await blind_since(backend) is None
    await backend.close()


async def test_a_store_that_lost_its_log_is_blind_since_the_newest_time_it_knows(
    path: Path,
) -> None:
    """H5: not since the host was opened weeks ago; a time that is still to come says nothing."""
    backend = await open_sqlite(FastDisk(path), VirtualEnv(), checkpoint_pages=1)
    note = Action("action_tidy", "me", "tidy")
    await Store(backend).note_act(target=None, action=note, now=NOON - 1)
    await backend.transact(line(1), BARRIER)  # and all of it is moved into the main file
    left = killed(path, "left", with_log=False)
    await backend.close()
    for now, since in ((NOON, NOON - 1), (NOON - 2, at_opening())):
        again = path.parent / f"{now}.db"
        shutil.copy(left, again)
        backend = await open_sqlite(FastDisk(again), Later(now))
        assert await blind_since(backend) == since
        await backend.close()


async def cut_short(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open a store when there is no room for the checkpoint of the opening."""

    def is_full(connection: apsw.Connection) -> None:
        raise apsw.FullError("no room for the checkpoint")

    with monkeypatch.context() as patched:
        patched.setattr("duly.store.sqlite._empty_log", is_full)
        with pytest.raises(StoreUnavailable):
            await opened(path)


async def test_an_opening_cut_short_after_another_program_moved_the_log_hinders_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1: the log that it leaves is the one the next opening expects, and nothing was lost."""
    backend = await opened(path)
    await backend.transact(line(1), BARRIER)
    left = killed(path, "left", with_log=True)
    await backend.close()
    other = apsw.Connection(str(left))
    other.execute("select count(*) from upkeep").fetchall()
    other.close()
    await cut_short(left, monkeypatch)
    backend = await opened(left)
    assert (await lines(backend), await blind_since(backend)) == (1, None)
    await backend.close()


async def test_an_opening_that_is_cut_short_after_a_loss_is_no_hindrance_to_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1, H5: no log is begun beside a main file that names the lost one; the older loss stays."""
    backend = await opened(path)
    left = killed(path, "left", with_log=False)
    await backend.close()
    await cut_short(left, monkeypatch)
    backend = await open_sqlite(FastDisk(left), Later(NOON))
    assert set(marks(left)) == {OPEN, LOG, LOST}
    again = killed(left, "again", with_log=False)  # before the host has acted on the first loss
    await backend.close()
    backend = await open_sqlite(FastDisk(again), Later(NOON + 1))
    assert await blind_since(backend) == at_opening()
    await backend.close()


class Later(VirtualEnv):
    def __init__(self, now: int) -> None:
        super().__init__()
        self._now = now

    def now_ms(self) -> int:
        return self._now


def at_opening() -> int:
    return VirtualEnv().now_ms()


async def test_a_backup_carries_no_mark_of_an_open_database(path: Path, tmp_path: Path) -> None:
    """H5: a restored backup is told as one, and not as a store without its log."""
    copy = tmp_path / "copy.db"
    backend = await opened(path)
    made = await back_up(backend, copy, VirtualEnv())
    await backend.close()
    assert marks(copy) == {COPIED: made.at}


async def test_the_copy_before_a_migration_is_a_backup_like_any_other(path: Path) -> None:
    """H4, H5: a person who puts it back gets every workflow paused; also if its host was killed."""
    shipped = default_schema()
    newer = Schema(
        shipped.text,
        shipped.statements,
        version=migrate.SCHEMA_VERSION + 1,
        migrations={migrate.SCHEMA_VERSION: "select 1"},
    )
    backend = await opened(path)
    left = killed(path, "left", with_log=True)
    await backend.close()
    await (await open_sqlite(FastDisk(left), VirtualEnv(), schema=newer)).close()
    copy = left.with_name(f"{left.name}.v{migrate.SCHEMA_VERSION}.backup")
    assert marks(copy) == {COPIED: at_opening()}
    backend = await opened(copy)
    assert await blind_since(backend) == at_opening()
    await backend.close()


def test_a_power_cut_anywhere_is_never_taken_for_a_lost_log() -> None:
    """H1, H3: while it opens, works, checkpoints and closes, and while it opens again."""
    statements = default_schema().statements
    small = Schema("create table upkeep (name text primary key, at bigint)", statements)

    async def live(disk: MemoryDisk) -> None:
        backend = await open_sqlite(disk, VirtualEnv(), schema=small, checkpoint_pages=4)
        for number in range(6):
            await backend.transact(line(number), BARRIER if number % 2 else RIDER)
        await backend.close()

    async def story() -> None:
        disk = MemoryDisk()
        cuts: list[dict[str, bytes]] = []
        random = Random(1)

        def cut() -> None:
            cuts.extend(disk.cut_power(loss, random) for loss in Loss)

        disk.on_operation = cut
        await live(disk)
        # The same for a host that finds the files of a killed one.
        for files in cuts[len(cuts) // 2 : len(cuts) // 2 + 3]:
            disk = MemoryDisk(files)
            disk.on_operation = cut
            await live(disk)
        seen = {
            files["memory.db"] + b"|" + files.get("memory.db-wal", b""): files for files in cuts
        }
        assert len(seen) > 100
        for files in seen.values():
            left = MemoryDisk(files)
            assert not look(left, statements).is_log_lost
            left.release()

    asyncio.run(story())


def test_an_opening_that_is_cancelled_leaves_a_closed_database(path: Path) -> None:
    """H1: it has merged its log, so the mark must be gone with it."""

    async def story() -> None:
        env = VirtualEnv()
        await (await open_sqlite(FastDisk(path), env)).close()
        opening = asyncio.ensure_future(open_sqlite(FastDisk(path), env))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(story())
    assert not set(MARKS) & set(marks(path)) or wal(path).exists()


def test_a_store_of_the_first_schema_has_no_mark_and_is_not_blind(path: Path) -> None:
    """H1, H4: it was never said to be open, so nothing is missing."""
    old = apsw.Connection(str(path))
    old.execute(queries.read("schema"))
    old.pragma("application_id", migrate.APPLICATION_ID)
    old.pragma("user_version", migrate.SCHEMA_VERSION)
    old.pragma("journal_mode", "wal")
    old.close()

    async def story() -> None:
        disk = FastDisk(path)
        assert look(disk, default_schema().statements) == LeftOpen()
        store = Store(await open_sqlite(disk, VirtualEnv()))
        assert LOST not in {
            name
            for (name,) in await store.backend.transact(_names, READ)  # nothing is noted
        }
        await store.close()

    asyncio.run(story())


def _names(tx: Any) -> list[tuple[str]]:
    return [(name,) for name in (OPEN, LOST) if tx.one("get_upkeep", name=name) is not None]


def test_the_name_of_a_log_stays_when_it_is_begun_anew(path: Path) -> None:
    """H1: SQLite counts both numbers up; another log has another name."""

    async def story() -> None:
        env = VirtualEnv()
        backend = await open_sqlite(FastDisk(path), env, checkpoint_pages=2)
        names = set()
        heads = set()
        for number in range(12):
            await backend.transact(line(number), BARRIER)
            heads.add(wal(path).read_bytes()[:LOG_HEAD_BYTES])
            names.add(name_log(wal(path).read_bytes()[:LOG_HEAD_BYTES]))
        assert len(heads) > 2
        assert names == {marks(path)[LOG]}
        await backend.close()

    asyncio.run(story())
    assert name_log(os.urandom(31)) is None


@pytest.mark.parametrize("lines_written", [0, 1, 40])
async def test_a_log_that_another_program_moved_was_not_lost(
    path: Path, lines_written: int
) -> None:
    """H1: a look with another tool at the store of a killed host pauses no workflow."""
    # Forty commits cross several checkpoints of our own.
    backend = await open_sqlite(FastDisk(path), VirtualEnv(), checkpoint_pages=8)
    for number in range(1, lines_written + 1):
        await backend.transact(line(number), BARRIER)
    merged = killed(path, "merged", with_log=True)
    alone = killed(path, "alone", with_log=False)
    await backend.close()
    tool = apsw.Connection(str(merged))
    assert tool.execute("select count(*) from upkeep").fetchall()
    tool.close()
    assert not wal(merged).exists()
    backend = await opened(merged)
    assert await blind_since(backend) is None
    assert await lines(backend) == (lines_written or None)
    await backend.close()
    backend = await opened(alone)
    assert await blind_since(backend) is not None, "the same file without its log"
    await backend.close()
