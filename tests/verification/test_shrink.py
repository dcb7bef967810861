"""A scenario that went wrong is told as small as it gets."""

from __future__ import annotations

from collections import Counter

from verification.life import Ending
from verification.workflow.outside import Outcome
from verification.workflow.planted import BUGS, find, planted, seeds_of
from verification.workflow.run import run
from verification.workflow.scenario import Death, PlannedCrash, Scenario, invent
from verification.workflow.shrink import kind, shrink, simpler
from verification.workflow.unkind import from_seed


def ending(*problems: str) -> Ending:
    return Ending(problems, (), Counter(), 0, 0, 0)


def test_story_of_a_planted_bug_becomes_smaller_and_stays_wrong() -> None:
    """The smallest scenario still has the same kind of problem."""
    bug = next(each for each in BUGS if each.name == "unknown-is-not-sent")
    seed = find(bug, seeds_of(0))
    assert seed is not None
    with planted(bug):
        scenario = next(each for each in (from_seed(seed), invent(seed)) if run(each).problems)
        small = shrink(scenario)
        problems = run(small).problems
        assert {kind(each) for each in problems} & {kind(each) for each in run(scenario).problems}
    size = len(small.crashes) + len(small.actions) + len(small.outcomes) + small.mails
    assert size <= 4
    assert run(small).problems == ()


def test_only_what_the_problem_needs_is_left() -> None:
    """Everything that does not matter is dropped."""
    needed = PlannedCrash(7, Death.POWER)
    scenario = Scenario(
        mails=5,
        crashes=(PlannedCrash(3), needed, PlannedCrash(9)),
        outcomes=(Outcome.REFUSED, Outcome.SLOW),
        dice=77,
    )

    def fake(given: Scenario) -> Ending:
        return ending("event m1 is lost") if needed in given.crashes else ending()

    assert shrink(scenario, run=fake) == Scenario(crashes=(needed,))


def test_another_problem_is_not_the_same() -> None:
    """A smaller scenario with a problem of another kind is not taken."""

    def fake(given: Scenario) -> Ending:
        return ending("2 changes were made for m0" if given.mails == 2 else "the host broke")

    assert shrink(Scenario(mails=2), run=fake).mails == 2


def test_number_of_plays_is_bounded() -> None:
    """Shrinking comes to an end."""
    given: list[Scenario] = []

    def fake(scenario: Scenario) -> Ending:
        given.append(scenario)
        return ending("it is wrong")

    shrink(from_seed(3), runs_max=4, run=fake)
    assert len(given) == 5


def test_story_without_a_problem_is_left_alone() -> None:
    """There is nothing to make smaller."""
    scenario = from_seed(3)
    assert shrink(scenario, run=lambda _: ending()) == scenario


def test_kind_of_a_problem_leaves_out_names_and_numbers() -> None:
    """Two events with the same trouble have one kind of problem."""
    assert kind("2 changes were made for event m1") == kind("3 changes were made for event m0")
    assert kind("event m1 is gone") != kind("run r1 is gone")


def test_every_step_makes_a_story_simpler() -> None:
    """No step leads back."""
    scenario = from_seed(4)
    steps = list(simpler(scenario))
    assert scenario not in steps
    assert len(set(steps)) >= 5
