"""Reads a Python workflow into an outline; runs nothing.

Both forms are read: the decorators (`@flow.producer(…)`, `@flow.consumer(…)` on a class) and the
object form (`workflow(…, producers={…}, consumers={…})`). Names are followed as far as a reader of
the text would follow them: constants, aliases of `ctx`, functions of the module, methods of the
same class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from duly.rules.access import Step
from duly.rules.source import Language, Source
from duly.script.hidden_python import find_hidden
from duly.script.lacking import parse
from duly.script.outline import CTX, Function, Handler, NameScope, Outline, Place, Text
from duly.script.python_flow import PythonFlow
from duly.script.python_name import Definition, PythonNames, dotted, parameters_of

STEPS: Final = (Step.PREPARE, Step.MUTATE, Step.NEXT)


def read(source: Source) -> Outline:
    """Read a source whose syntax is known to be right."""
    return _read(source).outline


def read_steps(source: Source) -> tuple[Outline, list[tuple[Step, Definition]]]:
    """Read a source, and list the functions it is entered by, each with its step."""
    reader = _read(source)
    return reader.outline, reader.entered


def step_functions(source: Source) -> list[tuple[Step, Definition]]:
    """List the functions a workflow is entered by, each with its step."""
    return _read(source).entered


def _read(source: Source) -> _Reader:
    outline = Outline(Language.PYTHON, source.name)
    reader = _Reader(PythonFlow(outline, PythonNames(Text(source.text), outline.effort)))
    reader.read(parse(source.text))
    return reader


@dataclass(slots=True)
class _Reader:
    flows: PythonFlow
    entered: list[tuple[Step, Definition]] = field(default_factory=list)
    module: NameScope = field(default_factory=lambda: NameScope(Function(Place(1, 1)), ""))

    @property
    def outline(self) -> Outline:
        return self.flows.outline

    def read(self, tree: ast.Module) -> None:
        """Learn every name of the module first, then the workflow, then its handlers."""
        for node in tree.body:
            self.flows.names.define(node)
        self.flows.constants.read(tree, self.outline.effort)
        self.outline.variables = frozenset(self.flows.names.variables)
        for each in ast.walk(tree):
            if isinstance(each, ast.Call) and _is_ours(each.func, "workflow"):
                self.outline.has_workflow = True
                self.read_workflow(each)
        for node in tree.body:
            if isinstance(node, Definition | ast.ClassDef):
                self.read_decorated(node)
        hidden = find_hidden(tree, self.flows.followed, self.outline.effort)
        self.outline.hidden += [self.flows.names.place(each) for each in hidden]

    def read_workflow(self, call: ast.Call) -> None:
        given = {word.arg: word.value for word in call.keywords if word.arg}
        if "topics" in given:
            self.outline.topics = self.names_in(given["topics"])
        for name, node in self.entries(given.get("producers")):
            words = self.words_of(node, "producer")
            handler = node.args[0] if isinstance(node, ast.Call) and node.args else node
            steps = {Step.PRODUCE: words.get("handler", handler)}
            self.add_handler(name, node, steps, None, words.get("publishes"), _is_daily(words))
        for name, node in self.entries(given.get("consumers")):
            words = self.words_of(node, "consumer")
            steps = {step: words[step] for step in STEPS if step in words}
            subscribe = self.names_in(words["subscribe"]) if "subscribe" in words else None
            self.add_handler(name, node, steps, subscribe, words.get("publishes"))

    def words_of(self, node: ast.expr, name: str) -> dict[str, ast.expr]:
        if isinstance(node, ast.Call) and _is_ours(node.func, name):
            return {word.arg: word.value for word in node.keywords if word.arg}
        return dict(self.entries(node))

    def entries(self, node: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
        node = self.resolve(node)
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                text = None if key is None else self.text_of(key)
                if text is not None:
                    yield text, self.resolve(value) or value

    def text_of(self, node: ast.expr) -> str | None:
        return self.flows.names.value(node, self.module).text

    def resolve(self, node: ast.expr | None) -> ast.expr | None:
        if isinstance(node, ast.Name):
            return self.flows.names.variables.get(node.id) or node
        return node

    def names_in(self, node: ast.expr) -> tuple[str, ...] | None:
        """Read a list or an object of names; one that is not written out leaves it open."""
        value = self.flows.names.value(node, self.module)
        if value.is_open or (value.items is None and value.fields is None):
            return None
        texts = [each.text for each in value.items or ()] + list(value.fields or ())
        return None if None in texts else tuple(text for text in texts if text is not None)

    def add_handler(
        self,
        name: str,
        node: ast.AST,
        steps: Mapping[Step, ast.expr],
        subscribe: tuple[str, ...] | None,
        publishes: ast.expr | None,
        is_daily: bool = False,
    ) -> None:
        found = {
            step: self.flows.names.definitions[each.id]
            for step, each in steps.items()
            if isinstance(each, ast.Name) and each.id in self.flows.names.definitions
        }
        self.enter(name, node, found, subscribe, publishes, owner="", is_daily=is_daily)

    def enter(
        self,
        name: str,
        node: ast.AST,
        steps: Mapping[Step, Definition],
        subscribe: tuple[str, ...] | None,
        publishes: ast.expr | None,
        owner: str,
        is_daily: bool = False,
    ) -> None:
        keys = {}
        for step, definition in steps.items():
            self.entered.append((step, definition))
            parameters = parameters_of(definition, is_method=bool(owner))
            aliases = {parameters[0]: CTX} if parameters else {}
            if not aliases:  # it gets ctx under no name of its own
                self.outline.hidden.append(self.flows.names.place(definition))
            keys[step] = self.flows.function(definition, aliases, owner, self.module)
        allowed = None if publishes is None else self.names_in(publishes)
        self.outline.handlers.append(
            Handler(name, self.flows.names.place(node), keys, subscribe, allowed, is_daily)
        )

    def read_decorated(self, node: Definition | ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            call = decorator.func if isinstance(decorator, ast.Call) else decorator
            if not isinstance(call, ast.Attribute) or call.attr not in ("producer", "consumer"):
                continue
            args = decorator.args if isinstance(decorator, ast.Call) else []
            words = decorator.keywords if isinstance(decorator, ast.Call) else []
            given = {word.arg: word.value for word in words if word.arg}
            named = None if "name" not in given else self.text_of(given["name"])
            name, publishes = named or node.name, given.get("publishes")
            if isinstance(node, ast.ClassDef):
                steps = {
                    Step(each.name): each
                    for each in node.body
                    if isinstance(each, Definition) and each.name in STEPS
                }
                topics = [self.text_of(each) for each in args]
                texts = tuple(text for text in topics if text is not None)
                subscribe = texts if len(texts) == len(topics) else None
                self.enter(name, decorator, steps, subscribe, publishes, node.name)
            else:
                daily = _is_daily(given)
                self.enter(name, decorator, {Step.PRODUCE: node}, None, publishes, "", daily)


def _is_daily(words: Mapping[str, ast.expr]) -> bool:
    """Tell whether a producer has a cron pattern and does not say if it runs at deploy."""
    named = set(words)
    schedule = words.get("schedule")
    if isinstance(schedule, ast.Dict):
        named |= {str(key.value) for key in schedule.keys if isinstance(key, ast.Constant)}
    return "cron" in named and "on_deploy" not in named


def _is_ours(node: ast.expr, name: str) -> bool:
    return dotted(node) in (name, f"duly.{name}")
