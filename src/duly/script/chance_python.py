"""Cuts a Python text into units, and says which of them ask the clock or the dice (F3)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from duly.rules.source import Source
from duly.script.chance import ChanceReading, Unit
from duly.script.lacking import parse
from duly.script.outline import Text
from duly.script.python_name import Definition

# Every name that comes out of these is the clock, the dice, or a way to them.
MODULES: Final = frozenset({"time", "random", "secrets", "uuid", "os", "sys", "asyncio"})
HARMLESS: Final = frozenset({"gather"})  # of asyncio: it only waits
MEMBERS: Final = frozenset(
    {"now", "utcnow", "today", "time_ns", "monotonic", "perf_counter", "clock", "random"}
    | {"randint", "randrange", "choice", "choices", "shuffle", "sample", "uniform", "uuid4"}
)
# They reach anything, or show where something lies in memory.
NAMES: Final = frozenset(
    {"eval", "exec", "compile", "globals", "locals", "vars", "id", "hash", "attrgetter"}
    | {"methodcaller", "__import__", "__builtins__", "setattr", "delattr"}
)


@dataclass(slots=True)
class _Around:
    """The context of a node: its unit, and the function it is in."""

    unit: int
    function: str = ""  # its name; a lambda has none
    outer: int | None = None  # the unit a function without a name stands in
    is_inside: bool = False  # in a function, so not run at load


def read(source: Source) -> ChanceReading:
    """Cut a text whose syntax is known to be right."""
    cutter = _Cutter(Text(source.text))
    cutter.cut(parse(source.text))
    return cutter.reading


@dataclass(slots=True)
class _Cutter:
    text: Text
    reading: ChanceReading = field(default_factory=lambda: ChanceReading([Unit(1)]))
    askers: set[str] = field(default_factory=set)

    def cut(self, tree: ast.Module) -> None:
        self.askers = set(_imported(tree))
        for statement in tree.body:
            start = len(self.reading.tokens)
            self.walk(statement)
            for name in _names(statement):
                self.reading.named[name].append((start, len(self.reading.tokens)))

    def walk(self, root: ast.AST) -> None:
        """Visit every node in the order of the text, without recursion."""
        waiting: list[tuple[ast.AST, _Around, int | None]] = [(root, _Around(0), None)]
        while waiting:
            node, around, started = waiting.pop()
            if started is not None:
                self.leave(node, started)
                continue
            if isinstance(node, Definition):
                waiting.append((node, around, len(self.reading.tokens)))
            inner = self.enter(node, around)
            self.token(node, inner)
            waiting += [(each, inner, None) for each in reversed(list(_children(node)))]

    def leave(self, node: ast.AST, started: int) -> None:
        span = (started, len(self.reading.tokens))
        place = self.text.place(getattr(node, "lineno", 1) - 1, getattr(node, "col_offset", 0))
        self.reading.functions[place] = span
        if isinstance(node, Definition):
            self.reading.named[node.name].append(span)

    def enter(self, node: ast.AST, around: _Around) -> _Around:
        """Open a unit where one begins, and say what gets its value."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                arguments = ast.walk(node.args)
                names = {each.arg for each in arguments if isinstance(each, ast.arg)}
                self.reading.parameters[node.name] |= names
                return _Around(self.open(node), node.name, None, True)
            case ast.Lambda():
                unit = self.open(node, flows_to=around.unit)
                return _Around(unit, "", around.unit, True)
            case ast.Return() | ast.Yield() | ast.YieldFrom():
                unit = self.open(node, flows_to=around.outer)
                self.reading.units[unit].targets |= {around.function} - {""}
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.For() | ast.AsyncFor():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                unit = self.open(node)
                self.reading.units[unit].targets |= {one for t in targets for one in _words(t)}
            case ast.NamedExpr(target=target) | ast.comprehension(target=target):
                unit = self.open(node, flows_to=around.unit)
                self.reading.units[unit].targets |= set(_words(target))
            case ast.withitem(optional_vars=held) if held is not None:
                unit = self.open(node, flows_to=around.unit)
                self.reading.units[unit].targets |= set(_words(held))
            case ast.keyword(arg=str(name)):
                unit = self.open(node)
                self.reading.units[unit].targets.add(name)
            case _Entry(key=ast.Constant(value=str(name))):
                unit = self.open(node)
                self.reading.units[unit].targets.add(name)
            case ast.stmt():
                unit = self.open(node)
            case _:
                return around
        return _Around(unit, around.function, around.outer, around.is_inside)

    def open(self, node: ast.AST, *, flows_to: int | None = None) -> int:
        self.reading.units.append(Unit(getattr(node, "lineno", 1), flows_to))
        return len(self.reading.units) - 1

    def token(self, node: ast.AST, around: _Around) -> None:
        unit = self.reading.units[around.unit]
        if not isinstance(node, ast.expr_context | _Entry):
            self.reading.add(around.unit, type(node).__name__)
        for word in _said(node):
            self.reading.add(around.unit, word, is_word=True)
        if isinstance(node, ast.Constant) and not isinstance(node.value, str):
            self.reading.add(around.unit, repr(node.value))
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else ""
            unit.calls.add(called.id if isinstance(called, ast.Name) else name)
        if (asked := self.asked(node)) is not None:
            unit.asks = unit.asks or asked
        is_loose = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if not around.is_inside and (is_loose or isinstance(node, ast.Delete | ast.AugAssign)):
            self.reading.loose.append(ast.dump(node))

    def asked(self, node: ast.AST) -> str | None:
        """Name the clock or the dice, or what may be a way to them."""
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                return name if name in MEMBERS or name.startswith("__") else None
            case ast.Call(func=ast.Name(id="getattr")):
                return "getattr"
            case ast.Name(id=name) if name in self.askers or name in NAMES:
                return name
            case ast.Attribute(attr=name) if name in MEMBERS or name.startswith("__"):
                return name
        return None


