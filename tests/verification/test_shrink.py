"""A story that went wrong is told as small as it gets."""

from __future__ import annotations

from collections import Counter

from verification.life import Ending
from verification.workflow.outside import Outcome
from verification.workflow.planted import BUGS, find, planted, seeds_of
from verification.workflow.run import play
from verification.workflow.scenario import Death, PlannedCrash, Story, invent
from verification.workflow.shrink import kind, shrink, simpler
from verification.workflow.unkind import from_seed


def ending(*problems: str) -> Ending:
    return Ending(problems, (), Counter(), 0, 0, 0)


def test_story_of_a_planted_bug_becomes_smaller_and_stays_wrong() -> None:
    """The smallest story still has the same kind of problem."""
    bug = next(each for each in BUGS if each.name == "unknown-is-not-sent")
    seed = find(bug, seeds_of(0))
    assert seed is not None
    with planted(bug):
        story = next(each for each in (from_seed(seed), invent(seed)) if play(each).problems)
        small = shrink(story)
        problems = play(small).problems
        assert {kind(each) for each in problems} & {kind(each) for each in play(story).problems}
    size = len(small.crashes) + len(small.acts) + len(small.outcomes) + small.mails
    assert size <= 4
    assert play(small).problems == ()


def test_only_what_the_problem_needs_is_left() -> None:
    """Everything that does not matter is dropped."""
    needed = PlannedCrash(7, Death.POWER)
    story = Story(
        mails=5,
        crashes=(PlannedCrash(3), needed, PlannedCrash(9)),
        outcomes=(Outcome.REFUSED, Outcome.SLOW),
        dice=77,
    )

    def fake(played: Story) -> Ending:
        return ending("event m1 is lost") if needed in played.crashes else ending()

    assert shrink(story, play=fake) == Story(crashes=(needed,))


def test_another_problem_is_not_the_same() -> None:
    """A smaller story with a problem of another kind is not taken."""

    def fake(played: Story) -> Ending:
        return ending("2 changes were made for m0" if played.mails == 2 else "the host broke")

    assert shrink(Story(mails=2), play=fake).mails == 2


def test_number_of_plays_is_bounded() -> None:
    """Whoever shrinks comes to an end."""
    played: list[Story] = []

    def fake(story: Story) -> Ending:
        played.append(story)
        return ending("it is wrong")

    shrink(from_seed(3), plays_max=4, play=fake)
    assert len(played) == 5


def test_story_without_a_problem_is_left_alone() -> None:
    """There is nothing to make smaller."""
    story = from_seed(3)
    assert shrink(story, play=lambda _: ending()) == story


def test_kind_of_a_problem_leaves_out_names_and_numbers() -> None:
    """Two events with the same trouble have one kind of problem."""
    assert kind("2 changes were made for event m1") == kind("3 changes were made for event m0")
    assert kind("event m1 is gone") != kind("run r1 is gone")


def test_every_step_makes_a_story_simpler() -> None:
    """No step leads back."""
    story = from_seed(4)
    steps = list(simpler(story))
    assert story not in steps
    assert len(set(steps)) >= 5
