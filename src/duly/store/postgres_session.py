"""One connection to a PostgreSQL server, and what became of a commit whose answer is lost (H10).

Law 1  Every write of a host begins by moving the counter of its connection (`slot.py`).
Law 2  A new connection enters its slot before its first write. That waits until the transaction of
       the connection before it has ended.
Law 3  A transaction that was not committed because its connection was lost is run again, once.
Law 4  What happens while a slot is asked about a lost answer says nothing of the write. The slot is
       asked again; if it cannot be asked, the error says that what became of the write is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from duly.env import Env
from duly.errors import DulyError, Fenced, StoreOlder, StoreUnavailable
from duly.rules.lease import DEFAULT_TIMES, LeaseTimes
from duly.rules.seal import OPEN_KEY
from duly.store.base import Durability, Row, Transaction
from duly.store.inquiry import ResultTable, Show
from duly.store.inquiry_server import run_select
from duly.store.postgres_line import Answer, SentStatement, ServerLine, guarded
from duly.store.queries import Statement
from duly.store.slot import NAME, HostSlots, Slot, enter, read_move
from duly.store.transaction import NOT_OPEN, FindKey, NamedStatements

R = TypeVar("R")
Bound = tuple[Any, ...]

TRIES_MAX: Final = 10  # of a transaction that the server ended because of another one
LOST_MAX: Final = 1  # how often what was lost with its connection is run, or asked, again
READ_S_MAX: Final = 60
BATCH_MAX: Final = 100  # statements that are sent together
BATCH_CHARS_MAX: Final = 32_000  # and their texts; libpq sends more than twice that on its own
FIRST: Final = "before_"  # a statement of this name and another's is run before that other one

OF_LEASE: Final = -1  # the number of the slot that is entered on the connection of the lease

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

    Without a host nothing is counted. A test may bring another clock, timeline and start.
    """

    find_key: FindKey = lambda: OPEN_KEY
    find_host: Callable[[], str] | None = None
    clock: Callable[[], int] | None = None
    timeline: Callable[[], int | None] | None = None
    started: Callable[[], int | None] | None = None
    times: LeaseTimes = DEFAULT_TIMES
    slots: HostSlots = field(default_factory=HostSlots)
    # Called in the transaction that enters a slot: a promotion is noted before anything else.
    on_enter: Callable[[Transaction], None] = lambda _: None


class PostgresTransaction(NamedStatements):
    """The open transaction of one verb: named statements over one line.

    What is not waited for is sent with what is waited for next. An error or a refusal of it is
    raised there, before any later one.
    """

    def __init__(
        self, line: ServerLine, statements: Mapping[str, Statement], beside: Beside
    ) -> None:
        super().__init__(statements, None)
        self._line = line
        self._beside = beside
        self._batch: list[SentStatement] = []
        self._batch_chars = 0
        self._changed = 0
        self._has_begun = False

    def begin(self, text: str, *limits: str) -> None:
        """Begin a transaction; a host's first statement goes with it."""
        self._send(SentStatement(text, is_kept=False))
        self._send(SentStatement(self._statements["set_limits"].text, limits))

    def count(self, slot: Slot) -> None:
        """Count this write in its slot, as its first statement; refuse it for an evicted host."""

        def take(answer: Answer) -> None:
            slot.commit_seq = read_move(slot, answer.rows)

        self.host = slot.host_id
        known, bound = self._bind("move_slot", slot.named)
        self._send(SentStatement(known.text, bound, take))

    def commit(self) -> None:
        """Commit; what was sent ahead goes with it."""
        self._send(SentStatement("commit", take=_must_be_committed, is_kept=False))
        self.settle()

    def settle(self, *, at_least_begun: bool = False) -> None:
        """Wait for everything that was sent ahead, or only if nothing was waited for yet."""
        if at_least_begun and self._has_begun:
            return
        batch, self._batch, self._batch_chars = self._batch, [], 0
        self._has_begun = True
        if not batch:
            return
        try:
            self._line.carry(batch)
        except (psycopg.Error, DulyError) as error:
            self.closed_by = error
            raise

    @property
    def clock_ms(self) -> int:
        """What the server's own clock shows (H2)."""
        if self._beside.clock is not None:
            return self._beside.clock()
        ((shown,),) = self.all("server_clock")
        return int(shown)

    @property
    def timeline(self) -> int | None:
        """Which history this server tells; a promotion begins another (H10)."""
        if self._beside.timeline is not None:
            return self._beside.timeline()
        ((number,),) = self.all("server_timeline")
        return int(number)

    @property
    def started(self) -> int | None:
        """Which start of the server this is, and which database of it (H10)."""
        if self._beside.started is not None:
            return self._beside.started()
        ((moment,),) = self.all("server_started")
        return int(moment)

    @property
    def seal_key(self) -> bytes | None:
        """The key that rows are sealed with, which is not in the database (L15)."""
        return self._beside.find_key()

    def write(self, statement: str, /, **parameters: Any) -> None:
        """Send a statement of which nothing is asked with the next ones."""
        known, bound = self._find(statement, parameters)
        self._send(SentStatement(known.text, bound))

    def change(
        self, statement: str, what: str, rows: int | None = None, /, **parameters: Any
    ) -> None:
        """Send a write that must change rows with the next ones; the server refuses it (R8)."""
        known, bound = self._find(statement, parameters)
        if rows is None:
            self._send(SentStatement(guarded(known.text), bound, guards=what))
        else:
            text = guarded(known.text, len(bound) + 1)
            self._send(SentStatement(text, (*bound, rows), guards=what))

    def _count_changes(self) -> int:
        return self._changed

    def _rows(self, statement: str, parameters: dict[str, Any]) -> list[Row]:
        known, bound = self._find(statement, parameters)
        found: list[Row] = []

        def take(answer: Answer) -> None:
            found.extend(answer.rows)
            self._changed = answer.changed

        self._send(SentStatement(known.text, bound, take))
        self.settle()
        return found

    def _find(self, statement: str, parameters: dict[str, Any]) -> tuple[Statement, Bound]:
        """Bind a statement, and send the one that locks for it before it."""
        known, bound = self._bind(statement, parameters)
        first = self._statements.get(FIRST + statement)
        if first is not None:
            # In a statement of its own: only the next one sees what the lock waited for.
            self._send(SentStatement(first.text, first.bind(parameters)))
        return known, bound

    def _send(self, sent: SentStatement) -> None:
        """Let a statement wait for the next ones, up to a limit."""
        self._batch.append(sent)
        self._batch_chars += sum(len(each) for each in sent.values if isinstance(each, str | bytes))
        if len(self._batch) >= BATCH_MAX or self._batch_chars >= BATCH_CHARS_MAX:
            self.settle()


