"""Reads the parameters and the result of a tool out of the signature of its method.

Law 1: arguments are strict JSON and come by name, so a parameter that cannot be named, or whose
       annotation no JSON value fits, is refused before a script could meet it (A1).
Law 2: the result is described as far as its annotation can be read: a TypedDict, a dataclass, a
       Struct, `Page[Item]`. An annotation that cannot be read, such as a name that is imported for
       type checkers only, describes nothing and refuses nothing.

    annotation                       what an argument may be
    none, Any, object                anything
    str  int  float  bool  None      that; an integer is a number too
    list[X], Sequence[X]             a list      (what it holds is not checked)
    dict[str, X], Mapping, TypedDict an object   (nor here)
    X | Y, Optional, Literal         what any of them may be
    Address, list[Address]           one address of a mail, or several, one in each text (K12)
    Blob, list[Blob]                 a blob that the workflow was given, or several (K15)
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType, NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    ForwardRef,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from duly.connectors.base import Page
from duly.errors import Invalid
from duly.rules.blob import Blob
from duly.rules.catalog import JsonType, Parameter, Shape

ANYTHING: Final[frozenset[JsonType]] = frozenset()
ADDRESS: Final = "duly.address"
SHAPE_DEPTH_MAX: Final = 8
# Of so many methods it is kept what was read: every host that opens reads the same ones.
METHODS_KEPT_MAX: Final = 1024

Address: TypeAlias = Annotated[str, ADDRESS]

TYPES: Final[Mapping[object, JsonType]] = MappingProxyType(
    {
        str: JsonType.STRING,
        int: JsonType.INTEGER,
        float: JsonType.NUMBER,
        bool: JsonType.BOOLEAN,
        None: JsonType.NULL,
        NoneType: JsonType.NULL,
        list: JsonType.LIST,
        Sequence: JsonType.LIST,
        dict: JsonType.OBJECT,
        Mapping: JsonType.OBJECT,
    }
)
BY_PLACE: Final = frozenset(
    {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
)
BY_NAME: Final = frozenset(
    {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
)


@lru_cache(maxsize=METHODS_KEPT_MAX)
def parameters_of(
    function: Callable[..., object], what: str, *, first: tuple[str, ...]
) -> tuple[Parameter, ...]:
    """Read the parameters of a method after those the host fills in: `self`, and `call`."""
    given = list(inspect.signature(function).parameters.values())
    # `self` may have any name. The parameter `call` tells a mutation from a read.
    filled, rest = given[: len(first)], given[len(first) :]
    names = ["self", *(each.name for each in filled[1:])]
    if (
        len(filled) < len(first)
        or tuple(names) != first
        or any(each.kind not in BY_PLACE for each in filled)
    ):
        raise Invalid(f"{what} must begin with ({', '.join(first)}). Write it so.", path=what)
    for each in rest:
        if each.kind not in BY_NAME:
            raise Invalid(
                f"{what}: {each} has no name a script could use. Write plain parameters, without"
                " /, *args and **kwargs.",
                path=f"{what}.{each.name}",
            )
    return tuple(_parameter_of(function, each, what) for each in rest)


def _parameter_of(
    function: Callable[..., object], parameter: inspect.Parameter, what: str
) -> Parameter:
    types, holds_address, holds_blob = _types_of(function, parameter, what)
    is_required = parameter.default is parameter.empty
    return Parameter(
        parameter.name, is_required, types, is_address=holds_address, is_blob=holds_blob
    )


def json_types(annotation: object) -> frozenset[JsonType]:
    """Return the JSON types an argument may have, none for any; TypeError if it is not JSON."""
    # A name that is still unresolved is an alias that contains itself, like the type of all JSON.
    if annotation in (Any, object) or isinstance(annotation, ForwardRef):
        return ANYTHING
    origin, inside = get_origin(annotation) or annotation, get_args(annotation)
    if origin is Annotated:
        return json_types(inside[0])
    if origin in (Union, UnionType):
        parts = [json_types(each) for each in inside]
        return frozenset().union(*parts) if all(parts) else ANYTHING
    if origin is Literal:
        return frozenset(_look_up(type(value)) for value in inside)
    if is_typeddict(annotation):
        return frozenset({JsonType.OBJECT})
    found = _look_up(origin)
    if found is JsonType.OBJECT and inside and inside[0] is not str:
        raise TypeError("the keys of an object are strings")
    for each in inside:
        json_types(each)
    return frozenset({found})


def _look_up(kind: object) -> JsonType:
    found = TYPES.get(kind)
    if found is None:
        raise TypeError(f"no JSON value is a {getattr(kind, '__name__', kind)}")
    return found


def is_address(annotation: object) -> bool:
    """Tell whether an annotation is an address, or holds one."""
    if get_origin(annotation) is Annotated:
        return ADDRESS in get_args(annotation)[1:]
    return any(map(is_address, get_args(annotation)))


def is_blob(annotation: object) -> bool:
    """Tell whether an annotation is a blob, or holds one."""
    return annotation is Blob or any(map(is_blob, get_args(annotation)))


def _types_of(
    function: Callable[..., object], parameter: inspect.Parameter, what: str
) -> tuple[frozenset[JsonType], bool, bool]:
    """Return the JSON types of an argument, and whether it is an address, or a blob."""
    if parameter.annotation is parameter.empty:
        return ANYTHING, False, False
    # One at a time, so that an unreadable annotation elsewhere does not prevent reading this one.
    alone = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        found = get_type_hints(alone, names, include_extras=True)[parameter.name]
        return json_types(found), is_address(found), is_blob(found)
    except Exception as error:
        # Annotations are code of the author, so reading them may raise anything at all.
        raise Invalid(
            f"{what}: the annotation of {parameter.name} cannot be used: {error}. Write str, int,"
            " float, bool, list, dict, None, a union of them, or Any.",
            path=f"{what}.{parameter.name}",
        ) from error


# -- What a tool returns --------------------------------------------------------------------------


@lru_cache(maxsize=METHODS_KEPT_MAX)
def result_of(function: Callable[..., object]) -> Shape | None:
    """Read the shape of a method's result out of its annotation; None where there is none."""
    function = inspect.unwrap(function)
    said = getattr(function, "__annotations__", {}).get("return", Any)
    alone = SimpleNamespace(__annotations__={"return": said})
    try:
        hints = get_type_hints(alone, getattr(function, "__globals__", {}))
        found = shape_of(hints["return"])
    except Exception:  # law 2: annotations are code of the author
        return None
    return found if found.types else None


