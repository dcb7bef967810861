"""The types of `ctx`, made from the catalogue, for editors and for the type checker.

Law 1: a stub says what the catalogue says, in each language's own spelling; what the catalogue
       does not know is left open. The keys of a result are the tool's own, spelled the same in
       both languages.
Law 2: a type of ours has a name that no script would choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from keyword import iskeyword
from typing import Final

from duly.rules.catalog import Catalog, JsonType, Parameter, Shape, Tool, camel
from duly.rules.shape import in_javascript

# The types of a stub have this prefix, so that they do not clash with a name of a script.
PREFIX: Final = "Duly"

PYTHON_TYPES: Final[Mapping[JsonType, str]] = {
    JsonType.STRING: "str",
    JsonType.INTEGER: "int",
    JsonType.NUMBER: "float",
    JsonType.BOOLEAN: "bool",
    JsonType.LIST: "list[Any]",
    JsonType.OBJECT: "dict[str, Any]",
    JsonType.NULL: "None",
}
JAVASCRIPT_TYPES: Final[Mapping[JsonType, str]] = {
    JsonType.STRING: "string",
    JsonType.INTEGER: "number",
    JsonType.NUMBER: "number",
    JsonType.BOOLEAN: "boolean",
    JsonType.LIST: "unknown[]",
    JsonType.OBJECT: "Record<string, unknown>",
    JsonType.NULL: "null",
}

_PYTHON_HEAD: Final = """\
from typing import Any, Awaitable, Literal, NotRequired, TypedDict

class DulyEvent(TypedDict):
    topic: str
    message_id: str
    id: str
    title: str
    payload: Any

class DulyPrepared(TypedDict):
    reservations: list[Any]
    data: Any
    ui: NotRequired[Any]

class DulyMutationResult(TypedDict):
    status: Literal["applied", "none", "skipped"]
    result: NotRequired[Any]
"""
_PYTHON_VERBS: Final = """\
    def publish(
        self, topic: str, *, message_id: str | int = ..., title: str, payload: Any = ...
    ) -> Awaitable[None]: ...
    def peek(
        self, topic: str, *, limit: int = ..., after: str | None = ...
    ) -> Awaitable[list[DulyEvent]]: ...
    def get_by_ids(self, topic: str, ids: list[Any]) -> Awaitable[list[DulyEvent]]: ...
"""

# What a script may import from `duly`; the shapes are those of names.py.
PYTHON_MODULE: Final = """\
from typing import Any, Callable, TypeVar

T = TypeVar("T")

class workflow:
    def __init__(
        self, name: str, *, topics: Any, producers: Any = ..., consumers: Any = ...
    ) -> None: ...
    def producer(
        self,
        name: str | None = ...,
        *,
        every: str | None = ...,
        cron: str | None = ...,
        timezone: str | None = ...,
        on_deploy: bool = ...,
        publishes: list[str] | None = ...,
    ) -> Callable[[T], T]: ...
    def consumer(
        self, *subscribe: str, name: str | None = ..., publishes: list[str] | None = ...
    ) -> Callable[[T], T]: ...

def producer(
    handler: Any,
    *,
    every: str | None = ...,
    cron: str | None = ...,
    timezone: str | None = ...,
    on_deploy: bool = ...,
    publishes: list[str] | None = ...,
) -> Any: ...
def consumer(
    *,
    subscribe: list[str],
    prepare: Any,
    mutate: Any = ...,
    next: Any = ...,
    publishes: list[str] | None = ...,
) -> Any: ...
"""

_JAVASCRIPT_HEAD: Final = """\
interface DulyEvent {
  topic: string;
  messageId: string;
  id: string;
  title: string;
  payload: any;
}

interface DulyPrepared {
  reservations: { topic: string; ids: (string | number)[] }[];
  data?: any;
  ui?: { title: string; [name: string]: any };
  wakeAt?: string;
}

type DulyMutationResult =
  | { status: "applied"; result: any }
  | { status: "none" }
  | { status: "skipped" };
"""
_JAVASCRIPT_VERBS: Final = """\
  publish(
    topic: string,
    event: { messageId?: string | number; title: string; payload?: any },
  ): Promise<void>;
  peek(topic: string, options?: { limit?: number; after?: string }): Promise<DulyEvent[]>;
  getByIds(topic: string, ids: (string | number)[]): Promise<DulyEvent[]>;
"""
_JAVASCRIPT_TAIL: Final = """\
type DulyProducer = (ctx: DulyContext, state: any) => Promise<any>;

interface DulyConsumer {
  subscribe: string[];
  publishes?: string[];
  prepare(ctx: DulyContext, state: any): Promise<DulyPrepared>;
  mutate?(ctx: DulyContext, prepared: DulyPrepared): Promise<void>;
  next?(
    ctx: DulyContext,
    prepared: DulyPrepared,
    mutationResult: DulyMutationResult,
    state: any,
  ): Promise<any>;
}

