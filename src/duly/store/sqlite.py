"""A SQLite file as a store's backend: one file, one host, one connection.

Law 1: one host has the file (H1). Its lock lies beside the file and dies with its holder; SQLite's
       own lock on the file itself keeps out whoever comes by another name.
Law 2: the file is looked at before it is changed: another program's or a newer one is left alone.
Law 3: a barrier is on the disk: the log is synced by us, and it is still the file at its path.

What the writer needs from a disk is a `Disk`, so that a test can bring one in memory that fails,
or loses its power, wherever the test says.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import apsw

from duly.env import Env
from duly.errors import ConfigError, StoreDamaged, StoreInUse, StoreUnavailable
from duly.store import queries
from duly.store.base import Durability, Transaction
from duly.store.migrate import MIGRATIONS, SCHEMA_VERSION, bring_up, check_version
from duly.store.writer import CHECKPOINT_PAGES, Writer, explain, shut

R = TypeVar("R")

URL_PREFIX = "sqlite:///"
CACHE_KIB = 64 * 1024
BUSY_MS = 250
STATEMENT_CACHE_MAX = 512
PAGE_BYTES = 4096
PROBLEMS_MAX = 10
# Where the header says how the file is written and read, and how a file without a log says it.
HEADER_BYTES = 100
FORMAT_BYTES = slice(18, 20)
FORMAT_WITHOUT_LOG = b"\x01\x01"


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database must look like and what may be asked of it."""

    text: str
    statements: Mapping[str, str]
    version: int = SCHEMA_VERSION
    migrations: Mapping[int, str] = field(default_factory=lambda: MIGRATIONS)


class Disk(Protocol):
    """Where the database lies."""

    @property
    def path(self) -> str:
        """What errors call the database."""

    def take(self) -> None:
        """Keep every other host away, or raise StoreInUse."""

    def connect(self) -> apsw.Connection:
        """Open the database, making an empty one if there is none."""

    def settle(self) -> None:
        """Make the names of the files durable; from now on `sync_wal` may be called."""

    def sync_wal(self) -> None:
        """Return when the log is on the disk; raise if that cannot be said."""

    def copy(self, connection: apsw.Connection, version: int) -> None:
        """Keep the database as it is, under a name that says its version."""

    def release(self) -> None:
        """Let other hosts in."""


