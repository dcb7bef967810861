"""Makes operations of an `http` connector out of an OpenAPI description (3.0, 3.1).

Law 1  The description is a stranger's. It is data: nothing of it is run or fetched, what it refers
       to is in it, and each walk through it ends, however it refers to itself.
Law 2  What cannot be said as an operation is left out, and the reason is told; nothing is guessed.
       GET and HEAD read, everything else is a change. Where no header for a key is described, its
       key travels nowhere (K1).
Law 3  The same description always makes the same operations, so that it can be read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from keyword import iskeyword
from typing import Any, Final
from urllib.parse import unquote

from duly.errors import Invalid

OPERATIONS_MAX: Final = 200
ARGUMENTS_MAX: Final = 60  # of one operation
FIELDS_MAX: Final = 60  # of a result
REFERENCES_MAX: Final = 20  # from one to the next
NAME_CHARS_MAX: Final = 60
DOES_CHARS_MAX: Final = 200
PATHS_MAX: Final = 5_000
READS: Final = ("get", "head")
CHANGES: Final = ("post", "put", "patch", "delete")
KEY_HEADERS: Final = ("idempotency-key", "x-idempotency-key")
JSON_TYPE: Final = re.compile(r"application/([a-z0-9.+-]+\+)?json\b", re.IGNORECASE)
FORM: Final = "application/x-www-form-urlencoded"
WORDS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
HOLE: Final = re.compile(r"\{([^{}/]+)\}")
TYPES: Final[Mapping[str, str]] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "list",
    "object": "object",
}
# Names that a connector, a script or a template has for itself.
TAKEN: Final = frozenset(
    {"get", "head", "name", "local", "secret", "in_thread", "needs", "publish", "peek"}
    | {"get_by_ids", "then", "key", "self", "call"}
)


class LeftOut(StrEnum):
    """Why a part of a description makes no operation."""

    HEADER = "header"
    COOKIE = "cookie"
    BODY_TYPE = "body_type"
    ELSEWHERE = "elsewhere"
    TOO_DEEP = "too_deep"
    TOO_MANY = "too_many"
    METHOD = "method"
    NO_NAME = "no_name"
    MALFORMED = "malformed"
    REFUSED = "refused"
    AUTH = "auth"


@dataclass(frozen=True, slots=True)
class Omission:
    """What was left out: of which operation, why, and what of it."""

    subject: str
    why: LeftOut
    what: str = ""


@dataclass(slots=True)
class Imported:
    """What a description says: where the service is, who asks, its operations, what is missing."""

    url: str | None = None
    auth: dict[str, str] | None = None
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)
    omitted: list[Omission] = field(default_factory=list)


class _Unusable(Exception):
    """A part that cannot be used."""

    def __init__(self, why: LeftOut, what: str = "") -> None:
        super().__init__(why)
        self.why, self.what = why, what


def read_description(spec: object) -> Imported:
    """Read a description; refuse one that is no OpenAPI 3."""
    if not isinstance(spec, dict) or not str(spec.get("openapi", "")).startswith("3."):
        found = spec.get("swagger") or spec.get("openapi") if isinstance(spec, dict) else None
        raise Invalid(code="not_openapi", path="openapi", facts={"found": str(found or "none")})
    made = Imported(url=_url_of(spec))
    made.auth = _auth_of(spec, made)
    for method, path, shared, operation in _operations(spec, made):
        subject = f"{method.upper()} {path}"[:200]
        if len(made.operations) >= OPERATIONS_MAX:
            made.omitted.append(Omission(subject, LeftOut.TOO_MANY, str(OPERATIONS_MAX)))
            continue
        try:
            name = _unique(_name_of(operation, method, path), made.operations)
            made.operations[name] = _read(spec, made, method, path, shared, operation)
        except _Unusable as error:
            made.omitted.append(Omission(subject, error.why, error.what))
    return made


def snake(text: str, taken: frozenset[str] = TAKEN) -> str:
    """Write a name as scripts do; "" if nothing of it can be."""
    words = [each.lower() for each in WORDS.findall(text)]
    while words and words[0].isdigit():
        words.pop(0)
    name = "_".join(words)[:NAME_CHARS_MAX].rstrip("_")
    return f"{name}_value" if iskeyword(name) or name in taken else name


def _operations(
    spec: dict[str, Any], made: Imported
) -> Iterator[tuple[str, str, list[Any], dict[str, Any]]]:
    paths = spec.get("paths")
    if not isinstance(paths, dict):
        return
    for number, (path, item) in enumerate(paths.items()):
        if number >= PATHS_MAX:
            made.omitted.append(Omission("paths", LeftOut.TOO_MANY, str(PATHS_MAX)))
            return
        try:
            found = _resolve(spec, item)
        except _Unusable as error:
            made.omitted.append(Omission(str(path)[:200], error.why, error.what))
            continue
        if not isinstance(found, dict) or not isinstance(path, str):
            made.omitted.append(Omission(str(path)[:200], LeftOut.MALFORMED))
            continue
        shared = found.get("parameters")
        for method, operation in found.items():
            if method in ("options", "trace"):
                made.omitted.append(Omission(f"{method.upper()} {path}"[:200], LeftOut.METHOD))
            elif method in (*READS, *CHANGES) and isinstance(operation, dict):
                yield method, path, shared if isinstance(shared, list) else [], operation


def _read(
    spec: dict[str, Any],
    made: Imported,
    method: str,
    path: str,
    shared: list[Any],
    operation: dict[str, Any],
) -> dict[str, Any]:
    """Read one operation as a table of the settings."""
    is_change = method in CHANGES
    table: dict[str, Any] = {"does": _does(operation, method, path), "method": method.upper()}
    arguments: dict[str, str] = {}
    query: dict[str, str] = {}
    holes: dict[str, str] = {}
    key: Any = "none"
    for parameter in _parameters(spec, shared, operation):
        place, name = parameter.get("in"), str(parameter.get("name", ""))
        is_needed = parameter.get("required") is True or place == "path"
        if place == "header" and name.lower() in KEY_HEADERS:
            key = {"header": name}
        elif place in ("header", "cookie"):
            if is_needed and name.lower() not in ("accept", "content-type", "authorization"):
                raise _Unusable(LeftOut.COOKIE if place == "cookie" else LeftOut.HEADER, name[:100])
        elif place in ("path", "query"):
            own = _argument(arguments, name, _type_of(spec, parameter.get("schema")), is_needed)
            (holes if place == "path" else query)[name] = own
    table["path"] = _template(path, holes)
    if path.rstrip("/").endswith("}") and method == "get":
        table["kind"] = "read_by_id"
    body = _body(spec, operation, arguments, table) if is_change else None
    if arguments:
        table["arguments"] = arguments
    if query and (is_change or any(name != own for name, own in query.items())):
        table["query"] = {name: f"{{{own}}}" for name, own in query.items()}
    if body is not None:
        table["body"] = body
    if is_change:
        table["key"] = key
    if (returns := _returns(spec, operation)) is not None and method != "head":
        table["returns"] = returns
    return table


def _parameters(
    spec: dict[str, Any], shared: list[Any], operation: dict[str, Any]
) -> list[dict[str, Any]]:
    own = operation.get("parameters")
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for each in (*shared, *(own if isinstance(own, list) else [])):
        parameter = _resolve(spec, each)
        if not isinstance(parameter, dict):
            raise _Unusable(LeftOut.MALFORMED, "parameters")
        found[str(parameter.get("in")), str(parameter.get("name"))] = parameter
    if len(found) > ARGUMENTS_MAX:
        raise _Unusable(LeftOut.TOO_MANY, str(ARGUMENTS_MAX))
    return list(found.values())


def _body(
    spec: dict[str, Any],
    operation: dict[str, Any],
    arguments: dict[str, str],
    table: dict[str, Any],
) -> Any:
    """Read the body of a change: its fields are arguments, or all of it is one."""
    body = _resolve(spec, operation.get("requestBody"))
    content = body.get("content") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(content, dict) or not content:
        return None
    kind = next((each for each in content if JSON_TYPE.match(str(each))), None)
    if kind is None and FORM in content:
        kind, table["form"] = FORM, True
    if kind is None:
        raise _Unusable(LeftOut.BODY_TYPE, ", ".join(map(str, content))[:100])
    media = content[kind]
    schema = _schema(spec, media.get("schema") if isinstance(media, dict) else None)
    properties, required = _properties(spec, schema)
    if not properties:
        own = _argument(arguments, "body", _type_of(spec, schema), body.get("required") is True)
        return f"{{{own}}}"
    template = {}
    for name, each in properties.items():
        if isinstance(each, dict) and each.get("readOnly") is True:
            continue
        is_needed = name in required and body.get("required") is not False
        template[name] = f"{{{_argument(arguments, name, _type_of(spec, each), is_needed)}}}"
    return template


def _properties(spec: dict[str, Any], schema: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the fields of an object, also of one that is made of several (allOf)."""
    properties: dict[str, Any] = {}
    required: list[Any] = []
    if not isinstance(schema, dict):
        return properties, required
    parts = schema.get("allOf")
    for part in parts[:REFERENCES_MAX] if isinstance(parts, list) else ():
        found = _schema(spec, part)
        if isinstance(found, dict) and isinstance(found.get("properties"), dict):
            properties.update(found["properties"])
            required += found["required"] if isinstance(found.get("required"), list) else []
    if isinstance(schema.get("properties"), dict):
        properties.update(schema["properties"])
        required += schema["required"] if isinstance(schema.get("required"), list) else []
    return {str(name): each for name, each in properties.items()}, required


