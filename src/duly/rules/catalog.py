"""The catalogue: what every tool is called, what it does to the outside, and what it takes.

Law 1: a tool is checked once, when it is made; code that holds one may trust it.
Law 2: a script's name for a tool or an argument is looked up in a table built from the tools,
       never converted back. Two names that fall together are refused when the table is built.
Law 3: arguments are checked against the parameters before permission and ledger see them (A1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from keyword import iskeyword
from math import isfinite
from types import MappingProxyType
from typing import Final, TypeVar, cast

from duly.errors import Invalid, see
from duly.rules.asking import Answering, AskedHow, Deleted, KeyIn, ProofBy, find_asked, find_clash
from duly.rules.value import DEFAULT_LIMITS, Json, check_json, encode, nearest

Named = TypeVar("Named")


class ToolKind(StrEnum):
    """What a tool does to the outside."""

    READ = "read"
    READ_BY_ID = "read_by_id"
    MUTATION = "mutation"


class Risk(StrEnum):
    """How much harm a tool can do (A1)."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class JsonType(StrEnum):
    """The types an argument can have."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    LIST = "list"
    OBJECT = "object"
    NULL = "null"


# An integer is a number too; a boolean is neither, although Python says otherwise.
TYPES_OF: Final[Mapping[type, frozenset[JsonType]]] = MappingProxyType(
    {
        str: frozenset({JsonType.STRING}),
        int: frozenset({JsonType.INTEGER, JsonType.NUMBER}),
        float: frozenset({JsonType.NUMBER}),
        bool: frozenset({JsonType.BOOLEAN}),
        list: frozenset({JsonType.LIST}),
        dict: frozenset({JsonType.OBJECT}),
        type(None): frozenset({JsonType.NULL}),
    }
)

TOOL_NAME_CHARS: Final = 100
LABEL_CHARS: Final = 50
PLAIN_NAME: Final = re.compile(r"\w[\w .,/()%&+#-]*")  # of a field in a form
FORM_BYTES_MAX: Final = 64 * 1024 * 1024  # arguments were checked before they came here
SNAKE: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

# `ctx` speaks these itself, and an object with a method `then` would be awaited as a promise.
TAKEN: Final = frozenset({"publish", "peek", "get_by_ids", "then"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument a tool takes; no types means any.

    An address names one receiver of a mail, and is parsed before a grant is compared (K12).
    """

    name: str
    required: bool = True
    types: frozenset[JsonType] = frozenset()
    is_address: bool = False
    is_blob: bool = False  # it names bytes that the workflow was given (K15)
    label: str | None = None  # under which name a person sees it (A3)
    editable: bool = False  # a person may change it before they agree

    def __post_init__(self) -> None:
        _check_snake(self.name, "parameter")
        is_shown = self.label is None or (self.label.strip() and self.label.isprintable())
        if not is_shown or len(self.label or "") > LABEL_CHARS:
            raise Invalid(
                code="wrong_length",
                path=self.name,
                subject=f"{self.name}.label",
                facts={"least": 1, "most": LABEL_CHARS, "of": "printable"},
            )


