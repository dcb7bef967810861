"""Secrets on the command line (A5).

Law: a secret is typed unseen or comes from stdin. It is never an argument: arguments stay in the
shell's history and are seen by everybody who lists processes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from duly.api.page import GIVES_SECRET, HookSender, IdFrom, name_hooks
from duly.api.registry import VERBS
from duly.api.text import visible
from duly.faces.cli.base import (
    Face,
    echo_json,
    is_typed,
    json_option,
    pass_face,
)
from duly.faces.cli.completion import complete_workflow
from duly.faces.cli.layout import text
from duly.faces.cli.show import shown
from duly.faces.cli.spelling import Spelled
from duly.faces.cli.table import ROWS
from duly.faces.cli.verb import make, read_text
from duly.words.done import tell_done


@click.group()
def secret() -> None:
    """Set, list and drop secrets of connectors; what they say is never shown."""


@click.command("set", short_help=ROWS["secret set"].short, cls=Spelled, verb="set_secret")
@click.argument("connector")
@click.argument("name")
@click.argument("more", nargs=-1, metavar="")
@json_option
@pass_face
def set_secret(face: Face, connector: str, name: str, more: Sequence[str]) -> None:
    """Keep a secret for a connector, sealed; it is used from the next call on.

    You are asked for it unseen; without a terminal it is read from stdin, without the line's end.
    """
    if more:
        raise click.UsageError(
            "A secret is no argument: your shell and every list of processes would show it. "
            "Leave it out and type it when you are asked, or give it on stdin."
        )
    value = read_secret(f"The secret {name} of {connector}")
    args = {"connector": connector, "name": name}
    told = face.call("set_secret", **args, value=value)
    if face.is_json:
        echo_json(told)
    else:
        shown("set_secret", told, args)


@click.command("new-hook", cls=Spelled, verb="new_hook")
@click.argument("workflow", shell_complete=complete_workflow)
@click.argument("topic")
@click.option(
    "--sender",
    type=click.Choice([*map(str, HookSender)]),
    default=str(HookSender.STANDARD),
    help="How it signs. [default: standard]",
)
@click.option(
    "--id-from",
    type=click.Choice([*map(str, IdFrom)]),
    default=str(IdFrom.BODY),
    help="Which posts without a signature are the same event. [default: body]",
)
@click.option("--id-name", default="", help="The header or the field that has the id.")
@click.option("--title", default="", help="How titles are written, such as '{name}: {wish}'.")
@click.option("--replace", is_flag=True, help="One is open: its key and its secret stop at once.")
@json_option
@pass_face
def new_hook(face: Face, /, workflow: str, topic: str, sender: str, **terms: Any) -> None:
    """Open a topic with ingress to a webhook; its secret is shown this once.

    One that is open stays as it is, and this is refused, unless you say `--replace`. Slack and
    Stripe give the secret to you: you are asked for it unseen; without a terminal it is read from
    stdin.

    A post to the address with the key is the same event as one with the same body; with
    `--id-from post` each is new, with `header` or `field` those with the same id are the same.
    """
    args = {"workflow": workflow, "topic": topic, "sender": sender, **terms}
    given = {}
    if sender in GIVES_SECRET:
        given["secret"] = read_secret(f"The signing secret that {sender} shows you")
    told = face.call("new_hook", **args, **given)
    if face.is_json:
        echo_json(told)
    else:
        # Not broken where the line ends: an address is copied whole.
        text(tell_done("new_hook", _with_address(face, told), args).sentence)


def _with_address(face: Face, hook: Any) -> dict[str, Any]:
    """Write the whole address of a webhook, if the settings name the one that is public."""
    settings = face.project.config.page
    names = name_hooks(settings.hosts, settings.hooks_address or "")
    is_secure = settings.certificate is not None or settings.behind_proxy == "yes"
    base = f"{'https' if is_secure else 'http'}://{names[0]}" if names else ""
    return {**hook, "path": f"{base}{hook['path']}"}


def read_secret(question: str) -> str:
    """Ask for a secret unseen; without a terminal it is read from stdin."""
    # A person types it unseen, also where the answer goes into a file or a pipe.
    if is_typed():
        asked = visible(question)
        typed: str = click.prompt(asked, hide_input=True, confirmation_prompt=True, err=True)
        return typed
    return read_text(sys.stdin.buffer, "stdin").rstrip("\r\n")


secret.add_command(set_secret)
secret.add_command(make(VERBS["secrets"]), "list")
secret.add_command(make(VERBS["drop_secret"]), "drop")
