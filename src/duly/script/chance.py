"""Where a text asks the clock or the dice (random numbers), and the exact text of its steps (F3).

Law 1: a use is the code that asks, and every value made of it: a variable, a field, a result, an
       argument. Names are compared as words, so two things of one name count as one.
Law 2: code that may ask counts as asking: an alias, a member named at run time, `eval`. A harmless
       repair that is only proposed costs a person a look; a harmful one that is adopted costs more.
Law 3: two texts are the same if their tokens are; spaces and comments say nothing.

A reader of a language cuts a text into units: a statement, a field of an object, an assignment, the
head of a function. Each token belongs to one unit, so the whole is linear in the text.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from duly.script.outline import Place, TooTangled

DIGEST_CHARS: Final = 32
TEXTS_MAX: Final = 2_000_000  # tokens that are read again for the steps that reach them


@dataclass(frozen=True, slots=True)
class Chance:
    """One use of clock or dice: a digest of its text, its line, and the word it was found by."""

    text: str
    line: int
    word: str


@dataclass(slots=True)
class Unit:
    """A part of the text that is judged as one.

    `targets` are the words that get its value, `calls` the functions that are given it; where
    `flows_to` is set, its value is also part of the value of that unit.
    """

    line: int
    flows_to: int | None = None
    tokens: list[str] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    targets: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    asks: str | None = None
    picks: bool = False  # it takes a member that is named at run time


@dataclass(slots=True)
class ChanceReading:
    """A text as a reader cut it; `functions` are spans of tokens by the place they begin at."""

    units: list[Unit] = field(default_factory=list)
    tokens: list[tuple[str, bool]] = field(default_factory=list)  # the text, and if it is a word
    functions: dict[Place, tuple[int, int]] = field(default_factory=dict)
    named: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    loose: list[str] = field(default_factory=list)  # what runs at load and has no name
    parameters: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, unit: int, text: str, *, is_word: bool = False) -> None:
        """Put one token into its unit."""
        self.tokens.append((text, is_word))
        self.units[unit].tokens.append(text)
        if is_word:
            self.units[unit].words.add(text)


def find_chances(reading: ChanceReading) -> tuple[Chance, ...]:
    """List every unit that asks the clock or the dice, or holds a value made of the result."""
    picked = {word for unit in reading.units if unit.picks for word in unit.targets}
    mentions: dict[str, list[int]] = defaultdict(list)
    reasons: dict[int, str] = {}
    for index, unit in enumerate(reading.units):
        for word in unit.words:
            mentions[word].append(index)
        called = next(iter(sorted(unit.calls & picked)), None)
        if (asks := unit.asks or called) is not None:
            reasons[index] = asks
    waiting, tainted = list(reasons), set[str]()
    while waiting:
        index = waiting.pop()
        unit, reason = reading.units[index], reasons[index]
        reached = set(unit.targets)
        for called in unit.calls:
            reached |= reading.parameters.get(called, set())
        if unit.flows_to is not None and unit.flows_to not in reasons:
            reasons[unit.flows_to] = reason
            waiting.append(unit.flows_to)
        for word in reached - tainted:
            tainted.add(word)
            for other in mentions[word]:
                if other not in reasons:
                    reasons[other] = word
                    waiting.append(other)
    return tuple(
        Chance(digest(reading.units[index].tokens), reading.units[index].line, reasons[index])
        for index in sorted(reasons)
    )


def introduced(old: Iterable[Chance], new: Iterable[Chance]) -> tuple[Chance, ...]:
    """List the uses that are new, or more frequent, in a text compared with the one before."""
    left = Counter(each.text for each in old)
    more: list[Chance] = []
    for each in new:
        left[each.text] -= 1
        if left[each.text] < 0:
            more.append(each)
    return tuple(more)


def texts_of(reading: ChanceReading, places: Iterable[Place]) -> dict[Place, str]:
    """Return a digest of each function and, transitively, of all code of the module it names."""
    own = {span: digest(text for text, _ in reading.tokens[slice(*span)]) for span in _all(reading)}
    loose = digest(reading.loose)
    left = TEXTS_MAX
    found: dict[Place, str] = {}
    for place in places:
        begin = reading.functions.get(place)
        spans = {} if begin is None else {begin: None}
        for span in (waiting := list(spans)):
            left -= span[1] - span[0]
            if left < 0:
                raise TooTangled
            for text, is_word in reading.tokens[slice(*span)]:
                for more in reading.named.get(text, ()) if is_word else ():
                    if more not in spans:
                        spans[more] = None
                        waiting.append(more)
        found[place] = digest([loose, *sorted(own[span] for span in spans)])
    return found


def _all(reading: ChanceReading) -> set[tuple[int, int]]:
    named = (span for spans in reading.named.values() for span in spans)
    return {*reading.functions.values(), *named}


def digest(texts: Iterable[str]) -> str:
    """Name a text by its tokens."""
    whole = hashlib.sha256()
    for text in texts:
        whole.update(text.encode(errors="replace") + b"\0")
    return whole.hexdigest()[:DIGEST_CHARS]
