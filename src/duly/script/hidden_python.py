"""Where a Python text uses `ctx` so that no reader could follow it; runs nothing (W5, M9).

Law 1: what a step does through `ctx` stands in the text as a call, `ctx.mail.send(…)`: also through
       a name for a part of `ctx`, and in a function of the text that `ctx` is handed to. Every
       other place where such a name stands is reported: what happens there cannot be listed, and
       so no person could agree to it.
Law 2: a function that is followed is the one that runs: a name that is given twice, exchanged or
       decorated is reported where `ctx` goes through it.

There is always one more way to hide a call. So nothing here is a list of bad forms but of the few
that are read; the names of the interpreter's own doors stand beside it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from duly.script.outline import Effort
from duly.script.python_name import Definition

# They give out, or exchange, what a function or a module holds, without its name.
DOORS: Final = frozenset({"locals", "vars", "globals", "setattr", "delattr"})
FRAMES: Final = frozenset(
    {"cr_frame", "gi_frame", "ag_frame", "tb_frame", "f_locals", "f_back", "cell_contents"}
)
HARMLESS: Final = frozenset({"__name__", "__class__", "__doc__", "__init__"})


@dataclass(slots=True)
class FollowedNames:
    """What a reader of flows has followed, and which names stand for `ctx` or a part of it.

    Names belong to a whole function of the module, with all that is written inside of it.
    """

    nodes: set[ast.AST] = field(default_factory=set)
    holders: dict[str, set[str]] = field(default_factory=dict)
    read: dict[str, Definition] = field(default_factory=dict)

    def enter(self, key: str, node: Definition) -> None:
        """Note that a function is read; the outermost one counts."""
        self.read.setdefault(_outermost(key), node)

    def hold(self, key: str, name: str) -> None:
        """Note that a name stands for a part of `ctx` somewhere in a function."""
        self.holders.setdefault(_outermost(key), set()).add(name)

    def follow(self, node: ast.expr) -> None:
        """Note that the name an expression begins with is followed where it stands."""
        root: ast.expr = node
        while not isinstance(root, ast.Name):
            match root:
                case ast.Attribute(value=inner) | ast.Subscript(value=inner):
                    root = inner
                case ast.Call(args=[inner, *_]):  # getattr
                    root = inner
                case _:
                    return
        self.nodes.add(root)


def find_hidden(tree: ast.Module, followed: FollowedNames, effort: Effort) -> Iterator[ast.AST]:
    """Yield the places where a text uses `ctx` in a way that is not followed."""
    for key, held in followed.holders.items():
        # What decorates the outermost function is its place in the workflow, or judged below.
        for each in ast.walk(ast.Module([*followed.read[key].body], [])):
            effort.spend()
            if isinstance(each, ast.Name) and _is_lost(each, held, followed):
                yield each
    for node in ast.walk(tree):
        effort.spend()
        if _is_door(node):
            yield node
    yield from _exchanged(tree, followed, effort)


def _is_lost(node: ast.Name, held: set[str], followed: FollowedNames) -> bool:
    """Tell whether a name of a part of `ctx` stands where nothing is known of it any more."""
    if not isinstance(node.ctx, ast.Load):
        return node.id == "self"  # the methods of another object would be called then
    return node.id in held and node not in followed.nodes


def _is_door(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return name in DOORS
        case ast.alias(name=name):
            return name == "*"
        case ast.Attribute(attr=name):
            is_inner = name.startswith("__") and name.endswith("__") and name not in HARMLESS
            return is_inner or name in FRAMES
    return False


def _exchanged(tree: ast.Module, followed: FollowedNames, effort: Effort) -> Iterator[ast.AST]:
    """Yield where a function that `ctx` goes through may be another one when the text runs."""
    functions = [followed.read[key] for key in followed.holders]
    passing = {each.name for each in functions}
    bodies: list[list[ast.stmt]] = [tree.body]
    bodies += [each.body for each in tree.body if isinstance(each, ast.ClassDef)]
    for body in bodies:
        names: Counter[str] = Counter()
        for statement in body:
            effort.spend()
            for each, name in _bound(statement, effort):
                names[name] += 1
                if name in passing and names[name] > 1:
                    yield each
    for node in ast.walk(tree):
        effort.spend()
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if node.attr in passing:
                yield node
        elif isinstance(node, ast.Global) and passing & {*node.names}:
            yield node
    methods = {*map(id, functions)}
    for owner in tree.body:
        inside = owner.body if isinstance(owner, ast.ClassDef) else [owner]
        read = [each for each in inside if id(each) in methods]
        if isinstance(owner, ast.ClassDef) and read:
            read.append(owner)
            if owner.bases or owner.keywords:
                yield owner
        for each in read:
            yield from (one for one in getattr(each, "decorator_list", ()) if not _is_ours(one))


def _is_ours(decorator: ast.expr) -> bool:
    """Tell whether a decorator gives a function its place in the workflow."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Attribute) and called.attr in ("producer", "consumer")


def _bound(statement: ast.stmt, effort: Effort) -> Iterator[tuple[ast.AST, str]]:
    """Yield the names that a statement binds in its own block, also inside an `if` or a loop."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        effort.spend()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node, name
                continue
            case ast.ClassDef(name=name):
                yield node, name
                continue
            case ast.Lambda():
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield node, name
            case ast.alias(name=name, asname=other):
                yield node, other or name.partition(".")[0]
        waiting += ast.iter_child_nodes(node)


def _outermost(key: str) -> str:
    """Return which function of the module a reading belongs to: its name and place."""
    return key.split("/")[1].partition("(")[0]
