"""One connection to a PostgreSQL server, and what became of a commit whose answer is lost (H10).

Law 1  Every write of a host begins by moving a counter of its connection, its *slot*. A host that
       was evicted has no slots: it writes nothing more, an act of a person included (H2).
Law 2  A new connection raises the session of its slot. That waits until the transaction of the
       connection before it has ended, and a transaction that comes later finds another session. So
       the counter says for certain whether the last write was committed.
Law 3  A transaction that was not committed because its connection was lost is run again, once.
Law 4  A counter below the last barrier that was acknowledged shows a store that is older than its
       host was told: a standby that was promoted, or a backup. It is treated like a restored copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from duly.errors import Fenced, StoreOlder
from duly.rules.lease import DEFAULT_TIMES, LeaseTimes
from duly.rules.seal import OPEN_KEY
from duly.store.base import Durability, Row, Transaction
from duly.store.queries import Statement
from duly.store.transaction import NOT_OPEN, FindKey, NamedStatements

R = TypeVar("R")

TRIES_MAX: Final = 10  # of a transaction that the server ended because of another one
LOST_MAX: Final = 1  # how often a transaction whose connection was lost is run again
READ_S_MAX: Final = 60
NAME: Final = "PostgreSQL"
FIRST: Final = "before_"  # a statement of this name and another's is run before that other one

# How soon a server that is cut off is noticed; what the URL says wins.
CONNECTING: Final = {
    "application_name": "duly",
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "target_session_attrs": "read-write",
}


class _Number(Loader):
    """A sum of whole numbers is a whole number, as in SQLite."""

    def load(self, data: Any) -> int | float:
        text = bytes(data)
        return float(text) if b"." in text else int(text)


class _Bit(Loader):
    """Yes and no are numbers, as in SQLite."""

    def load(self, data: Any) -> int:
        return int(bytes(data) == b"t")


@dataclass(slots=True)
class Beside:
    """What a transaction knows that is not in the database: the host that writes, and a key.

    Without a host nothing is counted. A test may bring another clock.
    """

    find_key: FindKey = lambda: OPEN_KEY
    find_host: Callable[[], str] | None = None
    clock: Callable[[], int] | None = None
    times: LeaseTimes = DEFAULT_TIMES


class PostgresTransaction(NamedStatements):
    """The open transaction of one verb: named statements over one connection."""

    def __init__(
        self,
        connection: psycopg.Connection[Row],
        statements: Mapping[str, Statement],
        beside: Beside,
    ) -> None:
        super().__init__(statements, None)
        self._cursor = psycopg.RawCursor(connection)
        self._beside = beside

    @property
    def clock_ms(self) -> int:
        """What the server's own clock shows (H2)."""
        if self._beside.clock is not None:
            return self._beside.clock()
        ((shown,),) = self.all("server_clock")
        return int(shown)

    @property
    def seal_key(self) -> bytes | None:
        """The key that rows are sealed with, which is not in the database (L15)."""
        return self._beside.find_key()

    def _count_changes(self) -> int:
        return self._cursor.rowcount

    def _rows(self, statement: str, parameters: dict[str, Any]) -> list[Row]:
        known, bound = self._bind(statement, parameters)
        first = self._statements.get(FIRST + statement)
        if first is not None:
            # It locks, in a statement of its own: only the next one sees what the lock waited for.
            self._execute(first, first.bind(parameters))
        return self._execute(known, bound)

    def _execute(self, known: Statement, bound: tuple[Any, ...]) -> list[Row]:
        try:
            self._cursor.execute(known.text, [_spell(each) for each in bound], prepare=True)
            return self._cursor.fetchall() if self._cursor.description else []
        except psycopg.Error as error:
            self.closed_by = error
            raise


def _spell(value: Any) -> str | None:
    """Write a value without a type: the server takes that of the place where it stands."""
    if value is None:
        return None
    return str(int(value)) if isinstance(value, int) else str(value)


@dataclass(slots=True)
class _Slot:
    """What one connection of a host knows of its counter."""

    host_id: str
    session: int
    commit_seq: int
    barrier_seq: int = 0  # of the last barrier that was acknowledged


