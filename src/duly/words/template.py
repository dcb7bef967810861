"""Sentences as data: a text with named parts, and segments that may be left out.

Law 1  `{part}` stands for a part of the sentence, `{part:how}` for one that is written in a way of
       its own. `{?part}` only asks whether there is one. A brace written twice is a brace.
Law 2  A segment in brackets is said if each of its parts has something to say; of `[one|another]`
       the first that can be said is. A segment without parts can always be said.
Law 3  What a part says is never read as a template: no title can add a segment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, TypeAlias

PART: Final = re.compile(r"\{\??([a-z_]+)(?::[a-z_]+)?\}")
TOKEN: Final = re.compile(rf"{PART.pattern}|\{{\{{|\}}\}}|[\[\]|]|[^\[\]|{{}}]+")
BRACES: Final = ("{{", "}}")

Part: TypeAlias = Callable[[str], str]
Segment: TypeAlias = "str | Choice"
Choice: TypeAlias = "tuple[tuple[Segment, ...], ...]"


def fill(template: str, part: Part) -> str:
    """Fill a template; `part` returns what stands for a name, "" if there is nothing to say."""
    return _say(_read(template), part)[0]


def names(template: str) -> frozenset[str]:
    """List the parts a template has."""
    return frozenset(part[1] for each in _tokens(template) if (part := PART.fullmatch(each)))


def _tokens(template: str) -> Iterator[str]:
    return (each[0] for each in TOKEN.finditer(template))


@cache
def _read(template: str) -> tuple[Segment, ...]:
    stack: list[list[list[Segment]]] = [[[]]]
    for token in _tokens(template):
        if token == "[":
            stack.append([[]])
        elif token == "|":
            stack[-1].append([])
        elif token == "]":
            choice = tuple(tuple(each) for each in stack.pop())
            stack[-1][-1].append(choice)
        else:
            stack[-1][-1].append(token)
    assert len(stack) == 1 and len(stack[0]) == 1, template
    return tuple(stack[0][0])


def _say(segments: tuple[Segment, ...], part: Part) -> tuple[str, bool]:
    """Say segments in a row, and whether each part of theirs has something to say."""
    said: list[str] = []
    is_whole = True
    for each in segments:
        if not isinstance(each, str):
            options = (_say(option, part) for option in each)
            said.append(next((text for text, is_said in options if is_said), ""))
        elif each in BRACES or each[0] != "{":
            said.append(each[0] if each in BRACES else each)
        else:
            word = part(each.strip("{?}"))
            is_whole = is_whole and bool(word)
            said.append("" if each[1] == "?" else word)
    return "".join(said), is_whole
