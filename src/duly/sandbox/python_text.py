"""What is fed to the Python interpreter: the text of `ctx`, and the script made fit for it.

Law 1: no line of a script moves: what is fed before it is fed apart, and what is replaced in it
       keeps its number of lines (X3).
Law 2: a call leaves the interpreter when it is made, as JSON text that was written inside, so that
       a bomb of shared references meets the limit of the script, never the memory of the host.
Law 3: what is not strict JSON is told to the host, which does not answer; an exception could be
       caught by the script (C3).

The interpreter has no `__getattr__`, so `ctx` is written out: the tools of the catalogue, and what
the script calls beside them, for the engine to refuse under the name the script used.
"""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from duly.errors import ScriptError
from duly.rules.catalog import Catalog

HOST: Final = "_duly_host"
CONTEXT: Final = "ctx"
EXPORTED: Final = ("workflow", "producer", "consumer")
OWN_VERBS: Final = ("publish", "peek", "get_by_ids")

# Fed after the authoring names and before the script. Only `_duly_host` leaves the interpreter.
PRELUDE: Final = """
import json as _duly_json

class _DulyModule:
    def __init__(self):
        self.workflow = workflow
        self.producer = producer
        self.consumer = consumer

_duly_module = _DulyModule()

def _duly_problem(value, path, depth):
    kind = type(value).__name__
    if value is None or kind in ("bool", "int", "str"):
        return None
    if kind == "float":
        return None if value - value == 0 else f"{path} is {value}, which JSON does not know."
    if kind not in ("list", "tuple", "dict"):
        return f"{path} is a {kind}. Use a dict, list, string, number, boolean or None."
    if depth > 100:
        return f"{path[:200]} is nested deeper than 100, or contains itself. Make it flatter."
    items = value.items() if kind == "dict" else enumerate(value)
    for key, each in items:
        if kind == "dict" and type(key).__name__ != "str":
            return f"{path} has a key that is a {type(key).__name__}. Keys must be strings."
        place = f"{path}.{key[:40]}" if kind == "dict" else f"{path}[{key}]"
        problem = _duly_problem(each, place, depth + 1)
        if problem:
            return problem
    return None

def _duly_write(value, path, parts):
    try:
        text = _duly_json.dumps(value)
        is_same = _duly_json.loads(text) == value
    except Exception:
        text, is_same = None, False
    if not is_same:
        for part in parts:
            problem = _duly_problem(part, path, 0)
            if problem:
                _duly_host("broke", path, problem)
        if text is None:
            _duly_host("broke", path, f"{path} is not JSON.")
    return text

async def _duly_read(future):
    return _duly_json.loads(await future)

def _duly_call(path, args, kwargs):
    text = _duly_write([[*args], kwargs], path, [kwargs, [*args]])
    return _duly_read(_duly_host("call", path, text))

async def _duly_step(handler, step, given):
    function = _duly_function(_duly_declared[0], handler, step)
    value = function(_duly_context(), *_duly_json.loads(given))
    if type(value).__name__ == "coroutine":
        value = await value
    return None if value is None else _duly_write(value, "result", [value])

def _duly_declare():
    raw = [_duly_raw(each) for each in _duly_declared]
    return _duly_write(raw, "workflow", raw)
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """A script as it is fed, and what was seen in it on the way."""

    text: str
    attributes: tuple[tuple[str, ...], ...]
    lines: Mapping[str, int]


def read(text: str) -> Reading:
    """Make a script fit for the interpreter: `duly` is no module there, but a value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    return Reading(_without_imports(text, tree), tuple(_attributes(tree)), _lines(tree))


def context_text(catalog: Catalog, reading: Reading) -> str:
    """Write the classes that `ctx` is made of."""
    tools: dict[str, set[str]] = defaultdict(set)
    for tool in catalog.tools:
        room, _, name = tool.name.partition(".")
        tools[room].add(name)
    verbs = set(OWN_VERBS)
    for path in reading.attributes:
        if len(path) == 2:
            tools[path[0]].add(path[1])
        elif path[0] not in tools:
            verbs.add(path[0])
    parts = [_class_text(f"_DulyTools_{room}", f"{room}.", tools[room]) for room in sorted(tools)]
    made = [f"        self.{room} = _DulyTools_{room}()" for room in sorted(tools)]
    begin = ["    def __init__(self):", *(made or ["        pass"])]
    verbs -= tools.keys()
    return "\n".join([*parts, _class_text("_duly_context", "", verbs, begin)])


def _class_text(name: str, prefix: str, methods: set[str], begin: list[str] | None = None) -> str:
    lines = [f"class {name}:", *(begin or [])]
    for method in sorted(methods):
        lines.append(f"    def {method}(self, *args, **kwargs):")
        lines.append(f'        return _duly_call("{prefix}{method}", args, kwargs)')
    return "\n".join(lines)


def _attributes(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """List what is called on `ctx`: one name for a verb, two for a tool."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            path = _path_of(node.func)
            if path[0] == CONTEXT and len(path) in (2, 3) and not any(p[:1] == "_" for p in path):
                yield path[1:]


def _path_of(node: ast.expr) -> tuple[str, ...]:
    """Spell a chain of attributes: the name it hangs on, then every attribute."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    names.append(node.id if isinstance(node, ast.Name) else "")
    return tuple(reversed(names))


def _lines(tree: ast.Module) -> dict[str, int]:
    """Find the line of every method that is called in one place only.

    The interpreter does not say which line of the script a call came from. A name that is called
    in one place has one line; of any other the line is not known, which is better than a guess.
    """
    modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    places: dict[str, set[int]] = defaultdict(set)
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if _path_of(node.func)[0] not in modules:
            places[node.func.attr].add(node.lineno)
    return {name: min(lines) for name, lines in places.items() if len(lines) == 1}


# -- The module that is a value -----------------------------------------------------------------


def _without_imports(text: str, tree: ast.Module) -> str:
    """Replace imports of `duly` by assignments that take as many lines."""
    # A form feed or a lone carriage return is no end of a line to Python's parser.
    lines = [line.encode() for line in text.split("\n")]
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in sorted(found, key=lambda each: (each.lineno, each.col_offset), reverse=True):
        statements = _assignments(node)
        if statements is None:
            continue
        assert node.end_lineno is not None and node.end_col_offset is not None
        first, last = node.lineno - 1, node.end_lineno - 1
        before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        held = [before + "; ".join(statements).encode(), *[b""] * (last - first)]
        lines[first : last + 1] = [*(line + b" \\" for line in held[:-1]), held[-1] + after]
    return b"\n".join(lines).decode()


def _assignments(node: ast.Import | ast.ImportFrom) -> list[str] | None:
    if isinstance(node, ast.ImportFrom):
        if node.module != "duly" or node.level:
            return None
        return [_assignment(node, alias) for alias in node.names]
    if all(alias.name.partition(".")[0] != "duly" for alias in node.names):
        return None
    return [
        f"{alias.asname or alias.name} = _duly_module"
        if alias.name == "duly"
        else f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
        for alias in node.names
    ]


def _assignment(node: ast.ImportFrom, alias: ast.alias) -> str:
    if alias.name not in EXPORTED:
        raise ScriptError(
            f"duly.{alias.name} is not for scripts. Import {', '.join(EXPORTED)}.",
            line=node.lineno,
            column=node.col_offset + 1,
        )
    return f"{alias.asname or alias.name} = _duly_module.{alias.name}"
