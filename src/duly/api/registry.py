"""The verbs of a host and of its bus as one table, and the one way to perform them with JSON (U6).

Law 1: a verb is a public coroutine of `Host` or `Bus`, read off its signature, once. Whoever adds
       one has added it to every face; a parameter that no row of `ANNOTATIONS` reads stops the
       import.
Law 2: what comes in is JSON and is checked before the host sees it: an unknown, missing or wrong
       argument is refused by its name. What goes out is JSON again.
Law 3: a path that a stranger names is never read. A source crosses as text; the one path there is,
       a backup's, names a file that is not there yet.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum, StrEnum
from functools import cache
from math import isfinite
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

import msgspec

from duly.bus.bus import Bus
from duly.bus.record import Deferred
from duly.errors import Invalid, NotFound
from duly.host import Host
from duly.rules.deferral import DeferredStatus
from duly.rules.delivery import DeliveryStatus, JournalStatus
from duly.rules.event import EventStatus
from duly.rules.source import Language, Source
from duly.rules.standing import InputStatus
from duly.rules.value import INTEGER_MAX, Json, is_text, refuse_unknown, suggest
from duly.rules.word import MutationStatus, Status

T = TypeVar("T")

BUS: Final = "bus."
BY: Final = "by"  # who acts: an embedding program says so, a request cannot (G5)

# A host's own life: whoever started it ends it, and nobody else.
LIFE: Final = frozenset({"open", "close", "drain", "serve"})

# What changes nothing, neither here nor outside; whatever is not in this table is an act.
_QUESTIONS: Final = """
    actions allowances approvals attention check diff events extensions inputs logs mutation
    mutations outputs run runs secrets tools try_ verify versions what_if why workflow workflows
    bus.deferred bus.deliveries bus.journal
"""
QUESTIONS: Final = frozenset(_QUESTIONS.split())
# Questions that work for their answer, in the sandbox, outside or on the whole disk: asked once,
# never followed.
LABOURS: Final = frozenset({"check", "try_", "verify", "what_if"})


class Kind(StrEnum):
    """What an argument is, in JSON and for a person who types it."""

    STR = "str"
    INT = "int"
    BOOL = "bool"
    ID = "id"  # text or a whole number
    SECONDS = "seconds"
    WORD = "word"  # one of `Parameter.words`
    JSON = "json"
    OBJECT = "object"
    TEXTS = "texts"  # an object whose values are text
    LIST = "list"  # of objects
    SOURCE = "source"  # {"language", "text", "name"}
    PATH = "path"  # absolute
    PLACE = "place"  # [event id, subscriber id] of the last entry of the page before
    ENTRY = "entry"  # the last entry of the page before, as it was answered


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a verb; without `is_required` it has a default, and may be left out."""

    name: str
    kind: Kind
    is_required: bool
    is_keyword: bool
    default: Json
    is_nullable: bool = False
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing a host can be told or asked; the bus's begin with `bus.`."""

    name: str
    is_question: bool
    parameters: tuple[Parameter, ...]
    doc: str

    @property
    def is_followable(self) -> bool:
        """Tell whether its answer can be had again each time it changes."""
        return self.is_question and self.name not in LABOURS

    @property
    def has_actor(self) -> bool:
        """Tell whether it is written down who did it (A6)."""
        return any(each.name == BY for each in self.parameters)


# -- Reading arguments --------------------------------------------------------------------------


def _read_text(value: Json, name: str) -> str:
    text = _of(value, name, str, "text")
    if not is_text(text):
        raise Invalid(f"{name} has half a character. Send whole ones, in UTF-8.", path=name)
    return text


def _read_int(value: Json, name: str) -> int:
    number = _of(value, name, int, "a whole number")
    if abs(number) > INTEGER_MAX:
        raise Invalid(f"{name} is beyond ±(2^53 - 1), and nothing has such a number.", path=name)
    return number


def _read_bool(value: Json, name: str) -> bool:
    return _of(value, name, bool, "true or false")


def _read_id(value: Json, name: str) -> str | int:
    if type(value) not in (int, str):
        raise Invalid(f"{name} is {_kind_of(value)}; give text or a whole number.", path=name)
    return _read_int(value, name) if type(value) is int else _read_text(value, name)


