"""The interpreter's own type checker, asked about a Python source (W5).

Law 1: nothing is run. The text begins with a line the checker always refuses, and what it refuses
       is never executed. (Behind a loop without an end it would not look at that line.)
       A host asks the checker in a locked process that can be ended (X2), by `question_of` and
       `findings_of`; `type_check` asks it in this process, for texts that the caller trusts.
Law 2: only diagnostics we can explain become findings; the checker knows more of Python than the
       interpreter needs, and authors ignore a check with false alarms.

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
from typing import Final, TypeAlias

import msgspec

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
DIAGNOSTICS_MAX: Final = 2000  # ten times what is kept
REFUSED: Final = f"{PREFIX}Refused: int = ''\n"

# What the parameters of a step are, after the name that a method is called on.
TYPES: Final[Mapping[Step, tuple[str, ...]]] = {
    Step.PRODUCE: ("Context",),
    Step.PREPARE: ("Context",),
    Step.MUTATE: ("Context", "Prepared"),
    Step.NEXT: ("Context", "Prepared", "MutationResult"),
}

# The checker's codes and our rules. A diagnostic that is not in the table is not reported.
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
ON_NONE: Final = "on `None` in union"
CAN_BE_NONE: Final = "It can be None: test for that first."
WAITS: Final = re.compile(r"`(Awaitable|CoroutineType|Coroutine)\[")
NAMED: Final = re.compile(r"Name `(\w+)`")
OUR_METHOD: Final = re.compile(rf"`{PREFIX}\w+\.\w+`")
OUR_OBJECT: Final = re.compile(rf"Object of type `{PREFIX}(?!Event|Prepared|MutationResult)\w*`")


Inserted: TypeAlias = "dict[int, list[tuple[int, int]]]"


class _Location(msgspec.Struct, frozen=True):
    row: int
    column: int


class _Said(msgspec.Struct, frozen=True):
    """One diagnostic as the checker wrote it; other fields are not read."""

    code: str
    message: str
    location: _Location


_SAID: Final = msgspec.json.Decoder(list[_Said])


@dataclass(frozen=True, slots=True)
class Annotated:
    """The text for the checker, and by line where how many characters were inserted."""

    text: str
    inserted: Inserted


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One diagnostic, at its place in the author's own text."""

    code: str
    line: int
    column: int
    message: str


def annotate(source: Source) -> Annotated | None:
    """Add types to the parameters we know; None if the text is too tangled for that."""
    try:
        text, inserted = _annotate(source)
    except (RecursionError, TooTangled):
        return None
    return Annotated(REFUSED + text, inserted)


def findings_of(name: str, annotated: Annotated, said: str | None) -> tuple[Finding, ...]:
    """Make findings of diagnostics; a text the checker cannot read is reported by loading."""
    diagnostics = () if said is None else _diagnostics(said, annotated.inserted)
    return tuple(
        found(
            rule,
            each.line,
            each.column,
            f"{each.message.replace(PREFIX, '').rstrip('.')}.",
            CAN_BE_NONE if ON_NONE in each.message else ADVICE[rule],
            file=name,
        )
        for each in diagnostics
        if (rule := _rule_of(each)) is not None
    )


def not_ended(name: str) -> Finding:
    """Make the finding that the checker did not finish with a text."""
    sentence = "The type checker did not come to an end with this text."
    return found("too-tangled", 1, 1, sentence, "Write it flatter.", file=name)


def type_check(source: Source, catalog: Catalog) -> tuple[Finding, ...]:
    """Ask the checker, in a process that is not locked, about a source that the caller trusts."""
    from pydantic_monty import (  # a worker that reads sources has no use for it
        ExternalModule,
        Monty,
        MontyCrashedError,
        MontyError,
        MontyTypingError,
    )

    annotated = annotate(source)
    if annotated is None:
        return (not_ended(source.name),)
    said: str | None = None
    try:
        with (
            Monty(max_processes=1, request_timeout=CHECK_TIMEOUT_S) as pool,
            pool.checkout(
                limits={"max_feed_duration_secs": CHECK_TIMEOUT_S, "max_memory": MEMORY_BYTES},
                type_check=True,
                type_check_stubs=python_stubs(catalog),
                type_check_format="json",
                external_modules={"duly": ExternalModule({}, stubs=PYTHON_MODULE)},
            ) as session,
        ):
            session.feed_run(annotated.text)
    except MontyTypingError as error:
        said = error.display()
    except MontyCrashedError:
        return (not_ended(source.name),)
    except MontyError:
        pass  # The interpreter cannot read it; loading reports that, with the place.
    return findings_of(source.name, annotated, said)


def _diagnostics(shown: str, inserted: Mapping[int, list[tuple[int, int]]]) -> Iterator[Diagnostic]:
    for each in _SAID.decode(shown)[:DIAGNOSTICS_MAX]:
        line, column = each.location.row - REFUSED.count("\n"), each.location.column
        added = sum(count for at, count in inserted.get(line, ()) if at < column)
        if line > 0:
            yield Diagnostic(each.code, line, max(1, column - added), each.message)


def _annotate(source: Source) -> tuple[str, dict[int, list[tuple[int, int]]]]:
    """Add types to the parameters we know; return where how many characters were inserted."""
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
        # Every insertion is further right by the length of those before it.
        moved = [
            (at + sum(size for _, size in marks[:i]), size) for i, (at, size) in enumerate(marks)
        ]
        inserted[row] = moved
    return "\n".join(lines), inserted


def _without_future(text: str) -> str:
    """Remove imports from __future__, which must come first; the lines keep their numbers."""
    lines = text.split("\n")
    for node in parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for row in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[row] = ""
    return "\n".join(lines)


def _known(source: Source) -> Iterator[tuple[ast.arg, str]]:
    """Yield every parameter without a type whose type we know, each once."""
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
    """Yield every parameter called ctx: helpers name it so."""
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
    """Tell whether a name is a builtin of Python: `lacking.py` reports those that are missing."""
    name = NAMED.search(message)
    return name is not None and hasattr(builtins, name[1])
