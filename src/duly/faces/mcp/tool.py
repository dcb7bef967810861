"""The tools of the MCP server, made from the registry of verbs (M5, U6).

Law 1  A tool is a row here and a verb of the registry: its arguments, their types and what it does
       are read off the verb. The order is that of the table, the same in every answer.
Law 2  What only a person decides is never done through a tool, in any scope: all that needs the
       scope admin, and all that needs the scope decide but what its verb marks `for_agents`.
Law 3  No argument names who acts, and none lets a source read what a person did not grant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec

from duly.api.registry import Registry, Scope, Verb
from duly.errors import NotFound, short

ROWS_MAX: Final = 50
OFFSET: Final = "offset"  # where a long text goes on
REFERENCE: Final = "#/$defs/{name}"


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One tool: the verb it calls, and what of the verb's arguments it leaves out.

    `more` are verbs whose answers come along. `link` is the path of its page. `is_text` says that
    the verb returns one long text, which is handed out in parts.
    """

    name: str
    verb: str
    link: str = "/"
    left_out: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    is_text: bool = False


ROWS: Final = (
    ToolRow("guide", "guide", is_text=True),
    ToolRow("status", "workflows", more=("attention_count", "next_due")),
    ToolRow("attention", "attention"),
    ToolRow("why", "why", "/why/{id}"),
    ToolRow("inputs", "inputs", "/w/{workflow}"),
    ToolRow("outputs", "outputs", "/w/{workflow}/outputs"),
    ToolRow("runs", "runs", "/w/{workflow}/runs"),
    ToolRow("run", "run", "/runs/{id}", more=("logs", "history")),
    ToolRow("find", "find", "/find?text={text}"),
    ToolRow("tools", "tools", "/tools"),
    ToolRow("source", "source", "/w/{workflow}/versions", is_text=True),
    ToolRow("versions", "versions", "/w/{workflow}/versions"),
    ToolRow("check", "check"),
    ToolRow("try", "try_", left_out=("grant",)),
    ToolRow("what_if", "what_if", "/w/{workflow}/versions"),
    ToolRow("simulate", "simulate"),
    ToolRow("wait", "wait"),
    ToolRow("deploy", "propose"),
    ToolRow("publish", "publish", "/w/{workflow}"),
)
ACT: Final = "act"
ACT_DOC: Final = (
    "Carry out any other verb of the host by its name, with its arguments, as far as your scope "
    "goes: pause, resume, run_now, retry, mutation, mutations, logs, diff, proposals, bus.journal "
    "and so on. What only a person decides is answered with the page and the command for them."
)
ACT_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "verb": {"type": "string", "description": "the name of the verb"},
        "args": {"type": "object", "description": "its arguments by name", "default": {}},
    },
    "required": ["verb"],
    "additionalProperties": False,
}
# What is of no use to an agent, or would have it wait without a limit.
CLOSED: Final = frozenset({"admitted", "receive", "sign_in", "sign_out", "wait", "who"})
DOCS: Final[Mapping[str, str]] = {
    "deploy": (
        "Propose a source: it is checked and kept for a person, who adopts it by its hash. Nothing "
        "is changed or granted. Check and try it first; `note` says why, for the person."
    ),
    "status": "See how everything stands: the workflows, how much waits for a person, what comes.",
}


@dataclass(frozen=True, slots=True)
class Described:
    """A tool as an agent sees it."""

    name: str
    doc: str
    schema: Mapping[str, Any]
    is_question: bool
    scope: Scope


class Tools:
    """The tools over the verbs of one host."""

    def __init__(self, verbs: Registry) -> None:
        self.verbs = verbs
        self._rows = {row.name: row for row in ROWS}

    def find(self, name: str) -> ToolRow:
        """Return the row of a tool."""
        if name not in self._rows:
            raise NotFound(code="no_tool", subject=short(name))
        return self._rows[name]

    @cache  # noqa: B019  # one object for each host that is served
    def list_all(self, scope: Scope) -> tuple[Described, ...]:
        """List the tools that a scope covers, in their order."""
        made = (self._describe(row) for row in ROWS)
        act = Described(ACT, ACT_DOC, ACT_SCHEMA, False, Scope.READ)
        return tuple(each for each in (*made, act) if scope.covers(each.scope))

    def _describe(self, row: ToolRow) -> Described:
        verb = self.verbs[row.verb]
        doc = DOCS.get(row.name) or verb.doc
        return Described(row.name, doc, _schema(verb, row), verb.is_question, verb.scope)


def _schema(verb: Verb, row: ToolRow) -> dict[str, Any]:
    """Write the schema of a tool's arguments: the verb's, without what is left out."""
    (made,), components = msgspec.json.schema_components([verb.takes], ref_template=REFERENCE)
    own = components.pop(made["$ref"].rpartition("/")[2])
    hidden = {*row.left_out, "limit"}
    properties = {name: each for name, each in own["properties"].items() if name not in hidden}
    if row.is_text:
        properties[OFFSET] = {"type": "integer", "minimum": 0, "default": 0}
    required = [name for name in own.get("required", ()) if name in properties]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {**schema, "$defs": components} if components else schema