def _read_seconds(value: Json, name: str) -> float:
    return value if type(value) is int else _of(value, name, float, "a number of seconds")


def _read_object(value: Json, name: str) -> dict[str, Json]:
    return _of(value, name, dict, "an object")


def _read_texts(value: Json, name: str) -> dict[str, str]:
    given = _of(value, name, dict, "an object")
    return {key: _read_text(each, f"{name}.{key}") for key, each in given.items()}


def _read_list(value: Json, name: str) -> list[Json]:
    given = _of(value, name, list, "a list of objects")
    return [_read_object(each, f"{name}[{place}]") for place, each in enumerate(given)]


def _read_source(value: Json, name: str) -> Source:
    wanted = 'an object such as {"language": "python", "text": "…", "name": "mail.py"}'
    given = _of(value, name, dict, wanted)
    refuse_unknown(given, ("language", "text", "name", "path"), name)
    language = _read_text(given.get("language"), f"{name}.language")
    if language not in tuple(Language):
        path = f"{name}.language"
        raise Invalid(f"{path} is {language!r}; say one of {', '.join(Language)}.", path=path)
    text = _read_text(given.get("text"), f"{name}.text")
    called = _read_text(given.get("name", "source"), f"{name}.name")
    lies = given.get("path")
    where = None if lies is None else _read_text(lies, f"{name}.path")
    return Source(Language(language), text, called, where)


def _read_path(value: Json, name: str) -> str:
    path = _read_text(value, name)
    # The host works in a folder of its own, which is not its client's.
    if not PurePath(path).is_absolute():
        raise Invalid(f"{name} is {path!r}; give an absolute path.", path=name)
    return path


def _read_place(value: Json, name: str) -> tuple[int, str]:
    given = _of(value, name, list, "a list of an event's id and a subscriber's id")
    if len(given) != 2:
        raise Invalid(f"{name} has {len(given)} entries; give two.", path=name)
    return _read_int(given[0], f"{name}[0]"), _read_text(given[1], f"{name}[1]")


def _read_entry(value: Json, name: str) -> Deferred:
    given = _of(value, name, dict, "an entry as it was answered")
    try:
        return msgspec.convert(given, Deferred)
    except msgspec.ValidationError as error:
        raise Invalid(f"{name} is no entry as it was answered: {error}.", path=name) from None


def _of(value: object, name: str, kind: type[T], wanted: str) -> T:
    # To Python a bool is an int; only the exact types of JSON are what they say.
    if type(value) is not kind:
        raise Invalid(f"{name} is {_kind_of(value)}; give {wanted}.", path=name)
    return value


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


READERS: Final[Mapping[Kind, Callable[[Json, str], object]]] = MappingProxyType(
    {
        Kind.STR: _read_text,
        Kind.INT: _read_int,
        Kind.BOOL: _read_bool,
        Kind.ID: _read_id,
        Kind.SECONDS: _read_seconds,
        Kind.WORD: _read_text,  # the host itself refuses a word that is none
        Kind.JSON: lambda value, name: value,
        Kind.OBJECT: _read_object,
        Kind.TEXTS: _read_texts,
        Kind.LIST: _read_list,
        Kind.SOURCE: _read_source,
        Kind.PATH: _read_path,
        Kind.PLACE: _read_place,
        Kind.ENTRY: _read_entry,
    }
)
# Every annotation there is, as the signatures spell it; `| None` besides says that null is fine.
# An enum stands for the words of it.
ANNOTATIONS: Final[Mapping[str, Kind | type[StrEnum]]] = MappingProxyType(
    {
        "str": Kind.STR,
        "int": Kind.INT,
        "bool": Kind.BOOL,
        "str | int": Kind.ID,
        "float | timedelta": Kind.SECONDS,
        "Json": Kind.JSON,
        "dict[str, Any]": Kind.OBJECT,
        "Results": Kind.OBJECT,
        "Mapping[str, str]": Kind.TEXTS,
        "Iterable[Mapping[str, Any]]": Kind.LIST,
        "str | Path | Source": Kind.SOURCE,
        "str | PathLike[str]": Kind.PATH,
        "tuple[int, str]": Kind.PLACE,
        "Deferred": Kind.ENTRY,
        "EventStatus | str": EventStatus,
        "InputStatus | str": InputStatus,
        "MutationStatus | str": MutationStatus,
        "Status | str": Status,
        "JournalStatus | str": JournalStatus,
        "DeliveryStatus | str": DeliveryStatus,
        "DeferredStatus | str": DeferredStatus,
    }
)
OR_NULL: Final = " | None"


