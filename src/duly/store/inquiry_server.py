"""A person's own SELECT over the documented views of a server, while hosts run (H1).

Law 1  The statement never reaches the server. It runs in a SQLite database in memory, under the
       same guard and the same limits as on a file (`inquiry.py`), so one text means the same on
       both stores. What the guard does not know cannot be called on the server either.
Law 2  The documented views are virtual tables there. Their rows come from the server, in one
       transaction that is read-only and sees one moment, and with no column that was not asked
       for.
Law 3  The time of the statement is limited here and on the server.

A statement that scans a view again, as a join does, gets the rows of the first scan where these are
few enough to be kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import apsw
import psycopg
from psycopg import errors, sql

from duly.env import Env
from duly.errors import RequestRefused
from duly.store import inquiry, queries
from duly.store.base import Row
from duly.store.inquiry import ResultTable, SelectGuard, Show, Value
from duly.store.reader import MEMORY_BYTES_MAX, memory_bytes

ROWS_PER_FETCH: Final = 1_000
KEPT_CHARS_MAX: Final = 16 * 1024 * 1024
MODULE: Final = "duly_views"


def run_select(
    connection: psycopg.Connection[Row], env: Env, query: str, rows_max: int, show: Show
) -> ResultTable:
    """Run one SELECT over the views of a server; `show` takes the secrets out of a text."""
    limit_ms = inquiry.INQUIRY_MS_MAX
    scans = _Scans(connection, env, env.monotonic_ms() + limit_ms)
    memory = apsw.Connection(":memory:")
    try:
        with connection.transaction():
            connection.execute(queries.load("postgres")["begin_inquiry"].encode())
            connection.execute(queries.load("postgres")["limit_inquiry"].encode(), [str(limit_ms)])
            return _select(memory, scans, query, rows_max, show)
    except (apsw.InterruptError, errors.QueryCanceled):
        if scans.is_too_large:
            room = {"limit": MEMORY_BYTES_MAX, "unit": "bytes"}
            raise RequestRefused(code="took_too_much_memory", facts=room) from None
        most = {"limit_ms": limit_ms, "seconds": f"{limit_ms / 1000:g}"}
        raise RequestRefused(code="took_too_long", facts=most) from None
    finally:
        memory.close(True)


def _select(
    memory: apsw.Connection, scans: _Scans, query: str, rows_max: int, show: Show
) -> ResultTable:
    def shown(*values: Value) -> Value:
        (value,) = values
        if isinstance(value, str):
            scans.require_time()
            return show(value)
        return value

    inquiry.set_limits(memory, shown)
    memory.pragma("temp_store", "memory")
    memory.create_module(MODULE, _Views(scans), use_bestindex_object=True)  # type: ignore[arg-type]
    asks = queries.load("inquiry")
    hidden = f"duly_{scans.env.random_bytes(16).hex()}_"
    for view, columns in scans.columns.items():
        memory.execute(asks["hide_view"].format(hidden + view, MODULE, view))
        inquiry.cover(memory, view, hidden + view, columns)
    memory.pragma("query_only", True)
    memory.set_progress_handler(scans.is_over, inquiry.STEPS_PER_LOOK)
    return inquiry.select(memory, SelectGuard(hidden, frozenset()), query, rows_max)


class _Scans:
    """Reads views from the server, for as long as the statement has time."""

    def __init__(self, connection: psycopg.Connection[Row], env: Env, ends_ms: int) -> None:
        self.env = env
        self._connection = connection
        self._ends_ms = ends_ms
        self._memory_bytes = memory_bytes()
        self.is_too_large = False
        self._kept: dict[tuple[str, tuple[str, ...]], list[Row]] = {}
        self._kept_chars = 0
        self._cursors = 0
        self._columns: dict[str, tuple[str, ...]] = {}

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The columns of every documented view."""
        if not self._columns:
            text = queries.load("postgres")["list_view_columns"].encode()
            rows = self._connection.execute(text, [sorted(inquiry.VIEWS)]).fetchall()
            self._columns = {name: tuple(columns) for name, columns in rows}
        return self._columns

    def is_over(self) -> bool:
        """Tell whether the statement has had its time, or took too much memory."""
        self.is_too_large = memory_bytes() - self._memory_bytes > MEMORY_BYTES_MAX
        return self.is_too_large or self.env.monotonic_ms() > self._ends_ms

    def require_time(self) -> None:
        """End a statement that is over; for work that SQLite does not interrupt."""
        if self.is_over():
            raise apsw.InterruptError("the time is over")

    def read(self, view: str, columns: tuple[str, ...]) -> Iterator[Row]:
        """Read some columns of a view, a few rows at a time."""
        kept = self._kept.get((view, columns))
        return self._fetch(view, columns) if kept is None else iter(kept)

    def _fetch(self, view: str, columns: tuple[str, ...]) -> Iterator[Row]:
        self._cursors += 1
        wanted = sql.SQL(", ").join(map(sql.Identifier, columns)) if columns else sql.SQL("1")
        text = sql.SQL(_read_view()).format(wanted, sql.Identifier(view))
        rows: list[Row] | None = []
        with self._connection.cursor(f"scan_{self._cursors}") as cursor:
            cursor.execute(text)
            while page := cursor.fetchmany(ROWS_PER_FETCH):
                self.require_time()
                self._kept_chars += sum(map(_size, page))
                if rows is not None and self._kept_chars <= KEPT_CHARS_MAX:
                    rows += page
                else:
                    rows = None
                yield from page
        if rows is not None:
            self._kept[view, columns] = rows


