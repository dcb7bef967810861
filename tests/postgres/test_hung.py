"""A host whose lines hang keeps its lease, compares, and forgets nothing it finds (H2, H10)."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from duly.engine.lease import Lease
from duly.env import BLOCKING_THREADS_MAX
from duly.errors import Fenced, StoreUnavailable
from duly.fleet import Fleet
from duly.rules.lease import LeaseTimes
from duly.store.postgres_session import dial, hasten
from duly.store.slot import Entered, Slot
from tests.postgres.proxy import Proxy, proxied
from tests.postgres.stand import KEY, PATIENCE_S, Outside, database, deploy, opened
from tests.postgres.test_slot import BARRIER, take
from tests.postgres.world import Place, say


class Quick:
    """A lease of a few milliseconds, which nobody has to renew."""

    times = LeaseTimes(30)

    def __init__(self, lease: Lease) -> None:
        self.host_id = lease.host_id
        self.lapse = lease.lapse


@pytest.fixture
async def fleet(place: Place, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    """The place of a host that looks at the server when the test says so."""
    monkeypatch.setenv("DULY_KEY", KEY)
    joined: list[Fleet] = []
    join = Fleet.join

    async def note(self: Fleet, *given: Any) -> None:
        joined.append(self)
        monkeypatch.setattr(self, "_renewed", lambda: None)
        await join(self, *given)

    monkeypatch.setattr(Fleet, "join", note)
    with database(place) as url:
        async with opened(url, Outside()) as host:
            await deploy(host)
            yield joined[0]


@pytest.fixture
def compared(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the host compares on the connection of its lease; it waits for nothing for long."""
    seen: list[str] = []

    async def note() -> None:
        seen.append(fleet.find_host())

    monkeypatch.setattr(fleet, "_compare_by_lease", note)
    monkeypatch.setattr(fleet, "lease", cast("Lease", Quick(fleet.lease)))
    return seen


async def test_a_write_that_hangs_is_begun_once(
    fleet: Fleet, compared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2, H10: each renewal compares; none leaves one more thread behind in a hung line."""
    begun, go = list[int](), asyncio.Event()

    async def hang() -> None:
        begun.append(1)
        await go.wait()

    monkeypatch.setattr(fleet, "_write", hang)
    for _ in range(3):
        await fleet._look()
    assert (len(begun), len(compared)) == (1, 3)
    go.set()
    assert fleet._writing is not None
    await fleet._writing
    await fleet._look()
    assert (len(begun), len(compared)) == (2, 3)


async def test_a_host_that_cannot_write_for_a_lease_says_so_once(
    fleet: Fleet,
    compared: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """U1: with a cause, also where nothing has given an answer; and again after it could write."""
    go = asyncio.Event()

    async def hang() -> None:
        await go.wait()

    async def refuse() -> None:
        raise StoreUnavailable("The server lets nobody in.")

    async def write() -> None:
        pass

    told = "keeps its lease, but has not been able to write"

    async def look_for_a_lease() -> int:
        await fleet._look()
        before = caplog.text.count(told)
        assert fleet._unable_ms is not None
        fleet._unable_ms -= Quick.times.lease_ms
        for _ in range(3):
            await fleet._look()
        return caplog.text.count(told) - before

    monkeypatch.setattr(fleet, "_write", hang)
    assert await look_for_a_lease() == 1
    assert "its connections give no answer" in caplog.text
    go.set()
    assert fleet._writing is not None
    await fleet._writing
    monkeypatch.setattr(fleet, "_write", write)
    await fleet._look()
    monkeypatch.setattr(fleet, "_write", refuse)
    assert await look_for_a_lease() == 1
    assert "The server lets nobody in." in caplog.text
    assert len(compared) == 8


async def test_a_pause_that_takes_longer_than_a_renewal_is_made_to_its_end(
    fleet: Fleet, compared: list[str]
) -> None:
    """H10: what lapses with it must; a host that goes on has claims that may be lost."""
    backend, host_id = fleet._backend, fleet.find_host()
    await backend.transact(take, BARRIER)
    began, go = asyncio.Event(), asyncio.Event()

    async def pause(_: str | None) -> None:
        began.set()
        await go.wait()

    backend.on_older = pause
    plain = backend.alone()
    await plain.transact(lambda tx: say(tx, "update slot set commit_seq = 0 returning 1"), BARRIER)
    await plain.close()
    for each in backend._sessions:
        each.close()
    looking = asyncio.ensure_future(fleet._look())
    await began.wait()
    await looking
    assert compared == [host_id]
    go.set()
    assert fleet._writing is not None
    await asyncio.wait([fleet._writing])
    assert host_id in backend.beside.slots.given_up


async def test_a_store_that_is_found_to_be_older_twice_is_paused_once(fleet: Fleet) -> None:
    """H10: a line that hung finds late what the lease found; the host has another id by then."""
    backend, former, present = fleet._backend, fleet.find_host(), "present"
    slots = backend.beside.slots
    slots.give_up(former)
    kept = slots.keep(Entered(Slot(0, present, 1, 7, 7, 7), None, lacks_riders=False))
    await fleet._note_older(fleet._plain, former)
    slots.give_up(former)
    assert (fleet.lease.host_id, fleet.lease.left_ms > 0) == (former, True)
    assert slots.by_place == {kept.place: kept}
    assert not slots.has_given_up(present)
    with pytest.raises(Fenced):  # also on a connection that had entered
        await backend.transact(take, BARRIER)


async def test_a_host_that_is_refused_compares_on_the_connection_of_its_lease(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H10: it waits for none of its other lines first, which may hang."""

    async def hang() -> None:
        await asyncio.Event().wait()

    compared: list[str] = []

    async def note() -> None:
        compared.append(fleet.find_host())

    monkeypatch.setattr(fleet, "_write", hang)
    monkeypatch.setattr(fleet, "_compare_by_lease", note)
    host_id = fleet.find_host()
    await fleet.lease._compare()  # as `keep` does when the store refuses a renewal
    assert compared == [host_id]


async def test_a_lease_waits_for_no_thread_of_other_work(fleet: Fleet) -> None:
    """H2: lines that hang may occupy all of them."""
    go = threading.Event()
    hung = [
        asyncio.ensure_future(fleet._env.call_blocking(go.wait))
        for _ in range(BLOCKING_THREADS_MAX)
    ]
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert await fleet._leasing.ask(lambda tx: 1) == 1
    finally:
        go.set()
        await asyncio.gather(*hung)


def ends_ms(url: str) -> int:
    """Return after how long the kernel ends a line that does not take what is sent."""
    connection = dial(url)
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as line:
        found = line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    connection.close()
    return found


def through(proxy: Proxy, url: str, *given: str) -> str:
    return "&".join((proxy.address(url.split("/")[3].split("?")[0]), *given)).replace("&", "?", 1)


async def test_a_line_of_the_lease_that_hangs_ends_within_a_renewal(
    fleet: Fleet, place: Place
) -> None:
    """H2: and no line of the pool does, for a large write may wait for a lock; the URL wins."""
    assert f"tcp_user_timeout={fleet.lease.times.renew_ms} " in fleet._leasing._url
    assert "tcp_user_timeout" not in fleet._backend._url
    with database(place) as url, proxied(place.folder) as proxy:
        name = through(proxy, url)
        assert ends_ms(hasten(name, LeaseTimes(1500).renew_ms)) == 500
        assert ends_ms(hasten(through(proxy, url, "tcp_user_timeout=700"), 500)) == 700
        assert ends_ms(name) == 0
