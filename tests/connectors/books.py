"""Databases for the tests of `sql`: the same table in a SQLite file and on a PostgreSQL server."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import apsw
import psycopg

from duly.connectors.base import Call
from duly.connectors.sql import Sql
from tests.postgres.server import superuser

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FILE = "books.db"
TABLE = "create table invoice (id integer primary key, customer text not null, total real)"
OPERATIONS: dict[str, Any] = {
    "list_of": {
        "sql": "select id, customer, total from invoice where customer = :customer order by id",
        "arguments": {"customer": "string"},
        "returns": {"id": "integer", "customer": "string", "total": "number?"},
    },
    "one": {
        "kind": "read_by_id",
        "sql": "select id, customer from invoice where id = :id",
        "arguments": {"id": "integer"},
    },
    "add": {
        "sql": "insert into invoice (id, customer, total) values (:id, :customer, :total)"
        " returning id",
        "arguments": {"id": "integer", "customer": "string", "total": "number?"},
        "noun": "invoice",
    },
    "pay": {
        "sql": "update invoice set total = 0 where id = :id",
        "arguments": {"id": "integer"},
        "expect": 1,
    },
}


def with_one(**operation: Any) -> dict[str, Any]:
    """Return settings with one more operation."""
    return {**OPERATIONS, "extra": operation}


class Books(Protocol):
    """A database with the table, and a way to look at it that is not the connector's."""

    def make(self, operations: Any = OPERATIONS, **more: Any) -> Sql:
        """Make a connector."""

    def run(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement behind the connector's back."""


class FileBooks:
    """A SQLite file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / FILE).exists():
            self.run(TABLE)

    def make(self, operations: Any = OPERATIONS, **more: Any) -> Sql:
        return Sql(f"sqlite:///{self.folder / FILE}", operations=operations, name="books", **more)

    def run(self, text: str) -> list[tuple[Any, ...]]:
        with closing(apsw.Connection(str(self.folder / FILE))) as database:
            database.set_busy_timeout(5000)
            return database.execute(text).fetchall()


@cache
def _admin(server: Path, process: int) -> psycopg.Connection[Any]:
    """Connect once in every process: a forked child must not use its parent's connection."""
    return psycopg.connect(superuser(server), autocommit=True)


def user_of(path: Path) -> str:
    """Name the user of a test's own folder: tests of several processes share one server."""
    return f"user_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"


class ServerBooks:
    """A schema on a server that belongs to a user of its name."""

    def __init__(self, server: Path, user: str, *, is_new: bool = True) -> None:
        self.server, self.user = server, user
        if is_new:
            admin = _admin(server, os.getpid())
            admin.execute(f'create role "{user}" login'.encode())
            admin.execute(f'create schema authorization "{user}"'.encode())
            self.run(TABLE.replace("real", "double precision"))
            self.run(f'alter table invoice owner to "{user}"')

    def make(self, operations: Any = OPERATIONS, **more: Any) -> Sql:
        here: dict[str, Any] = {"socket": str(self.server)} if "allow" not in more else {}
        place = "" if "allow" not in more else f"127.0.0.1:{more.pop('port')}"
        url = f"postgresql://{self.user}@{place}/postgres"
        return Sql(url, operations=operations, name="books", **here, **more)

    def run(self, text: str) -> list[tuple[Any, ...]]:
        admin = _admin(self.server, os.getpid())
        admin.execute(f'set search_path to "{self.user}"'.encode())
        found = admin.execute(text.encode())
        return [] if found.description is None else found.fetchall()


def age(books: Books) -> None:
    """Date the table of records back: it was there long before any call of a test was sent."""
    books.run("update duly_calls set sent_ms = 0 where key = ''")


def call(key: str = "k1", attempt: int = 1, tool: str = "books.add", **args: Any) -> Call:
    """Spell a call, as the ledger would."""
    given: dict[str, Any] = args or {"id": 1, "customer": "Ada", "total": 2.5}
    sent = NOW + timedelta(seconds=attempt - 1)
    return Call(tool, given, key, "flow", attempt, sent, NOW)


def count_of(books: Callable[[Path], Books]) -> Callable[[Path], int]:
    """Make a function that counts invoices, for an exam."""
    return lambda folder: int(books(folder).run("select count(*) from invoice")[0][0])
