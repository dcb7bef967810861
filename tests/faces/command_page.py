"""Writes docs/command-line.md from the commands themselves; a test says when it is stale.

python -m tests.faces.command_page            compare
python -m tests.faces.command_page --write    write the page anew
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

import click

from duly.api.check import Remark
from duly.api.registry import VERBS
from duly.faces.cli import duly, load
from duly.faces.cli.finding import Finding
from duly.faces.cli.help import sections, write_all
from duly.faces.cli.table import command_of

PAGE: Final = Path(__file__).parents[2] / "docs" / "command-line.md"
WIDTH: Final = 80
HEAD: Final = """\
# The command line

This page is written from the commands themselves: `python -m tests.faces.command_page --write`.
The tests fail while the two differ.

**Which project.** A command uses the project that `--project` names, else the one that
`DULY_PROJECT` names, else the nearest `duly.toml` in this folder or a folder above. If a host runs
there, the command asks it through its socket. If not, the command opens the store for itself, and
no workflow runs until `duly serve` (or `duly drain`, once).

**Arguments and options.** What a verb needs is an argument; what you may leave out is an option.
Write JSON directly, as `@file`, or as `-` for stdin. A secret is never an argument.

**Output.** Results go to stdout, hints and errors to stderr. An error is one sentence: what
happened, to what, what to do. In a text that others wrote (a title, an id, a log line) Duly
replaces everything that could control a terminal. Times are in the zone of the project and name
it; JSON has UTC. There are colours only on a terminal, and not with `NO_COLOR`.

| exit code | means |
|---|---|
| 0 | done |
| 1 | failed: refused, not found, a store that cannot be opened, a check that found errors |
| 2 | wrong use: an unknown option, an unreadable value, a yes where no person can be asked |
| 3 | nothing was proven: `duly simulate` of a workflow that changed nothing |
| 130 | stopped by Ctrl-C |

**For programs.** Every command that returns something has `--json`. It prints exactly what the verb
of that name returns, with the fields named below. Fields may be added; none is renamed or removed
without a note in the changelog. A list is complete, even if a person sees less of it (`duly bus
journal`). Lists come in pages: give the last entry's key as `--before` or `--after`. With
`--follow` a list prints each entry that is new or changed, as one line of JSON, until you stop
it; that needs a running host.
"""
# What these commands answer is put together by them, not by one verb.
TOGETHER: Final = {
    "status": "host (pid, version, store, since, serving, settings; null without one), workflows, "
    "attention",
    "deploy": "a list of file, deployed (workflow, version, missing, new; null if it was refused), "
    "findings, error",
    "resume": "null; with --all a list of names",
    "why": "as below; a list of those without an ID",
    "tools": "as below, and doc: what the connector's author wrote",
}
NAMES: Final[dict[Any, str]] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    datetime: "a time",
    NoneType: "null",
    dict[str, str]: "an object of texts",
}
# These answer records of their own.
RECORDS: Final[dict[str, Any]] = {
    "check": tuple[Remark, ...],
    "doctor": tuple[Finding, ...],
}


def render() -> str:
    """Write the whole page."""
    parts = [HEAD, "```text", help_of(duly, "duly"), "```", "", "```text"]
    parts += [write_all(click.Context(duly, terminal_width=WIDTH)), "```", ""]
    for section, commands in sections().items():
        parts += [f"## {section}", ""]
        for name in commands:
            parts += _command(load(name), name)
    return "\n".join(parts)


def _command(command: click.Command | None, name: str) -> Iterator[str]:
    assert command is not None, name
    yield from (f"### duly {name}", "", "```text", help_of(command, f"duly {name}"), "```", "")
    if isinstance(command, click.Group):
        for inner, each in command.commands.items():
            yield from _command(each, f"{name} {inner}")
    else:
        yield from _json(name)


def help_of(command: click.Command, path: str) -> str:
    """Write the help of a command as it is shown on a narrow terminal."""
    settings = {"help_option_names": ["-h", "--help"], "terminal_width": WIDTH}
    ctx = command.context_class(command, info_name=path, **settings)  # type: ignore[arg-type]
    return command.get_help(ctx).rstrip()


def _json(name: str) -> Iterator[str]:
    """Name the fields of what a question answers."""
    if name in TOGETHER:
        yield from (f"JSON: {TOGETHER[name]}.", "")
    if name in RECORDS:
        yield from (f"JSON: {_shape(RECORDS[name])}", "")
        return
    verb = next((each for each in VERBS.values() if command_of(each.name) == name), None)
    if verb is None or not verb.is_question:
        return
    told = _shape(verb.returns)
    if told:
        yield from (f"JSON: {told}", "")


def _shape(kind: Any) -> str:
    """Say what an answer looks like: a list of records, a record, or text."""
    if get_origin(kind) is tuple:
        return f"a list of {_shape(get_args(kind)[0])}"
    if get_origin(kind) in (UnionType, Union):
        return " or ".join(filter(None, map(_shape, get_args(kind))))
    if is_dataclass(kind):
        names = [each.name for each in fields(kind)]
        names += [each for each, value in vars(kind).items() if isinstance(value, property)]
        return f"`{', '.join(names)}`"
    return NAMES[kind]


def main() -> int:
    """Write the page, or say whether it is stale."""
    if "--write" in sys.argv:
        PAGE.write_text(render(), encoding="utf-8")
        return 0
    is_same = PAGE.read_text(encoding="utf-8") == render()
    print("as it was" if is_same else "stale; write it with --write")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
