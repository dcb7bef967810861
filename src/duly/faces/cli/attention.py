"""What waits for a person: of everything, or of one workflow (F8)."""

from __future__ import annotations

from typing import Any, Final

import click

from duly.api.registry import VERBS
from duly.faces.cli.base import Face, echo_json
from duly.faces.cli.completion import complete_workflow
from duly.faces.cli.show import shown
from duly.faces.cli.verb import follow, make

ATTENTION: Final = "attention"


def _make_attention() -> click.Command:
    """Make the command of what waits, of everything or of one workflow."""
    made = make(VERBS[ATTENTION])
    list_all = made.callback
    assert list_all is not None

    def callback(workflow: str | None, **given: Any) -> None:
        if workflow is None:
            list_all(**given)
            return
        face = click.get_current_context().ensure_object(Face)
        face.call("workflow", name=workflow)  # an unknown name is an error, not an empty list
        # Keys begin with the name, so that what waits there comes first.
        given = {name: each for name, each in given.items() if each is not None}
        args = {"after": workflow, **given}
        if args.pop("follow"):
            follow(face, VERBS[ATTENTION], args, lambda each: each["workflow"] == workflow)
            return
        told: Any
        told, view = face.ask(ATTENTION, **args)
        found = [each for each in told if each["workflow"] == workflow]
        echo_json(found) if face.is_json else shown(ATTENTION, found, args, view)

    argument = click.Argument(["workflow"], required=False, shell_complete=complete_workflow)
    made.params.insert(0, argument)
    made.callback = callback
    return made


attention = _make_attention()