# -- Writing answers ----------------------------------------------------------------------------


def to_json(value: object) -> Json:
    """Write what a host answers as plain JSON; the public properties of a record go with it."""
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
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((to_json(each) for each in value), key=str)
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    kind: type = type(value)
    assert is_dataclass(kind), f"an answer holds a {kind.__name__}"
    return {name: to_json(getattr(value, name)) for name in _names(kind)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    """List what a record shows of itself: its fields, then its properties."""
    said = [name for name, each in vars(kind).items() if isinstance(each, property)]
    return (*(each.name for each in fields(kind)), *(each for each in said if each[0] != "_"))


# -- The table ----------------------------------------------------------------------------------


def _read_parameter(verb: str, given: inspect.Parameter) -> Parameter:
    annotation = str(given.annotation)
    found = ANNOTATIONS.get(annotation.removesuffix(OR_NULL))
    assert found is not None, f"{verb}({given.name}: {annotation}): ANNOTATIONS has no such row"
    assert given.kind in (given.POSITIONAL_OR_KEYWORD, given.KEYWORD_ONLY), f"{verb}: {given}"
    kind, words = (found, ()) if isinstance(found, Kind) else (Kind.WORD, tuple(map(str, found)))
    is_required = given.default is given.empty
    return Parameter(
        name=given.name,
        kind=kind,
        is_required=is_required,
        is_keyword=given.kind is given.KEYWORD_ONLY,
        default=None if is_required else to_json(given.default),
        is_nullable=annotation.endswith(OR_NULL) or kind is Kind.JSON,
        words=words,
    )


def _read_verbs(owner: type, prefix: str) -> dict[str, Verb]:
    """Read the public coroutines of a class, by name."""
    verbs = {}
    for own_name, function in inspect.getmembers(owner, inspect.iscoroutinefunction):
        if own_name.startswith("_") or (owner is Host and own_name in LIFE):
            continue
        name = prefix + own_name
        _, *given = inspect.signature(function).parameters.values()  # without self
        parameters = tuple(_read_parameter(name, each) for each in given)
        verbs[name] = Verb(name, name in QUESTIONS, parameters, inspect.getdoc(function) or "")
    return verbs


VERBS: Final[Mapping[str, Verb]] = MappingProxyType(_read_verbs(Host, "") | _read_verbs(Bus, BUS))


def find_verb(name: str) -> Verb:
    """Answer the verb of this name, or name the one that was probably meant."""
    if name not in VERBS:
        raise NotFound(f'There is no verb "{name[:100]}". {suggest(name, VERBS)}')
    return VERBS[name]


def read_arguments(verb: Verb, args: Mapping[str, Json]) -> dict[str, Any]:
    """Check arguments that came as JSON and make them what the verb takes; who acts is none."""
    if BY in args:
        raise Invalid(
            "by is not given: who acts is the user whose process asks, as the kernel says.", path=BY
        )
    refuse_unknown(args, (each.name for each in verb.parameters if each.name != BY), verb.name)
    return {
        each.name: _read_argument(each, args[each.name])
        for each in verb.parameters
        if _is_given(verb, each, args)
    }


async def perform(host: Host, name: str, args: Mapping[str, Json], *, by: str) -> Json:
    """Carry out a verb with JSON as arguments, in the name of a user, and answer JSON (G5)."""
    verb = find_verb(name)
    given = read_arguments(verb, args)
    if verb.has_actor:
        given[BY] = by
    owner = host.bus if name.startswith(BUS) else host
    return to_json(await getattr(owner, name.removeprefix(BUS))(**given))


def _is_given(verb: Verb, parameter: Parameter, args: Mapping[str, Json]) -> bool:
    if parameter.name in args:
        return True
    if parameter.is_required:
        path = parameter.name
        raise Invalid(f"{verb.name} needs {path} ({parameter.kind}), which is missing.", path=path)
    return False


def _read_argument(parameter: Parameter, value: Json) -> object:
    if value is None and parameter.is_nullable:
        return None
    return READERS[parameter.kind](value, parameter.name)
