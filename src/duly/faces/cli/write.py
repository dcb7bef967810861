"""`duly write`: from one sentence to a workflow that a person has agreed to (M9).

Law 1  A model writes, and the host checks, tries and crashes what it wrote. The person sees in
       words what it will do, before they are asked.
Law 2  A yes is for the hash that was shown. Without a terminal nothing is adopted: what was written
       waits as a proposal.
"""

from __future__ import annotations

from typing import Any, cast

import click

from duly.api.value import Json
from duly.faces.cli import base
from duly.faces.cli.base import (
    Face,
    confirm,
    echo_json,
    json_option,
    pass_face,
)
from duly.faces.cli.completion import complete_workflow
from duly.faces.cli.layout import text
from duly.faces.cli.progress import working
from duly.faces.cli.show import shown
from duly.words.writing import say_written


@click.command()
@click.argument("wish")
@click.option(
    "--change",
    metavar="WORKFLOW",
    help="Change this workflow instead.",
    shell_complete=complete_workflow,
)
@click.option(
    "--language",
    type=click.Choice(["python", "javascript"]),
    help="What to write it in. [default: python]",
)
@click.option("--model", metavar="NAME", help="Which model of the settings is to write it.")
@json_option
@pass_face
def write(
    face: Face, wish: str, change: str | None, language: str | None, model: str | None
) -> None:
    """Let a model write a workflow from a sentence; you see what it does, and decide.

    Its draft is checked, corrected, tried with real reads and crashed in a simulation. Nothing is
    sent, deployed or granted before you say yes. With --json, and without a terminal, it is kept as
    a proposal.

    \b
    Examples:
      duly write "Every weekday at 8, mail me the appointments of the day."
      duly write "also skip newsletters" --change invoices
    """
    given: dict[str, Json] = {"change": change, "language": language, "model": model}
    args = {name: each for name, each in given.items() if each is not None}
    with working("A model writes; then it is checked, tried and crashed …"):
        told = cast("dict[str, Any]", face.call("write", wish=wish, **args))
    if face.is_json:
        echo_json(told)
        return
    text(say_written(told))
    proposal = told["proposal"]["hash"]
    if not base.is_terminal():
        shown("write", told, args)
        return
    confirm("Put exactly this to use, and allow it what it asks for?", is_yes=False)
    adopted = {"proposal": proposal, "grant": True}
    answer, view = face.ask("adopt", **adopted)
    shown("adopt", answer, adopted, view)