class _Entry(ast.AST):
    """A field of a dict: its key and its value, so that it can be a unit."""

    _fields = ("key", "value")
    key: ast.expr
    value: ast.expr


def _children(node: ast.AST) -> Iterator[ast.AST]:
    if not isinstance(node, ast.Dict):
        yield from () if _is_harmless(node) else ast.iter_child_nodes(node)
        return
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            yield value
            continue
        entry = _Entry()
        entry.key, entry.value = key, value
        entry.lineno, entry.col_offset = key.lineno, key.col_offset  # type: ignore[attr-defined]
        yield entry


def _imported(tree: ast.Module) -> Iterator[str]:
    """List the names under which the clock and the dice are known in this text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.partition(".")[0] in MODULES:
                    yield (each.asname or each.name).partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            names = (each for each in node.names if each.name not in HARMLESS)
            yield from (each.asname or each.name for each in names)


def _is_harmless(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="asyncio"), attr=name):
            return name in HARMLESS
    return False


def _said(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
            yield name
        case ast.Constant(value=str(text)):
            yield text
        case ast.keyword(arg=str(name)):
            yield name
        case ast.alias(name=name, asname=other):
            yield f"{name} as {other}"
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)):
            yield name


def _words(target: ast.expr) -> Iterator[str]:
    """List the names an assignment writes; for an attribute, the name of the attribute."""
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case ast.Subscript(value=whole, slice=ast.Constant(value=str(name))):
            yield name
            yield from () if isinstance(whole, ast.Subscript | ast.Name) else _words(whole)
        case ast.Subscript(value=whole):
            yield from _words(whole)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for each in parts:
                yield from _words(each)
        case ast.Starred(value=whole):
            yield from _words(whole)


def _names(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            for each in targets:
                yield from _words(each)
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            yield from _words(target)
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((each.asname or each.name).partition(".")[0] for each in names)
        case ast.If() | ast.For() | ast.While() | ast.With() | ast.Try():
            yield from {each.id for each in ast.walk(statement) if isinstance(each, ast.Name)}
