"""The event bus on the command line: `duly bus emit`, and all the other verbs of the bus (B).

Law 1  Every verb of the bus is a command of this group.
Law 2  A person sees what people, extensions and workflows said; of the host's own announcements
       only those that a subscriber took. How many are left out is said, and JSON has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from duly.api.registry import BUS, VERBS
from duly.api.word import OWN_SOURCE
from duly.faces.cli.base import Face, hint, run
from duly.faces.cli.show import shown
from duly.faces.cli.verb import Given, follow, make
from duly.faces.cli.view import View

JOURNAL: Final = "bus.journal"
PAGE: Final = 200  # of the longest payloads still fewer bytes than one answer may have
SHOWN_DEFAULT, SHOWN_MAX = 100, 1000
LOOKED_MAX: Final = 5000  # how far back is looked for what is worth showing


@click.group()
def bus() -> None:
    """Use the event bus: emit, schedule, and see what became of it."""


def is_shown(event: Mapping[str, Any]) -> bool:
    """Tell whether an event is worth a person's while: of the host's own, those taken."""
    return event["source"] != OWN_SOURCE or not event["undelivered"]


def _make_journal() -> click.Command:
    """Make the command of the journal, which leaves out what no subscriber took."""
    made = make(VERBS[JOURNAL])
    list_all = made.callback
    assert list_all is not None

    def callback(is_all: bool, **given: Any) -> None:
        face = click.get_current_context().ensure_object(Face)
        # A user who names a topic wants all of its events, also those that no subscriber took.
        if is_all or face.is_json or given["topic"] is not None:
            list_all(**given)
            return
        args = {name: each for name, each in given.items() if each is not None}
        if args.pop("follow"):
            follow(face, VERBS[JOURNAL], args, is_shown)
        else:
            face.asked = args
            _list(face, args)

    told = "Also what the host itself announced and no subscriber took."
    made.params.insert(0, click.Option(["--all", "is_all"], is_flag=True, help=told))
    made.callback = callback
    return made


def _list(face: Face, args: Given) -> None:
    events, hidden, last_id = run(_look(face, args))
    shown(JOURNAL, events, args, View(zone=face.project.config.policy.timezone))
    if hidden:
        are = "is" if hidden == 1 else "are"
        hint(f"{hidden} of the host's own {are} not shown; --all shows them.")
    if last_id is not None:
        hint(f"No further back was looked than event {last_id}: `--before {last_id}` goes on.")


async def _look(face: Face, args: Given) -> tuple[list[Any], int, int | None]:
    """Look back until enough is found; answer it, how much is left out, and where it broke off."""
    events: list[Any] = []
    hidden = looked = 0
    limit = args.get("limit", SHOWN_DEFAULT)
    # What no page may have is left to the host to refuse.
    asked = {**args, "limit": PAGE if 1 <= limit <= SHOWN_MAX else limit}
    async with face.session() as session:
        while looked < LOOKED_MAX:
            page: Any = await session.call(JOURNAL, **asked)
            for each in page:
                if is_shown(each):
                    events.append(each)
                else:
                    hidden += 1
                if len(events) == limit:
                    return events, hidden, None
            looked += len(page)
            if len(page) < asked["limit"]:
                return events, hidden, None
            asked["before"] = page[-1]["id"]
    return events, hidden, asked["before"]


for _name in VERBS:
    if _name.startswith(BUS):
        bus.add_command(_make_journal() if _name == JOURNAL else make(VERBS[_name]))
