"""The SQLite file itself: its lock, its version, its life among other programs and processes."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from duly.config import path_from_url
from duly.env import Loop
from duly.errors import (
    ConfigError,
    StoreDamaged,
    StoreError,
    StoreInUse,
    StoreNewer,
    StoreUnavailable,
)
from duly.store.base import Durability
from duly.store.disk import sync_data
from duly.store.sqlite import (
    PAGE_BYTES,
    Schema,
    SqliteBackend,
    default_schema,
    open_sqlite,
)
from duly.store.wal import CHECKPOINT_PAGES
from tests.store import notebook
from tests.store.notebook import write

BARRIER, RIDER, READ = Durability.BARRIER, Durability.RIDER, Durability.READ
CONFIRMED_BEFORE_KILL = 50
WRITES = 20_000
CALLERS = 100
FRAME_BYTES = PAGE_BYTES + 24

# A host of its own: it writes one line after the other and says which ones are durable.
HOST = """
import asyncio, sys
from pathlib import Path
from duly.env import Loop
from duly.store.base import Durability
from duly.store.sqlite import open_sqlite
from tests.store import notebook

async def main():
    backend = await open_sqlite(Path(sys.argv[1]), Loop(), schema=notebook.SCHEMA)
    print("open", flush=True)
    number = 0
    while sys.argv[2] == "write":
        number += 1
        await backend.transact(notebook.write(f"rider {number}"), Durability.RIDER)
        await backend.transact(notebook.write(f"barrier {number}"), Durability.BARRIER)
        print(f"barrier {number}", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@contextmanager
def other_process(path: Path, task: str) -> Iterator[subprocess.Popen[str]]:
    """Start a host of its own and wait until it has the store."""
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(path), task],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert host.stdout is not None
        assert host.stdout.readline() == "open\n"
        yield host
    finally:
        host.kill()
        host.wait()
        assert host.stdout is not None
        host.stdout.close()


def run(story: Callable[[Loop], Coroutine[Any, Any, None]]) -> None:
    env = Loop()
    try:
        asyncio.run(story(env))
    finally:
        env.close()


async def open_notebook(path: Path, env: Loop) -> SqliteBackend:
    return await open_sqlite(path, env, schema=notebook.SCHEMA)


def files_beside(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def content(path: Path) -> bytes:
    return path.read_bytes()


def inode(path: Path) -> int:
    return path.stat().st_ino


def size_bytes(path: Path) -> int:
    return path.stat().st_size


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.db"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:///duly.db", "duly.db"),
        ("sqlite:///data/duly.db", "data/duly.db"),
        ("sqlite:////var/lib/duly.db", "/var/lib/duly.db"),
    ],
)
def test_a_url_names_a_file(url: str, expected: str) -> None:
    """H1: three slashes are a relative path, four an absolute one."""
    assert path_from_url(url) == Path(expected)


@pytest.mark.parametrize(
    "url", ["", "duly.db", "sqlite://duly.db", "sqlite:///", "sqlite:///data/", "postgresql:///x"]
)
def test_a_url_that_names_no_file_is_refused(url: str) -> None:
    """H1: the error shows how to write it."""
    with pytest.raises(ConfigError, match=r"Write sqlite:///relative\.db"):
        path_from_url(url)


def test_the_schema_that_ships_can_be_opened(path: Path) -> None:
    """H4: every statement that ships is one SQLite understands."""

    async def story(env: Loop) -> None:
        schema = default_schema()
        backend = await open_sqlite(path, env)
        await backend.integrity_check(full=True)
        for name, text in schema.statements.items():
            plan = backend._connection.execute(f"explain {text}", _AnyParameter())
            assert plan.fetchall(), name
        await backend.close()

    run(story)


class _AnyParameter(dict[str, None]):
    def __missing__(self, name: str) -> None:
        return None


