"""The files of a store: who may read them, how they are written, when they are on the disk."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.env import Loop
from duly.store import disk, migrate, sqlite
from duly.store.base import Durability
from duly.store.disk import FileDisk
from duly.store.sqlite import Schema, open_sqlite
from tests.store import notebook
from tests.store.notebook import write
from tests.store.test_sqlite import files_beside, inode, open_notebook, run

BARRIER, RIDER = Durability.BARRIER, Durability.RIDER
SECOND = Schema(notebook.SCHEMA_TEXT, notebook.STATEMENTS, version=2, migrations={1: "select 1"})
INDEX_PAGES = 5_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.db"


@pytest.fixture
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_usual_umask")
def test_nobody_else_can_read_the_files_of_a_store(path: Path) -> None:
    """A5: database, log, lock and copy hold what people wrote, and are for one user alone."""

    async def story(env: Loop) -> None:
        await (await open_notebook(path, env)).close()
        backend = await open_sqlite(path, env, schema=SECOND)
        await backend.transact(write("private"), BARRIER)
        assert modes(path) == {
            "duly.db": 0o600,
            "duly.db-wal": 0o600,
            "duly.db.lock": 0o600,
            "duly.db.v1.backup": 0o600,
        }
        await backend.close()

    run(story)


@pytest.mark.usefixtures("_usual_umask")
def test_a_copy_is_for_one_user_alone_before_anything_is_in_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: the database it is copied from may have been made by hand, for all to read."""
    seen: list[int] = []
    real = FileDisk.copy

    def copy(disk: FileDisk, *args: Any) -> None:
        real(disk, *args)
        seen.extend(mode for name, mode in modes(path).items() if "backup" in name)

    monkeypatch.setattr(FileDisk, "copy", copy)

    async def story(env: Loop) -> None:
        await (await open_notebook(path, env)).close()
        open_to_all(path)
        await (await open_sqlite(path, env, schema=SECOND)).close()

    run(story)
    assert seen == [0o600]


def modes(path: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}


def open_to_all(path: Path) -> None:
    path.chmod(0o644)


def test_the_index_of_the_log_is_not_a_file(path: Path) -> None:
    """H3: on a full disk it could not grow, after the commit it belongs to was written."""

    async def story(env: Loop) -> None:
        backend = await open_sqlite(
            path, env, schema=notebook.SCHEMA, checkpoint_pages=2 * INDEX_PAGES
        )
        await backend.transact(write("large", INDEX_PAGES * sqlite.PAGE_BYTES), BARRIER)
        assert files_beside(path) == ["duly.db", "duly.db-wal", "duly.db.lock"]
        await backend.close()

    run(story)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        # On macOS the database must leave the drive's cache before its log is begun anew (L2).
        ("checkpoint_fullfsync", 1),
        # SQLite would checkpoint inside COMMIT and keep a failed sync to itself.
        ("wal_autocheckpoint", 0),
        # Less would not order the syncs of a checkpoint, more would sync every commit.
        ("synchronous", 1),
        ("foreign_keys", 1),
    ],
)
def test_a_store_is_opened_with_the_settings_it_rests_on(
    path: Path, setting: str, expected: int
) -> None:
    """H3, L2: a setting that is off by default is on, and the other way round."""

    async def story(env: Loop) -> None:
        # Asked at the end of the opening: the writer's own hook also sets the autocheckpoint.
        disk = FileDisk(path)
        connection, _ = sqlite._open(disk, notebook.SCHEMA, 0)
        assert connection.pragma(setting) == expected
        connection.close()
        disk.release()

    run(story)


def test_the_folder_is_synced_when_every_file_has_its_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L2: a sync that came before the log was made would not keep the log's name."""
    names: list[list[str]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            names.append(files_beside(path))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)

    async def story(env: Loop) -> None:
        await (await open_notebook(path, env)).close()

    run(story)
    assert names == [["duly.db", "duly.db-wal", "duly.db.lock"]]


def test_a_copy_is_on_the_disk_before_the_store_is_changed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H4: its content, then its name, then the migration."""
    order: list[str] = []
    real_fsync, real_apply = os.fsync, migrate._apply

    def fsync(descriptor: int) -> None:
        copy = Path(f"{path}.v1.backup")
        known = {inode(path.parent): "folder with copy" if copy.exists() else "folder"}
        order.append(known.get(os.fstat(descriptor).st_ino, "copy"))
        real_fsync(descriptor)

    def apply(*args: Any) -> None:
        order.append("migration")
        real_apply(*args)

    async def story(env: Loop) -> None:
        await (await open_notebook(path, env)).close()
        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(migrate, "_apply", apply)
        await (await open_sqlite(path, env, schema=SECOND)).close()

    run(story)
    assert order[:3] == ["copy", "folder with copy", "migration"]


@pytest.mark.parametrize(
    ("platform", "call"), [("linux", "fsync"), ("darwin", "fcntl F_FULLFSYNC")]
)
def test_a_folder_is_synced_as_the_platform_asks_for(
    path: Path, platform: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L2: on macOS an fsync stops at the drive's own memory, for names as for data."""
    calls: list[str] = []
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", "F_FULLFSYNC", raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda _, command: calls.append(f"fcntl {command}"))
    disk.sync_path(path.parent)
    assert calls == [call]
