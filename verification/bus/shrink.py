"""Makes a story of the bus smaller, step by step.

Law: every story that is answered is a story, and none has more in it than the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from verification.bus.scenario import BATCH, BusStory, Habit, Listener
from verification.workflow.scenario import Death
from verification.workflow.shrink import put, with_items

PLAIN: Final = Listener()
LISTS: Final = ("crashes", "deeds", "listeners")


def simpler(story: BusStory) -> Iterator[BusStory]:
    """Answer every story that is one step simpler, the largest steps first."""
    if story.dice:
        yield replace(story, dice=0)
    if story.batch != BATCH:
        yield replace(story, batch=BATCH)
    if story.is_heard:
        yield replace(story, is_heard=False)
    for name in LISTS:
        if getattr(story, name):
            yield with_items(story, name, ())
    if story.events:
        yield replace(story, events=0)
        yield replace(story, events=story.events - 1)
    if story.topics > 1:
        yield replace(story, topics=1)
    for name in LISTS:
        items = getattr(story, name)
        for place in range(len(items)):
            yield with_items(story, name, items[:place] + items[place + 1 :])
    for place, listener in enumerate(story.listeners):
        for plainer in _plainer(listener):
            yield with_items(story, "listeners", put(story.listeners, place, plainer))
    for place, crash in enumerate(story.crashes):
        if crash.death is Death.POWER:
            killed = replace(crash, death=Death.KILL)
            yield with_items(story, "crashes", put(story.crashes, place, killed))


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
