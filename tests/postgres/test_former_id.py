"""What a process was told under a former id, and still compares under its present one (H10)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duly.errors import StoreOlder
from duly.store import Store
from duly.store.base import Transaction
from duly.store.postgres import PostgresBackend
from duly.store.slot import Entered, HostSlots, Slot
from tests.postgres.proxy import Cut, Proxy
from tests.postgres.test_slot import BARRIER, RIDER, take
from tests.postgres.world import HOST, LEASE_MS, OTHER, TIMES, say


async def set_back(plain: PostgresBackend, host: str, to: int) -> None:
    """Let the counters of a host be as they were at the moment of a disk."""
    text = f"update slot set commit_seq = {to} where host = '{host}' returning 1"
    await plain.transact(lambda tx: say(tx, text), BARRIER)


async def test_a_late_entry_under_a_former_id_drops_nothing_of_the_new_one(
    backend: PostgresBackend, proxy: Proxy
) -> None:
    """H10: a connection that was slow enters when its process is another host already."""
    slow, other = backend._sessions[:2]
    plain = backend.alone()
    await Store(plain).join(OTHER, now=0, lease_ms=LEASE_MS)
    backend.write_as(lambda: OTHER, TIMES)
    other.run(take, BARRIER, backend.beside, OTHER)
    slow.run(take, BARRIER, backend.beside, HOST)
    await set_back(plain, OTHER, 0)
    await plain.close()
    proxy.hang_up()
    with pytest.raises(StoreOlder):
        other.run(take, BARRIER, backend.beside, OTHER)


@pytest.mark.parametrize("cut", [None, Cut.UNHEARD])
async def test_a_write_of_a_former_id_that_is_acknowledged_late_is_compared(
    backend: PostgresBackend, proxy: Proxy, cut: Cut | None
) -> None:
    """H10: an old server answers it when the process has met the new one as another host.

    Where that answer is lost it is asked for, under the former id.
    """
    slow, other = backend._sessions[:2]
    plain = backend.alone()
    await Store(plain).join(OTHER, now=0, lease_ms=LEASE_MS)
    slow.run(take, BARRIER, backend.beside, HOST)

    def meanwhile(tx: Transaction) -> None:
        backend.write_as(lambda: OTHER, TIMES)
        other.run(take, BARRIER, backend.beside, OTHER)  # compares, and drops the counter
        proxy.cut = cut

    slow.run(meanwhile, BARRIER, backend.beside, HOST)
    assert proxy.cuts == (cut is not None)
    other.run(take, RIDER, backend.beside, OTHER)  # compares; a former id may still write
    slow.run(take, RIDER, backend.beside, HOST)
    await set_back(plain, HOST, 1)
    await plain.close()
    with pytest.raises(StoreOlder):
        other.run(take, BARRIER, backend.beside, OTHER)


async def test_what_a_former_id_was_told_is_compared_once(backend: PostgresBackend) -> None:
    """H10: its counters go with it when it is evicted, and are no sign of a loss by then."""
    slow, other = backend._sessions[:2]
    plain = backend.alone()
    await Store(plain).join(OTHER, now=0, lease_ms=LEASE_MS)
    slow.run(take, BARRIER, backend.beside, HOST)
    backend.write_as(lambda: OTHER, TIMES)
    other.run(take, BARRIER, backend.beside, OTHER)
    slow.run(take, BARRIER, backend.beside, HOST)
    other.run(take, BARRIER, backend.beside, OTHER)
    assert not backend.beside.slots.must_compare
    assert {each.host_id for each in backend.beside.slots.by_place.values()} == {OTHER}
    await plain.close()


@pytest.mark.parametrize("has_barrier", [False, True])
async def test_what_a_former_id_was_told_late_is_compared_until_a_barrier_of_the_present_one(
    backend: PostgresBackend, proxy: Proxy, has_barrier: bool
) -> None:
    """H10: a disk of between the two would else show lost riders of the present one alone (R7)."""
    slow, other = backend._sessions[:2]
    plain = backend.alone()
    await Store(plain).join(OTHER, now=0, lease_ms=LEASE_MS)
    slow.run(take, BARRIER, backend.beside, HOST)

    def meanwhile(tx: Transaction) -> None:
        backend.write_as(lambda: OTHER, TIMES)
        other.run(take, BARRIER, backend.beside, OTHER)  # before the late one: it covers nothing

    slow.run(meanwhile, BARRIER, backend.beside, HOST)
    slots = backend.beside.slots
    for _ in range(3):
        other.run(take, RIDER, backend.beside, OTHER)
        assert (slots.must_compare, slots.has_former) == (False, True)
    if has_barrier:
        other.run(take, BARRIER, backend.beside, OTHER)
        assert (slots.must_compare, slots.has_former) == (False, False)
    else:
        await set_back(plain, OTHER, 1)
    await set_back(plain, HOST, 1)
    proxy.hang_up()
    if has_barrier:
        other.run(take, BARRIER, backend.beside, OTHER)
    else:
        with pytest.raises(StoreOlder):
            other.run(take, BARRIER, backend.beside, OTHER)
    await plain.close()


def test_a_barrier_that_began_before_the_comparison_covers_nothing() -> None:
    """H10: it may be committed before the late barrier of the former id, and acknowledged later."""
    slots = HostSlots()
    former = slots.keep(Entered(Slot(1, HOST, 1, 0), None, lacks_riders=False))
    slots.tell(former, BARRIER, slots.moment)
    slot = slots.keep(Entered(Slot(2, OTHER, 1, 0), None, lacks_riders=False))
    began = slots.moment
    told = (replace(former),)
    slots.keep(Entered(Slot(2, OTHER, 1, 0), None, lacks_riders=False, told=told), is_new=False)
    slots.tell(slot, BARRIER, began)
    assert slots.has_former
    slots.tell(slot, BARRIER, slots.moment)
    assert not slots.has_former
