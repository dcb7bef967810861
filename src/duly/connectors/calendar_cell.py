"""The locked process that reads calendars: its readers, and where it begins (K7).

It is another than the one that reads mails: it holds every time zone, since it can open no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duly.cell.serve import Reader, serve
from duly.connectors import ics_text
from duly.connectors.reader import MEMORY_BYTES, NEEDED

PROGRAM: Final = "duly.connectors.calendar_cell:main"
MODULES: Final = (*NEEDED, "dateutil", "six", "tzdata")

READERS: Final[Mapping[str, Reader]] = {
    "ics": ics_text.read_events,
    "ics.change": ics_text.change_event,
    "ics.one": ics_text.read_one,
    "ics.report": ics_text.read_report,
}


def main(channel: int) -> None:
    """Be the process that reads calendars."""
    ics_text.warm_up()
    serve(channel, READERS, memory_bytes=MEMORY_BYTES)
