"""Where a person ends something for good: an input is erased, a workflow taken out of service.

Law  A person sees what is lost before they decide: the command shows it, then asks. Without a
     terminal the yes is typed (`--yes`).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import click

from duly.api.value import Json
from duly.faces.cli.base import Face, confirm, echo_json, json_option, pass_face, say, yes_option
from duly.faces.cli.completion import complete_workflow
from duly.faces.cli.progress import working
from duly.faces.cli.show import shown
from duly.faces.cli.spelling import Spelled
from duly.faces.cli.table import row_of
from duly.words.forgetting import ERASE, REMOVE, say_forgettable, say_removable


@click.command(cls=Spelled, verb="forget")
@click.argument("id")
@click.option("--workflow", help="Only of this workflow.", shell_complete=complete_workflow)
@click.option("--topic", help="Only of this topic.")
@yes_option
@json_option
@pass_face
def forget(face: Face, id: str, workflow: str | None, topic: str | None, yes: bool) -> None:  # noqa: A002  # as the verb calls it
    """Erase the contents of an input and of everything made from it, for good.

    It shows how much that is, with titles, and asks. Name the input by its message id, and its
    workflow or topic if several have that id. It is refused while anything of it is open. Message
    ids, keys, states and digests stay, so that nothing is done again. The answer names copies that
    Duly cannot reach.
    """
    given = {"workflow": workflow, "topic": topic}
    args: dict[str, Json] = {"id": id, **{key: each for key, each in given.items() if each}}
    told: Any = face.call("forgettable", **args)
    _ask(face, say_forgettable(told), ERASE, is_yes=yes)
    # Exactly the input that was shown: another one may have come since under that id.
    _act(face, "forget", {**args, "workflow": told["workflow"], "topic": told["topic"]})


@click.command(cls=Spelled, verb="remove")
@click.argument("workflow", shell_complete=complete_workflow)
@yes_option
@json_option
@pass_face
def remove(face: Face, workflow: str, yes: bool) -> None:
    """Take a workflow out of service; its history stays, and its name is free.

    It shows what waits, and asks. Its webhooks are closed.
    """
    told: Any = face.call("workflow", name=workflow)
    _ask(face, say_removable(told), REMOVE, is_yes=yes)
    _act(face, "remove", {"workflow": workflow})


def _ask(face: Face, lines: Iterable[str], question: str, *, is_yes: bool) -> None:
    if face.is_json and not is_yes:
        raise click.UsageError("With --json nothing is shown before it is decided. Add --yes.")
    if not face.is_json:
        for each in lines:
            say(each)
    confirm(question, is_yes=is_yes)


def _act(face: Face, verb: str, args: dict[str, Json]) -> None:
    meanwhile = row_of(verb).meanwhile
    with working(meanwhile) if meanwhile else nullcontext():
        told, view = face.ask(verb, **args)
    if face.is_json:
        echo_json(told)
    else:
        shown(verb, told, args, view)
