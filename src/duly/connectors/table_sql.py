"""Rows in a SQLite database that belongs to the user, not to the host.

Law 1: one exclusive transaction looks for the key, inserts the row and notes its key, so that two
       callers with the same key make one row.
Law 2: until the commit nothing has happened, so every error before it is definite. The commit
       itself may have happened although it raised, unless the error says that it still waits (L4).
Law 3: reconcile says "it happened" only of what is on the disk: a process that was killed in its
       commit may have left a row that every reader sees and a power cut removes.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import apsw

from duly.connectors.folder import Folder
from duly.connectors.private import refusal
from duly.connectors.row import PAGE_MAX, Row, Value, already_there, refuse_unknown_columns
from duly.errors import ConnectorError, NotSent, PermissionDenied, Refused, UnknownOutcome
from duly.rules.value import Json

BUSY_MS: Final = 5_000
KEY_COLUMN: Final = "duly_key"
KEYS: Final = "duly_keys"
NUMBER_MAX: Final = 2**53 - 1  # the largest whole number that a script gets exactly (T8)
HIDDEN: Final = frozenset({KEY_COLUMN, "duly_row"})
# A statement is its name, its reason, and one or more lines up to an empty one.
SECTION: Final = re.compile(r"^-- ([a-z_]+)\n(?:-- .*\n)*((?:[^-\n].*\n)+)", re.MULTILINE)
STATEMENTS: Final[Mapping[str, str]] = dict(
    SECTION.findall(Path(__file__).with_name("table.sql").read_text())
)

ADVICE: Final[Mapping[type[apsw.Error], str]] = {
    apsw.BusyError: "another program writes it. Wait until it is done",
    apsw.LockedError: "another program writes it. Wait until it is done",
    apsw.FullError: "the disk is full. Make room on it",
    apsw.CantOpenError: "it cannot be opened. Look after its folder and its disk",
    apsw.ReadOnlyError: "it can only be read. Change its permissions",
    apsw.PermissionsError: "this account may not open it. Change its permissions",
    apsw.NotADBError: "it is no SQLite database. Choose another file",
    apsw.CorruptError: "it is damaged. Restore a copy of it",
}
AS_TEXT: Final = "Keep it as a text."
PERMISSION: Final = (apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError)
SCRIPTS_FAULT: Final = (apsw.ConstraintError, apsw.SQLError, apsw.TooBigError, apsw.MismatchError)


def classify(error: apsw.Error, what: str) -> ConnectorError:
    """Say what an error of the database means where it changed nothing (L4)."""
    said = f"{what}: {ADVICE.get(type(error)) or error}."
    if isinstance(error, PERMISSION):
        return PermissionDenied(said)
    return Refused(said) if isinstance(error, SCRIPTS_FAULT) else NotSent(said)


@contextmanager
def definite(what: str) -> Iterator[None]:
    """Wrap code that changes nothing yet: an error means that it did not happen."""
    try:
        yield
    except apsw.Error as error:
        raise classify(error, what) from error
    except UnicodeDecodeError as error:
        raise Refused(f"{what}: a text in it is no UTF-8. Correct it there.") from error
    except OSError as error:
        raise NotSent(f"{what}: {error.strerror or error}.") from error


class SqlRows:
    """The tables of one database."""

    def __init__(self, folder: Folder, file: str, *, has_key_column: bool = False) -> None:
        self._folder = folder
        self._file = file
        self._has_key_column = has_key_column

    def page(self, table: str, after: int, where: Mapping[str, Value]) -> list[Row]:
        """List the rows after a number, at most one more than a page."""
        with definite(self._what(table)), self._reading() as database:
            columns = _columns(database, table)
            if not columns:
                return []
            refuse_unknown_columns(table, where, columns)
            terms = "".join(f" and {_quote(each)} is ?" for each in where)
            statement = _spell("page_rows", table, columns=columns, where=terms)
            found = database.execute(statement, (after, *where.values(), PAGE_MAX + 1))
            return [_row(table, columns, each) for each in found]

    def last(self, table: str) -> int:
        """Return the number of the last row, or 0."""
        with definite(self._what(table)), self._reading() as database:
            if not _columns(database, table):
                return 0
            found = database.execute(_spell("last_number", table)).fetchone()
            return int(str(found[0])) if found is not None else 0

    def find(self, table: str, column: str | None, value: str | int) -> Row | None:
        """Find a row by its value in a column, or, without one, by its number."""
        with definite(self._what(table)), self._reading() as database:
            columns = _columns(database, table)
            if not columns or (column is not None and column not in columns):
                return None
            where = "rowid" if column is None else _quote(column)
            statement = _spell("find_row", table, columns=columns, column=where)
            found = database.execute(statement, (value,)).fetchone()
            return None if found is None else _row(table, columns, found)

    def insert(self, table: str, row: Mapping[str, Value], key: str, unique: str | None) -> int:
        """Add a row, or find the one this key made, and return its number."""
        what = self._what(table)
        with definite(what):
            database = self._open(apsw.SQLITE_OPEN_CREATE)
        with closing(database):
            with definite(what):
                database.execute("begin immediate")
                number = _find_key(database, table, key)
                if number is None:
                    is_column = self._has_key_column or KEY_COLUMN in _all_columns(database, table)
                    _check_row(database, table, row, unique, has_key_column=is_column)
                    number = _insert(database, table, row, key, has_key_column=is_column)
            commit(database, what)
            self._sync(what)
        return number

    def number_of(self, table: str, key: str) -> int | None:
        """Find the row that this key made, safe from a power cut, and return its number."""
        what = self._what(table)
        with definite(what), self._reading() as database:
            number = _find_key(database, table, key)
        self._sync(what)
        return number

    def is_lost(self, table: str) -> bool:
        """Return False: the record of a call is in the same database as its row."""
        return False

    def _what(self, table: str) -> str:
        return f"{self._file}, table {table}"

    @contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        """Open the database to read; a missing one has no rows."""
        if (self._folder.path / self._file).exists():
            with closing(self._open()) as database:
                yield database
        else:
            with closing(apsw.Connection(":memory:")) as nothing:
                yield nothing

    def _open(self, create: int = 0) -> apsw.Connection:
        return open_database(self._folder, self._file, create)

    def _sync(self, what: str) -> None:
        sync_database(self._folder, self._file, what)


def open_database(folder: Folder, file: str, create: int = 0) -> apsw.Connection:
    """Open a database of the user's, unless it is a store of a host (K13)."""
    # A reader may write too: the next connection rolls back the journal of a killed process.
    with folder.open() as here:
        folder.check(here, file, file)
    flags = apsw.SQLITE_OPEN_READWRITE | create
    database = apsw.Connection(str(folder.path / file), flags=flags)
    database.set_busy_timeout(BUSY_MS)
    if database.pragma("application_id") == (folder.private.mark or -1):
        database.close()
        raise refusal(file)  # a copy of a store
    database.execute("pragma synchronous = extra")
    return database


