"""The description of the HTTP interface, OpenAPI 3.1, made from the registry's types.

Law: nothing is described by hand: a verb is in it as its method declares it, and its docstring says
what it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duly import __version__
from duly.api.codec import describe
from duly.api.registry import Verb
from duly.faces.web.problem import MEDIA_TYPE
from duly.faces.web.verb import API

PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "title": "Problem",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "subject": {"type": "string"},
        "facts": {"type": "object"},
        "next": {"anyOf": [{"type": "object"}, {"type": "null"}]},
    },
}
REFUSED: Final = {
    "description": "A problem: its code says what is wrong.",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def describe_api(verbs: Mapping[str, Verb]) -> dict[str, Any]:
    """Describe every verb."""
    schemas, records = describe(verbs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Duly", "version": __version__},
        "security": [{"token": []}],
        "paths": {
            f"{API}{name}": _path(verb, *schemas[name], records) for name, verb in verbs.items()
        },
        "components": {
            "schemas": {**records, "Problem": PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _path(verb: Verb, takes: Any, returns: Any, records: Mapping[str, Any]) -> dict[str, Any]:
    summary, _, rest = verb.doc.partition("\n")
    common = {
        "summary": summary,
        "description": rest.strip() or summary,
        "tags": ["bus" if "." in verb.name else "host"],
        "x-scope": str(verb.scope),
        "responses": {
            "200": {
                "description": "The result.",
                "content": {"application/json": {"schema": returns}},
            },
            "default": REFUSED,
        },
    }
    content = {"application/json": {"schema": takes, "example": dict(verb.example)}}
    is_needed = any(each.is_required for each in verb.parameters)
    post = {
        **common,
        "operationId": verb.name if not verb.is_question else f"{verb.name}.post",
        "requestBody": {"required": is_needed, "content": content},
    }
    if not verb.is_question:
        return {"post": post}
    return {
        "get": {
            **common,
            "operationId": verb.name,
            "parameters": _parameters(verb, takes, records),
        },
        "post": post,
    }


def _parameters(verb: Verb, takes: Any, records: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Describe the arguments of a question; what is no text is JSON in the query."""
    struct = records[takes["$ref"].rpartition("/")[2]]
    properties = struct["properties"]
    return [
        {
            "name": each.name,
            "in": "query",
            "required": each.is_required,
            **_shape(properties[each.name]),
        }
        for each in verb.parameters
    ]


def _shape(schema: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {schema.get("type")} | {each.get("type") for each in schema.get("anyOf", ())}
    if kinds <= {"string", "integer", "number", "boolean", "null", None} and "$ref" not in schema:
        return {"schema": schema}
    return {"content": {"application/json": {"schema": schema}}}
