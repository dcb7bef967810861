"""How much of something there is, in nouns (U1): facts alone, `words` puts them into a sentence.

Law 1  A noun is singular, as a tool declares it or as a topic is named.
Law 2  What became of the things is read off the tool's operation, never off a title (L11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

NOUN_CHARS_MIN: Final = 3  # a shorter word says nothing to a stranger
INPUT_NOUN: Final = "input"
CHANGE_NOUN: Final = "change"


@dataclass(frozen=True, slots=True)
class Count:
    """How many of something, at least if `is_more`.

    `done` is the word for what became of them (`added`), `tool` the tool that did it where its
    operation has no such word.
    """

    count: int
    noun: str
    done: str = ""
    is_more: bool = False
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Activity:
    """What was processed lately, and what came of it (U1).

    `hours` counts what was processed in each of the last 24 hours, the oldest first; it is empty
    where nothing was. Of a workflow that processed more than a thousand, each hour is counted to
    two hundred.
    """

    inputs: tuple[Count, ...] = ()
    outputs: tuple[Count, ...] = ()
    hours: tuple[int, ...] = ()


# What a tool's operation does, by its first word.
DONE: Final[Mapping[str, str]] = {
    "add": "added",
    "append": "added",
    "archive": "archived",
    "create": "created",
    "delete": "deleted",
    "edit": "changed",
    "insert": "added",
    "label": "labelled",
    "move": "moved",
    "post": "posted",
    "remove": "removed",
    "reply": "sent",
    "send": "sent",
    "set": "changed",
    "update": "changed",
    "upload": "uploaded",
}


def noun_of_topic(topic: str) -> str:
    """Name what comes in by the first word of its topic: `emails.received` brings an email (U1)."""
    word = re.split(r"[._-]", topic, maxsplit=1)[0].lower()
    return singular(word) if len(word) >= NOUN_CHARS_MIN and word.isalpha() else INPUT_NOUN


def count_of_tool(tool: str, noun: str | None, count: int, *, is_more: bool = False) -> Count:
    """Count what a tool did, in its own noun, with what its operation does to it (U1)."""
    operation = tool.rpartition(".")[2].partition("_")[0]
    done = DONE.get(operation, "")
    return Count(count, noun or CHANGE_NOUN, done, is_more, "" if done else tool)


def add_up(counts: Iterable[Count], most: int) -> tuple[Count, ...]:
    """Add up what has the same noun and the same end, whichever tools did it (U1)."""
    together: dict[tuple[str, str, str], Count] = {}
    for each in counts:
        key = (each.noun, each.done, each.tool)
        before = together.get(key, replace(each, count=0, is_more=False))
        count = before.count + each.count
        is_more = before.is_more or each.is_more or count > most
        together[key] = replace(each, count=min(count, most), is_more=is_more)
    return tuple(together.values())


def singular(noun: str) -> str:
    """Take an English plural back by its ending; what is no plural stays."""
    if noun.endswith("ies") and len(noun) > len("pies"):
        return f"{noun[:-3]}y"
    if noun.endswith(("sses", "xes", "ches", "shes")):
        return noun[:-2]
    return noun[:-1] if noun.endswith("s") and not noun.endswith(("ss", "us", "is")) else noun
