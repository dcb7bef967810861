"""Rows in files that people edit too: nothing of theirs is lost, and no row is made twice."""

from __future__ import annotations

import csv
import fcntl
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors import Table
from duly.connectors import table_csv as csv_module
from duly.connectors.folder import Folder, write_file
from duly.connectors.table_csv import CsvRows
from duly.rules.value import Json
from duly.testing import examine, look_at_disk
from tests.connectors.notes import names_in
from tests.connectors.rows import call, csv_table, insert, mounted, values

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"name,age\nBob,7\n", b"name,age\nBob,7\nAda,36\n"),
        # No newline at the end, Windows' line ends, a mark before the text.
        (
            b"\xef\xbb\xbfname;age\r\nBob;7",
            b"\xef\xbb\xbfname;age\r\nBob;7\r\nAda;36\r\n",
        ),
        # Quotes that nobody needed, short and long rows, empty lines, tabs.
        (
            b'"name"\tage\n"Bob"\n\n"C"\t1\t2\t3\n',
            b'"name"\tage\n"Bob"\n\n"C"\t1\t2\t3\nAda\t36\n',
        ),
        # The columns in another order, one of them a person's own, a newline in a cell; and a file
        # of an earlier version, which goes on with its column of keys.
        (
            b'age,mine,duly_key,name\n7,"x\ny",,Bob\n',
            b'age,mine,duly_key,name\n7,"x\ny",,Bob\n36,,k1,Ada\n',
        ),
        (b"", b"name,age\nAda,36\n"),
        (b"name,age", b"name,age\nAda,36\n"),
        (b'"na\nme",name,age\n', b'"na\nme",name,age\n,Ada,36\n'),
    ],
)
async def test_a_person_s_file_stays_as_it_is_and_gets_one_row(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    (tmp_path / "people.csv").write_bytes(before)
    await insert(csv_table(tmp_path))
    assert (tmp_path / "people.csv").read_bytes() == after
    assert isinstance(await csv_table(tmp_path).insert_happened(call()), duly.Applied)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"name,age\n\xff,1\n", "people.csv is not UTF-8. Save it as"),
        (b'name,age\n"Bob,1\n', "people.csv, line 2: unexpected end of data"),
        (b'name,age\n"Bob"x,1\n', "people.csv, line 2"),
        (b"name,age,name\n", "a column twice"),
        (b"\nname,age\n", "has no header"),
    ],
)
async def test_a_file_that_cannot_be_added_to_safely_is_refused_and_left_alone(
    tmp_path: Path, data: bytes, said: str
) -> None:
    """L4: refused, and not a byte of it changed."""
    (tmp_path / "people.csv").write_bytes(data)
    with pytest.raises(duly.Refused, match=said):
        await insert(csv_table(tmp_path))
    assert (tmp_path / "people.csv").read_bytes() == data


async def test_a_text_that_would_say_something_else_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new text is read again before it takes the old one's place."""
    (tmp_path / "people.csv").write_bytes(b"name,age\n")
    monkeypatch.setattr(csv_module, "_cell", lambda text, delimiter: text)
    with pytest.raises(duly.Refused, match="written in a way that no row can be added to"):
        await insert(csv_table(tmp_path), name="a,b")
    assert (tmp_path / "people.csv").read_bytes() == b"name,age\n"


async def test_a_file_may_have_so_many_rows_and_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_module, "ROWS_MAX", 2)
    rows = csv_table(tmp_path)
    await insert(rows, "k1")
    await insert(rows, "k2")
    with pytest.raises(duly.Refused, match=r"2 rows, which is all it can hold\. Keep"):
        await insert(rows, "k3")
    size = (tmp_path / "people.csv").stat().st_size
    monkeypatch.setattr(csv_module, "FILE_BYTES_MAX", size)
    assert len(await values(rows)) == 2
    monkeypatch.setattr(csv_module, "FILE_BYTES_MAX", size - 1)
    with pytest.raises(duly.Refused, match=r"people\.csv has more than"):
        await rows.rows("people")


