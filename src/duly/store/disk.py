"""Where a SQLite database lies: its file, its log, and the lock beside them.

Law 1: the lock dies with the process that holds it (H1). A forked child has neither this lock nor
       SQLite's own, and cannot open the store either: what SQLite knows there of the file is the
       parent's (fork).
Law 2: a log that belongs to another database is left alone, and so is the database beside it.
Law 3: a sync is true only if database and log are still the files at their paths.

What the writer needs from a disk is a `Disk`, so that a test can bring one in memory that fails,
or loses its power, wherever the test says.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias
from urllib.parse import quote

import apsw

from duly import fork
from duly.errors import StoreForked, StoreInUse, StoreUnavailable, see

STATEMENT_CACHE_MAX = 512
# Where the header says how the file is written and read, and how a file without a log says it.
HEADER_BYTES = 100
LOG_HEAD_BYTES = 32
LOG_FRAME_BYTES = 24  # before each page of a log
LOG_PAGE_SIZE = slice(8, 12)  # where the head of a log says how large its pages are
BLANK_BYTES = 1024 * 1024
FORMAT_BYTES = slice(18, 20)
FORMAT_WITHOUT_LOG = b"\x01\x01"
# One process has the file, with as many connections as it likes (decision 080).
VFS = "unix-excl"
# The files that hosts of this process have open, by device and number.
_CLAIMED: set[tuple[int, int]] = set()
_CLAIMING = threading.Lock()
# The stores that were open in the process this one was forked from.
_INHERITED: set[Path] = set()


Mark: TypeAlias = Callable[[apsw.Connection], None]


def unmarked(copy: apsw.Connection) -> None:
    """Say nothing in a copy."""


class Disk(Protocol):
    """Where the database lies."""

    @property
    def path(self) -> str:
        """What errors call the database."""

    def take(self) -> None:
        """Keep every other host away, or raise StoreInUse."""

    def connect(self) -> apsw.Connection:
        """Open the database, making an empty one if there is none."""

    @property
    def has_readers(self) -> bool:
        """Tell whether the database can be opened once more, to read beside the writer."""

    def connect_reader(self) -> apsw.Connection:
        """Open the database once more, to read beside the writer."""

    def connect_main(self) -> apsw.Connection | None:
        """Open the main file alone for reading, as if it had no log; none if there is none."""

    def log_head(self) -> bytes:
        """Read the first bytes of the log as it lies there; nothing if there is none."""

    def settle(self) -> None:
        """Make the names of the files durable; from now on `sync_wal` may be called."""

    def sync_wal(self) -> None:
        """Return when the log is on the disk; raise if that cannot be said."""

    def copy(self, connection: apsw.Connection, version: int, mark: Mark = unmarked) -> None:
        """Keep the database as it is, under a name that says its version; `mark` the copy."""

    def release(self) -> None:
        """Let other hosts in."""


class FileDisk:
    """The real disk: the database, its log, and the lock beside them."""

    def __init__(self, path: Path) -> None:
        # Two names of one file must meet at one lock.
        self._path = path.resolve()
        self._lock_path = self._path.with_name(self._path.name + ".lock")
        self._wal_path = self._path.with_name(self._path.name + "-wal")
        self._lock: int | None = None
        self._holds_lock = False
        self._wal: int | None = None
        self._connection: apsw.Connection | None = None
        self._claimed: tuple[int, int] | None = None
        self._files: dict[Path, tuple[int, int]] = {}

    @property
    def path(self) -> str:
        """The file's absolute path."""
        return str(self._path)

    @property
    def has_readers(self) -> bool:
        """Tell that several connections of this process can read the file."""
        return True

    def take(self) -> None:
        """Lock the file beside the database; it stays there for good, only the lock goes."""
        if self._path in _INHERITED:
            raise StoreForked(code="store_forked", subject=str(self._path))
        make_folder(self._path.parent)
        try:
            with fork.HELD:
                fork.own(self)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._lock = os.open(self._lock_path, flags, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            assert self._lock is not None
            holder = os.read(self._lock, 32).decode("ascii", "replace").strip()
            raise StoreInUse(
                code="store_in_use",
                subject=str(self._path),
                facts={"process": holder},
                next=see("workflows"),
            ) from None
        self._holds_lock = True
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode("ascii"), 0)

    def connect(self) -> apsw.Connection:
        """Open the database file."""
        # Only this user may read it (A5); SQLite gives its log the same mode.
        create(self._path)
        self._claim_file()
        connection = self._open()
        self._connection = connection  # kept here, so that a forked child does not free it
        try:
            self._refuse_the_log_of_another()
        except BaseException:
            shut(connection)
            raise
        return connection

    def connect_reader(self) -> apsw.Connection:
        """Open the database file once more; it writes nothing and moves no log."""
        connection = self._open()
        connection.pragma("query_only", True)
        connection.pragma("wal_autocheckpoint", 0)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.pragma("trusted_schema", False)
        return connection

    def _open(self) -> apsw.Connection:
        # With this VFS SQLite locks the file itself for this process, under every name the file
        # has (H1). It keeps the index of the log in memory, where all connections of the process
        # find it: a COMMIT cannot fail for want of room after its frames were written. A
        # connection opened read-only would take other locks, and end those of the writer.
        return apsw.Connection(str(self._path), vfs=VFS, statementcachesize=STATEMENT_CACHE_MAX)

    def _claim_file(self) -> None:
        """Refuse a file that this process has open by another name: SQLite would share it (H1)."""
        identity = _identity(self._path)
        with _CLAIMING:
            if identity in _CLAIMED:
                raise StoreInUse(code="open_here", subject=str(self._path))
            _CLAIMED.add(identity)
            self._claimed = identity

    def _refuse_the_log_of_another(self) -> None:
        """Refuse a restored copy beside the log of the database it replaced (H5).

        A copy says in its header that it has no log, a store that was ever opened says it has one.
        SQLite would write the log's newer pages over the older database.
        """
        has_log = self._wal_path.exists() and self._wal_path.stat().st_size > 0
        if has_log and _header(self._path)[FORMAT_BYTES] == FORMAT_WITHOUT_LOG:
            raise StoreUnavailable(code="log_of_another", subject=str(self._wal_path))

    def connect_main(self) -> apsw.Connection | None:
        """Open the main file for reading; SQLite takes no locks then, and opens no log."""
        if not self._path.stat().st_size:
            return None
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(f"file:{quote(str(self._path))}?immutable=1", flags=flags)

    def log_head(self) -> bytes:
        """Read the first bytes of the log, on which SQLite has no locks that closing would end."""
        with contextlib.suppress(FileNotFoundError), self._wal_path.open("rb") as log:
            return log.read(LOG_HEAD_BYTES)
        return b""

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
                raise StoreUnavailable(code="store_removed", subject=str(path)) from None
            if found != identity:
                raise StoreUnavailable(code="store_replaced", subject=str(path))

    def blank_log(self, pages: int) -> None:
        """Overwrite the log behind so many of its pages: SQLite reads nothing of it any more."""
        page_bytes = int.from_bytes(self.log_head()[LOG_PAGE_SIZE])
        handle = os.open(self._wal_path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            place = LOG_HEAD_BYTES + pages * (LOG_FRAME_BYTES + page_bytes)
            end = os.fstat(handle).st_size
            while place < end:
                place += os.pwrite(handle, bytes(min(BLANK_BYTES, end - place)), place)
            sync_data(handle)
        finally:
            os.close(handle)

    def copy(self, connection: apsw.Connection, version: int, mark: Mark = unmarked) -> None:
        """Copy the database to `<name>.v<version>.backup`, whole or not at all."""
        target = self._path.with_name(f"{self._path.name}.v{version}.backup")
        unfinished = target.with_name(target.name + ".unfinished")
        unfinished.unlink(missing_ok=True)
        try:
            create(unfinished)
            with contextlib.closing(apsw.Connection(str(unfinished))) as copy:
                with copy.backup("main", connection, "main") as backup:
                    backup.step()
                # Said in the header, which the copy has just taken over: this one has no log.
                copy.pragma("journal_mode", "delete")
                mark(copy)
            sync_path(unfinished)
            unfinished.replace(target)
        finally:
            # On a disk that is full it would take the room that the store itself needs.
            unfinished.unlink(missing_ok=True)
        sync_path(target.parent)

    def release(self) -> None:
        """Close the log and let go of the lock."""
        if self._lock is not None and self._holds_lock:
            # A child that C code forked may share the lock: closing alone would leave it there.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._close_descriptors()
        self._connection = None
        with _CLAIMING:
            _CLAIMED.discard(self._claimed or (0, 0))
            self._claimed = None

    def abandon(self) -> None:
        """Leave lock and files to the parent, in a forked child.

        The lock is shared by both until one of them lets go of it or both have closed it: closed
        here and never let go, it lasts exactly as long as the parent.
        """
        if self._lock is not None:
            _INHERITED.add(self._path)
            # apsw closes every connection that is open when its module is freed.
            fork.leak(apsw)
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        for descriptor in (self._wal, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._wal = self._lock = None
        self._holds_lock = False


def shut(connection: apsw.Connection) -> None:
    """Close a connection; the checkpoint SQLite makes then may fail, for the log has it all."""
    with contextlib.suppress(apsw.Error):
        connection.close()


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


def make_folder(folder: Path) -> None:
    """Make the folder of a database, and those above it, where they are missing (H1)."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            each.mkdir(0o700)
        sync_path(each.parent)


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
