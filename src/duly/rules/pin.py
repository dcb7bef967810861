"""Decides which tools of an MCP server may be used: those a person agreed to, unchanged (M7).

Law 1: a tool is used only while its name, title, description and schemas are what a person agreed
       to. What the server says about itself besides that (annotations) is not read.
Law 2: a script calls a tool by a name that was made when the person agreed, so a tool that appears
       later never takes the name of another. Two tools that would share a name are both left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from keyword import iskeyword
from typing import Final

from duly.rules.catalog import SNAKE, TAKEN, camel
from duly.rules.value import Json, canonical, digest

TOOLS_MAX: Final = 500  # of one server
TOOL_BYTES_MAX: Final = 64 * 1024  # of one definition
NAME_CHARS_MAX: Final = 128
SCRIPT_NAME_CHARS_MAX: Final = 60  # with the name of the connector it must fit into a tool's name
ARGUMENTS_MAX: Final = 50
WHOLE: Final = "arguments"  # the one argument of a tool whose arguments cannot be named
OWN: Final = frozenset({"self", "call"})  # what a tool has before its arguments
HUMP: Final = re.compile(r"([a-z0-9])([A-Z])")
OTHER: Final = re.compile(r"[^a-z0-9]+")


class PinState(StrEnum):
    """How a tool of a server stands to what a person agreed to."""

    AGREED = "agreed"
    NEW = "new"  # no person has agreed to it yet
    CHANGED = "changed"  # it is not what a person agreed to
    GONE = "gone"  # a person agreed to it, and the server does not offer it


class Unnamed(StrEnum):
    """Why no script can call a tool."""

    NO_NAME = "no_name"  # no name can be made of it
    TWIN = "twin"  # another tool would have the same name


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A tool as a server describes it; of a description only this is read."""

    name: str
    title: str
    description: str
    takes: Json
    returns: Json = None

    @property
    def facts(self) -> dict[str, Json]:
        """All that a person agrees to."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "takes": self.takes,
            "returns": self.returns,
        }


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a server beside what a person agreed to: what it was, and what it is now.

    `tool` is what scripts call; None where no script can, and `problem` says why.
    """

    name: str
    tool: str | None
    is_read: bool
    state: PinState
    now: Json = None
    before: Json = None
    problem: Unnamed | None = None


@dataclass(frozen=True, slots=True)
class ServedArgument:
    """One argument of a tool: what scripts call it, and what the server does.

    `types` are the words of its schema; none means any.
    """

    name: str
    served: str
    is_required: bool
    types: frozenset[str] = frozenset()


def name_list(tools: Iterable[ServedTool]) -> str:
    """Return the hash of a list, which a person agrees to; the order of the list says nothing."""
    return digest([each.facts for each in sorted(tools, key=lambda tool: tool.name)])


def is_same(one: ServedTool, other: ServedTool) -> bool:
    """Tell whether two definitions are the same, however their keys are ordered (law 1)."""
    return canonical(one.facts) == canonical(other.facts)


def is_read(name: str, patterns: Iterable[str]) -> bool:
    """Tell whether the settings say that a tool of a server only reads; the server has no say."""
    return any(fnmatchcase(name, each) for each in patterns)


def name_tools(
    tools: Iterable[ServedTool], agreed: Mapping[str, ServedTool], taken: Collection[str]
) -> dict[str, str | Unnamed]:
    """Give every tool of a list its name for scripts, or say why it has none (law 2).

    A tool that was agreed to keeps its name. `taken` are names that a connector needs itself.
    """
    kept = {each.name: name for name, each in agreed.items()}
    made = {each.name: kept.get(each.name) or script_name(each.name, taken) for each in tools}
    spelled = Counter(camel(each) for name, each in made.items() if each and name not in kept)
    held = {camel(name) for name in agreed}
    return {
        served: Unnamed.NO_NAME
        if name is None
        else name
        if served in kept or (spelled[camel(name)] == 1 and camel(name) not in held)
        else Unnamed.TWIN
        for served, name in made.items()
    }


def script_name(served: str, taken: Collection[str] = (), ending: str = "tool") -> str | None:
    """Make a name that both languages can write; None if there is none in it."""
    name = OTHER.sub("_", HUMP.sub(r"\1_\2", served).lower()).strip("_")
    if name[:1].isdecimal():
        name = f"{ending}_{name}"
    if iskeyword(name) or name in TAKEN or name in taken:
        name = f"{name}_{ending}"
    is_fine = SNAKE.fullmatch(name) is not None and len(name) <= SCRIPT_NAME_CHARS_MAX
    return name if is_fine else None


def compare(
    agreed: Mapping[str, ServedTool],
    served: Iterable[ServedTool],
    *,
    reads: Collection[str],
    taken: Collection[str],
) -> tuple[OfferedTool, ...]:
    """Put what a server offers beside what a person agreed to, in the order of the server."""
    offered = tuple(served)
    names = name_tools(offered, agreed, taken)
    known = {each.name: each for each in agreed.values()}
    found = []
    for each in offered:
        name, before = names[each.name], known.get(each.name)
        state = PinState.NEW
        if before is not None:
            state = PinState.AGREED if is_same(before, each) else PinState.CHANGED
        found.append(
            OfferedTool(
                each.name,
                name if not isinstance(name, Unnamed) else None,
                is_read(each.name, reads),
                state,
                now=each.facts,
                before=None if before is None else before.facts,
                problem=name if isinstance(name, Unnamed) else None,
            )
        )
    there = {each.name for each in offered}
    gone = [
        OfferedTool(each.name, name, is_read(each.name, reads), PinState.GONE, before=each.facts)
        for name, each in agreed.items()
        if each.name not in there
    ]
    return (*found, *gone)


def agree(
    agreed: Mapping[str, ServedTool], served: Iterable[ServedTool], taken: Collection[str]
) -> dict[str, ServedTool]:
    """Return what a person has agreed to when they agree to a list: by the names for scripts."""
    offered = tuple(served)
    names = name_tools(offered, agreed, taken)
    named = {each.name: each for each in offered}
    return {name: named[each] for each, name in names.items() if not isinstance(name, Unnamed)}


# -- Arguments ------------------------------------------------------------------------------------


def read_arguments(schema: Json) -> tuple[ServedArgument, ...] | None:
    """Read the arguments of a tool out of its schema; None if they cannot be named one by one."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return None
    given, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(given, dict) or len(given) > ARGUMENTS_MAX or not isinstance(required, list):
        return None
    is_open = schema.get("additionalProperties") not in (None, False)
    if {"anyOf", "oneOf", "allOf", "$ref", "patternProperties"} & schema.keys() or is_open:
        return None
    if any(each not in given for each in required):
        return None
    found = []
    for served, each in given.items():
        name = script_name(served, OWN, "value")
        if name is None:
            return None
        found.append(ServedArgument(name, served, served in required, _types(each)))
    return tuple(found) if len({camel(each.name) for each in found}) == len(found) else None


def _types(schema: Json) -> frozenset[str]:
    """Return the words for the types that a schema allows; none where it does not say."""
    if not isinstance(schema, dict):
        return frozenset()
    given = schema.get("type")
    if isinstance(given, str):
        return frozenset({given})
    if isinstance(given, list) and given and all(isinstance(each, str) for each in given):
        return frozenset(each for each in given if isinstance(each, str))
    several = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(several, list) and several:
        parts = [_types(each) for each in several]
        return frozenset().union(*parts) if all(parts) else frozenset()
    return frozenset()
