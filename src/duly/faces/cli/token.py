"""Tokens of programs and devices of browsers on the command line (G6)."""

from __future__ import annotations

from typing import Any

import click

from duly.api.registry import VERBS, Scope
from duly.faces.cli.base import Face, echo_json, hint, json_option, pass_face
from duly.faces.cli.spelling import Spelled
from duly.faces.cli.table import ROWS
from duly.faces.cli.verb import OPTIONS, make
from duly.words.done import tell_done

SCOPES = click.Choice([*map(str, Scope)])


@click.group()
def token() -> None:
    """Make, list and revoke tokens of programs and devices of browsers."""


@click.command("new", short_help=ROWS["token new"].short, cls=Spelled, verb="new_token")
@click.argument("name")
@click.option("--scope", type=SCOPES, required=True, help=OPTIONS["scope"])
@click.option("--days", type=int, help=OPTIONS["days"])
@json_option
@pass_face
def new(face: Face, name: str, scope: str, days: int | None) -> None:
    """Make a token for a program and print it, this once.

    A scope has all of the ones before it: read, agent, decide, admin.
    """
    given: dict[str, Any] = {"name": name, "scope": scope, "days": days}
    args = {key: each for key, each in given.items() if each is not None}
    made: Any = face.call("new_token", **args)
    if face.is_json:
        echo_json(made)
        return
    click.echo(made["token"])  # in one line, so that it can be copied
    hint(tell_done("new_token", made, args).sentence)


token.add_command(new)
token.add_command(make(VERBS["tokens"]), "list")
token.add_command(make(VERBS["revoke_token"]), "revoke")