def sync_database(folder: Folder, file: str, what: str = "") -> None:
    """Sync what was committed to the disk: the log, or the end of the journal (Law 3)."""
    try:
        with suppress(FileNotFoundError):
            _sync_file(folder.path / f"{file}-wal")
        _sync_file(folder.path)
    except OSError as error:
        said = f"{what or file}: {error.strerror or error}; it may be written."
        raise UnknownOutcome(said) from error


def _sync_file(path: Path) -> None:
    # Never the database itself: closing it again would drop the locks that SQLite holds on it.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def commit(database: apsw.Connection, what: str) -> None:
    """Commit; from here on an error means that it may be written."""
    try:
        database.execute("commit")
    except apsw.BusyError as error:
        # The commit still waits for a reader. Nothing is written, and closing the database rolls
        # the transaction back.
        raise classify(error, what) from error
    except apsw.Error as error:
        raise UnknownOutcome(f"{what}: {error}; it may be written.") from error


def _find_key(database: apsw.Connection, table: str, key: str) -> int | None:
    number = None
    if KEY_COLUMN in _all_columns(database, table):
        number = _number(database, table, KEY_COLUMN, key)
    if number is None and _all_columns(database, KEYS):
        found = database.execute(STATEMENTS["find_key"], (table, key)).fetchone()
        number = None if found is None else int(str(found[0]))
    return number


