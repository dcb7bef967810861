"""When the producers of a workflow will run (S2, U1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from duly.desk.base import HasDesk, find
from duly.errors import Invalid
from duly.rules import schedule
from duly.rules.schedule import moment
from duly.rules.value import decode
from duly.rules.verb import question
from duly.rules.word import Kind
from duly.store import people
from duly.store.base import Transaction
from duly.store.record import HandlerRow

TIMES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Upcoming:
    """The next times at which one producer runs; one that runs only when asked has none."""

    producer: str
    at: tuple[datetime, ...]


class Plans(HasDesk):
    """The question of a person who wants to know when a workflow looks again."""

    @question(example={"workflow": "invoices", "times": 10})
    async def upcoming(self, workflow: str, *, times: int = 10) -> tuple[Upcoming, ...]:
        """List the next times at which each producer of a workflow runs, if nothing stops it."""
        # Rules: S2.
        if type(times) is not int or not 1 <= times <= TIMES_MAX:
            facts = {"given": times, "least": 1, "most": TIMES_MAX}
            raise Invalid(code="out_of_range", path="times", facts=facts)
        zone = self._desk().parts.policy.timezone

        def look(tx: Transaction) -> tuple[Upcoming, ...]:
            rows = people.list_handlers(tx, find(tx, workflow).id)
            return tuple(
                Upcoming(row.name, tuple(moment(each) for each in _times(row, times, zone)))
                for row in rows
                if row.kind == Kind.PRODUCER and not row.orphaned
            )

        return await self._desk().ask(look)


def _times(row: HandlerRow, times: int, zone: str) -> Iterator[int]:
    """Count on from the planned time; each next one is worked out as the engine does."""
    text = row.schedule
    planned = schedule.parse(None if text is None else decode(text))
    at = row.next_run_at
    for _ in range(times):
        if at is None:
            return
        yield at
        at = schedule.next_run_at(planned, at, at, zone)
