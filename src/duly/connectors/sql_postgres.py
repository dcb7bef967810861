"""PostgreSQL for the `sql` connector: a database that belongs to the user, not to the host.

Law 1: every call has a connection of its own, to an address that was judged (K2, K3). The
       environment says nothing: host, user, password and TLS come from the settings.
Law 2: one transaction records the key, makes the change and keeps its result. A second sender of
       the key waits for the first at the record. It is on the disk when its commit is answered.
       The table of records is made and committed before, where a call is the first of its key.
Law 3: until the commit is sent nothing has happened, so every error before it is definite. From
       then on only an error of the server about this very transaction is (L4).
Law 4: a read runs in a transaction that the server itself keeps from changing anything (K5).
Law 5: reconcile tries to record the key itself, and takes that back. So it waits for a transaction
       of a lost connection that still runs on the server, and its answer is exact.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.conninfo import make_conninfo

from duly.connectors.reach import left_s
from duly.connectors.set_up import SetUpFault
from duly.connectors.sql_base import (
    FETCH_ROWS,
    FIRST_KEY,
    KEEPS_NOTHING,
    STATEMENTS,
    TRIAL_KEY,
    TRIAL_MS,
    TRIAL_RESULT,
    Bound,
    FoundRows,
    ReadLimits,
    SqlChange,
    SqlTrial,
    began_key,
    cannot_make,
    does_not_fit,
    lost,
    not_set_up,
    record_lost,
    take_returned,
    take_rows,
    write_result,
)
from duly.connectors.sql_text import SqlText
from duly.errors import (
    AuthNeeded,
    ConnectorError,
    NotSent,
    PermissionDenied,
    Refused,
    UnknownOutcome,
)
from duly.rules.url import IpAddress

CONNECT_S: Final = 10
READ_ONLY: Final = "isolation level repeatable read read only"
FRESH: Final = "isolation level read committed"  # each statement sees what is committed by then
CONNECT_S_MIN: Final = 2  # what libpq takes at least
WRONG_PASSWORD: Final = "password authentication failed"
FIND_S: Final = 15.0  # for one question; the host asks within 30 s
# Classes of errors by which the server refuses this very statement.
REFUSING: Final = frozenset({"0A", "21", "22", "23", "25", "42", "44", "P0"})
# Errors of a commit after which the transaction was certainly not committed.
UNCOMMITTED: Final = frozenset({"23", "40", "44", "P0"})
COMPLETION_UNKNOWN: Final = "40003"
# What the server says of a table of records that is another one, or not ours to write.
UNFIT: Final = (psycopg.ProgrammingError, psycopg.IntegrityError, psycopg.DataError)
ARGUMENT: Final = re.compile(r":([a-z_]+)")
AUTH: Final = frozenset({"28"})
# What another program may have put into the environment, and a connection that is noticed as lost.
FIXED: Final[Mapping[str, Any]] = {
    "application_name": "duly",
    "client_encoding": "utf8",
    "gssencmode": "disable",
    "keepalives_count": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "options": "",
    "passfile": "/dev/null/none",  # no such file can be there
    "requirepeer": "",
    "sslcert": "",
    "sslcrl": "",
    "sslkey": "",
    "target_session_attrs": "any",
    "tcp_user_timeout": 20_000,
}


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """Where a server is, and who asks: addresses that were judged, or a folder with its socket."""

    host: str
    port: int
    database: str
    user: str
    password: str
    addresses: tuple[IpAddress, ...] = ()
    is_plain: bool = False  # without TLS, on a network of one's own
    ca: Path | None = None

    @property
    def shown(self) -> str:
        """The place for people."""
        return f"{self.host}:{self.port}/{self.database}"

    def conninfo(self) -> str:
        """Spell the connection for libpq; what is not said here is said by no environment."""
        given = dict(FIXED)
        count = max(1, len(self.addresses))
        given |= {
            "host": ",".join([self.host] * count),
            "port": ",".join([str(self.port)] * count),
            "dbname": self.database,
            "user": self.user,
            "password": self.password,
            "hostaddr": ",".join(map(str, self.addresses)),
        }
        if self.addresses:
            given["sslmode"] = "disable" if self.is_plain else "verify-full"
            given["sslrootcert"] = "" if self.is_plain else str(self.ca or "system")
        if any("\0" in str(each) for each in given.values()):
            # libpq ends reading there, and would go without the address and the TLS behind it.
            raise Refused(f"{self.host}: a name or the password has a zero in it.")
        return make_conninfo("", **given)


class PostgresDatabase:
    """One database on a server, for one call."""

    def __init__(self, place: ServerPlace, connector: str) -> None:
        self._place = place
        self._connector = connector
        self._open: psycopg.Connection[Any] | None = None
        self._is_cut = False
        self._door = threading.Lock()

    def read(self, text: SqlText, values: Mapping[str, Bound], limits: ReadLimits) -> FoundRows:
        """Run a statement that cannot change anything."""
        with self._connected() as connection, self._definite():
            self._begin(connection, limits.timeout_s, READ_ONLY)
            with connection.cursor(name="duly") as cursor:
                cursor.itersize = FETCH_ROWS
                cursor.execute(text.formatted, values)
                return take_rows(_columns(cursor), cursor, limits.rows)

    def change(self, change: SqlChange) -> str:
        """Make a change once, and return its result as JSON text."""
        with self._connected() as connection:
            with self._definite():
                if not change.is_again:
                    self._begin_record(connection, change)
                self._begin(connection, change.timeout_s)
                _run(connection, "commit_on_disk")
                result = self._change(connection, change)
                _run(connection, "commit_on_disk")  # a function in it may have said otherwise
                if left_s() <= 0:
                    raise NotSent(f"{self._place.shown}: the time of the call was over.")
            self._commit(connection)
        return result

    def find(self, key: str, sent_ms: int) -> str | bool | None:
        """Return the result of a call that was made, False if it was not, None if it is lost."""
        with self._connected() as connection, self._definite():
            self._begin(connection, FIND_S)
            with self._own():
                first = _find(connection, FIRST_KEY)
                if first is None:
                    return None
                if not _record(connection, key, "", sent_ms):
                    found = _find(connection, key)
                    assert found is not None, key
                    return str(found[0])
                return None if _is_lost(connection, first, key, sent_ms) else False

    def check(self, trials: Sequence[SqlTrial]) -> tuple[SetUpFault, ...]:
        """Try what the set-up needs, and take all of it back; return what does not work."""
        faults: list[SetUpFault] = []
        try:
            with self._connected() as connection:
                for each in trials:
                    faults += self._plan(connection, each)
                if not all(each.is_read for each in trials):
                    with self._definite():
                        self._begin(connection, FIND_S, FRESH)
                        self._try_record(connection)
                        connection.execute(b"rollback")
        except ConnectorError as error:
            faults.insert(0, SetUpFault("", str(error)))
        return tuple(faults)

    def cut(self) -> None:
        """End the connection: a server that accepts it and is silent would hold the thread."""
        with self._door:
            self._is_cut = True
            if self._open is None:
                return
            with suppress(OSError, psycopg.Error):
                end = socket.socket(fileno=os.dup(self._open.pgconn.socket))
                with end:
                    end.shutdown(socket.SHUT_RDWR)

    # -- Within -----------------------------------------------------------------------------------

    def _change(self, connection: psycopg.Connection[Any], change: SqlChange) -> str:
        with self._own():
            first = _find(connection, FIRST_KEY)
            if first is None:
                raise record_lost(self._place.shown)
            if not _record(connection, change.key, change.tool, change.sent_ms):
                found = _find(connection, change.key)
                if found is None:
                    raise not_set_up(self._place.shown, does_not_fit(KEEPS_NOTHING))
                return str(found[0])
            if change.is_again and _is_lost(connection, first, change.key, change.sent_ms):
                raise record_lost(self._place.shown)
        cursor = connection.execute(change.text.formatted, change.values, prepare=True)
        names = _columns(cursor)
        rows = take_returned(names, cursor if names else ())
        result = write_result(rows, max(0, cursor.rowcount), change.expect)
        with self._own():
            _run(connection, "keep_result", key=change.key, result=result)
            # A trigger of a table made by hand may keep it out, without an error.
            if _find(connection, change.key) != (result, change.sent_ms):
                raise not_set_up(self._place.shown, does_not_fit(KEEPS_NOTHING))
        return result

    def _plan(self, connection: psycopg.Connection[Any], trial: SqlTrial) -> Iterator[SetUpFault]:
        """Let the server read a statement and plan it; it is not run."""
        try:
            with self._definite():
                self._begin(connection, FIND_S, READ_ONLY)
                connection.execute(f"explain {trial.text.formatted}".encode(), trial.values)
        except ConnectorError as error:
            yield SetUpFault(trial.name, str(error))
        with self._definite():
            connection.rollback()

    def _try_record(self, connection: psycopg.Connection[Any]) -> None:
        """Record a key twice, as two senders of a call would; the caller takes it back."""
        with self._own():
            _run(connection, "lock_calls")
            if not _has_calls(connection):
                self._create(connection)
            made = [_record(connection, TRIAL_KEY, "", TRIAL_MS) for _ in range(2)]
            _run(connection, "keep_result", key=TRIAL_KEY, result=TRIAL_RESULT)
            kept = _find(connection, TRIAL_KEY)
            if made != [True, False] or kept != (TRIAL_RESULT, TRIAL_MS):
                raise not_set_up(self._place.shown, does_not_fit(KEEPS_NOTHING))

    def _begin_record(self, connection: psycopg.Connection[Any], change: SqlChange) -> None:
        """Make the table of records, and say since when it is kept, before any change.

        What this first send leaves behind says that it came to this table.
        """
        with self._own():
            first = _find(connection, FIRST_KEY)
            if not lost(first, change.sent_ms):
                return
            # A role may have a stricter level of its own: under it the second of two first calls
            # would not see the table that the first has made while it waited.
            self._begin(connection, change.timeout_s, FRESH)
            _run(connection, "commit_on_disk")
            if first is None:
                _run(connection, "lock_calls")  # two first calls make one table
                if not _has_calls(connection):
                    self._create(connection)
                (now_ms,) = _run(connection, "now_ms_on_server").fetchone() or (0,)
                _record(connection, FIRST_KEY, "", int(now_ms))
            _record(connection, began_key(change.key), change.tool, change.sent_ms)
            connection.execute(b"commit")

    def _create(self, connection: psycopg.Connection[Any]) -> None:
        try:
            connection.execute(STATEMENTS["create_calls"].encode())
        except errors.InsufficientPrivilege as error:
            raise not_set_up(self._place.shown, cannot_make(_words(error))) from error

    @contextmanager
    def _own(self) -> Iterator[None]:
        """Wrap what is done to the table of records: a table that is none of ours is refused."""
        try:
            yield
        except UNFIT as error:
            raise not_set_up(self._place.shown, does_not_fit(_words(error))) from error

    def _begin(self, connection: psycopg.Connection[Any], timeout_s: float, kind: str = "") -> None:
        limit_ms = max(1, round(min(timeout_s, left_s()) * 950))
        for each in (
            f"begin {kind}",
            f"set local statement_timeout = {limit_ms}",
            f"set local lock_timeout = {limit_ms}",
            f"set local idle_in_transaction_session_timeout = {limit_ms}",
            "set local datestyle = iso",
            "set local timezone = utc",
        ):
            connection.execute(each.encode())

    def _commit(self, connection: psycopg.Connection[Any]) -> None:
        try:
            connection.execute(b"commit")
        except psycopg.Error as error:
            state = error.sqlstate or ""
            if state[:2] in UNCOMMITTED and state != COMPLETION_UNKNOWN:
                raise self._class_of(error) from error
            said = f"{self._place.shown}: the commit was sent and not answered; it may be done."
            raise UnknownOutcome(said) from error

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            connect_s = max(CONNECT_S_MIN, round(min(left_s(), CONNECT_S)))
            connection = psycopg.connect(
                self._place.conninfo(), autocommit=True, connect_timeout=connect_s
            )
        except psycopg.Error as error:
            pgconn = error.pgconn
            if pgconn is not None and pgconn.needs_password:
                raise AuthNeeded(
                    f"{self._place.shown} wants a password.", connect=self._connector
                ) from error
            # A connection that fails has no code, so the words of the server are all there is. In
            # another language than English a wrong password is retried like a server that is away.
            if pgconn is not None and pgconn.used_password and WRONG_PASSWORD in str(error):
                raise AuthNeeded(
                    f"{self._place.shown} does not take this password.", connect=self._connector
                ) from error
            raise NotSent(f"{self._place.shown}: no connection: {_words(error)}.") from error
        self._open = connection
        try:
            if self._is_cut or left_s() <= 0:
                raise NotSent(f"{self._place.shown}: the time of the call was over.")
            yield connection
        finally:
            with self._door:  # the number of its socket may be another's after this
                self._open = None
            with suppress(psycopg.Error):
                connection.close()  # what was not committed is rolled back by the server

    @contextmanager
    def _definite(self) -> Iterator[None]:
        """Wrap what comes before the commit: an error means that it did not happen (law 3)."""
        try:
            yield
        except psycopg.Error as error:
            raise self._class_of(error) from error

    def _class_of(self, error: psycopg.Error) -> ConnectorError:
        state = error.sqlstate or ""
        said = f"{self._place.shown}: {_words(error)}."
        if isinstance(error, errors.InsufficientPrivilege):
            return PermissionDenied(said)
        if state[:2] in AUTH:
            return AuthNeeded(said, connect=self._connector)
        return Refused(said) if state[:2] in REFUSING else NotSent(said)


def _has_calls(connection: psycopg.Connection[Any]) -> bool:
    (count,) = connection.execute(STATEMENTS["has_calls_on_server"].encode()).fetchone() or (0,)
    return bool(count)


def _find(connection: psycopg.Connection[Any], key: str) -> Sequence[Any] | None:
    if not _has_calls(connection):
        return None
    found: Sequence[Any] | None = _run(connection, "find_call", key=key).fetchone()
    return found


def _is_lost(connection: psycopg.Connection[Any], first: Any, key: str, sent_ms: int) -> bool:
    """Tell whether a record that is missing may have stood in a table before this one (law 2)."""
    return lost(first, sent_ms) and _find(connection, began_key(key)) is None


def _record(connection: psycopg.Connection[Any], key: str, tool: str, sent_ms: int) -> bool:
    """Record a key; tell whether it was not there, in any transaction that still runs either."""
    made = _run(connection, "insert_call", key=key, tool=tool, sent_ms=sent_ms)
    return made.fetchone() is not None


def _run(connection: psycopg.Connection[Any], name: str, **values: Bound) -> psycopg.Cursor[Any]:
    return connection.execute(ARGUMENT.sub(r"%(\1)s", STATEMENTS[name]).encode(), values)


def _columns(cursor: Any) -> list[str]:
    return [] if cursor.description is None else [str(each.name) for each in cursor.description]


def _words(error: psycopg.Error) -> str:
    """Return the first line of what the server said, without its full stop."""
    return " ".join(str(error).split("\n")[0].split())[:300].rstrip(".") or type(error).__name__
