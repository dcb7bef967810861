"""A server whose disk was brought back as it was, on the same timeline (H10, H5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from duly import words
from duly.env import Loop
from duly.errors import Fenced, Stale, StoreOlder
from duly.rules.standing import Code
from duly.store import Store
from duly.store.base import STARTS_PER_MS
from duly.store.claim import EVICTED_KEPT_MS, UNMET_MS
from duly.store.postgres import PostgresBackend, open_postgres
from duly.store.postgres_session import OF_LEASE
from duly.store.record import Action
from tests.postgres.proxy import Proxy, proxied
from tests.postgres.stand import KEY, Outside, database, deploy, opened, until
from tests.postgres.test_slot import BARRIER, READ, last, take
from tests.postgres.world import HOST, LEASE_MS, OTHER, TIMES, Place, say

ACTION = Action("action", "duly", "pause")
WORKFLOW = (
    "insert into workflow (id, name, counter, created_at) values ('w', 'w', 0, 0) returning 1"
)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_KEY", KEY)


@pytest.fixture
async def backend(place: Place) -> AsyncIterator[PostgresBackend]:
    """A backend of a host that is here."""
    env = Loop()
    with database(place) as url:
        made = await open_postgres(url, env)
        await Store(made).join(HOST, now=0, lease_ms=LEASE_MS)
        made.write_as(lambda: HOST, TIMES)
        yield made
        await made.close()
    env.close()


async def lose_connections(backend: PostgresBackend) -> None:
    for each in backend._sessions:
        each.close()


@asynccontextmanager
async def reader(backend: PostgresBackend) -> AsyncIterator[PostgresBackend]:
    """Give another backend on the same server."""
    plain = backend.alone()
    try:
        yield plain
    finally:
        await plain.close()


async def compared(backend: PostgresBackend) -> list[tuple[str, int]]:
    """Return since when which host has compared."""
    text = "select name, at from upkeep where name like 'met %' order by name"
    return [(name, at) for name, at in await backend.transact(lambda tx: say(tx, text), READ)]


async def evict(backend: PostgresBackend, host: str) -> None:
    """Let another host find that a lease is over."""
    plain = backend.alone()
    clock = await plain.ask(lambda tx: tx.clock_ms)
    plain.beside.clock = lambda: clock + 2 * LEASE_MS
    ((until_ms,),) = await plain.ask(
        lambda tx: say(tx, f"select lease_until from host where id = '{host}'")
    )
    assert await Store(plain).evict(host, until_ms, action=ACTION, now=0)
    await plain.close()


async def test_work_done_after_the_moment_of_the_disk_is_paused_and_not_repeated(
    place: Place,
) -> None:
    """H10, H5: the host came after that moment, so it is missing; no host has evicted it."""
    outside = Outside()
    with database(place) as url:
        name = url.split("/")[3].split("?")[0]
        async with opened(url, outside) as before:
            await deploy(before)
            await before.publish("notes", "note", title="a", message_id="a")
        then = place.make(name)
        async with opened(url, outside) as host, host.running():
            await until(lambda: outside.posts == ["a"], "the note")
            those = f"from pg_stat_activity where datname = '{name}'"
            for text in (
                f"alter database {name} allow_connections false",
                f"select pg_terminate_backend(pid, 5000) {those}",
                f"alter database {name} rename to {name}_lost",
                f"alter database {then} rename to {name}",
            ):
                place._admin.execute(text)

            async def paused() -> bool:
                return (await host.why("notes")).reason.code == Code.WRITES_LOST

            await until(paused, "the pause")
        assert outside.posts == ["a"]
        place._admin.execute(f"drop database {name}_lost with (force)")


async def test_a_host_that_is_missing_without_a_trace_says_that_the_store_is_older(
    backend: PostgresBackend,
) -> None:
    """H10: no host has evicted it, so its coming is among what is lost."""
    await backend.transact(take, BARRIER)
    await backend.transact(lambda tx: say(tx, "delete from host returning 1"), BARRIER)
    await lose_connections(backend)
    with pytest.raises(StoreOlder):
        await backend.transact(take, BARRIER)


async def test_a_host_that_was_told_nothing_pauses_an_older_store_once(
    backend: PostgresBackend,
) -> None:
    """H10: its coming is lost; what it still writes under that id is refused, and no new sign."""
    await backend.transact(lambda tx: None, READ)
    plain = backend.alone()
    await plain.transact(lambda tx: say(tx, "delete from host returning 1"), BARRIER)
    seen: list[str] = []

    async def note(_: str | None) -> None:
        seen.append(HOST)

    backend.on_older = note
    with pytest.raises(StoreOlder):
        await backend.transact(take, BARRIER)
    with pytest.raises(Fenced):
        await backend.transact(take, BARRIER)
    assert seen == [HOST]
    await plain.close()


async def test_a_host_that_has_come_back_as_another_compares_what_it_was_told_before(
    backend: PostgresBackend,
) -> None:
    """H10: its renewal is refused first, so it writes under another id when it finds out."""
    await backend.transact(take, BARRIER)
    await backend.transact(lambda tx: say(tx, "delete from host returning 1"), BARRIER)
    plain = backend.alone()
    await Store(plain).join(OTHER, now=0, lease_ms=LEASE_MS)
    backend.write_as(lambda: OTHER, TIMES)
    with pytest.raises(StoreOlder):
        await backend.transact(take, BARRIER)
    await plain.close()


async def test_a_host_that_was_evicted_or_has_left_is_no_sign_of_an_older_store(
    backend: PostgresBackend,
) -> None:
    """H2, H10: under its old id it writes nothing more; under the next one it goes on."""
    await backend.transact(take, BARRIER)
    await evict(backend, HOST)
    with pytest.raises(Fenced):
        await backend.transact(take, BARRIER)
    plain = backend.alone()
    await Store(plain).join(OTHER, now=0, lease_ms=LEASE_MS)
    backend.write_as(lambda: OTHER, TIMES)
    assert await backend.transact(take, BARRIER) == 2
    await Store(plain).leave(OTHER)
    with pytest.raises(Fenced):
        await backend.transact(take, BARRIER)
    assert await last(backend) == 2
    await plain.close()


@pytest.mark.parametrize("way", ["it compares", "it is evicted", "it leaves"])
async def test_after_a_start_of_the_server_nothing_is_claimed_before_all_have_compared(
    backend: PostgresBackend, way: str
) -> None:
    """H10: another host may have claimed it and sent after the moment that was brought back."""
    await backend.transact(lambda tx: say(tx, WORKFLOW), BARRIER)
    other, store = backend.alone(), Store(backend)
    await Store(other).join(OTHER, now=0, lease_ms=LEASE_MS)
    other.write_as(lambda: OTHER, TIMES)
    for each in (backend, other):
        await each.transact(take, BARRIER)
        await lose_connections(each)
        each.beside.started = lambda: 2
    with pytest.raises(Stale, match="has not compared") as waits:
        await store.claim(HOST, "w")
    assert (waits.value.code, waits.value.facts) == ("waits_for_host", {"host": OTHER})
    if way == "it compares":
        await other.transact(take, BARRIER)
    elif way == "it leaves":
        await Store(other).leave(OTHER)
    else:
        await evict(backend, OTHER)
    assert (await store.claim(HOST, "w")).epoch == 1
    kept = {"it compares": [HOST, OTHER]}.get(way, [HOST])
    assert await compared(backend) == [(f"met {each}", 2) for each in kept]
    await other.close()


@pytest.mark.parametrize("up_ms", [UNMET_MS - 60_000, UNMET_MS])
async def test_a_host_that_does_not_renew_is_waited_for_ten_minutes(
    backend: PostgresBackend, up_ms: int
) -> None:
    """H10: hosts that only drain are here too short a time to evict one that has died."""
    await backend.transact(lambda tx: say(tx, WORKFLOW), BARRIER)
    plain = backend.alone()
    began = await plain.ask(lambda tx: tx.clock_ms) - up_ms
    await Store(plain).join(OTHER, now=0, lease_ms=0)
    await plain.close()
    backend.beside.started = lambda: began * STARTS_PER_MS + 1
    await lose_connections(backend)
    if up_ms < UNMET_MS:
        with pytest.raises(Stale):
            await Store(backend).claim(HOST, "w")
    else:
        assert (await Store(backend).claim(HOST, "w")).epoch == 1


async def test_a_host_whose_connections_outlast_a_start_of_the_server_compares_again(
    backend: PostgresBackend,
) -> None:
    """H10: a pooler that lends a connection for each transaction hides that the server was gone."""
    await backend.transact(lambda tx: say(tx, WORKFLOW), BARRIER)
    await backend.transact(take, BARRIER)
    backend.beside.started = lambda: 2
    with pytest.raises(Stale):
        await Store(backend).claim(HOST, "w")
    backend.beside.slots.see(2)
    await backend.transact(take, BARRIER)
    assert not backend.beside.slots.must_compare
    assert await compared(backend) == [(f"met {HOST}", 2)]
    assert (await Store(backend).claim(HOST, "w")).epoch == 1


async def test_an_idle_host_finds_a_start_of_the_server_that_its_connections_outlast(
    place: Place,
) -> None:
    """H10: else no host would ever claim anything again; all wait for all."""
    with database(place) as url:
        async with opened(url, Outside()) as host:
            await deploy(host)
            backend = host._desk().parts.store.backend
            assert isinstance(backend, PostgresBackend)
            backend.beside.started = lambda: 2

            async def has_compared() -> bool:
                return [at for _, at in await compared(backend)] == [2]

            await until(has_compared, "the comparison")


@asynccontextmanager
async def unable(place: Place, proxy: Proxy) -> AsyncIterator[PostgresBackend]:
    """Give the backend of a host that renews, and whose other connections lead through a proxy."""
    with database(place) as url:
        async with opened(url, Outside()) as host:
            await deploy(host)
            backend = host._desk().parts.store.backend
            assert isinstance(backend, PostgresBackend)
            await lose_connections(backend)
            for each in backend._sessions:
                each._url = proxy.address(url.split("/")[3].split("?")[0])
            backend.beside.started = lambda: 2
            try:
                yield backend
            finally:
                proxy.turn(place.folder)
                proxy.speak()


@pytest.mark.parametrize("way", ["its connections are refused", "its lines hang"])
async def test_a_host_that_renews_and_cannot_write_compares_on_the_connection_of_its_lease(
    place: Place, way: str
) -> None:
    """H10: else all hosts wait for it as long as it renews."""
    with proxied(place.folder) as proxy:
        if way == "its lines hang":
            proxy.silence()
        else:
            proxy.turn(place.folder / "nowhere")
        async with unable(place, proxy) as backend, reader(backend) as plain:

            async def has_compared() -> bool:
                return [at for _, at in await compared(plain)] == [2]

            await until(has_compared, "the comparison")
            assert OF_LEASE in {each.number for each in backend.beside.slots.by_place.values()}


async def test_a_host_that_cannot_write_finds_an_older_store_on_the_connection_of_its_lease(
    place: Place,
) -> None:
    """H10: it pauses everything, as on any other connection."""
    with proxied(place.folder) as proxy:
        proxy.turn(place.folder / "nowhere")
        async with unable(place, proxy) as backend, reader(backend) as plain:
            await plain.transact(
                lambda tx: say(tx, "update slot set commit_seq = 0 returning 1"), BARRIER
            )

            async def is_paused() -> bool:
                text = "select blind_since from workflow"
                return await plain.ask(lambda tx: say(tx, text)) != [(None,)]

            await until(is_paused, "the pause")


async def test_a_host_leaves_while_a_connection_of_it_enters(backend: PostgresBackend) -> None:
    """H10: neither waits for the other in a circle, and no mark of it is left."""
    await backend.transact(take, BARRIER)
    put = "insert into upkeep values ('met host_1', 2) on conflict (name) do update set at = 2"
    with psycopg.connect(backend._url, autocommit=True) as server:
        server.execute("insert into slot values ('host_1', 7, 1, 0)")
        server.execute("insert into upkeep values ('met host_of_before', 2)")
        with server.transaction():
            server.execute("set local lock_timeout = 500")
            server.execute("update slot set session = 2 where number = 7")
            leaving = asyncio.ensure_future(Store(backend).leave(HOST))
            waits = (
                "select 1 from pg_stat_activity"
                " where datname = current_database() and wait_event_type = 'Lock'"
            )
            with psycopg.connect(backend._url, autocommit=True) as beside:
                await until(lambda: bool(beside.execute(waits).fetchall()), "its wait")
            server.execute(put)
    await leaving
    assert await compared(backend) == []


async def test_a_host_that_is_here_again_is_waited_for_until_it_has_compared(
    backend: PostgresBackend,
) -> None:
    """H10: it was told something as another host; one that is new was told nothing."""
    await backend.transact(lambda tx: say(tx, WORKFLOW), BARRIER)
    other, store = backend.alone(), Store(backend)
    await Store(other).join(OTHER, now=0, lease_ms=LEASE_MS, is_again=True)
    other.write_as(lambda: OTHER, TIMES)
    with pytest.raises(Stale):
        await store.claim(HOST, "w")
    await other.transact(take, BARRIER)
    assert (await store.claim(HOST, "w")).epoch == 1
    await other.close()


async def test_a_person_is_told_which_host_all_wait_for(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """H10, U1: by name, and for how long at most; the log says it once."""
    outside = Outside()
    with database(place) as url:
        async with opened(url, outside) as host, host.running():
            backend = host._desk().parts.store.backend
            assert isinstance(backend, PostgresBackend)
            async with reader(backend) as plain:
                named = {"name": "attic:7", "is_again": True}
                await Store(plain).join(OTHER, now=0, lease_ms=LEASE_MS, **named)  # type: ignore[arg-type]
                await deploy(host)
                await host.publish("notes", "note", title="a", message_id="a")

                async def waits() -> bool:
                    return (await host.why("notes")).reason.code == Code.WAITS_FOR_HOST

                await until(waits, "the wait")
                said = words.say((await host.why("notes")).reason, words.Clock(0), long=True)
                assert "host attic:7 has not done so yet" in said
                # The server of the tests may have been started more than ten minutes ago.
                assert "wait for it until" in said or "has already had ten minutes" in said
                assert [each.compared for each in await host.hosts()] == [False, True]
                assert (await host.workflows())[0].reason.code == Code.WAITS_FOR_HOST
                await until(lambda: "attic:7 has not compared" in caplog.text, "the log")
                assert not outside.posts
                await Store(plain).leave(OTHER)
            await until(lambda: outside.posts == ["a"], "the note")
            assert caplog.text.count("attic:7 has not compared") == 1


async def test_traces_of_hosts_go_after_a_month(backend: PostgresBackend) -> None:
    """H10: as long as a host may stand still; a store that lives for years keeps no more."""
    await evict(backend, HOST)
    plain = backend.alone()
    now = await plain.ask(lambda tx: tx.clock_ms) + 2 * LEASE_MS
    for late_ms, left in ((0, [f"evicted {HOST}"]), (1, [])):
        await Store(plain).join(OTHER, now=0, lease_ms=LEASE_MS)
        plain.beside.clock = lambda: now + EVICTED_KEPT_MS + 60_000 * (2 * late_ms - 1)  # noqa: B023
        await Store(plain).leave(OTHER)
        rows = await plain.transact(
            lambda tx: say(tx, "select name from upkeep where name like 'evicted %'"), READ
        )
        assert [name for (name,) in rows] == left
        plain.beside.clock = None
    await plain.close()
