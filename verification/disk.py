"""A disk in memory under SQLite that fails where it is told to, and loses its power.

Law 1: what was not synced is not on the disk. A power cut takes all of it, or the end of it, or
       any part of it, down to half a page.
Law 2: an operation that fails changes nothing, but a sync that fails forgets what it should have
       written: it is still read, and no later sync will write it. That is what Linux does.
Law 3: everything SQLite does to the disk is counted, so that a test can name any single operation.

`MemoryDisk` is a `Disk` for `open_sqlite`. It holds no locks: one connection uses it at a time,
and says so to SQLite (`locking_mode=exclusive`), since Python cannot give SQLite shared memory.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple, Protocol, Self, cast

import apsw

from duly.store.disk import LOG_HEAD_BYTES, STATEMENT_CACHE_MAX, Mark, unmarked

NAME = "memory.db"
SECTOR_BYTES = 512
KEEP_IN_ORDER = 0.8
KEEP_ANY = 0.5
TEAR = 0.15

_numbers = itertools.count()


class Chance(Protocol):
    """Dice: a simulation's own, or Python's."""

    def random(self) -> float:
        """Return a number from 0 to below 1."""

    def randrange(self, stop: int, /) -> int:
        """Return a whole number from 0 to below `stop`."""


class Operation(StrEnum):
    """What is done to a disk, as far as it can fail."""

    WRITE = "write"
    SYNC = "sync"
    TRUNCATE = "truncate"


class Kind(StrEnum):
    """What a disk answers instead of doing it."""

    FULL = "full"
    IOERR = "ioerr"
    READONLY = "readonly"


class Loss(StrEnum):
    """What a power cut takes of the writes that were not synced."""

    ALL = "all"
    TAIL = "tail"
    SUBSET = "subset"


_ERRORS: Mapping[tuple[Operation, Kind], tuple[type[apsw.Error], int]] = {
    (Operation.WRITE, Kind.FULL): (apsw.FullError, apsw.SQLITE_FULL),
    (Operation.WRITE, Kind.IOERR): (apsw.IOError, apsw.SQLITE_IOERR_WRITE),
    (Operation.WRITE, Kind.READONLY): (apsw.ReadOnlyError, apsw.SQLITE_READONLY),
    # SQLite's own VFS calls every failure of a sync IOERR_FSYNC.
    (Operation.SYNC, Kind.FULL): (apsw.IOError, apsw.SQLITE_IOERR_FSYNC),
    (Operation.SYNC, Kind.IOERR): (apsw.IOError, apsw.SQLITE_IOERR_FSYNC),
    (Operation.SYNC, Kind.READONLY): (apsw.IOError, apsw.SQLITE_IOERR_FSYNC),
    (Operation.TRUNCATE, Kind.FULL): (apsw.FullError, apsw.SQLITE_FULL),
    (Operation.TRUNCATE, Kind.IOERR): (apsw.IOError, apsw.SQLITE_IOERR_TRUNCATE),
    (Operation.TRUNCATE, Kind.READONLY): (apsw.ReadOnlyError, apsw.SQLITE_READONLY),
}


class Change(NamedTuple):
    """One write that is not synced; a truncation is a write of nothing that ends the file."""

    offset: int
    data: bytes
    is_truncation: bool = False

    def apply(self, content: bytearray) -> None:
        """Make the change to a content."""
        offset, data, is_truncation = self
        if is_truncation:
            del content[offset:]
            return
        if offset > len(content):
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data

    def torn(self, chance: Chance) -> Change:
        """Return this write with only its first sectors."""
        sectors = chance.randrange(len(self.data) // SECTOR_BYTES + 1)
        return Change(self.offset, self.data[: sectors * SECTOR_BYTES], self.is_truncation)


@dataclass(slots=True)
class MemoryFile:
    """What a program sees of a file, what is on the disk, and the changes between the two."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    has_forgotten: bool = False  # some of what is read will never be written

    _seen: bytes = b""  # the names of the two contents, empty once they have changed
    _kept: bytes = b""

    def change(self, change: Change) -> None:
        """Take a write, which is seen at once and durable only after a sync."""
        change.apply(self.content)
        self.pending.append(change)
        self._seen = b""

    def digests(self) -> tuple[bytes, bytes]:
        """Name what is seen, and what is durable or could be; the same as long as it is."""
        self._seen = self._seen or sha256(self.content).digest()
        self._kept = self._kept or sha256(self.durable).digest()
        could_be = sha256(self._kept)
        for change in self.pending:
            could_be.update(f"{change.offset}+{len(change.data)} {change.is_truncation} ".encode())
            could_be.update(change.data)
        return self._seen, could_be.digest()

    def sync(self) -> None:
        """Make every write durable."""
        for change in self.pending:
            change.apply(self.durable)
        if self.pending:
            self._kept = b""
        self.pending.clear()

    def copy(self) -> MemoryFile:
        """Return the same file, as another process finds it."""
        found = MemoryFile(bytearray(self.content), bytearray(self.durable), list(self.pending))
        found.has_forgotten = self.has_forgotten
        found._seen, found._kept = self._seen, self._kept
        return found

    def forget(self) -> None:
        """Lose what a failed sync should have written."""
        self.has_forgotten |= bool(self.pending)
        self.pending.clear()

    def after_power_cut(self, loss: Loss, chance: Chance) -> bytes:
        """Return what is left when the power fails."""
        content = bytearray(self.durable)
        for change in self.pending:
            if loss is Loss.ALL or (loss is Loss.TAIL and chance.random() > KEEP_IN_ORDER):
                break
            if loss is Loss.SUBSET and chance.random() > KEEP_ANY:
                continue
            is_torn = loss is Loss.SUBSET and chance.random() < TEAR
            (change.torn(chance) if is_torn else change).apply(content)
        return bytes(content)


