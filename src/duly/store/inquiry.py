"""A person's own SELECT over the documented views, while the host runs (H1).

Law 1  It reads and nothing else: the connection refuses to write, and an authorizer allows SELECT
       on the documented views only. A table behind a view is read through that view alone.
Law 2  It is one statement, and it has limits: time, rows, bytes, the length of its text and of
       every value.
Law 3  It runs beside the writer (reader), so it holds up neither a commit nor another question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import apsw

from duly.env import Env
from duly.errors import Invalid, RequestRefused, short
from duly.store.disk import Disk
from duly.store.reader import Reader
from duly.store.writer import Writer

VIEWS: Final = frozenset(
    {
        *("workflows", "events", "inputs", "outputs", "runs", "mutations", "actions"),
        *("event_journal", "deferred_events"),
    }
)
EXAMPLE: Final = "select unixepoch()"  # every other one stands on docs/views-sql.md
ROWS_MAX: Final = 1_000
BYTES_MAX: Final = 4 * 1024 * 1024
INQUIRY_MS_MAX: Final = 5_000
TEXT_BYTES_MAX: Final = 20_000
VALUE_BYTES_MAX: Final = 1024 * 1024
# Functions that make large values, or say something of the machine; all others only compute.
_FORBIDDEN: Final = frozenset({"load_extension", "zeroblob", "randomblob", "sqlite_log"})
_ALLOWED: Final = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE})

Authorize = Callable[[int, str | None, str | None, str | None, str | None], int]
Value = str | int | float | bytes | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with the names of their columns; `is_cut` says that a limit left rows out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    is_cut: bool


class Inquiries:
    """Answers a SELECT on a connection of its own."""

    def __init__(self, disk: Disk, env: Env, writer: Writer) -> None:
        self._reader = Reader(disk, env, writer, self._set_up)
        self._authorize: Authorize | None = None

    async def ask(self, query: str, rows_max: int) -> Table:
        """Run one SELECT over the views and return as many rows as the limits allow."""
        if len(query.encode()) > TEXT_BYTES_MAX:
            most = {"limit": TEXT_BYTES_MAX, "unit": "bytes"}
            raise Invalid(code="too_long", path="query", facts=most)
        return await self._reader.read(
            lambda connection: self._run(connection, query, rows_max), limit_ms=INQUIRY_MS_MAX
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._reader.close()

    def _set_up(self, connection: apsw.Connection) -> None:
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
        connection.limit(apsw.SQLITE_LIMIT_SQL_LENGTH, TEXT_BYTES_MAX)
        connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
        self._authorize = _learn(connection)

    def _run(self, connection: apsw.Connection, query: str, rows_max: int) -> Table:
        connection.authorizer = self._authorize
        try:
            return _select(connection, query, rows_max)
        finally:
            connection.authorizer = None


def _learn(connection: apsw.Connection) -> Authorize:
    """Note what the views read themselves, and make of it what a statement may read.

    SQLite names the view on each such read, but a person can give a part of their own statement
    that name. What no view reads is out of reach all the same.
    """
    behind: set[tuple[str | None, ...]] = set()

    def note(
        operation: int, table: str | None, column: str | None, database: str | None, via: str | None
    ) -> int:
        if operation == apsw.SQLITE_READ and table not in VIEWS:
            behind.add((table, column, via))
        return apsw.SQLITE_OK

    connection.authorizer = note
    for view in sorted(VIEWS):
        connection.execute(f"explain select * from {view}").fetchall()
    connection.authorizer = None
    tables = {table for table, _, _ in behind}

    def authorize(
        operation: int, first: str | None, second: str | None, database: str | None, via: str | None
    ) -> int:
        is_read = operation == apsw.SQLITE_READ
        is_allowed = (
            operation in _ALLOWED
            or (is_read and (first in VIEWS or (first, second, via) in behind))
            # How many rows there are: SQLite does not say through which view they are counted.
            or (is_read and not second and first in tables)
            or (operation == apsw.SQLITE_FUNCTION and second not in _FORBIDDEN)
        )
        return apsw.SQLITE_OK if is_allowed else apsw.SQLITE_DENY

    return authorize


def _select(connection: apsw.Connection, query: str, rows_max: int) -> Table:
    names: list[tuple[str, ...]] = []

    def begin(cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
        if names:
            raise Invalid(code="not_one_statement", path="query")
        names.append(tuple(name for name, _ in cursor.get_description()))
        return True

    cursor = connection.cursor()
    cursor.exec_trace = begin
    try:
        return _fetch(cursor.execute(query), names, rows_max)
    except apsw.AuthError:
        views = {"known": sorted(VIEWS)}
        raise RequestRefused(code="sql_refused", subject=short(query), facts=views) from None
    except apsw.TooBigError:
        most = {"limit": VALUE_BYTES_MAX, "unit": "bytes"}
        raise RequestRefused(code="value_too_long", facts=most) from None
    except (apsw.SQLError, apsw.BindingsError) as error:
        raise Invalid(code="not_sql", path="query", facts={"cause": str(error)}) from None
    finally:
        cursor.close(True)


def _fetch(cursor: apsw.Cursor, names: list[tuple[str, ...]], rows_max: int) -> Table:
    rows: list[tuple[Value, ...]] = []
    size_bytes = 0
    for row in cursor:
        size_bytes += sum(_size(each) for each in row)
        if len(rows) == rows_max or size_bytes > BYTES_MAX:
            return Table(names[0], tuple(rows), True)
        rows.append(tuple(row))
    if not names or not names[0]:  # a comment is a statement without columns
        raise Invalid(code="not_one_statement", path="query")
    return Table(names[0], tuple(rows), False)


def _size(value: Value) -> int:
    return len(value) if isinstance(value, str | bytes) else 8
