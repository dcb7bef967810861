"""How the isolation exam gets at what a verb would run, and stops the server in the middle of it.

Law: what is sent is what ships, and one statement more, which waits for a lock of the exam.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from duly.store.base import Durability, Transaction
from duly.store.postgres_line import SentStatement, ServerLine

Body = Callable[[Transaction], Any]


class Captured(Exception):  # no error: a way out with what was found
    """The transaction that a call would run."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body


class Capture:
    """A backend that runs nothing, and hands out what it was to run."""

    async def transact(self, body: Body, durability: Durability) -> Any:
        """Hand out a transaction instead of running it."""
        raise Captured(body)

    ask = transact


OWN: Final = 3  # the first statement of a transaction that is its verb's own, after two that begin
STOP: Final = SentStatement("select pg_advisory_xact_lock(1, 1)")
HOLD: Final = "select pg_advisory_lock(1, 1)"
LET_GO: Final = "select pg_advisory_unlock(1, 1)"
# Verbs take locks with one number; a lock with two is the exam's.
WAITING: Final = """
    select coalesce(bool_or(pid = %s and objsubid = 2 and locktype = 'advisory'), false),
           coalesce(bool_or(pid = %s), false)
    from pg_locks where not granted
"""


class StoppedLine(ServerLine):
    """A line that sends what ships, and one statement more: there the server waits for the exam."""

    stop_before: int | None = None
    sent = 0  # statements of the transaction, from its BEGIN on
    inside = 0  # how often it stopped before one that was sent with the one before it

    def carry(self, batch: Sequence[SentStatement]) -> None:
        """Send a batch; the server stops before the chosen statement of its transaction, once."""
        if batch[0].text == "begin":
            self.sent = 0
        place = (self.stop_before or 0) - self.sent
        self.sent += len(batch)
        if 0 < place <= len(batch):
            self.stop_before = None
            self.inside += place > 1
            batch = [*batch[: place - 1], STOP, *batch[place - 1 :]]
        super().carry(batch)
