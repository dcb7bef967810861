"""The bus on two hosts of one server: one host calls a subscriber, and another when it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from duly.errors import StoreLost
from duly.host import Host
from tests.postgres.stand import KEY, database, opened, until
from tests.postgres.world import Place

EVENTS = 40


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_KEY", KEY)


@pytest.fixture
def url(place: Place) -> Iterator[str]:
    with database(place) as made:
        yield made


class Kitchen:
    """A handler that two hosts connect under one name, as an extension on two machines is."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.at_once = self.at_once_max = 0
        self.hold: asyncio.Event | None = None

    def connect(self, host: Host, label: str) -> None:
        """Subscribe in one host."""

        async def handle(event: object) -> None:
            self.at_once += 1
            self.at_once_max = max(self.at_once_max, self.at_once)
            try:
                if self.hold is not None:
                    await self.hold.wait()
                await asyncio.sleep(0)
                self.seen.append((label, event.id))  # type: ignore[attr-defined]
            finally:
                self.at_once -= 1

        host.bus.subscribe("tea", handle, subscriber_id="kitchen")


@asynccontextmanager
async def two(url: str, kitchen: Kitchen) -> AsyncIterator[tuple[Host, Host]]:
    async with opened(url) as one, opened(url) as other:
        kitchen.connect(one, "one")
        kitchen.connect(other, "two")
        async with one.running(), other.running():
            yield one, other


async def test_a_subscriber_is_called_once_for_each_event_and_in_order(url: str) -> None:
    """H8, B3, B6: whichever host emits, one host calls."""
    kitchen = Kitchen()
    async with two(url, kitchen) as hosts:
        ids = [await hosts[number % 2].bus.emit("tea", {}, source="me") for number in range(EVENTS)]
        await until(lambda: len(kitchen.seen) >= EVENTS, "every delivery")
    assert [event for _, event in kitchen.seen] == ids
    assert kitchen.at_once_max == 1
    assert len({label for label, _ in kitchen.seen}) == 1


async def test_another_host_calls_when_the_first_has_closed(url: str) -> None:
    """H8, H9: an orderly end gives the subscriber back at once."""
    kitchen = Kitchen()
    async with opened(url) as other:
        kitchen.connect(other, "two")
        async with opened(url) as one:
            kitchen.connect(one, "one")
            async with one.running():
                first = await one.bus.emit("tea", {}, source="me")
                await until(lambda: len(kitchen.seen) == 1, "the first delivery")
                async with other.running():
                    await one.close()
                    second = await other.bus.emit("tea", {}, source="me")
                    await until(lambda: len(kitchen.seen) == 2, "the second delivery")
    assert kitchen.seen == [("one", first), ("two", second)]


async def test_recovery_touches_only_what_a_gone_host_held(url: str) -> None:
    """H8, B5: a live host's handler goes on; a dead one's delivery is given back.

    Of a subscriber that had ended its own subscription in the handler it is closed (B4, B13).
    """
    kitchen = Kitchen()
    kitchen.hold = asyncio.Event()
    async with opened(url) as one:
        kitchen.connect(one, "one")
        async with one.running():
            await one.bus.emit("tea", {}, source="me")
            await until(lambda: kitchen.at_once == 1, "the call")
            with psycopg.connect(url, autocommit=True) as server:
                # A gone host was telling two other subscribers; one had ended itself.
                server.execute(
                    "insert into subscription values"
                    " ('garden', 'tea', 99, 3, '[1,5]', 0, 0, null, 'host_gone')"
                )
                server.execute(
                    "insert into journal (id, topic, source, payload, depth, created_at, status,"
                    " opened) values (900, 'tea', 'me', '{}', 0, 0, 'processing', 1),"
                    " (901, 'tea', 'me', '{}', 0, 0, 'processing', 1)"
                )
                server.execute(
                    "insert into delivery (event_id, subscriber_id, topic, position, status,"
                    " attempts, due_at, updated_at, holder) values"
                    " (900, 'garden', 'tea', 99, 'running', 1, 0, 0, 'host_gone'),"
                    " (901, 'ended', 'tea', 98, 'running', 1, 0, 0, 'host_gone')"
                )
            async with opened(url) as other:
                told: list[int] = []

                async def tell(event: object) -> None:
                    told.append(event.id)  # type: ignore[attr-defined]

                other.bus.subscribe("tea", tell, subscriber_id="garden")
                kitchen.connect(other, "two")
                async with other.running():

                    async def is_given_back() -> bool:
                        found = await other.bus.deliveries(event_id=900)
                        return [each.status for each in found] == ["waiting"]

                    await until(is_given_back, "the lost delivery")
                    (ended,) = await other.bus.deliveries(event_id=901)
                    assert ended.status == "discarded"
                    (event,) = [each for each in await other.bus.journal("tea") if each.id == 901]
                    assert event.processed_at is not None
                    (running,) = await other.bus.deliveries("running")
                    assert running.subscriber_id == "kitchen"
                    kitchen.hold.set()
                    await until(lambda: 900 in told, "the delivery that was lost")
    assert {label for label, _ in kitchen.seen} == {"one"}
    assert kitchen.at_once_max == 1


