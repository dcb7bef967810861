"""`duly tools`: what scripts of this project may call, and what each call needs (A1).

Law: it says what the connectors of duly.toml offer, in the spelling of both languages; no store is
made for it and nothing outside is asked. A store that is there is asked what was proven (K10).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from duly.api.text import visible
from duly.faces.cli.base import Face, echo_json, json_option, pass_face, run, say, table
from duly.faces.cli.check import paint

if TYPE_CHECKING:
    from duly.api.tools import Registry, Tool


@click.command()
@click.argument("name", required=False)
@click.option(
    "--stubs",
    type=click.Choice(["python", "javascript"]),
    help="Print the types for an editor: a .pyi, or a .d.ts.",
)
@json_option
@pass_face
def tools(face: Face, name: str | None, stubs: str | None) -> None:
    """List what scripts may call; NAME is a tool or a connector.

    \b
    Examples:
      duly tools files.write
      duly tools --stubs javascript > workflows/duly.d.ts
    """
    from duly.api.tools import find_tools

    run(face.look())
    registry = find_tools(face.project)
    if stubs:
        from duly.api.tools import javascript_types, python_stubs

        write = python_stubs if stubs == "python" else javascript_types
        click.echo(write(registry.catalog), nl=False)
        return
    found = _choose(registry, name)
    if face.is_json:
        echo_json([_record(registry, each) for each in found])
    elif name is None:
        _list(registry, found)
    else:
        proven = _find_proven(face, found)
        for each in found:
            _explain(registry, each, proven)


def _find_proven(face: Face, found: list[Tool]) -> dict[str, str]:
    """Ask the store what was proven with the account, if there is one and it answers (K10)."""
    from contextlib import suppress

    from duly.errors import DulyError

    proven: dict[str, str] = {}
    if any(each.proof == "trial" for each in found) and face.project.has_store:
        with suppress(DulyError):
            answer: Any = face.call("connections")
            for tool in (each for connection in answer for each in connection["tools"]):
                if tool["answering"]["proven_at"] is not None:
                    proven[tool["tool"]] = tool["answering"]["proof_text"]
    return proven


def _choose(registry: Registry, name: str | None) -> list[Tool]:
    """Take all, those of a connector, or one; for an unknown name the nearest is given."""
    from duly.api.value import nearest
    from duly.errors import NotFound

    known = sorted(registry.catalog.tools, key=lambda each: each.name)
    if name is None:
        return known
    tool = registry.catalog.names.get(name)
    chosen = [each for each in known if each is tool or each.name.partition(".")[0] == name]
    if not chosen:
        names = [*(each.name for each in known), *registry.connectors]
        raise NotFound(code="no_tool", subject=name, facts=nearest(name, names))
    return chosen


def _list(registry: Registry, found: list[Tool]) -> None:
    if not found:
        say("This project has no connectors. Add one to duly.toml: [connectors.files].")
        return
    rows = [
        (each.name, each.kind, each.risk, _first_line(registry.describe(each.name)))
        for each in found
    ]
    table(rows, ("tool", "kind", "risk", "what it does"))


def _explain(registry: Registry, tool: Tool, proven: Mapping[str, str]) -> None:
    from duly.api.tools import camel, in_python
    from duly.api.tools import in_javascript as in_words

    takes = ", ".join(in_python(each) for each in tool.parameters)
    names = ", ".join(
        f"{camel(each.name)}{'' if each.required else '?'}" for each in tool.parameters
    )
    given = f"{{ {names} }}" if names else ""
    click.echo(paint(visible(tool.name), bold=True))
    if told := registry.describe(tool.name):
        click.echo(visible(told, is_block=True))
    rows = [
        ("Python", f"await ctx.{tool.name}({takes})"),
        ("JavaScript", f"await ctx.{camel(tool.name)}({given})"),
        *([("answers", in_words(tool.result))] if tool.result is not None else []),
        ("kind", tool.kind),
        ("capability", tool.capability),
        ("risk", tool.risk),
        *_terms(tool, proven.get(tool.name)),
    ]
    for word, value in rows:
        say(f"{word + ':':<13}{value}", indent=2)
    click.echo()


def _terms(tool: Tool, proven: str | None) -> list[tuple[str, str]]:
    """Say how an unknown outcome of a mutation is settled (L5, L7)."""
    from duly.api.tools import ToolKind

    if tool.kind is not ToolKind.MUTATION:
        return []
    from duly.words.asking import say_asked, say_key, say_proof

    assert tool.asked is not None, tool
    asked = [("key", say_key(tool.key_in)), ("can answer", say_asked(tool.asked, tool.lag_s))]
    if proof := proven or say_proof(tool.proof, None, None):
        asked.append(("proof", proof))
    if tool.idempotent:
        return [*asked, ("if unclear", "sent again; the outside makes it once")]
    if tool.reconciles:
        return [*asked, ("if unclear", "the outside is asked whether it happened")]
    return [*asked, ("if unclear", "a person is asked")]


def _record(registry: Registry, tool: Tool) -> dict[str, Any]:
    from duly.api.codec import to_json

    record = to_json(tool)
    assert isinstance(record, dict)
    return {**record, "doc": registry.describe(tool.name)}


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