@dataclass(slots=True)
class Fault:
    """The coming failure: the operation fails when `wait` more of its kind were done."""

    operation: Operation
    wait: int
    kind: Kind
    lasting: bool
    file: str | None


class MemoryDisk:
    """One database on a disk in memory."""

    path = NAME

    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        *,
        on_operation: Callable[[], None] = lambda: None,
        synchronous: str | None = None,
    ) -> None:
        self.files = {
            name: MemoryFile(bytearray(content), bytearray(content))
            for name, content in (files or {}).items()
        }
        self.counts: Counter[Operation] = Counter()
        self.on_operation = on_operation
        self.faults_met = 0
        self._removed: dict[str, MemoryFile] = {}
        self._fault: Fault | None = None
        self._synchronous = synchronous
        self._vfs: MemoryVfs | None = None
        self._connection: apsw.Connection | None = None

    # What a test does to the disk.

    def fail(
        self,
        operation: Operation,
        wait: int,
        kind: Kind,
        *,
        lasting: bool,
        file: str | None = None,
    ) -> None:
        """Let the operation after the next `wait` of its kind fail, on any file or on one."""
        self._fault = Fault(operation, wait, kind, lasting, file)

    def heal(self) -> None:
        """Let the disk work again."""
        self._fault = None

    def cut_power(self, loss: Loss, chance: Chance) -> dict[str, bytes]:
        """Return what would be on the disk if the power failed now; the disk itself goes on."""
        survivors = {name: file.after_power_cut(loss, chance) for name, file in self.files.items()}
        for name, file in self._removed.items():
            # The removal of a name is not synced either.
            if name not in survivors and (loss is Loss.ALL or chance.random() > KEEP_ANY):
                survivors[name] = file.after_power_cut(loss, chance)
        return survivors

    def next_process(self) -> Self:
        """Return the same disk as the next process finds it when this one was killed."""
        disk = type(self)()
        disk.files = {name: file.copy() for name, file in self.files.items()}
        return disk

    def drop(self) -> None:
        """Let go of the connection as a killed process would: without writing anything."""
        self.heal()
        self.on_operation = lambda: None
        if self._connection is not None:
            with contextlib.suppress(apsw.ConnectionClosedError):
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._connection.close()
        self.release()

    # SQLite's way to it.

    @property
    def vfs(self) -> MemoryVfs:
        """SQLite's way to this disk, made when it is needed."""
        if self._vfs is None:
            self._vfs = MemoryVfs(self, f"memory{next(_numbers)}")
        return self._vfs

    def take_vfs(self, vfs: MemoryVfs) -> None:
        """Let a way that led to another disk lead to this one."""
        assert self._vfs is None, "a disk has one way to it"
        vfs.disk, self._vfs = self, vfs
        for handle in vfs.handles:
            handle.lead_to(self)

    def leave_vfs(self) -> None:
        """Let go of the way to this disk: it may lead to another one."""
        self._connection = None
        self._vfs = None

    # What `open_sqlite` asks of a disk.

    def take(self) -> None:
        """Lock nothing: no other program knows this disk."""

    def connect(self) -> apsw.Connection:
        """Open the database."""
        self._connection = apsw.Connection(
            NAME, vfs=self.vfs.name, statementcachesize=STATEMENT_CACHE_MAX
        )
        self._connection.pragma("locking_mode", "exclusive")
        return self._connection

    @property
    def has_readers(self) -> bool:
        """Tell that one connection uses this disk."""
        return False

    def connect_reader(self) -> apsw.Connection:
        """Refuse: one connection uses this disk."""
        raise NotImplementedError

    def connect_main(self) -> apsw.Connection | None:
        """Open the main file alone for reading."""
        if NAME not in self.files or not self.files[NAME].content:
            return None
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(f"file:{NAME}?immutable=1", flags=flags, vfs=self.vfs.name)

    def log_head(self) -> bytes:
        """Read the first bytes of the log."""
        log = self.files.get(f"{NAME}-wal")
        return b"" if log is None else bytes(log.content[:LOG_HEAD_BYTES])

    def settle(self) -> None:
        """Make the names of the files durable."""
        assert self._connection is not None
        self._removed.clear()
        if self._synchronous is not None:
            self._connection.pragma("synchronous", self._synchronous)

    def sync_wal(self) -> None:
        """Sync the log."""
        self.sync(f"{NAME}-wal")

    def copy(self, connection: apsw.Connection, version: int, mark: Mark = unmarked) -> None:
        """Keep the database as it is."""
        copy = apsw.Connection(":memory:")
        with copy.backup("main", connection, "main") as backup:
            backup.step()
        mark(copy)
        kept = MemoryFile(bytearray(copy.serialize("main")))
        self.files[f"{NAME}.v{version}.backup"] = kept
        copy.close()

    def release(self) -> None:
        """Let SQLite forget this disk, and let go of what it would keep for ever.

        Python cannot see that a VFS and its disk only hold each other, and would free neither.
        """
        if self._vfs is not None:
            self._vfs.unregister()
            self._vfs.disk = None
        self.leave_vfs()

    # What SQLite does to the disk.

    def open(self, name: str) -> MemoryFile:
        """Open a file, making an empty one if there is none."""
        if name not in self.files:
            self.files[name] = MemoryFile()
            self._removed.pop(name, None)
        return self.files[name]

    def write(self, name: str, data: bytes, offset: int) -> None:
        """Write into a file."""
        self._step(Operation.WRITE, name)
        self.files[name].change(Change(offset, data))

    def truncate(self, name: str, size_bytes: int) -> None:
        """Cut a file."""
        self._step(Operation.TRUNCATE, name)
        self.files[name].change(Change(size_bytes, b"", is_truncation=True))

    def sync(self, name: str) -> None:
        """Make what was written to a file durable."""
        try:
            self._step(Operation.SYNC, name)
        except apsw.Error:
            self.files[name].forget()
            raise
        self.files[name].sync()

    def remove(self, name: str) -> None:
        """Remove a file; until the names are synced that may be undone."""
        self.on_operation()
        if name in self.files:
            self._removed[name] = self.files.pop(name)

    def _step(self, operation: Operation, name: str) -> None:
        self.on_operation()
        self.counts[operation] += 1
        fault = self._fault
        if fault is None or fault.operation is not operation or fault.file not in (None, name):
            return
        if fault.wait > 0:
            fault.wait -= 1
            return
        if not fault.lasting:
            self._fault = None
        self.faults_met += 1
        error_class, code = _ERRORS[operation, fault.kind]
        error = error_class(f"planted: {operation} answers {fault.kind}")
        error.extendedresult = code  # type: ignore[attr-defined]  # apsw sets and reads it
        raise error


