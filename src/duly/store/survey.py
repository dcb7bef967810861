"""Reads several workflows at one moment, each kind of row in one statement for all of them (U6).

Law 1  A page takes as many statements as a single workflow does: what is asked of one workflow
       first is read for all of them then.
Law 2  No count goes further than its bound, so a look costs the same for any history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar, cast

from duly.rules.blind import BlindCause
from duly.rules.lease import Uncompared
from duly.rules.right import Right
from duly.rules.schedule import HOUR_MS
from duly.rules.turn import HandlerOutlook
from duly.store.base import Row, Transaction
from duly.store.claim import find_uncompared
from duly.store.granted import list_rights
from duly.store.parameter import as_rows, as_set
from duly.store.people import GrantRow, TopicRow
from duly.store.record import HandlerRow, MutationRow, RunRow, WorkflowRow
from duly.store.trace import COUNT_MAX, SEQ_MAX, TraceRow, list_held, list_shown
from duly.store.upkeep import list_blind

R = TypeVar("R")

OLDEST_MAX: Final = 5  # of what waits in a topic so much is shown
HOURS: Final = 24  # that are counted one by one
HOUR_COUNT_MAX: Final = 200  # of one hour of a workflow that is too busy to be counted whole


@dataclass(frozen=True, slots=True)
class PendingRow:
    """How much waits in a topic, and how much of that came before a moment; both bounded."""

    topic: str
    count: int
    old: int


@dataclass(frozen=True, slots=True)
class ProcessedRow:
    """How much of a topic was consumed lately, and how many of that were inputs."""

    topic: str
    hour: int  # counted from the moment since which it is told
    count: int
    inputs: int


@dataclass(frozen=True, slots=True)
class ProposedRow:
    """A repair that waits for a person to adopt it (F3)."""

    version: str
    created_at: int


@dataclass(frozen=True, slots=True)
class CountedSends:
    """Which sends are counted for a run that waits for a grant (A1)."""

    run_id: str
    workflow_id: str
    tool: str
    since: int
    until: int
    besides: str


class Survey:
    """What one transaction sees of a few workflows, and of their open runs or of the runs given."""

    def __init__(
        self,
        tx: Transaction,
        workflows: Iterable[WorkflowRow],
        runs: Iterable[RunRow] | None = None,
        held: MutationRow | None = None,
    ) -> None:
        self.tx = tx
        self.workflows = {each.id: each for each in workflows}
        self._ids = as_set(self.workflows)
        self._given = None if runs is None else tuple(runs)
        self._given_held = held
        self._kept: dict[tuple[str, tuple[Any, ...]], dict[str, list[Row]]] = {}
        self._made: dict[str, Any] = {}
        self._oldest: dict[str, dict[str, list[TraceRow]]] | None = None
        self._offered: dict[str, dict[str, list[TraceRow]]] | None = None

    # -- Runs -----------------------------------------------------------------------------------

    @cached_property
    def _runs(self) -> dict[str, RunRow]:
        rows = self._given
        if rows is None:
            rows = tuple(RunRow(*row) for row in self.tx.all("survey_runs", ids=self._ids))
        return {each.workflow_id: each for each in rows}

    @property
    def runs(self) -> Iterable[RunRow]:
        """The runs that are looked at."""
        return self._runs.values()

    def run(self, workflow_id: str) -> RunRow | None:
        """Return the open run of a workflow, or the run that was given for it (F6)."""
        return self._runs.get(workflow_id)

    @cached_property
    def _held(self) -> dict[str, MutationRow]:
        if self._given_held is not None:
            return {self._given_held.held_by: self._given_held}
        return list_held(self.tx, (each.id for each in self.runs)) if self._runs else {}

    def held(self, run_id: str) -> MutationRow | None:
        """Return the row of the ledger that a run answers for, if it has one (L1)."""
        return self._held.get(run_id)

    @cached_property
    def _inputs(self) -> dict[str, tuple[TraceRow, ...]]:
        return list_shown(self.tx, (each.id for each in self.runs)) if self._runs else {}

    def inputs(self, run_id: str) -> tuple[TraceRow, ...]:
        """Return the events that a run reserved, with the title it was shown (C6)."""
        return self._inputs.get(run_id, ())

    def count_sent(self, wanted: Iterable[CountedSends]) -> dict[str, int]:
        """Count what was sent for each run that waits for a grant (A1)."""
        places = [
            (each.run_id, each.workflow_id, each.tool, each.since, each.until, each.besides)
            for each in wanted
        ]
        counts = dict.fromkeys((each[0] for each in places), 0)
        for run_id, count in self.tx.all("survey_sent", places=as_rows(places)):
            counts[run_id] += count
        return counts

    def once(self, name: str, make: Callable[[], R]) -> R:
        """Make something of all that is looked at, once, and return it each time after that."""
        if name not in self._made:
            self._made[name] = make()
        return cast("R", self._made[name])

    # -- Workflows ------------------------------------------------------------------------------

    def handlers(self, workflow_id: str) -> tuple[HandlerRow, ...]:
        """Return the handlers of a workflow, orphaned ones last."""
        return tuple(HandlerRow(*row) for row in self._of(workflow_id, "survey_handlers"))

    def outlooks(self, workflow_id: str) -> tuple[HandlerOutlook, ...]:
        """Return what decides whether the handlers of a workflow are due (S2, S3)."""
        return tuple(HandlerOutlook(*row) for row in self._of(workflow_id, "survey_outlooks"))

    def topics(self, workflow_id: str) -> dict[str, TopicRow]:
        """Return the topics of a workflow by name."""
        rows = (TopicRow(*row) for row in self._of(workflow_id, "survey_topics"))
        return {each.name: each for each in rows}

    def findings(self, workflow_id: str) -> str:
        """Return what was found in the active version of a workflow."""
        ((findings,),) = self._of(workflow_id, "survey_findings")
        return str(findings)

    def grants(self, workflow_id: str) -> tuple[GrantRow, ...]:
        """Return the envelope of a workflow (A1)."""
        return tuple(GrantRow(*row) for row in self._of(workflow_id, "survey_grants"))

    def rights(self, places: Sequence[tuple[str, str, str]]) -> tuple[Right, ...]:
        """Return what stands of rights that runs wait for (A6)."""
        return list_rights(self.tx, places) if places else ()

    def allowed(self, workflow_id: str, *, now: int) -> frozenset[tuple[str, str]]:
        """Return the tools, each with its version, that an allowance may still cover (A3)."""
        rows = self._of(workflow_id, "survey_allowed", now=now)
        return frozenset((str(tool), str(version)) for tool, version in rows)

    def paused_by(self, workflow_id: str) -> str | None:
        """Return who paused a workflow last, if that is known (A6)."""
        rows = self._of(workflow_id, "survey_pausers")
        return str(rows[0][0]) if rows else None

    def proposed(self, workflow_id: str) -> ProposedRow | None:
        """Return the newest repair of a workflow that waits to be adopted (F3)."""
        rows = self._of(workflow_id, "survey_proposed")
        return ProposedRow(*rows[0]) if rows else None

    @cached_property
    def _blind_causes(self) -> dict[int, BlindCause]:
        return list_blind(self.tx)

    def blind_cause(self, workflow: WorkflowRow) -> BlindCause:
        """Tell why a workflow does not know what was done lately (H1, H5, H10)."""
        if workflow.blind_since is None:
            return BlindCause.BACKUP
        return self._blind_causes.get(workflow.blind_since, BlindCause.BACKUP)

    @cached_property
    def _uncompared(self) -> Uncompared | None:
        return find_uncompared(self.tx)

    def uncompared(self, workflow_id: str) -> Uncompared | None:
        """Find the host for which a workflow waits that no host holds (H10)."""
        if self._uncompared is None or self.tx.one("find_holder", id=workflow_id) is not None:
            return None
        return self._uncompared

    def newest_input(self, workflow_id: str) -> int | None:
        """Return when the newest input of a workflow came, if there was any (U2)."""
        rows = self._of(workflow_id, "survey_newest", limit=COUNT_MAX)
        return None if not rows or rows[0][0] is None else int(rows[0][0])

    # -- Counts ---------------------------------------------------------------------------------

    def pending(self, workflow_id: str, *, before: int) -> tuple[PendingRow, ...]:
        """Count what waits in each topic of a workflow; one past `COUNT_MAX` is any more (U1)."""
        more = {"before": before, "seq_max": SEQ_MAX, "limit": COUNT_MAX + 1}
        return tuple(PendingRow(*row) for row in self._of(workflow_id, "survey_pending", **more))

    def processed(self, workflow_id: str, *, since: int) -> tuple[ProcessedRow, ...]:
        """Count what a workflow consumed since a moment, by topic and hour (U1)."""
        more = {"since": since, "hour_ms": HOUR_MS, "limit": COUNT_MAX}
        rows = self._of(workflow_id, "survey_processed", **more)
        return tuple(ProcessedRow(*row) for row in rows)

    def hours(self, workflow_id: str, *, since: int) -> tuple[int, ...]:
        """Count what a workflow consumed in each hour since a moment, the oldest first (U1).

        What was counted whole is added up. A workflow that consumed more is counted hour by hour,
        so that its busy last hour does not hide the others.
        """
        counts = [0] * HOURS
        rows = self.processed(workflow_id, since=since)
        if sum(row.count for row in rows) <= COUNT_MAX:
            for row in rows:
                counts[min(max(row.hour, 0), HOURS - 1)] += row.count
        else:
            for place, count in self._busy(since).get(workflow_id, ()):
                counts[place] = count
        return tuple(counts) if rows else ()

    def _busy(self, since: int) -> dict[str, list[Row]]:
        """Count hour by hour for all workflows that have too much to be counted whole, once."""
        key = "survey_hours", (since,)
        if key not in self._kept:
            busy = (
                each
                for each in self.workflows
                if sum(row.count for row in self.processed(each, since=since)) > COUNT_MAX
            )
            more = {"last": HOURS - 1, "end": SEQ_MAX, "limit": HOUR_COUNT_MAX}
            found = self.tx.all(key[0], ids=as_set(busy), since=since, hour_ms=HOUR_MS, **more)
            self._kept[key] = _group(found)
        return self._kept[key]

    def applied(self, workflow_id: str, *, since: int) -> tuple[tuple[str, int], ...]:
        """Count the changes a workflow made since a moment, by tool (U1)."""
        more = {"since": since, "limit": COUNT_MAX + 1}
        rows = self._of(workflow_id, "survey_applied", **more)
        return tuple((str(tool), int(count)) for tool, count in rows if count)

    # -- What waits -----------------------------------------------------------------------------

    def oldest(self, workflow_id: str, *, before: int) -> dict[str, list[TraceRow]]:
        """Return, by topic, what has waited longest; only where something is old or orphaned."""
        if self._oldest is None:
            self._oldest = self._read_oldest(
                (each, row.topic, _until(self.topics(each)[row.topic]))
                for each in self.workflows
                for row in self.pending(each, before=before)
                if _is_left(self.topics(each)[row.topic], row)
            )
        return self._oldest.get(workflow_id, {})

    def first_offered(self, run: RunRow) -> TraceRow | None:
        """Return what a consumer was offered first of all that waits, as its run saw it (U3)."""
        if self._offered is None:
            self._offered = self._read_oldest(
                (each.workflow_id, topic.name, each.counter)
                for each in self.runs
                for topic in self.topics(each.workflow_id).values()
                if topic.consumer == each.handler
            )
        found = self._offered.get(run.workflow_id, {}).values()
        return min((row for rows in found for row in rows), key=lambda row: row.seq, default=None)

    def _read_oldest(
        self, places: Iterable[tuple[str, str, int]]
    ) -> dict[str, dict[str, list[TraceRow]]]:
        wanted = tuple(places)
        if not wanted:
            return {}
        found: dict[str, dict[str, list[TraceRow]]] = {}
        for workflow_id, *row in self.tx.all(
            "survey_oldest", places=as_rows(wanted), limit=OLDEST_MAX
        ):
            each = TraceRow(*row)
            found.setdefault(workflow_id, {}).setdefault(each.topic, []).append(each)
        return found

    def _of(self, workflow_id: str, statement: str, **parameters: Any) -> list[Row]:
        """Run a statement for all workflows, once; return the rows of one of them."""
        key = statement, tuple(parameters.values())
        if key not in self._kept:
            self._kept[key] = _group(self.tx.all(statement, ids=self._ids, **parameters))
        return self._kept[key].get(workflow_id, [])


def _group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Put rows together by their first column, which they lose."""
    found: dict[str, list[Row]] = {}
    for key, *row in rows:
        found.setdefault(key, []).append(tuple(row))
    return found


def _until(topic: TopicRow) -> int:
    """Return up to which number the events of a topic are work (W9)."""
    return SEQ_MAX if topic.consumer is not None else topic.worked_until


def _is_left(topic: TopicRow, row: PendingRow) -> bool:
    return bool(row.old if topic.consumer is not None else row.count)
