"""The interpreter's own type checker, asked about a Python source (W5).

Law 1: nothing is run. The text begins with a line the checker always refuses, and what it refuses
       is never executed. (Behind a loop without an end it would not look at that line.)
Law 2: only diagnostics we can explain become findings; the checker knows more of Python than the
       interpreter needs, and a check that cries wolf is not read.

The author does not write types, so `ctx`, `prepared` and the mutation's result get theirs here, in
a copy of the text; columns are counted back to the author's own.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from pydantic_monty import (
    ExternalModule,
    Monty,
    MontyCrashedError,
    MontyError,
    MontyTypingError,
)

from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.source import Source
from duly.script.finding import Finding, found
from duly.script.lacking import parse
from duly.script.outline import TooTangled
from duly.script.python import step_functions
from duly.script.python_name import Definition
from duly.script.stubs import PREFIX, PYTHON_MODULE, python_stubs

CHECK_TIMEOUT_S: Final = 5.0
MEMORY_BYTES: Final = 16 << 20
REFUSED: Final = f"{PREFIX}Refused: int = ''\n"

# What the parameters of a step are, after the name that a method is called on.
TYPES: Final[Mapping[Step, tuple[str, ...]]] = {
    Step.PRODUCE: ("Context",),
    Step.PREPARE: ("Context",),
    Step.MUTATE: ("Context", "Prepared"),
    Step.NEXT: ("Context", "Prepared", "MutationResult"),
}

# The checker's words, our rules. What is not in the table is not said.
RULES: Final[Mapping[str, str]] = {
    "unresolved-reference": "unknown-name",
    "unresolved-attribute": "wrong-type",
    "invalid-key": "wrong-type",
    "not-subscriptable": "wrong-type",
    "unknown-argument": "wrong-argument",
    "missing-argument": "wrong-argument",
    "too-many-positional-arguments": "wrong-argument",
    "invalid-argument-type": "wrong-argument",
    "unresolved-import": "lacking",
}
ADVICE: Final[Mapping[str, str]] = {
    "unknown-name": "Define it, or correct its name.",
    "wrong-type": 'Events, prepared and results are dicts: write event["payload"].',
    "wrong-argument": "Pass what the tool takes, by name.",
    "lacking": "Write what you need into the file.",
    "not-awaited": "Put await before the call.",
    "unknown-tool": "Look at the list of tools.",
    "missing-title": "Say what the event is and which one.",
}
WAITS: Final = re.compile(r"`(Awaitable|CoroutineType|Coroutine)\[")
NAMED: Final = re.compile(r"Name `(\w+)`")
OUR_METHOD: Final = re.compile(rf"`{PREFIX}\w+\.\w+`")
OUR_OBJECT: Final = re.compile(rf"Object of type `{PREFIX}(?!Event|Prepared|MutationResult)\w*`")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing the checker said, in the author's own coordinates."""

    code: str
    line: int
    column: int
    message: str


def type_check(source: Source, catalog: Catalog) -> tuple[Finding, ...]:
    """Ask the checker about a source whose syntax is known to be right."""
    try:
        diagnostics = _ask(source, python_stubs(catalog))
    except (MontyCrashedError, RecursionError, TooTangled):
        sentence = "The type checker did not come to an end with this text."
        return (found("too-tangled", 1, 1, sentence, "Write it flatter.", file=source.name),)
    except MontyError:
        return ()  # The interpreter cannot read it; loading says so, with the place.
    return tuple(
        found(
            rule,
            each.line,
            each.column,
            f"{each.message.replace(PREFIX, '').rstrip('.')}.",
            ADVICE[rule],
            file=source.name,
        )
        for each in diagnostics
        if (rule := _rule_of(each)) is not None
    )


