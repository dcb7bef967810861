"""A rename in two deploys is one: a producer that was dropped before stays known as dropped."""

from __future__ import annotations

from duly.rules.rename import Kept, Rename, Renamed, find_rename

DROPPED = Kept("poll", is_declared=False, has_history=True)


def test_a_producer_dropped_before_and_added_under_another_name_is_a_rename() -> None:
    """W9: removed in one deploy, added in the next; what it found is found again."""
    found = find_rename(Renamed.PRODUCER, [DROPPED], {"fetch"})
    assert found == Rename(Renamed.PRODUCER, ("poll",), ("fetch",))


def test_it_comes_back_under_its_own_name_without_a_word() -> None:
    """W9: its state is still there; and one without a state is missed by nobody."""
    assert find_rename(Renamed.PRODUCER, [DROPPED], {"poll"}) is None
    nothing = Kept("poll", is_declared=False, has_history=False)
    assert find_rename(Renamed.PRODUCER, [nothing], {"fetch"}) is None
