"""How a web service is signed in to, and its operations, out of the small fields of a form.

Law 1  A field says nothing about where a request goes: that is the address of the connection, and
       an operation is a method and a path below it. No header is set but that of the sign-in and
       that of the key, and no secret stands in a field.
Law 2  A change says where its key travels, also when that is nowhere (K1); a read has none.
Law 3  What is wrong is told with its field, all of it at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from duly.errors import DulyError, Invalid
from duly.rules.catalog import SNAKE
from duly.rules.url import PLAIN, has_dots

OPERATIONS: Final = 3  # that one form has fields for
ARGUMENTS_MAX: Final = 20
NONE: Final = "none"
READ: Final = "GET"
METHODS: Final = ("POST", READ, "PUT", "PATCH", "DELETE")
SIGN_INS: Final = (NONE, "bearer", "header", "basic")
# What `auth` calls the name that a way of signing in needs beside its secret.
NAMED: Final[Mapping[str, str]] = {"header": "name", "basic": "user"}
KEYS: Final = (NONE, "header", "field", "query")
KEY_HEADER: Final = "Idempotency-Key"
WHOLE: Final = "."  # the answer itself is the list
PARTS: Final = (
    *("operation", "method", "path", "arguments", "key", "key_name"),
    *("found_by", "found_in", "found_as"),
)
# Chosen in every form, so they do not say that an operation was meant.
CHOSEN: Final = frozenset({"method", "key"})
# The field of each key of an operation, for what its reader refuses.
FIELD_OF: Final[Mapping[str, str]] = {
    "query": "path",
    "body": "arguments",
    "kind": "method",
    "verify": "found_by",
    "verify.items": "found_in",
    "verify.match": "found_as",
    **{each: each for each in PARTS[1:6]},
}
REFUSED: Final = re.compile(r"operations(?:\.([a-z0-9_]+))?((?:\.[a-z_]+)*):? ")


def field_of(number: int, part: str) -> str:
    """Name a field of one of the operations of a form."""
    return part if number == 1 else f"{part}_{number}"


def read_sign_in(given: Mapping[str, str]) -> dict[str, str] | None:
    """Return how a service is told who asks; none where it needs no sign-in."""
    way = given.get("sign_in", NONE)
    if way == NONE:
        return None
    name = given.get("sign_in_name", "")
    if way in NAMED and not name:
        raise _missing("sign_in_name")
    return {"type": way, **({NAMED[way]: name} if way in NAMED else {})}


def read_small_operations(
    given: Mapping[str, str], wrong: list[DulyError]
) -> dict[str, dict[str, Any]]:
    """Return the operations of a form, each as a table of the settings (laws 2 and 3)."""
    found: dict[str, dict[str, Any]] = {}
    for number in range(1, OPERATIONS + 1):
        own = {part: given.get(field_of(number, part), "") for part in PARTS}
        if not any(text for part, text in own.items() if part not in CHOSEN):
            continue
        try:
            name, table = _read_one(own)
            if name in found:
                raise _wrong("operation", "other_name")
        except Invalid as error:
            wrong.append(_at(error, number))
        else:
            found[name] = table
    return found


def place_refused(said: str, given: Mapping[str, str]) -> str:
    """Name the field that a reader of operations refused; "" if it was none of the form."""
    found = REFUSED.match(said)
    if found is None or found[1] is None:
        return ""
    names = {given.get(field_of(each, "operation")): each for each in range(1, OPERATIONS + 1)}
    if found[1] not in names:
        return ""
    keys = found[2].strip(".").split(".")
    part = FIELD_OF.get(".".join(keys[:2])) or FIELD_OF.get(keys[0], "operation")
    return field_of(names[found[1]], part)


def _read_one(own: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    name, method = own["operation"], own["method"] or METHODS[0]
    if not name:
        raise _missing("operation")
    if not SNAKE.fullmatch(name):
        raise _wrong("operation", "operation_name")
    path, query = _read_path(own["path"], "path")
    table: dict[str, Any] = {"method": method, "path": path}
    if arguments := dict(_read_arguments(own["arguments"])):
        table["arguments"] = arguments
    if query:
        # A read sends the arguments that stand nowhere else in its query; one that is given holds
        # them all, so they are added to it.
        inside = set(re.findall(r"\{([a-z0-9_]+)\}", own["path"]))
        rest = [each for each in arguments if each not in inside] if method == READ else []
        table["query"] = {**query, **{each: f"{{{each}}}" for each in rest}}
    if method == READ:
        for part in ("key_name", "found_by", "found_in", "found_as"):
            if own[part]:
                raise _wrong(part, "empty_of_read")
        if (own["key"] or NONE) != NONE:
            raise _wrong("key", "empty_of_read")
        return name, {**table, **({"kind": "read_by_id"} if path.endswith("}") else {})}
    table["key"] = _read_key(own)
    if own["found_by"] or own["found_in"] or own["found_as"]:
        table["verify"] = _read_verify(own, has_key=table["key"] != NONE)
    return name, table


def _read_path(text: str, field: str) -> tuple[str, dict[str, str]]:
    """Read a path below the address of the connection, and the query behind it."""
    if not text:
        raise _missing(field)
    path, mark, query = text.partition("?")
    plain = PLAIN.fullmatch(re.sub(r"\{[a-z0-9_]+\}", "x", text))
    if plain is None or not path.startswith("/") or "//" in path or "#" in text or has_dots(path):
        raise _wrong(field, "operation_path")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(mark))
    except ValueError:
        raise _wrong(field, "operation_path") from None
    return path, dict(pairs)


def _read_arguments(text: str) -> Iterator[tuple[str, str]]:
    """Read `title, due string?, count: integer`; one without a type is a text."""
    parts = [each.strip() for each in text.split(",") if each.strip()]
    if len(parts) > ARGUMENTS_MAX:
        facts = {"limit": ARGUMENTS_MAX, "unit": "arguments"}
        raise Invalid(code="too_many", path="settings.arguments", subject="arguments", facts=facts)
    seen = set()
    for part in parts:
        words = re.split(r"\s*[:=]\s*|\s+", part)
        if len(words) > 2 or not SNAKE.fullmatch(words[0].removesuffix("?")):
            raise _wrong("arguments", "operation_arguments")
        name = words[0].removesuffix("?")
        if name in seen:
            raise _wrong("arguments", "operation_arguments")
        seen.add(name)
        kind = words[1] if len(words) == 2 else "string"
        may_lack = words[0].endswith("?") or kind.endswith("?")
        yield name, f"{kind.removesuffix('?')}{'?' if may_lack else ''}"


def _read_key(own: Mapping[str, str]) -> Any:
    kind, name = own["key"] or NONE, own["key_name"]
    if kind == NONE:
        if name:
            raise _wrong("key", "place_of_key")
        return NONE
    if kind == "header":
        return {kind: name or KEY_HEADER}
    if not name:
        raise _missing("key_name")
    return {kind: name}


def _read_verify(own: Mapping[str, str], *, has_key: bool) -> dict[str, Any]:
    if not has_key:
        raise _wrong("key", "place_of_key")
    for part in ("found_by", "found_as"):
        if not own[part]:
            raise _missing(part)
    path, query = _read_path(own["found_by"], "found_by")
    found: dict[str, Any] = {"path": path, "match": own["found_as"]}
    if query:
        found["query"] = query
    if own["found_in"]:
        found["items"] = "" if own["found_in"] == WHOLE else own["found_in"]
    return found


def _missing(part: str) -> Invalid:
    facts = {"of": "http"}
    return Invalid(code="missing", path=f"settings.{part}", subject=part, facts=facts)


def _wrong(part: str, wanted: str) -> Invalid:
    facts = {"wanted": wanted}
    return Invalid(code="wrong_value", path=f"settings.{part}", subject=part, facts=facts)


def _at(error: Invalid, number: int) -> Invalid:
    """Name the field of the operation that it is of."""
    name = field_of(number, error.path.removeprefix("settings."))
    return Invalid(code=error.code, path=f"settings.{name}", subject=name, facts=error.facts)
