"""Breaks of the counters by which a host compares what it was told (H10), on a real server."""

from __future__ import annotations

from typing import Any

from duly.store.base import Durability
from duly.store.slot import Entered, HostSlots, Slot
from tests.breaks import Break

ROLLED_BACK = "tests/postgres/test_rolled_back.py"
SLOT = "tests/postgres/test_slot.py"


_keep = HostSlots.keep


def _keep_as_present(
    self: HostSlots, entered: Entered, *, is_new: bool = True, is_former: bool = False
) -> Slot:
    return _keep(self, entered, is_new=is_new)


def _tell_what_is_dropped(
    self: HostSlots, slot: Slot, durability: Durability, entries: int
) -> None:
    slot.tell(durability)
    self.late += entries != self.entries


async def _compare_by_no_lease(self: Any) -> None:
    pass


BREAKS = (
    Break(
        "H10",
        "duly.fleet",
        "Fleet._compare_by_lease",
        _compare_by_no_lease,
        (
            f"{ROLLED_BACK}::test_a_host_that_cannot_write_finds_an_older_store_on_the_connection_of_its_lease",
        ),
        "a host that renews and cannot write compares nothing",
    ),
    Break(
        "H10",
        "duly.store.slot",
        "HostSlots.keep",
        _keep_as_present,
        (f"{SLOT}::test_a_late_entry_under_a_former_id_drops_nothing_of_the_new_one",),
        "a connection that enters late under a former id drops the counters of the new one",
    ),
    Break(
        "H10",
        "duly.store.slot",
        "HostSlots.tell",
        _tell_what_is_dropped,
        (f"{SLOT}::test_a_write_of_a_former_id_that_is_acknowledged_late_is_compared",),
        "a write that is acknowledged under a former id is compared with nothing",
    ),
)
