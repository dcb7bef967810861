"""A SQLite file as a store's backend: one file, one host, one connection.

Law 1: one host has the file (H1). Its lock lies beside the file and dies with its holder; SQLite's
       own lock on the file itself keeps out a program that opens it by another name (disk).
Law 2: the file is looked at before it is changed: another program's or a newer one is left alone.
Law 3: a barrier is on the disk: the log is synced by us, and it is still the file at its path.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import apsw

from duly import fork
from duly.env import Env
from duly.errors import RequestRefused, StoreDamaged, StoreInUse, StoreUnavailable
from duly.store import mark, queries
from duly.store.base import Durability, Transaction, Watchers
from duly.store.disk import Disk, FileDisk, shut
from duly.store.failure import explain, is_sync_failure
from duly.store.figure import SyncTimes
from duly.store.inquiry import ResultTable, SelectRunner
from duly.store.migrate import ADDITIVE, MIGRATIONS, SCHEMA_VERSION, bring_up, check_version
from duly.store.reader import Questions, Reader
from duly.store.transaction import FindKey
from duly.store.wal import CHECKPOINT_PAGES
from duly.store.writer import Writer

R = TypeVar("R")


CACHE_KIB = 64 * 1024
BUSY_MS = 250
PAGE_BYTES = 4096
PROBLEMS_MAX = 10


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database must look like and what may be asked of it."""

    text: str
    statements: Mapping[str, str]
    version: int = SCHEMA_VERSION
    migrations: Mapping[int, str] = field(default_factory=lambda: MIGRATIONS)
    additive: frozenset[int] = ADDITIVE


class SqliteBackend:
    """Runs transactions in one SQLite file."""

    def __init__(
        self,
        disk: Disk,
        connection: apsw.Connection,
        writer: Writer,
        questions: Questions | None = None,
        inquiries: SelectRunner | None = None,
        syncs: SyncTimes | None = None,
    ) -> None:
        self._disk = disk
        self._connection = connection
        self._writer = writer
        self._questions = questions  # none, where the disk has room for one connection
        self._inquiries = inquiries
        self.syncs = syncs or SyncTimes(disk.sync_wal)
        self.has_unsealed = False  # rows of an older schema, when it was opened (L15)
        # Called after a commit that wrote, also if the caller of that write has gone: a watcher
        # that reads then sees what was written.
        self.watchers = Watchers()
        writer.log.told = lambda: self.watchers.tell()

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Run `body` in a transaction of its own; return its result once that is durable."""
        return await self._writer.transact(body, durability)

    async def ask(self, body: Callable[[Transaction], R]) -> R:
        """Run a question on a connection of its own; it sees all that was committed before."""
        if self._questions is None:
            return await self._writer.transact(body, Durability.READ)
        return await self._questions.ask(body)

    async def inquire(self, query: str, rows_max: int, show: Callable[[str], str]) -> ResultTable:
        """Run a person's own SELECT over the documented views (H1)."""
        if self._inquiries is None:
            raise RequestRefused(code="one_connection")
        return await self._inquiries.ask(query, rows_max, show)

    @property
    def seal_key(self) -> bytes | None:
        """The key that rows are sealed with, if there is one."""
        return self._writer.seal_key

    def seal_with(self, find_key: FindKey) -> None:
        """Seal the rows that end from now on with this key; it is looked up each time (L15)."""
        self._writer.seal_with(find_key)

    async def sync(self) -> None:
        """Return when everything committed so far is power-loss durable."""
        await self._writer.sync()

    async def forget_log(self) -> None:
        """Let no older page be seen in the log: it is moved, and what is behind is overwritten.

        A question that is being answered holds it up; then it is done when that has ended.
        """
        self._writer.log.forget()
        await self._writer.sync()

    async def count_bytes(self) -> int:
        """Return how many bytes the database and its log take; one that is no file takes none."""
        return sum(_size(Path(f"{self._disk.path}{suffix}")) for suffix in ("", "-wal"))

    async def integrity_check(self, *, full: bool = False) -> None:
        """Raise StoreDamaged if the database is unsound; `full` compares the indexes as well."""
        pragma = "integrity_check" if full else "quick_check"

        def check(transaction: Transaction) -> object:
            return self._connection.pragma(pragma, PROBLEMS_MAX)

        # A barrier runs in a thread: the check reads the whole file.
        problems = await self._writer.transact(check, Durability.BARRIER)
        if problems != "ok":
            raise StoreDamaged(
                code="database_damaged",
                subject=str(self._disk.path),
                facts={"cause": str(problems)},
            )

    @property
    def path(self) -> Path:
        """Where the database lies."""
        return Path(self._disk.path)

    @property
    def connection(self) -> apsw.Connection:
        """The one connection; a caller touches it only inside `between`."""
        return self._connection

    async def between(self, work: Callable[[], R]) -> R:
        """Do something short with the connection between two batches; it must write nothing."""
        return await self._writer.between(work)

    async def close(self) -> None:
        """Make everything durable and give the database back."""
        # The writer's connection is closed last: that one moves the log.
        for each in (self._questions, self._inquiries):
            if each is not None:
                await each.close()
        await self._writer.close()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def default_schema() -> Schema:
    """Read the schema and the statements that Duly ships."""
    text = queries.read("schema")
    files = ("queries", "bus", "views", "survey", "upkeep", "forget", "export", "blob", "slip")
    return Schema(text, queries.load(*files, "model"))


