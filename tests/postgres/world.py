"""The world of the store's exam on PostgreSQL: a database of its own, copied from an empty one.

A crash is a copy of what is committed: a server that outlives its client keeps nothing else.
"""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from duly.rules.lease import LeaseTimes
from duly.store import Store
from duly.store.base import Row, Transaction
from duly.store.mark import MARKS
from duly.store.postgres import bring_up, open_postgres
from duly.store.postgres_line import SentStatement
from duly.store.postgres_session import PostgresTransaction
from tests.postgres.server import ROLE, address, superuser
from tests.store.exam import SCHEMA, Dump, World
from tests.store.virtual import VirtualEnv

HOST, OTHER = "host_1", "host_2"
LEASE_MS = 60_000
TIMES = LeaseTimes(LEASE_MS)
EMPTY = "empty"
FIRST_WITH_STRATEGY = 150_000
SPARE_MAX = 4  # databases that a process keeps for its next worlds, each with a session


class Peephole:
    """What the exam does to the database behind the store's back."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def execute(self, text: str, given: Any = None) -> psycopg.Cursor[Any]:
        """Run a statement that was written for SQLite."""
        text = re.sub(r"where open$", "where open = 1", text.replace("?", "%s"))
        return self._connection.execute(text.encode(), given)

    @property
    def version(self) -> int:
        """Return the version of the server, as 180004 for 18.4."""
        return self._connection.info.server_version

    def tables(self) -> list[str]:
        """List the tables of the store."""
        found = self.execute("select tablename from pg_tables where schemaname = 'public'")
        return [str(name) for (name,) in found.fetchall()]

    def wipe(self) -> None:
        """Delete every row, in one transaction, and begin to count anew."""
        clean = {
            "counter": "update counter set value = 0",
            "store": "update store set key_name = null",
        }
        rows = [clean.get(table, f'delete from "{table}"') for table in self.tables()]
        # No reference is looked after meanwhile.
        role = "set local session_replication_role = replica"
        self.execute("; ".join(("begin", role, *rows, "commit")))

    @property
    def is_open(self) -> bool:
        """Whether the server still answers here, as far as is known."""
        return not self._connection.closed

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()


def say(tx: Transaction, text: str) -> list[Row]:
    """Run a statement that is no verb's inside a transaction."""
    assert isinstance(tx, PostgresTransaction)
    found: list[Row] = []
    tx._send(SentStatement(text, take=lambda answer: found.extend(answer.rows), is_kept=False))
    tx.settle()
    return found


class Place:
    """A server, and the databases that one test process makes on it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._name = name
        self._numbers = count()
        self._admin = Peephole(superuser(folder))
        self._empty = f"{EMPTY}_{name}"
        self._admin.execute(f"create database {self._empty} owner {ROLE}")
        bring_up(address(folder, self._empty), SCHEMA)
        self._spare: list[str] = []
        self._looks: dict[str, Peephole] = {}

    def look(self, name: str) -> Peephole:
        """Return the one peephole of a database; a new one costs more than what is seen there."""
        found = self._looks.get(name)
        if found is None or not found.is_open:
            found = self._looks[name] = Peephole(superuser(self.folder, name))
        return found

    def look_away(self, name: str) -> None:
        """Close the peephole of a database: a template must have no sessions."""
        if name in self._looks:
            self._looks.pop(name).close()

    def make(self, source: str | None = None) -> str:
        """Make a database that is a copy of another, or an empty store, which may be used again."""
        if source is None and self._spare:
            return self._spare.pop()
        self.look_away(source or self._empty)
        name = f"world_{self._name}_{next(self._numbers)}"
        copied = f"create database {name} owner {ROLE} template {source or self._empty}"
        # 14 knows no other way than this one, and not its name.
        is_named = self._admin.version >= FIRST_WITH_STRATEGY
        self._admin.execute(f"{copied} strategy file_copy" if is_named else copied)
        return name

    def give_back(self, name: str) -> None:
        """Empty a database for the next world; that is ten times as fast as a new one."""
        if len(self._spare) == SPARE_MAX:  # each crash makes one more
            self.look_away(name)
            return
        self.look(name).wipe()
        self._spare.append(name)

    def close(self) -> None:
        """Let the server go; its databases go with it."""
        for name in [*self._looks]:
            self.look_away(name)
        self._admin.close()


class PostgresWorld(World):
    """A store in a database of its own."""

    def __init__(self, place: Place, make: type[Store] = Store, source: str | None = None) -> None:
        super().__init__(place.folder, make)
        self._place = place
        self._name = place.make(source)

    async def open(self) -> PostgresWorld:
        """Open the store."""
        url = address(self._place.folder, self._name)
        backend = await open_postgres(url, VirtualEnv(), schema=SCHEMA)
        backend.beside.clock = lambda: 0  # as SQLite's, so that leases can be compared
        backend.beside.timeline = backend.beside.started = lambda: None
        self._backend, self.store = backend, self._make(backend)
        return self

    async def close(self) -> None:
        """Give back every store that was opened."""
        for heir in self._heirs:
            await heir.close()
        await self._backend.close()
        self._place.give_back(self._name)

    async def _leave(self) -> None:
        await self._backend.close()
        self._place.look_away(self._name)

    @property
    def connection(self) -> Any:
        """A way to look at what the verbs wrote."""
        return self._place.look(self._name)

    def dump(self) -> Dump:
        """Read every row of every table."""
        execute = self.connection.execute
        rows = {
            name: sorted(execute(f'select * from "{name}"').fetchall(), key=repr)
            for name in self.connection.tables()
        }
        rows["upkeep"] = [row for row in rows["upkeep"] if row[0] not in MARKS]
        return rows

    async def crash(self) -> PostgresWorld:
        """Return a world over what is committed; a template must have no sessions."""
        await self._leave()
        heir = PostgresWorld(self._place, self._make, self._name)
        await self.open()
        heir.fence, heir.kept, heir._numbers = self.fence, dict(self.kept), self._numbers
        self._heirs.append(await heir.open())
        return heir
