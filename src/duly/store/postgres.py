"""A store in PostgreSQL: verbs over a small pool of connections (H1, H10).

Law 1  One verb is one transaction on one connection, READ COMMITTED. What it decides on is locked
       by its first statement (`look_at_workflow`), so it stays true until the commit (H2).
Law 2  A barrier's commit waits for the server's disk. A rider's does not: the next barrier, on any
       connection, makes it durable.
Law 3  The server may end one of two transactions that wait for each other: that one is run again.
Law 4  A caller that is cancelled does not stop its transaction; its connection is free when that
       has ended.
Law 5  A forked child never uses or closes a connection: the server would end the parent's session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, Self, TypeVar

import psycopg
from psycopg import errors

from duly import fork
from duly.env import Env
from duly.errors import (
    IllegalTransition,
    StoreError,
    StoreForked,
    StoreNewer,
    StoreOlder,
    StoreUnavailable,
)
from duly.rules.lease import LeaseTimes
from duly.store import queries
from duly.store.base import Durability, Row, Transaction, Watchers
from duly.store.dialect import number, postgres_schema, postgres_step
from duly.store.inquiry import ResultTable, Show, check_text
from duly.store.migrate import find_steps, oldest_able
from duly.store.postgres_session import Beside, ServerSession, dial, hasten
from duly.store.seal import list_keys, put_keys
from duly.store.slot import NAME
from duly.store.sqlite import Schema, default_schema
from duly.store.transaction import FindKey

R = TypeVar("R")

CONNECTIONS: Final = 8
READERS: Final = 2  # of them; so a reader waits for no writer that waits for a lock
OPEN_TRIES_MAX: Final = 3  # another host may make the schema at the same moment

log = logging.getLogger("duly.store")


async def _no_care(_: str | None) -> None:
    """Do nothing about a store that is older than it was."""


class PostgresBackend:
    """Runs transactions on a PostgreSQL server."""

    def __init__(self, url: str, env: Env, schema: Schema, connections: int = CONNECTIONS) -> None:
        self._env = env
        self.call = env.call_blocking  # where a transaction runs
        self._url = url
        self._schema = schema
        statements = dict(schema.statements)
        # A reader locks nothing.
        own = queries.load("postgres")
        writing = number(statements | own)
        reading = number(statements | {name: own[name] for name in own.keys() - statements.keys()})
        reading = {name: each for name, each in reading.items() if not name.startswith("before_")}
        self._sessions = [ServerSession(url, n, reading, writing) for n in range(connections)]
        self._writers: asyncio.LifoQueue[ServerSession] = asyncio.LifoQueue()
        self._readers: asyncio.LifoQueue[ServerSession] = asyncio.LifoQueue()
        self._has_readers = connections > READERS
        writers = connections - READERS if self._has_readers else connections
        # Where each connection waits for its next transaction.
        self._queues = [self._writers] * writers + [self._readers] * (connections - writers)
        # A person's own SELECT may take its five seconds, and holds up nothing else (H1). Its
        # connection is made when one is asked.
        self._inquiries: asyncio.LifoQueue[ServerSession] = asyncio.LifoQueue()
        self._inquiries.put_nowait(ServerSession(url, connections, reading, writing))
        for queue, session in zip(self._queues, self._sessions, strict=True):
            queue.put_nowait(session)
        self._is_closed = False
        self._closing: asyncio.Future[None] | None = None
        self._is_forked = False
        self.beside = Beside()
        self.has_unsealed = False  # no schema on a server is so old that rows are unsealed (L11)
        self.watchers = Watchers()
        # Called when the store has lost what it had confirmed (H10).
        self.on_older: Callable[[str | None], Awaitable[None]] = _no_care
        # Called when the store came back without riders that this host was told of (H10).
        self.on_lost_riders: Callable[[], None] = lambda: None
        fork.own(self)

    def abandon(self) -> None:
        """Leave every connection to the parent process."""
        self._is_forked = True

    def alone(self, ends_ms: int | None = None) -> Self:
        """Make a backend of one connection on the same server: no other write holds it up.

        It may end a line that hangs for so long.
        """
        url = self._url if ends_ms is None else hasten(self._url, ends_ms)
        return type(self)(url, self._env, self._schema, connections=1)

    def write_as(self, find_host: Callable[[], str], times: LeaseTimes) -> None:
        """Let every write be one of this host, and be refused when the host is gone (H2)."""
        self.beside.find_host, self.beside.times = find_host, times

    def check_version(self, tx: Transaction) -> None:
        """Refuse a write to a store that a newer host has changed (H11)."""
        check_version(tx, self._schema)

    async def agree_on_key(self, name: str, old_name: str | None) -> bool:
        """Write by which name the key goes that all hosts seal with; false if it is another (H12).

        A host that brings the old key as well may replace it while no other is at work. One that
        begins meanwhile is seen, or asks again when it has begun and is refused. Until everything
        is sealed anew each host needs both.
        """
        now = self._env.now_ms()

        def agree(tx: Transaction) -> bool:
            if tx.run("agree_on_key", name=name) > 0:
                return True
            if old_name is None:
                return False
            tx.run("lock_hosts")
            if not list_keys(tx) <= {old_name, name}:
                return False  # another change goes on, and no host can have three keys
            if tx.run("replace_key", name=name, old_name=old_name) == 0:
                return False
            put_keys(tx, (old_name, name), now=now)
            return True

        return await self.transact(agree, Durability.BARRIER)

    @property
    def seal_key(self) -> bytes | None:
        """The key that rows are sealed with, if there is one."""
        return self.beside.find_key()

    def seal_with(self, find_key: FindKey) -> None:
        """Seal the rows that end from now on with this key; it is looked up each time (L15)."""
        self.beside.find_key = find_key

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Run `body` in a transaction of its own; return its result once that is durable."""
        is_read = durability is Durability.READ
        told = None if is_read else self.watchers.tell
        find_host = None if is_read else self.beside.find_host
        # A write is of the host that asked for it, also if that host gets another id before it is
        # sent, or sent again (H2).
        host_id = None if find_host is None else find_host()

        def run(session: ServerSession) -> R:
            return session.run(body, durability, self.beside, host_id)

        try:
            return await self._use(run, told, is_read)
        except StoreOlder:
            # Everything is paused before any connection is let in.
            await self.on_older(host_id)
            self.beside.slots.give_up(host_id)
            raise

    async def compare_for(self, pool: PostgresBackend, host_id: str) -> None:
        """Compare what a host was told of the writes of its pool, beside that pool (H10).

        This does nothing else: a promotion is noted when the pool is entered.
        """
        beside = replace(pool.beside, times=self.beside.times, on_enter=lambda _: None)
        await self._use(lambda session: session.compare(beside, host_id))

    async def ask(self, body: Callable[[Transaction], R]) -> R:
        """Run `body`, which changes nothing and may take long."""
        return await self.transact(body, Durability.READ)

    async def inquire(self, query: str, rows_max: int, show: Show) -> ResultTable:
        """Run a person's own SELECT over the documented views (H1)."""
        check_text(query)
        return await self._use(
            lambda each: each.inquire(self._env, query, rows_max, show), queue=self._inquiries
        )

    async def sync(self) -> None:
        """Return when everything committed so far is on the server's disk."""
        await self._use(ServerSession.flush)

    async def count_bytes(self) -> int:
        """Return how many bytes the database takes on the server."""
        ((size,),) = await self.ask(lambda tx: tx.all("count_bytes"))
        return int(size)

    async def close(self) -> None:
        """Wait for every transaction, make all durable, and give the connections back."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            await self.sync()
        except StoreError as error:
            log.warning("the server was not asked to write everything down: %s", error)
        self._is_closed = True
        for queue in (*self._queues, self._inquiries):
            session = await queue.get()
            await self._env.call_blocking(session.close)

    async def _use(
        self,
        work: Callable[[ServerSession], R],
        told: Callable[[], None] | None = None,
        is_read: bool = False,
        queue: asyncio.LifoQueue[ServerSession] | None = None,
    ) -> R:
        if self._is_forked:
            raise StoreForked(code="store_forked", subject=NAME)
        if self._is_closed:
            raise StoreUnavailable(code="store_closed", subject=NAME)
        usual = self._readers if is_read and self._has_readers else self._writers
        queue = usual if queue is None else queue
        session, loop = await queue.get(), asyncio.get_running_loop()
        is_begun = False

        def end() -> None:
            """Let others have the connection, and watchers know: its thread is done with it."""
            queue.put_nowait(session)
            if told is not None:
                told()

        def begin() -> R:
            nonlocal is_begun
            is_begun = True
            try:
                return work(session)
            finally:
                with suppress(RuntimeError):  # a loop that is closed has no other caller
                    loop.call_soon_threadsafe(end)

        def hear(job: asyncio.Future[R]) -> None:
            """Let others have a connection that no thread has used; hear of every error."""
            if not is_begun:
                end()
            if not job.cancelled():
                job.exception()

        job = asyncio.ensure_future(self.call(begin))
        job.add_done_callback(hear)
        try:
            result = await asyncio.shield(job)
        except psycopg.Error as error:
            raise explain(error) from error
        finally:
            if self.beside.slots.take_lacking():
                self.on_lost_riders()
        return result


def explain(error: psycopg.Error) -> Exception:
    """Turn what the server said into what happened and what to do (H3)."""
    if isinstance(error, errors.QueryCanceled):
        return StoreUnavailable(code="server_slow", subject=NAME, facts={"cause": str(error)})
    if isinstance(error, psycopg.OperationalError):
        cause = str(error).strip()
        return StoreUnavailable(code="server_unreachable", subject=NAME, facts={"cause": cause})
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(code="server_denied", subject=NAME, facts={"cause": str(error).strip()})
    if isinstance(error, errors.DuplicatePreparedStatement | errors.InvalidSqlStatementName):
        cause = str(error).strip()
        return StoreUnavailable(code="server_pooled", subject=NAME, facts={"cause": cause})
    # The verbs check before they write, so a constraint or a wrong statement is our own bug.
    return IllegalTransition(f"{NAME} refused a statement; this is a bug in Duly: {error}")


def bring_up(url: str, schema: Schema) -> None:
    """Make the tables in an empty database; refuse another schema, or another program's (H4)."""
    own = queries.load("postgres")
    with dial(url) as connection:
        for _ in range(OPEN_TRIES_MAX):
            ((found,),) = connection.execute(own["find_store"].encode()).fetchall()
            if found == "another":
                raise StoreError(code="server_another", subject=NAME)
            if found == "duly":
                version, oldest = _read_version(connection)
                _check_able(version, oldest, schema)
                if version >= schema.version:
                    return
                try:
                    with connection.transaction():
                        migrate(connection, schema)
                    return
                except (errors.LockNotAvailable, errors.DeadlockDetected):
                    continue  # a host that works was faster
            try:
                with connection.transaction():
                    create_schema(connection, schema)
                return
            except (errors.DuplicateTable, errors.DuplicateObject, errors.UniqueViolation):
                continue  # another host has just made it
    cause = "other transactions use the tables that must be changed"
    raise StoreUnavailable(code="server_unreachable", subject=NAME, facts={"cause": cause})


