"""The command line `duly`: one group, whose commands are imported when they are called.

Law 1  `duly --help` imports neither rich nor a host; so what it says about each command stands
       here, and a command's own help stands with the command.
Law 2  Every verb of a host and of its bus has a command of its name (U6).
Law 3  An error is one sentence on stderr: what happened, to what, what to do. Whatever happens
       inside, nobody is shown a traceback who did not ask for it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

import click

from duly import __version__
from duly.faces.cli.base import EXIT_STOPPED, Face
from duly.rules.shown import visible
from duly.rules.value import suggest

HERE: Final = "duly.faces.cli"
VERB: Final = "verb"

# Section → command → where it is, and what it does. `verb:run_now` is made from the table of verbs.
SECTIONS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Begin": {
        "init": (f"{HERE}.init:init", "Make a small project that works."),
        "demo": ("duly.faces.demo.command:demo", "See Duly survive a crash, on this machine."),
        "guide": (f"{HERE}.guide:guide", "Read how to write a workflow; also for a model."),
        "doctor": (f"{HERE}.doctor:doctor", "Check this machine and this project."),
        "trust": (f"{HERE}.trust:trust", "Use a project that another user could have written."),
        "completion": (f"{HERE}.completion:completion", "Print completion for your shell."),
    },
    "Run": {
        "serve": (f"{HERE}.serve:serve", "Run the host until it is stopped."),
        "dev": (f"{HERE}.dev:dev", "Run the host and deploy each file when it is saved."),
        "drain": (f"{HERE}.deploy:drain", "Work off what is due now, and end."),
    },
    "Look": {
        "status": (f"{HERE}.look:status", "See how everything stands, on one screen."),
        "attention": (f"{HERE}.look:attention", "List what waits for you."),
        "why": (f"{HERE}.look:why", "Say why something stands as it does."),
        "inputs": ("verb:inputs", "List what came in, and what came of it."),
        "outputs": ("verb:outputs", "List what was changed, and because of what."),
        "workflows": ("verb:workflows", "List the workflows."),
        "workflow": ("verb:workflow", "Show one workflow."),
        "events": ("verb:events", "List the events of a workflow."),
        "runs": ("verb:runs", "List runs, newest first."),
        "run": ("verb:run", "Show one run."),
        "logs": ("verb:logs", "Show what the script of a run said."),
        "mutations": ("verb:mutations", "List the ledger, newest first."),
        "mutation": ("verb:mutation", "Show one row of the ledger."),
        "approvals": ("verb:approvals", "List the calls that wait for a yes or no."),
        "allowances": ("verb:allowances", "List what needs no further yes."),
        "actions": ("verb:actions", "List what people and agents did."),
        "extensions": ("verb:extensions", "List the extensions of the project."),
    },
    "Decide": {
        "approve": (f"{HERE}.decide:approve", "Let a proposed call be sent, once."),
        "approve-all": (f"{HERE}.decide:approve_all", "Let several calls of one tool be sent."),
        "allow": (f"{HERE}.decide:allow", "Approve a call and the next ones like it."),
        "amend": ("verb:amend", "Change a proposed call before you approve it."),
        "reject": (f"{HERE}.decide:reject", "Decline a proposed call."),
        "revoke-allowance": ("verb:revoke_allowance", "Ask again before calls that were allowed."),
        "settle": (f"{HERE}.decide:settle", "Say what became of an unknown change."),
        "skip": ("verb:skip", "Skip an event for good."),
        "retry": ("verb:retry", "Try a run that stands still again."),
        "abandon": ("verb:abandon", "Give up a run."),
        "pause": ("verb:pause", "Let no run of a workflow start."),
        "resume": (f"{HERE}.decide:resume", "Let runs start again."),
        "run-now": ("verb:run_now", "Make every check of a workflow, or one, due now."),
        "publish": ("verb:publish", "Publish an event into a workflow."),
        "grant": ("verb:grant", "Allow a workflow a capability."),
        "revoke": ("verb:revoke", "Take a capability back."),
        "reconnect": ("verb:reconnect", "Say that a connection works again."),
    },
    "Write": {
        "check": (f"{HERE}.check:check", "Say all that is wrong with a source."),
        "try": (f"{HERE}.trial:try_", "See what a source would do now; nothing is sent."),
        "what-if": ("verb:what_if", "Compare a source with what past runs did."),
        "simulate": (f"{HERE}.simulate:simulate", "Crash a workflow everywhere, and count."),
        "tools": (f"{HERE}.tools:tools", "List what scripts may call."),
        "deploy": (f"{HERE}.deploy:deploy", "Make files the active versions."),
        "versions": ("verb:versions", "List the versions of a workflow."),
        "diff": ("verb:diff", "Show what changed between two versions."),
        "rollback": ("verb:rollback", "Go back to an older version."),
        "remove": ("verb:remove", "Take a workflow out of service."),
    },
    "Keep": {
        "secret": (f"{HERE}.secret:secret", "Set, list and drop secrets of connectors."),
        "set-secret": (f"{HERE}.secret:set_secret", "Keep a secret: `duly secret set`."),
        "secrets": ("verb:secrets", "List the secrets by name: `duly secret list`."),
        "drop-secret": ("verb:drop_secret", "Forget a secret: `duly secret drop`."),
        "backup": ("verb:backup", "Copy the store while it runs."),
        "verify": ("verb:verify", "Check the whole store."),
        "tidy": ("verb:tidy", "Remove finished history the policy does not keep."),
        "bus": (f"{HERE}.bus:bus", "Use the event bus."),
    },
}

COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {name: place for each in SECTIONS.values() for name, (place, _) in each.items()}
)


def load(place: str) -> click.Command:
    """Import a command, or make it from its verb."""
    module, _, name = place.partition(":")
    if module == VERB:
        from duly.api.registry import VERBS
        from duly.faces.cli.verb import make

        return make(VERBS[name])
    command = getattr(import_module(module), name)
    assert isinstance(command, click.Command), place
    return command


class Lazy(click.Group):
    """A group whose commands are imported when they are called, and whose errors are sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order in which they are explained."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        place = COMMANDS.get(cmd_name)
        return None if place is None else load(place)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or say which one was probably meant."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            name = visible(args[0])
            raise click.UsageError(f'There is no command "{name}". {suggest(name, COMMANDS)}', ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections without importing anything."""
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, told) for name, (_, told) in commands.items()])

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
    text = visible(error.format_message()).removeprefix("Invalid value: ")
    return text if text.endswith((".", "?")) else f"{text}."


@click.group(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="Every command explains itself: `duly COMMAND --help`.",
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
    # What a host logs is for whoever runs one; `serve` shows it.
    if not debug:
        logging.getLogger("duly").addHandler(logging.NullHandler())