async def open_sqlite(
    place: Path | Disk,
    env: Env,
    *,
    schema: Schema | None = None,
    checkpoint_pages: int = CHECKPOINT_PAGES,
    is_direct: bool = True,
) -> SqliteBackend:
    """Take a SQLite file, bring its schema up, and return a backend that is ready.

    With `is_direct` a short job runs inside its caller's own call; without it every job waits in
    the queue, as it does while others work.
    """
    disk: Disk = FileDisk(place) if isinstance(place, Path) else place
    wanted = schema or default_schema()
    statements = queries.prepare(wanted.statements)
    opening = _Opening(disk, wanted, env.now_ms())
    thread = asyncio.ensure_future(env.call_blocking(opening.run))
    try:
        connection = await asyncio.shield(thread)
    except asyncio.CancelledError:
        opening.leave()
        # The thread is waited for, so that the file is free when this call ends. An error of the
        # thread is dropped now: its caller has gone. A second cancel ends the wait, and the thread
        # gives the file back all the same.
        with contextlib.suppress(Exception):
            await asyncio.shield(thread)
        raise
    syncs = SyncTimes(disk.sync_wal)
    writer = Writer(
        connection,
        statements,
        env,
        path=disk.path,
        sync_wal=syncs,
        release=disk.release,
        say_closed=lambda: _say_closed(connection, wanted),
        say_level=lambda: mark.say_level(connection, wanted.statements),
        say_ahead=lambda: _say_ahead(connection, wanted),
        checkpoint_pages=checkpoint_pages,
        is_direct=is_direct,
    )
    if isinstance(disk, FileDisk):
        writer.log.blank = disk.blank_log
    questions, inquiries = None, None
    if disk.has_readers:
        questions = Questions(Reader(disk, env, writer), statements, writer)
        inquiries = SelectRunner(disk, env, writer)
    backend = SqliteBackend(disk, connection, writer, questions, inquiries, syncs)
    backend.has_unsealed = opening.has_unsealed
    return backend


class _Opening:
    """Opens a database in a thread that a cancelled caller cannot stop.

    The second of the two, the thread that has opened or the caller that leaves, gives it back.
    """

    def __init__(self, disk: Disk, schema: Schema, now: int) -> None:
        self._disk = disk
        self._schema = schema
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._is_left = False
        self.has_unsealed = False
        fork.own(self)

    def abandon(self) -> None:
        """Wait for no thread in a forked child: the one that opens is the parent's."""
        fork.quiet(self._loop)

    def run(self) -> apsw.Connection:
        connection, self.has_unsealed = _open(self._disk, self._schema, self._now)
        with self._lock:
            self._connection = connection
            self._give_back_if_left()
        return connection

    def leave(self) -> None:
        with self._lock:
            self._is_left = True
            self._give_back_if_left()

    def _give_back_if_left(self) -> None:
        if self._is_left and self._connection is not None:
            _say_closed(self._connection, self._schema)
            shut(self._connection)
            self._disk.release()


