"""Makes a scenario of the bus smaller, step by step.

Law: every scenario that is answered is a scenario, and none has more in it than the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from verification.bus.scenario import BATCH, BusScenario, Habit, Listener
from verification.workflow.scenario import Death
from verification.workflow.shrink import put, with_items

PLAIN: Final = Listener()
LISTS: Final = ("crashes", "actions", "listeners")


def simpler(scenario: BusScenario) -> Iterator[BusScenario]:
    """Return every scenario that is one step simpler, the largest steps first."""
    if scenario.dice:
        yield replace(scenario, dice=0)
    if scenario.batch != BATCH:
        yield replace(scenario, batch=BATCH)
    if scenario.is_heard:
        yield replace(scenario, is_heard=False)
    for name in LISTS:
        if getattr(scenario, name):
            yield with_items(scenario, name, ())
    if scenario.events:
        yield replace(scenario, events=0)
        yield replace(scenario, events=scenario.events - 1)
    if scenario.topics > 1:
        yield replace(scenario, topics=1)
    for name in LISTS:
        items = getattr(scenario, name)
        for place in range(len(items)):
            yield with_items(scenario, name, items[:place] + items[place + 1 :])
    for place, listener in enumerate(scenario.listeners):
        for plainer in _plainer(listener):
            yield with_items(scenario, "listeners", put(scenario.listeners, place, plainer))
    for place, crash in enumerate(scenario.crashes):
        if crash.death is Death.POWER:
            killed = replace(crash, death=Death.KILL)
            yield with_items(scenario, "crashes", put(scenario.crashes, place, killed))


def _plainer(listener: Listener) -> Iterator[Listener]:
    if listener.away:
        yield replace(listener, away=())
    if listener.rest is not Habit.RETURN:
        yield replace(listener, rest=Habit.RETURN)
    if listener.habits:
        yield replace(listener, habits=())
        yield replace(listener, habits=listener.habits[:-1])
    if (listener.attempts, listener.delays_s) != (PLAIN.attempts, PLAIN.delays_s):
        yield replace(listener, attempts=PLAIN.attempts, delays_s=PLAIN.delays_s)
