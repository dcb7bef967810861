"""What a PostgreSQL server is like, asked once for `duly doctor` (H10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import psycopg
from psycopg import errors

from duly.errors import StoreUnavailable
from duly.rules.pooler import Pooler
from duly.rules.share import Unserved, differing, read_unserved
from duly.store import queries
from duly.store.migrate import SCHEMA_VERSION
from duly.store.postgres_session import dial
from duly.store.slot import NAME

ASKED: Final = 5  # times each of two sessions says which process of the server serves it


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the promise depends on."""

    version: int
    has_fsync: bool
    has_full_pages: bool
    synchronous_standbys: str
    connections_max: int
    connections: int
    standbys: int
    clock_ms: int
    pooler: Pooler = Pooler.NONE
    timeouts: tuple[tuple[str, int], ...] = ()  # that are set for this user, in milliseconds
    homeless: tuple[tuple[str, str], ...] = ()  # workflows, and machines on which no host serves
    unserved: tuple[tuple[str, Unserved], ...] = ()  # workflows that need a tool that no host has
    differing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # connectors, and hosts


def look_at_server(url: str) -> ServerFacts:
    """Ask a server what it is like."""
    own = queries.load("postgres")
    text = own["judge_server"].encode()
    try:
        with dial(url) as connection:  # the server that a host would use
            ((number, fsync, pages, standbys, most, now, sending, clock),) = connection.execute(
                text
            ).fetchall()
            timeouts = connection.execute(own["list_timeouts"].encode()).fetchall()
            of_hosts = _look_at_hosts(connection, own)
            with dial(url) as beside:
                pooler = find_pooler(connection, beside)
    except psycopg.Error as error:
        facts = {"cause": str(error).strip()}
        raise StoreUnavailable(code="server_unreachable", subject=NAME, facts=facts) from error
    return ServerFacts(
        number // 10_000,
        fsync == "on",
        pages == "on",
        standbys,
        most,
        now,
        sending,
        clock,
        pooler,
        tuple((str(name), int(limit_ms)) for name, limit_ms in timeouts),
        *of_hosts,
    )


OfHosts: TypeAlias = tuple[
    tuple[tuple[str, str], ...], tuple[tuple[str, Unserved], ...], Mapping[str, tuple[str, ...]]
]


def _look_at_hosts(connection: psycopg.Connection, own: Mapping[str, str]) -> OfHosts:
    """List the workflows that no live host can take, and how the hosts differ (H7).

    A new database has none, and an older schema does not know.
    """
    nothing: OfHosts = (), (), {}
    ((found,),) = connection.execute(own["find_store"].encode()).fetchall()
    if found != "duly":
        return nothing
    ((version,),) = connection.execute(own["get_store_version"].encode()).fetchall()
    if version != SCHEMA_VERSION:
        return nothing
    asked = ("list_homeless", "list_unserved", "list_offers")
    homeless, lacking, offers = (
        connection.execute(own[each].encode()).fetchall() for each in asked
    )
    unserved = ((str(name), read_unserved(text)) for name, text in lacking)
    return (
        tuple((str(name), str(machine)) for name, machine in homeless),
        tuple((name, each) for name, each in unserved if each is not None),
        differing(offers),
    )


def find_pooler(first: psycopg.Connection, second: psycopg.Connection) -> Pooler:
    """Tell what two open sessions share: by the session, each keeps a process of its own.

    A pooler makes up the process that a session is told of at its beginning, so the server is
    asked. Duly prepares its statements, so a name that another session has taken is the worst case.
    """
    of_first, of_second = set[int](), set[int]()
    try:
        for _ in range(ASKED):
            of_first.add(_process_of(first, is_prepared=False))
            of_second.add(_process_of(second, is_prepared=False))
        if len(of_first) == len(of_second) == 1 and of_first != of_second:
            return Pooler.NONE
        for each in (first, second) * ASKED:
            _process_of(each, is_prepared=True)
    except (errors.DuplicatePreparedStatement, errors.InvalidSqlStatementName):
        return Pooler.FORGETFUL
    return Pooler.BY_TRANSACTION


def _process_of(connection: psycopg.Connection, *, is_prepared: bool) -> int:
    asked = connection.execute("values (pg_backend_pid())", prepare=is_prepared)
    ((process,),) = asked.fetchall()
    return int(process)