def _must_be_committed(answer: Answer) -> None:
    assert answer.tag == b"COMMIT", answer.tag


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
        self._opened: tuple[psycopg.Connection[Row], ServerLine] | None = None
        self._entered: Slot | None = None  # the slot that this connection has entered

    def run(
        self,
        body: Callable[[Transaction], R],
        durability: Durability,
        beside: Beside,
        host_id: str | None,
    ) -> R:
        """Run a body in a transaction of its own, again if the server ended it for another.

        Every attempt is one of the same host. Without a host nothing is counted.
        """
        ended = lost = 0
        while True:
            try:
                return self._try(body, durability, beside, host_id)
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
        connection, _ = self._open()
        with connection.transaction():
            connection.execute("set local synchronous_commit = on")
            connection.execute(self._writing["flush_log"].text.encode())

    def inquire(self, env: Env, query: str, rows_max: int, show: Show) -> ResultTable:
        """Run a person's own SELECT, which changes nothing (H1)."""
        connection, _ = self._open()
        return run_select(connection, env, query, rows_max, show)

    def close(self) -> None:
        """Give the connection back."""
        if self._opened is not None:
            self._opened[0].close()

    def _try(
        self,
        body: Callable[[Transaction], R],
        durability: Durability,
        beside: Beside,
        host_id: str | None,
    ) -> R:
        is_read = durability is Durability.READ
        connection, line = self._open()
        statements = self._reading if is_read else self._writing
        transaction = PostgresTransaction(line, statements, beside)
        slot, is_sent, began = None, False, (0, 0)
        try:
            if host_id is not None:
                slot = self._enter(beside, host_id)
                began = beside.slots.moment
            transaction.begin(*_begin(durability, beside.times))
            if slot is not None:
                transaction.count(slot)
            value = _perform(body, transaction)
            transaction.settle(at_least_begun=True)  # the counter is known before it may be asked
            is_sent = True
            transaction.commit()
            transaction.closed_by = NOT_OPEN
        except BaseException as error:
            transaction.closed_by = NOT_OPEN
            if not self._is_lost(connection, error, is_read=is_read):
                _roll_back(connection)
                raise
            connection.close()
            if isinstance(error, errors.ReadOnlySqlTransaction):  # the server is a standby now
                error = psycopg.OperationalError(str(error))
            if is_sent and not is_read and slot is None:  # nothing was counted
                raise _unknown(error) from error
            # It is told of the slot that was entered to ask: the one before may be dropped.
            slot = None if not is_sent or slot is None else self._ask(slot, beside)
            if slot is None:
                raise _NotCommitted(error) from error
        if slot is not None:
            beside.slots.tell(slot, durability, began)
        return value

    def _ask(self, slot: Slot, beside: Beside) -> Slot | None:
        """Ask on a new connection for a write whose answer was lost: its slot, if it is there.

        See law 4.
        """
        moved = slot.commit_seq
        ended = failed = 0
        while True:
            try:
                entered = self._enter(beside, slot.host_id)
                return entered if entered.commit_seq >= moved else None
            except StoreOlder:
                raise
            except (errors.DeadlockDetected, errors.SerializationFailure) as error:
                ended += 1
                if ended >= TRIES_MAX:
                    raise _unknown(error) from error
            except (errors.QueryCanceled, psycopg.OperationalError) as error:
                failed += 1
                if failed > LOST_MAX:
                    raise _unknown(error) from error
            except (psycopg.Error, DulyError) as error:  # evicted since, also after the commit
                raise _unknown(error) from error

    def _enter(self, beside: Beside, host_id: str) -> Slot:
        """Enter the slot, once for each connection and each host, and again to compare."""
        if beside.slots.has_given_up(host_id):  # also on a connection that has entered
            raise Fenced(code="lapsed", subject=host_id)
        self._open()
        is_new = self._entered is None or self._entered.host_id != host_id
        if self._entered is not None and not is_new and not beside.slots.must_compare:
            return self._entered
        self._entered = self._compare(beside, host_id, self._number, is_new=is_new)
        return self._entered

    def compare(self, beside: Beside, host_id: str) -> None:
        """Compare what a host was told, where none of its own connections can be had (H10)."""
        self._compare(beside, host_id, OF_LEASE, is_new=True)

    def _compare(self, beside: Beside, host_id: str, number: int, *, is_new: bool) -> Slot:
        connection, line = self._open()
        try:
            with connection.transaction():
                connection.execute(_limits(beside.times), prepare=False)
                entering = PostgresTransaction(line, self._writing, beside)
                beside.on_enter(entering)
                entered = enter(entering, beside.slots, host_id, number)
                entering.settle()
        except errors.ForeignKeyViolation:  # evicted at this moment
            raise Fenced(code="lapsed", subject=host_id) from None
        # Asked when it has entered: what was entered under a later id before that is known by now.
        is_former = beside.find_host is not None and beside.find_host() != host_id
        return beside.slots.keep(entered, is_new=is_new, is_former=is_former)

    def _is_lost(
        self, connection: psycopg.Connection[Row], error: BaseException, *, is_read: bool
    ) -> bool:
        """Tell whether the server is gone, or is one that takes no writes any more."""
        is_demoted = isinstance(error, errors.ReadOnlySqlTransaction) and not is_read
        return connection.closed or connection.broken or is_demoted

    def _open(self) -> tuple[psycopg.Connection[Row], ServerLine]:
        if self._opened is None or self._opened[0].closed:
            self._entered = None
            connection = dial(self._url)
            connection.adapters.register_loader("numeric", _Number)
            connection.adapters.register_loader("bool", _Bit)
            connection.prepare_threshold = None  # the line prepares; a rollback leaves it prepared
            self._opened = connection, ServerLine(connection)
        return self._opened


