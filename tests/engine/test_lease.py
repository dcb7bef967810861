"""Hosts of a fleet on one store: leases, renewals, evictions, what a lapsed host may do (H2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from duly.engine.claims import Claims
from duly.engine.lease import Lease
from duly.errors import Fenced, StoreUnavailable
from duly.rules.lease import CLOCK_OFF_MAX_MS, LEASE_MS, RENEW_MS, SEND_LEFT_MS
from duly.rules.share import Kin, Shares
from duly.store import Store
from duly.store.base import Fence
from duly.store.claim import TRACES_MAX
from duly.store.record import Action
from duly.store.sqlite import open_sqlite
from duly.store.upkeep import EVICTED, LEFT
from duly.testing import Stage
from duly.testing.env import VirtualEnv
from tests.store.scene import NOON, WORKFLOW, deployed, deployment
from verification.disk import MemoryDisk
from verification.life import schema


@dataclass
class Member:
    """One host of a fleet, as far as its lease goes."""

    lease: Lease
    claims: Claims
    looks: int = 0
    keeping: asyncio.Task[None] | None = None

    async def come(self) -> None:
        await self.claims.join()
        self.keeping = asyncio.ensure_future(self.lease.keep(self._look))

    def _look(self) -> None:
        self.looks += 1
        self.claims.look_again()

    def stop(self) -> None:
        """Stand still, as a process that is stopped does: it renews nothing."""
        assert self.keeping is not None
        self.keeping.cancel()


@dataclass
class Fleet:
    """A store with the clock of a database, and hosts that share it."""

    env: VirtualEnv
    store: Store
    clock_ahead_ms: int = 0

    def member(self) -> Member:
        lease = Lease(self.env, self.store, end=lambda: None)
        return Member(lease, Claims(self.env, self.store, lease))


def nothing(host_id: str) -> Shares:
    """Return the share of a host that may hold nothing."""
    return Shares(host_id, {host_id: None, "another": None}, {Kin(): -2})


@pytest.fixture
async def fleet(duly_world: Stage) -> AsyncIterator[Fleet]:
    async with _opened(duly_world) as opened:
        yield opened


@asynccontextmanager
async def _opened(stage: Stage) -> AsyncIterator[Fleet]:
    env = VirtualEnv(stage.loop)
    backend = await open_sqlite(MemoryDisk(), env, schema=schema())
    fleet = Fleet(env, Store(backend))
    backend._writer._transaction.clock = lambda: env.now_ms() + fleet.clock_ahead_ms
    await deployed(fleet.store)
    await fleet.store.leave("host_1")
    yield fleet
    with suppress(Fenced):
        await backend.close()


async def test_a_host_that_renews_keeps_what_it_holds(fleet: Fleet) -> None:
    """H2: a live host is not evicted, however long it lives, and another cannot claim its work."""
    one, two = fleet.member(), fleet.member()
    await one.come()
    await two.come()
    assert await one.claims.take(WORKFLOW) is not None
    await fleet.env.sleep(600)
    assert await two.claims.take(WORKFLOW) is None
    assert one.lease.left_ms >= SEND_LEFT_MS
    assert one.keeping is not None
    assert not one.keeping.done()
    assert one.looks >= 119  # after each renewal, for what has become free


async def test_a_host_looks_for_work_only_after_a_renewal_that_succeeded(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2: while the server cannot be reached there is nothing to look at."""
    one = fleet.member()
    await one.come()
    await fleet.env.sleep(6)
    looks = one.looks
    assert looks > 0

    async def fail(*args: object, **given: object) -> None:
        facts = {"cause": "cut off"}
        raise StoreUnavailable(code="server_unreachable", subject="PostgreSQL", facts=facts)

    with monkeypatch.context() as cut_off:
        cut_off.setattr(fleet.store, "renew", fail)
        await fleet.env.sleep(5)
        assert one.looks == looks
    await fleet.env.sleep(5)
    assert one.looks > looks