def _returns(spec: dict[str, Any], operation: dict[str, Any]) -> Any:
    """Return the shape of what is answered, where it is said."""
    responses = operation.get("responses")
    if not isinstance(responses, dict):
        return None
    good = next((responses[each] for each in responses if str(each).startswith("2")), None)
    try:
        response = _resolve(spec, good)
        content = response.get("content") if isinstance(response, dict) else None
        kinds = content if isinstance(content, dict) else {}
        media = next((kinds[each] for each in kinds if JSON_TYPE.match(str(each))), None)
        schema = _schema(spec, media.get("schema") if isinstance(media, dict) else None)
        properties, required = _properties(spec, schema)
        names = [name for name in properties if name.isidentifier() and not iskeyword(name)]
        if properties and len(names) == len(properties) <= FIELDS_MAX:
            return {
                name: _type_of(spec, each) + ("" if name in required else "?")
                for name, each in properties.items()
            }
        word = _type_of(spec, schema)
    except _Unusable:
        return None  # what is answered need not be known
    return None if word == "any" else word


# -- Names, types, references -------------------------------------------------------------------


def _argument(arguments: dict[str, str], name: str, kind: str, is_needed: bool) -> str:
    own = snake(name)
    if not own:
        raise _Unusable(LeftOut.NO_NAME, name[:100])
    if len(arguments) >= ARGUMENTS_MAX:  # before a name is sought among thousands that look alike
        raise _Unusable(LeftOut.TOO_MANY, str(ARGUMENTS_MAX))
    own = _unique(own, arguments)
    arguments[own] = kind if is_needed else f"{kind}?"
    return own


