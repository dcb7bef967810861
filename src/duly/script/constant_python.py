"""Which arguments of a Python text are constants for certain; runs nothing (M9).

Law: a person is shown a constant only if no run can have another value there. A name is certain
when the whole text binds it once, to something that is certain and cannot be changed in place.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from duly.script.outline import KEYS_MAX, TEXT_CHARS_MAX, Effort, WrittenArgument

BUILT_IN: Final = frozenset(dir(builtins))
DEPTH_MAX: Final = 20  # of names that stand for names, and of texts that are put together


@dataclass(slots=True)
class PythonConstants:
    """The names of a text: how often each is bound, and to what."""

    bound: Counter[str] = field(default_factory=Counter)
    values: dict[str, ast.expr] = field(default_factory=dict)
    effort: Effort = field(default_factory=Effort)

    def read(self, tree: ast.Module, effort: Effort) -> None:
        """Count every place where a name is bound, in any scope."""
        self.effort = effort
        for node in ast.walk(tree):
            effort.spend()
            match node:
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                    self.bound[name] += 1
                case ast.arg(arg=name) | ast.alias(name=name, asname=None):
                    self.bound[name] += 1
                case ast.alias(asname=str(name)):
                    self.bound[name] += 1
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    self.bound[name] += 1
                case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                    self.bound[name] += 1
                case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                    self.bound[name] += 1
                case ast.MatchMapping(rest=str(name)):
                    self.bound[name] += 1
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.values[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.values[name] = value

    def find(self, node: ast.expr, depth: int = 0) -> str | None:
        """Return what an expression is in every run, as text; None if the text does not prove it.

        A number and a truth value are written as the text writes them.
        """
        self.effort.spend()
        if depth > DEPTH_MAX:
            return None
        match node:
            case ast.Constant(value=str(text)):
                return text[:TEXT_CHARS_MAX]
            case ast.Constant(value=bool() | int() | float() as value):
                return str(value)
            case ast.Name(id=name) if self.bound[name] == 1 and name in self.values:
                return self.find(self.values[name], depth + 1)
            case ast.JoinedStr(values=parts):
                return self._join(parts, depth)
            case ast.FormattedValue(value=value, format_spec=None, conversion=-1):
                return self.find(value, depth + 1)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._join([left, right], depth)
        return None

    def _join(self, parts: list[ast.expr], depth: int) -> str | None:
        whole = ""
        for each in parts:
            text = self.find(each, depth + 1)
            if text is None or _is_number(each):
                return None
            whole = (whole + text)[:TEXT_CHARS_MAX]
        return whole

    def write(self, node: ast.expr, depth: int = 0) -> WrittenArgument:
        """Say how an argument is written; an object or a list is taken apart where it stands."""
        match node:
            case ast.Dict(keys=keys, values=values) if depth < DEPTH_MAX:
                names = [None if key is None else self.find(key) for key in keys]
                if names and all(name is not None for name in names):
                    pairs = zip(names, values, strict=True)
                    inner = tuple((str(name), self.write(each, depth + 1)) for name, each in pairs)
                    return WrittenArgument(parts=inner)
            case ast.List(elts=items) if depth < DEPTH_MAX and items:
                if not any(isinstance(each, ast.Starred) for each in items):
                    numbered = enumerate(items, 1)
                    inner = tuple((str(at), self.write(each, depth + 1)) for at, each in numbered)
                    return WrittenArgument(parts=inner)
        text = self.find(node)
        return WrittenArgument(text) if text is not None else WrittenArgument(keys=self._keys(node))

    def _keys(self, node: ast.expr) -> tuple[str, ...]:
        keys: dict[str, None] = {}
        names: dict[str, None] = {}
        for each in ast.walk(node):
            self.effort.spend()
            match each:
                case ast.Subscript(slice=ast.Constant(value=str(key))):
                    keys[key] = None
                case ast.Call(
                    func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *_]
                ):
                    keys[key] = None
                case ast.Name(id=name) if name not in BUILT_IN:
                    names[name] = None
        return tuple(keys or names)[:KEYS_MAX]


def _is_number(node: ast.expr) -> bool:
    """Tell whether a sum could be one of numbers, which is no text put together."""
    return isinstance(node, ast.Constant) and not isinstance(node.value, str)
