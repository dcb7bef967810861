"""What is fed to the Python interpreter: the text of `ctx`, and the script made fit for it.

Law 1: no line of a script moves: what is fed before it is fed apart, and what is replaced in it
       keeps its number of lines (X3).
Law 2: a call leaves the interpreter when it is made, as JSON text that was written inside, so that
       a bomb of shared references meets the limit of the script, never the memory of the host.
Law 3: what is not strict JSON is told to the host, which does not answer; an exception could be
       caught by the script (C3).
Law 4: a script may call its own things as it likes: what is fed before it uses no name that a
       script could take, neither Python's nor its own. It knows a value by its type, not by the
       name of its type, which a script can give to a class of its own.

The interpreter has no `__getattr__`, so `ctx` is written out: the tools of the catalogue, and every
other attribute that stands anywhere in the script, on any object. So an unknown tool is a call like
any other, and the engine refuses it under the name the script used (C3).
"""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from keyword import iskeyword
from typing import Final

import msgspec

from duly.config import Limits
from duly.errors import ScriptError
from duly.rules.catalog import Catalog
from duly.sandbox.study_problem import decode_problem, encode_problem

HOST: Final = "_duly_host"
WARM_UP: Final = "import duly\nä = duly.x()".encode()
BYTE_ORDER_MARK: Final = "\ufeff"
NO_TOOLS: Final = ("__", "_duly")  # how no tool that a script means begins
EXPORTED: Final = ("workflow", "producer", "consumer")
OWN_VERBS: Final = ("publish", "peek", "get_by_ids")
NO_CALLS: Final = ("result", "workflow")  # what else is written as JSON, and stands in no one line

# Fed after the authoring names and before the script. Only `_duly_host` leaves the interpreter.
PRELUDE: Final = """
import json as _duly_json
from dataclasses import dataclass as _duly_dataclass

_duly_type = type
_duly_Exception = Exception
_duly_str = str
_duly_exec = exec

def _duly_late(text, name):
    known = {}
    _duly_exec(text, known)
    return known[name]

def _duly_make_module():
    class duly:
        def __init__(self):
            self.workflow = workflow
            self.producer = producer
            self.consumer = consumer
    return duly()

_duly_module = _duly_make_module()

def _duly_write(value, path, parts):
    try:
        text = _duly_json.dumps(value)
        is_same = _duly_json.loads(text) == value
    except _duly_Exception:
        text, is_same = None, False
    if not is_same:
        find = _duly_late(_duly_problem_text, "problem")
        for part in parts:
            problem = find(part, path, 0, _duly_depth)
            if problem:
                _duly_host("broke", path, problem)
        if text is None:
            _duly_host("broke", path, f"{path} is not JSON.")
    return text

async def _duly_read(future):
    return _duly_json.loads(await future)

def _duly_call(tool, name, args, kwargs):
    path = tool._duly_path + name
    text = _duly_write([[*args], kwargs], path, [kwargs, [*args]])
    return _duly_read(_duly_host("call", path, text))

async def _duly_step(handler, step, given):
    _duly_begin_log()
    _duly_declared[0].is_closed = True
    function = _duly_function(_duly_declared[0], handler, step)
    value = function(_duly_context, *_duly_json.loads(given))
    if _duly_type(value).__name__ == "coroutine":
        value = await value
    return None if value is None else _duly_write(value, "result", [value])
"""

# Fed when the image was made: only deploy needs it.
DECLARE: Final = """
def _duly_declare():
    raw = [_duly_raw(each) for each in _duly_declared]
    return _duly_write(raw, "workflow", raw)

_duly_declare()
"""