def _read_view() -> Any:
    """Return how a view is read; psycopg wants to see such a text in the code itself."""
    return queries.load("postgres")["read_view"]


def _size(row: Row) -> int:
    return sum(len(each) if isinstance(each, str | bytes) else 8 for each in row)


class _Views:
    """The module of the virtual tables: one for each documented view."""

    def __init__(self, scans: _Scans) -> None:
        self._scans = scans

    def Create(self, *given: Any) -> tuple[str, _View]:  # noqa: N802  # SQLite's name
        view = str(given[4])
        columns = self._scans.columns[view]
        spelled = ", ".join(f'"{each}"' for each in columns)
        shape = queries.load("inquiry")["shape_view"].format(spelled)
        return shape, _View(self._scans, view, columns)

    Connect = Create


class _View:
    """One virtual table."""

    def __init__(self, scans: _Scans, view: str, columns: tuple[str, ...]) -> None:
        self._scans = scans
        self._view = view
        self._columns = columns
        self._plans: list[tuple[int, ...]] = []

    def BestIndexObject(self, index: apsw.IndexInfo) -> bool:  # noqa: N802
        used = tuple(sorted(each for each in index.colUsed if each < len(self._columns)))
        if used not in self._plans:
            self._plans.append(used)
        index.idxNum = self._plans.index(used)
        return True

    def Open(self) -> _Cursor:  # noqa: N802
        return _Cursor(self)

    def Disconnect(self) -> None:  # noqa: N802
        """Do nothing: the table goes with its connection."""

    Destroy = Disconnect

    def scan(self, plan: int) -> tuple[dict[int, int], Iterator[Row]]:
        """Begin to read; return in which place each column is."""
        used = self._plans[plan]
        rows = self._scans.read(self._view, tuple(self._columns[each] for each in used))
        return {column: place for place, column in enumerate(used)}, rows


class _Cursor:
    """One walk through the rows of a view."""

    def __init__(self, view: _View) -> None:
        self._view = view
        self._places: dict[int, int] = {}
        self._rows: Iterator[Row] = iter(())
        self._row: Row | None = None
        self._number = 0

    def Filter(self, plan: int, *_: Any) -> None:  # noqa: N802
        self._places, self._rows = self._view.scan(plan)
        self._number = 0
        self.Next()

    def Next(self) -> None:  # noqa: N802
        self._row = next(self._rows, None)
        self._number += 1

    def Eof(self) -> bool:  # noqa: N802
        return self._row is None

    def Rowid(self) -> int:  # noqa: N802
        return self._number

    def Column(self, number: int) -> Value:  # noqa: N802
        if number < 0:
            return self._number
        assert self._row is not None, number
        value: Value = self._row[self._places[number]]
        return value

    def Close(self) -> None:  # noqa: N802
        """Let go of what was not read."""
        self._rows = iter(())
