"""Rows in tables: CSV files of a folder, or a SQLite database.

Law 1: a key makes one row, however often it is sent (L5, L7). Which key made which row is kept
       beside the rows, so that people's columns stay theirs: with a CSV file in `.duly/tables`, in
       a database in the table `duly_keys`. A table that has the column `duly_key` goes on with it;
       scripts never see it (R1).
Law 2: where a table has a column that must be unique, a second row with its value is refused and
       the first one named.
Law 3: what a person wrote into a table stays as it is, byte for byte, or the call is refused.

A table is made by its first row. After that an unknown column is refused, not added: it is more
often a mistake than an intention.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypedDict

from duly.connectors.base import (
    Applied,
    Call,
    NotApplied,
    Page,
    Unsure,
    Verdict,
    mutation,
    read,
)
from duly.connectors.folder import OWN, Folder, Foldered, definite
from duly.connectors.row import PAGE_MAX, Row, Rows, Value
from duly.errors import ConfigError, NotSent, Refused
from duly.rules.value import Json

COLUMNS_MAX: Final = 100
COLUMN_CHARS_MAX: Final = 100
VALUE_CHARS_MAX: Final = 100_000
PAGE_BYTES_MAX: Final = 2 * 1024 * 1024  # half of what a result may have (N)
BARE: Final = "its folder is empty. Is its disk mounted?"
LOST: Final = f"{OWN} is gone from its folder, and with it which call made which row."
SQLITE: Final = "sqlite:///"

TABLES_TAKEN: Final = ("sqlite_", "duly_")
TABLE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}", re.ASCII)
# Columns of the host, and the names by which SQLite knows a row's number.
OWN_COLUMNS: Final = frozenset({"duly_key", "duly_row", "rowid", "oid", "_rowid_"})


class TableRow(TypedDict):
    """A row with its number, which counts from 1."""

    row: int
    values: dict[str, Json]


class Inserted(TypedDict):
    """The result of an insert."""

    row: int
    table: str


class Table(Foldered):
    """Tables of rows: `Table("tables")` is a folder, `Table(url="sqlite:///rows.db")` a database.

    `key` names a column whose values are unique: of every table, or by table. With `key_column`
    every row carries the key of its call in a column `duly_key`: for files that are moved about
    without what lies beside them.
    """

    name = "table"

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        url: str | None = None,
        key: str | Mapping[str, str] | None = None,
        key_column: bool = False,
        name: str = "table",
    ) -> None:
        self.name = name
        self._key = key
        if (path is None) == (url is None):
            raise ConfigError(f"{name}: give either a folder (path) or a database (url).")
        file = None if url is None else _file_of(url, name)
        self._folder = Folder.at(str(path) if file is None else file.parent, name)
        self._rows = _open_rows(self._folder, file, has_key_column=key_column)

    @read
    async def rows(
        self,
        table: str,
        after: int | None = None,
        where: dict[str, Value] | None = None,
    ) -> Page[TableRow]:
        """List rows in their order: all, or those with these values.

        Returns a page of {row, values}.
        """
        _check_table(table)
        wanted = _checked(where or {}, "where")
        found = await self.in_thread(self._rows.page, table, after or 0, wanted)
        given = _fitting(found[:PAGE_MAX])
        if given:
            last: int | None = given[-1][0]
        elif after is not None:
            # Where rows were removed, the next new row may get the number of a row that was read.
            # So a cursor that is behind the last row goes back to it.
            last = min(after, await self.in_thread(self._rows.last, table))
        else:
            last = None
        items = [_shown(each) for each in given]
        return Page(items, last_cursor=last, has_more=len(found) > len(given))

    @read(by_id=True)
    async def find(self, table: str, key: str | int) -> TableRow | None:
        """Find the row with this value in the table's unique column, or with this number.

        Returns {row, values}, or nothing if there is no such row.
        """
        _check_table(table)
        found = await self.in_thread(self._rows.find, table, self._unique(table), key)
        return None if found is None else _shown(found)

    @mutation(
        risk="low",
        noun="row",
        lag_s=5,
        idempotent=True,
        key_lifetime_s=math.inf,
        key_in="metadata",
        asked="exactly",
        proof="itself",
    )
    async def insert(self, call: Call, table: str, row: dict[str, Value]) -> Inserted:
        """Add one row to a table.

        Returns {row, table}.
        """
        _check_table(table)
        values, unique = _checked(row, "row"), self._unique(table)
        if not values:
            raise Refused(f"{table}: the row is empty. Give it at least one column.")
        if unique is not None and values.get(unique) in (None, ""):
            raise Refused(f"{table}: the row has no {unique}, which every row of it must have.")
        if call.attempt > 1 and (lost := await self.in_thread(self._what_is_lost, table)):
            raise NotSent(f"{self.name}: {lost}")
        number = await self.in_thread(self._rows.insert, table, values, call.key, unique)
        return {"row": number, "table": table}

    @insert.reconcile
    async def insert_happened(self, call: Call) -> Verdict:
        """Look for the row that carries the key of this call."""
        table = str(call.args["table"])
        if lost := await self.in_thread(self._what_is_lost, table):
            return Unsure(lost)
        number = await self.in_thread(self._rows.number_of, table, call.key)
        return NotApplied() if number is None else Applied({"row": number, "table": table})

    def _what_is_lost(self, table: str) -> str:
        """Name what is missing of the place a call was sent to; then reconcile is unsure (L5)."""
        with definite(self.name):
            if self._folder.is_bare():
                return BARE
        return LOST if self._rows.is_lost(table) else ""

    def _unique(self, table: str) -> str | None:
        return self._key.get(table) if isinstance(self._key, Mapping) else self._key


def _open_rows(folder: Folder, file: Path | None, *, has_key_column: bool) -> Rows:
    # Imported only where rows are kept in a database.
    if file is not None:
        from duly.connectors.table_sql import SqlRows

        return SqlRows(folder, file.name, has_key_column=has_key_column)
    from duly.connectors.table_csv import CsvRows

    return CsvRows(folder, has_key_column=has_key_column)


def _file_of(url: str, name: str) -> Path:
    path = Path(url.removeprefix(SQLITE)).expanduser()
    if not url.startswith(SQLITE) or not path.name:
        raise ConfigError(f"{name}: {url!r} is no URL like sqlite:///rows.db.")
    return path


def _fitting(rows: list[Row]) -> list[Row]:
    """Take as many rows as one result can carry, and at least one."""
    total = 0
    for place, (_, values) in enumerate(rows):
        total += len(json.dumps(values))
        if total > PAGE_BYTES_MAX and place:
            return rows[:place]
    return rows


def _shown(row: Row) -> TableRow:
    number, values = row
    return {"row": number, "values": values}


def _check_table(table: str) -> None:
    if not TABLE_NAME.fullmatch(table) or table.lower().startswith(TABLES_TAKEN):
        raise Refused(
            f"{table[:100]!r} is no name for a table. Begin with a letter and use letters, digits,"
            " _ and -, at most 100; sqlite_ and duly_ are taken."
        )


def _checked(row: Mapping[str, Value], what: str) -> dict[str, Value]:
    """Check the names and the values of a row, or of a `where`."""
    if len(row) > COLUMNS_MAX:
        raise Refused(f"{what} has {len(row)} columns; at most {COLUMNS_MAX}.")
    if len({column.lower() for column in row}) < len(row):
        raise Refused(f"{what} has two columns that differ in capitals alone. Rename one.")
    for column, value in row.items():
        if not 1 <= len(column) <= COLUMN_CHARS_MAX or not column.isprintable():
            raise Refused(
                f"{what}: {column[:100]!r} is no name for a column. Use 1 to {COLUMN_CHARS_MAX}"
                " printable characters."
            )
        if column != column.strip() or column.lower() in OWN_COLUMNS:
            raise Refused(f"{what}: a column cannot be called {column!r}. Choose another name.")
        if not isinstance(value, Value):
            raise Refused(
                f"{what}.{column} is a {type(value).__name__}. Give a text, a number, true, false"
                " or null."
            )
        if isinstance(value, str) and (len(value) > VALUE_CHARS_MAX or "\0" in value):
            raise Refused(
                f"{what}.{column} is too long or has a zero in it; at most {VALUE_CHARS_MAX}"
                " characters."
            )
    return dict(row)
