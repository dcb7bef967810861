"""What a host knows of its writes: committed, not, or older than it was told; and who may write."""

from __future__ import annotations

import asyncio
import gc
import os
from threading import Thread
from typing import Any

import psycopg
import pytest

from duly.env import Loop
from duly.errors import Fenced, StoreForked, StoreOlder, StoreUnavailable
from duly.rules.lease import LeaseTimes
from duly.store import Store, statements
from duly.store.base import Durability, Transaction
from duly.store.postgres import PostgresBackend, open_postgres
from duly.store.slot import Entered, HostSlots, Slot, enter
from tests.postgres.proxy import Cut, Proxy
from tests.postgres.stand import PATIENCE_S, until
from tests.postgres.world import HOST, LEASE_MS, OTHER, TIMES, Place, say

RIDER, BARRIER, READ = Durability.RIDER, Durability.BARRIER, Durability.READ


def take(tx: Transaction) -> int:
    """Take a number: twice would show."""
    ((value,),) = tx.all("take_bus_number", name="deferred")
    return int(value)


async def last(backend: PostgresBackend) -> int:
    ((value,),) = await backend.transact(lambda tx: tx.all("get_bus_number", name="deferred"), READ)
    return int(value)


@pytest.mark.parametrize("cut", Cut)
@pytest.mark.parametrize("durability", [RIDER, BARRIER])
async def test_a_lost_answer_of_commit_is_made_good(
    backend: PostgresBackend, proxy: Proxy, cut: Cut, durability: Durability
) -> None:
    """H10, H3: what was committed is not done again, what was not is; the caller sees neither."""
    assert await backend.transact(take, durability) == 1
    proxy.cut = cut
    assert await backend.transact(take, durability) == 2
    assert proxy.cuts == 1
    assert await backend.transact(take, durability) == 3
    assert await last(backend) == 3


async def test_connections_that_are_cut_between_two_writes_cost_nothing(
    backend: PostgresBackend, proxy: Proxy
) -> None:
    """H3: a server that restarts, or a line that breaks, while nothing is under way."""
    for number in range(1, 4):
        assert await backend.transact(take, BARRIER) == number
        proxy.hang_up()


async def test_a_write_without_a_host_says_that_it_does_not_know(
    place: Place, proxy: Proxy, env: Loop
) -> None:
    """H10: a lease has no counter; its host asks again, and counts from before it asked."""
    name = place.make()
    plain = await open_postgres(proxy.address(name), env)
    proxy.cut = Cut.UNHEARD
    with pytest.raises(StoreUnavailable):
        await plain.transact(take, BARRIER)

    async def is_there() -> bool:
        return await last(plain) == 1

    await until(is_there, "the commit that the server was told of")
    await plain.close()
    place.give_back(name)


@pytest.mark.parametrize("cut", Cut)
async def test_a_write_that_is_sent_again_is_of_the_host_that_asked_for_it(
    backend: PostgresBackend, proxy: Proxy, cut: Cut
) -> None:
    """H2: what was begun under one lease is not written under the next one of the same process."""
    plain = backend.alone()
    await Store(plain).join(OTHER, now=0, lease_ms=LEASE_MS)
    ids = [HOST]
    backend.write_as(lambda: ids[-1], TIMES)

    def lapse(tx: Transaction) -> int:
        """Let the process come back under another id while the write is under way."""
        ids.append(OTHER)
        return take(tx)

    assert await backend.transact(take, BARRIER) == 1  # the slot of its connection is entered
    proxy.cut = cut
    assert await backend.transact(lapse, BARRIER) == 2
    assert proxy.cuts == 1

    async def count_slots(host: str) -> int:
        return len(await plain.ask(lambda tx: tx.all("list_slots", host=host)))

    assert (await count_slots(HOST), await count_slots(OTHER)) == (1, 0)
    await plain.close()


async def test_an_evicted_host_writes_nothing_more(backend: PostgresBackend, place: Place) -> None:
    """H2: acts of people included; what it reads it may read."""
    assert await backend.transact(take, BARRIER) == 1
    plain = backend.alone()
    await Store(plain).leave(HOST)
    for _ in range(10):
        with pytest.raises(Fenced, match="lease"):
            await backend.transact(take, BARRIER)
    assert await last(backend) == 1
    await plain.close()


async def test_what_a_host_claimed_it_writes_under_no_other_id(backend: PostgresBackend) -> None:
    """H2: it lapsed and came back; work of its former id is refused under the same epoch, too."""

    def make(tx: Transaction) -> None:
        tx.one("insert_workflow", id="w", name="w", version=None, now=0)

    def write(tx: Transaction) -> int:
        return statements.check(tx, fence).epoch

    plain = backend.alone()
    await plain.transact(make, BARRIER)
    fence = await Store(plain).claim(HOST, "w")
    assert await backend.transact(write, BARRIER) == fence.epoch
    await Store(plain).join(OTHER, now=0, lease_ms=LEASE_MS)
    await plain.close()
    backend.write_as(lambda: OTHER, TIMES)
    with pytest.raises(Fenced):
        await backend.transact(write, BARRIER)


