"""What a row is, and what every storage of rows can do.

Law: a folder of files and a database do the same for the same call, and refuse it with the same
words, which stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

from duly.errors import Refused
from duly.rules.value import Json

PAGE_MAX: Final = 100

Value: TypeAlias = str | int | float | bool | None
Row: TypeAlias = tuple[int, dict[str, Json]]


class Rows(Protocol):
    """Where the rows are kept; a row's number counts from 1 and grows."""

    def page(self, table: str, after: int, where: Mapping[str, Value]) -> list[Row]:
        """List the rows after a number, at most one more than a page."""

    def last(self, table: str) -> int:
        """Return the number of the last row, or 0."""

    def find(self, table: str, column: str | None, value: str | int) -> Row | None:
        """Find a row by its value in a column, or, without one, by its number."""

    def insert(self, table: str, row: Mapping[str, Value], key: str, unique: str | None) -> int:
        """Add a row, or find the one this key made, and return its number."""

    def number_of(self, table: str, key: str) -> int | None:
        """Find the row that this key made, safe from a power cut, and return its number."""

    def is_lost(self, table: str) -> bool:
        """Tell whether the record of earlier calls is gone, so that none can be denied (L5)."""


def refuse_unknown_columns(table: str, given: Mapping[str, Value], known: list[str]) -> None:
    """Refuse a column the table does not have."""
    unknown = [column for column in given if column not in known]
    if unknown:
        raise Refused(
            f"{table} has no column {unknown[0]!r}. It has {', '.join(known)}. Use one of these, or"
            " add the column yourself."
        )


def already_there(table: str, unique: str, value: Value, number: int) -> Refused:
    """Say which row has the value that a new row wanted for itself."""
    return Refused(f"{table} has {unique} {str(value)[:100]!r} already, in row {number}.")