def _unknown(cause: BaseException) -> StoreUnavailable:
    """Say that a write may have been committed, or may still be (H3)."""
    facts = {"cause": str(cause).strip()}
    return StoreUnavailable(code="commit_unknown", subject=NAME, facts=facts)


def _perform(body: Callable[[Transaction], R], transaction: PostgresTransaction) -> R:
    """Run a body; what it sent ahead is refused before anything that it refuses itself."""
    try:
        value = body(transaction)
    except Exception:
        if transaction.closed_by is None:
            transaction.settle()
        raise
    if transaction.closed_by is not None:
        raise transaction.closed_by
    return value


def dial(url: str) -> psycopg.Connection[Row]:
    """Connect to a server; what the URL does not say is said by Duly."""
    given: dict[str, Any] = {**CONNECTING, **conninfo_to_dict(url)}
    return psycopg.connect(make_conninfo("", **given), autocommit=True)


def hasten(url: str, ends_ms: int) -> str:
    """Let a line end when what was sent into it is not taken for so long.

    It is for small writes alone. A large one fills the line while it waits for a lock, and the
    kernel cannot tell such a line from one that hangs. What the URL says wins.
    """
    given: dict[str, Any] = {"tcp_user_timeout": ends_ms, **conninfo_to_dict(url)}
    return make_conninfo("", **given)


def _begin(durability: Durability, times: LeaseTimes) -> tuple[str, ...]:
    """Say how a transaction begins, and its limits; a reader sees one moment.

    No transaction of a host that is stopped holds up another host for a lease (H2).
    """
    is_read = durability is Durability.READ
    return (
        "begin isolation level repeatable read read only" if is_read else "begin",
        "on" if durability is Durability.BARRIER else "off",
        str(times.idle_ms),
        str(READ_S_MAX * 1000 if is_read else times.lease_ms),
    )


def _limits(times: LeaseTimes) -> bytes:
    """Set the limits of a write that is begun without a line, and let it wait for the disk."""
    return (
        f"set local synchronous_commit = on; "
        f"set local idle_in_transaction_session_timeout = {times.idle_ms}; "
        f"set local statement_timeout = {times.lease_ms}"
    ).encode()


def _roll_back(connection: psycopg.Connection[Row]) -> None:
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        try:
            connection.execute("rollback", prepare=False)
        except psycopg.Error:
            connection.close()
