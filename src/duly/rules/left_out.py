"""Which pages of a read a script was given, and whether it left the rest unread (M9).

Law: only facts. A page that says `has_more` is followed if a later call of the same tool goes on
where it ended, or if where it ended is kept in a state, for the next run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from duly.rules.catalog import Tool
from duly.rules.value import Json

MORE: Final = "has_more"
ITEMS: Final = "items"
GOES_ON_BY: Final = ("after", "cursor", "offset", "skip", "page")
PAGES_MAX: Final = 1000  # that are remembered; a script that reads more goes on somewhere
DEPTH_MAX: Final = 4

Place: TypeAlias = str | int | float


@dataclass(frozen=True, slots=True)
class UnreadRest:
    """A read that gave `items` and had more, and the script was not seen to ask for that.

    `goes_on_by` is the argument that says where the next page begins, if the tool has one.
    """

    tool: str
    items: int
    goes_on_by: str | None


@dataclass(frozen=True, slots=True)
class _Open:
    tool: Tool
    args: Mapping[str, Json]
    items: int
    ends: frozenset[Place]  # what a next call, or a state, would begin after

    def is_followed(self, tool: Tool, args: Mapping[str, Json]) -> bool:
        """Tell whether a later call goes on where this page ended."""
        if tool.name != self.tool.name:
            return False
        return any(
            _goes_on(name, self.args.get(name), args.get(name), self.ends)
            for name in {*self.args, *args}
        )


@dataclass(slots=True)
class ReadPages:
    """The pages of one trial that had more behind them."""

    left: list[_Open] = field(default_factory=list)

    def note(self, tool: Tool, args: Mapping[str, Json], answer: Json) -> None:
        """Take in one read: which page it goes on from, and whether it has more itself."""
        self.left = [each for each in self.left if not each.is_followed(tool, args)]
        if isinstance(answer, dict) and answer.get(MORE) is True:
            items = answer.get(ITEMS)
            items = items if isinstance(items, list) else []
            names = {name: value for name, value in answer.items() if name != ITEMS}
            ends = {*_scalars(names), *_scalars(items[-1:])}
            if len(self.left) < PAGES_MAX:
                self.left.append(_Open(tool, dict(args), len(items), frozenset(ends)))

    def tell(self, states: Iterable[Json]) -> tuple[UnreadRest, ...]:
        """List the tools whose last page was not followed, each once."""
        kept = {each for state in states for each in _scalars(state)}
        told: dict[str, UnreadRest] = {}
        for each in self.left:
            if not each.ends & kept:
                before = told.get(each.tool.name)
                items = each.items + (0 if before is None else before.items)
                told[each.tool.name] = UnreadRest(each.tool.name, items, _find_argument(each.tool))
        return tuple(told.values())


def _goes_on(name: str, before: Json, now: Json, ends: frozenset[Place]) -> bool:
    """Tell whether an argument now has where a page ended, at any depth, or a place behind it.

    A number that only grew is a place in an argument that is called like one: a customer, or how
    many are asked for, is none.
    """
    if ({*_scalars(now)} - {*_scalars(before)}) & ends:
        return True
    is_further = type(now) is int and isinstance(before, int | None) and now > (before or 0)
    return is_further and _is_place(name)


def _find_argument(tool: Tool) -> str | None:
    """Find the argument by which a tool goes on, by its name."""
    return next((each.name for each in tool.parameters if _is_place(each.name)), None)


def _is_place(name: str) -> bool:
    """Tell whether an argument is called like a place in a list: `after`, or `after_id`."""
    return name.partition("_")[0] in GOES_ON_BY


def _scalars(value: Json, depth: int = DEPTH_MAX) -> Iterator[Place]:
    """List the texts and numbers in a value; a truth value ends nothing."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        for each in parts if depth else ():
            yield from _scalars(each, depth - 1)
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
        yield value
