"""What led to what, and how much of it there is: inputs, what they caused, outputs, counts (U, T9).

Law 1  Every event is an input of its own or goes back to inputs; every row of the ledger goes back
       to the inputs of what its run reserved (T9).
Law 2  Counting stops at a bound, so a question costs the same for any length of history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from duly.store.base import Row, Transaction
from duly.store.parameter import as_set
from duly.store.people import page
from duly.store.record import MutationRow

COUNT_MAX = 1000  # beyond it a count says so, and no more
TITLES_MAX = 100  # of the inputs behind one output
SEQ_MAX = 2**63 - 1  # behind every event


@dataclass(frozen=True, slots=True)
class TraceRow:
    """An event without its body."""

    topic: str
    message_id: str
    seq: int
    title: str
    status: str
    reserved_by: str | None
    finished_by: str | None
    created_at: int
    finished_at: int | None

    @property
    def run_id(self) -> str | None:
        """The run that holds it, or ended it."""
        return self.reserved_by or self.finished_by


def list_workflow_inputs(
    tx: Transaction, workflow_id: str, *, limit: int = 100, before: int | None = None
) -> tuple[TraceRow, ...]:
    """Read what came in, newest first, from before a number."""
    rows = tx.all(
        "list_workflow_inputs",
        workflow_id=workflow_id,
        before=SEQ_MAX if before is None else before,
        limit=page(limit),
    )
    return tuple(TraceRow(*row) for row in rows)


def list_caused(
    tx: Transaction, workflow_id: str, roots: Iterable[int], *, limit: int = 1000
) -> dict[int, tuple[TraceRow, ...]]:
    """Read the events that each input led to, oldest first; what is worked on now is never cut."""
    found: dict[int, list[TraceRow]] = {}
    here = {"workflow_id": workflow_id, "roots": as_set(roots), "limit": page(limit)}
    for root, *row in tx.all("list_caused", **here):
        found.setdefault(root, []).append(TraceRow(*row))
    return {root: tuple(rows) for root, rows in found.items()}


def list_work_statuses(
    tx: Transaction, workflow_id: str, roots: Iterable[int]
) -> dict[int, set[str]]:
    """Read what became of each input and of the work it led to, each word once (U2)."""
    found: dict[int, set[str]] = {}
    for root, status in tx.all("list_work_statuses", workflow_id=workflow_id, roots=as_set(roots)):
        found.setdefault(root, set()).add(status)
    return found


def list_held(tx: Transaction, run_ids: Iterable[str]) -> dict[str, MutationRow]:
    """Read the row of the ledger that each run answers for, where it has one (L1)."""
    rows = (MutationRow(*row) for row in tx.all("survey_held", run_ids=as_set(run_ids)))
    return {row.held_by: row for row in rows}


def list_shown(tx: Transaction, run_ids: Iterable[str]) -> dict[str, tuple[TraceRow, ...]]:
    """Read the events that each run reserved, with the title it was shown (C6)."""
    found: dict[str, list[TraceRow]] = {}
    for run_id, *row in tx.all("survey_inputs", run_ids=as_set(run_ids)):
        found.setdefault(run_id, []).append(TraceRow(*row))
    return {run_id: tuple(rows) for run_id, rows in found.items()}


def list_roots(
    tx: Transaction, workflow_id: str, seqs: Iterable[int]
) -> dict[int, tuple[str, ...]]:
    """Read the titles of the inputs that each event of a page goes back to, in one statement."""
    rows = tx.all("list_roots", workflow_id=workflow_id, seqs=as_set(seqs), limit=TITLES_MAX)
    return _gather(rows)


def list_run_roots(
    tx: Transaction, workflow_id: str, run_ids: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Read the titles of the inputs behind all that each run of a page reserved."""
    here = {"workflow_id": workflow_id, "run_ids": as_set(run_ids)}
    return _gather(tx.all("list_run_roots", **here, limit=TITLES_MAX))


def _gather(rows: Iterable[Row]) -> dict[Any, tuple[str, ...]]:
    gathered: dict[Any, list[str]] = {}
    for key, title in rows:
        gathered.setdefault(key, []).append(title)
    return {key: tuple(titles) for key, titles in gathered.items()}


def list_terminal_events(
    tx: Transaction,
    workflow_id: str,
    topic: str,
    *,
    after: int = 0,
    before: int = SEQ_MAX,
    limit: int = 100,
) -> tuple[TraceRow, ...]:
    """Read the outputs in a terminal topic, newest first, between two numbers (U4)."""
    rows = tx.all(
        "list_terminal_events",
        workflow_id=workflow_id,
        topic=topic,
        after=after,
        before=before,
        limit=page(limit),
    )
    return tuple(TraceRow(*row) for row in rows)
