"""`duly check`: all that can be said about a source before it is deployed (W5).

Law 1  It is strict: a warning fails as an error does, unless `--lenient` says otherwise.
Law 2  Nothing is stored and nothing outside is asked; a source is loaded in the sandbox with no
       tools. It needs neither a host nor a store.
Law 3  A finding is one line that an editor understands: path:line:column: severity: rule:
       sentence.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from duly.faces.cli.base import EXIT_FAILED, Face, echo_json, json_option, pass_face, run
from duly.rules.shown import visible

if TYPE_CHECKING:
    from duly.host import Host
    from duly.rules.declaration import Problem
    from duly.rules.source import Source
    from duly.script.finding import Finding

PLACED: Final = re.compile(r":(\d+)(?::(\d+))?$")
REFUSES: Final = "refuses"
SOURCE_COLUMNS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing to say about a source; a line of 0 is the whole of it."""

    file: str
    line: int
    column: int
    rule: str
    severity: str
    sentence: str
    suggestion: str

    def __str__(self) -> str:
        place = f"{self.line}:{self.column}" if self.line else "1:1"
        told = f"{self.severity}: {self.rule}: {self.sentence} {self.suggestion}"
        return f"{self.file}:{place}: {told}"


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--language",
    type=click.Choice(["python", "javascript"]),
    help="What it is written in, where no ending says so (`-`).",
)
@click.option("--lenient", is_flag=True, help="Let warnings pass; only errors fail.")
@json_option
@pass_face
def check(face: Face, files: tuple[str, ...], language: str | None, lenient: bool) -> None:
    """Say all that is wrong with sources; `-` reads one from standard input.

    Fails with status 1 if there is an error or, unless --lenient, a warning.

    \b
    Example: duly check workflows/welcome.py
    """
    from duly.api.aside import read_source

    most_bytes = face.project.config.policy.limits.source_bytes
    sources = [read_source(each, language=language, most_bytes=most_bytes) for each in files]
    remarks = run(_examine(face, sources))
    if face.is_json:
        echo_json([asdict(each) for each in remarks])
    else:
        show(remarks, {each.name: each.text for each in sources})
        click.echo(sum_up(remarks, len(sources)), err=True)
    if any(each.severity == REFUSES or not lenient for each in remarks):
        raise click.exceptions.Exit(EXIT_FAILED)


async def _examine(face: Face, sources: Sequence[Source]) -> list[Remark]:
    from duly.api.aside import open_aside

    await face.look()
    remarks: list[Remark] = []
    async with open_aside(face.project) as host:
        for source in sources:
            remarks += await examine(host, source)
    return remarks


async def examine(host: Host, source: Source) -> list[Remark]:
    """Load a source with no tools and analyse it; answer everything found, by place."""
    return [remark_on(each, source.name) for each in await host.check(source)]


def remark_on(found: Finding | Problem, file: str) -> Remark:
    """Make a remark out of a finding, or of a problem that loading proved."""
    from duly.script.finding import Finding

    if isinstance(found, Finding):
        severity = str(found.severity)
        place = (found.line, found.column)
        return Remark(file, *place, found.rule, severity, found.sentence, found.suggestion)
    placed = PLACED.search(found.path)
    line, column = (int(placed[1]), int(placed[2] or 1)) if placed else (0, 0)
    sentence = found.sentence.removeprefix(f"{found.path}: ") if placed else found.sentence
    return Remark(file, line, column, found.rule, REFUSES, sentence, found.suggestion)


def show(remarks: Iterable[Remark], texts: dict[str, str]) -> None:
    """Write every remark; on a terminal with the line it is about, and where in it."""
    is_shown = sys.stdout.isatty()
    for each in remarks:
        said = visible(each)
        if not is_shown:
            click.echo(said)
            continue
        place, rule, words = said.partition(f" {each.severity}: {each.rule}: ")
        colour = "red" if each.severity == REFUSES else "yellow"
        click.echo(f"{paint(place, bold=True)}{paint(rule, fg=colour)}{words}")
        lines = texts.get(each.file, "").splitlines()
        if 0 < each.line <= len(lines):
            line = visible(lines[each.line - 1].expandtabs(1))[:SOURCE_COLUMNS_MAX]
            caret = " " * (each.column - 1) + "^" if each.column <= len(line) + 1 else ""
            click.echo(f"    {line}\n    {paint(caret, fg=colour)}")


def paint(text: str, **style: Any) -> str:
    """Give a text its colour, unless NO_COLOR asks for none; off a terminal it is taken away."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


def sum_up(remarks: Sequence[Remark], files: int) -> str:
    """Say in one line what came of it."""
    errors = sum(each.severity == REFUSES for each in remarks)
    warnings = len(remarks) - errors
    checked = f"{files} file{'s' * (files != 1)} checked"
    if not remarks:
        return f"{checked}: nothing to say against {'them' if files > 1 else 'it'}."
    counts = [(errors, "error"), (warnings, "warning")]
    told = [f"{count} {word}{'s' * (count != 1)}" for count, word in counts if count]
    return f"{checked}: {' and '.join(told)}."
