"""Statements that are sent ahead: few waits, the same refusals in the same order (H1, R8)."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

import pytest

from duly.errors import Fenced, IllegalTransition, NotFound, Stale
from duly.store import Store
from duly.store.base import Durability, Transaction
from duly.store.postgres import PostgresBackend, open_postgres
from duly.store.postgres_line import SentStatement, ServerLine
from duly.store.postgres_session import BATCH_CHARS_MAX, BATCH_MAX, ServerSession
from tests.postgres.server import address
from tests.postgres.stand import KEY, Outside, database, deploy, opened
from tests.postgres.test_rolled_back import evict
from tests.postgres.world import HOST, LEASE_MS, TIMES, Place
from tests.store.exam import SCHEMA
from tests.store.virtual import VirtualEnv

RIDER, BARRIER, READ = Durability.RIDER, Durability.BARRIER, Durability.READ
NOTES: Final = 3
# How often each verb of a run waits: to begin and look, for what it decides on, and to commit.
WAITS: Final = {
    "take_turn": 4,
    "peek": 2,
    "prepare_run": 4,
    "send": 4,
    "record": 5,
    "commit_run": 6,
}
Waits = dict[str, list[int]]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """Count how often each call of a verb waits."""
    found: Waits = defaultdict(list)
    here = threading.local()
    run, carry = ServerSession.run, ServerLine.carry

    def named(self: ServerSession, body: Any, *given: Any) -> Any:
        here.count = 0
        try:
            return run(self, body, *given)
        finally:
            found[body.__name__].append(here.count)

    def counted(self: ServerLine, batch: Sequence[SentStatement]) -> None:
        here.count += 1
        carry(self, batch)

    monkeypatch.setattr(ServerSession, "run", named)
    monkeypatch.setattr(ServerLine, "carry", counted)
    return found


@pytest.fixture
async def backend(place: Place) -> AsyncIterator[PostgresBackend]:
    name = place.make()
    made = await open_postgres(address(place.folder, name), VirtualEnv(), schema=SCHEMA)
    yield made
    await made.close()
    place.give_back(name)


def put(tx: Transaction, name: str) -> None:
    """Write something of which nothing is asked."""
    tx.write("put_upkeep", name=name, at=7)


def drop(tx: Transaction, name: str, rows: int | None = None) -> None:
    """Drop what must be there."""
    tx.change("drop_upkeep", f"what {name} is", rows, name=name)


async def kept(backend: PostgresBackend, name: str) -> bool:
    """Tell whether it is there."""
    return await backend.transact(lambda tx: tx.one("get_upkeep", name=name), READ) is not None


async def test_a_run_waits_for_the_server_a_few_times(
    place: Place, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1: statements of which nothing is asked are sent with the next ones, and with COMMIT."""
    monkeypatch.setenv("DULY_KEY", KEY)
    outside = Outside()
    with database(place) as url:
        async with opened(url, outside) as host:
            await deploy(host)
            for number in range(NOTES):
                await host.publish("notes", "note", message_id=f"n{number}", title="a")
            await host.drain()
    assert len(outside.posts) == NOTES
    # The first call on a connection also enters its slot.
    assert {verb: min(waits[verb]) for verb in WAITS} == WAITS


@pytest.mark.parametrize("rows", [None, 1])
@pytest.mark.parametrize("durability", [RIDER, BARRIER])
async def test_a_change_without_its_row_is_stale_and_nothing_is_written(
    backend: PostgresBackend, waits: Waits, rows: int | None, durability: Durability
) -> None:
    """R8: COMMIT was sent with it, and the server did not run it; the connection goes on."""

    def late(tx: Transaction) -> None:
        tx.one("get_upkeep", name="gone")
        put(tx, "before")
        drop(tx, "gone", rows)
        put(tx, "after")

    for _ in range(2):  # what was prepared in the first is known, what was not is not
        with pytest.raises(Stale) as raised:
            await backend.transact(late, durability)
        assert raised.value.subject == "what gone is"
    assert not await kept(backend, "before")
    assert not await kept(backend, "after")
    await backend.transact(lambda tx: put(tx, "after"), durability)
    await backend.transact(lambda tx: drop(tx, "after", rows), durability)
    assert not await kept(backend, "after")
    assert waits["late"] == [2, 2]  # for what it read, and with COMMIT


