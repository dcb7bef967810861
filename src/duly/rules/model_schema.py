"""The part of JSON Schema that answers of models are checked against (M3).

Law 1: a schema is understood whole, or refused: a word that is not checked would promise something.
Law 2: the check is ours. That a service says it keeps to a schema is worth nothing.

Law 3: a schema that no answer can fit within its limit is refused, so that a sample of it, which
       is made for a simulation, is no longer than an answer.

Known words: type, properties, required, additionalProperties (false), items, enum, minLength,
maxLength, minItems, maxItems, minimum, maximum, and description and title, which only the model
reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from duly.errors import Invalid, short
from duly.rules.model import ANSWER_BYTES_MAX
from duly.rules.value import Json, encode

SCHEMA_BYTES_MAX: Final = 16 * 1024
SCHEMA_DEPTH_MAX: Final = 8
SAMPLE_TEXT: Final = "sample"
TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
SIZES: Final = ("minLength", "maxLength", "minItems", "maxItems")
NUMBERS: Final = ("minimum", "maximum")
WORDS: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum"}
    | {"description", "title", *SIZES, *NUMBERS}
)


def check_schema(schema: Json, path: str = "schema") -> None:
    """Refuse a schema that is not understood whole, or that is too large."""
    encode(schema, path, limit_bytes=SCHEMA_BYTES_MAX)
    _check(schema, path, 0)
    if _least_size(schema) > ANSWER_BYTES_MAX:
        facts = {"limit": ANSWER_BYTES_MAX, "unit": "bytes"}
        raise Invalid(code="too_long", path=path, facts=facts)


def find_misfit(value: Json, schema: Json, path: str = "answer") -> str | None:
    """Return where a value does not fit a schema that was checked, and which word says so."""
    assert isinstance(schema, dict), schema
    kinds = _kinds(schema)
    if kinds and not any(TYPES[kind](value) for kind in kinds):
        return f"{path}: type"
    if "enum" in schema and not any(_is_same(value, each) for each in schema["enum"]):  # type: ignore[union-attr]
        return f"{path}: enum"
    size = len(value) if isinstance(value, str | list) else 0
    least, most = ("minLength", "maxLength") if isinstance(value, str) else ("minItems", "maxItems")
    if isinstance(value, str | list):
        if size < schema.get(least, 0):  # type: ignore[operator]
            return f"{path}: {least}"
        if size > schema.get(most, size):  # type: ignore[operator]
            return f"{path}: {most}"
    if TYPES["number"](value):
        if value < schema.get("minimum", value):  # type: ignore[operator]
            return f"{path}: minimum"
        if value > schema.get("maximum", value):  # type: ignore[operator]
            return f"{path}: maximum"
    if isinstance(value, list) and "items" in schema:
        found = (
            find_misfit(each, schema["items"], f"{path}[{place}]")
            for place, each in enumerate(value)
        )
        return next((each for each in found if each is not None), None)
    return _misfit_of_fields(value, schema, path) if isinstance(value, dict) else None


def make_sample(schema: Json, pick: int = 0) -> Json:
    """Make a value that fits a schema that was checked; `pick` chooses one of an `enum`."""
    assert isinstance(schema, dict), schema
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[pick % len(choices)]
    kind = next(iter(_kinds(schema)), "object")
    given: Any = schema
    if kind == "object":
        fields: Any = given.get("properties", {})
        made = {name: make_sample(each, pick) for name, each in fields.items()}
        return {**dict.fromkeys(given.get("required", ())), **made}
    if kind == "array":
        one = given.get("items", {"type": "string"})
        count = max(1, given.get("minItems", 0))
        count = min(count, given.get("maxItems", count))
        return [make_sample(one, pick) for _ in range(count)]
    if kind == "string":
        text = SAMPLE_TEXT.ljust(given.get("minLength", 0), ".")
        return text[: given.get("maxLength")]
    if kind in ("integer", "number"):
        least = given.get("minimum", min(0, given.get("maximum", 0)))
        return math.ceil(least) if kind == "integer" else float(least)
    return False if kind == "boolean" else None


def _misfit_of_fields(value: dict[str, Json], schema: dict[str, Json], path: str) -> str | None:
    fields: Any = schema.get("properties", {})
    for name in schema.get("required", ()):  # type: ignore[union-attr]
        if name not in value:
            return f"{path}.{name}: required"
    for name, each in value.items():
        if name in fields:
            if (found := find_misfit(each, fields[name], f"{path}.{name}")) is not None:
                return found
        elif schema.get("additionalProperties") is False:
            return f"{path}.{short(name)}: additionalProperties"
    return None


def _check(schema: Json, path: str, depth: int) -> None:
    if depth > SCHEMA_DEPTH_MAX:
        raise Invalid(code="too_deep", path=path, facts={"limit": SCHEMA_DEPTH_MAX})
    if not isinstance(schema, dict):
        raise _wrong(path, "json_schema", schema)
    for word in schema:
        if word not in WORDS:
            facts = {"given": short(word), "known": sorted(WORDS)}
            raise Invalid(code="not_one_of", path=path, facts=facts)
    for kind in _kinds(schema):
        if kind not in TYPES:
            facts = {"given": short(kind), "known": sorted(TYPES)}
            raise Invalid(code="not_one_of", path=f"{path}.type", facts=facts)
    for word in (*SIZES, *NUMBERS):
        if word in schema and not TYPES["integer" if word in SIZES else "number"](schema[word]):
            raise _wrong(f"{path}.{word}", "number", schema[word])
    lists = {"enum": lambda each: True, "required": TYPES["string"]}
    for word, is_fine in lists.items():
        given = schema.get(word, [])
        if not isinstance(given, list) or not all(map(is_fine, given)):
            raise _wrong(f"{path}.{word}", "list", given)
    if schema.get("additionalProperties", False) is not False:
        raise _wrong(f"{path}.additionalProperties", "false_alone", schema["additionalProperties"])
    fields = schema.get("properties", {})
    if not isinstance(fields, dict):
        raise _wrong(f"{path}.properties", "object", fields)
    for name, each in fields.items():
        _check(each, f"{path}.properties.{short(name)}", depth + 1)
    if "items" in schema:
        _check(schema["items"], f"{path}.items", depth + 1)


def _least_size(schema: Any) -> int:
    """Return about how many bytes a value with every field has at least (law 3)."""
    words = sum(len(str(schema[each])) for each in ("enum", "required") if each in schema)
    fields = schema.get("properties", {}).items()
    inside = sum(len(name) + _least_size(each) for name, each in fields)
    one = _least_size(schema["items"]) if "items" in schema else 1
    least, count = (max(0, int(schema.get(each, 0))) for each in ("minLength", "minItems"))
    return 1 + words + max(inside, count * one, least)


def _kinds(schema: dict[str, Json]) -> list[Any]:
    given: Any = schema.get("type", [])
    return given if isinstance(given, list) else [given]


def _is_same(one: Json, other: Json) -> bool:
    """Compare as JSON does: true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _wrong(path: str, wanted: str, given: object) -> Invalid:
    return Invalid(code="wrong_value", path=path, facts={"wanted": wanted, "given": short(given)})
