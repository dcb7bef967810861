"""A person's own SELECT over the documented views, while the host runs (H1).

Law 1  It reads and nothing else: the connection refuses to write, and an authorizer allows SELECT
       on the documented views only, with functions that are listed here.
Law 2  It is one statement, and it has limits: time, rows, columns, bytes, calls of functions, the
       length of its text and of every value, and the memory it sorts in (reader).
Law 3  It runs beside the writer (reader), so it holds up neither a commit nor another question.
Law 4  Secrets are taken out of every text before the statement sees it (A5): a part of a secret
       can be neither selected nor compared.

Each documented view has a temporary view of the same name on this connection, which takes secrets
out. It reads a second one, whose name is made of random digits: SQLite names the view behind each
read, and a person could give a part of a statement any name that they know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import apsw

from duly.env import Env
from duly.errors import Invalid, RequestRefused, short
from duly.store import queries
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
COLUMNS_MAX: Final = 100  # one row of so many values of a megabyte is what memory must hold
CALLS_MAX: Final = 100  # of functions, as the text has them
# SQLite looks at the clock between two rows, never within a row: so what takes long is limited.
PATTERN_BYTES_MAX: Final = 200
PATTERNS_MAX: Final = 20
STEPS_PER_LOOK: Final = 1_000
SHOWN: Final = "duly_shown"
_PATTERNS: Final = frozenset({"like", "glob"})
# Functions that only compute, in a time that grows with their text and no faster.
_FUNCTIONS: Final = frozenset(
    f"""
    {SHOWN} abs ceil ceiling changes char coalesce concat concat_ws date datetime floor format
    glob hex ifnull iif instr json json_array json_array_length json_extract json_object json_quote
    json_type json_valid julianday length like likelihood likely lower max min mod nullif
    octet_length pow power printf quote random round sign sqlite_version sqrt strftime substr
    substring time timediff trunc typeof unicode unixepoch unlikely upper -> ->>
    avg count group_concat json_group_array json_group_object string_agg sum total
    cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank
    row_number
    """.split()
)
_ALLOWED: Final = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE})

Value = str | int | float | bytes | None
Show = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Rows with the names of their columns; `is_cut` says that a limit left rows out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    is_cut: bool


@runtime_checkable
class HasInquiry(Protocol):
    """A store that runs a person's own SELECT."""

    async def inquire(self, query: str, rows_max: int, show: Show) -> ResultTable:
        """Run one SELECT over the documented views."""


