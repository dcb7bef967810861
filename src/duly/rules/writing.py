"""A source that a model writes for a person: when it is good enough to be proposed (M9).

Law 1  What a model wrote is a proposal at most; a person who has seen what it does adopts it.
Law 2  A flaw says nothing of what a trial read, so that it can be told to the model (M3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from duly.errors import Invalid
from duly.rules.preview import CALLS_MAX, Passes, WrittenCall
from duly.rules.value import Json
from duly.rules.word import Failure

CORRECTIONS_MAX: Final = 4
WISH_CHARS_MAX: Final = 4000
WRITES_MAX: Final = 2  # at one moment, of all callers of a host
FENCE: Final = re.compile(r"^```[^\n`]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
URL: Final = "url"  # a parameter of this name can carry anything to any server


class DraftFlaw(StrEnum):
    """What is wrong with a draft besides the findings of the check."""

    NO_BLOCK = "no_block"
    SEVERAL_BLOCKS = "several_blocks"
    NAME_TAKEN = "name_taken"
    OTHER_NAME = "other_name"
    STOPPED = "stopped"
    REPEATS = "repeats"


# A draft with one of these alone is proposed all the same; its preview shows it to the person.
SHOWN_ONLY: Final = frozenset({DraftFlaw.REPEATS})


@dataclass(frozen=True, slots=True)
class DraftProblem:
    """One thing that a draft must correct: a finding of the check as text, or a flaw."""

    rule: str
    line: int
    text: str
    flaw: DraftFlaw | None = None


@dataclass(frozen=True, slots=True)
class DraftRound:
    """One draft of a model: what was wrong with it; nothing, if it was good."""

    number: int
    problems: tuple[DraftProblem, ...]


def check_wish(wish: object) -> str:
    """Return what a person asks for, or refuse it."""
    if not isinstance(wish, str) or not wish.strip() or len(wish) > WISH_CHARS_MAX:
        facts = {"least": 1, "most": WISH_CHARS_MAX}
        raise Invalid(code="wrong_length", path="wish", facts=facts)
    return wish.strip()


def find_block(answer: str) -> str | DraftFlaw:
    """Take the source out of an answer: its one block of code."""
    blocks = FENCE.findall(answer.replace("\r\n", "\n"))
    if len(blocks) != 1:
        return DraftFlaw.SEVERAL_BLOCKS if blocks else DraftFlaw.NO_BLOCK
    block: str = blocks[0]
    return block


def find_open_reads(
    calls: Sequence[WrittenCall], mutations: frozenset[str], foreign: frozenset[str]
) -> tuple[str, ...]:
    """List the reads whose address the script makes up when it runs.

    Such a read can carry what another one found to any server, so that it is not made before a
    person has agreed. Of a `foreign` tool, which another program describes, any argument may be an
    address (M7). Of a text with more calls than are listed, every read counts.
    """
    is_cut = len(calls) >= CALLS_MAX
    return tuple(
        dict.fromkeys(
            each.tool
            for each in calls
            if each.tool not in mutations
            and (
                is_cut
                or each.is_open
                or any(
                    one.value is None and (one.name == URL or each.tool in foreign)
                    for one in each.args
                )
            )
        )
    )


def is_written_out(
    tool: str, args: Mapping[str, Json], calls: Iterable[WrittenCall], *, is_foreign: bool
) -> bool:
    """Tell whether every address of a read stands in the text of the script.

    The list of calls is what the text shows. A script that hides one from it is stopped here.
    """
    written = [one for each in calls if each.tool == tool for one in each.args]
    known = {one.value for one in written}
    known |= {name for one in written for name in one.name.split(".")}
    asked = [*args.values()] if is_foreign else args.get(URL)
    return all(each in known for each in texts_in(asked))


def texts_in(value: object) -> Iterator[str]:
    """List the texts that a value consists of, the names of its fields among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        yield from texts_in([*value.values()])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_in(each)


def find_flaws(passes: Passes) -> tuple[DraftProblem, ...]:
    """Return what a trial shows to be the fault of a draft, without a word of what it read."""
    stopped = [
        DraftProblem(DraftFlaw.STOPPED, each.line or 0, each.handler, DraftFlaw.STOPPED)
        for each in passes.stops
        if each.failure is Failure.LOGIC
    ]
    repeats = DraftProblem(DraftFlaw.REPEATS, 0, str(passes.again), DraftFlaw.REPEATS)
    return (*stopped, *((repeats,) if passes.again else ()))


def must_correct(problems: Sequence[DraftProblem]) -> bool:
    """Tell whether a draft cannot even be proposed."""
    return any(each.flaw not in SHOWN_ONLY for each in problems)
