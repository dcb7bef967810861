"""What Python has and the interpreter of scripts lacks: each with its place and a replacement.

Law: a text that Monty 1.4.0 cannot run is refused before it runs, and the message says what to
write instead (W5). `tests/sandbox` checks the tables against the interpreter itself: what they name
is lacking, what they do not name works.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from duly.errors import ScriptError

MODULES: Final = frozenset(
    {
        *("__future__", "asyncio", "base64", "binascii", "bisect", "collections", "copy", "csv"),
        *("dataclasses", "datetime", "decimal", "duly", "functools", "hashlib", "itertools"),
        *("json", "math", "os", "pathlib", "random", "re", "sys", "time", "tomllib", "typing"),
        "unicodedata",
    }
)
INSTEAD_OF_MODULE: Final = {
    "abc": "Write plain functions.",
    "calendar": "Count with datetime and timedelta.",
    "collections.abc": "Take the names from typing, or leave the annotation out.",
    "contextlib": "Use try and finally.",
    "enum": "Use constants, or a tuple of the words.",
    "heapq": "Sort the list with sorted().",
    "html": 'Use str.replace for the few characters you need ("&amp;", "&lt;", "&gt;").',
    "httpx": "Call a tool of ctx; scripts have no network.",
    "io": "Join strings; csv.reader takes a list of lines.",
    "logging": "Use print; it goes to the run's log.",
    "operator": "Use a lambda.",
    "requests": "Call a tool of ctx; scripts have no network.",
    "secrets": "Use a message id that comes from the outside; nothing here may be unguessable.",
    "socket": "Call a tool of ctx; scripts have no network.",
    "statistics": "Use sum(values) / len(values), or sorted().",
    "string": 'Write the characters out: "abcdefghijklmnopqrstuvwxyz".',
    "subprocess": "Call a tool of ctx; scripts start no processes.",
    "textwrap": "Use slices and str.split.",
    "threading": "Use asyncio.gather.",
    "traceback": "Let the exception go; the run's log has its line.",
    "types": "Leave the annotation out.",
    "urllib": "Use str.split and str.replace; to fetch, call a tool of ctx.",
    "urllib.parse": "Use str.split and str.replace; to fetch, call a tool of ctx.",
    "uuid": "Use the id the outside gave, or hashlib.sha256 of what identifies the thing.",
    "zoneinfo": "Ask ctx.clock; the interpreter knows UTC and fixed offsets only.",
}
INSTEAD_OF_MEMBER: Final = {
    "asyncio": {
        **dict.fromkeys(
            ("create_task", "wait", "as_completed", "TaskGroup", "ensure_future"),
            "Use asyncio.gather, or call without await: a call is made when it is called.",
        ),
        **dict.fromkeys(
            ("wait_for", "timeout"), "Leave it out; the host limits how long a call takes."
        ),
        **dict.fromkeys(
            ("Queue", "Lock", "Semaphore", "Event", "get_event_loop"),
            "Leave it out; a step is one task.",
        ),
    },
    "collections": {"OrderedDict": "Use a dict; it keeps its order."},
    "dataclasses": dict.fromkeys(("asdict", "replace"), "Build the dict yourself."),
    "datetime": {"UTC": "Use timezone.utc."},
    "functools": dict.fromkeys(("wraps", "cached_property"), "Leave it out."),
    "typing": {
        **dict.fromkeys(("TypedDict", "NamedTuple"), "Use a plain dict."),
        "cast": "Leave it out.",
    },
}
INSTEAD_OF_NAME: Final = {
    "aiter": "Build a list and return it.",
    "anext": "Build a list and return it.",
    "ascii": "Use repr.",
    "bytearray": "Use bytes.",
    "callable": "Know what you were given; there is no test for it.",
    "classmethod": "Write a function of the module.",
    "compile": "Write the code itself.",
    "delattr": "Assign None.",
    "dir": "Name what you need.",
    "exit": "Use return.",
    "globals": "Name what you need.",
    "input": "A script cannot ask a person; subscribe to a topic.",
    "issubclass": "Use isinstance.",
    "memoryview": "Use bytes.",
    "quit": "Use return.",
    "staticmethod": "Write a function of the module.",
    "super": "Write plain functions; classes have no base.",
    "vars": "Name what you need.",
    **dict.fromkeys(("ConnectionError", "IOError", "EnvironmentError"), "Use OSError."),
    **dict.fromkeys(("ExceptionGroup", "BaseExceptionGroup"), "Raise one exception."),
    "UnicodeError": "Use ValueError.",
}
# The interpreter has these, but the host allows no use of them.
INSTEAD_OF_USELESS: Final = {
    "eval": "Write the code itself; json.loads reads data.",
    "exec": "Write the code itself.",
    "open": "Call a tool of ctx; scripts have no files.",
}
# Methods that no type of the interpreter has.
INSTEAD_OF_METHOD: Final = {
    "bit_length": "Count with a loop.",
    "format_map": 'Use f"…".',
    "isocalendar": "Use strftime with %G, %V and %u.",
    "maketrans": "Use replace.",
    "translate": "Use replace.",
    "utcnow": "Use datetime.now(timezone.utc).",
    **dict.fromkeys(
        ("fromtimestamp", "utcfromtimestamp"),
        "Use datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=…).",
    ),
}
BUILTIN_TYPES: Final = frozenset({"str", "int", "float", "bool", "list", "dict", "set", "tuple"})
LAZY: Final = frozenset({"zip", "map", "filter", "enumerate", "reversed"})
# A node of the syntax tree, what it is called, and what to write instead.
INSTEAD_OF_SYNTAX: Final[dict[type[ast.AST], tuple[str, str]]] = {
    ast.AsyncFor: ("async for", "Await the list, then use for."),
    ast.AsyncWith: ("async with", "Use try and finally."),
    ast.Delete: ("del", "Use .pop(key, None), or assign None."),
    ast.TryStar: ("except*", "Use except."),
    ast.Yield: ("a generator (yield)", "Build a list and return it."),
    ast.YieldFrom: ("a generator (yield from)", "Build a list and return it."),
}
# Nodes that give a name to something without being a name themselves.
BINDING: Final[frozenset[type[ast.AST]]] = frozenset(
    {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.arg, ast.alias, ast.ExceptHandler}
    | {ast.MatchAs, ast.MatchStar, ast.MatchMapping, ast.Global, ast.Nonlocal}
)
# Only these nodes can be lacking in the interpreter. Python 3.11 does not know a type alias.
SUSPECTS: Final[frozenset[type[ast.AST]]] = frozenset(
    {*INSTEAD_OF_SYNTAX, *BINDING, ast.Import, ast.ImportFrom, ast.comprehension, ast.Name}
    | {ast.Raise, ast.Attribute, ast.Call, ast.Constant, getattr(ast, "TypeAlias", ast.Raise)}
)
STEPS: Final = frozenset({"prepare", "mutate", "next"})
OURS: Final = "_duly"
BYTE_ORDER_MARK: Final = "\ufeff"  # what some editors put before a text; it is no part of it


@dataclass(frozen=True, slots=True)
class Lacking:
    """One thing the interpreter lacks, where it stands, and what to write instead."""

    line: int
    column: int
    what: str
    instead: str

    def __str__(self) -> str:
        return f"{self.what}. {self.instead}"


def refuse_lacking(text: str) -> None:
    """Raise a ScriptError for the first thing in a text that the interpreter cannot run."""
    for found in find_lacking(parse(text)):
        raise ScriptError(str(found), line=found.line, column=found.column)


def parse(text: str) -> ast.Module:
    """Parse Python text, or raise a ScriptError that says where it is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.removeprefix(BYTE_ORDER_MARK))
    except SyntaxError as error:
        raise ScriptError(
            code="not_python", facts={"cause": error.msg}, line=error.lineno, column=error.offset
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise ScriptError(
            code="not_python", facts={"cause": "it is nested too deeply, or has a NUL"}
        ) from None


def find_lacking(tree: ast.Module) -> list[Lacking]:
    """Find everything in a text that the interpreter cannot run, in the order of the text."""
    nodes = tuple(ast.walk(tree))
    own = set(_own_names(nodes))
    found = [each for node in nodes if type(node) in SUSPECTS for each in _of_node(node, own)]
    return sorted(found, key=lambda each: (each.line, each.column))


def _own_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """List the names a text defines; a defined name hides a lacking one."""
    for node in nodes:
        if type(node) in BINDING:
            yield from _bound_names(node)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id


def _bound_names(node: ast.AST) -> Iterator[str]:
    """List the names that a node gives to something without being a name itself."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.arg():
            yield node.arg
        case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Global() | ast.Nonlocal():
            yield from node.names


def _of_node(node: ast.AST, own: set[str]) -> Iterator[Lacking]:
    if type(node) in INSTEAD_OF_SYNTAX:
        what, instead = INSTEAD_OF_SYNTAX[type(node)]
        yield _at(node, f"Scripts cannot use {what}", instead)
    for name in _bound_names(node) if type(node) in BINDING else ():
        yield from _of_our_name(node, name)
    if isinstance(node, ast.ClassDef):
        yield from _of_class(node)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from _of_import(node)
    elif isinstance(node, ast.comprehension) and node.is_async:
        yield _at(node.iter, "Scripts cannot use async for", "Await the list, then use for.")
    elif isinstance(node, ast.Name):
        yield from _of_name(node, own)
    elif isinstance(node, ast.Raise) and _has_no_single_text(node.exc):
        yield _at(node, "An exception in a script takes one text", 'Use f"…".')
    elif isinstance(node, ast.Attribute):
        yield from _of_attribute(node, own)
    elif isinstance(node, ast.Call):
        yield from _of_call(node, own)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if any("\ud800" <= character <= "\udfff" for character in node.value):
            yield _at(node, "This text has half a character", "Write the whole character.")
    elif type(node).__name__ == "TypeAlias":  # Python 3.11 does not know this node
        yield _at(node, "Scripts cannot use type aliases", "Leave the annotation out.")


def _of_attribute(node: ast.Attribute, own: set[str]) -> Iterator[Lacking]:
    instead = INSTEAD_OF_METHOD.get(node.attr)
    # A tool may be called translate: ctx.text.translate(…).
    is_tool = node.attr == "translate" and isinstance(node.value, ast.Attribute)
    if instead and not is_tool:
        yield _at(node, f"Scripts have no method {node.attr}", instead)
    if not isinstance(node.value, ast.Name) or node.value.id in own:
        return
    owner = node.value.id
    instead = INSTEAD_OF_MEMBER.get(owner, {}).get(node.attr, "")
    if instead:
        yield _at(node, f"Scripts have no {owner}.{node.attr}", instead)
    elif owner in BUILTIN_TYPES and owner != "dict":
        advice = f"Use lambda each: each.{node.attr}(), or call it on the value."
        yield _at(node, f"Scripts cannot take {node.attr} from the type {owner}", advice)


def _of_call(node: ast.Call, own: set[str]) -> Iterator[Lacking]:
    called = node.func
    first = node.args[0] if node.args else None
    if isinstance(called, ast.Name) and called.id == "next" and "next" not in own:
        made = first.func if isinstance(first, ast.Call) else None
        is_lazy = isinstance(made, ast.Name) and made.id in LAZY
        if isinstance(first, ast.GeneratorExp) or is_lazy:
            advice = "Use found = [… for …], then found[0] if found else None."
            yield _at(node, "Scripts cannot take the next of a list", advice)
    if _is_gather(called, own) and node.keywords:
        advice = "Leave it out; a tool call that fails ends the step, and nothing can catch it."
        yield _at(node, "Scripts cannot give asyncio.gather an option", advice)
    if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
        return
    if (called.value.id, called.attr) == ("json", "dumps"):
        if any(keyword.arg == "default" for keyword in node.keywords):
            yield _at(node, "Scripts have no default= in json.dumps", "Make it text first: str(…).")
    elif (called.value.id, called.attr) == ("re", "sub") and _is_given_function(node):
        advice = "Use re.findall and build the text in a loop."
        yield _at(node, "Scripts cannot give re.sub a function", advice)


def _is_gather(called: ast.expr, own: set[str]) -> bool:
    match called:
        case ast.Attribute(value=ast.Name("asyncio"), attr="gather"):
            return True
        case ast.Name("gather"):
            return "gather" not in own
    return False


def _is_given_function(node: ast.Call) -> bool:
    return len(node.args) > 1 and isinstance(node.args[1], ast.Lambda)


def _of_class(node: ast.ClassDef) -> Iterator[Lacking]:
    if node.bases or node.keywords:
        advice = "Write plain functions, or a class without a base; raise ValueError or KeyError."
        yield _at(node, f"Scripts cannot use class inheritance ({node.name})", advice)
    is_consumer = any(_is_consumer(decorator) for decorator in node.decorator_list)
    for method in node.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in method.decorator_list:
            what = f"Scripts cannot decorate a method ({ast.unparse(decorator)[:40]})"
            yield _at(decorator, what, "Write a plain method, or a function of the module.")
        if is_consumer and method.name not in STEPS and not method.name.startswith("_"):
            what = f"The consumer {node.name} has no step {method.name}"
            advice = (
                "Its steps are prepare, mutate and next; a helper begins with an underscore,"
                " or is a function of the module."
            )
            yield _at(method, what, advice)


def _is_consumer(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Attribute) and called.attr == "consumer"


def _has_no_single_text(raised: ast.expr | None) -> bool:
    """Tell whether an exception is made with several things, or with a number."""
    if not isinstance(raised, ast.Call):
        return False
    numbers = [arg for arg in raised.args if isinstance(arg, ast.Constant)]
    return len(raised.args) > 1 or any(type(each.value) is not str for each in numbers)


def _of_import(node: ast.Import | ast.ImportFrom) -> Iterator[Lacking]:
    known = ", ".join(sorted(MODULES - {"__future__"}))
    if isinstance(node, ast.Import):
        modules = [alias.name for alias in node.names]
    else:
        modules = ["." * node.level + (node.module or "")]
    for module in modules:
        if module not in MODULES:
            advice = INSTEAD_OF_MODULE.get(module) or f"There are: {known}."
            yield _at(node, f"Scripts have no module {module[:100]}", advice)
    if isinstance(node, ast.ImportFrom):
        for alias in node.names:
            instead = INSTEAD_OF_MEMBER.get(node.module or "", {}).get(alias.name)
            if instead:
                yield _at(node, f"Scripts have no {node.module}.{alias.name}", instead)


def _of_name(node: ast.Name, own: set[str]) -> Iterator[Lacking]:
    yield from _of_our_name(node, node.id)
    instead = INSTEAD_OF_NAME.get(node.id) or INSTEAD_OF_USELESS.get(node.id)
    if instead and node.id not in own:
        yield _at(node, f"Scripts have no {node.id}", instead)


def _of_our_name(node: ast.AST, name: str) -> Iterator[Lacking]:
    if name.startswith(OURS):
        yield _at(node, f"{name[:40]} is a name of Duly's own", "Use another name.")


def _at(node: ast.AST, what: str, instead: str) -> Lacking:
    # Every node that comes here has a place in the text; columns count from one, as editors do.
    line, offset = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    return Lacking(line, offset + 1, what, instead)
