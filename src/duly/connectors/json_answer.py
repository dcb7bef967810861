"""JSON in requests and responses of web services: written, read, and looked into by a path.

Law 1: a response that should be JSON and is not is broken: unknown for a change, temporary for a
       read (L4).
Law 2: a number that a script cannot hold exactly becomes a text with its digits.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from duly.connectors.response import HttpResponse
from duly.connectors.template import MISSING, flatten
from duly.errors import Refused, Transient, UnknownOutcome
from duly.rules.value import INTEGER_MAX, Json

NO_CONTENT: Final = 204
FORM: Final = "application/x-www-form-urlencoded"
VALUES_MAX: Final = 200_000  # commas and brackets, also those in texts
DEPTH_MAX: Final = 90  # less than what the result of a tool may have (N)


def pick(value: Any, path: str) -> Any:
    """Return what stands at a path such as `data.items.0.id`; `MISSING` if nothing does."""
    for part in path.split(".") if path else ():
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


def put(body: Json, path: str, text: str) -> Json:
    """Return a body with a text at a path; the objects on the way are made.

    Where a list stands at the end of the path, the text becomes its last item.
    """
    first, _, rest = path.partition(".")
    if isinstance(body, list) and first.isdecimal() and int(first) < len(body) and rest:
        at = int(first)
        return [*body[:at], put(body[at], rest, text), *body[at + 1 :]]
    if body is not None and not isinstance(body, dict):
        raise Refused(f"The body is no object, so it has no field {path!r} for the key.")
    whole: dict[str, Json] = dict(body or {})
    before = whole.get(first)
    if rest:
        whole[first] = put(before, rest, text)
    else:
        whole[first] = [*before, text] if isinstance(before, list) else text
    return whole


def encode_body(body: Json, *, is_form: bool) -> tuple[str, bytes]:
    """Write a body; return its type, none where there is no body."""
    if body is None:
        return "", b""
    if is_form:
        if not isinstance(body, dict):
            raise Refused("The body is no object, so it cannot be a form.")
        return FORM, urlencode(flatten(_spelled(body))).encode("ascii")
    return "application/json", msgspec.json.encode(body)


def _spelled(body: dict[str, Json]) -> dict[str, Json]:
    """Write what is deeper than a list of plain values as JSON, which some forms take."""
    return {
        name: msgspec.json.encode(value).decode() if _is_deep(value) else value
        for name, value in body.items()
    }


def _is_deep(value: Json) -> bool:
    inside = value if isinstance(value, list) else [value]
    return any(isinstance(each, dict | list) for each in inside)


def read_answer(response: HttpResponse, what: str, *, is_change: bool) -> Json:
    """Read the JSON of a response; None if it is empty."""
    if not response.body.strip() and (response.is_framed or response.status == NO_CONTENT):
        return None
    kind = (response.header("content-type") or "").partition(";")[0].strip().lower()
    try:
        if not response.body.strip():
            raise ValueError("its end was not announced, so it may be cut")
        if kind and "json" not in kind:
            raise ValueError(f"it is {kind[:50]}, not JSON")
        _check_values(response.body, what, is_change=is_change)
        value: Json = msgspec.json.decode(response.body)
        if not response.is_framed and not isinstance(value, dict | list):
            raise ValueError("its end was not announced, so it may be cut")
        return exact(value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        said = f"{what}: the server answered {response.status}, but its answer cannot be read"
        if is_change:
            raise UnknownOutcome(f"{said}: {error}.") from None
        raise Transient(f"{said}: {error}.") from None


def _check_values(body: bytes, what: str, *, is_change: bool) -> None:
    """Refuse an answer of very many small values: each takes 50 times the memory of its bytes."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") <= VALUES_MAX:
        return
    said = f"it has more than {VALUES_MAX:,} values"
    if is_change:
        raise ValueError(said)
    raise Refused(f"{what}: {said}. Ask for less at once.")


def exact(value: Json, depth: int = 0) -> Json:
    """Copy a value with the numbers that a script can hold (law 2)."""
    if depth > DEPTH_MAX:
        raise ValueError(f"it is deeper than {DEPTH_MAX}")
    if isinstance(value, dict):
        return {name: exact(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        return [exact(each, depth + 1) for each in value]
    is_long = type(value) is int and not -INTEGER_MAX <= value <= INTEGER_MAX
    return str(value) if is_long else value
