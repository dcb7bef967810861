"""Values of Notion: plain JSON to scripts, properties of their types to Notion.

Law: a text becomes one text, or several where it is too long for one. It never becomes a link, a
mention or a formula (K12).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duly.connectors.json_answer import pick
from duly.connectors.token_service import list_at, text_at, texts_at
from duly.errors import Refused
from duly.rules.value import Json, suggest

TEXT_CHARS_MAX: Final = 2000  # of one piece of text
PIECES_MAX: Final = 100  # of one property, and blocks of one request
WORD_CHARS_MAX: Final = 100  # of a choice
# Types whose value is a plain one, by what it must be.
PLAIN: Final[Mapping[str, tuple[type, ...]]] = {
    "number": (int, float),
    "checkbox": (bool,),
    "url": (str,),
    "email": (str,),
    "phone_number": (str,),
}


def write_text(text: str) -> list[Json]:
    """Write a text in pieces."""
    if len(text) > TEXT_CHARS_MAX * PIECES_MAX:
        raise Refused(f"A text has at most {TEXT_CHARS_MAX * PIECES_MAX:,} characters.")
    pieces = range(0, len(text), TEXT_CHARS_MAX)
    return [{"type": "text", "text": {"content": text[at : at + TEXT_CHARS_MAX]}} for at in pieces]


def write_blocks(text: str) -> list[Json]:
    """Write a text as paragraphs, one for each line."""
    lines = text.split("\n") if text else []
    if len(lines) > PIECES_MAX:
        raise Refused(f"text: a page begins with at most {PIECES_MAX} lines.")
    return [
        {"object": "block", "type": "paragraph", "paragraph": {"rich_text": write_text(each)}}
        for each in lines
    ]


def write_properties(values: Mapping[str, Json], types: Mapping[str, str]) -> dict[str, Json]:
    """Write values as properties of the types that a database has."""
    found: dict[str, Json] = {}
    for name, value in values.items():
        if name not in types:
            raise Refused(f"values: there is no property {name!r}. {suggest(name, types)}")
        found[name] = _write(name, types[name], value)
    return found


def _write(name: str, kind: str, value: Json) -> dict[str, Json]:
    if value is None and kind not in ("checkbox", "title", "rich_text"):
        return {kind: [] if kind == "multi_select" else None}
    if kind in ("title", "rich_text") and isinstance(value, str | int | float):
        return {kind: write_text(str(value))}
    if kind in ("select", "status") and isinstance(value, str):
        return {kind: {"name": _choice(name, value)}}
    if kind == "multi_select" and isinstance(value, list):
        return {kind: [{"name": _choice(name, each)} for each in value]}
    if kind == "date" and isinstance(value, str):
        return {kind: {"start": value}}
    kinds = PLAIN.get(kind, ())
    is_flag = isinstance(value, bool) and bool not in kinds
    if isinstance(value, kinds) and not is_flag:
        return {kind: value}
    raise Refused(f"values: {name!r} is a {kind}, which cannot be {str(value)[:50]!r}.")


def _choice(name: str, value: Json) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= WORD_CHARS_MAX or "," in value:
        most = f"1 to {WORD_CHARS_MAX} characters without a comma"
        raise Refused(f"values: a choice of {name!r} has {most}.")
    return value


def write_filter(where: Mapping[str, Json], types: Mapping[str, str]) -> list[Json]:
    """Write comparisons as filters of the types that a database has."""
    found: list[Json] = []
    for name, value in where.items():
        if name not in types:
            raise Refused(f"where: there is no property {name!r}. {suggest(name, types)}")
        kind = types[name]
        word = "contains" if kind == "multi_select" else "equals"
        if kind == "formula" or not isinstance(value, str | int | float):
            raise Refused(f"where: {name!r} cannot be compared with {str(value)[:50]!r}.")
        found.append({"property": name, kind: {word: value}})
    return found


def read_properties(properties: Any) -> dict[str, Any]:
    """Read properties as plain values; of a type that is not known here, None."""
    found = properties.items() if isinstance(properties, dict) else ()
    return {str(name): _read(each) for name, each in found}


def _read(each: Any) -> Any:
    kind = text_at(each, "type")
    value = pick(each, kind)
    if kind in ("title", "rich_text"):
        return "".join(texts_at(each, kind, "plain_text"))
    if kind in ("select", "status"):
        return text_at(value, "name") or None
    if kind in ("multi_select", "people"):
        return texts_at(each, kind, "name")
    if kind == "relation":
        return texts_at(each, kind, "id")
    if kind == "date":
        return text_at(value, "start") or None
    if kind == "formula":
        inner = pick(value, text_at(value, "type"))
        return inner if isinstance(inner, str | int | float | bool) else None
    if kind == "files":
        return [text_at(one, "name") for one in list_at(each, kind)]
    return value if isinstance(value, str | int | float | bool) else None