def _read_version(connection: psycopg.Connection[Row]) -> tuple[int, int | None]:
    """Read the version of the schema, and the oldest one whose hosts work on it."""
    own = queries.load("postgres")
    ((found,),) = connection.execute(own["get_store_version"].encode()).fetchall()
    oldest = connection.execute(own["get_oldest_version"].encode()).fetchone()
    return found, None if oldest is None else oldest[0]


def _check_able(found: int, oldest: int | None, schema: Schema) -> None:
    """Refuse a newer schema, unless everything that came since only adds to what we know (H11)."""
    if found > schema.version and (oldest is None or oldest > schema.version):
        facts = {"found": found, "known": schema.version}
        raise StoreNewer(code="store_newer", subject=NAME, facts=facts)


def migrate(connection: psycopg.Connection[Row], schema: Schema) -> None:
    """Bring an older store up, in this transaction (H11).

    Steps that only add are taken while hosts of before work. Others are refused as long as one is
    here. A host that comes later reads the version on each of its connections before it writes.
    """
    own = queries.load("postgres")
    connection.execute(own["limit_migration"].encode())
    connection.execute(own["lock_hosts"].encode())
    found, before = _read_version(connection)
    ((hosts,),) = connection.execute(own["count_live_hosts"].encode()).fetchall()
    if found >= schema.version:  # another host has just done it
        return
    oldest = oldest_able(found, schema.version, before, schema.additive)
    if hosts and oldest > found:
        facts = {"found": found, "known": schema.version, "hosts": hosts}
        raise StoreError(code="server_schema_older", subject=NAME, facts=facts)
    for text in find_steps(found, schema.version, schema.migrations):
        connection.execute(postgres_step(text).encode())
    version = number({"put": own["change_store_version"]})["put"]
    psycopg.RawCursor(connection).execute(version.text, [str(schema.version)])
    able = number({"put": own["put_oldest_version"]})["put"]
    psycopg.RawCursor(connection).execute(able.text, [str(oldest)])


def check_version(tx: Transaction, schema: Schema) -> None:
    """Refuse a store that a newer host has changed since this one was opened (H11)."""
    ((found,),) = tx.all("get_store_version")
    if found > schema.version:
        oldest = tx.one("get_oldest_version")
        _check_able(found, None if oldest is None else oldest[0], schema)


def create_schema(connection: psycopg.Connection[Row], schema: Schema) -> None:
    """Make the tables in an empty database."""
    connection.execute(postgres_schema(schema.text).encode())
    version = number({"put": queries.load("postgres")["put_store_version"]})["put"]
    psycopg.RawCursor(connection).execute(version.text, [str(schema.version)])


async def open_postgres(url: str, env: Env, *, schema: Schema | None = None) -> PostgresBackend:
    """Connect to a database, make its tables if it is empty, and return a backend that is ready."""
    wanted = schema or default_schema()
    try:
        await env.call_blocking(lambda: bring_up(url, wanted))
    except psycopg.Error as error:
        raise explain(error) from error
    return PostgresBackend(url, env, wanted)
