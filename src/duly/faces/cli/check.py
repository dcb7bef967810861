"""`duly check`: all that can be said about a source before it is deployed (W5).

Law 1  It is strict: a warning fails as an error does, unless `--lenient` says otherwise.
Law 2  Nothing is stored and nothing outside is asked; a source is loaded in the sandbox with no
       tools. It needs neither a host nor a store.
Law 3  A finding is one line that an editor understands: path:line:column: severity: rule:
       sentence.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from duly.api.check import REFUSES, Remark, examine
from duly.api.text import visible
from duly.faces.cli.base import EXIT_FAILED, Face, echo_json, json_option, pass_face, run
from duly.words.finding import say_finding, say_kind, say_place, say_told

if TYPE_CHECKING:
    from duly.api.word import Source

SOURCE_COLUMNS_MAX: Final = 100


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
    """List everything that is wrong with sources; `-` reads one from standard input.

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


def show(remarks: Iterable[Remark], texts: dict[str, str]) -> None:
    """Write every remark; on a terminal with the line it is about, and where in it."""
    is_shown = sys.stdout.isatty()
    for each in remarks:
        found = asdict(each)
        if not is_shown:
            click.echo(visible(say_finding(found)))
            continue
        place, kind, told = (visible(say(found)) for say in (say_place, say_kind, say_told))
        colour = "red" if each.severity == REFUSES else "yellow"
        click.echo(f"{paint(f'{place}:', bold=True)} {paint(f'{kind}:', fg=colour)} {told}")
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
