"""What a tool answers: the shape of its result, as far as its author declared it.

Law 1: a shape describes, and decides nothing: what a connector really answers is not compared with
       it. Where nothing is declared nothing is claimed.
Law 2: a sample has the declared shape and depends on the call alone, so that the same call has the
       same sample in every run of a simulation.

    Shape({OBJECT}, fields=(("row", Shape({INTEGER})), ("table", Shape({STRING}))))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duly.rules.catalog import TYPES_OF, JsonType, Shape
from duly.rules.value import Json, digest

NUMBERS: Final = 1_000_000
JAVASCRIPT: Final[Mapping[JsonType, str]] = {
    JsonType.STRING: "string",
    JsonType.INTEGER: "number",
    JsonType.NUMBER: "number",
    JsonType.BOOLEAN: "boolean",
    JsonType.NULL: "null",
}


def sample(shape: Shape | None, args: Mapping[str, Json]) -> Json:
    """Make a value of a shape; what has the name and the type of an argument is that argument."""
    if shape is None:
        return {}
    return _sample(shape, "result", args, digest(dict(args)))


def _sample(shape: Shape, name: str, args: Mapping[str, Json], seed: str) -> Json:
    if shape.is_page:
        return {"items": []}
    given = args.get(name)
    if name in args and shape.types & TYPES_OF[type(given)]:
        return given
    if JsonType.OBJECT in shape.types or not shape.types:
        return {key: _sample(each, key, args, seed) for key, each in shape.fields}
    made: dict[JsonType, Json] = {
        JsonType.STRING: f"{name}-{seed[:8]}",
        JsonType.INTEGER: int(seed[:8], 16) % NUMBERS + 1,
        JsonType.NUMBER: float(int(seed[:8], 16) % NUMBERS + 1),
        JsonType.BOOLEAN: True,
        JsonType.LIST: [],
        JsonType.NULL: None,
    }
    return next(value for kind, value in made.items() if kind in shape.types)


def in_javascript(shape: Shape | None) -> str:
    """Write a shape as TypeScript does; it is also how people are told."""
    if shape is None or not shape.types:
        return "any"
    if shape.is_page:
        return f"{in_javascript(shape.item)}[] & {{ [name: string]: any }}"
    parts: list[str] = []
    for kind in JsonType:
        if kind not in shape.types:
            continue
        if kind is JsonType.LIST:
            parts.append(f"{in_javascript(shape.item)}[]" if shape.item else "any[]")
        elif kind is JsonType.OBJECT:
            inside = "; ".join(f"{key}: {in_javascript(each)}" for key, each in shape.fields)
            parts.append(f"{{ {inside} }}" if inside else "Record<string, any>")
        else:
            parts.append(JAVASCRIPT[kind])
    return " | ".join(dict.fromkeys(parts))
