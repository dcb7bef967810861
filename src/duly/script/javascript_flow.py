"""Reads the functions of a JavaScript module into flows; runs nothing.

Law: effects come in the order in which JavaScript has them: arguments, then the call. A function
that is passed to a call counts as called there, any number of times; one passed to `then` is called
once, one passed to `catch` instead of what comes after a failing call.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from tree_sitter import Node as Tree

from duly.rules.catalog import JsonType
from duly.script.constant_javascript import JavaScriptConstants
from duly.script.hidden_javascript import FollowedPlaces
from duly.script.javascript_name import (
    FUNCTIONS,
    JavaScriptNames,
    bare,
    condition_of,
    inside,
    part,
    words,
)
from duly.script.outline import (
    NAMES_PER_LOOK,
    READINGS_MAX,
    Alias,
    Branch,
    Exit,
    Flow,
    Function,
    Guard,
    Inline,
    Invoke,
    Labelled,
    Leave,
    LoopBlock,
    NameScope,
    Node,
    OtherWork,
    Outline,
    Place,
    Switch,
    TooTangled,
    Use,
    Value,
)

CHANGING: Final = frozenset(
    {"push", "pop", "shift", "unshift", "splice", "sort", "reverse", "fill", "set", "add"}
    | {"delete", "clear"}
)
ANSWERING: Final = frozenset({"pop", "shift", "splice"})  # they return what was there
# These only wait for what they are given.
WAITING: Final = frozenset(
    {"Promise.all", "Promise.allSettled", "Promise.race", "Promise.any", "Promise.resolve"}
)
# Where a promise may stand so that other code can still await it.
HANDED_ON: Final = frozenset(
    {"await_expression", "arguments", "array", "return_statement", "spread_element", "pair"}
    | {"arrow_function", "assignment_expression"}
)
# A value that is built from the result of a call uses it.
USING: Final = frozenset(
    {"object", "template_string", "binary_expression", "unary_expression", "member_expression"}
    | {"subscript_expression"}
)
EITHER: Final = frozenset({"&&", "||", "??"})
LEAVES: Final[Mapping[str, Exit]] = {
    "break_statement": Exit.BREAK,
    "continue_statement": Exit.CONTINUE,
}


NOTHING: Final[Mapping[int, Value]] = MappingProxyType({})


@dataclass(slots=True)
class JavaScriptFlow:
    """Reads the functions of a module, each when it is first reached."""

    outline: Outline
    names: JavaScriptNames
    # By name, the places where it is handed on to something that can still wait for it.
    handed_on: Mapping[str, list[int]] = field(default_factory=dict)
    around: Tree | None = None  # the function that is being read
    constants: JavaScriptConstants = field(default_factory=JavaScriptConstants)
    followed: FollowedPlaces = field(default_factory=FollowedPlaces)

    def function(
        self,
        node: Tree,
        handed: Mapping[int, Alias],
        owner: str,
        outer: NameScope,
        given: Mapping[int, Value] = NOTHING,
    ) -> str:
        """Read a function for one way of passing `ctx` to it, and return its key."""
        shown = ",".join(f"{index}={alias.path}" for index, alias in sorted(handed.items()))
        key = f"{outer.key}/{node.start_byte}({shown})"
        if key not in self.outline.functions:
            if len(self.outline.functions) >= READINGS_MAX:
                raise TooTangled
            function = self.outline.functions[key] = Function(self.names.place(node))
            function.is_generator = any(each.type == "*" for each in node.children)
            scope = NameScope(function, key, dict(outer.names), owner)
            self.names.effort.spend(len(scope.names) // NAMES_PER_LOOK)
            self.names.bind_parameters(node, {**given, **handed}, scope)
            self.followed.enter(key, node)
            for name, meaning in scope.names.items():
                if isinstance(meaning, Alias):
                    self.followed.hold(key, name)
            function.body = self._body(node, scope)
        return key

    def _body(self, node: Tree, scope: NameScope) -> Flow:
        before, self.around = self.around, node
        try:
            return self._inside(node, scope)
        finally:
            self.around = before

    def _inside(self, node: Tree, scope: NameScope) -> Flow:
        body = part(node, "body")
        if body is None:
            return ()
        if body.type == "statement_block":
            return self._block(inside(body), scope)
        if not scope.is_inline:
            scope.function.results.append(self.names.value(body, scope))
        return (*self._expression(body, scope), Leave(Exit.RETURN))

    # -- statements -----------------------------------------------------------------------------

    def _block(self, body: Iterable[Tree], scope: NameScope) -> Flow:
        statements = list(body)
        for node in statements:
            if node.type in FUNCTIONS:
                scope.names[words(node.child_by_field_name("name"))] = node
        return tuple(each for node in statements for each in self._statement(node, scope))

    def _statement(self, node: Tree, scope: NameScope) -> list[Node]:
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
                return self._labelled(node, scope)
            case "break_statement" | "continue_statement":
                return [Leave(LEAVES[node.type], words(node.child_by_field_name("label")))]
            case "throw_statement":
                return [*self._all(node, scope), Leave(Exit.RAISE)]
        return []

    def _optional(self, node: Tree | None, scope: NameScope) -> list[Node]:
        if node is None:
            return []
        if node.type.endswith(("_statement", "_declaration", "_block", "_clause")):
            return self._statement(node, scope)
        return self._expression(node, scope)

    def _doing(self, node: Tree, effects: list[Node]) -> list[Node]:
        """Add work for a statement, unless it only calls `ctx` or a function of this text."""
        is_call = any(
            isinstance(each, Use | Invoke | LoopBlock | Branch | Guard) for each in effects
        )
        return effects if is_call else [OtherWork(self.names.place(node)), *effects]

    def _lone(self, node: Tree, scope: NameScope) -> list[Node]:
        effects: list[Node] = []
        for each in inside(node):
            lone = bare(each)
            if lone is None or lone.type == "string":
                return []
            operator = lone.child_by_field_name("operator")
            is_void = lone.type == "unary_expression" and words(operator) == "void"
            lone = part(lone, "argument") if is_void else lone
            if lone is not None:
                effects += self._expression(lone, scope, is_awaited=False)
                if lone.type == "await_expression" and not effects and _only_waits(lone):
                    return []
        return self._doing(node, effects)

    def _declarator(self, node: Tree, scope: NameScope) -> list[Node]:
        name, value = node.child_by_field_name("name"), part(node, "value")
        if name is None or value is None:
            if name is not None:
                scope.names[words(name)] = None
            return []
        if value.type in FUNCTIONS:
            scope.names[words(name)] = value
            return []
        is_awaited = name.type != "identifier" or self._is_handed_on(words(name))
        effects = self._expression(value, scope, is_awaited=is_awaited)
        meaning = self._meaning(value, scope)
        self.names.bind(name, meaning, scope)
        self.followed.learn(name, meaning, value, scope)
        return self._doing(node, effects)

    def _is_handed_on(self, name: str) -> bool:
        """Tell whether the function being read passes a name on, so that it can be awaited."""
        if self.around is None:
            return False
        places = self.handed_on.get(name, [])
        first = bisect_left(places, self.around.start_byte)
        return first < len(places) and places[first] < self.around.end_byte

    def _leaving(self, node: Tree, scope: NameScope) -> list[Node]:
        value = bare(next(iter(inside(node)), None))
        is_nothing = value is None or words(value) == "undefined"
        if value is None or is_nothing:
            result = Value(self.names.place(node), JsonType.NULL)
        else:
            result = self.names.value(value, scope)
        if not scope.is_inline:
            scope.function.results.append(result)
        if value is None or is_nothing or result.type is JsonType.NULL:
            return [Leave(Exit.RETURN)]
        return [*self._doing(node, self._expression(value, scope)), Leave(Exit.RETURN)]

    def _branch(self, node: Tree, scope: NameScope) -> list[Node]:
        if node.type == "if_statement":
            effects = self._test(part(node, "condition"), scope)
            ways = tuple(
                tuple(self._optional(node.child_by_field_name(name), scope))
                for name in ("consequence", "alternative")
            )
            return [*effects, Branch(ways)]
        effects = self._test(part(node, "value"), scope)
        cases = inside(node.child_by_field_name("body"))
        flows = tuple(self._block(case.children_by_field_name("body"), scope) for case in cases)
        is_whole = any(case.type == "switch_default" for case in cases)
        return [*effects, Switch(flows, is_whole)]

    def _labelled(self, node: Tree, scope: NameScope) -> list[Node]:
        label = words(node.child_by_field_name("label"))
        body = self._optional(part(node, "body"), scope)
        named = (
            replace(each, label=label) if isinstance(each, LoopBlock) else each for each in body
        )
        return [Labelled(label, tuple(named))]

    def _loop(self, node: Tree, scope: NameScope) -> list[Node]:
        if node.type == "for_in_statement":
            right, left = part(node, "right"), node.child_by_field_name("left")
            effects = self._optional(right, scope)
            if left is not None and right is not None:
                self.names.bind(left, self.names.element(right, scope), scope)
            return [*effects, LoopBlock(tuple(self._optional(part(node, "body"), scope)))]
        first = self._optional(node.child_by_field_name("initializer"), scope)
        condition = condition_of(node)
        test = [] if condition is None else self._test(condition, scope)
        body = self._optional(part(node, "body"), scope)
        step = self._optional(part(node, "increment"), scope)
        is_do = node.type == "do_statement"
        turn = (*body, *test) if is_do else (*test, *body, *step)
        is_endless = condition is None or words(condition) in ("true", "1")
        return [*first, LoopBlock(turn, is_entered=is_do, is_endless=is_endless)]

    def _guard(self, node: Tree, scope: NameScope) -> list[Node]:
        handler = node.child_by_field_name("handler")
        if handler is not None and (caught := handler.child_by_field_name("parameter")) is not None:
            self.names.bind(caught, None, scope)
        body = self._optional(part(node, "body"), scope)
        caught_flow = self._optional(handler and part(handler, "body"), scope)
        finalizer = node.child_by_field_name("finalizer")
        last = self._optional(finalizer and part(finalizer, "body"), scope)
        handlers = () if handler is None else (tuple(caught_flow),)
        return [Guard(self.names.place(node), tuple(body), handlers, tuple(last))]

    # -- names of the module --------------------------------------------------------------------

    def _write(self, target: Tree, scope: NameScope) -> None:
        """Note that a value is changed in place, so that it is no longer known."""
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

    def _expression(self, node: Tree, scope: NameScope, *, is_awaited: bool = True) -> list[Node]:
        """List what an expression does, in the order it does it."""
        self.names.effort.spend()
        match node.type:
            case "call_expression":
                return self._call(node, scope, is_awaited=is_awaited)
            case "ternary_expression":
                ways = tuple(
                    tuple(self._optional(part(node, name), scope))
                    for name in ("consequence", "alternative")
                )
                return [*self._test(part(node, "condition"), scope), *_branch(ways)]
            case "binary_expression" if words(node.child_by_field_name("operator")) in EITHER:
                maybe = tuple(self._optional(part(node, "right"), scope))
                return [*self._test(part(node, "left"), scope), *_branch((maybe, ()))]
            case "assignment_expression" | "augmented_assignment_expression" | "update_expression":
                return self._assignment(node, scope)
            case "identifier" | "shorthand_property_identifier" | "member_expression":
                if (name := self.names.shared_name(node, scope)) is not None:
                    scope.function.reads.setdefault(name, self.names.place(node))
                if (origin := self.names.origin(node, scope)) is not None:
                    scope.function.looks.append(Value(self.names.place(node), origin=origin))
            case "new_expression":
                return [*self._all(node, scope), OtherWork(self.names.place(node))]
            case kind if kind in FUNCTIONS:
                return []
        effects = self._all(node, scope)
        return self._using(node, effects) if _is_using(node) else effects

    def _test(self, node: Tree | None, scope: NameScope) -> list[Node]:
        """Read an expression whose value decides what follows."""
        return [] if node is None else self._using(node, self._optional(node, scope))

    def _using(self, node: Tree, effects: list[Node]) -> list[Node]:
        """Count using the result of a call as work; after a mutation it never runs (C8)."""
        is_called = any(isinstance(each, Use | Invoke) for each in effects)
        return [*effects, OtherWork(self.names.place(node))] if is_called else effects

    def _all(self, node: Tree, scope: NameScope) -> list[Node]:
        return [one for each in inside(node) for one in self._expression(each, scope)]

    def _assignment(self, node: Tree, scope: NameScope) -> list[Node]:
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
            if value is not None:
                self.followed.learn(target, meaning, value, scope)
        else:
            if is_plain and target.type == "identifier":
                scope.function.rebinds.add(words(target))
            self._write(target, scope)
            effects = self._using(target, effects)
        return effects

    def _meaning(self, node: Tree, scope: NameScope) -> object:
        return self.names.alias(node, scope) or self.names.value(node, scope)

    def _call(self, node: Tree, scope: NameScope, *, is_awaited: bool) -> list[Node]:
        callee, given = part(node, "function"), inside(node.child_by_field_name("arguments"))
        if callee is None:
            return self._all(node, scope)
        alias = self.names.alias(callee, scope)
        effects = [one for each in given for one in self._expression(each, scope)]
        if alias is not None and alias.path != "":
            self.followed.follow(callee)
            return [*effects, self._use(node, alias, given, scope, is_awaited=is_awaited)]
        if (key := self._invoked(callee, given, scope)) is not None:
            return [*effects, Invoke(self.names.place(node), key)]
        method = words(callee.child_by_field_name("property"))
        if method in ("then", "catch", "finally"):
            return self._chained(node, callee, method, given, scope, is_awaited=is_awaited)
        before = self._receiver(callee, method, scope)
        work = [] if words(callee) in WAITING else [OtherWork(self.names.place(node))]
        whole = part(callee, "object")
        element = None if whole is None else self.names.element(whole, scope)
        called = [
            LoopBlock((Inline(body),))
            for each in given
            if (body := self._called_back(each, scope, element))
        ]
        return [*before, *effects, *work, *called]

    def _receiver(self, callee: Tree, method: str, scope: NameScope) -> list[Node]:
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
        scope: NameScope,
        *,
        is_awaited: bool,
    ) -> list[Node]:
        whole = part(callee, "object")
        before = [] if whole is None else self._expression(whole, scope, is_awaited=is_awaited)
        bodies = [Inline(body) for each in given if (body := self._called_back(each, scope))]
        place = self.names.place(callee.child_by_field_name("property") or node)
        if method == "then":
            return [*before, OtherWork(place), *(Branch(((each,), ())) for each in bodies)]
        if method == "finally":
            return [Guard(place, tuple(before), (), tuple(bodies))]
        return [Guard(place, tuple(before), (tuple(bodies),), ())]

    def _called_back(self, node: Tree, scope: NameScope, element: Value | None = None) -> Flow:
        """Read a function that is passed to a call, in place or by its name."""
        if node.type in FUNCTIONS:
            inner = scope.inline()
            self.names.effort.spend(len(inner.names) // NAMES_PER_LOOK)
            self.names.bind_parameters(node, {0: element}, inner)
            return self._body(node, inner)
        definition = self.names.definition(node, scope)
        if definition is None:
            return ()
        return (Invoke(self.names.place(node), self.function(definition, {}, "", scope)),)

    def _use(
        self, node: Tree, alias: Alias, given: list[Tree], scope: NameScope, *, is_awaited: bool
    ) -> Use:
        """Note a call through `ctx`: at most a topic, then one object."""
        values = [self._given(each, scope) for each in given]
        is_ours = alias.path is not None and "." not in alias.path
        positional, rest = (values[:1], values[1:]) if is_ours else ([], values)
        is_spread = any(each.type == "spread_element" for each in given)
        named: Mapping[str, Value] = {}
        is_open = is_spread or (bool(rest) and rest[0].fields is None)
        if len(rest) == 1 and rest[0].fields is not None:
            named, is_open = _named(rest[0], rest[0].fields), rest[0].is_open
        elif not is_ours and (len(rest) > 1 or (rest and rest[0].type is not None)):
            positional = rest
        place = self.names.place(node)
        return Use(place, alias.path, tuple(positional), named, is_open, is_awaited)

    def _given(self, node: Tree, scope: NameScope) -> Value:
        return replace(self.names.value(node, scope), written=self.constants.write(node))

    def _invoked(self, callee: Tree, given: list[Tree], scope: NameScope) -> str | None:
        """Read the function of this text that a call calls, with the parts of `ctx` it gets."""
        definition = self.names.definition(callee, scope)
        if definition is None:
            return None
        aliases = {index: self.names.alias(each, scope) for index, each in enumerate(given)}
        known = {index: alias for index, alias in aliases.items() if alias is not None}
        for index in known:  # what no parameter takes is reached by `arguments` alone, a door
            self.followed.follow(given[index])
        is_inner = words(callee) in scope.names
        return self.function(definition, known, scope.owner, scope if is_inner else _nobody())


def _named(whole: Value, fields: Mapping[str, Value]) -> dict[str, Value]:
    """Return the fields of an object, each as it is written; one that stands elsewhere is open."""
    written = {} if whole.written is None else dict(whole.written.parts)
    return {name: replace(each, written=written.get(name)) for name, each in fields.items()}


def _branch(ways: tuple[Flow, ...]) -> list[Node]:
    return [Branch(ways)] if any(ways) else []


def _only_waits(node: Tree) -> bool:
    """Tell whether an await adds nothing to a call that was made before."""
    awaited = next(iter(inside(node)), node)
    return awaited.type == "identifier" or words(part(awaited, "function")) in WAITING


def _is_using(node: Tree) -> bool:
    if node.type == "array":  # A list of calls may still be passed to Promise.all.
        return any(each.type == "await_expression" for each in inside(node))
    return node.type in USING


def _nobody() -> NameScope:
    """Make the scope of the module, outside of every function."""
    return NameScope(Function(Place(1, 1)), "")