async def test_a_change_of_another_number_of_rows_is_stale(backend: PostgresBackend) -> None:
    """C5: all of a set, or nothing of it."""
    await backend.transact(lambda tx: put(tx, "one"), RIDER)
    with pytest.raises(Stale):
        await backend.transact(lambda tx: drop(tx, "one", 2), RIDER)
    assert await kept(backend, "one")


@pytest.mark.parametrize("is_read_between", [False, True])
async def test_what_was_sent_ahead_is_refused_first(
    backend: PostgresBackend, is_read_between: bool
) -> None:
    """R8: as if each statement had been waited for."""

    def refuse(tx: Transaction) -> None:
        drop(tx, "gone")
        if is_read_between:
            tx.one("get_upkeep", name="gone")
        raise NotFound(code="no_run", subject="run_1")

    with pytest.raises(Stale):
        await backend.transact(refuse, RIDER)


async def test_a_body_that_shrugs_at_a_refusal_writes_nothing(backend: PostgresBackend) -> None:
    """Law: a failed statement closes the transaction."""

    def shrug(tx: Transaction) -> None:
        drop(tx, "gone")
        try:
            tx.one("get_upkeep", name="gone")
        except Stale:
            put(tx, "shrugged")

    with pytest.raises(Stale):
        await backend.transact(shrug, RIDER)
    assert not await kept(backend, "shrugged")


async def test_a_body_that_fails_leaves_nothing_to_the_next(backend: PostgresBackend) -> None:
    """Law 3 of the line: what was not sent belongs to no later transaction."""

    def fail(tx: Transaction) -> None:
        put(tx, "failed")
        raise NotFound(code="no_run", subject="run_1")

    with pytest.raises(NotFound):
        await backend.transact(fail, RIDER)
    await backend.transact(lambda tx: put(tx, "next"), RIDER)
    assert not await kept(backend, "failed")
    assert await kept(backend, "next")


@pytest.mark.parametrize(
    ("write", "most"),
    [
        (lambda tx, number: put(tx, f"n{number}"), BATCH_MAX),
        (lambda tx, number: put(tx, f"{number}" + "x" * (BATCH_CHARS_MAX // 4)), 4),
    ],
)
async def test_a_batch_has_a_limit(
    backend: PostgresBackend, waits: Waits, write: Callable[[Transaction, int], None], most: int
) -> None:
    """N: so many statements, and so much text, are sent together."""

    def fill(count: int) -> Callable[[Transaction], None]:
        def many(tx: Transaction) -> None:
            for number in range(count):
                write(tx, number)

        return many

    begins = 2 if most == BATCH_MAX else 0  # a transaction begins with two statements
    await backend.transact(fill(most - begins - 1), RIDER)
    await backend.transact(fill(most - begins + 1), RIDER)
    assert waits["many"] == [2, 2]  # the limit takes the place of the wait to begin
    await backend.transact(fill(2 * most - begins), RIDER)
    assert waits["many"][-1] == 3


async def test_text_with_a_zero_byte_is_refused_and_not_cut(backend: PostgresBackend) -> None:
    """H3: libpq would write what is before it."""
    with pytest.raises(IllegalTransition, match="zero byte"):
        await backend.transact(lambda tx: put(tx, "cut\0here"), RIDER)
    assert not await kept(backend, "cut")


async def test_a_host_that_was_evicted_is_refused_before_anything_else(
    backend: PostgresBackend,
) -> None:
    """H2: its counter is gone, which is found with the first statement that is waited for."""
    await Store(backend).join(HOST, now=0, lease_ms=LEASE_MS)
    await evict(backend, HOST)
    backend.write_as(lambda: HOST, TIMES)
    with pytest.raises(Fenced):
        await backend.transact(lambda tx: drop(tx, "gone"), RIDER)
