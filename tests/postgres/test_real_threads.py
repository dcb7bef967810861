"""The PostgreSQL backend with real threads: moments, cancellations, closes, lost servers."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg
import pytest

from duly.env import Loop
from duly.errors import Stale, StoreUnavailable
from duly.rules.delivery import Retry
from duly.rules.permission import Grant
from duly.store import Store, delivery, subscription
from duly.store.base import Durability, Row, Transaction, Watchers
from duly.store.postgres import CONNECTIONS, PostgresBackend, bring_up, open_postgres
from duly.store.postgres_line import SentStatement, ServerLine
from duly.store.record import Action, JournalEvent
from duly.store.transaction import AtOnce
from tests.postgres.server import address, start, stop
from tests.postgres.world import Place
from tests.store.exam import SCHEMA
from tests.store.scene import WORKFLOW, deployed

READ, RIDER, BARRIER = Durability.READ, Durability.RIDER, Durability.BARRIER
NOW = 1_000_000


@pytest.fixture
async def backend(place: Place) -> AsyncIterator[PostgresBackend]:
    """A store in a database of its own, reached in real threads."""
    name, env = place.make(), Loop()
    opened = await open_postgres(address(place.folder, name), env, schema=SCHEMA)
    opened.url = address(place.folder, name)  # type: ignore[attr-defined]
    yield opened
    with suppress(Exception):
        await asyncio.wait_for(opened.close(), 5)
    for each in opened._sessions:
        each.close()
    place.give_back(name)


def take(tx: Transaction) -> int:
    """Take the next number of the deferred events."""
    ((value,),) = tx.all("take_bus_number", name="deferred")
    return int(value)


def look(tx: Transaction) -> int:
    """Read the last number of the deferred events."""
    ((value,),) = tx.all("get_bus_number", name="deferred")
    return int(value)


def look_slowly(tx: Transaction) -> int:
    """Read it, and keep the connection for a while."""
    value = look(tx)
    time.sleep(0.1)
    return value


# -- Moments ------------------------------------------------------------------------------------


async def test_a_question_sees_one_moment(backend: PostgresBackend) -> None:
    """base.Backend.ask: two statements of a question see the same rows, as on SQLite."""
    read_once, go_on = threading.Event(), threading.Event()

    def ask(tx: Transaction) -> tuple[int, int]:
        before = look(tx)
        read_once.set()
        assert go_on.wait(5)
        return before, look(tx)

    question = asyncio.ensure_future(backend.ask(ask))
    await asyncio.to_thread(read_once.wait, 5)
    await backend.transact(take, RIDER)
    go_on.set()
    before, after = await question
    assert before == after


class Pausing(AtOnce):
    """A transaction that stops before its first write, until it is told to go on."""

    def __init__(self, tx: Transaction, here: threading.Event, go_on: threading.Event) -> None:
        self._tx = tx
        self._here = here
        self._go_on = go_on
        self.clock_ms = 0
        self.timeline, self.started = tx.timeline, tx.started
        self.host = tx.host
        self.seal_key = tx.seal_key

    def all(self, statement: str, /, **parameters: Any) -> list[Row]:
        return self._tx.all(statement, **parameters)

    def one(self, statement: str, /, **parameters: Any) -> Row | None:
        return self._tx.one(statement, **parameters)

    def run(self, statement: str, /, **parameters: Any) -> int:
        if not self._here.is_set():
            self._here.set()
            self._go_on.wait(1)
        return self._tx.run(statement, **parameters)


async def between(
    backend: PostgresBackend, body: Callable[[Transaction], Any], meanwhile: Any
) -> tuple[Any, Any]:
    """Run a body, and something else between its last read and its first write."""
    here, go_on = threading.Event(), threading.Event()
    first = asyncio.ensure_future(
        backend.transact(lambda tx: body(Pausing(tx, here, go_on)), RIDER)
    )
    assert await asyncio.to_thread(here.wait, 5)
    second = asyncio.ensure_future(meanwhile())
    await asyncio.wait((second,), timeout=1)
    go_on.set()
    done = await asyncio.gather(first, second, return_exceptions=True)
    return done[0], done[1]


async def mailed(backend: PostgresBackend) -> Store:
    """Return a store with one event for two subscribers, opened, the first of them running."""
    store = Store(backend)
    for name in ("first", "second"):
        await store.subscribe(name, "mail", Retry(), now=NOW)
    await store.emit(JournalEvent("mail", "test", "{}"), now=NOW)
    return store


async def test_an_event_ends_although_its_last_two_deliveries_end_together(
    backend: PostgresBackend,
) -> None:
    """B4: one subscriber has succeeded while the other one left; no delivery is open."""
    store = await mailed(backend)
    await store.begin_delivery(1, {"first"}, now=NOW)
    await between(
        backend,
        lambda tx: delivery.finish_delivery(tx, 1, "first", 1, now=NOW),
        lambda: backend.transact(lambda tx: subscription.unsubscribe(tx, "second", now=NOW), RIDER),
    )
    ((row,), found) = (await store.list_journal(), await store.list_deliveries())
    assert {each.status for each in found} == {"done", "discarded"}
    assert row.status == "done"


async def test_of_one_event_one_handler_runs_at_a_time(backend: PostgresBackend) -> None:
    """B3: two callers begin two deliveries of one opened event; the second must be refused."""
    store = await mailed(backend)
    await store.begin_delivery(1, {"first"}, now=NOW)
    await store.give_back_running({"first"}, now=NOW)
    done = await between(
        backend,
        lambda tx: delivery.begin_delivery(tx, 1, {"first"}, now=NOW),
        lambda: store.begin_delivery(1, {"second"}, now=NOW),
    )
    running = [each for each in await store.list_deliveries() if each.status == "running"]
    assert len(running) == 1, done


async def test_an_event_that_two_callers_open_together_is_opened_once(
    backend: PostgresBackend,
) -> None:
    """B13: the second caller is told that it was too late, not that Duly has a bug."""
    store = await mailed(backend)
    done = await between(
        backend,
        lambda tx: delivery.begin_delivery(tx, 1, {"first"}, now=NOW),
        lambda: store.begin_delivery(1, {"second"}, now=NOW),
    )
    errors = [each for each in done if isinstance(each, BaseException)]
    assert [type(each) for each in errors] == [Stale], errors


async def test_a_letter_that_ends_twice_at_once_is_refused_the_second_time(
    backend: PostgresBackend,
) -> None:
    """R8: a guarded update that finds another state is stale; see what holds."""
    store = await mailed(backend)
    await store.begin_delivery(1, {"first"}, now=NOW)
    first, second = await between(
        backend,
        lambda tx: delivery.finish_delivery(tx, 1, "first", 1, now=NOW),
        lambda: store.finish_delivery(1, "first", 1, error="no", now=NOW),
    )
    assert sum(isinstance(each, Stale) for each in (first, second)) == 1, (first, second)


# -- The disk -----------------------------------------------------------------------------------


@contextmanager
def own_server(*settings: str) -> Iterator[Path]:
    """Run a server that a test may stop; return its folder."""
    folder = Path(mkdtemp(prefix="duly-pa-"))
    folder.chmod(0o755)
    start(folder, *settings)
    try:
        bring_up(address(folder), SCHEMA)
        yield folder
    finally:
        with suppress(AssertionError):
            stop(folder)
        shutil.rmtree(folder)


LAZY = ("synchronous_commit=off", "wal_writer_delay=10s", "fsync=off", "autovacuum=off")


async def test_sync_waits_for_the_disk_whatever_the_server_is_set_to() -> None:
    """L2, B4: law 2 of the backend, on a server whose commits do not wait by themselves."""
    with own_server(*LAZY) as folder:
        url = address(folder)
        backend = await open_postgres(url, Loop(), schema=SCHEMA)
        late = 0
        with psycopg.connect(url, autocommit=True) as beside:
            for _ in range(20):
                await backend.transact(take, RIDER)
                written = beside.execute("select pg_current_wal_insert_lsn()::text").fetchone()
                assert written is not None
                await backend.sync()
                found = beside.execute(
                    "select pg_current_wal_flush_lsn() < %s::pg_lsn", written
                ).fetchone()
                late += bool(found and found[0])
        for each in backend._sessions:
            each.close()
        assert late == 0


# -- Closing and cancelling ---------------------------------------------------------------------


async def test_two_closes_at_once_both_return(backend: PostgresBackend) -> None:
    """H3: a host's close and its caller's."""
    await asyncio.wait_for(asyncio.gather(backend.close(), backend.close()), 5)


async def test_a_close_that_cannot_sync_gives_the_connections_back() -> None:
    """H3: the server is gone; its sessions are not kept for ever, and a second close returns."""
    with own_server() as folder:
        backend = await open_postgres(address(folder), Loop(), schema=SCHEMA)
        await asyncio.gather(*(backend.transact(look, READ) for _ in range(CONNECTIONS)))
        stop(folder)
        with suppress(StoreUnavailable):
            await asyncio.wait_for(backend.close(), 10)
        opened = [each._opened[0] for each in backend._sessions if each._opened]
        assert all(each.closed for each in opened)


async def test_a_task_that_is_cancelled_gives_no_session_back_that_is_in_use(
    backend: PostgresBackend,
) -> None:
    """Law 1, law 4: all tasks of a loop are cancelled at its end, those of the backend as well."""
    here, go_on = threading.Event(), threading.Event()

    def slow_and_wrong(tx: Transaction) -> None:
        take(tx)
        here.set()
        go_on.wait(5)
        raise ValueError("this transaction must leave nothing")

    first = asyncio.ensure_future(backend.transact(slow_and_wrong, RIDER))
    assert await asyncio.to_thread(here.wait, 5)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        if "_use" in repr(task) or "call_blocking" in repr(task) or task is first:
            task.cancel()
    await asyncio.gather(first, return_exceptions=True)
    threading.Timer(0.5, go_on.set).start()
    kept = await backend.transact(lambda tx: tx.run("put_upkeep", name="kept", at=7), BARRIER)
    await asyncio.sleep(1)
    assert kept == 1
    with psycopg.connect(backend.url, autocommit=True) as beside:  # type: ignore[attr-defined]
        number = beside.execute("select value from counter where name = 'deferred'").fetchone()
        marks = beside.execute("select at from upkeep where name = 'kept'").fetchall()
    assert (number, marks) == ((0,), [(7,)])


async def test_an_error_of_a_watcher_is_not_an_error_of_the_write(
    backend: PostgresBackend,
) -> None:
    """H3: the write is done; on SQLite the error is logged, and the next watcher is told."""
    told = []

    def bad() -> None:
        raise ValueError("the watcher")

    backend.watchers = Watchers((bad, lambda: told.append(1)))
    assert await backend.transact(take, BARRIER) == 1
    assert told == [1]


async def test_a_caller_that_is_cancelled_lets_watchers_know_when_the_write_is_there(
    backend: PostgresBackend,
) -> None:
    """U: a watcher that reads when it was told sees what was written, if not then, then never."""
    here, go_on = threading.Event(), threading.Event()
    told: list[float] = []
    ended: list[float] = []

    def slowly(tx: Transaction) -> None:
        here.set()
        go_on.wait(5)
        take(tx)
        ended.append(time.monotonic())

    backend.watchers = Watchers([lambda: told.append(time.monotonic())])
    caller = asyncio.ensure_future(backend.transact(slowly, RIDER))
    assert await asyncio.to_thread(here.wait, 5)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    go_on.set()
    await asyncio.sleep(0.5)
    assert await backend.transact(look, READ) == 1
    assert told
    assert told[-1] > ended[0]


async def test_a_wrong_address_is_refused_when_the_store_is_opened(tmp_path: Path) -> None:
    """H3: `open_postgres` says that it connects and returns what is ready."""
    with pytest.raises(StoreUnavailable):
        await open_postgres(address(tmp_path, "nothing"), Loop(), schema=SCHEMA)


async def test_after_a_restart_of_the_server_a_read_fails_once_at_most() -> None:
    """H3: nothing was begun on a session that was lost while it was idle."""
    with own_server() as folder:
        backend = await open_postgres(address(folder), Loop(), schema=SCHEMA)
        slow = (backend.transact(look_slowly, READ) for _ in range(8))
        await asyncio.gather(*slow)
        stop(folder, "fast")
        start(folder)
        failed = 0
        for _ in range(3):
            calls = (backend.transact(look_slowly, READ) for _ in range(8))
            done = await asyncio.gather(*calls, return_exceptions=True)
            failed += sum(isinstance(each, BaseException) for each in done)
        for each in backend._sessions:
            each.close()
        assert failed <= 1


# -- Values -------------------------------------------------------------------------------------


async def test_a_limit_that_sqlite_takes_is_taken_here(backend: PostgresBackend) -> None:
    """H1: `grant` takes whole numbers up to 2**53; the column has 64 bits on SQLite, here 32."""
    store, number = Store(backend), 3_000_000_000
    await deployed(store)
    assert Grant("table.insert", number).mutations_per_day == number
    action = Action("action_90", "me", "grant")
    await store.grant(
        WORKFLOW, "table.insert", mutations_per_day=number, matching="{}", action=action, now=NOW
    )
    (found,) = (
        each for each in await store.list_grants(WORKFLOW) if each.capability == "table.insert"
    )
    assert found.mutations_per_day == number


async def test_a_question_has_its_turn_while_writers_wait_for_a_lock(
    backend: PostgresBackend,
) -> None:
    """H3: another client holds one row, say a host that was stopped; a read needs no lock."""
    with psycopg.connect(backend.url) as beside:  # type: ignore[attr-defined]
        beside.execute("update counter set value = value where name = 'deferred'")
        writers = [asyncio.ensure_future(backend.transact(take, RIDER)) for _ in range(CONNECTIONS)]
        await asyncio.sleep(0.5)
        try:
            await asyncio.wait_for(backend.ask(look), 3)
        finally:
            beside.rollback()
            await asyncio.wait(writers)


async def test_a_boolean_of_the_server_is_a_number_as_in_sqlite(
    backend: PostgresBackend,
) -> None:
    """H1: four statements return `exists (...)`; a row that is compared or shown says True."""
    found = await backend.transact(lambda tx: tx.one("take_journal_number", topic="x"), RIDER)
    assert found is not None
    assert [type(each) for each in found] == [int, int]


async def test_a_commit_whose_answer_is_lost_is_not_called_unwritten(
    backend: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3, L1: the server has committed and its session ends; the error may not say the contrary."""
    carry = ServerLine.carry

    def lose(self: ServerLine, batch: Sequence[SentStatement]) -> None:
        carry(self, batch)
        if batch[-1].text == "commit":
            with psycopg.connect(backend.url, autocommit=True) as beside:  # type: ignore[attr-defined]
                monkeypatch.undo()
                ended = (self._connection.info.backend_pid,)
                beside.execute("select pg_terminate_backend(%s, 5000)", ended)
            carry(self, [SentStatement("select 1", is_kept=False)])

    monkeypatch.setattr(ServerLine, "carry", lose)
    with pytest.raises(StoreUnavailable) as raised:
        await backend.transact(take, BARRIER)
    assert await backend.transact(look, READ) == 1
    assert "nothing was written" not in str(raised.value)
