"""Every scenario of the bus with one crash, and that none of its crash points is asleep."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import duly.bus
from tests.breaks import tenth_of_commit
from verification.bus.exhaustive import BUS_VERBS, MUST_BE_REACHED, cases, never_reached
from verification.bus.run import run
from verification.survey import run_case
from verification.workflow import exhaustive
from verification.workflow.planted import Bug, Place, planted

CASES = cases()
CASES_PER_TEST = 4
# A commit runs a quarter of them and the next one perhaps others; TEST_EVERY_CASE=1 runs all.
EVERY = 1 if os.environ.get("TEST_EVERY_CASE") else 4
CHOSEN = range(tenth_of_commit() % EVERY, len(CASES), EVERY)


@pytest.mark.parametrize("start", range(0, len(CHOSEN), CASES_PER_TEST))
def test_every_story_of_the_bus_with_one_crash_ends_well(start: int) -> None:
    """B4, B5, B7: wherever the host dies, nothing is doubled, lost or stuck."""
    for number in CHOSEN[start : start + CASES_PER_TEST]:
        assert run_case(number, "bus").failures == []


def test_every_crash_point_of_the_bus_is_reached() -> None:
    """A point that exists and is never reached proves nothing."""
    reached = {point for case in CASES for point in run(case.scenario).points}
    assert never_reached(reached) == ()
    assert never_reached(MUST_BE_REACHED - {"after emit"}) == ("after emit",)


RARE = {
    "overdue in order": (
        Place(
            "duly.rules.deferral",
            "promotable",
            lambda original: lambda *given: tuple(sorted(original(*given), key=lambda one: one.id)),
        ),
        "deferred [2, 1] did not fire in that order",
    ),
    "crashed three times": (
        Place("duly.rules.delivery", "HOST_DEATHS_MAX", lambda _: 9),
        "the delivery of event 2 to listener0 is tried for ever",
    ),
}


@pytest.mark.parametrize("name", RARE)
def test_what_hardly_ever_happens_by_chance_is_seen_where_it_goes_wrong(name: str) -> None:
    """B2, B5: several are overdue at once; one delivery kills host after host."""
    (scenario,) = [case.scenario for case in CASES if case.name == name]
    place, problem = RARE[name]
    assert run(scenario).problems == ()
    with planted(Bug("rare", "It is hardly ever seen.", (place,))):
        assert problem in run(scenario).problems


def test_list_of_verbs_is_the_bus_s_own() -> None:
    """Every verb the bus writes with has its points, or says why not."""
    text = "".join(path.read_text() for path in Path(duly.bus.__path__[0]).glob("*.py"))
    used = set(re.findall(r"store\.(\w+)", text)) & set(exhaustive.UNCOVERED)
    assert used - set(BUS_VERBS) <= {"put_state", "resume_bus", "hold_subscribers"}
    left_to_the_bus = {name for name, why in exhaustive.UNCOVERED.items() if why == exhaustive.BUS}
    assert left_to_the_bus == set(BUS_VERBS)