@dataclass(frozen=True, slots=True)
class Shape:
    """The types a value may have (none means any), its fields if it is an object, its items."""

    types: frozenset[JsonType] = frozenset()
    fields: tuple[tuple[str, Shape], ...] = ()
    item: Shape | None = None
    is_page: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """One operation of a connector."""

    name: str
    kind: ToolKind
    capability: str
    risk: Risk = Risk.MEDIUM
    parameters: tuple[Parameter, ...] = ()
    noun: str | None = None
    lag_s: float = 60
    timeout_s: float = 30
    idempotent: bool = False
    key_lifetime_s: float | None = None
    reconciles: bool = False
    result: Shape | None = None  # what it answers, if its author says
    key_in: KeyIn | None = None  # where its key travels; None if its author does not say (K1)
    asked: AskedHow | None = None  # how it can be asked; derived if its author does not say
    proof: ProofBy | None = None  # what shows that it can be asked (K10)
    deleted: Deleted | None = None  # whether the question sees what a person deleted meanwhile

    def __post_init__(self) -> None:
        _check_dotted(self.name, "tool")
        _check_dotted(self.capability, "capability")
        _table(self.name, ((each.name, each) for each in self.parameters))
        # A lag of zero says that nothing lands late; a tool inside this process may say so.
        _check_seconds(self, "lag_s", self.lag_s, is_zero_fine=True)
        _check_seconds(self, "timeout_s", self.timeout_s)
        if self.key_lifetime_s is not None:
            _check_seconds(self, "key_lifetime_s", self.key_lifetime_s, is_endless_fine=True)
        if self.idempotent != (self.key_lifetime_s is not None):
            raise Invalid(code="half_idempotent", path="key_lifetime_s", subject=self.name)
        if self.kind is not ToolKind.MUTATION and (self.idempotent or self.reconciles):
            raise Invalid(code="settles_read", path="kind", subject=self.name)
        self._check_asking()

    def _check_asking(self) -> None:
        """Refuse a contradiction, and derive what its author left out (K1)."""
        if self.kind is not ToolKind.MUTATION:
            if (self.key_in, self.asked, self.proof, self.deleted) != (None,) * 4:
                raise Invalid(code="settles_read", path="kind", subject=self.name)
            return
        has = {"reconciles": self.reconciles, "idempotent": self.idempotent}
        clash = find_clash(self.key_in, self.asked, self.proof, **has)
        if clash is not None:
            raise Invalid(
                code="key_contradiction", path="asked", subject=self.name, facts={"clash": clash}
            )
        if self.asked is None:
            object.__setattr__(self, "asked", find_asked(**has, lag_s=self.lag_s))
        if self.deleted is None and self.proof is ProofBy.ITSELF:
            object.__setattr__(self, "deleted", Deleted.SEEN)  # its record is not what was made

    @property
    def answering(self) -> Answering | None:
        """How it can be asked what became of a call, as declared; None of a read (K1)."""
        if self.asked is None:
            return None
        said = (self.key_in, self.asked, self.lag_s, self.proof)
        return Answering(self.name, *said, deleted=self.deleted)

    @property
    def pages(self) -> bool:
        """Whether it answers a page: items and a cursor."""
        return self.result is not None and self.result.is_page


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every tool a host offers, by every name a script may use for it.

    `asking` are the capabilities with which a workflow can ask a language model (M4).
    """

    tools: tuple[Tool, ...] = ()
    asking: frozenset[str] = frozenset()
    names: Mapping[str, Tool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        table = _table("catalogue", ((tool.name, tool) for tool in self.tools))
        object.__setattr__(self, "names", MappingProxyType(table))

    def find(self, script_name: str) -> Tool:
        """Return the tool a script calls by this name, in either language."""
        tool = self.names.get(script_name)
        if tool is None:
            raise Invalid(
                code="no_tool",
                path="tool",
                subject=script_name[:TOOL_NAME_CHARS],
                facts=nearest(script_name, self.names),
                next=see("tools"),
            )
        return tool


def bind(tool: Tool, named: Mapping[str, Json], positional: Sequence[Json] = ()) -> dict[str, Json]:
    """Match a script's arguments to the tool's parameters, under the tool's own names (A1)."""
    known = _table(tool.name, ((each.name, each) for each in tool.parameters))
    if len(positional) > len(tool.parameters):
        most = len(tool.parameters)
        raise Invalid(code="too_many", path=tool.name, facts={"limit": most, "unit": "arguments"})
    bound: dict[str, Json] = {}
    for parameter, value in zip(tool.parameters, positional, strict=False):
        _bind_one(tool, parameter, value, bound)
    for name, value in named.items():
        if name not in known:
            own = [each.name for each in tool.parameters]
            path = f"{tool.name}.{name[:TOOL_NAME_CHARS]}"
            raise Invalid(code="unknown_argument", path=path, facts=nearest(name, own))
        _bind_one(tool, known[name], value, bound)
    for parameter in tool.parameters:
        if parameter.required and parameter.name not in bound:
            path = f"{tool.name}.{parameter.name}"
            raise Invalid(code="missing", path=path)
    # They are hashed and kept in the ledger: what is no strict JSON is refused before that (F1).
    check_json(bound, tool.name, limit_bytes=DEFAULT_LIMITS.data_bytes)
    return bound


def amend_args(tool: Tool, args: Mapping[str, Json], given: Mapping[str, Json]) -> dict[str, Json]:
    """Put a person's values in place of a call's, where the tool lets them (A3)."""
    editable = [each.name for each in tool.parameters if each.editable]
    for name in given:
        if name not in editable:
            raise Invalid(
                code="not_editable",
                path=f"args.{name}",
                facts={"tool": tool.name, "known": editable},
            )
    amended = bind(tool, {**args, **given})
    if amended == dict(args):
        raise Invalid(code="changes_nothing", path="args")
    return amended


