"""Schemas: an older store is copied and brought up, whole or not at all.

Most tests pretend that a small notebook has three versions; the last ones bring up real stores.
"""

from __future__ import annotations

import asyncio
import errno
import re
from pathlib import Path
from random import Random

import apsw
import pytest

from duly.env import Loop
from duly.errors import IllegalTransition, StoreNewer, StoreUnavailable
from duly.store import Store, disk
from duly.store.base import Durability
from duly.store.migrate import APPLICATION_ID
from duly.store.migrate import MIGRATIONS as REAL_MIGRATIONS
from duly.store.record import Action
from duly.store.sqlite import Schema, open_sqlite
from tests.store import notebook
from tests.store.notebook import write
from tests.store.test_sqlite import content, files_beside, open_notebook, run
from tests.store.virtual import VirtualEnv
from verification.disk import Loss, MemoryDisk

BARRIER, READ = Durability.BARRIER, Durability.READ

SEALED_FROM = 3  # the first schema whose rows are sealed when they end
MIGRATIONS = {
    1: "alter table line add column colour text;",
    2: "update line set colour = 'blue'; create table shade (name text) strict;",
}
THIRD = Schema(notebook.SCHEMA_TEXT, notebook.STATEMENTS, version=3, migrations=MIGRATIONS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.db"


def test_a_store_of_a_newer_schema_is_refused_and_stays_as_it_was(path: Path) -> None:
    """H4: it names both versions, writes no copy, and lets go of the file."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("kept"), BARRIER)
        await backend.close()
        await (await open_sqlite(path, env, schema=THIRD)).close()
        path.with_name(f"{path.name}.v1.backup").unlink()
        files, whole = files_beside(path), content(path)
        for _ in range(2):  # a lock that was kept would refuse the second in other words
            with pytest.raises(StoreNewer) as refused:
                await open_notebook(path, env)
            assert refused.value.code == "store_newer"
            assert refused.value.facts == {"found": 3, "known": 1}
        assert content(path) == whole
        log = path.with_name(f"{path.name}-wal")  # made by looking, and empty
        assert {*files_beside(path)} - {log.name} == {*files}
        assert not log.exists() or content(log) == b""
        backend = await open_sqlite(path, env, schema=THIRD)
        assert await backend.transact(notebook.read, READ) == ["kept"]
        await backend.close()

    run(story)


def test_an_older_store_is_copied_and_brought_up(path: Path) -> None:
    """H4: every step in one transaction, and the store as it was beside it."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("kept"), BARRIER)
        await backend.close()
        backend = await open_sqlite(path, env, schema=THIRD)
        assert await backend.transact(notebook.read, READ) == ["kept"]
        colours = backend._connection.execute("select colour from line").fetchall()
        assert colours == [("blue",)]
        assert backend._connection.pragma("user_version") == 3
        await backend.close()
        await (await open_sqlite(path, env, schema=THIRD)).close()

    run(story)
    backup = apsw.Connection(f"{path}.v1.backup", flags=apsw.SQLITE_OPEN_READONLY)
    assert backup.pragma("user_version") == 1
    assert backup.pragma("application_id") == APPLICATION_ID
    assert backup.execute("select label from line").fetchall() == [("kept",)]
    backup.close()


def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    """H4: the store is still of the old version and works with the old Duly."""
    broken = {1: MIGRATIONS[1], 2: "insert into nowhere values (1);"}

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("kept"), BARRIER)
        await backend.close()
        schema = Schema(notebook.SCHEMA_TEXT, notebook.STATEMENTS, version=3, migrations=broken)
        with pytest.raises(IllegalTransition, match="no such table: nowhere"):
            await open_sqlite(path, env, schema=schema)
        backend = await open_notebook(path, env)
        assert await backend.transact(notebook.read, READ) == ["kept"]
        await backend.close()

    run(story)