class MemoryVfs(apsw.VFS):
    """SQLite's way to a `MemoryDisk`; clock and chance come from the system's own."""

    def __init__(self, disk: MemoryDisk, name: str) -> None:
        self.disk: MemoryDisk | None = disk
        self.name = name
        self.handles: list[_Handle] = []  # that are open
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        """Open a file."""
        plain = name.filename() if isinstance(name, apsw.URIFilename) else name
        assert plain is not None, "a temporary file would escape the test"
        assert self.disk is not None, "the disk was released"
        self.handles.append(_Handle(self.disk, plain, self.handles.remove))
        return cast(apsw.VFSFile, self.handles[-1])

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        """Tell whether a file is there."""
        return self.disk is not None and pathname in self.disk.files

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        """Remove a file."""
        if self.disk is not None:
            self.disk.remove(filename)

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        """Return the name: there are no folders."""
        return name


class _Handle:
    """One open file of a `MemoryDisk`."""

    def __init__(self, disk: MemoryDisk, name: str, on_close: Callable[[_Handle], None]) -> None:
        self._name = name
        self._on_close = on_close
        self.lead_to(disk)

    def lead_to(self, disk: MemoryDisk) -> None:
        """Be a handle of the file of that name on this disk."""
        self._disk = disk
        self._file = disk.open(self._name)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        return bytes(self._file.content[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.write(self._name, bytes(data), offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.truncate(self._name, newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.sync(self._name)

    def xFileSize(self) -> int:  # noqa: N802
        return len(self._file.content)

    def xLock(self, level: int) -> None:  # noqa: N802
        pass

    def xUnlock(self, level: int) -> None:  # noqa: N802
        pass

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        # As SQLite's own VFS says: a torn write spoils no byte outside of what it wrote.
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xClose(self) -> None:  # noqa: N802
        self._on_close(self)