class SelectRunner:
    """Answers a SELECT on a connection of its own."""

    def __init__(self, disk: Disk, env: Env, writer: Writer) -> None:
        self._reader = Reader(disk, env, writer, self._set_up, steps_per_look=STEPS_PER_LOOK)
        self._env = env
        self._guard: SelectGuard | None = None
        self._show: Show = str

    async def ask(self, query: str, rows_max: int, show: Show) -> ResultTable:
        """Run one SELECT over the views and return as many rows as the limits allow.

        `show` takes the secrets out of a text.
        """
        check_text(query)
        return await self._reader.read(
            lambda connection: self._run(connection, query, rows_max, show),
            limit_ms=INQUIRY_MS_MAX,
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._reader.close()

    def _set_up(self, connection: apsw.Connection) -> None:
        set_limits(connection, self._shown)
        # The statement of a person before this one must not be found by its name either.
        hidden = f"duly_{self._env.random_bytes(16).hex()}_"
        connection.pragma("query_only", False)
        for view in sorted(VIEWS):
            _cover(connection, view, hidden + view)
        connection.pragma("query_only", True)
        self._guard = SelectGuard(hidden, _list_closed(connection, hidden))

    def _shown(self, *values: Value) -> Value:
        (value,) = values
        if isinstance(value, str):
            self._reader.require_time()
            return self._show(value)
        return value

    def _run(
        self, connection: apsw.Connection, query: str, rows_max: int, show: Show
    ) -> ResultTable:
        assert self._guard is not None
        self._show = show
        return select(connection, self._guard, query, rows_max)


def check_text(query: str) -> None:
    """Refuse a text that is no text, or too long."""
    if not _is_text(query):
        raise Invalid(code="half_character", path="query")
    if len(query.encode()) > TEXT_BYTES_MAX:
        most = {"limit": TEXT_BYTES_MAX, "unit": "bytes"}
        raise Invalid(code="too_long", path="query", facts=most)


def set_limits(connection: apsw.Connection, shown: Callable[..., Value]) -> None:
    """Limit what a statement may cost on a connection; `shown` takes secrets out of a value."""
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
    connection.limit(apsw.SQLITE_LIMIT_SQL_LENGTH, TEXT_BYTES_MAX)
    connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
    connection.limit(apsw.SQLITE_LIMIT_COLUMN, COLUMNS_MAX)
    connection.limit(apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_BYTES_MAX)
    connection.create_scalar_function(SHOWN, shown, 1, deterministic=True)
    connection.create_scalar_function("instr", _find, 2, deterministic=True)


def _is_text(query: str) -> bool:
    try:
        query.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in query


def _find(*values: Value) -> int | None:
    """Do what SQLite's `instr` does, in a time that does not grow with the part."""
    text, part = values
    if text is None or part is None:
        return None
    if isinstance(text, bytes) and isinstance(part, bytes):
        return text.find(part) + 1
    return _spell(text).find(_spell(part)) + 1


def _spell(value: Value) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


# -- What may be read ---------------------------------------------------------------------------


def _cover(connection: apsw.Connection, view: str, hidden: str) -> None:
    """Put two temporary views before a view: one that shows it, and a hidden one that reads it."""
    asks = queries.load("inquiry")
    text: str = connection.execute(asks["view_text"], {"name": view}).get
    _, _, body = text.partition(" as\n")
    connection.execute(f"create temp view {hidden} as {body}")
    columns = [name for (name,) in connection.execute(asks["view_columns"], {"name": hidden})]
    cover(connection, view, hidden, columns)


def cover(connection: apsw.Connection, view: str, hidden: str, columns: Iterable[str]) -> None:
    """Make the view that takes secrets out of what the hidden one reads."""
    shown = ", ".join(f"{SHOWN}({each}) as {each}" for each in columns)
    connection.execute(f"create temp view {view} as select {shown} from {hidden}")


def _list_closed(connection: apsw.Connection, hidden: str) -> frozenset[str]:
    """List the tables that no documented view reads."""
    read: set[str | None] = set()

    def note(
        operation: int, table: str | None, column: str | None, database: str | None, via: str | None
    ) -> int:
        if operation == apsw.SQLITE_READ:
            read.add(table)
        return apsw.SQLITE_OK

    connection.authorizer = note
    for view in sorted(VIEWS):
        connection.execute(f"explain select * from {hidden}{view}").fetchall()
    connection.authorizer = None
    tables = connection.execute(queries.load("inquiry")["list_tables"])
    return frozenset(name for (name,) in tables if name not in read)


class SelectGuard:
    """Says what one statement may do."""

    def __init__(self, hidden: str, closed: frozenset[str]) -> None:
        self._hidden = hidden
        self._closed = closed
        self._calls = 0
        self._patterns = 0

    def begin(self) -> None:
        """Count anew, for another statement."""
        self._calls = self._patterns = 0

    def authorize(
        self,
        operation: int,
        first: str | None,
        second: str | None,
        database: str | None,
        via: str | None,
    ) -> int:
        """Tell SQLite whether a statement may do one thing."""
        is_allowed = (
            operation in _ALLOWED
            or (operation == apsw.SQLITE_READ and self._may_read(first, second, database, via))
            or (operation == apsw.SQLITE_FUNCTION and self._may_call(second))
        )
        return apsw.SQLITE_OK if is_allowed else apsw.SQLITE_DENY

    def _may_read(
        self, table: str | None, column: str | None, database: str | None, via: str | None
    ) -> bool:
        if table is None:
            return False
        if not column:
            # How many rows there are: SQLite does not say through which view they are counted.
            return table not in self._closed and not table.startswith(("sqlite_", "pragma_"))
        return (
            (table in VIEWS and database == "temp")
            or (table.startswith(self._hidden) and via in VIEWS)
            or (via is not None and via.startswith(self._hidden))
        )

    def _may_call(self, function: str | None) -> bool:
        self._calls += function != SHOWN
        self._patterns += function in _PATTERNS
        return (
            function in _FUNCTIONS and self._calls <= CALLS_MAX and self._patterns <= PATTERNS_MAX
        )


# -- Reading ------------------------------------------------------------------------------------


def select(
    connection: apsw.Connection, guard: SelectGuard, query: str, rows_max: int
) -> ResultTable:
    """Run one statement that the guard allows, and return as many rows as the limits allow."""
    guard.begin()
    connection.authorizer = guard.authorize
    try:
        return _select(connection, query, rows_max)
    finally:
        connection.authorizer = None


def _select(connection: apsw.Connection, query: str, rows_max: int) -> ResultTable:
    names: list[tuple[str, ...]] = []

    def begin(cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
        if names:
            raise Invalid(code="not_one_statement", path="query")
        if cursor.is_explain:
            raise apsw.AuthError
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
    except UnicodeDecodeError:
        raise Invalid(code="value_not_text", path="query") from None
    except (apsw.SQLError, apsw.BindingsError) as error:
        raise Invalid(code="not_sql", path="query", facts={"cause": str(error)}) from None
    finally:
        cursor.close(True)


def _fetch(cursor: apsw.Cursor, names: list[tuple[str, ...]], rows_max: int) -> ResultTable:
    rows: list[tuple[Value, ...]] = []
    size_bytes = 0
    for row in cursor:
        size_bytes += sum(_size(each) for each in row)
        if len(rows) == rows_max or size_bytes > BYTES_MAX:
            return ResultTable(names[0], tuple(rows), True)
        rows.append(tuple(row))
    if not names or not names[0]:  # a comment is a statement without columns
        raise Invalid(code="not_one_statement", path="query")
    return ResultTable(names[0], tuple(rows), False)


def _size(value: Value) -> int:
    return len(value) if isinstance(value, str | bytes) else 8
