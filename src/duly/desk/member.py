"""The hosts of a store, as people see them (H2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from duly.desk.base import HasDesk
from duly.rules.schedule import moment
from duly.rules.verb import question
from duly.store.claim import list_hosts


@dataclass(frozen=True, slots=True)
class FleetHost:
    """A host that is here: where it runs, what is left of its lease, and what it holds.

    `name` is its machine and its process. The host of a SQLite file has no lease. One that does not
    serve only takes acts. All wait for one that has not `compared` what it was told before the
    server was started again.
    """

    id: str
    name: str | None
    since: datetime
    lease_s: float | None
    serves: bool
    workflows: int
    compared: bool


class Members(HasDesk):
    """Which hosts work on the store."""

    @question(example={})
    async def hosts(self) -> tuple[FleetHost, ...]:
        """List the hosts of this store, the oldest first, and how many workflows each holds."""
        # Rules: H2, H7.
        rows = await self._desk().ask(list_hosts)
        return tuple(
            FleetHost(
                row.id,
                row.name,
                moment(row.started_at),
                None if row.lease_left_ms is None else row.lease_left_ms / 1000,
                row.serves,
                row.workflows,
                row.has_compared,
            )
            for row in rows
        )