async def test_the_work_of_a_host_that_stopped_moves_within_twenty_seconds(fleet: Fleet) -> None:
    """H2: it is evicted, its work is claimed under a new epoch, and its own writes are refused."""
    one, two = fleet.member(), fleet.member()
    await one.come()
    await two.come()
    held = await one.claims.take(WORKFLOW)
    assert held is not None
    await fleet.env.sleep(60)
    one.stop()
    await fleet.env.sleep((one.lease.left_ms - 1) / 1000)
    assert await two.claims.take(WORKFLOW) is None
    await fleet.env.sleep(5.002)
    taken = await two.claims.take(WORKFLOW)
    assert taken is not None
    assert taken.epoch == held.epoch + 1
    with pytest.raises(Fenced):
        await fleet.store.outlook(WORKFLOW, held.epoch)
    with pytest.raises(Fenced):
        await fleet.store.renew(one.lease.host_id, lease_ms=LEASE_MS)


async def test_an_eviction_that_waits_costs_neither_the_lease_nor_another_eviction(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2: a transaction of a gone host may not end; the fleet lives on, and sends, without it."""
    first, gone, stuck = fleet.member(), fleet.member(), fleet.member()
    for member in (first, gone, stuck):
        await member.come()
    gone.stop()
    stuck.stop()
    tried, plain = list[str](), fleet.store.evict

    async def evict(host_id: str, *given: Any, **named: Any) -> bool:
        tried.append(host_id)
        # The first that is tried is the one whose transaction does not end.
        if host_id != tried[0]:
            return await plain(host_id, *given, **named)
        await fleet.env.sleep(RENEW_MS / 1000)  # as long as the server lets it wait
        raise StoreUnavailable(code="server_slow", subject="PostgreSQL", facts={"cause": "lock"})

    monkeypatch.setattr(fleet.store, "evict", evict)
    host_id, least = first.lease.host_id, LEASE_MS
    for _ in range(120):
        await fleet.env.sleep(0.5)
        least = min(least, first.lease.left_ms)
    assert first.keeping is not None
    assert (first.lease.host_id, first.keeping.done()) == (host_id, False)
    assert least >= SEND_LEFT_MS
    assert set(tried) == {gone.lease.host_id, stuck.lease.host_id}
    first.stop()


async def test_many_slow_evictions_do_not_end_the_lease_of_the_evictor(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H2: none of them is too slow, and their sum is longer than a lease."""
    first, gone = fleet.member(), [fleet.member() for _ in range(6)]
    for member in (first, *gone):
        await member.come()
    for member in gone:
        member.stop()
    plain = fleet.store.evict

    async def evict(*given: Any, **named: Any) -> bool:
        await fleet.env.sleep(RENEW_MS / 1000 - 0.1)
        return await plain(*given, **named)

    monkeypatch.setattr(fleet.store, "evict", evict)
    host_id, least = first.lease.host_id, LEASE_MS
    for _ in range(240):
        await fleet.env.sleep(0.5)
        least = min(least, first.lease.left_ms)
    assert first.keeping is not None
    assert (first.lease.host_id, first.keeping.done()) == (host_id, False)
    assert least > 0
    hosts = await fleet.store.list_hosts()
    assert [each.id for each in hosts] == [host_id]
    first.stop()


async def test_a_host_that_is_refused_compares_before_its_process_may_end(fleet: Fleet) -> None:
    """H10: the store may be older than the host was told, and no other host may know that."""
    one, left = fleet.member(), list[int]()

    async def compare() -> None:
        left.append(one.lease.left_ms)
        await fleet.env.sleep(LEASE_MS)  # a server that is silent holds nothing up for long

    one.lease.refused = compare
    await one.come()
    assert one.keeping is not None
    await fleet.store.leave(one.lease.host_id)
    began_ms = fleet.env.monotonic_ms()
    await one.keeping
    assert len(left) == 1
    assert left[0] <= 0  # nothing is sent meanwhile
    assert fleet.env.monotonic_ms() - began_ms <= 2 * RENEW_MS


async def test_a_clock_of_the_database_that_steps_evicts_no_host_at_once(fleet: Fleet) -> None:
    """H2: the one who evicts has seen the lease unrenewed for its whole length on its own clock."""
    one, two = fleet.member(), fleet.member()
    await one.claims.join()
    assert await one.claims.take(WORKFLOW) is not None
    fleet.clock_ahead_ms = 3_600_000
    await two.come()
    await fleet.env.sleep(14)
    assert two.looks == 2
    assert await two.claims.take(WORKFLOW) is None
    await fleet.env.sleep(10)
    assert await two.claims.take(WORKFLOW) is not None


async def test_a_send_waits_for_a_renewal_and_a_lapsed_host_sends_nothing(fleet: Fleet) -> None:
    """H2, L6: ten seconds must be left when the first byte leaves."""
    one = fleet.member()
    await one.claims.join()
    await fleet.env.sleep((LEASE_MS - SEND_LEFT_MS) / 1000)
    await one.lease.until_sendable()  # exactly enough is left
    await fleet.env.sleep(0.001)
    sending = asyncio.ensure_future(one.lease.until_sendable())
    await fleet.env.sleep(3)
    assert not sending.done()
    await one.lease._renew()
    await sending
    await fleet.env.sleep(LEASE_MS / 1000)
    with pytest.raises(Fenced):
        await one.lease.until_sendable()


async def test_a_lapsed_host_comes_back_as_another_and_waits_longer(fleet: Fleet) -> None:
    """H2, L6: "it did not happen" counts from the claim, and from what the tool may take."""
    one = fleet.member()
    first = await one.claims.join()
    await one.claims.take(WORKFLOW)
    began_ms = fleet.env.monotonic_ms()
    assert one.claims.over_since_ms(WORKFLOW, 30_000) == began_ms + 30_000
    await fleet.env.sleep(20)
    one.claims.forget()
    assert await one.claims.join() != first
    assert one.claims.over_since_ms(WORKFLOW, 30_000) == fleet.env.monotonic_ms() + 30_000


async def test_a_host_that_is_gone_hears_so_and_does_not_wait_in_silence(fleet: Fleet) -> None:
    """H2: a claim of an evicted host is no "another holds it", and ends its lease at once."""
    one = fleet.member()
    await one.come()
    await fleet.store.leave(one.lease.host_id)
    with pytest.raises(Fenced):
        await one.claims.take(WORKFLOW)
    assert one.lease.left_ms <= 0
    await fleet.env.sleep(0)
    assert one.keeping is not None
    assert one.keeping.done()  # not only at the next renewal
    with pytest.raises(Fenced):
        await one.lease.until_sendable()


async def test_the_host_of_a_file_whose_row_is_gone_joins_again(fleet: Fleet) -> None:
    """H6: it has the lock, so it is the only one; its workflows never stand still in silence."""
    claims = Claims(fleet.env, fleet.store)
    first = await claims.join()
    await fleet.store.leave(first)
    fence = await claims.take(WORKFLOW)
    assert fence is not None
    assert await claims.join() != first
    assert (await fleet.store.get_workflow(WORKFLOW)).holder == await claims.join()


async def test_a_host_joins_once_however_many_tasks_need_it(fleet: Fleet) -> None:
    """H2: a second id would be kept alive, and what was claimed under the first one lost."""
    one = fleet.member()
    ids = await asyncio.gather(*(one.claims.join() for _ in range(3)))
    assert set(ids) == {one.lease.host_id}


async def test_a_claim_that_comes_back_after_the_lapse_is_not_kept(fleet: Fleet) -> None:
    """H2: it was made by a host that this process is no more."""
    one = fleet.member()
    await one.claims.join()
    taking = asyncio.ensure_future(one.claims.take(WORKFLOW))
    await asyncio.sleep(0)
    one.claims.forget()
    with pytest.raises(Fenced):
        await taking
    await fleet.store.leave(one.lease.host_id)
    assert await one.claims.take(WORKFLOW) is not None


async def test_a_send_needs_the_claim_it_was_written_under(fleet: Fleet) -> None:
    """H2, L6: a host that dropped its claim sends nothing under it, also with a lease."""
    one = fleet.member()
    await one.claims.join()
    fence = await one.claims.take(WORKFLOW)
    assert fence is not None
    await one.claims.until_sendable(fence)
    one.claims.drop(WORKFLOW)
    assert await one.claims.take(WORKFLOW) != fence
    with pytest.raises(Fenced):
        await one.claims.until_sendable(fence)


async def test_a_workflow_that_was_begun_meanwhile_is_not_given_back(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H7: others are given back first; a run that began since then is under a claim that holds."""
    other = deployment(workflow_id="workflow_2", name="other")
    action = Action("action_other", "me", "deploy")
    await fleet.store.deploy(other, successor_id="run_other", action=action, now=NOON)
    one, busy = fleet.member(), set[str]()
    held = [await one.claims.take(each) for each in (WORKFLOW, other.workflow_id)]
    release = fleet.store.release

    async def begin_another(host_id: str, fence: Fence) -> bool:
        busy.add(other.workflow_id)
        return await release(host_id, fence)

    monkeypatch.setattr(fleet.store, "release", begin_another)
    one.lease.shares = nothing(one.lease.host_id)
    await one.claims.give_back(busy)
    assert not one.claims.holds(WORKFLOW)
    assert await one.claims.take(other.workflow_id) == held[1]


async def test_a_full_share_keeps_no_person_from_answering(fleet: Fleet) -> None:
    """L6, H7: no host may ever claim it otherwise; and what another host held is asked for anew."""
    one, two = fleet.member(), fleet.member()
    await one.claims.join()
    await two.claims.join()
    one.lease.shares = nothing(one.lease.host_id)
    assert await one.claims.take(WORKFLOW) is None
    assert await two.claims.is_watched(WORKFLOW)
    assert not await one.claims.is_watched(WORKFLOW)
    await two.claims.leave()
    assert await one.claims.is_watched(WORKFLOW)
    assert await one.claims.take(WORKFLOW) is not None  # it is held here from now on


async def test_the_traces_of_gone_hosts_have_a_limit(fleet: Fleet) -> None:
    """H10: of each kind the oldest goes first; hosts that leave push out no evicted one."""
    one = fleet.member()
    await one.claims.join()
    since = fleet.env.now_ms() - TRACES_MAX
    many = "with recursive n (i) as (select 1 union all select i + 1 from n where i < ?)"
    rows = fleet.store.backend._connection  # type: ignore[attr-defined]
    for way in (EVICTED, LEFT):
        fill = f"{many} insert into upkeep select ? || 'host_' || i, ? + i from n"
        rows.execute(fill, (TRACES_MAX, way, since))
    await one.claims.leave()
    kept = "select count(*), min(at) - ? from upkeep where substr(name, 1, 5) = ?"
    for way, oldest in ((EVICTED, 1), (LEFT, 2)):
        assert rows.execute(kept, (since, way[:5])).fetchall() == [(TRACES_MAX, oldest)]


async def test_a_host_says_once_that_its_clock_differs_from_the_servers(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """H2, S2: leases follow the server's clock, schedules this machine's."""
    one = fleet.member()
    await one.come()
    await fleet.env.sleep(6)
    assert (one.lease.clock_off_ms, caplog.text) == (0, "")
    fleet.clock_ahead_ms = CLOCK_OFF_MAX_MS
    await fleet.env.sleep(6)
    assert (one.lease.clock_off_ms, caplog.text) == (CLOCK_OFF_MAX_MS, "")
    fleet.clock_ahead_ms = CLOCK_OFF_MAX_MS + 2_000
    await fleet.env.sleep(30)
    assert one.lease.clock_off_ms == CLOCK_OFF_MAX_MS + 2_000
    assert caplog.text.count("the server's clock is 7 s ahead of this machine's") == 1
