"""What a PostgreSQL server is like, asked once for `duly doctor` (H10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import psycopg
from psycopg import errors

from duly.errors import StoreUnavailable
from duly.rules.share import Unserved, differing, read_unserved
from duly.store import queries
from duly.store.migrate import SCHEMA_VERSION
from duly.store.postgres_session import dial
from duly.store.slot import NAME


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
    is_pooled: bool  # a pooler that hands out connections by the transaction is in between
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
            is_pooled = _is_pooled(connection)
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
        is_pooled,
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


def _is_pooled(connection: psycopg.Connection) -> bool:
    """Tell whether the next transaction may be another session: what was set before is gone."""
    try:
        connection.execute("set application_name = 'duly doctor'")
        ((name,),) = connection.execute("show application_name").fetchall()
        ((pid,),) = connection.execute("values (pg_backend_pid())").fetchall()
    except errors.Error:
        return True
    return bool(name != "duly doctor" or pid != connection.info.backend_pid)
