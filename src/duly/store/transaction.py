"""An open transaction, spoken to in named statements; and that of a SQLite connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import apsw

from duly.errors import IllegalTransition
from duly.rules.seal import OPEN_KEY
from duly.store.base import Row, stale
from duly.store.queries import Statement

FindKey: TypeAlias = Callable[[], bytes | None]

NOT_OPEN = IllegalTransition("a transaction was used outside of its body")


class AtOnce(ABC):
    """A transaction that runs every statement at once."""

    __slots__ = ()

    @abstractmethod
    def run(self, statement: str, /, **parameters: Any) -> int:
        """Run a statement that returns no rows; return how many rows it changed."""

    def write(self, statement: str, /, **parameters: Any) -> None:
        """Run a statement of which nothing is asked."""
        self.run(statement, **parameters)

    def change(
        self, statement: str, what: str, rows: int | None = None, /, **parameters: Any
    ) -> None:
        """Run a write that must change so many rows, or some; else `what` is stale (R8)."""
        changed = self.run(statement, **parameters)
        if not changed or rows not in (None, changed):
            raise stale(what)


class NamedStatements(AtOnce):
    """Statements by their names, over the connection of either database.

    A failed statement closes it: the next one of a body that shrugged is refused.
    """

    __slots__ = ("_statements", "closed_by", "host")

    def __init__(self, statements: Mapping[str, Statement], closed_by: Exception | None) -> None:
        self._statements = statements
        self.closed_by = closed_by
        self.host: str | None = None

    def all(self, statement: str, /, **parameters: Any) -> list[Row]:
        """Run a statement and return every row."""
        return self._rows(statement, parameters)

    def one(self, statement: str, /, **parameters: Any) -> Row | None:
        """Run a statement and return its only row, if there is one."""
        rows = self._rows(statement, parameters)
        assert len(rows) <= 1, f"statement {statement} returned {len(rows)} rows"
        return rows[0] if rows else None

    def run(self, statement: str, /, **parameters: Any) -> int:
        """Run a statement that returns no rows; return how many rows it changed."""
        rows = self._rows(statement, parameters)
        assert not rows, f"statement {statement} returned {len(rows)} rows"
        return self._count_changes()

    def _bind(
        self, statement: str, parameters: dict[str, Any]
    ) -> tuple[Statement, tuple[Any, ...]]:
        """Find a statement and put its parameters in order; refuse one that is not its own."""
        if self.closed_by is not None:
            raise self.closed_by
        known = self._statements[statement]
        try:
            bound = known.bind(parameters)
        except KeyError:
            raise known.refuse(parameters) from None
        if len(bound) != len(parameters):
            raise known.refuse(parameters)
        return known, bound

    @abstractmethod
    def _rows(self, statement: str, parameters: dict[str, Any]) -> list[Row]:
        """Run a statement to its end."""

    @abstractmethod
    def _count_changes(self) -> int:
        """Return how many rows the last statement changed."""


class NamedTransaction(NamedStatements):
    """The open transaction of one job: named statements over the writer's connection.

    A failed statement closes it, as PostgreSQL would: on a full disk SQLite has already rolled
    back, and the next statement of a body that shrugged would commit on its own.
    """

    __slots__ = ("_changes", "_cursor", "clock", "find_key")

    def __init__(
        self,
        connection: apsw.Connection,
        statements: Mapping[str, Statement],
        find_key: FindKey = lambda: OPEN_KEY,
    ) -> None:
        super().__init__(statements, NOT_OPEN)
        self._cursor = connection.cursor()
        self._changes = connection.changes
        self.find_key = find_key
        self.clock: Callable[[], int] = lambda: 0  # the host of a file has no lease (H6)

    @property
    def clock_ms(self) -> int:
        """What the database's own clock shows (H2)."""
        return self.clock()

    @property
    def timeline(self) -> int | None:
        """No standby of a file is ever promoted (H10)."""
        return None

    @property
    def started(self) -> int | None:
        """A file has no server (H10)."""
        return None

    @property
    def seal_key(self) -> bytes | None:
        """The key that rows are sealed with, which is not in the database (L15)."""
        return self.find_key()

    def _count_changes(self) -> int:
        return self._changes()

    def _rows(self, statement: str, parameters: dict[str, Any]) -> list[Row]:
        known, bound = self._bind(statement, parameters)
        try:
            # Rows are read to the end: a RETURNING left unread has not changed its last rows.
            return self._cursor.execute(known.text, bound).fetchall()
        except apsw.Error as error:
            self.closed_by = error
            raise