def test_what_was_written_is_there_after_closing(path: Path) -> None:
    """H1: a closed store is one file and an empty lock beside it."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("one"), RIDER)
        await backend.close()
        assert files_beside(path) == ["duly.db", "duly.db.lock"]
        backend = await open_notebook(path, env)
        assert await backend.transact(notebook.read, READ) == ["one"]
        await backend.close()

    run(story)


def test_a_second_host_is_refused_by_name_of_file_and_process(path: Path) -> None:
    """H1: one host has the file, in another process or in this one, under any name."""

    async def story(env: Loop) -> None:
        with other_process(path, "hold") as host:
            with pytest.raises(StoreInUse, match=f"duly.db: .*process {host.pid}"):
                await open_notebook(path, env)
            link = path.with_name("link.db")
            link.symlink_to(path)
            with pytest.raises(StoreInUse):
                await open_notebook(link, env)
        backend = await open_notebook(path, env)
        with pytest.raises(StoreInUse, match=f"process {os.getpid()}"):
            await open_notebook(path, env)
        await backend.close()
        await (await open_notebook(path, env)).close()

    run(story)


def test_a_killed_host_leaves_its_lock_and_loses_no_barrier(path: Path) -> None:
    """H1, H3: the lock dies with its holder, and everything confirmed is there."""

    async def story(env: Loop) -> None:
        with other_process(path, "write") as host:
            assert host.stdout is not None
            confirmed = [host.stdout.readline().strip() for _ in range(CONFIRMED_BEFORE_KILL)]
            host.send_signal(signal.SIGKILL)
            confirmed += host.stdout.read().split("\n")[:-1]
        backend = await open_notebook(path, env)
        await backend.integrity_check(full=True)
        labels = await backend.transact(notebook.read, READ)
        assert confirmed[0] == "barrier 1"
        assert set(confirmed) <= set(labels)
        await backend.close()

    run(story)


def test_a_newer_store_is_refused_and_left_alone(path: Path) -> None:
    """H4: the message says which version is there and which one is known."""

    async def story(env: Loop) -> None:
        newer = Schema(notebook.SCHEMA_TEXT, notebook.STATEMENTS, version=7)
        await (await open_sqlite(path, env, schema=newer)).close()
        before = content(path)
        with pytest.raises(StoreNewer, match=r"duly\.db: .*schema is 7, this Duly knows 1"):
            await open_notebook(path, env)
        assert content(path) == before
        await (await open_sqlite(path, env, schema=newer)).close()

    run(story)


def test_the_database_of_another_program_is_left_alone(path: Path) -> None:
    """H4: not a byte of it changes."""
    with apsw.Connection(str(path)) as other:
        other.execute("create table theirs (x)")
    other.close()
    before = path.read_bytes()

    async def story(env: Loop) -> None:
        with pytest.raises(StoreError, match=r"duly\.db: a SQLite database of another program"):
            await open_notebook(path, env)

    run(story)
    assert path.read_bytes() == before
    assert files_beside(path) == ["duly.db", "duly.db.lock"]


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    """H3: neither is it overwritten."""
    path.write_bytes(b"Dear diary, " * 1000)

    async def story(env: Loop) -> None:
        with pytest.raises(StoreDamaged, match=r"duly\.db: this is not a SQLite database"):
            await open_notebook(path, env)

    run(story)
    assert path.read_bytes() == b"Dear diary, " * 1000


@pytest.mark.parametrize("name", ["file/duly.db", "."])
def test_a_place_that_cannot_hold_a_store_is_refused(tmp_path: Path, name: str) -> None:
    """H3: a file where the folder should be, and a folder where the file should be."""
    (tmp_path / "file").touch()

    async def story(env: Loop) -> None:
        with pytest.raises(StoreUnavailable, match="cannot be opened"):
            await open_notebook(tmp_path / name, env)

    run(story)


def test_a_damaged_store_is_found_by_the_integrity_check(path: Path) -> None:
    """H5: the check names the file and says what to do."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        for number in range(20):
            await backend.transact(write(f"line {number}", PAGE_BYTES), RIDER)
        await backend.integrity_check()
        await backend.close()
        overwrite(path, 3 * PAGE_BYTES, b"\xff" * (2 * PAGE_BYTES))
        backend = await open_notebook(path, env)
        for full in (False, True):
            with pytest.raises(StoreDamaged, match=r"duly\.db: .*Restore a backup"):
                await backend.integrity_check(full=full)
        await backend.close()

    run(story)


