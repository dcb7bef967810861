"""Breaks of the bridges: each takes one guard out of the text that stands before a script (X1)."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final

from duly.sandbox import python_text
from tests.breaks import Break

HOSTILE: Final = "tests/sandbox/hostile"
TEXTS: Final = tuple(
    files("duly.sandbox").joinpath(name).read_text("utf-8") for name in ("prelude.js", "late.js")
)
# A worker of JavaScript reads its texts itself; this one changes them as it does.
PROGRAM: Final = """
import sys
sys.path[:0] = sys.argv[2:]
from duly.sandbox import javascript_worker
real = javascript_worker.ContextText
def changed(*texts):
    return real(*(text.replace({old!r}, {new!r}) for text in texts))
javascript_worker.ContextText = changed
javascript_worker.serve(int(sys.argv[1]))
"""
DESCRIPTOR: Final = "defineProperty(holder, name, { __proto__: null, value"


def _javascript(says: str, test: str, old: str, new: str = "") -> Break:
    assert any(old in text for text in TEXTS), f"no text of the bridge has {old!r}"
    program = PROGRAM.format(old=old, new=new)
    return Break("X1", "duly.sandbox.pool", "PROGRAM", program, (f"{HOSTILE}/{test}",), says)


def _hook(says: str, old: str, new: str = "") -> Break:
    test = "test_hook.py::test_a_hook_is_shown_nothing_of_the_bridge"
    return _javascript(says, test, old, new)


def _bridge(says: str, old: str, new: str = "") -> Break:
    return _javascript(says, "test_bridge.py", old, new)


def _python(says: str, attribute: str, replacement: Any, module: str = "python_text") -> Break:
    room = "duly.script" if module == "lacking" else "duly.sandbox"
    tests = (f"{HOSTILE}/test_shadow.py",)
    return Break("X1", f"{room}.{module}", attribute, replacement, tests, says)


def _prelude(says: str, old: str, new: str) -> Break:
    assert old in python_text.PRELUDE, f"Python's prelude has no {old!r}"
    return _python(says, "PRELUDE", python_text.PRELUDE.replace(old, new))


def _thawed(real: Callable[..., str]) -> Callable[..., str]:
    return lambda *args: real(*args).replace("frozen=True", "frozen=False")


BREAKS = (
    _hook("a script is handed the functions of a stack", "delete Error.prepareStackTrace;"),
    _hook("a trap of ctx is looked up on a prototype", "__proto__: null, get, apply", "get, apply"),
    _hook("a descriptor asks its prototype", DESCRIPTOR, "defineProperty(holder, name, { value"),
    _hook(
        "the module's promise is asked for its kind", 'put(loading, "constructor", RealPromise);'
    ),
    _hook("open calls stand on a prototype", "answers = { __proto__: null }", "answers = {}"),
    _hook("holders stand on a prototype", "around = { __proto__: null }", "around = {}"),
    _hook("lines of the log stand on a prototype", "logs = { __proto__: null }", "logs = {}"),
    _hook(
        "JSON is written by what the script has in its place",
        "const { parse, stringify } = JSON;",
        "const { parse } = JSON; const stringify = (a, b) => JSON.stringify(a, b);",
    ),
    _hook(
        "JSON is read by what the script has in its place",
        "const { parse, stringify } = JSON;",
        "const { stringify } = JSON; const parse = (text) => JSON.parse(text);",
    ),
    _hook(
        "texts are cut by a method the script can replace",
        "const slice = hold(text.slice);",
        "const slice = (text, from, to) => text.slice(from, to);",
    ),
    _hook(
        "half characters are found by a method the script can replace",
        "const isWellFormed = hold(text.isWellFormed);",
        "const isWellFormed = (text) => text.isWellFormed();",
    ),
    _hook(
        "where a call stands is asked of a property",
        'hold(getOwnPropertyDescriptor(Error.prototype, "stack").get)',
        "(error) => error.stack",
    ),
    _hook(
        "a call is a promise of the script's own kind",
        "const RealPromise = Promise;",
        "const RealPromise = function (settle) { return new Promise(settle); };",
    ),
    _hook(
        "ctx is made by what the script has in its place",
        "const RealProxy = Proxy;",
        "const RealProxy = function (of, traps) { return new Proxy(of, traps); };",
    ),
    _hook(
        "texts are put together by a method the script can replace",
        """'{"calls":[' + outbox + '],"logs":[' + logs + '],"end":' + end + "}";""",
        '`{"calls":[${outbox}],"logs":[${logs}],"end":${end}}`;',
    ),
    _bridge("a stack can be captured", "delete Error.captureStackTrace;"),
    _bridge("a script says how long a stack is", "delete Error.stackTraceLimit;"),
    _bridge("another clock is left", "delete globalThis.performance;"),
    _bridge("shared memory is left", "delete globalThis.SharedArrayBuffer;"),
    _bridge("a script sees when garbage is collected", "delete globalThis.WeakRef;"),
    _bridge("ctx can be constructed", "construct: fixed, "),
    _bridge("ctx takes definitions", "defineProperty: fixed, "),
    _bridge("a tool can be deleted", "deleteProperty: fixed, "),
    _bridge("ctx has a prototype", "getPrototypeOf: () => null, "),
    _bridge("ctx is awaited like a promise", ' || name === "then"'),
    _bridge("Keep can be changed", "const Keep = freeze({", "const Keep = ({"),
    _bridge("a default of the script is taken for state", "&& hasOwn(holder, name) ", ""),
    _bridge(
        "a setter of the script takes the state",
        'put(given, at + 1, own(args[at], "value"))',
        'given[at + 1] = own(args[at], "value")',
    ),
    _bridge(
        "a setter of the script takes the cursor of a page",
        "put(value, listed[at], extras[listed[at]])",
        "value[listed[at]] = extras[listed[at]]",
    ),
    _bridge(
        "a path is spelled by a method the script can replace",
        "charCodeAt: hold(text.charCodeAt)",
        "charCodeAt: (text, at) => text.charCodeAt(at)",
    ),
    _bridge(
        "raw JSON is known by what the script has in its place",
        "const { isRawJSON } = JSON;",
        "const isRawJSON = (value) => JSON.isRawJSON(value);",
    ),
    _bridge(
        "arrays are known by what the script has in its place",
        "const { isArray } = Array;",
        "const isArray = (value) => Array.isArray(value);",
    ),
    _prelude("the type of a value is asked of the script", "_duly_type(", "type("),
    _prelude("late texts are read among a script's names", "known = {}", "known = globals()"),
    _prelude("the script says what an error is", "except _duly_Exception", "except Exception"),
    _python(
        "a class called dict is a dict",
        "PROBLEM",
        python_text.PROBLEM.replace(
            "kind = type(value)\n",
            "kind = {'dict': dict}.get(type(value).__name__, type(value))\n",
        ),
    ),
    _prelude("what is no JSON has no path", "problem = find(part", "problem = None and (part"),
    _python("a tool of ctx can be replaced", "context_text", _thawed(python_text.context_text)),
    _python("a script takes a name of the bridge", "OURS", "\0", "lacking"),
)
