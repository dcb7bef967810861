"""The verdict over the bus in a storm: what each of its laws refuses."""

from __future__ import annotations

import pytest

from tests.postgres.storm_bus import HANDLERS, Ticking, Told


def ticking(seen: list[int], taken: list[int]) -> Ticking:
    """Let both subscribers have seen the same."""
    told = Told()
    for subscriber in HANDLERS:
        for each in seen:
            told.tell(subscriber, each)
    return Ticking(told, taken)


def test_what_was_handled_in_order_is_counted() -> None:
    """B3, B4: one fault lets a subscriber see one event again, also behind its turn."""
    counts = ticking([1, 2, 3, 2], [1, 2]).judge([1, 2, 3], 0, 1)
    assert [count for count, _ in counts] == [
        "events of the bus, each handled by both subscribers",
        "handled again after a death",
        "events of the bus left in between",
        "dead letters tried again by a person",
    ]
    assert [count for _, count in counts] == [3, 2, 0, 0]


@pytest.mark.parametrize(
    ("seen", "taken", "left", "faults", "says"),
    [
        ([1, 3], [1, 2, 3], 0, 9, "never handled by first"),
        ([1, 2], [1, 2, 3], 0, 9, "taken by the bus and not there"),
        ([1, 3, 2], [1, 2, 3], 0, 9, "out of order"),
        ([1, 2, 2, 3], [1, 2, 3], 0, 0, "1 repeats after 0 faults"),
        ([1, 2, 3], [1, 2, 3], 1, 9, "left in between"),
    ],
)
def test_what_is_lost_or_out_of_order_is_told(
    seen: list[int], taken: list[int], left: int, faults: int, says: str
) -> None:
    """B3, B4, B6: a storm that shows it is no storm that passed."""
    journal = [1, 2] if "not there" in says else [1, 2, 3]
    with pytest.raises(AssertionError, match=says):
        ticking(seen, taken).judge(journal, left, faults)


def test_what_a_person_tried_again_may_be_behind_its_turn() -> None:
    """B5: it was a dead letter after three deaths, and the lane went on."""
    made = ticking([1, 3, 2], [1, 2, 3])
    made.retried.add(2)
    assert made.judge([1, 2, 3], 0, 0)[3] == ("dead letters tried again by a person", 1)
