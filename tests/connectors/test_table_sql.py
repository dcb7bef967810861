"""Rows in a database that others use too: one per key, also in the middle of a commit."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import duly
from duly.rules.value import Json
from duly.testing import examine, look_at_disk
from tests.connectors.rows import call, database, insert, mounted, sql_table, values

pytestmark = pytest.mark.anyio


async def test_a_table_somebody_else_made_keeps_its_own_columns(tmp_path: Path) -> None:
    """L7: which call made which row stands in a table of its own, written in one transaction."""
    database(
        tmp_path,
        "create table people (id integer primary key, name text not null, age)",
        "insert into people (id, name) values (41, 'Bob')",
    )
    rows = sql_table(tmp_path)
    assert await insert(rows) == {"row": 42, "table": "people"}
    assert await insert(rows) == {"row": 42, "table": "people"}
    assert database(tmp_path, "select * from people") == [(41, "Bob", None), (42, "Ada", 36)]
    assert database(tmp_path, "select * from duly_keys") == [("people", "k1", 42)]
    with pytest.raises(duly.Refused, match=r"rows\.db, table people: .*NOT NULL"):
        await insert(rows, "k2", age=1)
    assert await rows.insert_happened(call("k2")) == duly.NotApplied()


async def test_a_key_is_unique_in_the_database_itself(tmp_path: Path) -> None:
    """L7: whatever writes there, no key has two rows."""
    await insert(sql_table(tmp_path))
    with pytest.raises(apsw.ConstraintError):
        database(tmp_path, "insert into duly_keys values ('people', 'k1', 7)")


async def test_a_row_that_was_taken_away_was_still_made_once(tmp_path: Path) -> None:
    """L5, L7: its key is found, and it is not made again."""
    rows = sql_table(tmp_path)
    await insert(rows)
    database(tmp_path, "delete from people")
    assert await insert(rows) == {"row": 1, "table": "people"}
    assert await rows.insert_happened(call()) == duly.Applied({"row": 1, "table": "people"})
    assert await values(rows) == []


async def test_a_table_that_has_a_column_of_keys_goes_on_with_it(tmp_path: Path) -> None:
    """L7: as a table of an earlier version has, or one whose settings ask for it."""
    database(tmp_path, "create table people (name text, age, duly_key text unique)")
    database(tmp_path, "insert into people values ('Bob', 7, 'k1')")
    assert await insert(sql_table(tmp_path)) == {"row": 1, "table": "people"}
    assert await insert(sql_table(tmp_path), "k2") == {"row": 2, "table": "people"}
    assert database(tmp_path, "select * from people") == [("Bob", 7, "k1"), ("Ada", 36, "k2")]
    database(tmp_path, "create table other (name text)")
    asked = call("k3", table="other", name="x")
    await sql_table(tmp_path, key_column=True).insert(asked, **asked.args)  # type: ignore[arg-type]
    assert database(tmp_path, "select * from other") == [("x", "k3")]
    assert database(tmp_path, "select name from sqlite_schema where name = 'duly_keys'") == []


async def test_a_number_is_never_given_twice(tmp_path: Path) -> None:
    rows = sql_table(tmp_path)
    await insert(rows)
    database(tmp_path, "delete from people")
    assert await insert(rows, "k2") == {"row": 2, "table": "people"}


@pytest.mark.parametrize(
    ("statement", "said"),
    [("begin immediate", "another program writes it"), ("begin exclusive", "another")],
)
async def test_a_database_that_is_held_is_tried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, said: str
) -> None:
    """L4: nothing was written."""
    monkeypatch.setattr("duly.connectors.table_sql.BUSY_MS", 1)
    other = apsw.Connection(str(tmp_path / "rows.db"))
    other.execute("create table people (name, age)")
    other.execute(statement)
    with pytest.raises(duly.NotSent, match=said):
        await insert(sql_table(tmp_path))
    other.close()
    assert await sql_table(tmp_path).insert_happened(call()) == duly.NotApplied()


async def test_a_commit_that_waits_for_a_reader_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4: it is said that it did not happen, and it does not happen when the reader goes."""
    monkeypatch.setattr("duly.connectors.table_sql.BUSY_MS", 1)
    await insert(sql_table(tmp_path))
    reader = apsw.Connection(str(tmp_path / "rows.db"))
    reader.execute("begin")
    reader.execute("select * from people").fetchall()
    with pytest.raises(duly.NotSent, match="another program writes it"):
        await insert(sql_table(tmp_path), "k2")
    reader.close()
    assert await sql_table(tmp_path).insert_happened(call("k2")) == duly.NotApplied()


@pytest.mark.parametrize("kind", [apsw.IOError, apsw.FullError, apsw.CorruptError])
async def test_a_commit_that_fails_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[apsw.Error]
) -> None:
    """L4: SQLite may have come past the point of no return before the disk failed."""

    class Failing(apsw.Connection):
        def execute(self, *args: Any, **words: Any) -> Any:
            found = super().execute(*args, **words)
            if args == ("commit",):
                raise kind("planned")
            return found

    with monkeypatch.context() as patch:
        patch.setattr("duly.connectors.table_sql.apsw.Connection", Failing)
        with pytest.raises(duly.UnknownOutcome, match="planned; it may be written"):
            await insert(sql_table(tmp_path))
    found = await sql_table(tmp_path).insert_happened(call())
    assert found == duly.Applied({"row": 1, "table": "people"})


