"""Statements on their way to a PostgreSQL server: many are sent at once, and waited for once (H1).

Law 1  The server gets statements in the order in which they were given. Each batch ends with a
       Sync: the server then says that it waits, and its own limit ends a transaction whose host
       stands still (H2).
Law 2  After a statement that failed the server runs nothing more of the batch, not even a COMMIT.
       So a guard that the server checks lets a COMMIT travel with the writes that it depends on.
Law 3  A batch is all read or its connection is closed: no result is taken for another's.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from duly.store import queries
from duly.store.base import Row, stale

LOOK_MS: Final = 1000  # so soon a wait notices that its connection was closed here
TEXT, BINARY = 0, 1


class Answer:
    """What the server answered to one statement."""

    __slots__ = ("_line", "_result")

    def __init__(self, line: ServerLine, result: PGresult) -> None:
        self._line = line
        self._result = result

    @property
    def rows(self) -> list[Row]:
        """Every row; a statement that returns none has none."""
        return self._line.load(self._result)

    @property
    def changed(self) -> int:
        """How many rows it changed."""
        return self._result.command_tuples or 0

    @property
    def tag(self) -> bytes | None:
        """What the server calls that which it did."""
        return self._result.command_status


@dataclass(frozen=True, slots=True)
class SentStatement:
    """A statement to be sent: what is done with its answer, and which guard is in it."""

    text: str
    values: Sequence[Any] = ()
    take: Callable[[Answer], None] | None = None
    guards: str | None = None  # what has changed meanwhile if the statement changes no row
    is_kept: bool = True  # the server keeps it prepared


@cache
def guarded(text: str, place: int | None = None) -> str:
    """Let the server refuse a write that changes no row, or not so many as a last value says."""
    guard = queries.load("postgres")["guard_some" if place is None else "guard_all"]
    return guard.replace(":write", text).replace(":rows", f"${place}")


class ServerLine:
    """The line to a server over one connection, with what was prepared on it."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection
        self._libpq = connection.pgconn
        self._encoding = connection.info.encoding
        self._loading = Transformer(connection)
        self._names: dict[str, bytes] = {}  # of statements that the server keeps
        self._named = 0
        self.waits = 0  # how often a batch was waited for

    def carry(self, batch: Sequence[SentStatement]) -> None:
        """Send a batch, wait for all of it, and take the answers; raise what the first refused."""
        self.waits += 1
        try:
            self._libpq.enter_pipeline_mode()
            expected = [step for sent in batch for step in self._send(sent)]
            self._libpq.pipeline_sync()
            found = self._read()
            self._libpq.exit_pipeline_mode()
        except BaseException:
            self._connection.close()  # what is still under way belongs to no later batch
            raise
        for (sent, new), result in zip(expected, found, strict=False):
            if result.status == ExecStatus.FATAL_ERROR:
                raise self._explain(sent, result)
            if new is not None:
                self._names[sent.text] = new
            elif sent.take is not None:
                sent.take(Answer(self, result))
        if len(found) < len(expected):
            raise psycopg.OperationalError("the server did not answer everything")

    def load(self, result: PGresult) -> list[Row]:
        """Read the rows of a result."""
        if not result.ntuples:
            return []
        self._loading.set_pgresult(result)
        return self._loading.load_rows(0, result.ntuples, tuple)

    def _send(self, sent: SentStatement) -> list[tuple[SentStatement, bytes | None]]:
        """Hand a statement over; return which results it will have, first that of preparing it."""
        values = [spell(each, self._encoding) for each in sent.values]
        formats = [BINARY if isinstance(each, bytes) else TEXT for each in sent.values]
        text = sent.text.encode()
        if not sent.is_kept:
            self._libpq.send_query_params(text, values, param_formats=formats)
            return [(sent, None)]
        known = self._names.get(sent.text)
        if known is not None:
            self._libpq.send_query_prepared(known, values, formats)
            return [(sent, None)]
        self._named += 1
        new = b"duly_%d" % self._named
        self._libpq.send_prepare(new, text)
        self._libpq.send_query_prepared(new, values, formats)
        return [(sent, new), (sent, None)]

    def _read(self) -> list[PGresult]:
        """Read every result up to the Sync; fewer, if the server said why and hung up."""
        waiting = select.poll()
        waiting.register(self._libpq.socket, select.POLLIN)
        found: list[PGresult] = []
        has_ended = False
        try:
            while self._libpq.flush():
                self._wait(waiting, select.POLLIN | select.POLLOUT)
            while True:
                while self._libpq.is_busy():
                    self._wait(waiting, select.POLLIN)
                result = self._libpq.get_result()
                if result is None and has_ended:  # nothing more is coming
                    raise psycopg.OperationalError("the server's answer ended early")
                has_ended = result is None  # it follows each result
                if result is None:
                    continue
                if result.status == ExecStatus.PIPELINE_SYNC:
                    return found
                found.append(result)
        except psycopg.OperationalError:
            if found and found[-1].status == ExecStatus.FATAL_ERROR:
                self._connection.close()
                return found
            raise

    def _wait(self, waiting: select.poll, events: int) -> None:
        """Wait until the server has something to say, or takes more; read what it said."""
        waiting.modify(self._libpq.socket, events)
        if waiting.poll(LOOK_MS):
            self._libpq.consume_input()

    def _explain(self, sent: SentStatement, result: PGresult) -> Exception:
        error = errors.error_from_result(result, self._encoding)
        if sent.guards is not None and isinstance(error, errors.DivisionByZero):
            return stale(sent.guards)
        return error


def spell(value: Any, encoding: str) -> bytes | None:
    """Write a value without a type: the server takes that of the place where it stands."""
    if value is None or isinstance(value, bytes):
        return value
    text = str(int(value)) if isinstance(value, int) else str(value)
    if "\0" in text:  # libpq would take what is before it for the whole
        raise psycopg.DataError("PostgreSQL keeps no text with a zero byte")
    return text.encode(encoding)
