"""One sheet of a Google spreadsheet as a table: rows are read, appended and changed.

    [connectors.invoices]
    use = "sheets"
    client_id = "123-abc.apps.googleusercontent.com"
    spreadsheet = "1AbC…"           # from its address
    sheet = "Invoices"
    key = "duly_key"                # a column of the sheet, which Duly fills

Law 1: the first row names the columns, each once. One of them is the key column: an appended row
       has the mark of its call there, and by it the row is found again (L5). Without that column
       nothing is written.
Law 2: what is written is written as it is (`RAW`): a text never becomes a formula (K12).
Law 3: a row is changed by its key, in the cells that are given. The row is found just before; a
       sheet that is sorted in that moment is the one thing that this cannot see.
Law 4: before a change is sent, it is kept that it will be (L14). If the answer is lost and the
       cells do not have what was written, a person decides: also where they have what stood
       there before, since a person may have set them back. What was never sent is sent.
Law 5: the key is looked for in one answer, which names the cells that were asked for and begins
       with the heading of the key column. Any other answer says nothing (L5).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypedDict
from urllib.parse import quote

from duly.connectors.base import Applied, Call, NotApplied, Page, Unsure, Verdict, mutation, read
from duly.connectors.google import CLIENT_NEED, Google, list_at, mark_of, text_at
from duly.connectors.json_answer import pick
from duly.connectors.need import Need
from duly.connectors.sheet_cursor import (
    cut_empty,
    ids_of,
    is_empty,
    read_cursor,
    seal_of,
    write_cursor,
)
from duly.connectors.template import MISSING
from duly.errors import ConfigError, NotSent, Refused, Transient, UnknownOutcome
from duly.rules.value import Json

SPREADSHEET: Final = re.compile(r"[A-Za-z0-9_-]{10,200}")
PAGE_ROWS: Final = 500
PASSED_ROWS: Final = 5_000  # of those before a cursor that are read at once
FIRST_ROW: Final = 2  # the first names the columns
ROWS_MAX: Final = 20_000  # so many keys are looked through for one row
COLUMNS_MAX: Final = 200
CELL_CHARS_MAX: Final = 50_000  # Google's own limit
LAG_S: Final = 200.0  # Google works on a request for at most 180 s
VALUES: Final = {"valueRenderOption": "UNFORMATTED_VALUE", "majorDimension": "ROWS"}


class SheetRow(TypedDict):
    """One row: an id that does not move, its number, its key if it has one, and its cells."""

    id: str
    row: int
    key: str
    cells: dict[str, Any]


class WrittenRow(TypedDict):
    """The result of a change: the key of the row."""

    key: str


@dataclass(frozen=True, slots=True)
class _Head:
    """The columns of a sheet, and how many rows it has."""

    columns: tuple[str, ...]
    rows: int
    key_at: int | None

    @property
    def last(self) -> str:
        return letters(len(self.columns))


class Sheets(Google):
    """One sheet; `key` is the name of its key column."""

    name = "sheets"
    home = "https://sheets.googleapis.com"
    base_path = "/v4/spreadsheets"
    scopes = MappingProxyType(
        {
            "read": ("spreadsheets.readonly",),
            "append": ("spreadsheets",),
            "update": ("spreadsheets",),
        }
    )
    needs = (
        CLIENT_NEED,
        Need("spreadsheet", "the id in the address of the spreadsheet", "1AbC2dEfG3hIj"),
        Need("sheet", "the name of the sheet", "Invoices"),
    )

    def __init__(
        self,
        client_id: str,
        spreadsheet: str,
        sheet: str,
        *,
        key: str = "duly_key",
        url: str = "",
        secret: str = "sign_in",
        client_secret: str = "client_secret",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "sheets",
    ) -> None:
        super().__init__(
            client_id,
            url=url,
            secret=secret,
            client_secret=client_secret,
            allow=allow,
            ca=ca,
            name=name,
        )
        if not SPREADSHEET.fullmatch(spreadsheet):
            raise ConfigError("spreadsheet: write the id that stands in its address, after /d/.")
        if not sheet or not sheet.isprintable() or len(sheet) > 100:
            raise ConfigError("sheet: write the name of a sheet.")
        self._id, self._sheet, self._key = spreadsheet, sheet, key

    # -- Tools ------------------------------------------------------------------------------------

    @read
    async def read(self, after: str | None = None) -> Page[SheetRow]:
        """List the rows below the first, in their order.

        Returns a page of {id, row, key, cells}; `cells` has a value for each column: a text (empty
        for an empty cell), a number, true or false; a date is a number of days since 1899-12-30.
        Use `id` as message id: `row` changes when a row above is deleted. `key` is empty where
        nothing stands in the key column: such a row cannot be changed by `update`. If a row above
        the cursor was changed, deleted or inserted, all rows come again, under the ids that they
        had.
        """
        self.require("read")
        head = await self._head()
        before = await self._passed(after, head)
        first = FIRST_ROW + len(before)
        last = min(head.rows, first + PAGE_ROWS - 1)
        if first > head.rows or not head.columns:
            return Page([], last_cursor=write_cursor(before), has_more=False)
        found = await self._values(f"A{first}:{head.last}{last}")
        ids = ids_of([*before, *found], head.key_at)[len(before) :]
        items: list[SheetRow] = [
            {
                "id": ids[at],
                "row": first + at,
                "key": _key_of(cells, head),
                "cells": _cells(cells, head),
            }
            for at, cells in enumerate(found)
            if not is_empty(cells)
        ]
        # Rows at the end that are empty are not counted: the next row is written there.
        is_more = len(found) == PAGE_ROWS and last < head.rows
        whole = [*before, *found] if is_more else cut_empty([*before, *found])
        return Page(items, last_cursor=write_cursor(whole), has_more=is_more)

    async def _passed(self, after: str | None, head: _Head) -> list[list[Any]]:
        """Return the rows that a cursor has passed, if they are the same now; else none (K11)."""
        if after is None:
            return []
        count, seal = read_cursor(after)
        found: list[list[Any]] = []
        while seal and len(found) < count:
            first = FIRST_ROW + len(found)
            last = min(FIRST_ROW + count - 1, first + PASSED_ROWS - 1)
            if first > head.rows or not head.columns:
                return []
            rows = await self._values(f"A{first}:{head.last}{min(last, head.rows)}")
            # Google leaves out what is empty at the end.
            found += [*rows, *[[]] * (last - first + 1 - len(rows))]
        return found if seal and seal_of(found) == seal else []

    @mutation(
        noun="row",
        lag_s=LAG_S,
        timeout_s=60,
        key_in="field",
        asked="by_search",
        deleted="unseen",
        labels={"row": "Row"},
        editable=("row",),
    )
    async def append(self, call: Call, row: dict[str, Any]) -> WrittenRow:
        """Append a row: a value for each column that it names.

        Returns {key}, by which the row can be changed.
        """
        self.require("append")
        head = await self._head_before()
        cells = {**_checked(row, head, self._key), self._key: mark_of(call.key)}
        await call.keep([mark_of(call.key), _digest(head.columns)])
        values = [cells.get(each, "") for each in head.columns]
        # A row never begins left of the table: Google looks for the table around A1.
        path = f"{self._range(f'A1:{head.last}1')}:append"
        query = {"valueInputOption": "RAW", "insertDataOption": "INSERT_ROWS"}
        body: Json = {"majorDimension": "ROWS", "values": [values]}
        answer = await self.change_at(call, "POST", path, body, query=query, timeout_s=60)
        if not text_at(answer, "updates.updatedRange"):
            raise UnknownOutcome(f"{self.name}: the answer does not say where the row is.")
        return {"key": mark_of(call.key)}

    @append.reconcile
    async def append_happened(self, call: Call) -> Verdict:
        """Look for the mark of this very call in the key column."""
        head = await self._head(is_proof=True)
        found = await self._find(mark_of(call.key), head)
        if isinstance(found, str):
            return Unsure(found)
        if found is not None:
            return Applied({"key": mark_of(call.key)})
        if _kept(call) not in (None, _digest(head.columns)):
            # The row was written by the places of the columns: its mark may stand in another.
            return Unsure("the columns were changed since, so its mark may stand in another one")
        return NotApplied()

    @append.trial
    def append_tried(self) -> None:
        """Appends one row, and looks for it in the key column."""

    @mutation(
        noun="row",
        lag_s=LAG_S,
        timeout_s=60,
        key_in="id",
        asked="exactly",
        proof="itself",
        labels={"key": "Key", "row": "Row"},
        editable=("row",),
    )
    async def update(self, call: Call, key: str, row: dict[str, Any]) -> WrittenRow:
        """Change cells of the row with this key; columns that are not named stay as they are.

        Returns {key}.
        """
        self.require("update")
        head = await self._head_before()
        cells = _checked(row, head, self._key)
        try:
            found = await self._find(key, head)
        except Transient as error:
            raise NotSent(str(error), retry_after_s=error.retry_after_s) from error
        if not isinstance(found, int):
            raise Refused(found or f"key: no row has the key {key[:80]!r}.")
        await self._check_row(head, found, key)
        await call.keep([mark_of(call.key), "sent"])
        data: list[Json] = [
            {"range": self._place(f"{letters(at)}{found}"), "values": [[cells[name]]]}
            for at, name in enumerate(head.columns, 1)
            if name in cells
        ]
        body: Json = {"valueInputOption": "RAW", "data": data}
        path = f"/{self._id}/values:batchUpdate"
        answer = await self.change_at(call, "POST", path, body, timeout_s=60)
        if pick(answer, "totalUpdatedCells") != len(data):
            raise UnknownOutcome(f"{self.name}: the answer does not say that all cells changed.")
        return {"key": key}

    @update.reconcile
    async def update_happened(self, call: Call) -> Verdict:
        """Look whether the row with the key has these values (law 4)."""
        key, row = str(call.args["key"]), call.args["row"]
        if _kept(call) is None:
            return NotApplied()  # the cells are written only after it was kept
        head = await self._head(is_proof=True)
        found = await self._find(key, head)
        if not isinstance(found, int) or not isinstance(row, dict):
            return Unsure(found if isinstance(found, str) else "no row has this key any more")
        there = await self._values(f"A{found}:{head.last}{found}", is_proof=True)
        cells = _cells(there[0] if there else [], head)
        if _key_of(there[0] if there else [], head) != key:
            return Unsure("the rows are being moved")
        if all(name in cells and _same(cells[name], value) for name, value in row.items()):
            return Applied({"key": key})
        return Unsure(
            "the cells have other values: it was not done, or a person changed them since"
        )

    # -- Within -----------------------------------------------------------------------------------

    def _relies_on(self, method: str) -> Json:
        return [str(self.base), self._id, self._sheet, self._key]

    def _place(self, cells: str) -> str:
        quoted = self._sheet.replace("'", "''")
        return f"'{quoted}'!{cells}"

    def _range(self, cells: str) -> str:
        return f"/{self._id}/values/{quote(self._place(cells), safe='')}"

    async def _head(self, *, is_proof: bool = False) -> _Head:
        """Read the size of the sheet and the names of its columns."""
        fields = "sheets.properties(title,gridProperties(rowCount,columnCount))"
        found = await self.fetch(f"/{self._id}", {"fields": fields}, is_proof=is_proof)
        for each in list_at(found, "sheets"):
            if text_at(each, "properties.title") == self._sheet:
                rows = pick(each, "properties.gridProperties.rowCount")
                wide = pick(each, "properties.gridProperties.columnCount")
                break
        else:
            raise Refused(f"{self.name}: there is no sheet {self._sheet!r}.")
        if type(rows) is not int or type(wide) is not int or rows < 1 or wide < 1:
            raise Transient(f"{self.name}: the sheet has no size.")
        across = f"A1:{letters(min(wide, COLUMNS_MAX))}1"
        first = await self._values(across, is_proof=is_proof)
        names = [str(each).strip() for each in (first[0] if first else [])]
        while names and not names[-1]:
            names.pop()
        if len(set(names)) < len(names) or "" in names:
            raise Refused(f"{self.name}: the first row must name each column, and each once.")
        return _Head(tuple(names), rows, names.index(self._key) if self._key in names else None)

    async def _head_before(self) -> _Head:
        """Read the columns before a change; nothing is written without a key column (law 1)."""
        try:
            head = await self._head(is_proof=True)
        except Transient as error:
            raise NotSent(str(error), retry_after_s=error.retry_after_s) from error
        if head.key_at is None:
            raise Refused(f"{self.name}: write {self._key} into the first row, as a new column.")
        return head

    async def _check_row(self, head: _Head, at: int, key: str) -> None:
        """Look once more that a row is still at its place, just before it is written (law 3)."""
        try:
            there = await self._values(f"A{at}:{head.last}{at}", is_proof=True)
        except Transient as error:
            raise NotSent(str(error), retry_after_s=error.retry_after_s) from error
        if _key_of(there[0] if there else [], head) != key:
            raise NotSent(f"{self.name}: nothing was written: the rows are being moved.")

    async def _values(self, cells: str, *, is_proof: bool = False) -> list[list[Any]]:
        """Read cells; as a proof only an answer that says that it is of these cells."""
        answer = await self.fetch(self._range(cells), {**VALUES}, is_proof=is_proof)
        if is_proof and not _is_of(answer, cells):
            raise Transient(f"{self.name}: the answer is not of the cells {cells}.")
        return [each for each in list_at(answer, "values") if isinstance(each, list)]

    async def _find(self, mark: str, head: _Head) -> int | str | None:
        """Return the number of the row with a key; None if there is none, a text if unknown."""
        if head.key_at is None:
            return f"the column {self._key} is not there any more"
        if head.rows > ROWS_MAX:
            return f"the sheet has more than {ROWS_MAX} rows"
        column = letters(head.key_at + 1)
        # To its end, wherever that is by now: rows may have been added since it was read.
        found = await self._values(f"{column}1:{column}", is_proof=True)
        keys = [str(cells[0]) if cells else "" for cells in found]
        if not keys or keys[0].strip() != self._key:
            return f"the column {self._key} is being moved"
        rows = [at for at, each in enumerate(keys, 1) if each == mark]
        if len(rows) > 1:
            return "several rows have this key"
        return rows[0] if rows else None


def letters(number: int) -> str:
    """Return the letters of a column: 1 is A, 27 is AA."""
    found = ""
    while number:
        number, rest = divmod(number - 1, 26)
        found = chr(ord("A") + rest) + found
    return found


def _cells(found: Sequence[Any], head: _Head) -> dict[str, Any]:
    cells = [*found, *[""] * (len(head.columns) - len(found))]
    named = zip(head.columns, cells, strict=False)
    return {name: value for at, (name, value) in enumerate(named) if at != head.key_at}


def _key_of(found: Sequence[Any], head: _Head) -> str:
    at = head.key_at
    return "" if at is None or at >= len(found) else str(found[at])


def _checked(row: dict[str, Any], head: _Head, key: str) -> dict[str, Any]:
    """Refuse what cannot be cells of this sheet."""
    if not row:
        raise Refused("row: name at least one column.")
    for name, value in row.items():
        if name not in head.columns or name == key:
            raise Refused(f"row: the sheet has no column {name[:80]!r} to write.")
        if not isinstance(value, str | int | float | bool | None):
            raise Refused(f"row: {name[:80]!r} is no text, number or yes and no.")
        if isinstance(value, str) and len(value) > CELL_CHARS_MAX:
            raise Refused(f"row: a cell has at most {CELL_CHARS_MAX} characters.")
    return {name: "" if value is None else value for name, value in row.items()}


def _is_of(answer: Any, cells: str) -> bool:
    """Tell whether an answer is of these cells; Google writes the last row where none was asked."""
    rows = pick(answer, "values")
    if rows is not MISSING and not (
        isinstance(rows, list) and all(isinstance(each, list) for each in rows)
    ):
        return False
    said = text_at(answer, "range").rpartition("!")[2]
    first, _, last = cells.partition(":")
    if last.isalpha():
        return re.fullmatch(rf"{first}(:{last}[0-9]*)?", said) is not None
    return said == cells or (first == last and said == first)


def _digest(columns: Sequence[str]) -> str:
    """Return a digest of the names of the columns, in their order."""
    return sha256(json.dumps([*columns]).encode()).hexdigest()


def _kept(call: Call) -> str | None:
    """Return what this very call kept before it was sent; None if it sent nothing."""
    match call.handle:
        case [str(mark), str(kept)] if mark == mark_of(call.key):
            return kept
    return None


def _same(there: Any, wanted: Any) -> bool:
    if isinstance(there, bool) is not isinstance(wanted, bool):
        return False
    return bool(there == ("" if wanted is None else wanted))
