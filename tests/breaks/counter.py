"""Breaks of the counters by which a host compares what it was told (H10), on a real server."""

from __future__ import annotations

from duly.store.base import Durability
from duly.store.slot import Entered, HostSlots, Slot
from tests.breaks import Break

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


BREAKS = (
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
