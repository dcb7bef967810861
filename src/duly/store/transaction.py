"""An open transaction of a SQLite connection, spoken to in named statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import apsw

from duly.errors import IllegalTransition
from duly.rules.seal import OPEN_KEY
from duly.store.base import Row
from duly.store.queries import Statement

FindKey: TypeAlias = Callable[[], bytes | None]

NOT_OPEN = IllegalTransition("a transaction was used outside of its body")


class NamedTransaction:
    """The open transaction of one job: named statements over the writer's connection.

    A failed statement closes it, as PostgreSQL would: on a full disk SQLite has already rolled
    back, and the next statement of a body that shrugged would commit on its own.
    """

    __slots__ = ("_changes", "_cursor", "_statements", "clock", "closed_by", "find_key")

    def __init__(
        self,
        connection: apsw.Connection,
        statements: Mapping[str, Statement],
        find_key: FindKey = lambda: OPEN_KEY,
    ) -> None:
        self._cursor = connection.cursor()
        self._changes = connection.changes
        self._statements = statements
        self.find_key = find_key
        self.clock: Callable[[], int] = lambda: 0  # the host of a file has no lease (H6)
        self.closed_by: Exception | None = NOT_OPEN

    def all(self, statement: str, /, **parameters: Any) -> list[Row]:
        """Run a statement and return every row."""
        return self._rows(statement, parameters)

    def one(self, statement: str, /, **parameters: Any) -> Row | None:
        """Run a statement and return its only row, if there is one."""
        rows = self._rows(statement, parameters)
        assert len(rows) <= 1, f"statement {statement} answered {len(rows)} rows"
        return rows[0] if rows else None

    def run(self, statement: str, /, **parameters: Any) -> int:
        """Run a statement that returns no rows; return how many rows it changed."""
        rows = self._rows(statement, parameters)
        assert not rows, f"statement {statement} answered {len(rows)} rows"
        return self._changes()

    @property
    def clock_ms(self) -> int:
        """What the database's own clock shows (H2)."""
        return self.clock()

    @property
    def seal_key(self) -> bytes | None:
        """The key that rows are sealed with, which is not in the database (L15)."""
        return self.find_key()

    def _rows(self, statement: str, parameters: dict[str, Any]) -> list[Row]:
        if self.closed_by is not None:
            raise self.closed_by
        known = self._statements[statement]
        try:
            bound = known.bind(parameters)
        except KeyError:
            raise known.refuse(parameters) from None
        if len(bound) != len(parameters):
            raise known.refuse(parameters)
        try:
            # Rows are read to the end: a RETURNING left unread has not changed its last rows.
            return self._cursor.execute(known.text, bound).fetchall()
        except apsw.Error as error:
            self.closed_by = error
            raise
