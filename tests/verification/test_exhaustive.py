"""Every scenario with one crash, and that no crash point is asleep."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import duly.engine
from duly.store import Store
from duly.store.base import Durability, StoreVerb
from tests.breaks import tenth_of_commit
from verification.survey import run_case
from verification.workflow import exhaustive
from verification.workflow.exhaustive import (
    MUST_BE_REACHED,
    RIDERS,
    TOOLS,
    UNCOVERED,
    cases,
    never_reached,
    unfold,
)
from verification.workflow.outside import USUAL
from verification.workflow.scenario import Death

CASES = cases()
CASES_PER_TEST = 3
# A commit runs a twentieth of them and the next one another; `python -m verification
# --exhaustive` runs all, and so does TEST_EVERY_CASE=1.
EVERY = 1 if os.environ.get("TEST_EVERY_CASE") else 20
CHOSEN = range(tenth_of_commit() % EVERY, len(CASES), EVERY)


@pytest.mark.parametrize("start", range(0, len(CHOSEN), CASES_PER_TEST))
def test_every_story_with_one_crash_ends_well(start: int) -> None:
    """L3, R6, R7: wherever the host dies, nothing is doubled, lost or stuck."""
    for number in CHOSEN[start : start + CASES_PER_TEST]:
        assert run_case(number).failures == []


def test_every_crash_point_is_reached() -> None:
    """A point that exists and is never reached proves nothing."""
    last_of_each = {case.name: case for case in CASES}.values()
    reached: set[str] = set()
    for case in (*last_of_each, *CASES):  # all only if those do not reach every point
        reached.update(unfold(case).points)
        if not never_reached(reached):
            break
    assert never_reached(reached) == ()


def test_point_that_is_never_reached_is_named() -> None:
    """A person who takes a point away is told which."""
    assert never_reached(MUST_BE_REACHED - {"after record"}) == ("after record",)


def writing_verbs() -> set[str]:
    return {
        name
        for name, verb in vars(Store).items()
        if isinstance(verb, StoreVerb) and verb.durability is not Durability.READ
    }


def test_list_of_verbs_is_the_engine_s_own() -> None:
    """Every verb the engine writes with has its points."""
    text = "".join(path.read_text() for path in Path(duly.engine.__path__[0]).glob("*.py"))
    used = set(re.findall(r"store\.(\w+)", text)) & writing_verbs()
    assert set(exhaustive.ENGINE_VERBS) <= used
    assert used <= {*exhaustive.ENGINE_VERBS, *exhaustive.PEOPLE_VERBS, *UNCOVERED}


def test_every_verb_is_played_or_says_why_not() -> None:
    """What the store writes is covered, but for what cannot occur in a scenario."""
    covered = {*exhaustive.ENGINE_VERBS, *exhaustive.PEOPLE_VERBS}
    assert not covered & set(UNCOVERED)
    assert covered | set(UNCOVERED) == writing_verbs()
    assert all(UNCOVERED.values())


@pytest.mark.parametrize("name", ["fifo", "batch", "skip", "approval"])
def test_shape_is_played_with_every_tool_and_outcome(name: str) -> None:
    """Pause and no mutation are covered too, where that makes a difference."""
    covered = {(each.scenario.tool, each.scenario.outcomes) for each in CASES if each.name == name}
    assert covered == {(tool, (outcome,)) for tool in TOOLS for outcome in USUAL}
    assert {each.name for each in CASES} >= {"pause", "no mutation"}


def test_crash_at_a_rider_is_played_as_kill_and_as_power_cut() -> None:
    """L2: what was committed and not synced is lost with the power alone."""
    scenarios = unfold(CASES[0], is_thorough=True).scenarios
    deaths = [scenario.crashes[-1].death for scenario in scenarios]
    assert deaths.count(Death.POWER) >= 5
    assert deaths.count(Death.KILL) > deaths.count(Death.POWER)
    assert {"record", "commit_run"} <= RIDERS


def test_points_with_the_same_future_are_played_once() -> None:
    """A thorough run has more scenarios of the same situation, and no other end."""
    few = unfold(CASES[0]).scenarios
    many = unfold(CASES[0], is_thorough=True).scenarios
    assert set(few) < set(many)
