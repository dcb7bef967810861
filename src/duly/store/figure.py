"""What a monitor reads off a store: a few statements, none of which grows with history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from duly.env import precise_s
from duly.store.base import Transaction
from duly.store.parameter import as_set
from duly.store.trace import COUNT_MAX, SEQ_MAX

UNFINISHED_MAX: Final = 10_000  # deliveries that one look goes through


@dataclass(frozen=True, slots=True)
class Pended:
    """How much waits in a workflow, and since when the first of it; counts are bounded."""

    count: int
    since_ms: int | None


@dataclass(frozen=True, slots=True)
class OpenCounts:
    """How much is open, by status: runs, the rows they hold, and deliveries."""

    runs: Counter[str]
    rows: Counter[str]
    deliveries: Counter[str]


@runtime_checkable
class HasSize(Protocol):
    """A backend that can say how large its store is."""

    async def count_bytes(self) -> int:
        """Return how many bytes the store takes."""


class SyncTimes:
    """How often the log was synced, and how long that took; each sync is in the writer's lock."""

    def __init__(self, sync: Callable[[], None], clock_s: Callable[[], float] = precise_s) -> None:
        self.count = 0
        self.total_s = 0.0
        self._sync = sync
        self._clock_s = clock_s

    def __call__(self) -> None:
        """Sync, and count it also if it fails."""
        begun_s = self._clock_s()
        try:
            self._sync()
        finally:
            self.total_s += self._clock_s() - begun_s
            self.count += 1


def read_waiting(tx: Transaction, workflow_ids: Iterable[str]) -> dict[str, Pended]:
    """Count what waits in a few workflows."""
    found: dict[str, Pended] = {}
    here = {"ids": as_set(workflow_ids), "seq_max": SEQ_MAX, "limit": COUNT_MAX + 1}
    for workflow_id, count, since in tx.all("survey_waiting", **here):
        known = found.get(workflow_id, Pended(0, None))
        times = [each for each in (known.since_ms, since) if each is not None]
        found[workflow_id] = Pended(known.count + count, min(times, default=None))
    return found


def count_open(tx: Transaction) -> OpenCounts:
    """Count what is open on the whole store."""
    runs: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for status, row, count in tx.all("count_open_runs"):
        runs[status] += count
        if row is not None:
            rows[row] += count
    unfinished = tx.all("count_unfinished", limit=UNFINISHED_MAX)
    return OpenCounts(runs, rows, Counter(dict(unfinished)))
