"""What the server of a fleet keeps: one database in memory, and copies of it as it was.

Law 1  The statements, the schema and the transaction that runs them are the ones that ship.
Law 2  A transaction is run at once and to its end. How a disk is written, and what a power cut
       leaves of it, is for the scenarios of one host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, TypeVar

import apsw

from duly.store import queries
from duly.store.base import Transaction
from duly.store.failure import explain
from duly.store.transaction import NOT_OPEN, NamedTransaction
from verification.disk import NAME, MemoryDisk
from verification.lent import LendingDisk
from verification.life import schema
from verification.sight import Sight
from verification.workflow.run import template
from verification.workflow.shape import Shape, Tool

R = TypeVar("R")

PATH: Final = "the server"
PAGE_BYTES: Final = 1024  # a copy of a small database is small
SETTINGS: Final = {"foreign_keys": True, "journal_mode": "memory", "synchronous": "off"}


class Database:
    """One database, beginning with a copy."""

    def __init__(self, image: bytes) -> None:
        self._disk = LendingDisk({NAME: image})
        connection = self._disk.connect()
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        for name, value in SETTINGS.items():
            connection.pragma(name, value)
        self._connection = connection
        self._execute = connection.cursor().execute
        statements = schema().statements
        self._transaction = NamedTransaction(connection, queries.prepare(statements))
        self.sight = Sight(connection, statements)

    @property
    def changes(self) -> int:
        """How many rows were ever changed."""
        return self._connection.total_changes()

    def write(self, body: Callable[[Transaction], R]) -> R:
        """Run a transaction and commit it, or raise and leave everything as it was."""
        self._execute("begin immediate")
        try:
            result = self.read(body)
            self._execute("commit")
        except Exception as error:
            self._execute("rollback")
            raise explain(error, PATH) from error
        return result

    def read(self, body: Callable[[Transaction], R]) -> R:
        """Run a transaction that changes nothing: none runs beside it."""
        transaction = self._transaction
        transaction.closed_by = None
        try:
            result = body(transaction)
            if transaction.closed_by is not None:
                raise transaction.closed_by
            return result
        finally:
            transaction.closed_by = NOT_OPEN

    def copy(self) -> bytes:
        """Return everything in it, as it is now."""
        return bytes(self._disk.files[NAME].content)

    def close(self) -> None:
        """Give the memory back."""
        self._disk.drop()


@cache
def image(shape: Shape, tool: Tool) -> bytes:
    """Return a database in which the workflow is deployed."""
    return _image_of(template(shape, tool))


def _image_of(files: Mapping[str, bytes]) -> bytes:
    disk = MemoryDisk(files)
    on_disk = disk.connect()
    for name, value in {"journal_mode": "delete", "page_size": PAGE_BYTES}.items():
        on_disk.pragma(name, value)
    on_disk.execute("vacuum")
    made = on_disk.serialize("main")
    disk.drop()
    return made
