"""Connections that outlast the life of a host, with every statement they have compiled.

To read the schema and to compile the statements again was a third of what a life cost, and both are
the same in all of them.

Law 1  A connection is lent to one disk at a time. When it comes back it lets go of its log, its
       pages and its lock: it finds on the next disk what a new connection would find there.
Law 2  A cursor of an earlier life is closed: what a dead host still does reaches no other disk.
Law 3  In doubt a connection is closed and not lent again: after an operation that failed, within a
       transaction, or when SQLite does not let go.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import apsw

from verification.disk import NAME, MemoryDisk, MemoryVfs

IDLE_MAX: Final = 4
# apsw throws a statement away when so many others were run since: more than most scenarios run.
CACHED_MAX: Final = 2048
# To set one of these makes SQLite compile every statement again, also if it is set to what it was.
FLAGS: Final = frozenset({"foreign_keys", "checkpoint_fullfsync", "trusted_schema"})


class LentConnection(apsw.Connection):
    """A connection that knows its cursors and which flags are set."""

    def __init__(self, vfs: MemoryVfs) -> None:
        super().__init__(NAME, vfs=vfs.name, statementcachesize=CACHED_MAX)
        self.on_vfs = vfs
        self._cursors: list[apsw.Cursor] = []
        self._flags: dict[str, Any] = {}

    def cursor(self) -> apsw.Cursor:
        """Give a cursor for as long as the connection is lent."""
        self._cursors.append(super().cursor())
        return self._cursors[-1]

    def pragma(self, name: str, value: Any = None, *, schema: str | None = None) -> Any:
        """Ask or set; a flag that is set like that already is left alone."""
        if value is None:
            return super().pragma(name, schema=schema)
        if name in FLAGS:
            if self._flags.get(name) == value:
                return None
            self._flags[name] = value
        return super().pragma(name, value, schema=schema)

    def is_let_go(self) -> bool:
        """Let go of the disk; tell whether that went well."""
        for cursor in self._cursors:
            cursor.close(True)
        self._cursors.clear()
        try:
            if self.in_transaction or self.pragma("journal_mode", "delete") != "delete":
                return False
            self.set_update_hook(None)
            self.set_rollback_hook(None)
            self.pragma("locking_mode", "normal")
            self.pragma("user_version")  # a read gives the lock back
            return self.file_control("main", apsw.SQLITE_FCNTL_RESET_CACHE, 0)
        except apsw.Error:
            return False


# By the size of a page and the number of the schema, which SQLite takes for proof that nothing has
# to be compiled again.
_idle: dict[bytes, list[LentConnection]] = defaultdict(list)
PAGE_SIZE: Final = slice(16, 18)
SCHEMA_NUMBER: Final = slice(40, 44)


class LendingDisk(MemoryDisk):
    """A disk in memory whose connection is lent to the next one."""

    def connect(self) -> apsw.Connection:
        """Open the database, on a connection that knows its statements if there is one."""
        idle = _idle[self._kind()]
        lent = idle.pop() if idle else LentConnection(self.vfs)
        if lent.on_vfs is not self._vfs:
            self.take_vfs(lent.on_vfs)
        self._connection = lent
        lent.pragma("locking_mode", "exclusive")
        return lent

    def _kind(self) -> bytes:
        """Name what a connection must have seen before to be lent to this disk."""
        head = bytes(self.files[NAME].content[: SCHEMA_NUMBER.stop]) if NAME in self.files else b""
        return head[PAGE_SIZE] + head[SCHEMA_NUMBER]

    def drop(self) -> None:
        """Let go of the connection as a killed process would, and lend it again."""
        self.heal()
        self.on_operation = lambda: None
        lent = self._connection
        if isinstance(lent, LentConnection) and not self.faults_met and lent.is_let_go():
            idle = _idle[self._kind()]
            if len(idle) < IDLE_MAX:
                self.leave_vfs()
                idle.append(lent)
        super().drop()
