"""The event bus on the command line: `duly bus emit`, and all the other verbs of the bus (B).

Law: every verb of the bus is a command of this group; `schedule` is a shorter name.
"""

from __future__ import annotations

from typing import Final

import click

from duly.faces.cli.verb import make
from duly.faces.verb import BUS, VERBS

SHORT: Final = {"schedule": "bus.schedule_at"}


@click.group()
def bus() -> None:
    """Use the event bus: emit, schedule, and see what became of it."""


for _name in VERBS:
    if _name.startswith(BUS):
        bus.add_command(make(VERBS[_name]))
for _short, _name in SHORT.items():
    bus.add_command(make(VERBS[_name]), _short)
