"""Attacks on Python's bridge: names it might look up, and values that are more than they seem.

Everything a Python script shares with its bridge is a namespace. So a script puts functions of its
own under the names the bridge might use, in the module and in a step, and hands over values whose
methods run while they are written. Each attack is a producer of one source: it is loaded once, and
every attack has a fresh context (C1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Names of the language and of the interpreter's modules that a bridge might look up late.
NAMES: Final = [
    "type",
    "enumerate",
    "Exception",
    "list",
    "dict",
    "str",
    "len",
    "isinstance",
    "repr",
    "getattr",
    "tuple",
    "int",
    "float",
    "bool",
    "print",
    "range",
    "sorted",
    "zip",
    "min",
    "max",
    "sum",
    "any",
    "all",
    "set",
    "hash",
    "iter",
    "map",
    "filter",
    "object",
    "BaseException",
    "workflow",
    "producer",
    "consumer",
    "json",
]
MODULE_PARTS: Final = ("json.dumps", "json.loads", "time.time", "random.random", "asyncio.gather")
METHODS: Final = [
    "__eq__",
    "__repr__",
    "__str__",
    "__iter__",
    "__len__",
    "__getitem__",
    "__bool__",
    "__hash__",
    "__call__",
    "keys",
    "items",
    "__getattr__",
    "__await__",
    "__format__",
    "__int__",
    "__float__",
    "__contains__",
    "__enter__",
    "__lt__",
]
PLACES: Final = ("call", "result", "both")


@dataclass(frozen=True, slots=True)
class Shadow:
    """One attack: the body of a step, and the name it goes by."""

    id: str
    body: str


CALL: Final = "answer = await ctx.echo.back(x=1)"
END: Final = "return [answer, len(seen), seen[:3]]"


def shadows() -> tuple[Shadow, ...]:
    """List every attack; each calls a tool, and returns what it was answered and what it saw."""
    found: list[Shadow] = []
    for name in NAMES:
        taken = f"{name} = spy\n{CALL}\nreturn [answer, seen]"
        found.append(Shadow(f"{name} is replaced in a step", taken))
        given = f"async def inner({name}):\n    return await ctx.echo.back(x=1)\n"
        found.append(Shadow(f"{name} is a parameter", f"{given}return [await inner(spy), seen]"))
        found.append(
            Shadow(
                f"{name} is replaced between a call and its answer",
                f"call = ctx.echo.back(x=1)\n{name} = spy\nreturn [await call, seen]",
            )
        )
    for part in MODULE_PARTS:
        module = part.partition(".")[0]
        for way in ("assigned", "set"):
            change = (
                f"{part} = spy"
                if way == "assigned"
                else f"setattr({module}, '{part.partition('.')[2]}', spy)"
            )
            body = f"import {module}\ntry:\n    {change}\nexcept Exception as error:\n    pass\n"
            found.append(Shadow(f"{part} is {way}", f"{body}{CALL}\nreturn [answer, seen]"))
    for method in METHODS:
        made = f"class Value:\n    def {method}(self, *args):\n        return spy(self, *args)\n"
        for place in PLACES:
            said = "x=Value()" if place != "result" else "x=1"
            value = "[answer, Value()]" if place != "call" else "[answer, seen]"
            body = f"{made}answer = await ctx.echo.back({said})\nreturn {value}"
            found.append(Shadow(f"a value with {method} in the {place}", body))
    return tuple(found)


def write(attacks: tuple[Shadow, ...]) -> str:
    """Write one source whose producers are these attacks."""
    lines = ["import asyncio, json, random, time", "from duly import producer as p, workflow as w"]
    lines += [
        "seen = []",
        "def spy(*args):",
        "    seen.append(str(args)[:80])",
        "    return 'spied'",
    ]
    for number, attack in enumerate(attacks):
        lines.append(f"async def a{number}(ctx, state=None):")
        lines += [f"    {line}" for line in attack.body.split("\n")]
    made = ", ".join(f"'a{number}': p(a{number})" for number in range(len(attacks)))
    lines.append(f"w('shadows', topics=['t'], producers={{{made}}})")
    return "\n".join(lines)