def test_an_index_that_disagrees_with_its_table_is_found_by_the_full_check(path: Path) -> None:
    """H5: the quick check reads every page and compares no index."""

    async def story(env: Loop) -> None:
        await (await open_notebook(path, env)).close()
        other = apsw.Connection(str(path))
        other.execute("create table shade (a, b); create index shade_index on shade (a)")
        other.execute("insert into shade values (1, 2); pragma writable_schema = on")
        other.execute("update sqlite_schema set sql = replace(sql, '(a)', '(b)')")
        other.close()
        backend = await open_notebook(path, env)
        await backend.integrity_check()
        with pytest.raises(StoreDamaged, match=r"duly\.db: .*missing from index"):
            await backend.integrity_check(full=True)
        await backend.close()

    run(story)


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda file: file.unlink(), "was removed while it was open"),
        (
            lambda file: (file.rename(f"{file}.old"), file.write_bytes(b"")),
            "was replaced by another file",
        ),
    ],
    ids=["removed", "replaced"],
)
def test_a_file_that_goes_away_while_it_is_open_is_noticed(
    path: Path, suffix: str, harm: Callable[[Path], Any], message: str
) -> None:
    """H3: SQLite writes to a deleted file without an error; no barrier confirms that."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("before"), BARRIER)
        harm(Path(f"{path}{suffix}"))
        with pytest.raises(StoreUnavailable, match=message):
            await backend.transact(write("after"), BARRIER)
        with pytest.raises(StoreUnavailable, match=message):
            await backend.transact(notebook.read, READ)
        await backend.close()

    run(story)


def test_the_folder_is_synced_before_a_new_store_is_used(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L2: a file whose name is not on the disk is lost with all that is in it."""
    synced = _record_inodes(monkeypatch, "os.fsync")

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        assert inode(path.parent) in synced
        await backend.close()

    run(story)


@pytest.mark.parametrize(
    ("platform", "call"), [("linux", "fdatasync"), ("darwin", "fcntl F_FULLFSYNC")]
)
def test_data_is_synced_as_the_platform_asks_for(
    platform: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L2: on macOS an fsync stops at the drive's own memory."""
    calls: list[str] = []
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "fdatasync", lambda _: calls.append("fdatasync"), raising=False)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", "F_FULLFSYNC", raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda _, command: calls.append(f"fcntl {command}"))
    sync_data(0)
    assert calls == [call]


def test_a_barrier_syncs_the_log_and_a_rider_does_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L2: the sync is ours, on the file SQLite writes to."""
    synced = _record_inodes(monkeypatch, "duly.store.disk.sync_data")

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("rider"), RIDER)
        assert synced == []
        await backend.transact(write("barrier"), BARRIER)
        assert synced == [inode(Path(f"{path}-wal"))]
        await backend.close()

    run(story)


def test_a_disk_that_cannot_sync_stops_the_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3: what the system said is passed on, with the file and what to do."""

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        with monkeypatch.context() as broken:
            broken.setattr("duly.store.disk.sync_data", fail)
            with pytest.raises(StoreUnavailable, match=r"duly\.db: .*stopped.*Input/output error"):
                await backend.transact(write("unsure"), BARRIER)
        with pytest.raises(StoreUnavailable, match="Open it again"):
            await backend.transact(write("later"), BARRIER)
        await backend.close()
        await (await open_notebook(path, env)).close()

    run(story)


def _record_inodes(monkeypatch: pytest.MonkeyPatch, function: str) -> list[int]:
    inodes: list[int] = []
    monkeypatch.setattr(function, lambda file: inodes.append(os.fstat(file).st_ino))
    return inodes


def test_the_log_stays_small(path: Path) -> None:
    """H3: over many writes the log is written again and again from its start."""
    wal = Path(f"{path}-wal")
    largest_bytes = 0

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)

        async def call(caller: int) -> None:
            nonlocal largest_bytes
            for number in range(WRITES // CALLERS):
                await backend.transact(write(f"{caller}.{number}", 100), RIDER)
                largest_bytes = max(largest_bytes, size_bytes(wal))

        await asyncio.gather(*(call(caller) for caller in range(CALLERS)))
        assert len(await backend.transact(notebook.read, READ)) == WRITES
        await backend.close()

    run(story)
    assert CHECKPOINT_PAGES * FRAME_BYTES // 2 < largest_bytes < 2 * CHECKPOINT_PAGES * FRAME_BYTES


def test_the_log_shrinks_after_a_large_transaction(path: Path) -> None:
    """H3: one transaction can make the log as large as itself, not for good."""
    wal = Path(f"{path}-wal")

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("large", 3 * CHECKPOINT_PAGES * PAGE_BYTES), BARRIER)
        assert size_bytes(wal) > 2 * CHECKPOINT_PAGES * FRAME_BYTES
        await backend.sync()
        await backend.transact(write("small"), BARRIER)
        assert size_bytes(wal) < 2 * CHECKPOINT_PAGES * FRAME_BYTES
        await backend.close()

    run(story)