# Kept as texts until a script needs them: a text is read in no time, a function is not.
PRINT: Final = """
def _duly_make_print(raw, string, lines_max, chars_max):
    from sys import stderr
    passed, is_begun = 0, False
    dropped, is_begun_line = 0, False

    def begin():
        nonlocal passed, is_begun
        if not is_begun:
            passed, is_begun = 0, True

    def say(text):
        nonlocal passed, dropped, is_begun_line
        start = 0
        while passed < lines_max:
            end = text.find("\\n", start)
            if end < 0:
                raw(text[start : start + chars_max], end="")
                return
            raw(text[start : end if end - start < chars_max else start + chars_max])
            start, passed = end + 1, passed + 1
        count = text.count("\\n", start)
        if count:
            dropped, is_begun_line = dropped + count, False
            start = text.rfind("\\n") + 1
        if text[start : start + 1]:
            is_begun_line = True

    def print(*args, sep=None, end=None, file=None, flush=False):
        nonlocal dropped, is_begun_line
        raw(sep=sep, end=end if end is not None and end != string(end) else "", file=file)
        is_first = True
        for each in args:
            if not is_first:
                say(" " if sep is None else sep)
            is_first = False
            say(string(each))
        say("\\n" if end is None else end)
        if dropped or is_begun_line:
            raw(f"{dropped}+" if is_begun_line else dropped, file=stderr)
            dropped, is_begun_line = 0, False

    return print, begin
"""
PROBLEM: Final = """
def problem(value, path, depth, depth_max):
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return None
    if kind is float:
        return None if value - value == 0 else f"{path} is {value}, which JSON does not know."
    if kind not in (list, tuple, dict):
        return f"{path} is a {kind.__name__}. Use a dict, list, string, number, boolean or None."
    if depth > depth_max:
        return f"{path[:200]} is nested too deeply, or contains itself. Make it flatter."
    items = value.items() if kind is dict else enumerate(value)
    for key, each in items:
        if kind is dict and type(key) is not str:
            return f"{path} has a key that is a {type(key).__name__}. Keys must be strings."
        place = f"{path}.{key[:40]}" if kind is dict else f"{path}[{key}]"
        found = problem(each, place, depth + 1, depth_max)
        if found:
            return found
    return None
"""
# A `print` that is made when it is first called.
LATE_PRINT: Final = """
def _duly_make_late_print(raw, string, lines_max, chars_max):
    made = None

    def print(*args, **kwargs):
        nonlocal made
        if made is None:
            make = _duly_late(_duly_print_text, "_duly_make_print")
            made = make(raw, string, lines_max, chars_max)
        made[0](*args, **kwargs)

    def begin():
        if made is not None:
            made[1]()

    return print, begin

print, _duly_begin_log = _duly_make_late_print(print, str, {rooms})
"""
AT_ONCE_PRINT: Final = """
{make}
print, _duly_begin_log = _duly_make_print(print, str, {rooms})
"""
DECLARING: Final = ("_duly_raw", "_duly_marked")  # the names that only DECLARE uses


@dataclass(frozen=True, slots=True)
class TypeQuestion:
    """A text for the type checker, the stubs of what is around it, and of the module `duly`.

    The text begins with a line that the checker refuses, so nothing of it is ever run.
    """

    text: str
    stubs: str
    module: str


@dataclass(frozen=True, slots=True)
class FedScript:
    """A script as it is fed, and what was seen in it on the way."""

    text: str
    attributes: frozenset[str]
    rooms: frozenset[tuple[str, str]]  # attributes of attributes that have attributes themselves
    lines: Mapping[str, int]


_READING: Final = msgspec.msgpack.Decoder(tuple[bytes | None, FedScript | None])


def read_apart(body: bytes) -> bytes:
    """Read a script in a worker that reads sources; return what it is, or why it is none."""
    try:
        reading = read((body or WARM_UP).decode())
    except ScriptError as error:
        return msgspec.msgpack.encode((encode_problem(error), None))
    return msgspec.msgpack.encode((None, reading))


def decode_reading(body: bytes) -> FedScript:
    """Read what a worker made of a script; raise what is wrong with it."""
    try:
        problem, reading = _READING.decode(body)
    except msgspec.MsgspecError:
        raise ScriptError(code="reader_died", is_lost=True) from None
    if reading is None:
        raise decode_problem(problem or b"") or ScriptError(code="reader_died", is_lost=True)
    return reading


