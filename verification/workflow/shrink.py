"""Makes a scenario that went wrong as small as it gets, so that a person can read it.

Law: a smaller scenario is kept only if the same kind of problem remains; the number of runs is
bounded, so the answer may not be the smallest scenario, and always is one that goes wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar

from duly.rules.permission import Approval
from verification.bus.scenario import BusScenario
from verification.life import Ending
from verification.workflow.outside import Outcome
from verification.workflow.run import run
from verification.workflow.scenario import Death, Scenario

T = TypeVar("T")
D = TypeVar("D", Scenario, BusScenario)

RUNS_MAX: Final = 300
LISTS: Final = ("crashes", "actions", "outcomes", "sayings", "faults")


def kind(problem: str) -> str:
    """Say what kind of problem this is: the sentence without its names and numbers."""
    return re.sub(r"\w*\d\w*", "#", problem)


def shrink(
    scenario: Scenario, *, runs_max: int = RUNS_MAX, run: Callable[[Scenario], Ending] = run
) -> Scenario:
    """Return a smaller scenario of a workflow with the same kind of problem."""
    return shrink_by(scenario, run, simpler, runs_max=runs_max)


def shrink_by(
    scenario: T,
    run: Callable[[T], Ending],
    simpler: Callable[[T], Iterable[T]],
    *,
    runs_max: int = RUNS_MAX,
) -> T:
    """Return a smaller scenario with the same kind of problem."""
    wanted = _kinds(run(scenario))
    left = runs_max
    is_smaller = bool(wanted)
    while is_smaller:
        is_smaller = False
        for smaller in simpler(scenario):
            if left == 0:
                return scenario
            left -= 1
            if wanted & _kinds(run(smaller)):
                scenario, is_smaller = smaller, True
                break
    return scenario


def simpler(scenario: Scenario) -> Iterator[Scenario]:
    """Return every scenario that is one step simpler, the largest steps first."""
    if scenario.dice:
        yield replace(scenario, dice=0)
    if scenario.approval is not Approval.NEVER:
        yield replace(scenario, approval=Approval.NEVER)
    if not scenario.is_granted:
        yield replace(scenario, is_granted=True)
    for name in LISTS:
        if getattr(scenario, name):
            yield with_items(scenario, name, ())
    if scenario.mails > 1:
        yield replace(scenario, mails=1)
        yield replace(scenario, mails=scenario.mails - 1)
    for name in LISTS:
        items = getattr(scenario, name)
        for place in range(len(items)):
            yield with_items(scenario, name, items[:place] + items[place + 1 :])
    for place, outcome in enumerate(scenario.outcomes):
        if outcome is not Outcome.OK:
            yield with_items(scenario, "outcomes", put(scenario.outcomes, place, Outcome.OK))
    for place, crash in enumerate(scenario.crashes):
        if crash.down_s:
            awake = replace(crash, down_s=0.0)
            yield with_items(scenario, "crashes", put(scenario.crashes, place, awake))
        if crash.death is Death.POWER:
            killed = replace(crash, death=Death.KILL)
            yield with_items(scenario, "crashes", put(scenario.crashes, place, killed))


def _kinds(ending: Ending) -> set[str]:
    return {kind(problem) for problem in ending.problems}


def with_items(scenario: D, name: str, items: tuple[Any, ...]) -> D:
    """Return a scenario with another list in one place."""
    changes: dict[str, Any] = {name: items}
    return replace(scenario, **changes)


def put(items: tuple[Any, ...], place: int, item: Any) -> tuple[Any, ...]:
    """Return a list with another item in one place."""
    return (*items[:place], item, *items[place + 1 :])
