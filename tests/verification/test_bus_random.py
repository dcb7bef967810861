"""Random scenarios of the bus that ships, those that once went wrong, and how they are told."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from verification import __main__ as command
from verification.bus import planted as bus_planted
from verification.bus.run import run
from verification.bus.scenario import BusAction, BusDo, BusScenario, Habit, Listener, from_seed
from verification.bus.shrink import simpler
from verification.life import Ending
from verification.survey import run_seeds
from verification.workflow.planted import planted, seeds_of
from verification.workflow.scenario import Death, PlannedCrash
from verification.workflow.shrink import shrink_by

SEEDS_PER_TEST = 40
STARTS = range(0, 80, SEEDS_PER_TEST)

REGRESSIONS = {
    "a look that was old when it was heard began a retry that was due at once": BusScenario(
        events=6,
        listeners=(
            Listener(
                attempts=2,
                delays_s=(0.0,),
                habits=(Habit.CANCEL, Habit.EMIT_AND_RAISE),
                away=(0, 3),
            ),
            Listener(),
        ),
        crashes=(PlannedCrash(1, at="before the handler"),),
        is_heard=True,
        dice=460_303_804,
    ),
    "a dead letter was retried while the next subscriber's turn began": BusScenario(
        topics=3,
        events=0,
        listeners=(
            Listener(away=(0, 1, 3)),
            Listener(attempts=2, delays_s=(0.0,), rest=Habit.RAISE),
            Listener(),
        ),
        actions=(
            BusAction(0, BusDo.RETRY, 2, at="after finish_delivery", times=2),
            BusAction(4_304, BusDo.EMIT),
        ),
        dice=690_296_797,
    ),
    "a clock was set while an attempt failed, whose next time had been told by it": BusScenario(
        topics=1,
        events=3,
        listeners=(
            Listener(attempts=3, delays_s=(1, 5), habits=(Habit.EMIT_AND_RAISE,)),
            Listener(
                attempts=2,
                delays_s=(0.0,),
                habits=(Habit.RAISE, Habit.EMIT, Habit.EMIT_HERE),
            ),
            Listener(attempts=3, delays_s=(1.0, 5.0), rest=Habit.RAISE),
        ),
        actions=(BusAction(29, BusDo.CLOCK_FORWARD, 5),),
        dice=547_197_958,
    ),
    "a dead letter was retried when the next event had its turn": BusScenario(
        topics=2,
        events=3,
        listeners=(
            Listener(attempts=1, delays_s=(), habits=(Habit.RAISE,)),
            Listener(attempts=3, delays_s=(1, 5)),
        ),
        actions=(BusAction(0, BusDo.RETRY, 3, at="after finish_delivery", times=2),),
        is_heard=True,
    ),
    "the oracle remembered calls whose count the power had taken": BusScenario(
        events=2,
        crashes=(
            PlannedCrash(3, at="before the handler"),
            PlannedCrash(4, Death.POWER, at="before the handler"),
        ),
        is_heard=True,
    ),
}


@pytest.mark.parametrize("start", STARTS)
def test_no_random_story_of_the_bus_loses_or_doubles_anything(start: int) -> None:
    """B2, B4, B6: whatever happens, everybody is told once, in order, or it stays in sight."""
    tally = run_seeds(range(start, start + SEEDS_PER_TEST), "bus")
    assert tally.failures == []
    assert tally.schedules == SEEDS_PER_TEST
    assert tally.events_median >= 3
    assert tally.deaths_median >= 1
    assert tally.power_cuts >= 10


@pytest.mark.parametrize("lesson", REGRESSIONS)
def test_story_of_the_bus_that_once_went_wrong_is_fine(lesson: str) -> None:
    """What was found once stays found."""
    assert run(REGRESSIONS[lesson]).problems == ()


def test_loop_of_events_ends_at_its_depth() -> None:
    """B12: a handler that emits for every event is stopped, and the event that was is failed."""
    loop = BusScenario(listeners=(Listener(rest=Habit.EMIT_HERE),))
    ending = run(loop)
    assert ending.problems == ()
    assert ending.events == 102  # the first, a hundred more, and the one nobody is told of


def test_story_of_the_bus_is_played_the_same_way_twice() -> None:
    """The second run of a seed has the trace of the first, whatever ran between."""
    first = [run(from_seed(seed)).hash for seed in range(8)]
    again = [run(from_seed(seed)).hash for seed in reversed(range(8))]
    assert first == again[::-1]
    assert len(set(first)) == len(first)


def test_only_what_the_problem_needs_is_left_of_a_story_of_the_bus() -> None:
    """Everything that does not matter is dropped, and what is left has the same problem."""
    needed = PlannedCrash(7, Death.POWER)
    scenario = BusScenario(
        topics=3,
        events=5,
        listeners=(Listener(2, 1, (), (Habit.RAISE, Habit.EMIT), Habit.RAISE, (1,)), Listener()),
        actions=(BusAction(5, BusDo.EMIT), BusAction(9, BusDo.STOP)),
        crashes=(PlannedCrash(3), needed, PlannedCrash(9)),
        is_heard=True,
        batch=1,
        dice=77,
    )

    def fake(given: BusScenario) -> Ending:
        problems = ("event 7 is gone",) if needed in given.crashes and given.listeners else ()
        return Ending(problems, (), Counter(), 0, 0, 0)

    assert shrink_by(scenario, fake, simpler) == BusScenario(events=0, crashes=(needed,))


def test_command_plays_stories_of_the_bus(capsys: pytest.CaptureFixture[str]) -> None:
    """Counted and told like the others, with --bus."""
    assert command.main(["--bus", "--seeds", "3", "--from", "70"]) == 0
    assert "3 schedules" in capsys.readouterr().out
    assert command.main(["--bus", "--seed", "70", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["problems"] == []
    assert told["hash"] == run(from_seed(70)).hash


def test_story_of_the_bus_that_goes_wrong_is_told_with_its_replay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit 1, the command that runs it again, and a trace a person can read."""
    bug = next(each for each in bus_planted.BUGS if each.name == "promoted-twice")
    seed = bus_planted.find(bug, seeds_of(0))
    with planted(bug):
        assert command.main(["--bus", "--seeds", "1", "--from", str(seed)]) == 1
    told = capsys.readouterr().out
    assert f"python -m verification --bus --seed {seed}" in told
    assert re.search(r"^\d+: \d+\.\d+ s: ", told, re.MULTILINE)
    assert re.search(r"^  => ", told, re.MULTILINE)