def shape_of(annotation: object, depth: int = 0) -> Shape:
    """Read a shape; a type that is no JSON, or too deep, may be anything."""
    if depth > SHAPE_DEPTH_MAX:
        return Shape()
    origin, inside = get_origin(annotation) or annotation, get_args(annotation)
    if origin in (Union, UnionType):
        parts = [shape_of(each, depth) for each in inside]
        if not all(each.types for each in parts):
            return Shape()
        known = frozenset[JsonType]().union(*(each.types for each in parts))
        fields = next((each.fields for each in parts if each.fields), ())
        item = next((each.item for each in parts if each.item is not None), None)
        return Shape(known, fields, item)
    if origin is Page:
        item = shape_of(inside[0], depth + 1) if inside else None
        return Shape(frozenset({JsonType.OBJECT}), item=item, is_page=True)
    if (inner := _fields_of(origin)) is not None:
        shapes = ((name, shape_of(each, depth + 1)) for name, each in inner.items())
        return Shape(frozenset({JsonType.OBJECT}), tuple(shapes))
    if TYPES.get(origin) is JsonType.LIST:
        return Shape(
            frozenset({JsonType.LIST}), item=shape_of(inside[0], depth + 1) if inside else None
        )
    try:
        return Shape(json_types(annotation))
    except TypeError:
        return Shape()


def _fields_of(kind: object) -> dict[str, Any] | None:
    """Read the fields of a class that is an object in JSON; None if it is none."""
    is_object = is_typeddict(kind) or dataclasses.is_dataclass(kind)
    if not is_object and not hasattr(kind, "__struct_fields__"):
        return None
    return get_type_hints(kind)
