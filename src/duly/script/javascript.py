"""Reads a JavaScript workflow into an outline; runs nothing.

The declaration is the call `Keep.workflow({…})` (or `Duly.workflow`), its handlers are functions,
objects or `Keep.consumer({…})`, written in place or kept in constants of the module.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tree_sitter import Language as Grammar
from tree_sitter import Node as Tree
from tree_sitter import Parser
from tree_sitter_javascript import language

from duly.rules.access import Step
from duly.rules.source import Language, Source
from duly.script.finding import Finding, Severity, found
from duly.script.hidden_javascript import find_hidden
from duly.script.javascript_flow import HANDED_ON, JavaScriptFlow
from duly.script.javascript_name import (
    FUNCTIONS,
    JavaScriptNames,
    bare,
    entries,
    everything,
    everything_inside,
    inside,
    part,
    words,
)
from duly.script.outline import (
    CTX,
    PREPARED,
    Function,
    Handler,
    NameScope,
    Outline,
    Place,
    Text,
    Value,
)

STEPS: Final = (Step.PREPARE, Step.MUTATE, Step.NEXT)
OURS: Final = ("Keep", "Duly")

# Names that authors expect and the interpreter lacks, and what to use instead.
_OUTSIDE: Final = "Reach the outside through a tool of ctx."
_WAIT: Final = "Return wakeAt from prepare to be woken later."
LACKING: Final[Mapping[str, str]] = {
    "fetch": _OUTSIDE,
    "XMLHttpRequest": _OUTSIDE,
    "WebSocket": _OUTSIDE,
    "axios": _OUTSIDE,
    "require": "A workflow is one file; write what you need into it.",
    "process": "Settings and secrets belong to the host's connectors.",
    "localStorage": "Return state from the handler.",
    "setTimeout": _WAIT,
    "setInterval": "Give the producer a schedule.",
    "Buffer": "Use atob and btoa.",
    "URL": "Take the text apart with a regular expression.",
    "URLSearchParams": "Use encodeURIComponent.",
    "TextEncoder": "Work with strings.",
    "TextDecoder": "Work with strings.",
    "Intl": "Write the format yourself.",
    "crypto": "Take an id the outside gave, or put one together from its fields.",
    "structuredClone": "Use JSON.parse(JSON.stringify(value)).",
}


def parse(source: Source) -> Tree:
    """Parse a text; where it is wrong the tree has error nodes."""
    return Parser(Grammar(language())).parse(source.text.encode()).root_node


def syntax(source: Source) -> list[Finding]:
    """Find where a text is not JavaScript; only the first place is worth naming."""
    text = Text(source.text)
    root = parse(source)
    for node in everything(root) if root.has_error else ():
        if node.is_error or node.is_missing:
            place = text.place(node.start_point[0], node.start_point[1])
            what = f"{node.type} is missing" if node.is_missing else "this is not JavaScript"
            return [
                found(
                    "syntax",
                    place.line,
                    place.column,
                    f"The text cannot be read: {what}.",
                    "Look for a bracket or a quote that is left open.",
                    file=source.name,
                )
            ]
    return []


def read(source: Source) -> Outline:
    """Read a source whose syntax is known to be right."""
    return _read(source).outline


def read_steps(source: Source) -> tuple[Outline, list[tuple[Step, Tree]]]:
    """Read a source, and list the functions it is entered by, each with its step."""
    reader = _read(source)
    return reader.outline, reader.entered


def _read(source: Source) -> _Reader:
    outline = Outline(Language.JAVASCRIPT, source.name)
    root = parse(source)
    survey = _survey(root)
    names = JavaScriptNames(Text(source.text), outline.effort)
    reader = _Reader(outline, JavaScriptFlow(outline, names, survey.handed_on), survey)
    reader.read(root)
    return reader


@dataclass(slots=True)
class _Survey:
    """What is looked for in the whole text, found in one pass over it."""

    workflows: list[Tree] = field(default_factory=list)
    imports: list[Tree] = field(default_factory=list)
    suspects: list[tuple[Tree, str]] = field(default_factory=list)  # names that may be lacking
    declared: set[str] = field(default_factory=set)
    handed_on: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


def _survey(root: Tree) -> _Survey:
    survey = _Survey()
    for node, around in everything_inside(root):
        kind = node.type
        if kind == "identifier":
            name = words(node)
            if name in LACKING:
                survey.suspects.append((node, name))
            if _is_declared(node, around):
                survey.declared.add(name)
            if around.type in HANDED_ON:
                survey.handed_on[name].append(node.start_byte)
        elif kind == "shorthand_property_identifier":
            survey.handed_on[words(node)].append(node.start_byte)
        elif kind == "call_expression" and _is_ours(node, "workflow"):
            survey.workflows.append(node)
        elif kind in ("import_statement", "import") and around.type != "import_statement":
            survey.imports.append(node)
    return survey


@dataclass(slots=True)
class _Reader:
    outline: Outline
    flows: JavaScriptFlow
    survey: _Survey
    entered: list[tuple[Step, Tree]] = field(default_factory=list)
    module: NameScope = field(default_factory=lambda: NameScope(Function(Place(1, 1)), ""))

    @property
    def names(self) -> JavaScriptNames:
        return self.flows.names

    def read(self, root: Tree) -> None:
        """Learn every name of the module first, then the workflow and its handlers."""
        for node in inside(root):
            self.names.define(node)
        self.flows.constants.read(root, self.outline.effort)
        self.outline.variables = frozenset(self.names.variables)
        for node in self.survey.workflows:
            self.outline.has_workflow = True
            self.read_workflow(self.first_argument(node))
        hidden = find_hidden(root, self.flows.followed, self.outline.effort)
        self.outline.hidden += [self.names.place(each) for each in hidden]
        self.find_lacking()

    def read_workflow(self, node: Tree | None) -> None:
        given = entries(node)
        if "topics" in given:
            self.outline.topics = self.names_in(given["topics"])
            options = self.names.value(given["topics"], self.module).fields or {}
            closed = [name for name, each in options.items() if each.fields == {}]
            self.outline.ingress = frozenset(options) - frozenset(closed)
        for name, each in self.handlers(given.get("producers")):
            fields = entries(each)
            step = each if each.type in FUNCTIONS else self.resolve(fields.get("handler"))
            self.enter(name, each, {Step.PRODUCE: step}, fields)
        for name, each in self.handlers(given.get("consumers")):
            is_wrapped = each.type == "call_expression" and _is_ours(each, "consumer")
            fields = entries(self.first_argument(each) if is_wrapped else each)
            steps = {step: self.resolve(fields.get(step)) for step in STEPS}
            self.enter(name, each, steps, fields)

    def handlers(self, node: Tree | None) -> Iterator[tuple[str, Tree]]:
        for name, each in entries(self.resolve(node)).items():
            if (known := self.resolve(each)) is not None:
                yield name, known

    def enter(
        self, name: str, node: Tree, steps: Mapping[Step, Tree | None], fields: Mapping[str, Tree]
    ) -> None:
        keys = {
            step: self.flows.function(each, {0: CTX}, name, self.module, self.given(step, each))
            for step, each in steps.items()
            if each is not None and each.type in FUNCTIONS
        }
        self.entered += [
            (step, each)
            for step, each in steps.items()
            if each is not None and each.type in FUNCTIONS
        ]
        subscribe = self.names_in(fields["subscribe"]) if "subscribe" in fields else None
        publishes = self.names_in(fields["publishes"]) if "publishes" in fields else None
        place = self.names.place(fields.get("subscribe", node))
        schedule = entries(self.resolve(fields.get("schedule")))
        is_daily = "cron" in schedule and "onDeploy" not in schedule
        self.outline.handlers.append(Handler(name, place, keys, subscribe, publishes, is_daily))

    def given(self, step: Step, node: Tree) -> Mapping[int, Value]:
        """Return the values a step gets besides ctx, as far as they are followed."""
        prepared = Value(self.names.place(node), origin=(PREPARED,))
        return {1: prepared} if step in (Step.MUTATE, Step.NEXT) else {}

    def first_argument(self, call: Tree) -> Tree | None:
        given = inside(call.child_by_field_name("arguments"))
        return self.resolve(given[0]) if given else None

    def resolve(self, node: Tree | None) -> Tree | None:
        """Follow a name to the function or the value it stands for."""
        node = bare(node)
        if node is not None and node.type in ("identifier", "shorthand_property_identifier"):
            name = words(node)
            return self.names.definitions.get(name) or self.names.variables.get(name) or node
        return node

    def names_in(self, node: Tree) -> tuple[str, ...] | None:
        """Read a list or an object of names; one that is not written out leaves it open."""
        value = self.names.value(node, self.module)
        if value.is_open or (value.items is None and value.fields is None):
            return None
        texts = [each.text for each in value.items or ()] + list(value.fields or ())
        return None if None in texts else tuple(text for text in texts if text is not None)

    def find_lacking(self) -> None:
        """Find what the interpreter does not have, unless the text declares it itself."""
        for node in self.survey.imports:
            self.lack(node, "import", "A workflow is one file; write what you need into it.")
        for node, name in self.survey.suspects:
            if name not in self.survey.declared:
                self.lack(node, name, LACKING[name])

    def lack(self, node: Tree, name: str, advice: str) -> None:
        place = self.names.place(node)
        # A missing module fails the load; a missing name fails only when its line runs.
        severity = Severity.REFUSES if node.type == "import_statement" else Severity.WARNS
        self.outline.findings.append(
            found(
                "lacking",
                place.line,
                place.column,
                f"There is no {name} here.",
                advice,
                file=self.outline.file,
                severity=severity,
            )
        )


def _is_ours(call: Tree, name: str) -> bool:
    callee = part(call, "function")
    return words(callee) in {f"{each}.{name}" for each in OURS}


def _is_declared(node: Tree, around: Tree) -> bool:
    if around.type in ("formal_parameters", "rest_pattern", "pair_pattern"):
        return True
    named = around.child_by_field_name("name") or around.child_by_field_name("parameter")
    return named is not None and named.id == node.id
