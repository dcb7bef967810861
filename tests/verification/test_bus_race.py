"""Cancelling against firing: every order, and a crash at every point of each (B2)."""

from __future__ import annotations

import itertools

import pytest

from verification.bus.planted import BUGS
from verification.bus.race import Race, Runner, crashes_of, races, run
from verification.workflow.planted import planted

BOTH = (Runner.CANCEL, Runner.PROMOTE)


@pytest.mark.parametrize(
    "runners",
    [BOTH, (Runner.CANCEL, Runner.CANCEL_TOO, Runner.PROMOTE), (Runner.CANCEL, Runner.SERVE)],
)
def test_cancel_or_firing_wins_in_every_order(runners: tuple[Runner, ...]) -> None:
    """B2: exactly one wins, the loser says so, and both orders occur."""
    finishes = [finish for _, finish in races(*runners)]
    assert [each.problems for each in finishes] == [[]] * len(finishes)
    assert {each.answers[0] or each.answers[1] for each in finishes} == {True, False}


@pytest.mark.parametrize("runners", [BOTH, (Runner.CANCEL, Runner.SERVE)])
def test_crash_at_any_point_of_cancel_or_firing_leaves_one_winner(
    runners: tuple[Runner, ...],
) -> None:
    """B2, H3: what a caller was told stays so, whether the process dies or the power fails."""
    tried = 0
    for race, finish in races(*runners):
        for crashed in crashes_of(race, finish):
            assert run(crashed).problems == [], crashed
            tried += 1
    assert tried >= 90


def test_two_who_cancel_and_one_that_fires_meet_in_many_orders() -> None:
    """B2: the orders are counted, each is another one."""
    found = [race for race, _ in races(Runner.CANCEL, Runner.CANCEL_TOO, Runner.PROMOTE)]
    assert len(found) == len(set(found)) >= 20
    assert found[0] == Race((Runner.CANCEL, Runner.CANCEL_TOO, Runner.PROMOTE))


@pytest.mark.parametrize("name", ["cancel-does-not-wait", "cancel-says-true", "promoted-twice"])
def test_race_finds_planted_bug(name: str) -> None:
    """A race in which no one could lose would prove nothing."""
    bug = next(each for each in BUGS if each.name == name)
    with planted(bug):
        orders = list(races(*BOTH))
        crashed = (run(each) for order in orders for each in crashes_of(*order))
        finishes = itertools.chain((finish for _, finish in orders), crashed)
        assert any(finish.problems for finish in finishes)