class _NotCommitted(Exception):
    """The connection was lost, and the transaction is certainly not committed."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__()
        self.cause = cause


class ServerSession:
    """One connection of a pool, used by one thread at a time; made anew when it was lost."""

    def __init__(
        self,
        url: str,
        number: int,
        reading: Mapping[str, Statement],
        writing: Mapping[str, Statement],
    ) -> None:
        self._url = url
        self._number = number
        self._reading = reading
        self._writing = writing
        self._connection: psycopg.Connection[Row] | None = None
        self._slot: _Slot | None = None
        self._is_entered = False  # this connection has raised the session of its slot

    def run(self, body: Callable[[Transaction], R], durability: Durability, beside: Beside) -> R:
        """Run a body in a transaction of its own, again if the server ended it for another."""
        ended = lost = 0
        while True:
            try:
                return self._try(body, durability, beside)
            except (errors.DeadlockDetected, errors.SerializationFailure):
                ended += 1
                if ended >= TRIES_MAX:
                    raise
            except _NotCommitted as error:
                lost += 1
                if lost > LOST_MAX:
                    raise error.cause from None

    def flush(self) -> None:
        """Return when everything committed so far is on the server's disk."""
        connection = self._open()
        with connection.transaction():
            connection.execute("set local synchronous_commit = on")
            connection.execute(self._writing["flush_log"].text.encode())

    def forget_barriers(self) -> None:
        """Compare with nothing that was told before: the store is known to be older (law 4)."""
        if self._slot is not None:
            self._slot.barrier_seq = 0

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            self._connection.close()

    def _try(self, body: Callable[[Transaction], R], durability: Durability, beside: Beside) -> R:
        is_read = durability is Durability.READ
        connection = self._open()
        statements = self._reading if is_read else self._writing
        transaction = PostgresTransaction(connection, statements, beside)
        slot, is_sent = None, False
        try:
            if not is_read and beside.find_host is not None:
                slot = self._enter(connection, beside, beside.find_host())
            connection.execute(_begin(durability, beside.times), prepare=False)
            if slot is not None:
                self._move(transaction, slot)
            value = body(transaction)
            if transaction.closed_by is not None:
                raise transaction.closed_by
            transaction.closed_by = NOT_OPEN
            is_sent = True
            said = connection.execute("commit", prepare=False).statusmessage
            assert said == "COMMIT", said
        except BaseException as error:
            transaction.closed_by = NOT_OPEN
            if not self._is_lost(connection, error, is_read=is_read):
                _roll_back(connection)
                raise
            connection.close()
            if isinstance(error, errors.ReadOnlySqlTransaction):  # the server is a standby now
                error = psycopg.OperationalError(str(error))
            if is_sent and not is_read and slot is None:
                raise  # nothing was counted, so what became of it cannot be known
            if not is_sent or slot is None or not self._was_committed(slot, beside):
                raise _NotCommitted(error) from error
        if slot is not None and durability is Durability.BARRIER:
            slot.barrier_seq = slot.commit_seq
        return value

    def _was_committed(self, slot: _Slot, beside: Beside) -> bool:
        """Ask on a new connection whether the write whose answer was lost is there (law 2)."""
        moved = slot.commit_seq
        return self._enter(self._open(), beside, slot.host_id).commit_seq >= moved

    def _enter(self, connection: psycopg.Connection[Row], beside: Beside, host_id: str) -> _Slot:
        """Raise the session of the slot, once for each connection and each host."""
        known = self._slot
        if known is not None and known.host_id == host_id and self._is_entered:
            return known
        named = {"host": host_id, "number": self._number}
        try:
            with connection.transaction():
                connection.execute(_limits(beside.times), prepare=False)
                entering = PostgresTransaction(connection, self._writing, beside)
                ((session, commit_seq),) = entering.all("enter_slot", **named)
        except errors.ForeignKeyViolation:
            raise Fenced(code="lapsed", subject=host_id) from None
        if known is None or known.host_id != host_id:
            known = self._slot = _Slot(host_id, session, commit_seq)
        known.session, known.commit_seq = session, commit_seq
        if commit_seq < known.barrier_seq:
            raise StoreOlder(code="store_older", subject=NAME)
        self._is_entered = True
        return known

    def _move(self, transaction: PostgresTransaction, slot: _Slot) -> None:
        named = {"host": slot.host_id, "number": self._number, "session": slot.session}
        moved = transaction.one("move_slot", **named)
        if moved is None:
            raise Fenced(code="lapsed", subject=slot.host_id)
        slot.commit_seq = moved[0]

    def _is_lost(
        self, connection: psycopg.Connection[Row], error: BaseException, *, is_read: bool
    ) -> bool:
        """Tell whether the server is gone, or is one that takes no writes any more."""
        is_demoted = isinstance(error, errors.ReadOnlySqlTransaction) and not is_read
        return connection.closed or connection.broken or is_demoted

    def _open(self) -> psycopg.Connection[Row]:
        if self._connection is None or self._connection.closed:
            self._is_entered = False
            connection = dial(self._url)
            connection.adapters.register_loader("numeric", _Number)
            connection.adapters.register_loader("bool", _Bit)
            connection.prepare_threshold = 0
            connection.prepared_max = None
            self._connection = connection
        return self._connection


def dial(url: str) -> psycopg.Connection[Row]:
    """Connect to a server; what the URL does not say is said by Duly."""
    given: dict[str, Any] = {**CONNECTING, **conninfo_to_dict(url)}
    return psycopg.connect(make_conninfo("", **given), autocommit=True)


def _begin(durability: Durability, times: LeaseTimes) -> bytes:
    """Begin a transaction; a reader sees one moment."""
    if durability is Durability.READ:
        limit_ms = READ_S_MAX * 1000
        begun = f"begin isolation level repeatable read read only; {_limit(limit_ms, times)}"
        return begun.encode()
    word = "on" if durability is Durability.BARRIER else "off"
    begun = f"begin; set local synchronous_commit = {word}; "
    return begun.encode() + _limits(times)


def _limits(times: LeaseTimes) -> bytes:
    return _limit(times.lease_ms, times).encode()


def _limit(statement_ms: int, times: LeaseTimes) -> str:
    """Let no transaction of a host that is stopped hold up another host for a lease (H2)."""
    return (
        f"set local idle_in_transaction_session_timeout = {times.idle_ms}; "
        f"set local statement_timeout = {statement_ms}"
    )


def _roll_back(connection: psycopg.Connection[Row]) -> None:
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        try:
            connection.execute("rollback", prepare=False)
        except psycopg.Error:
            connection.close()
