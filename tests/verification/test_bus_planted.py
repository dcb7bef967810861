"""Bugs of the bus that are planted must be found, or its scenarios are asleep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.breaks import number_of_commit
from verification.bus.planted import BUGS, find
from verification.workflow.planted import RANGES, seeds_of

NAMES = {bug.name: bug for bug in BUGS}
# Where `python -m verification --bus --planted --json` found each of them first. The seed is tried
# before the others, so that a hunt which would lead there again is cheap; it decides nothing.
FOUND: dict[str, int] = json.loads(Path(__file__).with_name("found_bus.json").read_bytes())
# A commit looks for a quarter of them; the command looks for all.
CHOSEN = sorted(NAMES)[number_of_commit() % 4 :: 4]


@pytest.mark.parametrize("name", CHOSEN)
def test_planted_bug_of_the_bus_is_found(name: str) -> None:
    """B4, B5, B6: within 500 schedules; the other ranges are looked through by a command."""
    first = [FOUND[name]] if name in FOUND else []
    assert find(NAMES[name], (*first, *seeds_of(RANGES[0]))) is not None


def test_there_are_enough_bugs_in_every_room_of_the_bus() -> None:
    """At least twenty, five of them in each room the bus stands on."""
    assert len(NAMES) == len(BUGS) >= 20
    for room in ("duly.store", "duly.rules", "duly.bus"):
        assert sum(bug.places[0].module.startswith(room) for bug in BUGS) >= 5
    assert all(bug.says.endswith(".") for bug in BUGS)
