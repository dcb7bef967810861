"""SQLite for the `sql` connector: a file that belongs to the user, not to the host.

Law 1: one exclusive transaction looks for the key, makes the change and records it.
Law 2: until the commit nothing has happened, so every error before it is definite (L4). The table
       of records is made and committed before, where a call is the first of its key.
Law 3: what a statement may do is said to SQLite itself: a read only reads, a change makes and drops
       no tables, opens no other file, ends no transaction, and never touches the record (K5).
Law 4: "it happened" is said only of what is on the disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Final

import apsw

from duly.connectors.folder import Folder
from duly.connectors.reach import left_s
from duly.connectors.set_up import SetUpFault
from duly.connectors.sql_base import (
    FIRST_KEY,
    KEEPS_NOTHING,
    STATEMENTS,
    TRIAL_KEY,
    TRIAL_MS,
    TRIAL_RESULT,
    Bound,
    FoundRows,
    ReadLimits,
    SqlChange,
    SqlTrial,
    began_key,
    cannot_make,
    check_columns,
    does_not_fit,
    lost,
    not_set_up,
    record_lost,
    take_returned,
    take_rows,
    write_result,
)
from duly.connectors.sql_text import OWN, SqlText
from duly.connectors.table_sql import (
    PERMISSION,
    SCRIPTS_FAULT,
    commit,
    definite,
    open_database,
    sync_database,
)
from duly.env import machine_ms
from duly.errors import ConnectorError, NotSent

PLAN_S: Final = 5.0
STEPS_BETWEEN: Final = 10_000  # instructions of SQLite after which the time is looked at
READING: Final = frozenset(
    {apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE}
)
CHANGING: Final = READING | {apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE}


class SqliteDatabase:
    """One file."""

    def __init__(self, folder: Folder, file: str) -> None:
        self._folder = folder
        self._file = file

    def read(self, text: SqlText, values: Mapping[str, Bound], limits: ReadLimits) -> FoundRows:
        """Run a statement that cannot change anything."""
        with definite(self._file), closing(self._open()) as database:
            database.execute("pragma query_only = on")
            database.execute("begin")
            with _only(database, READING, limits.timeout_s):
                cursor = database.execute(text.named, values)
                names = _columns(cursor)
                return take_rows(names, cursor, limits.rows)

    def change(self, change: SqlChange) -> str:
        """Make a change once, and return its result as JSON text."""
        with definite(self._file):
            database = self._open()
        with closing(database):
            with definite(self._file):
                if not change.is_again:
                    self._begin_record(database, change)
                database.execute("begin immediate")
                result = self._change(database, change)
                if left_s() <= 0:
                    raise NotSent(f"{self._file}: the time of the call was over.")
            commit(database, self._file)
            sync_database(self._folder, self._file)
        return result

    def find(self, key: str, sent_ms: int) -> str | bool | None:
        """Return the result of a call that was made, False if it was not, None if it is lost."""
        with definite(self._file), closing(self._open()) as database:
            database.execute("begin immediate")  # a writer that still runs is waited for
            with self._own():
                found = _find(database, key)
                is_lost = not found and _is_lost(database, key, sent_ms)
            database.execute("rollback")
        sync_database(self._folder, self._file)
        if found is not None:
            return str(found[0])
        return None if is_lost else False

    def check(self, trials: Sequence[SqlTrial]) -> tuple[SetUpFault, ...]:
        """Try what the set-up needs, and take all of it back; return what does not work."""
        faults: list[SetUpFault] = []
        try:
            with definite(self._file), closing(self._open()) as database:
                for each in trials:
                    faults += self._plan(database, each)
                if not all(each.is_read for each in trials):
                    database.execute("begin immediate")
                    self._try_record(database)
                    database.execute("rollback")
        except ConnectorError as error:
            faults.insert(0, SetUpFault("", str(error)))
        return tuple(faults)

    def cut(self) -> None:
        """Do nothing: SQLite looks at the time itself."""

    def _plan(self, database: apsw.Connection, trial: SqlTrial) -> Iterator[SetUpFault]:
        """Let SQLite read a statement and plan it; it is not run."""
        try:
            with (
                definite(self._file),
                _only(database, READING if trial.is_read else CHANGING, PLAN_S),
            ):
                database.execute(f"explain {trial.text.named}", trial.values).fetchall()
        except ConnectorError as error:
            yield SetUpFault(trial.name, str(error))

    def _try_record(self, database: apsw.Connection) -> None:
        """Record a key twice, as two senders of a call would; the caller takes it back."""
        with self._own():
            if not _has_calls(database):
                database.execute(STATEMENTS["create_calls"])
            for is_there in (False, True):
                _insert(database, TRIAL_KEY, "", TRIAL_MS)
                values = {"key": TRIAL_KEY, "result": f"{TRIAL_RESULT} {is_there}"}
                database.execute(STATEMENTS["keep_result"], values)
            if _find(database, TRIAL_KEY) != (f"{TRIAL_RESULT} True", TRIAL_MS):
                raise not_set_up(self._file, does_not_fit(KEEPS_NOTHING))

    def _begin_record(self, database: apsw.Connection, change: SqlChange) -> None:
        """Make the table of records, and say since when it is kept, before any change.

        What this first send leaves behind says that it came to this table.
        """
        with self._own():
            if not _may_be_new(database, change.sent_ms):
                return
            database.execute("begin immediate")
            if _find(database, FIRST_KEY) is None:
                if not _has_calls(database):
                    database.execute(STATEMENTS["create_calls"])
                (now_ms,) = database.execute(STATEMENTS["now_ms"]).fetchone() or (0,)
                _insert(database, FIRST_KEY, "", int(now_ms))
            _insert(database, began_key(change.key), change.tool, change.sent_ms)
            database.execute("commit")

    @contextmanager
    def _own(self) -> Iterator[None]:
        """Wrap what is done to the table of records: a table that is none of ours is refused."""
        try:
            yield
        except PERMISSION as error:
            raise not_set_up(self._file, cannot_make(error)) from error
        except SCRIPTS_FAULT as error:
            raise not_set_up(self._file, does_not_fit(error)) from error

    def _change(self, database: apsw.Connection, change: SqlChange) -> str:
        key = change.key
        with self._own():
            if (found := _find(database, key)) is not None:
                return str(found[0])
            # Without a first row another program has taken it away since the record was begun.
            is_gone = _find(database, FIRST_KEY) is None
            if is_gone or (change.is_again and _is_lost(database, key, change.sent_ms)):
                raise record_lost(self._file)
            # A trigger of a table made by hand may keep a row out, without an error.
            if not _insert(database, key, change.tool, change.sent_ms):
                raise not_set_up(self._file, does_not_fit(KEEPS_NOTHING))
        before = database.total_changes()
        with _only(database, CHANGING, change.timeout_s):
            cursor = database.execute(change.text.named, change.values)
            names = _columns(cursor)
            rows = take_returned(names, cursor)
        count = database.changes() if database.total_changes() != before else 0
        result = write_result(rows, count, change.expect)
        with self._own():
            database.execute(STATEMENTS["keep_result"], {"key": key, "result": result})
            if _find(database, key) != (result, change.sent_ms):
                raise not_set_up(self._file, does_not_fit(KEEPS_NOTHING))
        return result

    def _open(self) -> apsw.Connection:
        folder = self._folder
        # An empty folder may be the place of a disk that is not mounted: that heals by itself.
        if not (folder.path / self._file).exists() and not folder.is_bare():
            raise not_set_up(
                self._file,
                f"there is no such file in {folder.path}. Make the database there, or correct url",
            )
        return open_database(folder, self._file)


@contextmanager
def _only(database: apsw.Connection, allowed: frozenset[int], timeout_s: float) -> Iterator[None]:
    """Let one statement do only what its kind may do, for so long (law 3)."""
    until_ms = machine_ms() + round(min(timeout_s, left_s()) * 1000)

    def judge(
        operation: int, what: str | None, more: str | None, place: str | None, trigger: str | None
    ) -> int:
        is_own = what is not None and what.lower() == OWN
        return apsw.SQLITE_OK if operation in allowed and not is_own else apsw.SQLITE_DENY

    database.authorizer = judge
    database.set_progress_handler(lambda: machine_ms() > until_ms, STEPS_BETWEEN)
    try:
        yield
    finally:
        database.authorizer = None
        database.set_progress_handler(None)


def _has_calls(database: apsw.Connection) -> bool:
    (count,) = database.execute(STATEMENTS["has_calls"]).fetchone() or (0,)
    return bool(count)


def _find(database: apsw.Connection, key: str) -> tuple[object, ...] | None:
    if not _has_calls(database):
        return None
    return database.execute(STATEMENTS["find_call"], {"key": key}).fetchone()


def _is_lost(database: apsw.Connection, key: str, sent_ms: int) -> bool:
    """Tell whether a record that is missing may have stood in a table before this one (law 2)."""
    return _may_be_new(database, sent_ms) and _find(database, began_key(key)) is None


def _may_be_new(database: apsw.Connection, sent_ms: int) -> bool:
    """Tell whether the table may have been made after a call was sent."""
    return lost(_find(database, FIRST_KEY), sent_ms, has_own_clock=False)


def _insert(database: apsw.Connection, key: str, tool: str, sent_ms: int) -> bool:
    """Record a key; tell whether it is there now and was not before."""
    values = {"key": key, "tool": tool, "sent_ms": sent_ms}
    database.execute(STATEMENTS["insert_call"], values).fetchall()
    return _find(database, key) is not None


def _columns(cursor: apsw.Cursor) -> list[str]:
    """Return the names of what a statement returns; a statement that has ended returns nothing."""
    try:
        names = [str(name) for name, _ in cursor.get_description()]
    except apsw.ExecutionCompleteError:
        return []
    check_columns(names)
    return names
