"""Verbs with JSON: arguments are read and checked, answers are written (U6, G5).

Law 1  What comes in is checked before the host sees it: an unknown, missing or wrong argument is
       refused by its name. What goes out is JSON again.
Law 2  Who acts is given by the face, and is never an argument from outside.
Law 3  A caller has a scope, and a verb that needs a larger one is refused before its arguments are
       read (G4). An act that needs more in some states is given the scope, and decides itself. No
       error that a caller gets has a secret in it (A5).
Law 4  A path that comes from outside is never read. A source crosses as text; the one path there
       is, a backup's, names a file that is not there yet.
Law 5  An act that was done is never told as refused: nothing is asked of the host after it. A bug
       says how far the act got: not done, not known, or done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum, StrEnum
from functools import cache
from itertools import chain
from math import isfinite
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin

import msgspec

from duly.api import shape
from duly.api.registry import BUS, BY, RIGHT, VERBS, Parameter, Registry, Scope, Verb
from duly.errors import DulyError, Invalid, see, short
from duly.fact import Reason
from duly.rules.fault import mask
from duly.rules.reason import plain
from duly.rules.value import Json, is_text, refuse_unknown
from duly.rules.verb import check_right
from duly.words import Clock, texts

if TYPE_CHECKING:
    from duly.host import Host


async def perform(
    host: Host,
    name: str,
    args: Mapping[str, Json],
    *,
    by: str,
    scope: Scope,
    verbs: Registry = VERBS,
) -> Json:
    """Carry out a verb with JSON as arguments, in the name of a user, and return JSON (G5).

    Every face calls verbs here and nowhere else.
    """
    verb: Verb | None = None
    done = Extent.NO
    try:
        with masked(host):
            verb = verbs.find(name)
            check_right(name, scope, verb.scope)
            given = read_arguments(verb, args)
            if verb.has_actor:
                given[BY] = by
            if verb.has_right:
                given[RIGHT] = scope
            clock = host.now  # a host that closes meanwhile ends the act, and tells no time after
            owner = host.bus if name.startswith(BUS) else host
            method = getattr(owner, name.removeprefix(BUS))
            done = Extent.UNKNOWN
            answer = await method(**given)
            done = Extent.YES
        return to_json(answer, clock)
    except DulyError:
        raise
    except Exception as error:
        raise _failed_inside(name, verb, done, error) from error


class Extent(StrEnum):
    """How far an act got that a bug ended."""

    NO = "no"
    UNKNOWN = "unknown"
    YES = "yes"


def _failed_inside(name: str, verb: Verb | None, done: Extent, error: Exception) -> DulyError:
    """Say that a verb met a bug, and nothing of what the bug knew: that may be a secret (A5)."""
    facts = {"cause": type(error).__name__}
    if verb is None or verb.is_question:
        return DulyError(code="failed_inside", subject=short(name), facts=facts)
    look = None if done is Extent.NO else see(verb.recorded_in)
    facts["done"] = str(done)
    return DulyError(code="failed_inside", subject=short(name), facts=facts, next=look)


@contextmanager
def masked(host: Host) -> Iterator[None]:
    """Take the secrets of a host out of every error that leaves the block (A5)."""
    try:
        yield
    except DulyError as error:
        mask(error, host.connectors.secrets())
        raise


# -- Arguments ----------------------------------------------------------------------------------


def read_arguments(verb: Verb, args: Mapping[str, Json]) -> dict[str, Any]:
    """Check arguments that came as JSON and make them what the verb takes; who acts is none."""
    if BY in args:
        raise Invalid(code="by_is_known", path=BY)
    refuse_unknown(args, (each.name for each in verb.parameters), verb.name)
    for each in verb.parameters:
        if each.name in args:
            _check_parts(each, args[each.name])
        elif each.is_required:
            raise Invalid(code="missing", path=each.name, facts={"of": verb.name})
    try:
        read = msgspec.convert(args, verb.takes)
    except msgspec.ValidationError as error:
        raise _blame(verb, args, error) from None
    return {name: getattr(read, name) for name in args}


def _check_parts(parameter: Parameter, value: Json) -> None:
    """Refuse half characters, and fields that a record does not have; JSON is the host's."""
    if parameter.kind is Any:
        return
    if is_dataclass(parameter.kind) and isinstance(value, dict):
        refuse_unknown(value, (each.name for each in fields(parameter.kind)), parameter.name)
    _check_text(value, parameter.name)


def _check_text(value: Json, path: str) -> None:
    if isinstance(value, str) and not is_text(value):
        raise Invalid(code="half_character", path=path)
    if isinstance(value, dict):
        for key, each in value.items():
            _check_text(each, f"{path}.{key}")
    elif isinstance(value, list):
        for place, each in enumerate(value):
            _check_text(each, f"{path}[{place}]")


