"""What a PostgreSQL server is like, asked once for `duly doctor` (H10)."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import errors

from duly.errors import StoreUnavailable
from duly.store import queries
from duly.store.postgres_session import NAME, dial


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


def look_at_server(url: str) -> ServerFacts:
    """Ask a server what it is like."""
    text = queries.load("postgres")["judge_server"].encode()
    try:
        with dial(url) as connection:  # the server that a host would use
            ((number, fsync, pages, standbys, most, now, sending, clock),) = connection.execute(
                text
            ).fetchall()
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
