"""Every story of the bus with one crash, and that none of its crash points is asleep."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import duly.bus
from duly.simulation import exhaustive
from duly.simulation.bus_exhaustive import BUS_VERBS, MUST_BE_REACHED, cases, never_reached
from duly.simulation.bus_play import play
from duly.simulation.survey import play_case

CASES = cases()
CASES_PER_TEST = 4


@pytest.mark.parametrize("start", range(0, len(CASES), CASES_PER_TEST))
def test_every_story_of_the_bus_with_one_crash_ends_well(start: int) -> None:
    """B4, B5, B7: wherever the host dies, nothing is doubled, lost or stuck."""
    for number in range(start, min(start + CASES_PER_TEST, len(CASES))):
        assert play_case(number, "bus").failures == []


def test_every_crash_point_of_the_bus_is_reached() -> None:
    """A point that exists and is never reached proves nothing."""
    reached = {point for case in CASES for point in play(case.story).points}
    assert never_reached(reached) == ()
    assert never_reached(MUST_BE_REACHED - {"after emit"}) == ("after emit",)


def test_list_of_verbs_is_the_bus_s_own() -> None:
    """Every verb the bus writes with has its points, or says why not."""
    text = "".join(path.read_text() for path in Path(duly.bus.__path__[0]).glob("*.py"))
    used = set(re.findall(r"store\.(\w+)", text)) & set(exhaustive.UNPLAYED)
    assert used - set(BUS_VERBS) <= {"put_state", "resume_bus"}
    left_to_the_bus = {name for name, why in exhaustive.UNPLAYED.items() if why == exhaustive.BUS}
    assert left_to_the_bus == set(BUS_VERBS)
