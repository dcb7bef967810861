"""Breaks of the counters by which a host compares what it was told (H10), on a real server."""

from __future__ import annotations

from typing import Any

from duly.store.base import Durability
from duly.store.postgres_session import Beside, ServerSession
from duly.store.slot import Entered, HostSlots, Slot
from tests.breaks import Break

ROLLED_BACK = "tests/postgres/test_rolled_back.py"
FORMER = "tests/postgres/test_former_id.py"


_keep, _tell, _ask = HostSlots.keep, HostSlots.tell, ServerSession._ask


def _keep_alone(
    self: HostSlots, entered: Entered, *, is_new: bool = True, is_former: bool = False
) -> Slot:
    slot = _keep(self, entered, is_new=is_new, is_former=is_former)
    with self._keeping:
        self.by_place = {
            place: each for place, each in self.by_place.items() if each.host_id == slot.host_id
        }
    return slot


def _tell_what_is_dropped(
    self: HostSlots, slot: Slot, durability: Durability, began: tuple[int, int]
) -> None:
    is_kept = slot.place in self.by_place
    _tell(self, slot, durability, began)
    if not is_kept:
        del self.by_place[slot.place]


def _keep_what_was_compared(
    self: HostSlots, entered: Entered, *, is_new: bool = True, is_former: bool = False
) -> Slot:
    slot = _keep(self, entered, is_new=is_new, is_former=is_former)
    with self._keeping:
        self.by_place = {
            place: each for place, each in self.by_place.items() if each.compared is None
        }
    return slot


def _ask_and_tell_the_former(self: ServerSession, slot: Slot, beside: Beside) -> Slot | None:
    return None if _ask(self, slot, beside) is None else slot


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
        _keep_alone,
        (f"{FORMER}::test_a_late_entry_under_a_former_id_drops_nothing_of_the_new_one",),
        "a connection that enters late under a former id drops the counters of the new one",
    ),
    Break(
        "H10",
        "duly.store.slot",
        "HostSlots.tell",
        _tell_what_is_dropped,
        (f"{FORMER}::test_a_write_of_a_former_id_that_is_acknowledged_late_is_compared",),
        "a write that is acknowledged under a former id is compared with nothing",
    ),
    Break(
        "H10",
        "duly.store.slot",
        "HostSlots.keep",
        _keep_what_was_compared,
        (
            f"{FORMER}::test_what_a_former_id_was_told_late_is_compared_until_a_barrier_of_the_present_one",
        ),
        "what a former id was told late is forgotten when it was compared once",
    ),
    Break(
        "H10",
        "duly.store.postgres_session",
        "ServerSession._ask",
        _ask_and_tell_the_former,
        (f"{FORMER}::test_a_write_of_a_former_id_that_is_acknowledged_late_is_compared",),
        "an answer that was lost is noted in a counter that was dropped meanwhile",
    ),
)