class SqliteBackend:
    """Runs transactions in one SQLite file."""

    def __init__(self, disk: Disk, connection: apsw.Connection, writer: Writer) -> None:
        self._disk = disk
        self._connection = connection
        self._writer = writer
        # Called after whoever wrote was answered; who looks again then sees what was written.
        self.watchers: set[Callable[[], None]] = set()

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Run `body` in a transaction of its own and answer what it returned, once durable."""
        try:
            return await self._writer.transact(body, durability)
        finally:
            if self.watchers and durability is not Durability.READ:
                for told in tuple(self.watchers):
                    told()

    async def sync(self) -> None:
        """Return when everything committed so far is power-loss durable."""
        await self._writer.sync()

    async def integrity_check(self, *, full: bool = False) -> None:
        """Raise StoreDamaged if the database is unsound; `full` compares the indexes as well."""
        pragma = "integrity_check" if full else "quick_check"

        def check(transaction: Transaction) -> object:
            return self._connection.pragma(pragma, PROBLEMS_MAX)

        # A barrier runs in a thread: the check reads the whole file.
        problems = await self._writer.transact(check, Durability.BARRIER)
        if problems != "ok":
            raise StoreDamaged(
                f"{self._disk.path}: the integrity check failed; restore a backup ({problems})"
            )

    @property
    def path(self) -> Path:
        """Where the database lies."""
        return Path(self._disk.path)

    @property
    def connection(self) -> apsw.Connection:
        """The one connection; whoever touches it does so inside `between`."""
        return self._connection

    async def between(self, work: Callable[[], R]) -> R:
        """Do something short with the connection between two batches; it must write nothing."""
        return await self._writer.between(work)

    async def close(self) -> None:
        """Make everything durable and give the database back."""
        await self._writer.close()


def path_from_url(url: str) -> Path:
    """Read `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    path = url.removeprefix(URL_PREFIX)
    if path == url or not path or path.endswith("/") or "\0" in path:
        raise ConfigError(
            f"{url!r} names no SQLite file; write sqlite:///relative.db or sqlite:////absolute.db"
        )
    return Path(path)


def default_schema() -> Schema:
    """Read the schema and the statements that Duly ships."""
    text = queries.read("schema")
    return Schema(text, queries.load("queries", "bus", "views", "upkeep"))


async def open_sqlite(
    place: Path | Disk,
    env: Env,
    *,
    schema: Schema | None = None,
    checkpoint_pages: int = CHECKPOINT_PAGES,
) -> SqliteBackend:
    """Take a SQLite file, bring its schema up, and answer a backend that is ready."""
    disk: Disk = FileDisk(place) if isinstance(place, Path) else place
    wanted = schema or default_schema()
    statements = queries.prepare(wanted.statements)
    opening = _Opening(disk, wanted)
    thread = asyncio.ensure_future(env.call_blocking(opening.run))
    try:
        connection = await asyncio.shield(thread)
    except asyncio.CancelledError:
        opening.leave()
        # The thread is waited for, so that whoever hears of the end finds the file free. If it
        # fails now, nobody asks any more; a second cancel ends the waiting, not the giving back.
        with contextlib.suppress(Exception):
            await asyncio.shield(thread)
        raise
    writer = Writer(
        connection,
        statements,
        env,
        path=disk.path,
        sync_wal=disk.sync_wal,
        release=disk.release,
        checkpoint_pages=checkpoint_pages,
    )
    return SqliteBackend(disk, connection, writer)


class _Opening:
    """Opens a database in a thread that a cancelled caller cannot stop.

    Whoever is second, the thread that has opened or the caller that leaves, gives the file back.
    """

    def __init__(self, disk: Disk, schema: Schema) -> None:
        self._disk = disk
        self._schema = schema
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._is_left = False

    def run(self) -> apsw.Connection:
        connection = _open(self._disk, self._schema)
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
            shut(self._connection)
            self._disk.release()


def _open(disk: Disk, schema: Schema) -> apsw.Connection:
    connection: apsw.Connection | None = None
    try:
        disk.take()
        connection = disk.connect()
        # A program that has the database open for a moment is waited for.
        connection.set_busy_timeout(BUSY_MS)
        # Asked before the journal mode is set, which would already change another's file.
        check_version(connection, disk.path, schema.version)
        _configure(connection, disk.path)
        bring_up(
            connection,
            schema.text,
            path=disk.path,
            copy=lambda version: disk.copy(connection, version),
            version=schema.version,
            migrations=schema.migrations,
        )
        disk.settle()
        _empty_log(connection)
    except BaseException as error:
        if connection is not None:
            # Closing must not checkpoint: the log may be another's, or its sync has just failed.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            shut(connection)
        disk.release()
        if isinstance(error, apsw.Error | OSError):
            raise _unopened(error, disk.path) from error
        raise
    return connection


def _configure(connection: apsw.Connection, path: str) -> None:
    # Otherwise a statement whose plan might depend on a value is compiled again at every call.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    if connection.pragma("journal_mode", "wal") != "wal":
        raise StoreUnavailable(f"{path}: this disk cannot hold a write-ahead log; use a local disk")
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
    sync would write it: whatever is appended behind it would be lost with it. A copy in the
    database, synced, no longer depends on it.
    """
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def _unopened(error: apsw.Error | OSError, path: str) -> Exception:
    if isinstance(error, apsw.BusyError):
        return StoreInUse(
            f"{path}: another program has this database open, under this name or another; "
            f"end it and open again ({error})"
        )
    if isinstance(error, apsw.Error):
        return explain(error, path)
    return StoreUnavailable(f"{path} cannot be opened: {error}; nothing was written")


class FileDisk:
    """The real disk: the database, its log, and the lock beside them."""

    def __init__(self, path: Path) -> None:
        # Two names of one file must meet at one lock.
        self._path = path.resolve()
        self._lock_path = self._path.with_name(self._path.name + ".lock")
        self._wal_path = self._path.with_name(self._path.name + "-wal")
        self._lock: int | None = None
        self._holder: int | None = None
        self._wal: int | None = None
        self._files: dict[Path, tuple[int, int]] = {}

    @property
    def path(self) -> str:
        """The file's absolute path."""
        return str(self._path)

    def take(self) -> None:
        """Lock the file beside the database; it stays there for good, only the lock goes."""
        self._lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._lock, 32).decode("ascii", "replace").strip()
            raise StoreInUse(
                f"{self._path}: another host holds this store"
                f"{f' (process {holder})' if holder else ''}; stop it or name another file"
            ) from None
        self._holder = os.getpid()
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode("ascii"), 0)

    def connect(self) -> apsw.Connection:
        """Open the database file."""
        # Nobody but this user reads what is in it (A5); SQLite gives its log the same mode.
        create(self._path)
        connection = apsw.Connection(str(self._path), statementcachesize=STATEMENT_CACHE_MAX)
        try:
            self._refuse_the_log_of_another()
            # SQLite locks the file itself, under whatever name (H1), and keeps the log's index in
            # memory: a COMMIT cannot fail after its frames were written, for want of room for it.
            connection.pragma("locking_mode", "exclusive")
        except BaseException:
            shut(connection)
            raise
        return connection

    def _refuse_the_log_of_another(self) -> None:
        """Refuse a restored copy beside the log of the database it replaced (H5).

        A copy says in its header that it has no log, a store that was ever opened says it has one.
        SQLite would write the log's newer pages over the older database.
        """
        has_log = self._wal_path.exists() and self._wal_path.stat().st_size > 0
        if has_log and _header(self._path)[FORMAT_BYTES] == FORMAT_WITHOUT_LOG:
            raise StoreUnavailable(
                f"{self._wal_path} belongs to the database that {self._path.name} has replaced; "
                "move it away and open again, nothing was written"
            )

    def settle(self) -> None:
        """Sync the folder, which holds the names, and remember which files they are."""
        self._wal = os.open(self._wal_path, os.O_RDWR | os.O_CLOEXEC)
        sync_path(self._path.parent)
        self._files = {path: _identity(path) for path in (self._path, self._wal_path)}

    def sync_wal(self) -> None:
        """Sync the log, and see that database and log are still the files at their paths.

        A deleted file can be written and synced without any error.
        """
        assert self._wal is not None
        sync_data(self._wal)
        for path, identity in self._files.items():
            try:
                found = _identity(path)
            except FileNotFoundError:
                raise StoreUnavailable(f"{path} was removed while it was open") from None
            if found != identity:
                raise StoreUnavailable(f"{path} was replaced by another file while it was open")

    def copy(self, connection: apsw.Connection, version: int) -> None:
        """Copy the database to `<name>.v<version>.backup`, whole or not at all."""
        target = self._path.with_name(f"{self._path.name}.v{version}.backup")
        unfinished = target.with_name(target.name + ".unfinished")
        unfinished.unlink(missing_ok=True)
        create(unfinished)
        with contextlib.closing(apsw.Connection(str(unfinished))) as copy:
            with copy.backup("main", connection, "main") as backup:
                backup.step()
            # Said in the header, which the copy has just taken over: this one has no log.
            copy.pragma("journal_mode", "delete")
        sync_path(unfinished)
        unfinished.replace(target)
        sync_path(target.parent)

    def release(self) -> None:
        """Close the log and let go of the lock."""
        if self._lock is not None and self._holder == os.getpid():
            # A forked child shares the lock: our closing alone would leave it with the child.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        for descriptor in (self._wal, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._wal = self._lock = self._holder = None


def create(path: Path) -> None:
    """Make an empty file for this user alone; one that is there is not even opened.

    Closing any descriptor of a database would end the locks SQLite has on it in this process.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _header(path: Path) -> bytes:
    """Read a database's header through SQLite, which keeps its locks when it closes the file."""
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    file = apsw.VFSFile("", str(path), [flags, 0])
    try:
        return file.xRead(HEADER_BYTES, 0)
    finally:
        file.xClose()


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def sync_path(path: Path) -> None:
    """Return when a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if sys.platform == "darwin":
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_data(descriptor: int) -> None:
    """Return when what was written to a file is on the disk."""
    if sys.platform == "darwin":
        # There fsync hands the data to the drive, which may keep it in its cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)