def _ask(source: Source, stubs: str) -> list[Diagnostic]:
    text, inserted = _annotate(source)
    with (
        Monty(max_processes=1, request_timeout=CHECK_TIMEOUT_S) as pool,
        pool.checkout(
            limits={"max_feed_duration_secs": CHECK_TIMEOUT_S, "max_memory": MEMORY_BYTES},
            type_check=True,
            type_check_stubs=stubs,
            type_check_format="json",
            external_modules={"duly": ExternalModule({}, stubs=PYTHON_MODULE)},
        ) as session,
    ):
        try:
            session.feed_run(REFUSED + text)
        except MontyTypingError as error:
            return list(_diagnostics(error.display(), inserted))
    raise AssertionError("The first line is refused, so the text cannot have run.")


def _diagnostics(shown: str, inserted: Mapping[int, list[tuple[int, int]]]) -> Iterator[Diagnostic]:
    for each in msgspec.json.decode(shown):
        line, column = each["location"]["row"] - REFUSED.count("\n"), each["location"]["column"]
        added = sum(count for at, count in inserted.get(line, ()) if at < column)
        if line > 0:
            yield Diagnostic(each["code"], line, max(1, column - added), each["message"])


def _annotate(source: Source) -> tuple[str, dict[int, list[tuple[int, int]]]]:
    """Give the parameters we know their types; answer where how many characters were put in."""
    lines = _without_future(source.text).split("\n")
    inserted: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for argument, name in sorted(_known(source), key=lambda each: -each[0].col_offset):
        row = (argument.end_lineno or 1) - 1
        before = lines[row].encode()[: argument.end_col_offset].decode()
        added = f": {PREFIX}{name}"
        lines[row] = before + added + lines[row][len(before) :]
        inserted[row + 1].append((len(before), len(added)))
    for row, marks in inserted.items():
        marks.sort()
        # Every mark stands further right by what was put in before it.
        moved = [
            (at + sum(size for _, size in marks[:i]), size) for i, (at, size) in enumerate(marks)
        ]
        inserted[row] = moved
    return "\n".join(lines), inserted


def _without_future(text: str) -> str:
    """Take out what must stand first in a file and means nothing here; every line stays a line."""
    lines = text.split("\n")
    for node in parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for row in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[row] = ""
    return "\n".join(lines)


def _known(source: Source) -> Iterator[tuple[ast.arg, str]]:
    """Give every parameter without a type whose type we know, each once."""
    seen: set[tuple[int, int]] = set()
    for argument, name in (*_step_parameters(source), *_contexts(source)):
        at = (argument.lineno, argument.col_offset)
        if argument.annotation is None and at not in seen:
            seen.add(at)
            yield argument, name


def _step_parameters(source: Source) -> Iterator[tuple[ast.arg, str]]:
    for step, definition in step_functions(source):
        arguments = [*definition.args.posonlyargs, *definition.args.args]
        is_method = bool(arguments) and arguments[0].arg == "self"
        yield from zip(arguments[is_method:], TYPES[step], strict=False)


def _contexts(source: Source) -> Iterator[tuple[ast.arg, str]]:
    """Take every parameter called ctx to be one; helpers are written that way."""
    for node in ast.walk(parse(source.text)):
        if isinstance(node, Definition):
            for argument in (*node.args.posonlyargs, *node.args.args):
                if argument.arg == "ctx":
                    yield argument, "Context"


def _rule_of(said: Diagnostic) -> str | None:
    if WAITS.search(said.message):
        return "not-awaited"
    if said.code == "unresolved-attribute" and OUR_OBJECT.search(said.message):
        return "unknown-tool"
    if said.code == "missing-argument" and "parameter `title`" in said.message:
        return "missing-title"
    if said.code == "invalid-argument-type" and not _is_certain(said.message):
        return None
    if said.code == "unresolved-reference" and _is_builtin(said.message):
        return None
    return RULES.get(said.code)


def _is_certain(message: str) -> bool:
    """Tell whether a wrong argument goes to a tool and is wrong in every case."""
    given = message.rpartition("found ")[2]
    return bool(OUR_METHOD.search(message)) and " | " not in given and "Unknown" not in given


def _is_builtin(message: str) -> bool:
    """Tell whether a name is Python's own: which of them are lacking is known better elsewhere."""
    name = NAMED.search(message)
    return name is not None and hasattr(builtins, name[1])
