"""What a host of a fleet does when its lease is over: it ends, or it comes back as another (H2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

import duly
from duly.config import Policy
from duly.connectors.base import Call
from duly.connectors.registry import Registry
from duly.engine.base import Parts
from duly.engine.lease import Lease
from duly.engine.scheduler import Engine
from duly.errors import Fenced, StoreLost, StoreUnavailable
from duly.rules.lease import LEASE_MS
from tests.connectors.sheets import make_call
from tests.engine.test_lease import Fleet, fleet
from tests.store.scene import WORKFLOW
from verification.scripted import ScriptedSandbox

__all__ = ["fleet"]


class Silent(duly.Connector):
    """An outside that does not answer."""

    name = "silent"

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()

    @duly.mutation(timeout_s=100)
    async def change(self, call: Call) -> None:
        """Take its time."""
        await self.free.wait()


@dataclass
class Lapsing:
    """A host that reaches its store no more, with all that decides what becomes of it."""

    fleet: Fleet
    engine: Engine
    lease: Lease
    registry: Registry
    ended: list[str]

    def send(self) -> None:
        """Let a send be out."""
        self.registry.send(self.registry.catalog.find("silent.change"), make_call("silent.change"))

    async def lapse(self, cut_off: pytest.MonkeyPatch) -> None:
        """Let no renewal through until the lease is over, and for a while after that."""

        async def fail(*args: object, **given: object) -> None:
            facts = {"cause": "cut off"}
            raise StoreUnavailable(code="server_unreachable", subject="PostgreSQL", facts=facts)

        with cut_off.context() as cut:
            cut.setattr(self.fleet.store, "renew", fail)
            await self.fleet.env.sleep(LEASE_MS / 1000 + 1)
        await self.fleet.env.sleep(1)

    async def hosts(self) -> list[str]:
        """List the hosts that the store knows."""
        return [each.id for each in await self.fleet.store.list_hosts()]


@pytest.fixture
async def lapsing(fleet: Fleet) -> AsyncIterator[Lapsing]:
    ended, silent = list[str](), Silent()
    lease = Lease(fleet.env, fleet.store, end=lambda: ended.append(lease.host_id))
    policy, registry = Policy(), Registry([silent])
    sandbox = ScriptedSandbox(fleet.env, policy.limits)
    engine = Engine(Parts(fleet.env, fleet.store, sandbox, registry, policy, lease=lease))
    await engine.join()
    yield Lapsing(fleet, engine, lease, registry, ended)
    silent.free.set()
    with suppress(Fenced):
        await engine.close()


async def test_a_host_that_lapses_with_nothing_out_comes_back_as_another(
    lapsing: Lapsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2: its process lives on."""
    first = lapsing.lease.host_id
    await lapsing.lapse(monkeypatch)
    assert lapsing.ended == []
    assert lapsing.lease.host_id != first
    assert lapsing.lease.host_id in await lapsing.hosts()


async def test_a_host_that_lapses_with_a_send_out_ends_its_process(
    lapsing: Lapsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2: it never comes back as another, whose claims would count from now on."""
    first = lapsing.lease.host_id
    lapsing.send()
    assert lapsing.registry.sends_out()
    await lapsing.lapse(monkeypatch)
    assert lapsing.ended == [first]
    assert await lapsing.hosts() == [first]


async def test_a_host_that_lapses_while_a_handler_runs_ends_its_process(
    lapsing: Lapsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H8, H2: a handler of the bus that runs counts like a send that is out."""
    first = lapsing.lease.host_id
    lapsing.lease.is_calling = lambda: True
    await lapsing.lapse(monkeypatch)
    assert lapsing.ended == [first]
    assert await lapsing.hosts() == [first]
    assert lapsing.registry.sends_out() == ()


async def test_a_host_that_should_have_ended_takes_no_act_of_a_person(
    lapsing: Lapsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2: a program may go on with its host; an act would claim, and so join as another."""
    first = lapsing.lease.host_id
    lapsing.send()
    await lapsing.lapse(monkeypatch)
    with pytest.raises(StoreLost, match="lost its lease"):
        await lapsing.engine._worker.claims.is_watched(WORKFLOW)
    assert await lapsing.hosts() == [first]
