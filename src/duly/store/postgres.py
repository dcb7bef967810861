"""A store in PostgreSQL: verbs over a small pool of connections (H1, H10).

Law 1  One verb is one transaction on one connection, READ COMMITTED. What it decides on is locked
       by its first statement (`look_at_workflow`), so it stays true until the commit (H2).
Law 2  A barrier's commit waits for the server's disk. A rider's does not: the next barrier, on any
       connection, makes it durable.
Law 3  The server may end one of two transactions that wait for each other: that one is run again.
Law 4  A caller that is cancelled does not stop its transaction; its connection is free when that
       has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.adapt import Loader
from psycopg.pq import TransactionStatus

from duly.env import Env
from duly.errors import IllegalTransition, StoreUnavailable
from duly.rules.seal import OPEN_KEY
from duly.store import queries
from duly.store.base import Durability, Row, Transaction
from duly.store.dialect import number, postgres_schema
from duly.store.queries import Statement
from duly.store.sqlite import Schema, default_schema
from duly.store.transaction import NOT_OPEN, FindKey

R = TypeVar("R")

CONNECTIONS: Final = 8
TRIES_MAX: Final = 10  # of a transaction that the server ended because of another one
NAME: Final = "PostgreSQL"

log = logging.getLogger("duly.store")


class _Number(Loader):
    """A sum of whole numbers is a whole number, as in SQLite."""

    def load(self, data: Any) -> int | float:
        text = bytes(data)
        return float(text) if b"." in text else int(text)


@dataclass(slots=True)
class Beside:
    """What a transaction knows that is not in the database: a key, and in a test another clock."""

    find_key: FindKey = lambda: OPEN_KEY
    clock: Callable[[], int] | None = None


class PostgresTransaction:
    """The open transaction of one verb: named statements over one connection."""

    def __init__(
        self,
        connection: psycopg.Connection[Row],
        statements: Mapping[str, Statement],
        beside: Beside,
    ) -> None:
        self._cursor = psycopg.RawCursor(connection)
        self._statements = statements
        self._beside = beside
        self.closed_by: Exception | None = None

    def all(self, statement: str, /, **parameters: Any) -> list[Row]:
        """Run a statement and return every row."""
        return self._rows(statement, parameters)

    def one(self, statement: str, /, **parameters: Any) -> Row | None:
        """Run a statement and return its only row, if there is one."""
        rows = self._rows(statement, parameters)
        assert len(rows) <= 1, f"statement {statement} returned {len(rows)} rows"
        return rows[0] if rows else None

    def run(self, statement: str, /, **parameters: Any) -> int:
        """Run a statement that returns no rows; return how many rows it changed."""
        rows = self._rows(statement, parameters)
        assert not rows, f"statement {statement} returned {len(rows)} rows"
        return self._cursor.rowcount

    @property
    def clock_ms(self) -> int:
        """What the server's own clock shows (H2)."""
        if self._beside.clock is not None:
            return self._beside.clock()
        ((shown,),) = self.all("server_clock")
        return int(shown)

    @property
    def seal_key(self) -> bytes | None:
        """The key that rows are sealed with, which is not in the database (L15)."""
        return self._beside.find_key()

    def _rows(self, statement: str, parameters: dict[str, Any]) -> list[Row]:
        if self.closed_by is not None:
            raise self.closed_by
        known = self._statements[statement]
        try:
            bound = known.bind(parameters)
        except KeyError:
            raise known.refuse(parameters) from None
        if len(bound) != len(parameters):
            raise known.refuse(parameters)
        try:
            self._cursor.execute(known.text, [_spell(each) for each in bound], prepare=True)
            return self._cursor.fetchall() if self._cursor.description else []
        except psycopg.Error as error:
            self.closed_by = error
            raise


def _spell(value: Any) -> str | None:
    """Write a value without a type: the server takes that of the place where it stands."""
    if value is None:
        return None
    return str(int(value)) if isinstance(value, int) else str(value)


