"""`duly help`: every command in its section, or the help of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from duly.api.registry import VERBS
from duly.api.text import visible
from duly.faces.cli import commands
from duly.faces.cli.table import ROWS, SECTIONS, command_of, row_of

ALL: Final = "all"


@click.command("help")
@click.argument("words", nargs=-1, metavar="[all | COMMAND...]")
@click.pass_context
def help_(ctx: click.Context, words: Sequence[str]) -> None:
    """Show the first commands, every command (`all`), or the help of one.

    \b
    Example: duly help all
    """
    root = ctx.find_root()
    if not words:
        click.echo(root.get_help())
    elif list(words) == [ALL]:
        click.echo(write_all(root))
    else:
        click.echo(_help_of(root, words))


def write_all(root: click.Context) -> str:
    """Write every command in its section."""
    formatter = root.make_formatter()
    for section, found in sections().items():
        with formatter.section(section):
            formatter.write_dl(list(found.items()))
    return formatter.getvalue().strip()


def sections() -> dict[str, dict[str, str]]:
    """List the commands by section; a verb without a row stands with its kind."""
    found: dict[str, dict[str, str]] = {each: {} for each in SECTIONS}
    kinds = {
        command_of(name): row_of(name, is_question=each.is_question) for name, each in VERBS.items()
    }
    for name, short in commands().items():
        found[(ROWS.get(name) or kinds[name]).section][name] = short
    return found


def _help_of(root: click.Context, words: Sequence[str]) -> str:
    ctx = root
    for word in words:
        command = ctx.command
        inner = command.get_command(ctx, word) if isinstance(command, click.Group) else None
        if inner is None:
            raise click.UsageError(f"There is no command {visible(' '.join(words))}.", root)
        ctx = click.Context(inner, info_name=word, parent=ctx)
    return ctx.get_help()