async def test_what_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.db").write_bytes(b"x" * 4096)
    with pytest.raises(duly.NotSent, match="it is no SQLite database"):
        await insert(sql_table(tmp_path))
    assert (tmp_path / "rows.db").read_bytes() == b"x" * 4096


async def test_a_value_that_is_no_text_is_refused_when_it_is_read(tmp_path: Path) -> None:
    database(tmp_path, "create table people (name)", "insert into people values (x'00')")
    with pytest.raises(duly.Refused, match="people, row 1: name is no text"):
        await sql_table(tmp_path).rows("people")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (str(2**53), "too large to be given on"),
        ("-9e999", "too large to be given on"),
        ("cast(x'ff' as text)", "a text in it is no UTF-8"),
    ],
)
async def test_a_value_that_json_cannot_carry_is_refused_when_it_is_read(
    tmp_path: Path, value: str, said: str
) -> None:
    """T8: the largest number that it can is given."""
    database(tmp_path, "create table people (n)", f"insert into people values ({2**53 - 1})")
    assert await values(sql_table(tmp_path)) == [{"n": 2**53 - 1}]
    database(tmp_path, f"update people set n = {value}")
    with pytest.raises(duly.Refused, match=said):
        await sql_table(tmp_path).rows("people")


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (
            (
                "create table people (id integer primary key, name, age)",
                f"insert into people (id) values ({2**53 - 1})",
            ),
            "in a way that a script cannot read",
        ),
        (("create table people (rowid, name, age)",), "in a way that a script cannot read"),
        (
            (
                "create table people (name, age, unique (name) on conflict ignore)",
                "insert into people (name) values ('Ada')",
            ),
            "does not take this row",
        ),
    ],
)
async def test_a_row_of_which_nobody_could_be_told_is_refused_before_it_is_made(
    tmp_path: Path, statements: tuple[str, ...], said: str
) -> None:
    """L4, L9: an answer that is no JSON would leave the call unknown for ever."""
    database(tmp_path, *statements)
    before = database(tmp_path, "select * from people")
    with pytest.raises(duly.Refused, match=said):
        await insert(sql_table(tmp_path))
    assert database(tmp_path, "select * from people") == before
    assert await sql_table(tmp_path).insert_happened(call()) == duly.NotApplied()


async def test_what_was_committed_to_a_log_is_brought_to_the_disk_before_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3: a killed process may have left a row that a power cut takes away."""
    holder = apsw.Connection(str(tmp_path / "rows.db"))  # keeps the log from being wound up
    holder.execute("pragma journal_mode = wal")
    holder.execute("create table other (x)")
    await insert(sql_table(tmp_path))
    synced: list[int] = []
    monkeypatch.setattr(
        "duly.connectors.table_sql.os.fsync",
        lambda file: synced.append(os.fstat(file).st_ino),
    )
    assert await sql_table(tmp_path).insert_happened(call()) != duly.NotApplied()
    assert synced == [os.stat(path).st_ino for path in (tmp_path / "rows.db-wal", tmp_path)]  # noqa: PTH116
    holder.close()


# -- The exam --------------------------------------------------------------------------------------


ARGS: dict[str, Json] = {"table": "people", "row": {"name": "Ada", "age": 36}}


def rows_in_database(folder: Path) -> int:
    if not (folder / "rows.db").exists():
        return 0
    if not database(folder, "select 1 from sqlite_schema where name = 'people'"):
        return 0
    return int(database(folder, "select count(*) from people")[0][0])


class Stepping(apsw.VFS):
    """SQLite's way to the disk, each change of which is a step of the exam."""

    def __init__(self, step: Callable[[str], None]) -> None:
        self.step = step
        super().__init__("stepping", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> SteppingFile:  # noqa: N802
        return SteppingFile(self.step, name, flags)

    def xDelete(self, name: str, is_synced: bool) -> None:  # noqa: N802
        self.step("sqlite: delete")
        super().xDelete(name, is_synced)
        self.step("sqlite: deleted")


class SteppingFile(apsw.VFSFile):
    def __init__(self, step: Callable[[str], None], name: Any, flags: Any) -> None:
        self.step = step
        super().__init__("unix", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self.step(f"sqlite: write at {offset}")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self.step("sqlite: sync")
        super().xSync(flags)


KEPT: list[apsw.VFS] = []


def install(step: Callable[[str], None]) -> None:
    KEPT.append(Stepping(step))


def test_an_insert_into_a_database_killed_at_any_moment_makes_one_row(tmp_path: Path) -> None:
    """L5, L7: also in the middle of what SQLite itself writes."""
    report = examine(
        mounted(sql_table),
        "insert",
        ARGS,
        effects=rows_in_database,
        folder=tmp_path,
        modules=["duly.connectors.table_sql"],
        install=install,
        look=look_at_disk,
    )
    assert (report.unsure, report.applied > 2, report.not_applied > 20) == (0, True, True)
