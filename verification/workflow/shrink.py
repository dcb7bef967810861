"""Makes a story that went wrong as small as it gets, so that a person can read it.

Law: a smaller story is kept only if the same kind of problem remains; the number of plays is
bounded, so the answer may not be the smallest story, and always is one that goes wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar

from duly.rules.permission import Approval
from verification.bus.scenario import BusStory
from verification.life import Ending
from verification.workflow.outside import Outcome
from verification.workflow.run import play
from verification.workflow.scenario import Death, Story

T = TypeVar("T")
D = TypeVar("D", Story, BusStory)

PLAYS_MAX: Final = 300
LISTS: Final = ("crashes", "acts", "outcomes", "sayings", "faults")


def kind(problem: str) -> str:
    """Say what kind of problem this is: the sentence without its names and numbers."""
    return re.sub(r"\w*\d\w*", "#", problem)


def shrink(
    story: Story, *, plays_max: int = PLAYS_MAX, play: Callable[[Story], Ending] = play
) -> Story:
    """Answer a smaller story of a workflow with the same kind of problem."""
    return shrink_by(story, play, simpler, plays_max=plays_max)


def shrink_by(
    story: T,
    play: Callable[[T], Ending],
    simpler: Callable[[T], Iterable[T]],
    *,
    plays_max: int = PLAYS_MAX,
) -> T:
    """Answer a smaller story with the same kind of problem."""
    wanted = _kinds(play(story))
    left = plays_max
    is_smaller = bool(wanted)
    while is_smaller:
        is_smaller = False
        for smaller in simpler(story):
            if left == 0:
                return story
            left -= 1
            if wanted & _kinds(play(smaller)):
                story, is_smaller = smaller, True
                break
    return story


def simpler(story: Story) -> Iterator[Story]:
    """Answer every story that is one step simpler, the largest steps first."""
    if story.dice:
        yield replace(story, dice=0)
    if story.approval is not Approval.NEVER:
        yield replace(story, approval=Approval.NEVER)
    if not story.is_granted:
        yield replace(story, is_granted=True)
    for name in LISTS:
        if getattr(story, name):
            yield with_items(story, name, ())
    if story.mails > 1:
        yield replace(story, mails=1)
        yield replace(story, mails=story.mails - 1)
    for name in LISTS:
        items = getattr(story, name)
        for place in range(len(items)):
            yield with_items(story, name, items[:place] + items[place + 1 :])
    for place, outcome in enumerate(story.outcomes):
        if outcome is not Outcome.OK:
            yield with_items(story, "outcomes", put(story.outcomes, place, Outcome.OK))
    for place, crash in enumerate(story.crashes):
        if crash.down_s:
            awake = replace(crash, down_s=0.0)
            yield with_items(story, "crashes", put(story.crashes, place, awake))
        if crash.death is Death.POWER:
            killed = replace(crash, death=Death.KILL)
            yield with_items(story, "crashes", put(story.crashes, place, killed))


def _kinds(ending: Ending) -> set[str]:
    return {kind(problem) for problem in ending.problems}


def with_items(story: D, name: str, items: tuple[Any, ...]) -> D:
    """Answer a story with another list in one place."""
    changes: dict[str, Any] = {name: items}
    return replace(story, **changes)


def put(items: tuple[Any, ...], place: int, item: Any) -> tuple[Any, ...]:
    """Answer a list with another item in one place."""
    return (*items[:place], item, *items[place + 1 :])
