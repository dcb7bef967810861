"""Channels and the accounts that decide over them, on the command line (G11)."""

from __future__ import annotations

from typing import Any

import click

from duly.api.registry import VERBS
from duly.faces.cli.base import Face, echo_json, hint, json_option, pass_face
from duly.faces.cli.spelling import Spelled
from duly.faces.cli.table import ROWS
from duly.faces.cli.verb import make
from duly.words.done import tell_done


@click.group()
def channel() -> None:
    """List channels, and pair accounts that may say yes or no over them."""


@click.command("pair", short_help=ROWS["channel pair"].short, cls=Spelled, verb="pair")
@click.argument("channel")
@click.argument("name")
@json_option
@pass_face
def pair(face: Face, channel: str, name: str) -> None:
    """Print a code that pairs an account with a channel, once, within ten minutes.

    Send the code to the bot from that account. Its answers are recorded under NAME.
    """
    args = {"channel": channel, "name": name}
    made: Any = face.call("pair", **args)
    if face.is_json:
        echo_json(made)
        return
    click.echo(made["code"])  # in one line, so that it can be copied
    hint(tell_done("pair", made, args).sentence)


channel.add_command(pair)
channel.add_command(make(VERBS["channels"]), "list")
channel.add_command(make(VERBS["unpair"]), "unpair")
