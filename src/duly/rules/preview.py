"""What a source will read and change, as facts that a person can judge without its code (M9).

Law 1  What stands in the text is told apart from what a trial observed. A constant is certain; any
       other value is filled in when the script runs, and only an observed call shows it (L11).
Law 2  Everything has a limit, and what was left out is counted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar
from unicodedata import lookup

from duly.rules.access import Step
from duly.rules.catalog import Risk, Tool, make_form
from duly.rules.left_out import UnreadRest
from duly.rules.permission import Asks
from duly.rules.planned import Planned
from duly.rules.portion import Portion
from duly.rules.value import Json, digest
from duly.rules.word import Failure

CALLS_MAX: Final = 100  # that stand in one text
EXAMPLES_MAX: Final = 3
VALUES_MAX: Final = 5  # of one argument, over all calls of a trial
VALUE_CHARS_MAX: Final = 80
READS_SHOWN_MAX: Final = 10
PLACES_MAX: Final = 20
TIMES_SHOWN: Final = 3
# What may stand before and behind the sign of an address or of a link. Of an address that is put
# together at run time the part that is written counts: “{name}@b.example”.
BEFORE_AT: Final = re.compile(r"[\w.+!#$%&*/=?^{|}~-]+\Z")
BEHIND_AT: Final = re.compile(r"[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
BEFORE_LINK: Final = re.compile(r"[a-z][a-z0-9+.-]+\Z", re.IGNORECASE | re.ASCII)
BEHIND_LINK: Final = re.compile(r"[^\s\"'`<>\\]{1,200}")
SIGNS: Final = (("@", 64, BEFORE_AT, BEHIND_AT), ("://", 21, BEFORE_LINK, BEHIND_LINK))
QUOTES: Final = "\"'`"
# How both languages write a character by its number, and a text in several pieces.
ESCAPED: Final = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|U([0-9a-fA-F]{8})"
    r"|N\{([A-Za-z0-9 -]{1,80})\}|([0-7]{1,3})|\n)"
)
PIECES: Final = re.compile(r"""["'`]\s*+(?:\+\s*+)?[rRbBfFuU]{0,2}["'`]""")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Filled:
    """How a script fills one argument of a call, or one part of it.

    `value` is what the text writes out; None where it is made at run time. `taken_from` are the
    names of the fields it is made of then, as far as the text shows them.
    """

    name: str
    value: str | None = None
    taken_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call of a tool that stands in a script; `is_open` says that it may pass more arguments."""

    handler: str
    step: Step
    tool: str
    line: int
    args: tuple[Filled, ...] = ()
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that a script calls, with every call of it; `asks` says when a person is asked."""

    tool: str
    capability: str
    risk: Risk
    calls: tuple[WrittenCall, ...]
    asks: Asks | None = None


@dataclass(frozen=True, slots=True)
class TakenBack:
    """When a workflow last lost a capability, who took it, and how often it was lost by now."""

    at: datetime
    by: str
    times: int


@dataclass(frozen=True, slots=True)
class AskedFor:
    """A capability that a source uses; `changes` says that tools of it change something.

    `taken_back` is when it was last revoked, or removed together with its workflow, and by whom.
    `seen` is a word for all that stands of it: what is allowed by what was shown carries it.
    """

    capability: str
    is_granted: bool
    changes: bool
    taken_back: TakenBack | None = None
    seen: str = ""


@dataclass(frozen=True, slots=True)
class NextTimes:
    """A schedule, and the next times at which it would run."""

    planned: Planned
    at: tuple[datetime, ...]


@dataclass(frozen=True, slots=True)
class TriedRead:
    """A read that a trial really made; `items` counts what came back, where it is a list."""

    tool: str
    form: tuple[tuple[str, str], ...]
    times: int
    items: int | None


@dataclass(frozen=True, slots=True)
class ExampleChange:
    """A change that a trial would have made: the observed call, apart from its title (L11)."""

    tool: str
    form: tuple[tuple[str, str], ...]
    claimed: str | None
    inputs: tuple[str, ...]
    needs_approval: bool


@dataclass(frozen=True, slots=True)
class SeenValues:
    """What one argument was in all calls of a trial: how many values, and the first of them."""

    tool: str
    name: str
    distinct: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """A handler that stopped in a trial; `sentence` may hold texts from outside."""

    handler: str
    failure: Failure
    sentence: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Passes:
    """What one pass over today's data would do, and how much a second one would do after it.

    `changes` counts calls by tool, `repeated` those that are the same as one before. `is_cut` says
    that the trial ended at its limit; then there would have been more. `portions` says how much of
    what was found goes on, and what is passed over; `left_out` lists reads that had more;
    `over` counts published events that are over already.
    """

    changes: tuple[tuple[str, int], ...]
    again: int
    repeated: int
    published: int
    is_cut: bool
    reads: tuple[TriedRead, ...]
    values: tuple[SeenValues, ...]
    examples: tuple[ExampleChange, ...]
    stops: tuple[Stop, ...]
    portions: tuple[Portion, ...] = ()
    left_out: tuple[UnreadRest, ...] = ()
    over: int = 0

    @property
    def count(self) -> int:
        """How many changes one pass would make."""
        return sum(count for _, count in self.changes)


@dataclass(frozen=True, slots=True)
class SourcePreview:
    """What a source will do, for a person who has not seen its code (M9).

    `hash` names exactly this text. `places` are the addresses and links that stand in it.
    `entries` are its topics that requests or the bus publish into. `tried` is None where no trial
    was made, and `replaces` the active version, if there is one. `untried` are the reads because
    of which no trial was made before a person agrees. `is_cut` says that its text has more calls or
    addresses than are listed, or hides some. `lacking` are connections that it uses and that are
    not here. `approvals` are the rules of the project by which a person is asked, each glob with
    its word.
    """

    workflow: str
    hash: str
    replaces: str | None
    schedule: tuple[NextTimes, ...]
    entries: tuple[str, ...]
    reads: tuple[ToolUse, ...]
    changes: tuple[ToolUse, ...]
    places: tuple[str, ...]
    capabilities: tuple[AskedFor, ...]
    changes_per_day: int | None
    is_cut: bool = False
    tried: Passes | None = None
    untried: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    approvals: tuple[tuple[str, str], ...] = ()


def find_places(text: str) -> tuple[str, ...]:
    """List the addresses and links that a text writes out, each once.

    They count also where characters stand by their numbers, or in pieces that are put together.
    """
    whole = PIECES.sub("", ESCAPED.sub(_unescape, text))
    found = (each for written in (text, whole) for each in _places_in(written))
    places: dict[str, None] = {}
    for each in found:
        places[each] = None
        if len(places) == PLACES_MAX:
            break
    return tuple(places)


def _places_in(text: str) -> Iterator[str]:
    """Look at both sides of every sign; a search for the whole would look at each letter often."""
    for sign, most, before, behind in SIGNS:
        at = text.find(sign)
        while at >= 0:
            end = at + len(sign)
            rest = behind.match(text, end)
            begin = None if rest is None else before.search(text[max(0, at - most) : at])
            is_begun = begin is not None or (sign == "@" and text[at - 1 : at] in (*QUOTES,))
            if rest is not None and is_begun:
                written = f"{begin.group() if begin else ''}{sign}{rest.group()}"
                yield written.rstrip(".,;)]}")
            at = text.find(sign, end)


def _unescape(found: re.Match[str]) -> str:
    """Return the character that an escape of either language stands for."""
    *numbers, name, octal = found.groups()
    if name is not None:
        with suppress(KeyError):
            return lookup(name)
        return found.group()
    code = next((int(each, 16) for each in numbers if each is not None), None)
    if code is None:
        code = int(octal, 8) if octal is not None else None
    if code is None:
        return ""  # a line that goes on in the next one
    return chr(code) if code <= sys.maxunicode else found.group()


def choose_examples(changes: Sequence[T], tools: Sequence[str]) -> list[T]:
    """Choose the changes to show: one of each tool first, then the first, middle and last ones."""
    first = {tool: place for place, tool in reversed([*enumerate(tools)])}
    last = len(changes) - 1
    order = dict.fromkeys([*sorted(first.values()), 0, last // 2, last, *range(len(changes))])
    chosen = [place for place in order if 0 <= place <= last][:EXAMPLES_MAX]
    return [changes[place] for place in sorted(chosen)]


def count_repeated(calls: Iterable[tuple[str, Json]]) -> int:
    """Count the calls that are exactly the same as one before them."""
    named = [digest([tool, args]) for tool, args in calls]
    return len(named) - len(set(named))


def gather_values(calls: Iterable[tuple[Tool, Mapping[str, Json]]]) -> tuple[SeenValues, ...]:
    """Gather what each argument was in all calls, under the name that a person sees."""
    seen: dict[tuple[str, str], dict[str, None]] = {}
    for tool, args in calls:
        for label, text in make_form(tool, args, is_brief=True):
            seen.setdefault((tool.name, label), {})[text] = None
    return tuple(
        SeenValues(tool, label, len(texts), tuple(map(_cut, [*texts][:VALUES_MAX])))
        for (tool, label), texts in seen.items()
    )


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"
