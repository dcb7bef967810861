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
from duly.store.people import page
from duly.store.statements import as_set

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


@dataclass(frozen=True, slots=True)
class ProcessedRow:
    """How much of a topic was consumed lately, and how many of that were inputs."""

    topic: str
    count: int
    inputs: int


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
    tx: Transaction, workflow_id: str, root: int, *, limit: int = 1000
) -> tuple[TraceRow, ...]:
    """Read the events an input led to, oldest first; what is worked on now is never cut off."""
    rows = tx.all("list_caused", workflow_id=workflow_id, root=root, limit=page(limit))
    return tuple(sorted((TraceRow(*row) for row in rows), key=lambda row: row.seq))


def list_work_statuses(tx: Transaction, workflow_id: str, root: int) -> tuple[str, ...]:
    """Read what became of an input and of the work it led to, each word once (U2)."""
    rows = tx.all("list_work_statuses", workflow_id=workflow_id, root=root)
    return tuple(str(status) for (status,) in rows)


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


def list_pending(
    tx: Transaction, workflow_id: str, topic: str, *, until: int = SEQ_MAX, limit: int = 100
) -> tuple[TraceRow, ...]:
    """Read what waits in a topic, oldest first, up to a number."""
    here = {"workflow_id": workflow_id, "topic": topic, "until": until}
    return tuple(TraceRow(*row) for row in tx.all("list_pending", **here, limit=page(limit)))


def count_pending(tx: Transaction, workflow_id: str, topic: str, *, until: int = SEQ_MAX) -> int:
    """Count what waits in a topic up to a number; one past `COUNT_MAX` stands for any more."""
    here = {"workflow_id": workflow_id, "topic": topic, "until": until}
    return _count(tx.one("count_pending", **here, limit=COUNT_MAX + 1))


def count_old(tx: Transaction, workflow_id: str, topic: str, *, before: int) -> int:
    """Count what has waited in a topic since before a moment (U4)."""
    here = {"workflow_id": workflow_id, "topic": topic, "before": before}
    return _count(tx.one("count_old", **here, limit=COUNT_MAX + 1))


def count_processed(tx: Transaction, workflow_id: str, *, since: int) -> tuple[ProcessedRow, ...]:
    """Count what was consumed since a moment, by topic (U1)."""
    rows = tx.all("count_processed", workflow_id=workflow_id, since=since, limit=COUNT_MAX + 1)
    return tuple(ProcessedRow(*row) for row in rows)


def count_applied(tx: Transaction, workflow_id: str, *, since: int) -> tuple[tuple[str, int], ...]:
    """Count the changes that were made since a moment, by tool (U1)."""
    counts: list[tuple[str, int]] = []
    tool = ""
    while found := tx.one("next_tool", workflow_id=workflow_id, after=tool):
        if found[0] is None:
            break
        tool = str(found[0])
        here = {"workflow_id": workflow_id, "tool": tool, "since": since}
        counts.append((tool, _count(tx.one("count_applied", **here, limit=COUNT_MAX + 1))))
    return tuple((tool, count) for tool, count in counts if count)


def _count(found: tuple[object, ...] | None) -> int:
    assert found is not None
    return int(str(found[0]))