def _blame(verb: Verb, args: Mapping[str, Json], error: msgspec.ValidationError) -> Invalid:
    """Name the argument that does not fit, down to the part of it that is wrong."""
    hints = msgspec.structs.fields(verb.takes)
    for each in hints:
        if each.name in args and (found := _find_wrong(args[each.name], each.type, each.name)):
            return found
    return Invalid(code="wrong_shape", subject=verb.name, facts={"cause": _cause(error)})


def _find_wrong(value: Json, kind: Any, path: str) -> Invalid | None:
    """Find the innermost part of a value that does not fit its type."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        for inner, inner_kind, inner_path in _parts(value, kind, path):
            if found := _find_wrong(inner, inner_kind, inner_path):
                return found
        return _wrong(value, kind, path, error)
    return None


def _parts(value: Json, kind: Any, path: str) -> list[tuple[Json, Any, str]]:
    """List what a value is made of, each with its type and its name."""
    if get_origin(kind) is Annotated:
        return _parts(value, get_args(kind)[0], path)
    if get_args(kind) and get_origin(kind) in shape.UNIONS:
        return [found for each in get_args(kind) for found in _parts(value, each, path)]
    if isinstance(value, dict) and is_dataclass(kind):
        hints = shape.read_hints(kind)
        return [(each, hints[key], f"{path}.{key}") for key, each in value.items() if key in hints]
    parts = get_args(kind)
    if isinstance(value, dict) and len(parts) == 2:
        return [(each, parts[1], f"{path}.{key}") for key, each in value.items()]
    if isinstance(value, list) and parts:
        kinds = parts if len(parts) == len(value) else parts[:1] * len(value)
        places = zip(value, kinds, range(len(value)), strict=True)
        return [(each, inner, f"{path}[{place}]") for each, inner, place in places]
    return []


def _wrong(value: Json, kind: Any, path: str, error: msgspec.ValidationError) -> Invalid:
    if words := shape.words_of(kind):
        facts: dict[str, Any] = {"given": short(value), "known": list(words)}
        return Invalid(code="not_one_of", path=path, facts=facts)
    wanted, given = shape.name_of(kind), shape.name_of(type(value))
    if wanted and wanted != given:
        facts = {"given": [given], "wanted": [wanted]}
        return Invalid(code="wrong_type", path=path, facts=facts)
    return Invalid(code="wrong_shape", path=path, facts={"cause": _cause(error)})


def _cause(error: msgspec.ValidationError) -> str:
    text = str(error)
    return f"{text[:1].lower()}{text[1:]}"


# -- Answers ------------------------------------------------------------------------------------


def to_json(value: object, clock: Clock | None = None, *, is_long: bool = False) -> Json:
    """Write what a host returns as plain JSON; the public properties of a record go with it.

    With a clock, each fact that `words` can say has its sentence beside it, as `text`; with
    `is_long` a reason has a `detail` too.
    """
    if isinstance(value, Enum):
        return to_json(value.value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)  # JSON has no word for it: "inf"
    if isinstance(value, datetime):
        text = value.astimezone(UTC).isoformat(timespec="milliseconds")
        return text.removesuffix("+00:00") + "Z"
    if isinstance(value, PurePath):
        return str(value)
    if type(value) in (dict, list):
        return cast(Json, value)  # JSON as the host has it; records hold tuples and other mappings
    if isinstance(value, Mapping):
        return {str(key): to_json(each, clock) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((to_json(each) for each in value), key=str)
    if isinstance(value, tuple):
        return [to_json(each, clock) for each in value]
    kind: type = type(value)
    assert is_dataclass(kind), f"an answer holds a {kind.__name__}"
    if isinstance(value, Reason):
        told: dict[str, Json] = {"code": str(value.code), "subject": value.subject}
        told["facts"] = plain(value.facts)
    else:
        long = getattr(kind, "is_read_at_length", False)
        told = {name: to_json(getattr(value, name), clock, is_long=long) for name in _names(kind)}
    return told if clock is None else {**told, **texts(value, clock, long=is_long)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """List what a record shows of itself: its fields, then its properties."""
    return (*(each.name for each in fields(kind)), *shape.list_properties(kind))


# -- Schemas ------------------------------------------------------------------------------------


def describe(verbs: Mapping[str, Verb]) -> tuple[dict[str, tuple[Any, Any]], dict[str, Any]]:
    """Return the JSON schemas of each verb's arguments and result, and the records they name."""
    answers = shape.Answers()
    types = [(verb.takes, answers.find(verb.returns)) for verb in verbs.values()]
    schemas, components = msgspec.json.schema_components(
        [*chain.from_iterable(types), *answers.beside], ref_template=shape.REFERENCE
    )
    pairs = zip(schemas[::2], schemas[1::2], strict=False)  # those beside are in the components
    return dict(zip(verbs, pairs, strict=False)), components