def make_form(
    tool: Tool | None, args: Mapping[str, Json], *, is_brief: bool = False
) -> tuple[tuple[str, str], ...]:
    """Write a call as a form: what its tool wants a person to see, under which names, in full (A3).

    Of a tool that declares nothing every argument is shown under its own name. A brief form has an
    object on one line, as a sentence can quote it.
    """
    parameters = () if tool is None else tool.parameters
    labelled = [(each.name, each.label) for each in parameters if each.label is not None]
    rest = [name for name in args if name not in dict(labelled)]
    shown = [*labelled, *((name, name) for name in rest)]
    is_long = has_lines if is_brief else has_fields
    return tuple((label, _text_of(args.get(name), is_long)) for name, label in shown)


def _text_of(value: Json, is_long: Callable[[Json], bool]) -> str:
    """Write a value in full: a line for each field of an object, and for each line of a text (A3).

    Inside an object or a list each line of a text is marked as one, and a name that could be taken
    for more than a name is written as JSON: no text and no name looks like another field.
    """
    if value is None or isinstance(value, str):
        return value or ""
    if not is_long(value):
        return encode(value, limit_bytes=FORM_BYTES_MAX)
    whole = cast("dict[str, Json] | list[Json]", value)
    if isinstance(whole, list):
        return "\n".join(f"-:{_inside(each, is_long)}" for each in whole)
    return "\n".join(f"{_name_of(name)}:{_inside(each, is_long)}" for name, each in whole.items())


def _name_of(name: str) -> str:
    is_plain = PLAIN_NAME.fullmatch(name) is not None
    return name if is_plain else encode(name, limit_bytes=FORM_BYTES_MAX)


def _inside(value: Json, is_long: Callable[[Json], bool]) -> str:
    if not is_long(value):
        return f" {encode(value, limit_bytes=FORM_BYTES_MAX)}"
    text = _text_of(value, is_long)
    mark = "  | " if isinstance(value, str) else "  "
    return "".join(f"\n{mark}{line}" for line in text.split("\n"))


def has_fields(value: Json) -> bool:
    """Tell whether an object that has a field, or a text of several lines, is in a value."""
    if isinstance(value, list):
        return any(map(has_fields, value))
    return bool(value) if isinstance(value, dict) else has_lines(value)


def has_lines(value: Json) -> bool:
    """Tell whether a text of several lines is in a value, however deep."""
    if isinstance(value, dict):
        return any(map(has_lines, value.values()))
    if isinstance(value, list):
        return any(map(has_lines, value))
    return isinstance(value, str) and "\n" in value


def camel(name: str) -> str:
    """Write a name the way JavaScript does: sheets.append_row becomes sheets.appendRow."""
    return re.sub(r"_([a-z0-9])", lambda found: found.group(1).upper(), name)


def _bind_one(tool: Tool, parameter: Parameter, value: Json, bound: dict[str, Json]) -> None:
    path = f"{tool.name}.{parameter.name}"
    if parameter.name in bound:
        raise Invalid(code="given_twice", path=path)
    if parameter.types and not parameter.types & TYPES_OF[type(value)]:
        wanted = sorted(parameter.types)
        given = sorted(TYPES_OF[type(value)])
        raise Invalid(code="wrong_type", path=path, facts={"given": given, "wanted": wanted})
    bound[parameter.name] = value


def _table(where: str, entries: Iterable[tuple[str, Named]]) -> dict[str, Named]:
    """Map every name, and what JavaScript calls it, to its owner."""
    table: dict[str, Named] = {}
    for name, owner in entries:
        for spelling in dict.fromkeys((name, camel(name))):
            if spelling in table:
                raise Invalid(
                    code="same_spelling", path=name, facts={"where": where, "spelling": spelling}
                )
            table[spelling] = owner
    return table


def _check_dotted(name: str, what: str) -> None:
    parts = name.split(".")
    if len(parts) != 2 or len(name) > TOOL_NAME_CHARS:
        raise Invalid(code="wrong_name", path=name, facts={"what": what, "form": "dotted"})
    for part in parts:
        _check_snake(part, what)


def _check_snake(name: str, what: str) -> None:
    if not SNAKE.fullmatch(name) or iskeyword(name) or name in TAKEN:
        raise Invalid(code="wrong_name", path=name, facts={"what": what, "form": "snake"})


def _check_seconds(
    tool: Tool,
    name: str,
    value: float,
    *,
    is_zero_fine: bool = False,
    is_endless_fine: bool = False,
) -> None:
    is_long_enough = value > 0 or (value == 0 and is_zero_fine)
    is_short_enough = isfinite(value) or is_endless_fine
    if not (is_long_enough and is_short_enough) or isinstance(value, bool):
        raise Invalid(
            code="not_positive",
            path=name,
            subject=f"{tool.name}.{name}",
            facts={"given": str(value)},
        )
