"""Attacks on the bridge: every place where the interpreter might call a script on its behalf.

A hook is a function of the script where the interpreter or the bridge would find one of its own: a
method, an accessor, a trap, a constructor. A script installs it, then does everything the bridge
has a part in: a call, an answer, a line of the log, a date, a throw of the dice, a look at `ctx`.
Everything the hook is handed is kept, and what is a function is called as the worker would. The
script returns what it found out: the text of every function it was handed, the names in every
object, the time, and which calls it made.

Where a hook is installed, and in which step, are further dimensions: the bridge does other things
while a module loads, before a call and after its answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Final

STEPS: Final = ("produce", "prepare", "mutate", "next")
PLACES: Final = ("module", "step", "answer")
KINDS: Final = ("method", "accessor")

# Where a script can put a function of its own: the object that holds the name, and the names.
HELD: Final = {
    "Object.prototype": (
        "then toJSON constructor toString valueOf has get set value writable enumerable "
        "configurable getOwnPropertyDescriptor isExtensible preventExtensions deleteProperty "
        "defineProperty length apply construct ownKeys 0 1 2 handler step args world limits frozen "
        "now_ms dice stack name message cause Date random log write fail declaration takeLogs "
        "after text up key hasMarks"
    ),
    "Array.prototype": (
        "0 1 2 push pop concat map slice join indexOf toJSON constructor forEach reduce keys "
        "@@iterator @@isConcatSpreadable @@unscopables"
    ),
    "String.prototype": (
        "slice indexOf isWellFormed toWellFormed charCodeAt replace split toString valueOf concat "
        "substring toJSON length @@iterator"
    ),
    "Function.prototype": "call apply bind toString constructor name length @@hasInstance caller",
    "Promise.prototype": "then catch finally constructor @@toStringTag",
    "Promise": "resolve reject all withResolvers try @@species prototype length",
    "RegExp.prototype": "exec test flags source toString global lastIndex @@match @@replace",
    "Error.prototype": "stack name message toString constructor cause",
    "TypeError.prototype": "stack name message toString",
    "Error": "prepareStackTrace captureStackTrace stackTraceLimit @@hasInstance isError prototype",
    "TypeError": "prepareStackTrace stackTraceLimit @@hasInstance",
    "Date.prototype": "toISOString toString valueOf getTime toJSON constructor @@toPrimitive",
    "JSON": "parse stringify rawJSON isRawJSON @@toStringTag",
    "Object": (
        "defineProperty keys freeze getPrototypeOf hasOwn assign entries getOwnPropertyDescriptor"
    ),
    "Reflect": "apply construct get set has ownKeys defineProperty getPrototypeOf",
    "Array": "isArray from of @@species",
    "Number.prototype": "toString valueOf toJSON toFixed",
    "Boolean.prototype": "toString valueOf toJSON",
    "Symbol.prototype": "toString valueOf @@toPrimitive description",
    "Math": "random floor imul",
    "globalThis": (
        "Error TypeError RangeError InternalError Promise Proxy eval String Object Array JSON "
        "Reflect Symbol Function Infinity undefined NaN performance Date console Math RegExp then "
        "toJSON"
    ),
    "Object.getPrototypeOf(async () => {})": "constructor then call apply",
    "Object.getPrototypeOf(function* () {})": "constructor next prototype",
    "Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()))": "next @@iterator return",
}  # fmt: skip
# These are what an attack is made of: each is tried at every place and in every step.
SHARP: Final = frozenset(
    {
        ("Error", "prepareStackTrace"),
        ("Error.prototype", "stack"),
        ("Object.prototype", "has"),
        ("Object.prototype", "then"),
        ("Promise.prototype", "constructor"),
        ("Promise.prototype", "then"),
    }
)


JAVASCRIPT: Final = (Path(__file__).parent / "hooked.js").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Hook:
    """One hook: what is replaced, by what, where in the script, and in which step."""

    holder: str
    name: str
    kind: str
    place: str
    step: str

    @property
    def id(self) -> str:
        """Its name in the corpus."""
        return f"{self.holder}.{self.name} as {self.kind} in the {self.place}, {self.step}"

    def text(self) -> str:
        """Write the workflow that tries it."""
        key = f"Symbol.{self.name[2:]}" if self.name.startswith("@@") else repr(self.name)
        install = f"install({self.holder}, {key}, {self.kind!r});"
        places = {place: install if place == self.place else "" for place in PLACES}
        return (
            JAVASCRIPT.replace("@MODULE@", places["module"])
            .replace("@STEP@", places["step"])
            .replace("@ANSWER@", places["answer"])
        )


def hooks() -> tuple[Hook, ...]:
    """List every hook; what is not sharp takes its turn through places and steps."""
    turn = cycle([(place, step) for step in STEPS for place in PLACES])
    found: list[Hook] = []
    for holder, names in HELD.items():
        for name in names.split():
            for kind in KINDS:
                where = [(place, step) for step in STEPS for place in PLACES]
                chosen = where if (holder, name) in SHARP else [next(turn)]
                found += [Hook(holder, name, kind, place, step) for place, step in chosen]
    return tuple(found)
