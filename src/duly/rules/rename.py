"""What a deploy would begin again because it bears another name (W9).

Law: state, events and pauses belong to names. A new name begins with nothing, so what was done
under the old one is done again; nothing in the store can tell a new name from a new thing. A
deploy that drops one and adds another is therefore taken for a rename until a person says that it
may be done again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Renamed(StrEnum):
    """What seems to have another name; the words are those of its finding."""

    PRODUCER = "renamed-producer"
    TOPIC = "renamed-topic"
    WORKFLOW = "renamed-workflow"


REPLAYS: Final = frozenset(Renamed)


@dataclass(frozen=True, slots=True)
class Kept:
    """A producer or a topic as the store has it."""

    name: str
    is_declared: bool  # by the active version; else it is orphaned
    has_history: bool  # a state, or events
    is_worked: bool = True  # a topic without a consumer makes no handler do anything again


@dataclass(frozen=True, slots=True)
class Rename:
    """What is dropped with its history, and what begins without one."""

    what: Renamed
    old: tuple[str, ...]
    new: tuple[str, ...]


def find_rename(what: Renamed, kept: Iterable[Kept], declared: Collection[str]) -> Rename | None:
    """Say whether a version that declares these names drops one that has a history for a new one.

    A name that was there before, also as an orphan, goes on from its own history.
    """
    known = {each.name: each for each in kept}
    dropped = tuple(
        each.name
        for each in known.values()
        if each.has_history
        and each.is_worked
        and each.name not in declared
        # A producer that was dropped before stays known as dropped: its new name may come later.
        and (each.is_declared or what is Renamed.PRODUCER)
    )
    begins = tuple(
        name
        for name in declared
        if name not in known or not (known[name].is_declared or known[name].has_history)
    )
    return Rename(what, dropped, begins) if dropped and begins else None