async def test_eviction_waits_for_the_open_transactions_of_the_host(
    backend: PostgresBackend,
) -> None:
    """H2: what it began under its lease is committed or not before its work moves on."""
    began, go = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    order: list[str] = []

    def slowly(tx: Transaction) -> None:
        take(tx)
        loop.call_soon_threadsafe(began.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(PATIENCE_S)
        order.append("written")

    writing = asyncio.ensure_future(backend.transact(slowly, BARRIER))
    await began.wait()
    plain = backend.alone()

    async def leave() -> None:
        await Store(plain).leave(HOST)
        order.append("evicted")

    evicting = asyncio.ensure_future(leave())
    await _waits_for_a_lock(backend)
    go.set()
    await asyncio.gather(writing, evicting)
    assert order == ["written", "evicted"]
    assert await last(backend) == 1
    await plain.close()


async def _waits_for_a_lock(backend: PostgresBackend) -> None:
    def waits(tx: Transaction) -> bool:
        return bool(say(tx, "select 1 from pg_stat_activity where wait_event_type = 'Lock'"))

    while not await backend.transact(waits, READ):  # noqa: ASYNC110  # the server tells no event
        await asyncio.sleep(0.01)


async def test_a_transaction_that_stands_still_is_ended_by_the_server(
    backend: PostgresBackend,
) -> None:
    """H2: a host that is stopped inside a transaction holds up a takeover for no whole lease."""
    backend.beside.times = LeaseTimes(300)
    began, go = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stands(tx: Transaction) -> None:
        take(tx)
        loop.call_soon_threadsafe(began.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result(PATIENCE_S)
        take(tx)

    writing = asyncio.ensure_future(backend.transact(stands, BARRIER))
    await began.wait()
    plain = backend.alone()
    plain.beside.times = TIMES
    await Store(plain).leave(HOST)  # it waits until the server has ended that transaction
    go.set()
    with pytest.raises(Fenced):
        await writing
    assert await last(backend) == 0
    await plain.close()


async def test_a_store_that_is_older_than_it_said_is_noticed(
    backend: PostgresBackend, proxy: Proxy, place: Place
) -> None:
    """H10: a standby was promoted, or a backup brought back, and a confirmed write is gone."""
    noticed: list[str] = []

    async def note(_: str | None) -> None:
        noticed.append("older")

    backend.on_older = note
    for _ in range(3):
        await backend.transact(take, BARRIER)
    with psycopg.connect(backend._url, autocommit=True) as server:
        server.execute("update slot set commit_seq = commit_seq - 1")
    proxy.hang_up()
    with pytest.raises(StoreOlder, match="no longer has writes that it had confirmed"):
        await backend.transact(take, BARRIER)
    assert noticed == ["older"]
    with pytest.raises(Fenced):
        await backend.transact(take, BARRIER)  # the claims of this host may be lost
    plain = backend.alone()
    await Store(plain).join(OTHER, now=0, lease_ms=LEASE_MS)
    await plain.close()
    backend.write_as(lambda: OTHER, TIMES)
    await backend.transact(take, BARRIER)  # it goes on from what is there


async def test_every_connection_is_compared_when_one_comes_anew(
    backend: PostgresBackend, proxy: Proxy
) -> None:
    """H10: the write that is gone was made on another connection, which may not be used again."""
    sessions = backend._sessions[:2]
    for each in sessions:
        each.run(take, BARRIER, backend.beside, HOST)
    with psycopg.connect(backend._url, autocommit=True) as server:
        server.execute("update slot set commit_seq = 0 where number = 1")
    proxy.hang_up()
    with pytest.raises(StoreOlder):
        sessions[0].run(take, BARRIER, backend.beside, HOST)


async def test_a_write_that_is_acknowledged_after_a_comparison_is_compared_too(
    backend: PostgresBackend,
) -> None:
    """H10: an old server may still answer when another connection has met the new one."""
    slow, other = backend._sessions[:2]

    def meanwhile(tx: Transaction) -> None:
        other.run(lambda tx: None, RIDER, backend.beside, HOST)  # it comes anew, and compares

    slow.run(meanwhile, BARRIER, backend.beside, HOST)
    with psycopg.connect(backend._url, autocommit=True) as server:
        server.execute("update slot set commit_seq = 0 where number = %s", [slow._number])
    with pytest.raises(StoreOlder):
        other.run(take, BARRIER, backend.beside, HOST)


async def test_a_host_that_a_promoted_standby_does_not_know_says_that_the_store_is_older(
    backend: PostgresBackend, proxy: Proxy
) -> None:
    """H10: its coming is among what is lost, so all it did is, also if it was evicted before."""
    backend.beside.timeline = lambda: 1
    await backend.transact(take, BARRIER)
    with psycopg.connect(backend._url, autocommit=True) as server:
        server.execute("delete from host")
        server.execute("insert into upkeep (name, at) values ('evicted ' || %s, 1)", [HOST])
    proxy.hang_up()
    with pytest.raises(Fenced):
        await backend.transact(take, BARRIER)
    backend.beside.timeline = lambda: 2
    with pytest.raises(StoreOlder):
        await backend.transact(take, BARRIER)


async def test_a_host_whose_lease_was_over_does_not_confirm_a_promoted_standby(
    backend: PostgresBackend, proxy: Proxy
) -> None:
    """H10: another host may have taken its place in what is lost."""
    backend.beside.timeline = lambda: 1
    await backend.transact(take, BARRIER)
    backend.beside.timeline = lambda: 2
    proxy.hang_up()
    with psycopg.connect(backend._url, autocommit=True) as server:
        server.execute("update host set lease_until = 1")
        with pytest.raises(Fenced):
            await backend.transact(take, BARRIER)
        server.execute("update host set lease_until = 9000000000000000")
        await backend.transact(take, BARRIER)
        assert server.execute("select timeline from host").fetchall() == [(2,)]


async def test_riders_that_a_server_lost_are_no_alarm(
    backend: PostgresBackend, proxy: Proxy
) -> None:
    """H10, R7: what was not said to be on the disk may be gone."""
    await backend.transact(take, BARRIER)
    for _ in range(3):
        await backend.transact(take, RIDER)
    with psycopg.connect(backend._url, autocommit=True) as server:
        server.execute("update slot set commit_seq = 1")
    proxy.hang_up()
    told: list[str] = []
    backend.on_lost_riders = lambda: told.append("riders")
    assert await backend.transact(take, BARRIER) == 5
    proxy.hang_up()
    assert await backend.transact(take, BARRIER) == 6
    assert told == ["riders"]  # once: its host claims anew what it holds


async def test_a_reader_sees_one_moment(backend: PostgresBackend) -> None:
    """H1: a question of several statements is not answered from two states."""
    loop = asyncio.get_running_loop()

    def twice(tx: Transaction) -> tuple[int, int]:
        first = tx.all("get_bus_number", name="deferred")[0][0]
        asyncio.run_coroutine_threadsafe(backend.transact(take, BARRIER), loop).result(PATIENCE_S)
        return first, tx.all("get_bus_number", name="deferred")[0][0]

    assert await backend.transact(twice, READ) == (0, 0)


async def test_a_forked_child_leaves_the_connections_to_its_parent(
    backend: PostgresBackend,
) -> None:
    """H1: it can do nothing with them, and its end does not end the sessions of the parent."""
    assert await backend.transact(take, BARRIER) == 1
    before = backend._sessions[-1]._opened
    child = os.fork()
    if child == 0:
        status = 1
        try:
            await backend.transact(take, BARRIER)
        except StoreForked:
            status = 0
        del backend
        gc.collect()
        os._exit(status)
    _, status = os.waitpid(child, 0)  # noqa: ASYNC222  # the child does nothing else
    assert status == 0
    assert await backend.transact(take, BARRIER) == 2
    assert backend._sessions[-1]._opened is before


class _Interrupted(dict[tuple[str, int], Slot]):
    """Counters that another thread writes while one is added."""

    def __init__(self, slots: HostSlots) -> None:
        super().__init__()
        self._other = Thread(target=slots.keep, args=(entered(2),))

    def __or__(self, other: Any) -> Any:
        if self._other.ident is None:
            self._other.start()
            self._other.join(0.1)  # one that waits for its turn is not waited for
        return super().__or__(other)

    def end(self) -> None:
        self._other.join()


def entered(number: int) -> Entered:
    return Entered(Slot(number, HOST, 1, 0), None, lacks_riders=False)


def test_connections_that_enter_at_once_are_all_compared_later() -> None:
    """H10: each thread keeps its counter; one that was lost would compare nothing."""
    slots = HostSlots()
    slots.by_place = interrupted = _Interrupted(slots)
    slots.keep(entered(1))
    interrupted.end()
    assert sorted(slots.by_place) == [(HOST, 1), (HOST, 2)]


class _Meanwhile:
    """A transaction in which another connection of the host is told of its next write."""

    timeline = started = None
    clock_ms = 0

    def __init__(self, other: Slot) -> None:
        self._other = other

    def one(self, statement: str, /, **_: Any) -> tuple[int, int]:
        assert statement == "enter_slot"
        return 1, 0

    def all(self, statement: str, /, **_: Any) -> list[tuple[int, int]]:
        assert statement == "list_slots"
        found = [(self._other.number, self._other.commit_seq)]
        self._other.commit_seq += 1
        self._other.tell(BARRIER)
        return found


def test_a_write_that_is_acknowledged_during_the_comparison_is_no_loss() -> None:
    """H10: what was read before another connection went on shows nothing of a store."""
    other = Slot(2, HOST, 1, 5, 5, 5)
    slots = HostSlots(by_place={other.place: other})
    found = enter(_Meanwhile(other), slots, HOST, 1)  # type: ignore[arg-type]
    assert not found.lacks_riders
    assert other.barrier_seq == 6