def read(text: str) -> FedScript:
    """Make a script fit for the interpreter: `duly` is no module there, but a value."""
    text = text.removeprefix(BYTE_ORDER_MARK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    return FedScript(
        _without_imports(text, tree),
        frozenset(_attributes(tree)),
        frozenset(_rooms(tree)),
        _lines(tree),
    )


@cache  # one text for every host of a process, and a twentieth of what opening one takes
def split_names(names: str) -> tuple[str, str]:
    """Split the authoring names: what a script is loaded with, and what only deploy needs.

    What no script can see is left out: comments, documentation, types.
    """
    tree = _Bare().visit(ast.parse(names))
    parts: tuple[list[ast.stmt], list[ast.stmt]] = ([], [])
    for node in tree.body:
        is_late = isinstance(node, ast.FunctionDef) and node.name in DECLARING
        parts[is_late].append(node)
    loading, declaring = (ast.unparse(ast.Module(part, [])) for part in parts)
    return loading, declaring


class _Bare(ast.NodeTransformer):
    """Takes out what the interpreter has no use for."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | ast.Pass:
        return ast.Pass() if isinstance(node.value, ast.Constant) else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return node
        return ast.Assign([node.target], node.value, lineno=node.lineno)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node


def print_text(limits: Limits, text: str) -> str:
    """Write the `print` of a script: it drops what the log has no room for before it crosses (X4).

    It passes on at least what the host keeps: so many lines, so much of each. Of the rest only the
    number of lines crosses, on the other stream, which no script can write to. A script whose text
    does not have the word gets a `print` that is made when it is called.
    """
    rooms = f"{limits.log_lines}, {limits.log_line_chars}"
    if "print" in text:
        return AT_ONCE_PRINT.replace("{make}", PRINT).replace("{rooms}", rooms)
    return f"_duly_print_text = {PRINT!r}\n" + LATE_PRINT.replace("{rooms}", rooms)


def context_text(catalog: Catalog, reading: FedScript, depth: int) -> str:
    """Write the classes that `ctx` is made of.

    All are frozen, so that a script that assigns to a tool is told so. They stand in a function:
    their names are for messages, and no script finds them.
    """
    first, second = set(OWN_VERBS) | reading.attributes, set(reading.attributes)
    for tool in catalog.tools:
        room, _, name = tool.name.partition(".")
        first.add(room)
        second.add(name)
    # No tool has three names; the engine refuses ctx.google.mail.send() as well.
    rooms = sorted({room for room, _ in reading.rooms})
    inner = sorted({name for _, name in reading.rooms})
    make = ["    make = tool"]
    if rooms:
        make = [
            *_tools_text("tools", inner, sorted(second - {*inner})),
            "    def make(name):",
            f"        if name not in {rooms}:",
            "            return tool(name)",
            f'        return tools(name, *[tool(f"{{name}}.{{each}}") for each in {inner}])',
        ]
    return "\n".join(
        [
            f"_duly_depth = {depth}",
            f"_duly_problem_text = {PROBLEM!r}",
            "def _duly_make_context():",
            *_tools_text("tool", [], sorted(second)),
            *make,
            "    @_duly_dataclass(frozen=True)",
            "    class ctx:",
            *(f"        {name}: object" for name in sorted(first)),
            '        def __repr__(self): return "[ctx]"',
            f"    return ctx(*[make(name) for name in {sorted(first)}])",
            "_duly_context = _duly_make_context()",
        ]
    )


def _tools_text(kind: str, fields: list[str], methods: list[str]) -> Iterator[str]:
    """Write an attribute of `ctx`: it can be called, and so can its own attributes."""
    yield "    @_duly_dataclass(frozen=True)"
    yield f"    class {kind}:"
    yield "        _duly_path: str"
    for name in fields:
        yield f"        {name}: object"
    yield '        def __repr__(self): return f"[ctx.{self._duly_path}]"'
    yield "        def __call__(self, *args, **kwargs):"
    yield "            return _duly_call(self, '', args, kwargs)"
    for name in methods:
        yield f"        def {name}(self, *args, **kwargs):"
        yield f'            return _duly_call(self, ".{name}", args, kwargs)'


def _attributes(tree: ast.Module) -> Iterator[str]:
    """List every attribute of the text that could be meant for a tool."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if not name.startswith(NO_TOOLS):
                yield name
            case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str(name))]):
                if name.isidentifier() and not iskeyword(name) and not name.startswith(NO_TOOLS):
                    yield name


def _rooms(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """List what a script takes for a room inside a room: ctx.google.mail.send."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Attribute(ast.Attribute(attr=room), attr=name)):
                if not room.startswith(NO_TOOLS) and not name.startswith(NO_TOOLS):
                    yield room, name


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
    in one place, and is not taken to be called elsewhere, has one line; of any other the line is
    not known, which is better than a guess.
    """
    modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    called: set[ast.AST] = set()
    places: dict[str, set[int]] = defaultdict(set)
    taken: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called.add(node.func)
            if _path_of(node.func)[0] not in modules:
                places[node.func.attr].add(node.lineno)
        elif isinstance(node, ast.Attribute) and node not in called:
            taken.add(node.attr)
        elif isinstance(node, ast.Name) and node.id == "getattr":
            return {}  # what is looked up by a name that is made at run time may be any tool
    return {
        name: min(lines) for name, lines in places.items() if len(lines) == 1 and name not in taken
    }


# -- The module that is a value -----------------------------------------------------------------


def _without_imports(text: str, tree: ast.Module) -> str:
    """Replace imports of `duly` by assignments that take as many lines."""
    # A source has line feeds only; a form feed is no end of a line to Python's parser.
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
            code="not_for_scripts",
            subject=f"duly.{alias.name}",
            facts={"known": list(EXPORTED)},
            line=node.lineno,
            column=node.col_offset + 1,
        )
    return f"{alias.asname or alias.name} = _duly_module.{alias.name}"
