"""The command line `duly`: one group, whose commands are imported when they are called.

Law 1  `duly --help` imports neither rich nor a host; what it says stands in `table.py`.
Law 2  Every verb of a host and of its bus has exactly one command (U6). A verb without a row in
       the table is found in the registry.
Law 3  An error is one sentence on stderr: what happened, to what, what to do. No traceback is
       shown unless `--debug` asks for one.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from duly import __version__
from duly.api.text import visible
from duly.faces.cli.base import EXIT_STOPPED, Face
from duly.faces.cli.table import FIRST, HERE, ROWS, command_of

EPILOG: Final = "`duly help all` lists every command; `duly COMMAND --help` explains one."


def commands() -> dict[str, str]:
    """List every command and what it does, by its place in the table; the registry's come last."""
    from duly.api.registry import VERBS
    from duly.faces.cli.verb import short

    found = {name: row.short for name, row in ROWS.items() if " " not in name}
    for verb in VERBS.values():
        name = command_of(verb.name)
        if " " not in name:
            found.setdefault(name, short(verb))
    return found


def load(name: str) -> click.Command | None:
    """Import a command, or make it from its verb; None if there is neither."""
    row = ROWS.get(name)
    if row is not None and row.place:
        module, _, attribute = row.place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), row.place
        return command
    from duly.api.registry import VERBS
    from duly.faces.cli.verb import make

    verb = next((each for each in VERBS if command_of(each) == name), None)
    return None if verb is None else make(VERBS[verb])


class Lazy(click.Group):
    """A group whose commands are imported when they are called, and whose errors are sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order in which they are explained."""
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        return load(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or say which one was probably meant."""
        if args and not args[0].startswith("-") and load(args[0]) is None:
            from duly.api.value import suggest

            name = visible(args[0])
            known = commands()
            raise click.UsageError(f'There is no command "{name}". {suggest(name, known)}', ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what a person needs on the first day, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, ROWS[name].short) for name in FIRST])

    def invoke(self, ctx: click.Context) -> None:
        """Call a command; what goes wrong inside becomes a sentence."""
        try:
            super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            from duly.faces.cli.failure import tell

            raise tell(error, ctx.ensure_object(Face)) from error

    def main(  # type: ignore[override]  # click says more than it needs
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Call a command and leave with its exit code."""
        if "_DULY_COMPLETE" in os.environ:
            import_module(f"{HERE}.completion")  # It tells click how we quote.
        if not standalone_mode:
            return super().main(args, prog_name, standalone_mode=False, **extra)
        try:
            status = super().main(args, prog_name, standalone_mode=False, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else "duly"
            is_json = "--json" in (sys.argv[1:] if args is None else args)
            if is_json:
                from duly.faces.cli.failure import tell_usage

                click.echo(tell_usage(path, _words(error)), err=True)
            else:
                click.echo(f"{_words(error)} See `{path} --help`.", err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            click.echo(error.format_message(), err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(EXIT_STOPPED)
        sys.exit(status if isinstance(status, int) else 0)


def _words(error: click.UsageError) -> str:
    """Write how a command was used wrongly; what click says of no parameter it says in vain."""
    message = error.format_message()
    if isinstance(error, click.MissingParameter):  # which lists choices on lines of their own
        message = " ".join(message.split())
    text = visible(message).removeprefix("Invalid value: ")
    return text if text.endswith((".", "?")) else f"{text}."


@click.group(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog=EPILOG,
)
@click.option(
    "--project",
    metavar="PATH",
    help="The project's folder or its duly.toml; otherwise the nearest one upwards.",
)
@click.option("--debug", is_flag=True, help="Show where an error came from.")
@click.version_option(__version__, message="duly %(version)s")
@click.pass_context
def duly(ctx: click.Context, project: str | None, debug: bool) -> None:
    """Run automations that language models write, and keep an account of every change.

    An outside change is never made twice and never lost in silence.
    """
    ctx.obj = Face(given=project, is_debug=debug)
    # What a host logs is for the person who runs it; `serve` shows it.
    if not debug:
        logging.getLogger("duly").addHandler(logging.NullHandler())
