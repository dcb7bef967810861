"""A database that is not ready is said by every command before its first call is sent."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.faces.real import call, make_project

ROWS = """
[connectors.rows]
use = "sql"
url = "sqlite:///{folder}/rows.db"

[connectors.rows.operations.add]
sql = "insert into task (title) values (:title) returning id"
arguments = {{ title = "string" }}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = make_project(tmp_path / "project")
    with (folder / "duly.toml").open("a", encoding="utf-8") as settings:
        settings.write(ROWS.format(folder=folder))
    assert call(folder, "deploy", "--grant").exit_code == 0
    return folder


def make(folder: Path, statement: str) -> None:
    with closing(apsw.Connection(str(folder / "rows.db"))) as database:
        database.execute(statement)


def test_connect_doctor_and_check_say_what_a_database_lacks(project: Path) -> None:
    """K10: a missing file and a missing table, each before any call is sent; then all is well."""
    for said in ("there is no such file", "no such table: task"):
        for command in (("connect", "rows"), ("check-connection", "rows"), ("doctor",)):
            told = call(project, *command)
            assert told.exit_code == 1, (command, told.output)
            assert said in told.output, command
        make(project, "create table if not exists other (id integer)")
    (bad,) = (
        each
        for each in json.loads(call(project, "doctor", "--json").stdout)
        if each["state"] == "bad"
    )
    assert (bad["what"], bad["sentence"][:9]) == ("connectors", "rows.add:")
    make(project, "create table task (id integer primary key, title text)")
    for command in (("connect", "rows"), ("check-connection", "rows"), ("doctor",)):
        told = call(project, *command)
        assert told.exit_code == 0, (command, told.output)
    assert "Its set-up works" in call(project, "connect", "rows").stdout
    with closing(apsw.Connection(str(project / "rows.db"))) as database:
        names = database.execute("select name from sqlite_master order by name").fetchall()
    assert names == [("other",), ("task",)]
