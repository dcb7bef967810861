"""A database of the user's: each statement in the settings is a tool with types of its own.

    [connectors.books]
    use = "sql"
    url = "sqlite:///books.db"

    [connectors.books.operations.unpaid]
    sql = "select id, total from invoices where customer = :customer and paid = 0"
    arguments = { customer = "string" }

    [connectors.books.operations.add_invoice]
    sql = "insert into invoices (customer, total) values (:customer, :total) returning id"
    arguments = { customer = "string", total = "number" }
    noun = "invoice"

Law 1: a script passes values, never SQL. Statements stand in the settings alone.
Law 2: a read runs where the database itself lets nothing be changed, within limits of rows, bytes
       and time (K5, K6).
Law 3: a change is one statement. The record of its key is written in the same transaction, so it
       is made exactly once, and reconcile knows for certain (L5, L7).
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypedDict, cast
from urllib.parse import unquote

import msgspec

from duly.connectors.base import (
    Applied,
    Call,
    NotApplied,
    Page,
    R,
    Unsure,
    Verdict,
    mutation,
    read,
)
from duly.connectors.folder import Folder, Foldered
from duly.connectors.named import describe
from duly.connectors.place import (
    KINDS,
    TYPES,
    Argument,
    Place,
    check_name,
    read_arguments,
    read_returns,
    read_terms,
)
from duly.connectors.reach import find_addresses, why_of, within
from duly.connectors.response import BrokenExchange
from duly.connectors.set_up import CheckedConnector, SetUpFault
from duly.connectors.sql_base import (
    LOST,
    Bound,
    ReadLimits,
    SqlChange,
    SqlDatabase,
    SqlTrial,
    bind,
    sent_ms_of,
)
from duly.connectors.sql_text import READS, WRITES, SqlText, read_statement
from duly.errors import ConfigError, ConnectorError, Invalid, NotSent
from duly.rules.url import IpAddress, read_host
from duly.rules.value import Json, suggest

SQLITE: Final = "sqlite:///"
SERVER: Final = re.compile(
    r"postgres(?:ql)?://(?:([A-Za-z0-9_.%~-]+)@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+)?"
    r"(?::([1-9][0-9]{0,4}))?/([A-Za-z0-9_.%~-]+)"
)
PORT: Final = 5432
LAG_S: Final = 5.0
FIND_S: Final = 20.0  # for one question; the host asks within 30 s
ROWS_MAX: Final = 1_000
ROWS: Final = 200  # that a read returns unless its table says otherwise
HAPPENED: Final = "_happened"
SAMPLES: Final[Mapping[Any, Bound]] = MappingProxyType(
    {TYPES[each]: value for each, value in (("integer", 1), ("number", 1.5), ("boolean", True))}
)
KNOWN: Final = ("does", "sql", "kind", "arguments", "capability", "noun", "timeout_s")
KNOWN_READ: Final = (*KNOWN, "returns", "rows_max")
KNOWN_MUTATION: Final = (*KNOWN, "risk", "lag_s", "labels", "editable", "expect")


class ChangedRows(TypedDict):
    """The result of a change: how many rows it changed, and what it returned of them."""

    count: int
    rows: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SqlOperation:
    """One named statement: what scripts call as `ctx.books.add_invoice(…)`."""

    name: str
    text: SqlText
    kind: Literal["read", "read_by_id", "mutation"]
    does: str
    arguments: tuple[Argument, ...]
    returns: Any
    rows_max: int
    expect: int | None
    terms: Mapping[str, Any]

    @property
    def timeout_s(self) -> float:
        """How long it may take."""
        return float(self.terms["timeout_s"])


class Sql(Foldered, CheckedConnector):
    """A database: `sqlite:///books.db`, or `postgresql://user@host/books` with a secret.

    `socket` is the folder of a server on this machine, in place of a host. `allow` names hosts that
    may be private, `ca` is a file with the certificates to trust, `tls = "off"` is for hosts that
    `allow` names.
    """

    name = "sql"

    def __init__(
        self,
        url: str,
        *,
        operations: Mapping[str, Any],
        secret: str | None = None,
        socket: str | None = None,
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        tls: str = "verify",
        name: str = "sql",
    ) -> None:
        self.name = name
        self._server: _Server | None = None
        if url.startswith(SQLITE):
            for key, given in (("secret", secret), ("socket", socket), ("ca", ca)):
                if given is not None:
                    raise ConfigError(f"{key}: a SQLite file needs none. Leave it out.")
            file = Path(url.removeprefix(SQLITE)).expanduser()
            if not file.name:
                raise ConfigError(f"url: {url!r} names no file. Write sqlite:///books.db.")
            self._folder = Folder.at(file.parent, name)
            self._file = file.name
        else:
            self._server = _read_server(url, secret, socket, allow, ca, tls)
            self._origin = self._server.origin
            self._secret_names = () if secret is None else (secret,)
            self.local = socket is not None  # a server is reached from any machine, a socket is not
        is_file = self._server is None
        found = tuple(
            _read_operation(str(each), Place(f"operations.{each}", table), is_file=is_file)
            for each, table in Place("operations", operations).table.items()
        )
        if not found:
            raise ConfigError("operations: there is none, so scripts can do nothing. Describe one.")
        self._operations = found
        self.__class__ = _class_for(type(self), found)

    async def _check(self) -> tuple[SetUpFault, ...]:
        """Connect, plan every statement, and try the table of records; nothing stays of it."""
        try:
            database = await self._reach()
        except (ConfigError, ConnectorError) as error:
            return (SetUpFault("", str(error)),)
        work = partial(database.check, tuple(map(_trial_of, self._operations)))
        return await self._in_time(database, work, FIND_S)

    async def _reach(self) -> SqlDatabase:
        """Return the database, at an address that was judged."""
        server = self._server
        if server is None:
            # A host without a database imports neither.
            from duly.connectors.sql_sqlite import SqliteDatabase

            return SqliteDatabase(self._folder, self._file)
        try:
            from duly.connectors.sql_postgres import PostgresDatabase, ServerPlace
        except ImportError as error:
            raise ConfigError(
                'PostgreSQL needs psycopg. Install it: pip install "duly[postgres]"'
            ) from error
        addresses: tuple[IpAddress, ...] = ()
        if server.socket is None:
            try:
                addresses = await find_addresses(server.host, server.port, allow=server.allow)
            except (OSError, BrokenExchange) as error:
                why = why_of(error, 0)
                raise NotSent(f"{server.origin}: nothing was sent: {why}.") from error
        password = "" if server.secret is None else self.secret(server.secret)
        place = ServerPlace(
            server.socket or server.host,
            server.port,
            server.database,
            server.user,
            password,
            addresses,
            server.is_plain,
            server.ca,
        )
        return PostgresDatabase(place, self.name)

    async def _perform(self, operation: SqlOperation, args: Mapping[str, Json]) -> Any:
        """Run a statement that reads."""
        database = await self._reach()
        by_id = operation.kind == "read_by_id"
        limits = ReadLimits(1 if by_id else operation.rows_max, operation.timeout_s)
        values = bind(operation.text, args)
        work = partial(database.read, operation.text, values, limits)
        found = await self._in_time(database, work, operation.timeout_s)
        if by_id:
            return found.rows[0] if found.rows else None
        return Page(found.rows, has_more=found.has_more)

    async def _apply(self, operation: SqlOperation, call: Call) -> Json:
        """Run a statement that changes, once."""
        database = await self._reach()
        values = bind(operation.text, call.args)
        change = SqlChange.of(call, operation.text, operation.expect, values, operation.timeout_s)
        work = partial(database.change, change)
        text = await self._in_time(database, work, operation.timeout_s)
        return cast("Json", msgspec.json.decode(text))

    async def _find(self, call: Call) -> Verdict:
        """Look for the record of a call."""
        database = await self._reach()
        work = partial(database.find, call.key, sent_ms_of(call))
        found = await self._in_time(database, work, FIND_S)
        if isinstance(found, str):
            return Applied(msgspec.json.decode(found))
        return Unsure(LOST) if found is None else NotApplied()

    async def _in_time(self, database: SqlDatabase, work: Callable[[], R], timeout_s: float) -> R:
        """Run what blocks in a thread; a server that is silent is cut off when its time is over."""
        timer = asyncio.get_running_loop().call_later(within(timeout_s), database.cut)
        try:
            return await self.in_thread(work)
        finally:
            timer.cancel()


# -- Reading the settings -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Server:
    host: str
    port: int
    database: str
    user: str
    secret: str | None
    socket: str | None
    allow: frozenset[str]
    ca: Path | None
    is_plain: bool

    @property
    def origin(self) -> str:
        """The place that its secret belongs to (K4)."""
        return f"postgresql://{self.socket or self.host}:{self.port}/{self.database}"


def _read_server(
    url: str,
    secret: str | None,
    socket: str | None,
    allow: Sequence[str],
    ca: str | Path | None,
    tls: str,
) -> _Server:
    found = SERVER.fullmatch(url)
    if found is None:
        raise ConfigError(
            "url: write sqlite:///books.db or postgresql://user@host:5432/books. The password is a"
            ' secret: secret = "password".'
        )
    user, host, port, database = found.groups()
    if tls not in ("verify", "off"):
        raise ConfigError(f'tls: it is {tls!r}. Write "verify" or "off".')
    if (host is None) == (socket is None):
        raise ConfigError("url: name a host in it, or the folder of a socket: socket = …")
    if socket is not None and (not socket.startswith("/") or "," in socket):
        # libpq would take it for the name of a host, or of several, that was never judged (K3).
        raise ConfigError(f"socket: {socket!r} is no folder. Write a path that begins with /.")
    try:
        named = "" if host is None else read_host(host, path="url")
        allowed = frozenset(read_host(each, path="allow") for each in allow)
    except Invalid as error:
        raise ConfigError(str(error)) from None
    if tls == "off" and socket is None and named not in allowed:
        raise ConfigError(
            f'tls: "off" would send everything in the clear. Name {named} in allow if it is on your'
            " own network."
        )
    if user is None:
        raise ConfigError("url: it names no user. Write postgresql://user@host/books.")
    return _Server(
        host=named,
        port=PORT if port is None else int(port),
        database=unquote(database),
        user=unquote(user),
        secret=secret,
        socket=socket,
        allow=allowed,
        ca=None if ca is None else Path(ca),
        is_plain=tls == "off",
    )


def _read_operation(name: str, place: Place, *, is_file: bool) -> SqlOperation:
    check_name(place, name)
    try:
        text = read_statement(place.text("sql"), "sql", has_bracketed_names=is_file)
    except Invalid as error:
        place.refuse("sql", str(error))
    if text.first not in READS | WRITES:
        known = ", ".join(sorted(READS | WRITES))
        place.refuse("sql", f"it begins with {text.first!r}. It can begin with {known}.")
    if text.first == "with" and "kind" not in place.table:
        place.refuse("kind", 'say what it is: "read" or "mutation".')
    kind = place.word("kind", KINDS, "read" if text.first in READS else "mutation")
    is_mutation = kind == "mutation"
    if text.first not in (WRITES if is_mutation else READS):
        place.refuse("kind", f"a {kind} cannot begin with {text.first}.")
    place.only(KNOWN_MUTATION if is_mutation else KNOWN_READ)
    arguments = read_arguments(place)
    names = {each.name for each in arguments}
    for each in sorted(text.arguments - names):
        place.refuse("sql", f":{each} is no argument. {suggest(each, names)}")
    for each in sorted(names - text.arguments):
        place.refuse(f"arguments.{each}", f"it stands nowhere in the statement as :{each}.")
    terms = read_terms(place, is_mutation=is_mutation)
    if is_mutation and "lag_s" not in place.table:
        terms["lag_s"] = LAG_S
    rows_max = _read_count(place, "rows_max", ROWS_MAX) or ROWS
    what = f"{text.first.capitalize()} in the database"
    gives = "how many rows it changed" if is_mutation else f"at most {rows_max} rows at a time"
    return SqlOperation(
        name=name,
        text=text,
        kind=cast('Literal["read", "read_by_id", "mutation"]', kind),
        does=place.text("does", f"{what}: {gives}."),
        arguments=arguments,
        returns=ChangedRows if is_mutation else read_returns(place),
        rows_max=rows_max,
        expect=_read_count(place, "expect", ROWS_MAX),
        terms=terms,
    )


def _read_count(place: Place, key: str, most: int) -> int | None:
    value = place.table.get(key)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_number and 1 <= value <= most):
        place.refuse(key, f"it is {value!r}. Write a number from 1 to {most}.")
    return value


def _trial_of(operation: SqlOperation) -> SqlTrial:
    """Spell a statement with values of its kinds; no text is given, since not every text fits."""
    values = {each.name: _sample(each.annotation) for each in operation.arguments}
    return SqlTrial(operation.name, operation.text, values, operation.kind != "mutation")


def _sample(annotation: Any) -> Bound:
    return next(
        (value for kind, value in SAMPLES.items() if annotation in (kind, kind | None)), None
    )


# -- Making the class -----------------------------------------------------------------------------


def _class_for(kind: type[Sql], operations: Sequence[SqlOperation]) -> type[Sql]:
    """Make the class whose methods are the operations."""
    made: dict[str, Any] = {"__module__": __name__, "__doc__": kind.__doc__}
    for each in operations:
        if hasattr(kind, each.name) or each.name in made:
            raise ConfigError(
                f"operations.{each.name}: the connector has something of this name already."
                " Rename it."
            )
        made |= _mutation_of(each) if each.kind == "mutation" else {each.name: _read_of(each)}
    return type(Sql.__name__, (kind,), made)


def _read_of(operation: SqlOperation) -> Any:
    async def ask(self: Sql, /, **args: Any) -> Any:
        return await self._perform(operation, args)

    by_id = operation.kind == "read_by_id"
    describe(ask, operation, "Sql", first=("self",), is_paged=not by_id)
    return read(**operation.terms, by_id=by_id)(ask)


def _mutation_of(operation: SqlOperation) -> dict[str, Any]:
    async def apply(self: Sql, call: Call, /, **args: Any) -> Any:
        return await self._apply(operation, call)

    describe(apply, operation, "Sql", first=("self", "call"))
    tool = mutation(
        **operation.terms,
        idempotent=True,
        key_lifetime_s=math.inf,
        key_in="metadata",
        asked="exactly",
        proof="itself",
    )(apply)

    async def happened(self: Sql, call: Call) -> Verdict:
        return await self._find(call)

    happened.__name__ = f"{operation.name}{HAPPENED}"
    happened.__doc__ = f"Find out whether a call of {operation.name} was made."
    return {operation.name: tool, happened.__name__: tool.reconcile(happened)}
