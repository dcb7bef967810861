"""The page of verbs, made from the registry: what each does, what it takes, and who may call it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from duly.api.codec import describe
from duly.api.registry import Parameter, Registry, Verb

HEAD = """# Every verb

A host can be asked and told these things. Each is a method of a [host](reference.md#a-host),
a command of [the command line](command-line.md), a request of [the control socket](control.md)
and an address of [HTTP](http.md). This page is written from the registry when the site is built.
"""


def write_verbs() -> str:
    """Write the page as Markdown."""
    registry = Registry()
    verbs = [registry[name] for name in sorted(registry)]
    schemas, _ = describe({each.name: each for each in verbs})
    parts = [HEAD]
    for heading, is_question in (("Questions", True), ("Acts", False)):
        parts.append(f"## {heading}\n")
        for verb in verbs:
            if verb.is_question is is_question:
                parts += _verb(verb, schemas[verb.name][1])
    return "\n".join(parts)


def _verb(verb: Verb, returns: object) -> Iterator[str]:
    yield f"### {verb.name}\n"
    yield f"{_spelled(verb.doc)}\n"
    address = f"`{'GET' if verb.is_question else 'POST'} /api/v1/{verb.name}`"
    yield f"Scope `{verb.scope}` · {address} · returns {_kind(returns)}\n"
    if verb.parameters:
        yield "| argument | kind | default |\n|---|---|---|"
        yield from (_row(each) for each in verb.parameters)
        yield ""


def _spelled(text: str) -> str:
    return " ".join(text.split()).replace("<", r"\<").replace("*", r"\*").replace("_", r"\_")


def _row(each: Parameter) -> str:
    kind = ", ".join(f"`{word}`" for word in each.words) or f"`{_name(each.kind)}`"
    default = "needed" if each.is_required else f"`{_json(each.default)}`"
    return f"| `{each.name}` | {kind} | {default} |".replace(" | None", "")


def _json(value: object) -> str:
    return json.dumps(value, default=str)


def _name(kind: object) -> str:
    return (getattr(kind, "__name__", None) or str(kind)).replace("typing.", "").replace("|", "or")


def _kind(schema: object) -> str:
    if not isinstance(schema, dict):
        return "JSON"
    if "$ref" in schema:
        return f"`{str(schema['$ref']).rpartition('/')[2]}`"
    if schema.get("type") == "array":
        return f"a list of {_kind(schema.get('items'))}"
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    return {"null": "nothing", "object": "an object"}.get(
        str(schema.get("type")), f"`{schema.get('type', 'JSON')}`"
    )
