"""Reads a table of the settings that describes a tool, for `http` and `sql` alike.

Law: a mistake is told with the key it stands under and what to write instead, before anything is
asked of the service.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from types import MappingProxyType
from typing import Any, Final, NoReturn

from duly.connectors.signature import Address
from duly.connectors.template import TAKEN
from duly.connectors.transport import check_header
from duly.errors import ConfigError, Refused
from duly.rules.catalog import SNAKE
from duly.rules.value import suggest

KINDS: Final = ("read", "read_by_id", "mutation")
OWN: Final = frozenset({"self", "call"})  # what a tool has before its arguments
RISKS: Final = ("low", "medium", "high")
# The types of arguments and results, by the words of the settings; with a `?` it may be left out.
TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "string": str,
        "integer": int,
        "number": float,
        "boolean": bool,
        "list": list,
        "object": dict,
        "address": Address,
        "any": Any,
    }
)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operation."""

    name: str
    annotation: Any
    is_required: bool


class Place:
    """A table of the settings and where it stands, for errors that name both."""

    def __init__(self, where: str, table: object) -> None:
        self.where = where
        if not isinstance(table, Mapping):
            raise ConfigError(f"{where} must be a table, not {_kind(table)}.")
        self.table: Mapping[str, Any] = table

    def refuse(self, key: str, said: str) -> NoReturn:
        """Raise what is wrong with one key."""
        raise ConfigError(f"{self.where}.{key}: {said}")

    def only(self, known: Iterable[str]) -> None:
        """Refuse a key that is not known."""
        names = tuple(known)
        for key in self.table:
            if key not in names:
                self.refuse(str(key), f"there is no such key. {suggest(str(key), names)}")

    def text(self, key: str, default: str | None = None, *, may_be_empty: bool = False) -> str:
        """Return a text; without a default it must be there."""
        value = self.table.get(key, default)
        if value is None:
            self.refuse(key, "it is missing. Write a text.")
        if not isinstance(value, str) or not (value or may_be_empty):
            self.refuse(key, f"it is {_kind(value)}. Write a text.")
        return value

    def word(self, key: str, known: Collection[str], default: str | None = None) -> str:
        """Return one of a few words."""
        value = self.text(key, default)
        if value not in known:
            self.refuse(key, f'"{value}" is none of {", ".join(known)}. {suggest(value, known)}')
        return value

    def number(self, key: str, default: float, *, may_be_zero: bool = False) -> float:
        """Return a number of seconds."""
        value = self.table.get(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not (value > 0 or (may_be_zero and value == 0)) or math.isnan(value):
            self.refuse(key, f"it is {value!r}. Write a positive number of seconds.")
        return float(value)

    def flag(self, key: str) -> bool:
        """Return true or false; false if it is not there."""
        value = self.table.get(key, False)
        if not isinstance(value, bool):
            self.refuse(key, f"it is {_kind(value)}. Write true or false.")
        return value

    def header(self, key: str, name: str) -> None:
        """Refuse a name under a key that no header can have."""
        try:
            check_header(name, "x")
        except Refused as error:
            self.refuse(key, str(error))

    def list_texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; an empty one if it is not there."""
        found = self.table.get(key, [])
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            self.refuse(key, 'write a list of texts: ["read"].')
        return tuple(found)

    def inner(self, key: str) -> Place:
        """Return the table under a key; an empty one if it is not there."""
        return Place(f"{self.where}.{key}", self.table.get(key, {}))

    def texts(self, key: str) -> dict[str, str]:
        """Return a table of texts."""
        inside = self.inner(key)
        return {str(name): inside.text(str(name)) for name in inside.table}


def check_name(place: Place, name: str) -> None:
    """Refuse the name of an operation that no script could call."""
    if not SNAKE.fullmatch(name):
        raise ConfigError(
            f"{place.where}: a script cannot call this name. Use lower-case letters, digits and"
            " single underscores."
        )


def read_arguments(place: Place, types: Mapping[str, Any] = TYPES) -> tuple[Argument, ...]:
    """Read the arguments of an operation and their types."""
    found = []
    for name, word in place.texts("arguments").items():
        if name in TAKEN or not SNAKE.fullmatch(name):
            taken = ", ".join(sorted(TAKEN))
            said = f"use lower-case letters, digits and single underscores, and none of {taken}."
            place.refuse(f"arguments.{name}", said)
        if name in OWN or iskeyword(name):
            place.refuse(f"arguments.{name}", f'"{name}" has a meaning of its own in Python.')
        kind = word.removesuffix("?")
        if kind not in types:
            said = f'"{word}" is no type. {suggest(kind, types)} A ? behind it: may be left out.'
            place.refuse(f"arguments.{name}", said)
        is_required = not word.endswith("?")
        annotation = types[kind] if is_required else types[kind] | None
        found.append(Argument(name, annotation, is_required))
    return tuple(found)


def read_returns(place: Place) -> Any:
    """Return the shape of the result: a type by its word, or the names and types of the fields."""
    given = place.table.get("returns", "any")
    if isinstance(given, str):
        place.word("returns", tuple(TYPES), "any")
        return TYPES[given]
    inside = place.inner("returns")
    fields = {}
    for name in inside.table:
        word = inside.text(name)
        kind = word.removesuffix("?")
        if kind not in TYPES:
            inside.refuse(name, f'"{word}" is no type. {suggest(kind, TYPES)}')
        fields[name] = TYPES[kind] | None if word.endswith("?") else TYPES[kind]
    return fields


def read_terms(place: Place, *, is_mutation: bool) -> dict[str, Any]:
    """Read the terms under which a tool is offered, as its decorator takes them."""
    terms: dict[str, Any] = {"timeout_s": place.number("timeout_s", 30)}
    for name in ("capability", "noun"):
        if name in place.table:
            terms[name] = place.text(name)
    if not is_mutation:
        return terms
    editable = place.table.get("editable", [])
    if not isinstance(editable, list) or not all(isinstance(each, str) for each in editable):
        place.refuse("editable", "write a list of arguments.")
    return terms | {
        "risk": place.word("risk", RISKS, "medium"),
        "lag_s": place.number("lag_s", 60, may_be_zero=True),
        "labels": place.texts("labels"),
        "editable": tuple(editable),
    }


def _kind(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
