"""Attacks on Python's bridge: names it might look up, values that are more than they seem, `ctx`.

A Python script shares one namespace with its bridge: what it binds at the top of its file, or as a
`global` of a step, the bridge would find. A name that is bound in a function reaches nothing but
that function, so no attack is made of it. Each attack calls a tool, or sends what is no JSON, and
says exactly what must come of it: its result, or the words it is refused with.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from duly.rules.value import Json

# Names of the language and of the interpreter's modules that a bridge might look up late.
NAMES: Final = (
    "type enumerate Exception list dict str len isinstance repr getattr tuple int float bool print "
    "range sorted zip min max sum any all set hash iter map filter object BaseException TypeError "
    "workflow producer consumer json dataclass DulyWorkflow ctx"
)
MODULE_PARTS: Final = ("json.dumps", "json.loads", "time.time", "random.random", "asyncio.gather")
METHODS: Final = (
    "__eq__ __repr__ __str__ __iter__ __len__ __getitem__ __bool__ __hash__ __call__ keys items "
    "__getattr__ __await__ __format__ __int__ __float__ __contains__ __enter__ __lt__"
)
# A script may give its classes the names of the types that are JSON.
KINDS: Final = ("dict", "list", "tuple", "str", "int", "float", "bool", "NoneType", "coroutine")
# How a script takes a name of its own choice.
BINDINGS: Final = (
    "{name} = 1",
    "{name}: int = 1",
    "{name} += 1",
    "({name} := 1)",
    "def {name}(): pass",
    "class {name}: pass",
    "import json as {name}",
    "from json import dumps as {name}",
    "for {name} in []: pass",
    "[1 for {name} in []]",
    "def f({name}): pass",
    "def f(*{name}): pass",
    "lambda {name}: 1",
    "def f():\n    global {name}\n    {name} = 1",
    "def f():\n    def g():\n        nonlocal {name}",
    "try:\n    pass\nexcept Exception as {name}:\n    pass",
    "match 1:\n    case {name}: pass",
    "match []:\n    case [*{name}]: pass",
    "match 1:\n    case 1 as {name}: pass",
    "with f() as {name}: pass",
    "a, *{name} = [1]",
    "{name}('call', 'a.b', '[]')",
)


@dataclass(frozen=True, slots=True)
class Shadow:
    """One attack: what stands in the module, in the step, and how it must end."""

    id: str
    body: str
    module: str = ""
    value: Json = None
    error: str = ""
    is_called: bool = True


NOT_JSON: Final = "Use a dict, list, string, number, boolean or None."
CALL: Final = "answer = await ctx.echo.back(x=1)\nreturn [answer, seen]"
REFUSED: Final = "class Value:\n    pass\nawait ctx.echo.back(x=[1, Value()])\nreturn [0, seen]"
SPY: Final = """\
import asyncio, json, random, time
from duly import producer as p, workflow as w
seen = []
as_text = str
def spy(*args, **kwargs):
    seen.append(as_text(args)[:80])
    return 'spied'
"""


def shadows() -> tuple[Shadow, ...]:
    """List every attack."""
    return (*_names(), *_parts(), *_values(), *_kinds(), *_changes())


def _names() -> Iterator[Shadow]:
    refused = f"echo.back.x[1] is a Value. {NOT_JSON}"
    heard: Json = ["answered", []]
    for name in NAMES.split():
        take = f"{name} = spy\n"
        given = f"global {name}\n{take}"
        if name != "ctx":  # in a step it is a parameter
            yield Shadow(f"{name} in a step, and a call", given + CALL, value=heard)
            yield Shadow(
                f"{name} in a step, and no JSON", given + REFUSED, error=refused, is_called=False
            )
            late = f"global {name}\ncall = ctx.echo.back(x=1)\n{take}return [await call, seen]"
            yield Shadow(f"{name} between a call and its answer", late, value=heard)
        yield Shadow(f"{name} in the module, and a call", CALL, take, value=heard)
        yield Shadow(
            f"{name} in the module, and no JSON", REFUSED, take, error=refused, is_called=False
        )


def _parts() -> Iterator[Shadow]:
    """No module of the interpreter can be changed; so the bridge may look its functions up late."""
    for part in MODULE_PARTS:
        module, _, name = part.partition(".")
        for way in (f"{part} = spy", f"setattr({module}, '{name}', spy)"):
            body = f"try:\n    {way}\nexcept AttributeError:\n    seen.append(1)\n"
            yield Shadow(f"{way} is refused", body + CALL, value=["answered", [1]])


def _values() -> Iterator[Shadow]:
    for method in METHODS.split():
        made = f"class Value:\n    def {method}(self, *args):\n        return spy(self, *args)\n"
        for place, path in (("call", "echo.back.x"), ("result", "result[1]")):
            said = "x=Value()" if place == "call" else "x=1"
            body = f"{made}answer = await ctx.echo.back({said})\nreturn [answer, Value(), seen]"
            yield Shadow(
                f"a value with {method} in the {place}",
                body,
                error=f"{path} is a Value. {NOT_JSON}",
                is_called=place != "call",
            )


def _kinds() -> Iterator[Shadow]:
    for kind in KINDS:
        made = f"class {kind}:\n    def items(self):\n        return spy()\n"
        body = f"{made}await ctx.echo.back(x={kind}())\nreturn [0, seen]"
        yield Shadow(
            f"a value whose class is called {kind}",
            body,
            error=f"echo.back.x is a {kind}. {NOT_JSON}",
            is_called=False,
        )


def _changes() -> Iterator[Shadow]:
    """`ctx` is frozen: a script that replaces a tool is told so where it does it.

    That is for its author. No harm is kept off by it: through `object.__setattr__` or the class of
    `ctx` a script still changes what its own step calls, and the host judges the call that arrives.
    """
    for holder, name in (
        ("ctx", "echo"),
        ("ctx", "other"),
        ("ctx.echo", "back"),
        ("ctx.echo", "other"),
        ("ctx.echo", "_duly_path"),
    ):
        for way in (
            f"{holder}.{name} = spy",
            f"{holder}.{name} = 'bank'",
            f"setattr({holder}, '{name}', spy)",
            f"for {holder}.{name} in [spy]: pass",
            f"{holder}.{name}, other = spy, 1",
        ):
            body = f"try:\n    {way}\nexcept Exception as error:\n    seen.append('refused')\n"
            yield Shadow(f"{way} is refused", body + CALL, value=["answered", ["refused"]])


def write(attacks: tuple[Shadow, ...]) -> str:
    """Write one source whose producers are these attacks; they have their module in common."""
    lines = [SPY + attacks[0].module]
    for number, attack in enumerate(attacks):
        assert attack.module == attacks[0].module
        lines.append(f"async def a{number}(ctx, state=None):")
        lines += [f"    {line}" for line in attack.body.split("\n")]
    made = ", ".join(f"'a{number}': p(a{number})" for number in range(len(attacks)))
    lines.append(f"w('shadows', topics=['t'], producers={{{made}}})")
    return "\n".join(lines)


def own_names(*texts: str) -> list[str]:
    """List the names of the bridge that a script could try to take."""
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    found = {node.id for node in nodes if isinstance(node, ast.Name)}
    found |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.alias)}
    return sorted(name for name in found if name.startswith("_duly"))