class _Session:
    """One connection of the pool, used by one thread at a time; made anew when it was lost."""

    def __init__(
        self,
        url: str,
        reading: Mapping[str, Statement],
        writing: Mapping[str, Statement],
    ) -> None:
        self._url = url
        self._reading = reading
        self._writing = writing
        self._connection: psycopg.Connection[Row] | None = None

    def run(self, body: Callable[[Transaction], R], durability: Durability, beside: Beside) -> R:
        """Run a body in a transaction of its own, again if the server ended it for another."""
        for _ in range(TRIES_MAX - 1):
            try:
                return self._try(body, durability, beside)
            except (errors.DeadlockDetected, errors.SerializationFailure):
                continue
        return self._try(body, durability, beside)

    def flush(self) -> None:
        """Return when everything committed so far is on the server's disk."""
        self._open().execute(self._writing["flush_log"].text.encode())

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            self._connection.close()

    def _try(self, body: Callable[[Transaction], R], durability: Durability, beside: Beside) -> R:
        connection = self._open()
        statements = self._reading if durability is Durability.READ else self._writing
        transaction = PostgresTransaction(connection, statements, beside)
        try:
            connection.execute(_BEGIN[durability], prepare=False)
            value = body(transaction)
            if transaction.closed_by is not None:
                raise transaction.closed_by
            transaction.closed_by = NOT_OPEN
            connection.execute("commit")
        except BaseException:
            transaction.closed_by = NOT_OPEN
            self._roll_back(connection)
            raise
        return value

    def _roll_back(self, connection: psycopg.Connection[Row]) -> None:
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            try:
                connection.execute("rollback")
            except psycopg.Error:
                connection.close()

    def _open(self) -> psycopg.Connection[Row]:
        if self._connection is None or self._connection.closed:
            connection = psycopg.connect(self._url, autocommit=True)
            connection.adapters.register_loader("numeric", _Number)
            connection.prepare_threshold = 0
            connection.prepared_max = None
            self._connection = connection
        return self._connection


_BEGIN: Final = {
    Durability.BARRIER: "begin; set local synchronous_commit = on",
    Durability.RIDER: "begin; set local synchronous_commit = off",
    Durability.TURN: "begin; set local synchronous_commit = off",
    Durability.READ: "begin read only",
}


class PostgresBackend:
    """Runs transactions on a PostgreSQL server."""

    def __init__(self, url: str, env: Env, statements: dict[str, str]) -> None:
        self._env = env
        # A reader locks nothing.
        own = queries.load("postgres")
        writing = number(statements | own)
        reading = writing | number(
            {name: statements[name] for name in own.keys() & statements.keys()}
        )
        self._sessions = [_Session(url, reading, writing) for _ in range(CONNECTIONS)]
        self._free: asyncio.LifoQueue[_Session] = asyncio.LifoQueue()
        for each in self._sessions:
            self._free.put_nowait(each)
        self._is_closed = False
        self.beside = Beside()
        self.watchers: set[Callable[[], None]] = set()

    @property
    def seal_key(self) -> bytes | None:
        """The key that rows are sealed with, if there is one."""
        return self.beside.find_key()

    def seal_with(self, find_key: FindKey) -> None:
        """Seal the rows that end from now on with this key; it is looked up each time (L15)."""
        self.beside.find_key = find_key

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Run `body` in a transaction of its own; return its result once that is durable."""
        try:
            return await self._use(lambda each: each.run(body, durability, self.beside))
        finally:
            if durability is not Durability.READ:
                for told in tuple(self.watchers):
                    told()

    async def ask(self, body: Callable[[Transaction], R]) -> R:
        """Run `body`, which changes nothing and may take long."""
        return await self.transact(body, Durability.READ)

    async def sync(self) -> None:
        """Return when everything committed so far is on the server's disk."""
        await self._use(_Session.flush)

    async def close(self) -> None:
        """Wait for every transaction, make all durable, and give the connections back."""
        if self._is_closed:
            return
        await self.sync()
        self._is_closed = True
        for _ in self._sessions:
            session = await self._free.get()
            await self._env.call_blocking(session.close)

    async def _use(self, work: Callable[[_Session], R]) -> R:
        if self._is_closed:
            raise StoreUnavailable(code="store_closed", subject=NAME)
        session = await self._free.get()
        job = asyncio.ensure_future(self._env.call_blocking(lambda: work(session)))
        job.add_done_callback(lambda _: self._free.put_nowait(session))
        try:
            return await asyncio.shield(job)
        except psycopg.Error as error:
            raise _explain(error) from error


def _explain(error: psycopg.Error) -> Exception:
    """Turn what the server said into what happened and what to do (H3)."""
    if isinstance(error, psycopg.OperationalError):
        return StoreUnavailable(
            code="database_cannot_open", subject=NAME, facts={"cause": str(error)}
        )
    # The verbs check before they write, so a constraint or a wrong statement is our own bug.
    return IllegalTransition(f"{NAME} refused a statement; this is a bug in Duly: {error}")


def create_schema(url: str, schema: Schema | None = None) -> None:
    """Make the tables in an empty database."""
    wanted = schema or default_schema()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(postgres_schema(wanted.text).encode())


async def open_postgres(url: str, env: Env, *, schema: Schema | None = None) -> PostgresBackend:
    """Connect to a database that has Duly's tables, and return a backend that is ready."""
    wanted = schema or default_schema()
    return PostgresBackend(url, env, dict(wanted.statements))