def _number(database: apsw.Connection, table: str, column: str, value: Value) -> int | None:
    statement = _spell("find_number", table, column=_quote(column))
    found = database.execute(statement, (value,)).fetchone()
    return None if found is None else int(str(found[0]))


def _check_row(
    database: apsw.Connection,
    table: str,
    row: Mapping[str, Value],
    unique: str | None,
    *,
    has_key_column: bool,
) -> None:
    """Make the table if this is its first row; refuse what does not fit into it."""
    columns = _all_columns(database, table)
    if not has_key_column:
        database.execute(STATEMENTS["create_keys"])
    if not columns:
        keyed = ", duly_key text unique" if has_key_column else ""
        database.execute(_spell("create_table", table, columns=list(row), keyed=keyed))
        if unique is not None:
            index = _quote(f"duly_{table}_{unique}")
            database.execute(_spell("create_index", table, index=index, column=_quote(unique)))
        return
    refuse_unknown_columns(table, row, [each for each in columns if each not in HIDDEN])
    if has_key_column and KEY_COLUMN not in columns:
        database.execute(_spell("add_key_column", table))
        database.execute(_spell("create_key_index", table, index=_quote(f"duly_key_of_{table}")))
    if unique is not None:
        number = _number(database, table, unique, row[unique])
        if number is not None:
            raise already_there(table, unique, row[unique], number)


def _insert(
    database: apsw.Connection,
    table: str,
    row: Mapping[str, Value],
    key: str,
    *,
    has_key_column: bool,
) -> int:
    cells = {**row, KEY_COLUMN: key} if has_key_column else dict(row)
    places = ", ".join("?" * len(cells))
    statement = _spell("insert_row", table, columns=list(cells), places=places)
    found = database.execute(statement, tuple(cells.values())).fetchall()
    if not found:  # A trigger or a constraint of the table refused it without an error.
        raise Refused(f"{table} does not take this row, and does not say why.")
    ((number,),) = found
    # A result that is no JSON would leave a row behind that no script could ever be told of (L9).
    if not isinstance(number, int) or not 0 < number <= NUMBER_MAX:
        raise Refused(f"{table} numbers its rows in a way that a script cannot read. Use another.")
    if not has_key_column:
        database.execute(STATEMENTS["insert_key"], (table, key, number))
    return number


def _all_columns(database: apsw.Connection, table: str) -> list[str]:
    return [str(name) for (name,) in database.execute(STATEMENTS["columns_of"], (table,))]


def _columns(database: apsw.Connection, table: str) -> list[str]:
    return [each for each in _all_columns(database, table) if each not in HIDDEN]


def _spell(name: str, table: str, *, columns: Sequence[str] = (), **words: str) -> str:
    """Fill the names into a statement, quoted."""
    listed = ", ".join(_quote(each) for each in columns)
    return STATEMENTS[name].format(table=_quote(table), columns=listed, **words)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _row(table: str, columns: Sequence[str], found: Sequence[object]) -> Row:
    number, *values = found
    read: dict[str, Json] = {}
    for column, value in zip(columns, values, strict=True):
        if isinstance(value, bytes):
            raise Refused(f"{table}, row {number}: {column} is no text, and cannot be given on.")
        assert value is None or isinstance(value, str | int | float)
        if isinstance(value, int | float) and not _is_exact(value):
            raise Refused(f"{table}, row {number}: {column} is too large to be given on. {AS_TEXT}")
        read[column] = value
    if not isinstance(number, int) or not _is_exact(number):
        raise Refused(f"{table} numbers its rows in a way that a script cannot read. Use another.")
    return number, read


def _is_exact(value: float) -> bool:
    """Tell whether JSON carries a number exactly (T8)."""
    return abs(value) <= NUMBER_MAX if isinstance(value, int) else math.isfinite(value)