def _open(disk: Disk, schema: Schema, now: int) -> tuple[apsw.Connection, bool]:
    connection: apsw.Connection | None = None

    def mark_copy(copy: apsw.Connection) -> None:
        mark.mark_copy(copy, schema.statements, now)

    try:
        disk.take()
        connection = disk.connect()
        # Before SQLite itself looks at the log, which it would take for the database's own.
        left = mark.look(disk, schema.statements)
        # A program that has the database open for a moment is waited for.
        connection.set_busy_timeout(BUSY_MS)
        # Asked before the journal mode is set, which would already change another's file.
        check_version(connection, disk.path, schema.version)
        mark.note_gone(connection, schema.statements, left, now)
        _configure(connection, disk.path)
        bring_up(
            connection,
            schema.text,
            path=disk.path,
            copy=lambda version: disk.copy(connection, version, mark_copy),
            version=schema.version,
            migrations=schema.migrations,
        )
        disk.settle()
        mark.put_open(connection, disk, schema.statements, now)
        _empty_log(connection)
        mark.say_ahead(connection, schema.statements)
        has_unsealed = mark.has_unsealed(connection, schema.statements)
    except BaseException as error:
        if connection is not None:
            # Closing must not checkpoint: the log may be another's, or its sync has just failed.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            shut(connection)
        disk.release()
        if isinstance(error, apsw.Error | OSError):
            raise _unopened(error, disk.path) from error
        raise
    return connection, has_unsealed


def _configure(connection: apsw.Connection, path: str) -> None:
    # Otherwise a statement whose plan might depend on a value is compiled again at every call.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    if connection.pragma("journal_mode", "wal") != "wal":
        raise StoreUnavailable(code="disk_without_log", subject=str(path))
    settings: dict[str, Any] = {
        "synchronous": "normal",
        # SQLite would checkpoint inside COMMIT and keep a failed sync to itself.
        "wal_autocheckpoint": 0,
        # On macOS the database must leave the drive's cache before its log is begun anew.
        "checkpoint_fullfsync": True,
        "journal_size_limit": CHECKPOINT_PAGES * PAGE_BYTES,
        "foreign_keys": True,
        "cache_size": -CACHE_KIB,
        "temp_store": "memory",
        "trusted_schema": False,
        # What retention removes is overwritten, not only forgotten (H5).
        "secure_delete": True,
    }
    for name, value in settings.items():
        connection.pragma(name, value)


def _empty_log(connection: apsw.Connection) -> None:
    """Move what the last host left in the log into the database, or do not open.

    If that host died of a failed sync, what we read of the log may be in memory only, and no later
    sync would write it: all that is appended behind it would be lost with it. A copy in the
    database, synced, no longer depends on it. The file keeps its header: an open database has a
    log (mark). The next write begins it anew.
    """
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)


def _say_closed(connection: apsw.Connection, schema: Schema) -> None:
    """Take the mark of an open database back; if it stays, so must the log."""
    try:
        mark.clear(connection, schema.statements)
    except apsw.Error:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)


def _say_ahead(connection: apsw.Connection, schema: Schema) -> None:
    """Mark the log after a checkpoint; a full disk may keep the mark away, and costs nothing else.

    Without it a log that another program moves looks lost: a false alarm, no loss.
    """
    try:
        mark.say_ahead(connection, schema.statements)
    except apsw.Error as error:
        if is_sync_failure(error):
            raise


def _unopened(error: apsw.Error | OSError, path: str) -> Exception:
    if isinstance(error, apsw.BusyError):
        return StoreInUse(code="database_busy", subject=str(path), facts={"cause": str(error)})
    if isinstance(error, apsw.Error):
        return explain(error, path)
    return StoreUnavailable(
        code="database_cannot_open", subject=str(path), facts={"cause": str(error)}
    )