interface DulyWorkflow {
  name: string;
  topics: string[] | Record<string, { ingress?: boolean | { bus: string } }>;
  producers?: Record<
    string,
    | DulyProducer
    | {
        schedule?:
          | { interval: string; onDeploy?: boolean }
          | { cron: string; timezone?: string; onDeploy?: boolean };
        handler: DulyProducer;
        publishes?: string[];
      }
  >;
  consumers?: Record<string, DulyConsumer>;
}

declare const Keep: {
  workflow(declaration: DulyWorkflow): DulyWorkflow;
  consumer(consumer: DulyConsumer): DulyConsumer;
};
declare const Duly: typeof Keep;
"""


def python_stubs(catalog: Catalog) -> str:
    """Write the types of `ctx` for Python."""
    parts = [_PYTHON_HEAD]
    for connector, tools in _connectors(catalog):
        lines = [f"class {_class_name(connector)}:"]
        for tool in tools:
            operation = tool.name.partition(".")[2]
            answer, definition = _python_result(tool)
            parts += [definition] if definition else []
            lines.append(f"    def {operation}({_takes(tool)}) -> Awaitable[{answer}]: ...")
        parts.append("\n".join(lines) + "\n")
    fields = [f"    {name}: {_class_name(name)}\n" for name, _ in _connectors(catalog)]
    parts.append(f"class {PREFIX}Context:\n{''.join(fields)}{_PYTHON_VERBS}")
    return "\n".join(parts)


def javascript_types(catalog: Catalog) -> str:
    """Write the types of `ctx` and of a declaration for JavaScript editors, as a .d.ts."""
    parts = [_JAVASCRIPT_HEAD]
    fields = []
    for connector, tools in _connectors(catalog):
        lines = [f"interface {_class_name(connector)} {{"]
        for tool in tools:
            takes = "; ".join(_javascript_parameter(each) for each in tool.parameters)
            mark = "" if any(each.required for each in tool.parameters) else "?"
            operation = camel(tool.name.partition(".")[2])
            given = f"args{mark}: {{ {takes} }}" if takes else ""
            lines.append(f"  {operation}({given}): Promise<{in_javascript(tool.result)}>;")
        parts.append("\n".join([*lines, "}", ""]))
        fields.append(f"  {camel(connector)}: {_class_name(connector)};\n")
    parts.append(f"interface {PREFIX}Context {{\n{''.join(fields)}{_JAVASCRIPT_VERBS}}}\n")
    return "\n".join([*parts, _JAVASCRIPT_TAIL])


def _connectors(catalog: Catalog) -> Iterator[tuple[str, list[Tool]]]:
    tools: dict[str, list[Tool]] = {}
    for tool in catalog.tools:
        tools.setdefault(tool.name.partition(".")[0], []).append(tool)
    yield from tools.items()


def _class_name(connector: str) -> str:
    return PREFIX + "".join(part.capitalize() for part in connector.split("_"))


def _python_result(tool: Tool) -> tuple[str, str]:
    """Write the result of a tool: its type, and the class that has to be defined for it.

    That it may be None is left out: a script that does not test for it gets no finding.
    """
    shape = tool.result
    if shape is None or shape.is_page:
        return "Any", ""
    types = shape.types - {JsonType.NULL}
    if types != {JsonType.OBJECT}:
        return " | ".join(PYTHON_TYPES[each] for each in JsonType if each in types) or "None", ""
    if not shape.fields or not all(_is_field(name) for name, _ in shape.fields):
        return "dict[str, Any]", ""
    name = _class_name(tool.name.replace(".", "_"))
    lines = [f"    {key}: {_python_type(each)}\n" for key, each in shape.fields]
    return name, f"class {name}(TypedDict):\n{''.join(lines)}"


def _is_field(name: str) -> bool:
    return name.isidentifier() and not iskeyword(name)


def _python_type(shape: Shape) -> str:
    return " | ".join(PYTHON_TYPES[each] for each in JsonType if each in shape.types) or "Any"


def _takes(tool: Tool) -> str:
    """Write the parameters of a tool; in Python optional ones come last, or by name only."""
    order = [each.required for each in tool.parameters]
    star = ["*"] if order != sorted(order, reverse=True) else []
    return ", ".join(["self", *star, *(_python_parameter(each) for each in tool.parameters)])


def _python_parameter(parameter: Parameter) -> str:
    types = [PYTHON_TYPES[each] for each in JsonType if each in parameter.types]
    default = "" if parameter.required else " = ..."
    return f"{parameter.name}: {' | '.join(types) or 'Any'}{default}"


def _javascript_parameter(parameter: Parameter) -> str:
    names = (JAVASCRIPT_TYPES[each] for each in JsonType if each in parameter.types)
    types = " | ".join(dict.fromkeys(names))
    return f"{camel(parameter.name)}{'' if parameter.required else '?'}: {types or 'any'}"