def _unique(name: str, known: Mapping[str, Any]) -> str:
    number, found = 1, name
    while found in known:
        number += 1
        found = f"{name}_{number}"
    return found


def _name_of(operation: dict[str, Any], method: str, path: str) -> str:
    said = operation.get("operationId")
    made = snake(str(said)) if isinstance(said, str) else ""
    spelled = HOLE.sub(r"by \1", path)
    made = made or snake(f"{method} {spelled}")
    if not made:
        raise _Unusable(LeftOut.NO_NAME, str(said or path)[:100])
    return made


def _does(operation: dict[str, Any], method: str, path: str) -> str:
    told = operation.get("summary") or operation.get("description") or ""
    line = " ".join(str(told).split())[:DOES_CHARS_MAX]
    shown = "".join(each for each in line if each.isprintable())
    return shown or f"{method.upper()} {path}"


def _template(path: str, holes: Mapping[str, str]) -> str:
    def name(found: re.Match[str]) -> str:
        if found[1] not in holes:
            raise _Unusable(LeftOut.MALFORMED, found[0][:100])
        return f"{{{holes[found[1]]}}}"

    if {".", ".."} & {*path.split("/")}:
        raise _Unusable(LeftOut.MALFORMED, path[:100])
    return HOLE.sub(name, path)


