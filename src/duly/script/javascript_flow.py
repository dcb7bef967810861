"""Reads the functions of a JavaScript module into flows; runs nothing.

Law: effects come in the order in which JavaScript would have them: arguments, then the call. A
function that is handed to a call is taken to be called there, any number of times; one handed to
`then` once, one handed to `catch` instead of what comes after a failing call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tree_sitter import Node as Tree

from duly.rules.catalog import JsonType
from duly.script.javascript_name import (
    FUNCTIONS,
    Names,
    bare,
    everything,
    inside,
    parameters_of,
    part,
    words,
)
from duly.script.outline import (
    READINGS_MAX,
    Alias,
    Branch,
    Flow,
    Function,
    Guard,
    Inline,
    Invoke,
    Leave,
    Loop,
    Node,
    Outline,
    Place,
    Scope,
    Switch,
    TooTangled,
    Use,
    Value,
    Way,
    Work,
)

CHANGING: Final = frozenset(
    {"push", "pop", "shift", "unshift", "splice", "sort", "reverse", "fill", "set", "add"}
    | {"delete", "clear"}
)
ANSWERING: Final = frozenset({"pop", "shift", "splice"})  # they tell what was there
# These only wait for what they are given.
WAITING: Final = frozenset(
    {"Promise.all", "Promise.allSettled", "Promise.race", "Promise.any", "Promise.resolve"}
)
# Where a promise may stand so that somebody can still wait for it.
HANDED_ON: Final = frozenset(
    {"await_expression", "arguments", "array", "return_statement", "spread_element", "pair"}
    | {"arrow_function", "assignment_expression"}
)
EITHER: Final = frozenset({"&&", "||", "??"})
LEAVES: Final[Mapping[str, Way]] = {
    "break_statement": Way.BREAK,
    "continue_statement": Way.CONTINUE,
    "throw_statement": Way.RAISE,
}


@dataclass(slots=True)
class FlowReader:
    """Reads the functions of a module, each when it is first reached."""

    outline: Outline
    names: Names
    handed_on: dict[int, frozenset[str]] = field(default_factory=dict)

    def function(self, node: Tree, handed: Mapping[int, Alias], owner: str, outer: Scope) -> str:
        """Read a function as one way of handing it `ctx` sees it, and answer its key."""
        shown = ",".join(f"{index}={alias.path}" for index, alias in sorted(handed.items()))
        key = f"{outer.key}/{node.start_byte}({shown})"
        if key not in self.outline.functions:
            if len(self.outline.functions) >= READINGS_MAX:
                raise TooTangled
            function = self.outline.functions[key] = Function(self.names.place(node))
            scope = Scope(function, key, dict(outer.names), owner)
            for index, parameter in enumerate(parameters_of(node)):
                self._bind(parameter, handed.get(index), scope)
            function.body = self._body(node, scope)
        return key

    def _body(self, node: Tree, scope: Scope) -> Flow:
        body = part(node, "body")
        if body is None:
            return ()
        if body.type == "statement_block":
            return self._block(inside(body), scope)
        if not scope.is_inline:
            scope.function.results.append(self.names.value(body, scope))
        return (*self._expression(body, scope), Leave(Way.RETURN))

    def _bind(self, pattern: Tree, meaning: object, scope: Scope) -> None:
        """Give the names of a pattern their meaning; a part of `ctx` taken out of it stays one."""
        match pattern.type:
            case "identifier" | "shorthand_property_identifier_pattern":
                scope.learn(words(pattern), meaning)
            case "assignment_pattern" | "object_assignment_pattern":
                left = pattern.child_by_field_name("left")
                if left is not None and left.type == "shorthand_property_identifier_pattern":
                    meaning = _part_of(meaning, words(left))
                if left is not None:
                    self._bind(left, meaning, scope)
            case "pair_pattern":
                value = pattern.child_by_field_name("value")
                key = words(pattern.child_by_field_name("key"))
                if value is not None:
                    self._bind(value, _part_of(meaning, key), scope)
            case "object_pattern":
                for each in inside(pattern):
                    is_short = each.type == "shorthand_property_identifier_pattern"
                    self._bind(each, _part_of(meaning, words(each)) if is_short else meaning, scope)
            case "rest_pattern":
                for each in inside(pattern):
                    self._bind(each, meaning if isinstance(meaning, Alias) else None, scope)
            case _:
                for each in inside(pattern):
                    self._bind(each, None, scope)

    # -- statements -----------------------------------------------------------------------------

    def _block(self, body: Iterable[Tree], scope: Scope) -> Flow:
        statements = list(body)
        for node in statements:
            if node.type in FUNCTIONS:
                scope.names[words(node.child_by_field_name("name"))] = node
        return tuple(each for node in statements for each in self._statement(node, scope))

    def _statement(self, node: Tree, scope: Scope) -> list[Node]:
        match node.type:
            case "expression_statement":
                return self._lone(node, scope)
            case "lexical_declaration" | "variable_declaration":
                return [one for each in inside(node) for one in self._declarator(each, scope)]
            case "return_statement":
                return self._leaving(node, scope)
            case "if_statement" | "switch_statement":
                return self._branch(node, scope)
            case "for_statement" | "for_in_statement" | "while_statement" | "do_statement":
                return self._loop(node, scope)
            case "try_statement":
                return self._guard(node, scope)
            case "statement_block" | "else_clause":
                return list(self._block(inside(node), scope))
            case "labeled_statement":
                return self._optional(part(node, "body"), scope)
            case "break_statement" | "continue_statement" | "throw_statement":
                is_throw = node.type == "throw_statement"
                thrown = [self._expression(each, scope) for each in inside(node) if is_throw]
                return [*(one for each in thrown for one in each), Leave(LEAVES[node.type])]
        return []

    def _optional(self, node: Tree | None, scope: Scope) -> list[Node]:
        if node is None:
            return []
        if node.type.endswith(("_statement", "_declaration", "_block", "_clause")):
            return self._statement(node, scope)
        return self._expression(node, scope)

    def _doing(self, node: Tree, effects: list[Node]) -> list[Node]:
        """Make a statement work, unless a call through `ctx` or a function of ours is its work."""
        is_call = any(isinstance(each, Use | Invoke | Loop | Branch | Guard) for each in effects)
        return effects if is_call else [Work(self.names.place(node)), *effects]

    def _lone(self, node: Tree, scope: Scope) -> list[Node]:
        effects: list[Node] = []
        for each in inside(node):
            lone = bare(each)
            if lone is None or lone.type == "string":
                return []
            is_void = lone.type == "unary_expression" and words(lone).startswith("void")
            lone = part(lone, "argument") if is_void else lone
            if lone is not None:
                effects += self._expression(lone, scope, is_awaited=False)
                if lone.type == "await_expression" and not effects and _only_waits(lone):
                    return []
        return self._doing(node, effects)

    def _declarator(self, node: Tree, scope: Scope) -> list[Node]:
        name, value = node.child_by_field_name("name"), part(node, "value")
        if name is None or value is None:
            if name is not None:
                scope.names[words(name)] = None
            return []
        if value.type in FUNCTIONS:
            scope.names[words(name)] = value
            return []
        is_awaited = name.type != "identifier" or words(name) in self._names_handed_on(node)
        effects = self._expression(value, scope, is_awaited=is_awaited)
        self._bind(name, self.names.alias(value, scope) or self.names.value(value, scope), scope)
        return self._doing(node, effects)

    def _names_handed_on(self, node: Tree) -> frozenset[str]:
        """List the names of the function around a node that somebody can still wait for."""
        around = node
        while around.parent is not None and around.type not in FUNCTIONS:
            around = around.parent
        if around.id not in self.handed_on:
            self.handed_on[around.id] = frozenset(
                words(each)
                for each in everything(around)
                if each.type == "identifier" and each.parent and each.parent.type in HANDED_ON
            ) | {words(e) for e in everything(around) if e.type == "shorthand_property_identifier"}
        return self.handed_on[around.id]

    def _leaving(self, node: Tree, scope: Scope) -> list[Node]:
        value = bare(next(iter(inside(node)), None))
        is_nothing = value is None or words(value) == "undefined"
        if value is None or is_nothing:
            result = Value(self.names.place(node), JsonType.NULL)
        else:
            result = self.names.value(value, scope)
        if not scope.is_inline:
            scope.function.results.append(result)
        if value is None or is_nothing or result.type is JsonType.NULL:
            return [Leave(Way.RETURN)]
        return [*self._doing(node, self._expression(value, scope)), Leave(Way.RETURN)]

    def _branch(self, node: Tree, scope: Scope) -> list[Node]:
        if node.type == "if_statement":
            effects = self._optional(part(node, "condition"), scope)
            ways = tuple(
                tuple(self._optional(node.child_by_field_name(name), scope))
                for name in ("consequence", "alternative")
            )
            return [*effects, Branch(ways)]
        effects = self._optional(part(node, "value"), scope)
        cases = inside(node.child_by_field_name("body"))
        flows = tuple(self._block(case.children_by_field_name("body"), scope) for case in cases)
        is_whole = any(case.type == "switch_default" for case in cases)
        return [*effects, Switch(flows, is_whole)]

    def _loop(self, node: Tree, scope: Scope) -> list[Node]:
        if node.type == "for_in_statement":
            effects = self._optional(part(node, "right"), scope)
            if (left := node.child_by_field_name("left")) is not None:
                self._bind(left, None, scope)
            return [*effects, Loop(tuple(self._optional(part(node, "body"), scope)))]
        first = self._optional(node.child_by_field_name("initializer"), scope)
        test = self._optional(part(node, "condition"), scope)
        body = self._optional(part(node, "body"), scope)
        step = self._optional(part(node, "increment"), scope)
        return [*first, Loop((*test, *body, *step))]

    def _guard(self, node: Tree, scope: Scope) -> list[Node]:
        handler = node.child_by_field_name("handler")
        if handler is not None and (caught := handler.child_by_field_name("parameter")) is not None:
            self._bind(caught, None, scope)
        body = self._optional(part(node, "body"), scope)
        caught_flow = self._optional(handler and part(handler, "body"), scope)
        finalizer = node.child_by_field_name("finalizer")
        last = self._optional(finalizer and part(finalizer, "body"), scope)
        handlers = () if handler is None else (tuple(caught_flow),)
        return [Guard(self.names.place(node), tuple(body), handlers, tuple(last))]

    # -- names of the module --------------------------------------------------------------------

    def _write(self, target: Tree, scope: Scope) -> None:
        """Note that something is changed in place, and that what we knew of it is void."""
        root: Tree | None = target
        while root is not None and not self.names.shared_name(root, scope):
            if root.type not in ("member_expression", "subscript_expression"):
                break
            root = part(root, "object")
        if root is None:
            return
        if name := self.names.shared_name(root, scope):
            scope.function.writes.setdefault(name, self.names.place(target))
        elif root.type == "identifier":
            scope.names[words(root)] = None

    # -- expressions ----------------------------------------------------------------------------

    def _expression(self, node: Tree, scope: Scope, *, is_awaited: bool = True) -> list[Node]:
        """List what an expression does, in the order it does it."""
        match node.type:
            case "call_expression":
                return self._call(node, scope, is_awaited=is_awaited)
            case "ternary_expression":
                ways = tuple(
                    tuple(self._optional(part(node, name), scope))
                    for name in ("consequence", "alternative")
                )
                return [*self._optional(part(node, "condition"), scope), *_branch(ways)]
            case "binary_expression" if words(node.child_by_field_name("operator")) in EITHER:
                maybe = tuple(self._optional(part(node, "right"), scope))
                return [*self._optional(part(node, "left"), scope), *_branch((maybe, ()))]
            case "assignment_expression" | "augmented_assignment_expression" | "update_expression":
                return self._assignment(node, scope)
            case "identifier" | "shorthand_property_identifier" | "member_expression":
                if (name := self.names.shared_name(node, scope)) is not None:
                    scope.function.reads.setdefault(name, self.names.place(node))
            case "new_expression":
                return [*self._all(node, scope), Work(self.names.place(node))]
            case kind if kind in FUNCTIONS:
                return []
        return self._all(node, scope)

    def _all(self, node: Tree, scope: Scope) -> list[Node]:
        return [one for each in inside(node) for one in self._expression(each, scope)]

    def _assignment(self, node: Tree, scope: Scope) -> list[Node]:
        is_plain = node.type == "assignment_expression"
        target = part(node, "argument" if node.type == "update_expression" else "left")
        value = part(node, "right")
        effects = [] if value is None else self._expression(value, scope)
        if target is None:
            return effects
        if not is_plain:
            self._expression(target, scope)  # It is read before it is written.
        if target.type == "identifier" and self.names.shared_name(target, scope) is None:
            meaning = self._meaning(value, scope) if is_plain and value is not None else None
            scope.learn(words(target), meaning)
        else:
            self._write(target, scope)
        return effects

    def _meaning(self, node: Tree, scope: Scope) -> object:
        return self.names.alias(node, scope) or self.names.value(node, scope)

    def _call(self, node: Tree, scope: Scope, *, is_awaited: bool) -> list[Node]:
        callee, given = part(node, "function"), inside(node.child_by_field_name("arguments"))
        if callee is None:
            return self._all(node, scope)
        alias = self.names.alias(callee, scope)
        effects = [one for each in given for one in self._expression(each, scope)]
        if alias is not None and alias.path != "":
            return [*effects, self._use(node, alias, given, scope, is_awaited=is_awaited)]
        if (key := self._invoked(callee, given, scope)) is not None:
            return [*effects, Invoke(self.names.place(node), key)]
        method = words(callee.child_by_field_name("property"))
        if method in ("then", "catch", "finally"):
            return self._chained(node, callee, method, given, scope, is_awaited=is_awaited)
        before = self._receiver(callee, method, scope)
        work = [] if words(callee) in WAITING else [Work(self.names.place(node))]
        called = [
            Loop((Inline(body),)) for each in given if (body := self._called_back(each, scope))
        ]
        return [*before, *effects, *work, *called]

    def _receiver(self, callee: Tree, method: str, scope: Scope) -> list[Node]:
        """Read what a method is called on; a change in place is a write, not a read."""
        whole = part(callee, "object")
        if whole is None:
            return self._expression(callee, scope)
        if method in CHANGING:
            self._write(whole, scope)
            if method not in ANSWERING and self.names.shared_name(whole, scope) is not None:
                return []
        return self._expression(whole, scope)

    def _chained(
        self,
        node: Tree,
        callee: Tree,
        method: str,
        given: list[Tree],
        scope: Scope,
        *,
        is_awaited: bool,
    ) -> list[Node]:
        whole = part(callee, "object")
        before = [] if whole is None else self._expression(whole, scope, is_awaited=is_awaited)
        bodies = [Inline(body) for each in given if (body := self._called_back(each, scope))]
        place = self.names.place(callee.child_by_field_name("property") or node)
        if method == "then":
            return [*before, Work(place), *(Branch(((each,), ())) for each in bodies)]
        if method == "finally":
            return [Guard(place, tuple(before), (), tuple(bodies))]
        return [Guard(place, tuple(before), (tuple(bodies),), ())]

    def _called_back(self, node: Tree, scope: Scope) -> Flow:
        """Read a function that is handed to a call, in place or by its name."""
        if node.type in FUNCTIONS:
            inner = scope.inline()
            for parameter in parameters_of(node):
                for each in everything(parameter):
                    if each.type.endswith(("identifier", "identifier_pattern")):
                        inner.names[words(each)] = None
            return self._body(node, inner)
        definition = self.names.definition(node, scope)
        if definition is None:
            return ()
        return (Invoke(self.names.place(node), self.function(definition, {}, "", scope)),)

    def _use(
        self, node: Tree, alias: Alias, given: list[Tree], scope: Scope, *, is_awaited: bool
    ) -> Use:
        """Write down a call through `ctx`: at most a topic, then one object."""
        values = [self.names.value(each, scope) for each in given]
        is_ours = alias.path is not None and "." not in alias.path
        positional, rest = (values[:1], values[1:]) if is_ours else ([], values)
        is_spread = any(each.type == "spread_element" for each in given)
        named: Mapping[str, Value] = {}
        is_open = is_spread or (bool(rest) and rest[0].fields is None)
        if len(rest) == 1 and rest[0].fields is not None:
            named, is_open = rest[0].fields, rest[0].is_open
        elif not is_ours and (len(rest) > 1 or (rest and rest[0].type is not None)):
            positional = rest
        place = self.names.place(node)
        return Use(place, alias.path, tuple(positional), named, is_open, is_awaited)

    def _invoked(self, callee: Tree, given: list[Tree], scope: Scope) -> str | None:
        """Read the function of ours that a call calls, with the parts of `ctx` it is handed."""
        definition = self.names.definition(callee, scope)
        if definition is None:
            return None
        aliases = {index: self.names.alias(each, scope) for index, each in enumerate(given)}
        known = {index: alias for index, alias in aliases.items() if alias is not None}
        is_inner = words(callee) in scope.names
        return self.function(definition, known, scope.owner, scope if is_inner else _nobody())


def _branch(ways: tuple[Flow, ...]) -> list[Node]:
    return [Branch(ways)] if any(ways) else []


def _only_waits(node: Tree) -> bool:
    """Tell whether an await adds nothing to a call that was made before."""
    awaited = next(iter(inside(node)), node)
    return awaited.type == "identifier" or words(part(awaited, "function")) in WAITING


def _part_of(meaning: object, name: str) -> object:
    return meaning.part(name) if isinstance(meaning, Alias) else None


def _nobody() -> Scope:
    """Make the scope of the module, in which no function stands."""
    return Scope(Function(Place(1, 1)), "")
