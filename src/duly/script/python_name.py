"""What the names of a Python module stand for; runs nothing.

Law: a name is followed as far as a reader of the text would follow it: to a constant, a function, a
part of `ctx`. Where the text does not say, nothing is known.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from duly.rules.catalog import JsonType
from duly.script.outline import (
    SOME_PART,
    Alias,
    Effort,
    Function,
    NameScope,
    Place,
    Text,
    Value,
    joined,
    one_of,
)

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

DICE: Final = ("random.", "secrets.", "uuid.", "uuid4")
CLOCKS: Final = (
    *("time.time", "time.monotonic", "datetime.now", "datetime.utcnow"),
    *("datetime.datetime.now", "datetime.datetime.utcnow"),
)
# A time cut to its day is fine in a message id: it is the day the event is for.
DAYS: Final = frozenset({"date", "strftime", "split", "partition"})
TYPES: Final[Mapping[type, JsonType]] = {
    str: JsonType.STRING,
    bool: JsonType.BOOLEAN,
    int: JsonType.INTEGER,
    float: JsonType.NUMBER,
    type(None): JsonType.NULL,
}


def dotted(node: ast.expr) -> str:
    """Write a chain of names as text; anything else is empty."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def parameters_of(node: Definition, *, is_method: bool) -> list[str]:
    """List the parameters of a function, without the one that a method is called on."""
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    return names[1:] if is_method else names


