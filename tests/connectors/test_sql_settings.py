"""The settings of the `sql` connector: statements, operations and the place of a database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.connectors.registry import Registry
from duly.connectors.sql import Sql
from duly.connectors.sql_text import read_statement
from duly.errors import ConfigError, Invalid
from duly.rules.catalog import ToolKind
from tests.connectors.books import OPERATIONS, FileBooks, with_one


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("select 1; drop table invoice", "after a semicolon"),
        ("select 1 -- and more", "comment"),
        ("select /* x */ 1", "comment"),
        ("select $$a$$", "'\\$'"),
        ("select 'a\\'", "backslash"),
        ("select 'open", "does not end"),
        ("select ?", "as :name"),
        ("select :Big", "lower-case"),
        ("insert into u select 1 as [a'] ; delete from u --']", "between brackets"),
        ('select 1 as [a"] ; delete from u where b = "]', "between brackets"),
        ("", "missing|text"),
        ("  ;", "empty"),
        ("drop table invoice", "begins with 'drop'"),
        ("pragma user_version", "begins with"),
        ("copy invoice to program 'rm'", "begins with"),
        ("select :nobody as x", ":nobody is no argument"),
    ],
)
def test_a_statement_that_cannot_be_read_is_refused(
    tmp_path: Path, statement: str, said: str
) -> None:
    """K5: before anything is asked of the database."""
    with pytest.raises(ConfigError, match=said):
        FileBooks(tmp_path).make(with_one(sql=statement))


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ({"sql": "select 1", "kind": "mutation"}, "cannot begin with select"),
        ({"sql": "delete from invoice", "kind": "read"}, "cannot begin with delete"),
        ({"sql": "with x as (select 1) select 1"}, "say what it is"),
        ({"sql": "select 1", "arguments": {"id": "integer"}}, "stands nowhere"),
        ({"sql": "select 1", "risk": "low"}, "no such key"),
        ({"sql": "select 1", "rows_max": 0}, "from 1 to"),
        ({"sql": "delete from invoice", "expect": True}, "from 1 to"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    tmp_path: Path, operation: dict[str, Any], said: str
) -> None:
    """Law 1 of `place.py`: with the key, and what to write instead."""
    with pytest.raises(ConfigError, match=said):
        FileBooks(tmp_path).make(with_one(**operation))


@pytest.mark.parametrize(
    ("url", "more", "said"),
    [
        ("mysql://ada@db/books", {}, "write sqlite"),
        ("postgresql://ada:secret@db.example/books", {}, "password is a secret"),
        ("postgresql://db.example/books", {}, "names no user"),
        ("postgresql://ada@/books", {}, "name a host"),
        ("postgresql://ada@db.example/books", {"tls": "off"}, "in the clear"),
        ("postgresql://ada@db.example/books", {"tls": "maybe"}, "tls"),
        ("postgresql://ada@0x7f000001/books", {}, "host"),
        ("postgresql://ada@/books", {"socket": "db.example"}, "is no folder"),
        ("postgresql://ada@/books", {"socket": "/run/db,db.example"}, "is no folder"),
        ("sqlite:///", {}, "names no file"),
        ("sqlite:///books.db", {"secret": "password"}, "needs none"),
    ],
)
def test_a_place_that_cannot_be_read_is_refused(url: str, more: Any, said: str) -> None:
    """K3, A5: no password in the settings, no host in another spelling."""
    with pytest.raises(ConfigError, match=said):
        Sql(url, operations=OPERATIONS, **more)


def test_operations_are_tools_with_types(tmp_path: Path) -> None:
    """A1: kinds, terms and signatures come from the settings."""
    catalog = Registry([FileBooks(tmp_path).make()]).catalog
    add, one = catalog.find("books.add"), catalog.find("books.one")
    assert (add.kind, add.idempotent, add.reconciles, add.lag_s) == (
        ToolKind.MUTATION,
        True,
        True,
        5,
    )
    assert [each.name for each in add.parameters] == ["id", "customer", "total"]
    assert (one.kind, one.capability) == (ToolKind.READ_BY_ID, "books.read")


def test_a_cast_and_a_percent_stand_as_they_are() -> None:
    """Law 1 of `sql_text.py`: each database gets its own marks of arguments."""
    found = read_statement("select :a::int, 'x%' where b like '50%' and c = :a", "sql")
    assert found.named == "select :a::int, 'x%' where b like '50%' and c = :a"
    assert found.formatted == "select %(a)s::int, 'x%%' where b like '50%%' and c = %(a)s"
    with pytest.raises(Invalid):
        read_statement("x" * 30_000, "sql")