def _type_of(spec: dict[str, Any], schema: Any) -> str:
    """Return the word of the settings for a type; `any` where there is none, or several."""
    found = _schema(spec, schema)
    if not isinstance(found, dict):
        return "any"
    kind = found.get("type")
    if isinstance(kind, list):  # 3.1: a list of types
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 and len(kind) == 1 else None
    if kind is None and isinstance(found.get("properties"), dict):
        kind = "object"
    if found.get("nullable") is True:
        return "any"
    return TYPES.get(str(kind), "any")


def _schema(spec: dict[str, Any], schema: Any) -> Any:
    """Follow a reference of a type; one that leads nowhere is any type."""
    try:
        return _resolve(spec, schema)
    except _Unusable as error:
        if error.why is LeftOut.ELSEWHERE:
            raise
        return None


def _resolve(spec: dict[str, Any], value: Any) -> Any:
    """Follow references within the description, so many at most (law 1)."""
    for _ in range(REFERENCES_MAX):
        if not isinstance(value, dict) or "$ref" not in value:
            return value
        reference = value["$ref"]
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise _Unusable(LeftOut.ELSEWHERE, str(reference)[:100])
        value = spec
        for part in reference[2:].split("/"):
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if not isinstance(value, dict) or name not in value:
                raise _Unusable(LeftOut.MALFORMED, reference[:100])
            value = value[name]
    raise _Unusable(LeftOut.TOO_DEEP, str(value.get("$ref", ""))[:100])


def _url_of(spec: dict[str, Any]) -> str | None:
    servers = spec.get("servers")
    first = servers[0] if isinstance(servers, list) and servers else None
    url = first.get("url") if isinstance(first, dict) else None
    if not isinstance(url, str):
        return None
    variables = first.get("variables") if isinstance(first, dict) else None
    known = variables if isinstance(variables, dict) else {}

    def default(found: re.Match[str]) -> str:
        each = known.get(found[1])
        return str(each.get("default", found[0])) if isinstance(each, dict) else found[0]

    filled = HOLE.sub(default, url).rstrip("/")
    is_whole = filled.startswith(("https://", "http://")) and "{" not in filled
    return filled if is_whole else None


def _auth_of(spec: dict[str, Any], made: Imported) -> dict[str, str] | None:
    """Return the first way to say who asks that an `http` connector knows."""
    components = spec.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    for name, each in schemes.items() if isinstance(schemes, dict) else ():
        try:
            scheme = _resolve(spec, each)
        except _Unusable:
            scheme = None
        kind = scheme.get("type") if isinstance(scheme, dict) else None
        word = str(scheme.get("scheme", "")).lower() if isinstance(scheme, dict) else ""
        if kind == "http" and word in ("bearer", "basic"):
            return {"type": word}
        if kind in ("oauth2", "openIdConnect"):
            return {"type": "bearer"}
        if (
            kind == "apiKey"
            and isinstance(scheme, dict)
            and scheme.get("in")
            in (
                "header",
                "query",
            )
        ):
            return {"type": str(scheme["in"]), "name": str(scheme.get("name", ""))[:100]}
        made.omitted.append(Omission(str(name)[:100], LeftOut.AUTH, f"{kind} {word}".strip()[:100]))
    return None
