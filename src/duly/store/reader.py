"""Reads beside the writer: a connection of its own, so that no commit waits for a question.

Law 1: a question sees one moment: it is one transaction, begun when everything that was committed
       before it was asked is visible.
Law 2: it takes no longer than its limit, because the log cannot be moved while it lasts.
Law 3: one question at a time uses the connection. A caller that is cancelled ends its question. A
       store that closes gives the question that is being read a little time, and begins no other.
Law 4: it sorts in memory and no further than its limit: it fills no disk with temporary files.
Law 5: what a question saw is on the disk before it is returned (L2): a commit is visible before its
       sync, and what a power cut takes away must not leave the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import apsw

from duly import fork
from duly.env import Env
from duly.errors import RequestRefused, StoreUnavailable
from duly.store.base import Transaction
from duly.store.disk import Disk, shut
from duly.store.failure import explain
from duly.store.queries import Statement
from duly.store.transaction import NamedTransaction
from duly.store.writer import Writer

R = TypeVar("R")

QUESTION_MS_MAX: Final = 30_000
CLOSE_MS_MAX: Final = 2_000  # for the question that is being read when the store closes
STEPS_PER_LOOK: Final = 10_000  # of SQLite's machine, between two looks at the clock
CACHE_KIB: Final = 16 * 1024
# What SQLite may take for one question, over what it had when the question began. SQLite counts for
# the whole process; the other connections take little, and their caches are bounded.
MEMORY_BYTES_MAX: Final = 128 * 1024 * 1024

Setup = Callable[[apsw.Connection], None]


def _as_it_is(connection: apsw.Connection) -> None:
    """Set nothing up."""


class Reader:
    """One reading connection; it is opened by the first question."""

    def __init__(
        self,
        disk: Disk,
        env: Env,
        writer: Writer,
        setup: Setup = _as_it_is,
        *,
        steps_per_look: int = STEPS_PER_LOOK,
    ) -> None:
        self._disk = disk
        self._env = env
        self._writer = writer
        self._setup = setup
        self._steps_per_look = steps_per_look
        self._turn = asyncio.Lock()
        self._connection: apsw.Connection | None = None
        self._ends_ms = 0
        self._current: asyncio.Task[Any] | None = None  # the question that has its turn
        self._is_left = False  # whether its caller went away
        self._is_closing = False
        self._memory_bytes = 0  # what SQLite had when it began
        self._is_too_large = False  # whether it took too much memory
        fork.own(self)

    def abandon(self) -> None:
        """Leave the connection to the parent, in a forked child (H1)."""

    async def read(self, work: Callable[[apsw.Connection], R], *, limit_ms: int) -> R:
        """Do something with the connection inside a read transaction, for so long at most."""
        reading = asyncio.ensure_future(self._read(work, limit_ms))
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            reading.add_done_callback(_hush)
            if reading is self._current:
                self._is_left = True  # its thread sees that and ends
            else:
                reading.cancel()  # it waits for its turn
            raise

    def require_time(self) -> None:
        """End a question whose time is over; for work that SQLite does not interrupt."""
        if self._is_over():
            raise apsw.InterruptError("the time is over")

    async def close(self) -> None:
        """Wait a little for the question that is being read, and close the connection."""
        self._is_closing = True
        self._ends_ms = min(self._ends_ms, self._env.monotonic_ms() + CLOSE_MS_MAX)
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                await self._env.call_blocking(lambda: shut(connection))

    async def _read(self, work: Callable[[apsw.Connection], R], limit_ms: int) -> R:
        async with self._turn:
            self._current, self._is_left = asyncio.current_task(), False
            await self._writer.begin_reading()
            if self._is_closing:
                self._writer.end_reading()
                raise StoreUnavailable(code="store_closed", subject=self._disk.path)
            self._ends_ms = self._env.monotonic_ms() + limit_ms
            try:
                value = await self._env.call_blocking(lambda: self._in_transaction(work, limit_ms))
            finally:
                self._writer.end_reading()
        await self._writer.sync_seen()
        return value

    def _in_transaction(self, work: Callable[[apsw.Connection], R], limit_ms: int) -> R:
        try:
            connection = self._open()
            try:
                connection.execute("begin")
                return work(connection)
            finally:
                self._end(connection)
        except apsw.InterruptError:
            if self._is_closing:
                raise StoreUnavailable(code="store_closed", subject=self._disk.path) from None
            if self._is_too_large:
                room = {"limit": MEMORY_BYTES_MAX, "unit": "bytes"}
                raise RequestRefused(code="took_too_much_memory", facts=room) from None
            most = {"limit_ms": limit_ms, "seconds": f"{limit_ms / 1000:g}"}
            raise RequestRefused(code="took_too_long", facts=most) from None
        except apsw.Error as error:
            raise explain(error, self._disk.path) from error

    def _end(self, connection: apsw.Connection) -> None:
        """End the transaction, also of a question whose time is over: it holds back the log."""
        connection.set_progress_handler(None)
        if connection.in_transaction:
            connection.execute("rollback")

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            connection = self._disk.connect_reader()
            connection.pragma("cache_size", -CACHE_KIB)
            connection.pragma("temp_store", "memory")
            self._setup(connection)
            self._connection = connection
        self._is_too_large, self._memory_bytes = False, memory_bytes()
        self._connection.set_progress_handler(self._is_over, self._steps_per_look)
        return self._connection

    def _is_over(self) -> bool:
        self._is_too_large = memory_bytes() - self._memory_bytes > MEMORY_BYTES_MAX
        is_late = self._env.monotonic_ms() > self._ends_ms
        return self._is_left or is_late or self._is_too_large


class Questions:
    """Answers questions in named statements, by a reader."""

    def __init__(self, reader: Reader, statements: Mapping[str, Statement], writer: Writer) -> None:
        self._reader = reader
        self._statements = statements
        self._writer = writer
        self._transaction: NamedTransaction | None = None

    async def ask(self, body: Callable[[Transaction], R]) -> R:
        """Run `body` in a read transaction of its own."""
        return await self._reader.read(
            lambda connection: self._run(connection, body), limit_ms=QUESTION_MS_MAX
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._reader.close()

    def _run(self, connection: apsw.Connection, body: Callable[[Transaction], R]) -> R:
        if self._transaction is None:
            find_key = lambda: self._writer.seal_key  # noqa: E731  # looked up each time
            self._transaction = NamedTransaction(connection, self._statements, find_key)
        opened, self._transaction.closed_by = self._transaction.closed_by, None
        try:
            return body(self._transaction)
        finally:
            self._transaction.closed_by = opened


def memory_bytes() -> int:
    """Return what SQLite has taken in this process."""
    return apsw.status(apsw.SQLITE_STATUS_MEMORY_USED)[0]


def _hush(reading: asyncio.Future[Any]) -> None:
    """Take what a question raised whose caller went away."""
    if not reading.cancelled():
        reading.exception()