async def test_what_a_host_held_that_dies_idle_is_called_by_another(url: str) -> None:
    """H8, H9: it rings at nobody; the other host had seen that it was there."""
    kitchen = Kitchen()
    async with opened(url) as other:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(
                "insert into host (id, name, started_at, lease_until) values ('host_dying', 'x:1',"
                " 0, (extract(epoch from clock_timestamp()) * 1000)::bigint + 4000)"
            )
            server.execute(
                "insert into subscription values"
                " ('kitchen', 'tea', 99, 3, '[1,5]', 0, 0, null, 'host_dying')"
            )
        kitchen.connect(other, "two")
        async with other.running():
            emitted = await other.bus.emit("tea", {}, source="me")
            await until(lambda: kitchen.seen == [("two", emitted)], "the delivery")


async def test_a_subscription_that_is_made_again_has_one_holder(url: str) -> None:
    """H8, B13: a host does not trust its memory of what it held; the store compares."""
    kitchen = Kitchen()
    async with opened(url) as one:
        for count in (1, 2):
            kitchen.connect(one, "one")
            await one.bus.emit("tea", {}, source="me")
            await one.drain()
            assert len(kitchen.seen) == count
            if count == 1:
                await one.bus.unsubscribe("kitchen")
        async with opened(url) as other:
            kitchen.connect(other, "two")
            await other.bus.emit("tea", {}, source="me")
            await other.drain()
            assert len(kitchen.seen) == 2
            await one.drain()
    assert [label for label, _ in kitchen.seen] == ["one", "one", "one"]


async def test_a_deferred_event_fires_once_on_two_hosts(url: str) -> None:
    """B2, H8: each host looks, one puts it on the bus."""
    kitchen = Kitchen()
    async with two(url, kitchen) as hosts:
        for number in range(10):
            await hosts[number % 2].bus.schedule_at(0.2, "tea", {}, source="me")
        await until(lambda: len(kitchen.seen) >= 10, "every deferred event")
        await asyncio.sleep(0.3)
    assert len(kitchen.seen) == 10


async def test_a_drain_waits_for_a_slow_handler_without_looking_all_the_time(url: str) -> None:
    """S9: what the lease does makes no loop look again and again."""
    kitchen = Kitchen()
    kitchen.hold = asyncio.Event()
    async with opened(url) as host:
        kitchen.connect(host, "one")
        await host.bus.emit("tea", {}, source="me")
        draining = asyncio.ensure_future(host.drain())
        await until(lambda: kitchen.at_once == 1, "the call")
        looks = 0
        backend = host._desk().parts.store.backend
        transact = backend.transact

        async def counted(body: Any, durability: Any) -> Any:
            nonlocal looks
            looks += body.__name__ == "due"
            return await transact(body, durability)

        backend.transact = counted  # type: ignore[method-assign]
        lease = host._desk().parts.lease
        assert lease is not None
        renewed = lease._until_ms
        await until(lambda: lease._until_ms > renewed, "a renewal")
        await until(lambda: lease._until_ms > renewed + 600, "another renewal")
        kitchen.hold.set()
        await draining
    assert looks < 20  # a few for each renewal


async def test_a_host_that_lapses_while_its_handler_runs_ends_its_process(url: str) -> None:
    """H8, H2: a running handler counts like a send that is out; the host is none from now on."""
    kitchen, ended = Kitchen(), list[str]()
    kitchen.hold = asyncio.Event()
    async with opened(url, end=lambda: ended.append("it")) as host:
        kitchen.connect(host, "one")
        lease = host._desk().parts.lease
        assert lease is not None
        first = lease.host_id

        async def lapse() -> None:
            async with host.running():
                await host.bus.emit("tea", {}, source="me")
                await until(lambda: kitchen.at_once == 1, "the call")
                lease.lapse(first)
                await until(lambda: bool(ended) or lease.host_id != first, "the end of a host")
                assert kitchen.hold is not None
                kitchen.hold.set()
                assert ended == ["it"]
                await asyncio.Event().wait()

        with pytest.raises(StoreLost, match="lost its lease"):
            await lapse()
        assert lease.host_id == first
