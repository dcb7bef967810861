"""Moves a store from its file to a PostgreSQL server (H1).

Law 1  All of it is there, or nothing: one transaction on the server. Before it commits, every row
       is read back and compared with the file.
Law 2  The file stays, and is marked as a copy before the server commits. A host that is started on
       it by mistake pauses everything and says so, and makes no change a second time (H5).
Law 3  No host has the file meanwhile: the move holds its lock. The server must be empty.
Law 4  No row is moved before it has its seal: a host on a server seals no row that has none (L15).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import psycopg

from duly.env import Env
from duly.errors import RequestRefused, StoreError, StoreNewer
from duly.store import mark, queries
from duly.store.base import Durability, Row, Transaction
from duly.store.migrate import SCHEMA_VERSION
from duly.store.postgres import bring_up, explain
from duly.store.postgres_session import dial
from duly.store.slot import NAME
from duly.store.sqlite import SqliteBackend, default_schema, open_sqlite
from duly.store.upkeep import COPIED

R = TypeVar("R")

UPKEEP: Final = "upkeep"
DIGEST_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Moved:
    """What was moved: how many rows of each table."""

    rows: Mapping[str, int]

    @property
    def count(self) -> int:
        """How many rows there were in all."""
        return sum(self.rows.values())


async def move_store(path: Path, url: str, env: Env) -> Moved:
    """Copy a store to an empty server, compare the two, and mark the file as a copy."""
    schema = default_schema()
    await _beside(env, lambda: bring_up(url, schema))
    backend = await open_sqlite(path, env)
    try:
        if backend.has_unsealed:  # an upgrade, by this move or before it, that no host has ended
            raise RequestRefused(code="not_sealed_yet", subject=path.name)
        connection = await _beside(env, lambda: _connect(url))
        try:
            moved = await _beside(env, lambda: _copy(backend, connection))
            await backend.transact(_mark_as_copy(env.now_ms()), Durability.BARRIER)
            await _beside(env, connection.commit)
        finally:
            await env.call_blocking(connection.close)
    finally:
        await backend.close()
    return moved


def _mark_as_copy(now: int) -> Callable[[Transaction], None]:
    def mark_as_copy(tx: Transaction) -> None:
        tx.write("put_upkeep", name=COPIED, at=now)

    return mark_as_copy


async def _beside(env: Env, work: Callable[[], R]) -> R:
    """Do something that waits for the server in a thread, and say in words what goes wrong."""
    try:
        return await env.call_blocking(work)
    except psycopg.Error as error:
        raise explain(error) from error


# What follows blocks, and runs in a thread.


def _connect(url: str) -> psycopg.Connection[Row]:
    connection = dial(url)
    connection.autocommit = False  # all of it is one transaction (law 1)
    return connection


def _copy(backend: SqliteBackend, server: psycopg.Connection[Row]) -> Moved:
    own = queries.load("postgres")
    ((version,),) = server.execute(own["get_store_version"].encode()).fetchall()
    if version != SCHEMA_VERSION:  # an older host may work on it, and its file has fewer columns
        facts = {"found": version, "known": SCHEMA_VERSION}
        raise StoreNewer(code="store_newer", subject=NAME, facts=facts)
    server.execute(own["lock_hosts"].encode())  # none comes, and no other move (law 3)
    ((hosts,),) = server.execute(own["count_live_hosts"].encode()).fetchall()
    if hosts:
        raise RequestRefused(code="server_not_empty", subject=NAME, facts={"what": "hosts"})
    for (text,) in server.execute(own["defer_references"].encode()).fetchall():
        server.execute(text)
    for name in ("empty_counters", "empty_upkeep", "drop_key_name"):
        server.execute(own[name].encode())
    tables = server.execute(own["list_moves"].encode()).fetchall()
    _require_empty(server, [(name, read) for name, read, _ in tables])
    moved: dict[str, int] = {}
    for name, read, take in tables:
        told = _Told()
        with server.cursor().copy(take) as copying:
            for row in _rows(backend.connection, name, read):
                told.add(row)
                copying.write_row(row)
        kept = _Told()
        with server.cursor(name="duly_move") as reading:
            reading.execute(read)
            kept.add_all(reading)
        if kept != told:
            raise StoreError(code="not_moved", subject=name)
        moved[name] = told.count
    server.execute(own["check_references"].encode())
    for (text,) in server.execute(own["keep_references"].encode()).fetchall():
        server.execute(text)
    return Moved(moved)


def _require_empty(server: psycopg.Connection[Row], tables: Iterable[tuple[str, str]]) -> None:
    """Refuse a server with rows that no file brought; what it has shows that it was in use."""
    full = [name for name, read in tables if server.execute(f"{read} limit 1".encode()).fetchone()]
    if full:
        what = "workflows" if "workflow" in full else f"rows in {full[0]}"
        raise RequestRefused(code="server_not_empty", subject=NAME, facts={"what": what})


def _rows(file: apsw.Connection, table: str, read: str) -> Iterable[tuple[Any, ...]]:
    for row in file.execute(read):
        if table != UPKEEP or row[0] not in mark.MARKS:  # what is true of the file alone
            yield row


@dataclass(slots=True)
class _Told:
    """So many rows, in any order, with a sum of their digests: two that are equal have all rows."""

    count: int = 0
    total: int = 0

    def add(self, row: tuple[Any, ...]) -> None:
        self.count += 1
        digest = sha256(repr(row).encode()).digest()
        self.total = (self.total + int.from_bytes(digest)) % (1 << 8 * DIGEST_BYTES)

    def add_all(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for row in rows:
            self.add(row)
