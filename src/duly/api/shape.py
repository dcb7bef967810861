"""The types that cross a face: what a hint in a signature is in JSON, for msgspec.

Law 1  A type is read off the annotation as Python resolves it; no annotation is compared as text.
Law 2  A number has at most 53 bits, in an argument as in an answer: more is not the same number in
       every language.
Law 3  A record crosses with its public properties, as `codec.to_json` writes it.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, UnsetType

from duly.rules.identity import IdKind, Names
from duly.rules.value import INTEGER_MAX
from duly.rules.verb import Crosses

# `Json` refers to itself, which no decoder follows; it is anything that JSON can say.
LOCAL: Final[Mapping[str, Any]] = {"Json": Any}
REFERENCE: Final = "#/components/schemas/{name}"
INTEGER: Final = Annotated[
    int,
    Meta(ge=-INTEGER_MAX, le=INTEGER_MAX, description="a whole number within ±(2^53 - 1)"),
]
StructMeta: Final = type(msgspec.Struct)
UNIONS: Final = (Union, types.UnionType)


def read_hints(owner: Any) -> dict[str, Any]:
    """Read the types of a function's parameters and its result, or of a class's fields."""
    return get_type_hints(owner, localns=dict(LOCAL), include_extras=True)


def split(hint: Any) -> tuple[Any, bool, tuple[str, ...]]:
    """Return the type that crosses, whether null is fine besides, and the words it is one of."""
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Crosses):
            return split(mark.kind)
        if isinstance(mark, Names):
            return split(get_args(hint)[0])
    if get_origin(hint) not in UNIONS:
        return hint, hint is Any, words_of(hint)
    parts = [each for each in get_args(hint) if each is not types.NoneType]
    is_nullable = len(parts) < len(get_args(hint))
    if len(parts) == 1:
        kind, _, words = split(parts[0])
        return kind, is_nullable, words
    words = tuple(word for each in parts for word in words_of(each))
    # The host itself names the words there are, so any text is taken here.
    kind = str if words and str in parts else _either(parts)
    return kind, is_nullable, words


def kinds_of(hint: Any) -> tuple[IdKind, ...]:
    """Return of what kinds an id is that is given here; of none where it is no id."""
    parts = get_args(hint) if get_origin(hint) in UNIONS else (hint,)
    marks = (mark for each in parts for mark in getattr(each, "__metadata__", ()))
    return next((each.kinds for each in marks if isinstance(each, Names)), ())


def _either(kinds: Iterable[Any]) -> Any:
    return Union[tuple(kinds)]  # noqa: UP007  # there is no other way to write one of several


def words_of(hint: Any) -> tuple[str, ...]:
    """Return the words of an enum."""
    is_enum = isinstance(hint, type) and issubclass(hint, StrEnum)
    return tuple(map(str, hint)) if is_enum else ()


def argument(kind: Any, *, is_nullable: bool, words: tuple[str, ...] = ()) -> Any:
    """Return the type an argument is read as."""
    made = _bounded(kind)
    if words and kind is str:
        made = Annotated[str, Meta(extra_json_schema={"enum": list(words)})]
    return _either([made, None]) if is_nullable and kind is not Any else made


def _bounded(kind: Any) -> Any:
    """Give every whole number in a type its limits."""
    if kind is int:
        return INTEGER
    if get_origin(kind) in UNIONS:
        return _either(map(_bounded, get_args(kind)))
    if get_origin(kind) is tuple:
        return tuple[tuple(map(_bounded, get_args(kind)))]  # type: ignore[misc]
    return kind


# What a person calls the types of JSON.
NAMES: Final[Mapping[Any, str]] = {
    types.NoneType: "null",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
    Mapping: "an object",
    Sequence: "a list",
}


def name_of(kind: Any) -> str:
    """Name a type for people; nothing for one that its own message explains better."""
    if get_origin(kind) is Annotated:
        said = [each.description for each in kind.__metadata__ if isinstance(each, Meta)]
        return said[0] or name_of(get_args(kind)[0])
    if get_origin(kind) in UNIONS:
        kinds = [each for each in get_args(kind) if each not in (types.NoneType, UnsetType)]
        return " or ".join(filter(None, map(name_of, kinds)))
    return "an object" if is_dataclass(kind) else NAMES.get(get_origin(kind) or kind, "")


# -- Answers ------------------------------------------------------------------------------------


class Answers:
    """Finds the types of answers; `beside` are the records that only a union of records names."""

    def __init__(self) -> None:
        self.beside: list[Any] = []
        self._records: dict[Any, Any] = {}

    def find(self, hint: Any) -> Any:
        """Return the type of an answer as JSON has it."""
        if hint is int:
            return INTEGER
        if isinstance(hint, type) and issubclass(hint, PurePath):
            return str
        if is_dataclass(hint):
            return self._record(hint)
        origin, parts = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self.find(parts[0])
        if origin in UNIONS:
            return self._union([self.find(each) for each in parts])
        if origin is frozenset or (origin is tuple and parts[-1] is Ellipsis):
            return list[self.find(parts[0])]  # type: ignore[misc]
        if origin is tuple:
            return tuple[tuple(map(self.find, parts))]  # type: ignore[misc]
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return dict[str, self.find(parts[1])]  # type: ignore[misc]
        return hint

    def _union(self, parts: list[Any]) -> Any:
        records = [each for each in parts if isinstance(each, StructMeta)]
        if len(records) < 2:
            return _either(parts)
        # msgspec cannot tell two records apart without a tag; a schema names both.
        self.beside += records
        return Annotated[Any, Meta(extra_json_schema={"anyOf": [*map(_reference, records)]})]

    def _record(self, kind: Any) -> Any:
        """Return a struct that has the fields and the public properties of a record."""
        if kind in self._records:
            return self._records[kind]
        # A record that holds others of its kind names itself.
        self._records[kind] = _named(kind)
        found = [(name, self.find(hint)) for name, hint in _read_fields(kind)]
        made = msgspec.defstruct(kind.__name__, found, kw_only=True, module=__name__)
        self._records[kind] = made
        return made


def _named(kind: Any) -> Any:
    return Annotated[Any, Meta(extra_json_schema=_reference(kind))]


def _reference(kind: Any) -> dict[str, Any]:
    return {"$ref": REFERENCE.format(name=kind.__name__)}


def _read_fields(kind: Any) -> Iterable[tuple[str, Any]]:
    hints = read_hints(kind)
    yield from ((each.name, hints[each.name]) for each in fields(kind))
    for name in list_properties(kind):
        yield name, read_hints(vars(kind)[name].fget)["return"]


def list_properties(kind: Any) -> list[str]:
    """Name the public properties of a record, which cross as its fields do."""
    found = [name for name, each in vars(kind).items() if isinstance(each, property)]
    return [name for name in found if not name.startswith("_")]
