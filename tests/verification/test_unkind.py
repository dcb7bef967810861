"""The unkind world keeps its promises, and breaks everything else."""

from __future__ import annotations

import pytest

from verification.disk import Kind, Operation
from verification.workflow.outside import (
    BRIEF_S,
    LAG_S,
    STRANGE,
    STRANGE_SAYINGS,
    TIMEOUT_S,
    Outcome,
)
from verification.workflow.planted import Bug, Make, Place, planted
from verification.workflow.planted_unkind import DIRECTED
from verification.workflow.run import run
from verification.workflow.scenario import (
    GENEROUS,
    Action,
    Death,
    DiskFault,
    Do,
    PlannedCrash,
    Scenario,
    invent,
)
from verification.workflow.shape import Shape, Tool
from verification.workflow.unkind import WAYS, from_seed


def times(trace: tuple[str, ...], text: str) -> list[float]:
    return [float(line.split(" ", 1)[0]) for line in trace if text in line]


def test_late_request_lands_at_the_end_of_the_lag() -> None:
    """L6: the lag counts from the end of the send, and is used up."""
    ending = run(Scenario(outcomes=(Outcome.LATE,)))
    assert ending.problems == ()
    (row,) = times(ending.trace, "a row appears")
    assert row == pytest.approx(TIMEOUT_S + LAG_S, abs=0.01)


def test_late_request_of_a_killed_host_lands_beside_the_next() -> None:
    """L6, R7: the next host is at work when the request of the last one lands."""
    scenario = Scenario(
        outcomes=(Outcome.LATE,), crashes=(PlannedCrash(1, Death.KILL, "before the effect"),)
    )
    assert run(scenario).problems == ()


@pytest.mark.parametrize("tool", [Tool.ASKED, Tool.BLIND, Tool.ONCE])
@pytest.mark.parametrize("outcome", [Outcome.DEAF, Outcome.DEAF_REFUSED])
def test_send_outlives_its_cancel_and_a_close(tool: Tool, outcome: Outcome) -> None:
    """L6: whether the host is closed meanwhile or not, the change is made once or not at all."""
    plain = Scenario(tool=tool, mails=2, outcomes=(outcome,))
    closed = Scenario(
        tool=tool,
        mails=2,
        outcomes=(outcome,),
        crashes=(PlannedCrash(1, Death.CLOSE, "before the effect"),),
    )
    assert run(plain).problems == ()
    assert run(closed).problems == ()


def test_key_is_forgotten() -> None:
    """L7: a call whose key has grown old is not sent again."""
    outcomes = (Outcome.TIMEOUT_AFTER,) * 6
    ending = run(Scenario(tool=Tool.BRIEF, outcomes=outcomes))
    assert ending.problems == ()
    calls = times(ending.trace, "call ")
    assert len(calls) > 1
    assert max(calls) + TIMEOUT_S + LAG_S < BRIEF_S


@pytest.mark.parametrize("outcome", STRANGE)
def test_strange_raise_is_an_unknown_call(outcome: Outcome) -> None:
    """L13: whatever a connector raises, the change is made once."""
    assert run(Scenario(mails=2, outcomes=(outcome,))).problems == ()


def test_strange_answers_do_not_stop_the_asking() -> None:
    """L13: a question that fails in any way is asked again."""
    scenario = Scenario(outcomes=(Outcome.TIMEOUT_AFTER,), sayings=STRANGE_SAYINGS)
    assert run(scenario).problems == ()


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("lasts_s", [0.0, 30.0])
def test_disk_fails_for_a_while(operation: Operation, lasts_s: float) -> None:
    """H3: the host goes on when the fault is over, or another one does."""
    for at in ("before send", "between the statements of commit_run", "before a sync of the log"):
        fault = DiskFault(at, 1, operation, Kind.IOERR, 0, lasts_s)
        assert run(Scenario(mails=2, faults=(fault,))).problems == ()


@pytest.mark.parametrize("which", range(16))
def test_clock_is_set_around_a_wait(which: int) -> None:
    """S2: forward or back, by minutes or years, it comes to rest when the clock is right."""
    actions = (
        Action(0, Do.SET_CLOCK, which, "after record"),
        Action(0, Do.SET_CLOCK, which + 1, "before commit_run"),
    )
    scenario = Scenario(shape=Shape.WAKE, outcomes=(Outcome.NOT_SENT,), actions=actions)
    assert run(scenario).problems == ()


DIRECTED_SCENARIOS = {
    "close-does-not-wait": Scenario(
        mails=2,
        outcomes=(Outcome.DEAF,),
        crashes=(PlannedCrash(1, Death.CLOSE, "before the effect"),),
    ),
}


@pytest.mark.parametrize("line", DIRECTED, ids=lambda line: line[0])
def test_planted_bug_is_found_by_its_story(line: tuple[str, str, str, str, Make]) -> None:
    """L6, L7: a scenario that is fine without the bug is wrong with it."""
    name, says, module, attribute, make = line
    assert run(DIRECTED_SCENARIOS[name]).problems == ()
    with planted(Bug(name, says, (Place(module, attribute, make),))):
        assert run(DIRECTED_SCENARIOS[name]).problems != ()


def test_every_way_is_taken() -> None:
    """A hundred seeds have each kind of unkindness, and every other scenario is ordinary."""
    scenarios = [from_seed(seed) for seed in range(1, 200, 2)]
    assert all(from_seed(seed) == invent(seed) for seed in range(0, 20, 2))
    outcomes = {outcome for scenario in scenarios for outcome in scenario.outcomes}
    assert outcomes >= {*STRANGE, Outcome.DEAF, Outcome.DEAF_REFUSED}
    assert any(scenario.faults for scenario in scenarios)
    assert any(action.do is Do.SET_CLOCK for scenario in scenarios for action in scenario.actions)
    assert any(scenario.tool is Tool.BRIEF for scenario in scenarios)
    assert any(scenario.shape is Shape.WAKE for scenario in scenarios)
    assert any(crash.death is Death.CLOSE for scenario in scenarios for crash in scenario.crashes)
    assert any(crash.down_s for scenario in scenarios for crash in scenario.crashes)
    wishes = {action.do for scenario in scenarios for action in scenario.actions}
    assert wishes >= {*GENEROUS}
    assert len(WAYS) == 9
