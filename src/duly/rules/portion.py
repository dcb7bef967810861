"""How much of what a trial found goes on, and what is passed over (M9).

Law 1  Only facts: an item goes on if what tells it apart from the others stands in what the script
       publishes or changes; an input goes on if a run that took it publishes or changes something.
Law 2  A condition of a script is code. What it lets through and what it passes over are data, and a
       person who sees both knows the condition (“over 100 euro”).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from duly.rules.shown import cut
from duly.rules.value import Json

ITEMS_MAX: Final = 500  # of one tool; of more nothing is said
SAID_CHARS_MAX: Final = 256 * 1024  # of all that is published and changed together
SHOWN_MAX: Final = 5  # items that are passed over
FIELDS_MAX: Final = 4  # of a shown item
FIELDS_READ_MAX: Final = 50  # of an item, to tell it apart
FIELD_CHARS_MAX: Final = 80
DEPTH_MAX: Final = 4

Form: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Portion:
    """How many of `count` things go on, and some of those that do not.

    `tool` is the read that found them; None where they are inputs of the workflow.
    """

    tool: str | None
    count: int
    used: int
    passed_over: tuple[Form, ...]


def portion_of_inputs(titles: Sequence[tuple[str, bool]]) -> Portion | None:
    """Tell the inputs that go on from the others; each is its title, and whether it does."""
    if not titles:
        return None
    left = [(("", cut(title, FIELD_CHARS_MAX)),) for title, is_used in titles if not is_used]
    return Portion(None, len(titles), len(titles) - len(left), tuple(_spread(left)))


def portion_of_items(tool: str, items: Sequence[Json], said: Iterable[Json]) -> Portion | None:
    """Tell the items of a read that stand in what is said from the others; None if too many."""
    text = "\n".join(each for value in said for _, each, _ in _scalars(value))
    if not items or len(items) > ITEMS_MAX or len(text) > SAID_CHARS_MAX:
        return None
    fields = [[*_scalars(each)][:FIELDS_READ_MAX] for each in items]
    known = Counter(each for one in fields for each in {value for _, value, _ in one})
    left = []
    for one in fields:
        own = [each for each in one if known[each[1]] == 1] or one
        # A number may stand there for another reason; a text tells more.
        telling = [value for _, value, is_text in own if is_text] or [each[1] for each in own]
        if not any(_stands_in(value, text) for value in telling):
            left.append(tuple((name, cut(value, FIELD_CHARS_MAX)) for name, value, _ in one))
    shown = tuple(each[:FIELDS_MAX] for each in _spread(left))
    return Portion(tool, len(items), len(items) - len(left), shown)


def _spread(forms: Sequence[Form]) -> list[Form]:
    """Choose some from the first to the last."""
    last = len(forms) - 1
    if last < SHOWN_MAX:
        return [*forms]
    return [forms[round(place * last / (SHOWN_MAX - 1))] for place in range(SHOWN_MAX)]


def _scalars(value: Json, name: str = "", depth: int = 0) -> Iterator[tuple[str, str, bool]]:
    """List the texts and numbers in a value: name, text, and whether it is a text."""
    if isinstance(value, str):
        if value:
            yield name, value, True
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, str(value), False
    elif depth < DEPTH_MAX and isinstance(value, dict):
        for key, each in value.items():
            yield from _scalars(each, f"{name}.{key}" if name else key, depth + 1)
    elif depth < DEPTH_MAX and isinstance(value, list):
        for each in value:
            yield from _scalars(each, name, depth + 1)


def _stands_in(value: str, text: str) -> bool:
    """Tell whether a value stands in a text, and not only as a part of a word."""
    begin = text.find(value)
    while begin >= 0:
        end = begin + len(value)
        if not (_is_word(text[begin - 1 : begin]) and _is_word(value[0])) and not (
            _is_word(text[end : end + 1]) and _is_word(value[-1])
        ):
            return True
        begin = text.find(value, begin + 1)
    return False


def _is_word(character: str) -> bool:
    return character.isalnum()