def test_a_copy_that_finds_no_room_leaves_none_of_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H4: the store is as it was, and the old Duly has its room back."""

    def full(_: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def story(env: Loop) -> None:
        await (await open_notebook(path, env)).close()
        before = content(path)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "sync_path", full)
            with pytest.raises(StoreUnavailable, match="No space"):
                await open_sqlite(path, env, schema=THIRD)
        assert content(path) == before
        assert not [name for name in files_beside(path) if "backup" in name]
        await (await open_notebook(path, env)).close()

    run(story)


def test_a_gap_between_versions_is_refused_before_anything_is_done(path: Path) -> None:
    """H4: no copy, no change."""
    gap = Schema(notebook.SCHEMA_TEXT, notebook.STATEMENTS, version=3, migrations={1: "select 1"})

    async def story(env: Loop) -> None:
        await (await open_notebook(path, env)).close()
        before = content(path)
        with pytest.raises(IllegalTransition, match="no migration leads from schema 2 to 3"):
            await open_sqlite(path, env, schema=gap)
        assert content(path) == before
        assert not [name for name in files_beside(path) if "backup" in name]
        await (await open_notebook(path, env)).close()

    run(story)


def test_a_power_cut_anywhere_in_a_migration_leaves_one_version_whole() -> None:
    """H4: opened again, the migration is finished or done anew."""

    async def story() -> None:
        old = MemoryDisk()
        backend = await open_sqlite(old, VirtualEnv(), schema=notebook.SCHEMA)
        await backend.transact(write("kept"), BARRIER)
        await backend.close()
        cuts: list[dict[str, bytes]] = []
        disk = old.next_process()
        disk.on_operation = lambda: cuts.extend(
            disk.cut_power(loss, Random(len(cuts))) for loss in Loss
        )
        await (await open_sqlite(disk, VirtualEnv(), schema=THIRD)).close()
        assert cuts
        for files in cuts:
            left = MemoryDisk(files)
            backend = await open_sqlite(left, VirtualEnv(), schema=THIRD)
            await backend.integrity_check(full=True)
            colours = backend._connection.execute("select label, colour from line").fetchall()
            assert colours == [("kept", "blue")]
            await backend.close()

    asyncio.run(story())


def _shape(path: Path) -> dict[str, object]:
    """Every table with its columns, and every index and view by its text."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    shape: dict[str, object] = {}
    for kind, name, text in connection.execute("select type, name, sql from sqlite_schema"):
        if kind == "table":
            columns = connection.execute(f"select * from pragma_table_xinfo('{name}')")
            # Without its number: a column that was added later stands last.
            shape[name] = sorted(tuple(column[1:]) for column in columns)
        else:
            shape[name] = text
    connection.close()
    return shape


def _parts(path: Path, table: str) -> list[str]:
    """What a table was made with, also what it checks, in any order and without remarks."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    query = "select sql from sqlite_schema where type = 'table' and name = ?"
    ((text,),) = connection.execute(query, (table,)).fetchall()
    connection.close()
    plain = re.sub(r"--.*", "", str(text))
    parts = (" ".join(each.split()).rstrip(" )") for each in re.split(r"[,\n]", plain))
    return sorted(filter(None, parts))


@pytest.mark.parametrize("first", sorted(REAL_MIGRATIONS))
def test_a_store_of_an_older_version_becomes_what_a_new_one_is(path: Path, first: int) -> None:
    """H4: the same tables, columns, indexes and views, whichever version made the store."""
    text = (Path(__file__).parent / f"schema_{first}.sql").read_text(encoding="utf-8")
    fresh = path.with_name("fresh.db")

    async def story(env: Loop) -> None:
        await (await open_sqlite(path, env, schema=Schema(text, {}, version=first))).close()
        await (await open_sqlite(path, env)).close()
        await (await open_sqlite(fresh, env)).close()

    run(story)
    assert _shape(path) == _shape(fresh)
    steps = "".join(REAL_MIGRATIONS[number] for number in REAL_MIGRATIONS if number >= first)
    for name in re.findall(r"^create table (\w+)", steps, re.MULTILINE):
        assert _parts(path, name) == _parts(fresh, name)


ROWS = (
    "insert into workflow (id, name, counter, created_at) values ('w1', 'letters', 7, 5)",
    "insert into upkeep (name, at) values ('tidied', 9)",
    "insert into action (id, at, by, verb) values ('a1', 6, 'ada', 'pause')",
)


@pytest.mark.parametrize("first", sorted(REAL_MIGRATIONS))
def test_the_rows_of_an_older_version_are_there_afterwards(path: Path, first: int) -> None:
    """H4: a store that has been used keeps what it knows, whichever version made it."""
    text = (Path(__file__).parent / f"schema_{first}.sql").read_text(encoding="utf-8")

    def read() -> list[object]:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        found: list[object] = []
        found += connection.execute("select id, name, counter, created_at from workflow")
        found += connection.execute("select name, at from upkeep where name = 'tidied'")
        found += connection.execute("select id, at, by, verb from action where id = 'a1'")
        connection.close()
        return found

    async def story(env: Loop) -> None:
        await (await open_sqlite(path, env, schema=Schema(text, {}, version=first))).close()
        connection = apsw.Connection(str(path))
        for statement in ROWS:
            connection.execute(statement)
        connection.close()
        await (await open_sqlite(path, env)).close()

    run(story)
    assert read() == [("w1", "letters", 7, 5), ("tidied", 9), ("a1", 6, "ada", "pause")]


@pytest.mark.parametrize("first", sorted(REAL_MIGRATIONS))
def test_rows_without_seals_are_sealed_also_if_the_first_host_is_killed(
    path: Path, first: int
) -> None:
    """L15: the store itself says that rows of before have no seal, until they have one."""
    text = (Path(__file__).parent / f"schema_{first}.sql").read_text(encoding="utf-8")
    seen = []

    async def story(env: Loop) -> None:
        await (await open_sqlite(path, env, schema=Schema(text, {}, version=first))).close()
        for is_sealed in (False, False, True, False):
            backend = await open_sqlite(path, env)
            seen.append(backend.has_unsealed)
            if is_sealed:
                await Store(backend).reseal(action=Action("a1", "duly", "reseal"), now=1)
            await backend.close()

    run(story)
    assert seen == ([True] * 3 if first < SEALED_FROM else [False] * 3) + [False]