@dataclass(slots=True)
class PythonNames:
    """The functions, classes and variables of a module."""

    text: Text
    effort: Effort = field(default_factory=Effort)
    definitions: dict[str, Definition] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    variables: dict[str, ast.expr | None] = field(default_factory=dict)
    constants: dict[str, Value] = field(default_factory=dict)
    methods: dict[str, dict[str, Definition]] = field(default_factory=dict)

    def place(self, node: ast.AST) -> Place:
        """Return where a node stands."""
        return self.text.place(getattr(node, "lineno", 1) - 1, getattr(node, "col_offset", 0))

    def define(self, node: ast.stmt) -> None:
        """Learn a name of the module."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.definitions[node.name] = node
            case ast.ClassDef():
                self.classes[node.name] = node
            case ast.Assign(targets=targets, value=value):
                for name in (one.id for one in targets if isinstance(one, ast.Name)):
                    self.variables[name] = None if name in self.variables else value
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                self.variables[name] = value

    def shared_name(self, node: ast.expr, scope: NameScope) -> str | None:
        """Name what a node stands for, if other steps could see it: a global, or a part of self."""
        match node:
            case ast.Name(id=name) if name in scope.globals or (
                name in self.variables and name not in scope.names
            ):
                return name
            case ast.Attribute(value=ast.Name(id="self"), attr=part) if scope.owner:
                return None if self.method(scope.owner, part) else f"{scope.owner}.{part}"
        return None

    def method(self, owner: str, name: str) -> Definition | None:
        """Return the method of a class."""
        if owner not in self.methods:
            inside = self.classes[owner].body
            # Of two of one name the first is taken.
            found = {each.name: each for each in reversed(inside) if isinstance(each, Definition)}
            self.methods[owner] = found
        return self.methods[owner].get(name)

    def definition(self, node: ast.expr, scope: NameScope) -> tuple[Definition | None, str]:
        """Return the function of this text that an expression names, and the class it is in."""
        match node:
            case ast.Name(id=name) if name in scope.names:
                inner = scope.names[name]
                return (inner if isinstance(inner, Definition) else None), ""
            case ast.Name(id=name):
                return self.definitions.get(name), ""
            case ast.Attribute(value=ast.Name(id="self"), attr=part) if scope.owner:
                return self.method(scope.owner, part), scope.owner
        return None, ""

    def alias(self, node: ast.expr, scope: NameScope) -> Alias | None:
        """Return which part of `ctx` an expression stands for, if any."""
        self.effort.spend()
        match node:
            case ast.Name(id=name):
                known = scope.names.get(name)
                return known if isinstance(known, Alias) else None
            case ast.Attribute(value=value, attr=part):
                whole = self.alias(value, scope)
                return None if whole is None else whole.part(part)
            case ast.Subscript(value=value):
                return None if self.alias(value, scope) is None else SOME_PART
            case ast.Call(func=ast.Name(id="getattr"), args=[value, name, *_]):
                whole, text = self.alias(value, scope), self.value(name, scope).text
                if whole is not None:
                    return SOME_PART if text is None else whole.part(text)
        return None

    def value(self, node: ast.expr, scope: NameScope) -> Value:
        """Say what is known of an expression without running it."""
        self.effort.spend()
        place = self.place(node)
        match node:
            case ast.Constant(value=constant):
                text = constant if isinstance(constant, str) else None
                return Value(place, TYPES.get(type(constant)), text)
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self._named(node, scope)
            case ast.JoinedStr(values=parts):
                text = joined(self.value(each, scope).text for each in parts)
                return Value(place, JsonType.STRING, text, chance=self._chance(node, scope))
            case ast.FormattedValue(value=value, format_spec=None):
                return Value(place, text=self.value(value, scope).text)
            case ast.Dict(keys=keys, values=values):
                fields: dict[str, Value] = {}
                for key, each in zip(keys, values, strict=True):
                    text = None if key is None else self.value(key, scope).text
                    if text is not None:
                        fields[text] = self.value(each, scope)
                is_open = len(fields) < len(keys)
                return Value(place, JsonType.OBJECT, fields=fields, is_open=is_open)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                is_open = any(isinstance(each, ast.Starred) for each in items)
                known = tuple(self.value(each, scope) for each in items)
                return Value(place, JsonType.LIST, items=known, is_open=is_open)
            case ast.ListComp():
                return Value(place, JsonType.LIST, is_open=True)
            case ast.IfExp(body=body, orelse=orelse):
                either = one_of((self.value(body, scope), self.value(orelse, scope)))
                return Value(place, chance=self._chance(node, scope), either=either)
        return Value(place, chance=self._chance(node, scope))

    def _named(self, node: ast.Name | ast.Attribute | ast.Subscript, scope: NameScope) -> Value:
        """Follow a name to the constant it stands for, and a key into it."""
        place = self.place(node)
        known: object = None
        if isinstance(node, ast.Name):
            if node.id in scope.names or node.id in scope.globals:
                known = scope.names.get(node.id)
            elif node.id in self.variables:
                known = self._constant(node.id, place)
        elif isinstance(node, ast.Subscript):
            whole = self.value(node.value, scope)
            key = self.value(node.slice, scope).text
            known = (whole.fields or {}).get(key or "") if not whole.is_open else None
        if isinstance(known, Value):
            return replace(known, place=place)
        return Value(place, chance=self._chance(node, scope))

    def _constant(self, name: str, place: Place) -> Value:
        """Read a constant of the module once; one that is made of itself is not known."""
        if name not in self.constants:
            self.constants[name] = Value(place)
            if (constant := self.variables[name]) is not None:
                self.constants[name] = self.value(constant, NameScope(Function(place), ""))
        return self.constants[name]

    def _chance(self, node: ast.expr, scope: NameScope) -> str | None:
        """Name the clock or the dice that an expression asks, also through a variable."""
        waiting: list[tuple[ast.AST, bool]] = [(node, False)]
        seen: set[str] = set()
        while waiting:
            each, is_day = waiting.pop()
            self.effort.spend()
            name = dotted(each.func) if isinstance(each, ast.Call) else ""
            if name in self.definitions and name not in seen:
                seen.add(name)
                waiting.append((self.definitions[name], True))
            if isinstance(each, ast.Name):
                known = scope.names.get(each.id)
                name = (isinstance(known, Value) and known.chance) or ""
            if name.startswith(DICE) or (name.startswith(CLOCKS) and not is_day):
                return name
            below = is_day or self._is_day(each)
            if not isinstance(each, ast.Await):  # The result of a tool is not random.
                waiting += [(inner, below) for inner in ast.iter_child_nodes(each)]
        return None

    def _is_day(self, node: ast.AST) -> bool:
        """Tell whether an expression may leave only the day of a moment."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in DAYS
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id in self.definitions
        is_cut = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)
        return is_cut or isinstance(node, ast.Lambda | ast.Compare)
