"""Whether the last host closed the database, and whether the log it left is still there (H1).

Law 1: while a host has the database open, the main file itself says so, and names its log. It says
       it before the first transaction of the host and until everything is in the main file again.
Law 2: so a database that was open has a log. If it has none, the log was lost on the way (a
       container that mounts the file alone, a plain `cp`), and with it what was done last: the
       database starts like a restored copy (H5).
Law 3: a log that another program has moved into the main file was not lost. A row *ahead* lies in
       the log and never in what our own checkpoints move, so a main file that has it has all.
Law 4: a log that is not the one the database names is another's. SQLite would write its pages over
       the database, so the store is not opened before a person has moved it away.

SQLite counts in the header of a log how often it was begun anew, and adds one to a random number
each time. The difference of the two stays the same for as long as the file does: it names the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

import apsw

from duly.errors import StoreUnavailable
from duly.store.disk import LOG_HEAD_BYTES, Disk
from duly.store.upkeep import COPIED, LOST, UNSEALED

OPEN: Final = "open"
LOG: Final = "log"
AHEAD: Final = "ahead"
MARKS: Final = (OPEN, LOG, AHEAD)

_BEGUN: Final = slice(12, 16)
_SALT: Final = slice(16, 20)
_WORD: Final = 2**32


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """How the last host left the database: since when it was open, and which log it named."""

    open_at: int | None = None
    log: int | None = None
    found: int | None = None
    ahead: int | None = None

    @property
    def is_log_lost(self) -> bool:
        """Tell whether the database was open, and its log is neither here nor moved into it."""
        return self.open_at is not None and self.found is None and self.ahead is None


def look(disk: Disk, statements: Mapping[str, str]) -> LeftOpen:
    """Read what the main file says, before SQLite has looked at its log; refuse another's log."""
    found = name_log(disk.log_head())
    main = disk.connect_main()
    if main is None or "get_upkeep" not in statements:
        return LeftOpen(found=found)
    with closing(main):
        try:
            open_at, log, ahead = (_get(main, statements, mark) for mark in MARKS)
        except apsw.Error:
            return LeftOpen(found=found)  # no database of ours, or damaged: the opening will say so
    if open_at is not None and log is not None and found is not None and log != found:
        raise StoreUnavailable(code="log_of_another", subject=f"{disk.path}-wal")
    return LeftOpen(open_at, log, found, ahead)


def note_gone(
    connection: apsw.Connection, statements: Mapping[str, str], left: LeftOpen, now: int
) -> None:
    """Note in the main file itself that its log is gone, before another log is begun.

    Otherwise an opening that is cut short leaves a log which the main file does not name. A loss
    that was noted before and not yet acted on is the older one, and stays.
    """
    if left.open_at is None or left.found is not None:
        return
    connection.pragma("journal_mode", "delete")  # there is no log to be written back
    with _all_or_nothing(connection):
        if left.is_log_lost and _get(connection, statements, LOST) is None:
            ((newest,),) = connection.execute(statements["newest_moment"]).fetchall()
            _put(connection, statements, LOST, since_when(left.open_at, newest, now))
        for mark in MARKS:
            _drop(connection, statements, mark)


def since_when(open_at: int, newest: object, now: int) -> int:
    """Return the last moment the main file surely shows: one too late makes a key look young (L6).

    A time that is still to come was written by a wrong clock and says nothing.
    """
    if isinstance(newest, int) and open_at <= newest <= now:
        return newest
    return min(open_at, now)


def put_open(
    connection: apsw.Connection, disk: Disk, statements: Mapping[str, str], now: int
) -> None:
    """Say that the database is open and which log it has.

    Until the next checkpoint all of this is in the log alone: a host that has that log has it all.
    """
    if "put_upkeep" not in statements:
        return
    with _unsynced(connection):
        _put(connection, statements, OPEN, now)
        _drop(connection, statements, AHEAD)
        # The log has its header from this commit on, if it had none.
        name = name_log(disk.log_head())
        assert name is not None, "a commit was written, and there is no log"
        _put(connection, statements, LOG, name)


def clear(connection: apsw.Connection, statements: Mapping[str, str]) -> None:
    """Say that the database is closed: what follows is the checkpoint that closing makes."""
    if "drop_upkeep" in statements:
        with _unsynced(connection):
            for mark in MARKS:
                _drop(connection, statements, mark)


def has_unsealed(connection: apsw.Connection, statements: Mapping[str, str]) -> bool:
    """Tell whether rows of an older schema are still to be sealed (L15)."""
    return "get_upkeep" in statements and _get(connection, statements, UNSEALED) is not None


def say_ahead(connection: apsw.Connection, statements: Mapping[str, str]) -> None:
    """Say in the log, after a checkpoint, that the log is ahead of the main file (law 3)."""
    if "put_upkeep" in statements:
        _put(connection, statements, AHEAD, 1)


def say_level(connection: apsw.Connection, statements: Mapping[str, str]) -> None:
    """Take that back before a checkpoint of our own, which would move it into the main file."""
    if "drop_upkeep" in statements:
        _drop(connection, statements, AHEAD)


def mark_copy(copy: apsw.Connection, statements: Mapping[str, str], at: int) -> None:
    """Say in a copy that it is one, and of when; it has no log, and no host has it open (H5)."""
    if "put_upkeep" in statements:
        clear(copy, statements)
        _put(copy, statements, COPIED, at)


def name_log(head: bytes) -> int | None:
    """Return the number that names a log; none if there is no log, or nothing in it."""
    if len(head) < LOG_HEAD_BYTES:
        return None
    return (int.from_bytes(head[_SALT]) - int.from_bytes(head[_BEGUN])) % _WORD


@contextmanager
def _all_or_nothing(connection: apsw.Connection) -> Iterator[None]:
    connection.execute("begin immediate")
    try:
        yield
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


@contextmanager
def _unsynced(connection: apsw.Connection) -> Iterator[None]:
    """Commit without a sync of the log's header: the checkpoint that follows syncs all of it."""
    before = connection.pragma("synchronous")
    connection.pragma("synchronous", "off")
    try:
        yield
    finally:
        connection.pragma("synchronous", before)


def _get(connection: apsw.Connection, statements: Mapping[str, str], name: str) -> int | None:
    for (at,) in connection.execute(statements["get_upkeep"], {"name": name}):
        assert isinstance(at, int)
        return at
    return None


def _drop(connection: apsw.Connection, statements: Mapping[str, str], name: str) -> None:
    connection.execute(statements["drop_upkeep"], {"name": name})


def _put(connection: apsw.Connection, statements: Mapping[str, str], name: str, at: int) -> None:
    connection.execute(statements["put_upkeep"], {"name": name, "at": at})
