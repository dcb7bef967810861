"""Reads what the oracles see of a store, and reads again only what may have changed.

Law 1  What is returned is what reading all of it again would return. SQLite itself tells which
       tables were written, and that a transaction was rolled back; then all is read again.
Law 2  Which tables a question reads is not written down anywhere: SQLite says that, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import apsw

from duly.store.base import Row, Transaction

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Part(Generic[R_co]):
    """A part of what is seen: a named statement, and what is made of its rows."""

    def __init__(self, statement: str, make: Callable[[Sequence[Row]], R_co]) -> None:
        self.statement = statement
        self.make = make


class Read(Protocol):
    """Reads a part of what is seen."""

    def __call__(self, tx: Transaction, part: Part[R], /) -> R:
        """Read it."""


def read_afresh(tx: Transaction, part: Part[R]) -> R:
    """Read a part, also if it was read before."""
    return part.make(tx.all(part.statement))


class Sight:
    """What was read on one connection, and what was written there since."""

    def __init__(self, connection: apsw.Connection, statements: Mapping[str, str]) -> None:
        self._connection = connection
        self._statements = statements
        self._writes: Counter[str] = Counter()  # by table: how many rows were ever written
        self._kept: dict[Part[Any], tuple[int, Any]] = {}
        self._tables: dict[Part[Any], tuple[str, ...]] = {}
        connection.set_update_hook(self._note)
        connection.set_rollback_hook(self.forget)

    def read(self, tx: Transaction, part: Part[R]) -> R:
        """Read a part, or return what was read, if none of its tables was written since."""
        if part not in self._tables:
            self._tables[part] = tables_of(self._connection, self._statements, part.statement)
        writes = sum(map(self._writes.__getitem__, self._tables[part]))
        known = self._kept.get(part)
        if known is None or known[0] != writes:
            try:
                known = self._kept[part] = (writes, read_afresh(tx, part))
            except BaseException:
                self.forget()  # SQLite does not tell that a savepoint was rolled back
                raise
        found: R = known[1]
        return found

    def forget(self) -> None:
        """Read everything again: what was read may never have been committed."""
        self._kept.clear()

    def _note(self, _kind: int, _database: str, table: str, _row: int) -> None:
        self._writes[table] += 1


_known_tables: dict[str, tuple[str, ...]] = {}


def tables_of(
    connection: apsw.Connection, statements: Mapping[str, str], name: str
) -> tuple[str, ...]:
    """Return the tables that a question reads, by the program that SQLite makes of it."""
    text = statements[name]
    if text not in _known_tables:
        roots = dict(connection.execute(statements["oracle_roots"]))
        program = connection.execute(f"explain {text}")
        opened = {roots[root] for _, code, _, root, *_ in program if code == "OpenRead"}
        _known_tables[text] = tuple(sorted(opened))
    return _known_tables[text]
