"""What a command is about where no id was typed: the only thing that waits for it (U6).

Law 1  What waits for a verb is what the host offers it for; nothing is guessed here.
Law 2  Of several none is chosen: they are listed, with what to type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duly.api.registry import VERBS
from duly.errors import RequestRefused, see
from duly.faces.cli.base import Face, say
from duly.faces.cli.call import change
from duly.faces.cli.spelling import spell

PAGE: Final = 1000
# What is approved for more than one call waits like what is approved for one.
SAME: Final[Mapping[str, str]] = {"allow": "approve"}


def find_only(face: Face, verb: str) -> str:
    """Return the id of the only thing a verb is offered for; of several, list them and refuse."""
    told: Any
    told, view = face.ask("attention", limit=PAGE)
    waiting = {
        args[0]: each
        for each in told
        for offer in each["offers"]
        if offer["verb"] == SAME.get(verb, verb) and (args := [*offer["args"].values()])
    }
    if len(waiting) == 1:
        return str(next(iter(waiting)))
    if not waiting:
        raise RequestRefused(code="none_waits", subject=verb, next=see("attention"))
    if not face.is_json:
        name = VERBS[verb].parameters[0].name
        for whole, each in waiting.items():
            say(each["workflow"], style="bold")
            change(each["observed"], each["claimed"], indent=2)
            say(spell(VERBS[verb], {name: whole}, (), view), indent=4)
    ids = [view.named(each) for each in waiting]
    raise RequestRefused(
        code="several_wait", subject=verb, facts={"candidates": ids}, next=see("attention")
    )