async def test_what_a_person_saves_in_the_middle_of_a_call_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is looked at again right before it is replaced, and all is done anew."""
    file = tmp_path / "people.csv"
    file.write_text("name,age\n")
    saves = [1]

    def write_while_somebody_saves(*args: Any) -> None:
        write_file(*args)
        if saves.pop() > 0:
            file.write_text("name,age\nBob,7\n")
            saves.append(0)

    monkeypatch.setattr(csv_module, "write_file", write_while_somebody_saves)
    assert await insert(csv_table(tmp_path)) == {"row": 2, "table": "people"}
    assert file.read_text() == "name,age\nBob,7\nAda,36\n"


async def test_a_file_that_is_saved_all_the_time_is_tried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4: nothing was written."""
    stamps = iter(range(100))
    monkeypatch.setattr(csv_module, "_stamp", lambda here, name: next(stamps))
    with pytest.raises(duly.NotSent, match="another program saves it again and again"):
        await insert(csv_table(tmp_path))
    assert not (tmp_path / "people.csv").exists()


async def test_a_file_is_on_the_disk_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3: a power cut leaves the old file or the new one."""
    rows = csv_table(tmp_path)
    steps: list[str] = []
    sync, move = os.fsync, os.replace

    def watch_sync(file: int) -> None:
        steps.append("sync")
        sync(file)

    def watch_replace(*args: Any, **words: Any) -> None:
        steps.append("move")
        move(*args, **words)

    monkeypatch.setattr(os, "fsync", watch_sync)
    monkeypatch.setattr(os, "replace", watch_replace)
    await insert(rows)
    moved = steps.index("move")
    assert (steps[:moved].count("sync"), steps[moved:]) == (6, ["move", "sync", "sync"])
    del steps[:]
    await insert(rows)
    await rows.insert_happened(call())
    assert "move" not in steps
    assert len(steps) >= 4  # the verdict that it happened makes it last


async def test_a_file_keeps_its_permissions_and_a_link_is_not_followed(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("name,age\n")
    file.chmod(0o600)
    await insert(csv_table(tmp_path))
    assert file.stat().st_mode & 0o777 == 0o600
    file.rename(tmp_path / "other.csv")
    file.symlink_to(tmp_path / "other.csv")
    with pytest.raises(duly.Refused, match=r"people\.csv: it is a symbolic link"):
        await insert(csv_table(tmp_path), "k2")


async def test_a_lock_that_another_program_holds_is_waited_for_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4: nothing was written."""
    monkeypatch.setattr(csv_module, "LOCK_WAIT_S", 0)
    with (tmp_path / ".duly.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(duly.NotSent, match=r"another program holds \.duly\.lock"):
            await insert(csv_table(tmp_path))
    assert await insert(csv_table(tmp_path)) == {"row": 1, "table": "people"}


# -- Which call made which row ---------------------------------------------------------------------


async def test_a_key_is_found_whatever_a_person_did_to_the_file(tmp_path: Path) -> None:
    """L5, L7: a row that was taken away, moved or made twice by hand was still made once."""
    file = tmp_path / "people.csv"
    file.write_text("name,age\n")
    assert await insert(csv_table(tmp_path)) == {"row": 1, "table": "people"}
    for text in ("name,age\n", "name,age\nBob,7\nAda,36\nAda,36\n"):
        file.write_text(text)
        applied = await csv_table(tmp_path).insert_happened(call())
        assert applied == duly.Applied({"row": 1, "table": "people"})
        assert await insert(csv_table(tmp_path)) == {"row": 1, "table": "people"}
        assert file.read_text() == text
    # An equal row of another call is another row.
    assert isinstance(await csv_table(tmp_path).insert_happened(call("k2")), duly.NotApplied)


async def test_a_draft_that_was_never_moved_did_not_happen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L5: its line is taken back before the next one, and stays taken back."""
    file = tmp_path / "people.csv"
    file.write_text("name,age\n")

    def die(*_: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(csv_module, "move_file", die)
        with pytest.raises(SystemExit):
            CsvRows(Folder(tmp_path)).insert("people", {"name": "Ada"}, "k1", None)
    rows = CsvRows(Folder(tmp_path))
    assert rows.number_of("people", "k1") is None
    assert rows.insert("people", {"name": "Bob"}, "k2", None) == 1
    assert (rows.number_of("people", "k1"), rows.number_of("people", "k2")) == (None, 1)
    assert rows.insert("people", {"name": "Ada"}, "k1", None) == 2
    assert file.read_text() == "name,age\nBob,\nAda,\n"
    assert names_in(tmp_path / ".duly" / "tables") == ["people.keys"]


async def test_a_line_that_a_crash_cut_counts_as_none(tmp_path: Path) -> None:
    """L5: it is overwritten by the next one."""
    (tmp_path / "people.csv").write_text("name,age\n")
    await insert(csv_table(tmp_path))
    keys = tmp_path / ".duly" / "tables" / "people.keys"
    whole = keys.read_bytes()
    for torn in (b'["k2"', b'["k2", 2]', b"\0\0\0"):
        keys.write_bytes(whole + torn)
        assert isinstance(await csv_table(tmp_path).insert_happened(call("k2")), duly.NotApplied)
    await insert(csv_table(tmp_path), "k2")
    assert keys.read_bytes() == whole + b'["k2", 2]\n'


async def test_without_what_was_kept_beside_the_file_nobody_can_tell(tmp_path: Path) -> None:
    """L5: it is neither sent again nor said not to have happened."""
    (tmp_path / "people.csv").write_text("name,age\n")
    rows = csv_table(tmp_path)
    await insert(rows)
    shutil.rmtree(tmp_path / ".duly")
    verdict = await rows.insert_happened(call())
    assert isinstance(verdict, duly.Unsure)
    assert "which call made which row" in verdict.reason
    again = replace(call(), attempt=2)
    with pytest.raises(duly.NotSent, match="which call made which row"):
        await rows.insert(again, **again.args)  # type: ignore[arg-type]


async def test_a_column_of_keys_is_there_for_who_wants_one(tmp_path: Path) -> None:
    """L5: then a file that is moved about carries all that is needed."""
    file = tmp_path / "people.csv"
    file.write_text("name,age\nBob,7\n")
    await insert(csv_table(tmp_path, key_column=True))
    assert file.read_text() == "name,age,duly_key\nBob,7\nAda,36,k1\n"
    shutil.rmtree(tmp_path / ".duly")
    assert isinstance(await csv_table(tmp_path).insert_happened(call()), duly.Applied)


# -- The exam --------------------------------------------------------------------------------------


ARGS: dict[str, Json] = {"table": "people", "row": {"name": "Ada", "age": 36}}


def rows_in_file(folder: Path) -> int:
    file = folder / "people.csv"
    if not file.exists():
        return 0
    with file.open(newline="") as text:
        return len(list(csv.reader(text))) - 1


def test_an_insert_into_a_file_killed_at_any_moment_makes_one_row(tmp_path: Path) -> None:
    """L5, L7: real processes, killed at every change of the disk, failed at every line."""
    report = examine(
        mounted(csv_table),
        "insert",
        ARGS,
        effects=rows_in_file,
        folder=tmp_path,
        modules=[f"duly.connectors.{each}" for each in ("folder", "table_csv", "table_keys")],
        look=look_at_disk,
    )
    assert (report.unsure, report.applied > 2, report.not_applied > 20) == (0, True, True)


TEXTS = [
    "=1+1",
    "@SUM(A1)",
    "+cmd|' /C calc'!A0",
    "-1+2",
    "\t=1",
    "\uff1d1+1",
    "+49 30 1",
    "-5",
    "'a",
    "-",
]


async def test_a_text_of_a_stranger_is_no_formula(tmp_path: Path) -> None:
    """K12: a spreadsheet program computes none of them; scripts see them as they were given."""
    table: Any = Table(tmp_path, key="name")
    for number, text in enumerate([*TEXTS, -6]):
        args: Any = {"table": "people", "row": {"name": text, "number": number}}
        await table.insert(call(f"k{number}", name=text, number=number), **args)
    lines = list(csv.reader((tmp_path / "people.csv").read_text().splitlines()))[1:]
    assert [each[0] for each in lines] == [*(f"'{each}" for each in TEXTS[:6]), *TEXTS[6:], "-6"]
    assert [each["values"]["name"] for each in (await table.rows("people")).items] == [*TEXTS, "-6"]
    assert (await table.find("people", "=1+1"))["row"] == 1
    assert len((await table.rows("people", where={"name": "=1+1"})).items) == 1
