"""How a host that serves is told to stop: by a signal, or by a person who wants it to begin again.

Law  A signal is stronger than a wish to begin again: a host that is told to stop, stops.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TOLD_S: Final = 0.5  # until who asked for a new beginning has its answer


class Stop:
    """How many signals to stop have come, and whether the host begins again after its stop."""

    def __init__(self) -> None:
        self.count = 0
        self.begins_again = False
        self.asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.again = asyncio.Event()

    def ask(self) -> None:
        """Say stop."""
        self.count += 1
        self.begins_again = False
        if self.asked.done():
            self.again.set()
        else:
            self.asked.set_result(None)

    def restart(self) -> None:
        """Stop in a moment, to begin again; one that stops already goes on with that."""
        asyncio.get_running_loop().call_later(TOLD_S, self._restart)

    def _restart(self) -> None:
        if not self.asked.done():
            self.begins_again = True
            self.asked.set_result(None)


@contextmanager
def signals() -> Iterator[Stop]:
    """Take the signals that end a process, for as long as this lasts."""
    loop = asyncio.get_running_loop()
    stop = Stop()
    for each in SIGNALS:
        loop.add_signal_handler(each, stop.ask)
    try:
        yield stop
    finally:
        for each in SIGNALS:
            loop.remove_signal_handler(each)
