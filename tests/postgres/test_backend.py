"""What the exam does not ask: statements, the clock, callers side by side, lost sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import psycopg
import pytest

from duly.errors import IllegalTransition, StoreUnavailable
from duly.store import queries
from duly.store.base import Durability, Transaction
from duly.store.dialect import number
from duly.store.postgres import CONNECTIONS, PostgresBackend, open_postgres
from tests.postgres.server import address
from tests.postgres.world import Place, say
from tests.store.exam import SCHEMA
from tests.store.virtual import VirtualEnv

CLOCK_SLACK_MS = 60_000
BUSY_CALLERS = 3 * CONNECTIONS


@pytest.fixture
async def backend(place: Place) -> AsyncIterator[PostgresBackend]:
    name = place.make()
    opened = await open_postgres(address(place.folder, name), VirtualEnv(), schema=SCHEMA)
    yield opened
    await opened.close()
    place.give_back(name)


# Parts of the schema, and of other statements.
PARTS = ("refer_to_allowance", "create_own", "guard_some", "guard_all")
# The driver completes these itself; tests/postgres/test_asked.py runs each.
COMPLETED = ("limit_inquiry", "read_view", "list_view_columns")


def test_the_server_understands_every_statement(place: Place) -> None:
    """H1: one text for both databases; a parameter's type is seen from where it stands."""
    name = place.make()
    statements = {**SCHEMA.statements, **queries.load("postgres")}
    with psycopg.connect(address(place.folder, name), autocommit=True) as connection:
        for each in number(statements).values():
            if each.name in (*PARTS, *COMPLETED):
                continue
            said = connection.pgconn.prepare(each.name.encode(), each.text.encode())
            assert not said.error_message, f"{each.name}: {said.error_message.decode()}"
    place.give_back(name)


def test_few_statements_are_its_own() -> None:
    """H1: a name in `postgres.sql` takes the place of one in the other files."""
    named = queries.load("postgres").keys()
    assert named & SCHEMA.statements.keys() == {
        "empty_mutation",
        "empty_run",
        "get_journal_event",
        "list_told",
        "look_at_mutation",
        "look_at_workflow",
    }
    own = named - SCHEMA.statements.keys()
    assert {each for each in own if not each.startswith("before_")} == {
        "agree_on_key",
        "begin_inquiry",
        "change_store_version",
        "check_references",
        "count_bytes",
        "count_live_hosts",
        "create_own",
        "defer_references",
        "drop_key_name",
        "empty_counters",
        "empty_upkeep",
        "enter_slot",
        "find_store",
        "flush_log",
        "get_oldest_version",
        "get_store_version",
        "guard_all",
        "guard_some",
        "judge_server",
        "keep_references",
        "limit_inquiry",
        "limit_migration",
        "list_homeless",
        "list_offers",
        "list_unserved",
        "list_moves",
        "list_slots",
        "list_timeouts",
        "list_view_columns",
        "lock_hosts",
        "move_slot",
        "put_oldest_version",
        "put_store_version",
        "read_view",
        "refer_to_allowance",
        "replace_key",
        "ring",
        "server_clock",
        "server_started",
        "server_timeline",
        "set_limits",
    }


async def test_leases_are_counted_by_the_clock_of_the_server(backend: PostgresBackend) -> None:
    """H2: a host's own clock may be wrong."""
    shown = await backend.transact(lambda tx: tx.clock_ms, Durability.READ)
    assert abs(shown - time.time() * 1000) < CLOCK_SLACK_MS


async def test_more_callers_than_connections_all_come_to_their_turn(
    backend: PostgresBackend,
) -> None:
    """H1: and numbers are given once each."""

    def take(tx: Transaction) -> int:
        ((value,),) = tx.all("take_bus_number", name="deferred")
        return int(value)

    calls = (backend.transact(take, Durability.RIDER) for _ in range(BUSY_CALLERS))
    assert sorted(await asyncio.gather(*calls)) == list(range(1, BUSY_CALLERS + 1))


async def test_a_statement_that_fails_undoes_its_verb(backend: PostgresBackend) -> None:
    """R8: also if the body goes on after it."""

    def shrug(tx: Transaction) -> None:
        tx.one("take_bus_number", name="deferred")
        try:
            tx.run("put_upkeep", name=None, at=1)
        except psycopg.Error:
            return

    with pytest.raises(IllegalTransition, match="refused a statement"):
        await backend.transact(shrug, Durability.BARRIER)
    found = await backend.transact(lambda tx: tx.one("get_bus_number", name="deferred"), READ)
    assert found == (0,)


READ = Durability.READ


async def test_a_reader_cannot_write(backend: PostgresBackend) -> None:
    """A verb that says it changes nothing is held to it by the server."""
    with pytest.raises(IllegalTransition, match="read-only"):
        await backend.transact(lambda tx: tx.one("take_bus_number", name="deferred"), READ)


async def test_a_lost_session_is_an_error_once_and_then_another_is_there(
    backend: PostgresBackend,
) -> None:
    """H3: the server was restarted, or an administrator ended the session."""

    def end_itself(tx: Transaction) -> None:
        say(tx, "select pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(StoreUnavailable):
        await backend.transact(end_itself, READ)
    assert await backend.transact(lambda tx: tx.one("get_bus_number", name="journal"), READ) == (0,)


async def test_a_cancelled_caller_leaves_its_connection_to_others(
    backend: PostgresBackend,
) -> None:
    """Law 4: the transaction ends first, and is kept."""

    def slowly(tx: Transaction) -> None:
        say(tx, "select pg_sleep(0.2)")
        tx.one("take_bus_number", name="deferred")

    calls = [
        asyncio.ensure_future(backend.transact(slowly, Durability.RIDER))
        for _ in range(CONNECTIONS)
    ]
    await asyncio.sleep(0.05)
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    found = await backend.transact(lambda tx: tx.one("get_bus_number", name="deferred"), READ)
    assert found is not None


async def test_a_closed_store_takes_nothing(backend: PostgresBackend) -> None:
    """H3: a caller that comes too late is told so."""
    await backend.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await backend.transact(lambda tx: None, READ)
