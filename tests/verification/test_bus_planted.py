"""Bugs of the bus that are planted must be found, or its scenarios are asleep."""

from __future__ import annotations

import pytest

from tests.breaks import tenth_of_commit
from verification.bus.planted import BUGS, find
from verification.workflow.planted import RANGES, seeds_of

NAMES = {bug.name: bug for bug in BUGS}
# A commit looks for half of them; the command looks for all.
CHOSEN = sorted(NAMES)[tenth_of_commit() % 2 :: 2]


@pytest.mark.parametrize("name", CHOSEN)
def test_planted_bug_of_the_bus_is_found(name: str) -> None:
    """B4, B5, B6: within 500 schedules; the other ranges are looked through by a command."""
    assert find(NAMES[name], seeds_of(RANGES[0])) is not None


def test_there_are_enough_bugs_in_every_room_of_the_bus() -> None:
    """At least twenty, five of them in each room the bus stands on."""
    assert len(NAMES) == len(BUGS) >= 20
    for room in ("duly.store", "duly.rules", "duly.bus"):
        assert sum(bug.places[0].module.startswith(room) for bug in BUGS) >= 5
    assert all(bug.says.endswith(".") for bug in BUGS)
