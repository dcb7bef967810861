"""Fills the arguments of a call into paths, queries and bodies.

Law 1: a value never becomes structure. In a path it is one segment, escaped; in a query one field.
Law 2: a value that is not given is left out; where it cannot be left out, the call is refused.
Law 3: a text that is exactly `{name}` stands for the value itself, with its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final
from urllib.parse import quote

from duly.errors import Refused
from duly.rules.value import Json

KEY: Final = "key"  # what `{key}` stands for
KEY_UUID: Final = "key_uuid"  # the key as a UUID
KEY_SHORT: Final = "key_short"  # the key in 24 characters
SENT_AFTER: Final = "sent_after"  # in a question: a day before the first send
KEY_NAMES: Final = frozenset({KEY, KEY_UUID, KEY_SHORT})
TAKEN: Final = KEY_NAMES | {SENT_AFTER}  # no argument can have one of these names
FIELD: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")
BRACE: Final = re.compile(r"[{}]")


class Absent(Enum):
    """Says that there is nothing at a place, which is not null."""

    MISSING = "missing"


MISSING: Final = Absent.MISSING


def fields_of(template: object) -> frozenset[str]:
    """Return the names in a template, however deep."""
    if isinstance(template, str):
        return frozenset(FIELD.findall(template))
    if isinstance(template, Mapping):
        return frozenset().union(*map(fields_of, template.values()))
    if isinstance(template, list | tuple):
        return frozenset().union(*map(fields_of, template))
    return frozenset()


def is_broken(template: str) -> bool:
    """Tell whether a text has braces that name nothing."""
    return BRACE.search(FIELD.sub("", template)) is not None


def has_key(template: str) -> bool:
    """Tell whether the key of the call stands in a template."""
    return not KEY_NAMES.isdisjoint(fields_of(template))


def fill_path(template: str, values: Mapping[str, Json]) -> str:
    """Fill a path; each value is one segment or a part of one."""

    def put_in(found: re.Match[str]) -> str:
        text = text_of(found[1], values.get(found[1]))
        if text is None or text in ("", ".", ".."):
            raise Refused(f"{found[1]} is {text!r}, which cannot stand in a path.")
        return quote(text, safe="")

    return FIELD.sub(put_in, template)


def fill_query(templates: Mapping[str, Any], values: Mapping[str, Json]) -> dict[str, Json]:
    """Fill the fields of a query; those whose value is not given are left out."""
    filled = {name: fill(each, values) for name, each in templates.items()}
    return {name: each for name, each in filled.items() if each is not MISSING}


def fill(template: object, values: Mapping[str, Json]) -> Any:
    """Fill a template of JSON; `MISSING` where it stands for a value that is not given."""
    if isinstance(template, Mapping):
        return fill_query(template, values)
    if isinstance(template, list | tuple):
        return [each for each in (fill(part, values) for part in template) if each is not MISSING]
    if not isinstance(template, str):
        return template
    if whole := FIELD.fullmatch(template):
        value = values.get(whole[1])
        return MISSING if value is None else value
    return FIELD.sub(lambda found: text_of(found[1], values.get(found[1])) or "", template)


def flatten(query: Mapping[str, Json]) -> list[tuple[str, str]]:
    """Write the fields of a query or a form; a list is one field several times."""
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        several: Iterable[Json] = value if isinstance(value, list) else [value]
        texts = (text_of(name, each) for each in several)
        pairs += [(name, text) for text in texts if text is not None]
    return pairs


def text_of(name: str, value: Json) -> str | None:
    """Write a plain value as a text; None for none."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    raise Refused(f"{name} is an object or a list. Give a text, a number, or true or false.")
