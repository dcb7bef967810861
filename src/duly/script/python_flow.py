"""Reads the functions of a Python module into flows; runs nothing.

Law: effects come in the order in which Python has them: arguments, then the call. A lambda counts
as called where it stands, any number of times; a comprehension is a loop.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from duly.rules.catalog import JsonType
from duly.script.constant_python import PythonConstants
from duly.script.hidden_python import FollowedNames
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
    Leave,
    LoopBlock,
    NameScope,
    Node,
    OtherWork,
    Outline,
    TooTangled,
    Use,
    Value,
)
from duly.script.python_name import Definition, PythonNames, dotted, parameters_of

CHANGING: Final = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "add", "discard", "update"}
    | {"setdefault", "popitem", "sort", "reverse"}
)
ANSWERING: Final = frozenset({"pop", "popitem", "setdefault"})  # they return what was there
# These only wait for what they are given.
WAITING: Final = frozenset({"asyncio.gather", "gather"})
# A value that is built from the result of a call uses it.
USING: Final = (
    *(ast.Dict, ast.Set, ast.JoinedStr, ast.BinOp, ast.UnaryOp, ast.Compare),
    *(ast.Subscript, ast.Attribute),
)
LEAVES: Final[Mapping[type[ast.stmt], Exit]] = {
    ast.Break: Exit.BREAK,
    ast.Continue: Exit.CONTINUE,
    ast.Raise: Exit.RAISE,
}


@dataclass(slots=True)
class PythonFlow:
    """Reads the functions of a module, each when it is first reached."""

    outline: Outline
    names: PythonNames
    constants: PythonConstants = field(default_factory=PythonConstants)
    followed: FollowedNames = field(default_factory=FollowedNames)

    # -- functions ------------------------------------------------------------------------------

    def function(
        self, node: Definition, aliases: Mapping[str, Alias], owner: str, outer: NameScope
    ) -> str:
        """Read a function for one way of passing `ctx` to it, and return its key."""
        handed = ",".join(f"{name}={alias.path}" for name, alias in sorted(aliases.items()))
        key = f"{outer.key}/{node.name}:{node.lineno}:{node.col_offset}({handed})"
        if key not in self.outline.functions:
            if len(self.outline.functions) >= READINGS_MAX:
                raise TooTangled
            function = self.outline.functions[key] = Function(self.names.place(node))
            self.followed.enter(key, node)
            for name in aliases:
                self.followed.hold(key, name)
            names: dict[str, object] = dict(outer.names)
            names |= {name: aliases.get(name) for name in parameters_of(node, is_method=False)}
            scope = NameScope(function, key, names, owner)
            self.names.effort.spend(len(names) // NAMES_PER_LOOK)
            function.body = self._block(node.body, scope)
        return key

    def _block(self, body: Sequence[ast.stmt], scope: NameScope) -> Flow:
        for node in body:
            if isinstance(node, Definition):
                scope.names[node.name] = node
        return tuple(each for node in body for each in self._statement(node, scope))

    def _statement(self, node: ast.stmt, scope: NameScope) -> list[Node]:
        match node:
            case ast.Expr(value=ast.Constant()):
                return []
            case ast.Expr(value=ast.Await(value=ast.Name())):
                return []  # It only waits for a call that was made before.
            case ast.Expr(value=value):
                return self._doing(node, self._expression(value, scope, is_awaited=False))
            case ast.Return(value=value):
                return self._leaving(node, value, scope)
            case ast.If() | ast.Match():
                return self._branch(node, scope)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node, scope)
            case ast.Try() | ast.TryStar():
                return self._guard(node, scope)
            case ast.With() | ast.AsyncWith():
                inside = [one for item in node.items for one in self._held(item, scope)]
                return [*inside, *self._block(node.body, scope)]
            case ast.Assert(test=test):
                return self._doing(node, self._test(test, scope))
            case ast.Global(names=names):
                scope.globals.update(names)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Delete():
                return self._assignment(node, scope)
            case ast.Break() | ast.Continue() | ast.Raise():
                inner = node.exc if isinstance(node, ast.Raise) else None
                effects = self._expression(inner, scope) if inner is not None else []
                return [*effects, Leave(LEAVES[type(node)])]
        return []

    def _doing(self, node: ast.AST, effects: list[Node]) -> list[Node]:
        """Add work for a statement, unless it only calls `ctx` or a function of this text."""
        is_call = any(isinstance(each, Use | Invoke | LoopBlock | Branch) for each in effects)
        return effects if is_call else [OtherWork(self.names.place(node)), *effects]

    def _leaving(self, node: ast.Return, value: ast.expr | None, scope: NameScope) -> list[Node]:
        result = Value(self.names.place(node), JsonType.NULL)
        if value is not None:
            result = self.names.value(value, scope)
        if not scope.is_inline:
            scope.function.results.append(result)
        if result.type is JsonType.NULL or value is None:
            return [Leave(Exit.RETURN)]
        effects = self._expression(value, scope)
        return [*self._doing(node, effects), Leave(Exit.RETURN)]

    def _branch(self, node: ast.If | ast.Match, scope: NameScope) -> list[Node]:
        if isinstance(node, ast.If):
            effects = self._test(node.test, scope)
            ways = (self._block(node.body, scope), self._block(node.orelse, scope))
            return [*effects, Branch(ways)]
        effects = self._test(node.subject, scope)
        for case in node.cases:
            for each in ast.walk(case.pattern):
                if isinstance(each, ast.MatchAs | ast.MatchStar) and each.name:
                    scope.names[each.name] = None
        cases = [self._block(case.body, scope) for case in node.cases]
        is_whole = any(
            isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            for case in node.cases
        )
        return [*effects, Branch(tuple(cases) if is_whole else (*cases, ()))]

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, scope: NameScope) -> list[Node]:
        if isinstance(node, ast.While):
            test = self._test(node.test, scope)
            body = (*test, *self._block(node.body, scope))
            is_endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
            return [LoopBlock(body, self._block(node.orelse, scope), is_endless=is_endless)]
        effects = self._expression(node.iter, scope)
        self._forget(node.target, scope)
        body = self._block(node.body, scope)
        return [*effects, LoopBlock(body, self._block(node.orelse, scope))]

    def _guard(self, node: ast.Try | ast.TryStar, scope: NameScope) -> list[Node]:
        body = self._block([*node.body, *node.orelse], scope)
        for handler in node.handlers:
            if handler.name:
                scope.names[handler.name] = None
        handlers = tuple(self._block(handler.body, scope) for handler in node.handlers)
        return [Guard(self.names.place(node), body, handlers, self._block(node.finalbody, scope))]

    def _held(self, item: ast.withitem, scope: NameScope) -> list[Node]:
        if item.optional_vars is not None:
            self._forget(item.optional_vars, scope)
        return self._expression(item.context_expr, scope)

    def _assignment(
        self, node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Delete, scope: NameScope
    ) -> list[Node]:
        value = None if isinstance(node, ast.Delete) else node.value
        effects = [] if value is None else self._expression(value, scope)
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        for target in targets:
            if isinstance(node, ast.AugAssign):
                self._expression(target, scope)
            if isinstance(target, ast.Name) and target.id not in scope.globals:
                is_plain = isinstance(node, ast.Assign | ast.AnnAssign) and value is not None
                meaning = self._meaning(value, scope) if is_plain and value is not None else None
                scope.learn(target.id, meaning)
                if isinstance(meaning, Alias) and value is not None:
                    self.followed.hold(scope.key, target.id)
                    if scope.names[target.id] is meaning:
                        self.followed.follow(value)
            else:
                if isinstance(target, ast.Name) and isinstance(node, ast.Assign):
                    scope.function.rebinds.add(target.id)
                self._write(target, scope)
                effects = self._using(target, effects)
        return self._doing(node, effects)

    def _meaning(self, node: ast.expr, scope: NameScope) -> object:
        return self.names.alias(node, scope) or self.names.value(node, scope)

    def _forget(self, target: ast.expr, scope: NameScope) -> None:
        for each in ast.walk(target):
            if isinstance(each, ast.Name):
                scope.names[each.id] = None

    # -- names of the module --------------------------------------------------------------------

    def _write(self, target: ast.expr, scope: NameScope) -> None:
        """Note that a value is changed in place, so that it is no longer known."""
        if isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                self._write(each, scope)
            return
        root = target
        while isinstance(root, ast.Subscript | ast.Attribute | ast.Starred):
            if self.names.shared_name(root, scope):
                break
            root = root.value
        if name := self.names.shared_name(root, scope):
            scope.function.writes.setdefault(name, self.names.place(target))
        elif isinstance(root, ast.Name):
            scope.names[root.id] = None

    # -- expressions ----------------------------------------------------------------------------

    def _expression(
        self, node: ast.expr, scope: NameScope, *, is_awaited: bool = True
    ) -> list[Node]:
        """List what an expression does, in the order it does it."""
        self.names.effort.spend()
        match node:
            case ast.Await(value=value):
                return self._expression(value, scope)
            case ast.Call():
                return self._call(node, scope, is_awaited=is_awaited)
            case ast.IfExp():
                ways = (self._flow(node.body, scope), self._flow(node.orelse, scope))
                return [*self._test(node.test, scope), *_branch(ways)]
            case ast.BoolOp(values=[first, *rest]):
                maybe = [one for each in rest for one in self._expression(each, scope)]
                return [*self._test(first, scope), *_branch((tuple(maybe), ()))]
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self._comprehension(node, scope)
            case ast.Lambda():
                return []
            case ast.NamedExpr():
                scope.learn(node.target.id, self._meaning(node.value, scope))
                return self._expression(node.value, scope)
            case ast.Name() | ast.Attribute():
                if (name := self.names.shared_name(node, scope)) is not None:
                    scope.function.reads.setdefault(name, self.names.place(node))
        effects = [one for each in _inner(node) for one in self._expression(each, scope)]
        return self._using(node, effects) if _is_using(node) else effects

    def _test(self, node: ast.expr, scope: NameScope) -> list[Node]:
        """Read an expression whose value decides what follows."""
        return self._using(node, self._expression(node, scope))

    def _using(self, node: ast.expr, effects: list[Node]) -> list[Node]:
        """Count using the result of a call as work; after a mutation it never runs (C8)."""
        is_called = any(isinstance(each, Use | Invoke) for each in effects)
        return [*effects, OtherWork(self.names.place(node))] if is_called else effects

    def _flow(self, node: ast.expr, scope: NameScope) -> Flow:
        return tuple(self._expression(node, scope))

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, scope: NameScope
    ) -> list[Node]:
        inner = scope.inline()
        self.names.effort.spend(len(inner.names) // NAMES_PER_LOOK)
        effects = self._expression(node.generators[0].iter, scope)
        body: list[Node] = []
        for index, each in enumerate(node.generators):
            body += self._expression(each.iter, inner) if index else []
            self._forget(each.target, inner)
            body += [one for test in each.ifs for one in self._expression(test, inner)]
        made = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        body += [one for each in made for one in self._expression(each, inner)]
        return [*effects, LoopBlock(tuple(body))] if body else effects

    def _call(self, node: ast.Call, scope: NameScope, *, is_awaited: bool) -> list[Node]:
        given = [*node.args, *(word.value for word in node.keywords)]
        alias = self.names.alias(node.func, scope)
        if alias is None and isinstance(node.func, ast.Attribute):
            is_only_changed = node.func.attr in CHANGING and node.func.attr not in ANSWERING
            is_plain = self.names.shared_name(node.func.value, scope) is not None
            given = given if is_only_changed and is_plain else [node.func.value, *given]
        effects = [one for each in given for one in self._expression(each, scope)]
        if alias is not None and alias.path != "":
            self.followed.follow(node.func)
            return [*effects, self._use(node, alias, scope, is_awaited=is_awaited)]
        if (key := self._invoked(node, scope)) is not None:
            return [*effects, Invoke(self.names.place(node), key)]
        self._note_change(node, scope)
        work = [] if dotted(node.func) in WAITING else [OtherWork(self.names.place(node))]
        return [*effects, *work, *self._called_back(node, scope)]

    def _use(self, node: ast.Call, alias: Alias, scope: NameScope, *, is_awaited: bool) -> Use:
        named = {word.arg: self._given(word.value, scope) for word in node.keywords if word.arg}
        is_spread = any(isinstance(each, ast.Starred) for each in node.args)
        is_open = is_spread or any(word.arg is None for word in node.keywords)
        positional = () if is_spread else tuple(self._given(each, scope) for each in node.args)
        return Use(self.names.place(node), alias.path, positional, named, is_open, is_awaited)

    def _given(self, node: ast.expr, scope: NameScope) -> Value:
        return replace(self.names.value(node, scope), written=self.constants.write(node))

    def _invoked(self, node: ast.Call, scope: NameScope) -> str | None:
        """Read the function of this text that a call calls, with the parts of `ctx` it gets."""
        definition, owner = self.names.definition(node.func, scope)
        if definition is None:
            return None
        names = parameters_of(definition, is_method=bool(owner))
        handed = dict(zip(names, node.args, strict=False))
        handed |= {word.arg: word.value for word in node.keywords if word.arg in names}
        aliases = {name: self.names.alias(each, scope) for name, each in handed.items()}
        known = {name: alias for name, alias in aliases.items() if alias is not None}
        for name in known:
            self.followed.follow(handed[name])
        is_inner = isinstance(node.func, ast.Name) and node.func.id in scope.names
        outer = scope if is_inner else NameScope(Function(self.names.place(node)), "")
        return self.function(definition, known, owner, outer)

    def _called_back(self, node: ast.Call, scope: NameScope) -> list[Node]:
        """Count functions that are passed to a call as called by it."""
        flows: list[Node] = []
        for each in (*node.args, *(word.value for word in node.keywords)):
            if isinstance(each, ast.Lambda):
                inner = scope.inline()
                self.names.effort.spend(len(inner.names) // NAMES_PER_LOOK)
                inner.names |= {name.arg: None for name in each.args.args}
                if body := self._flow(each.body, inner):
                    flows.append(LoopBlock((Inline(body),)))
            elif isinstance(each, ast.Name):
                definition, owner = self.names.definition(each, scope)
                if definition is not None:
                    key = self.function(definition, {}, owner, scope)
                    flows.append(LoopBlock((Invoke(self.names.place(each), key),)))
        return flows

    def _note_change(self, node: ast.Call, scope: NameScope) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            self._write(node.func.value, scope)


def _branch(ways: tuple[Flow, ...]) -> list[Node]:
    return [Branch(ways)] if any(ways) else []


def _inner(node: ast.expr) -> Iterator[ast.expr]:
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.expr):
            yield each
        elif isinstance(each, ast.Slice):
            yield from _inner(each)


def _is_using(node: ast.expr) -> bool:
    if isinstance(node, ast.List | ast.Tuple):  # A list of calls may still be passed to gather.
        return any(isinstance(each, ast.Await) for each in node.elts)
    return isinstance(node, USING)
