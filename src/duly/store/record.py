"""The values that go into the store and come out of it.

Law: no dict with known keys crosses the border of this room; every record is frozen, its JSON is
text, its times are milliseconds, and a record read from a statement has the statement's columns
in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from duly.fact import Reason
from duly.rules.allowance import Allowance
from duly.rules.event import Publication
from duly.rules.ledger import Knowledge, Terms
from duly.rules.lifecycle import Counts, Run
from duly.rules.outage import Outage
from duly.rules.retention import FINAL
from duly.rules.seal import AllowanceFacts, RowFacts
from duly.rules.value import Json, decode
from duly.rules.word import Kind, Known, MutationStatus, Outcome, Phase, Status, Waits


class Origin(StrEnum):
    """How a version came to be (W8)."""

    DEPLOY = "deploy"
    REPAIR = "repair"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class Action:
    """Who did what (A6); written in the transaction of the act."""

    id: str
    by: str
    verb: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class JournalEvent:
    """An event for the bus, written in the transaction that gives cause to it (B10)."""

    topic: str
    source: str
    payload: str
    correlation_id: str | None = None
    causation_id: str | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """A handler as the new version declares it."""

    name: str
    kind: Kind
    position: int
    schedule: str | None = None


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as the new version declares it."""

    name: str
    consumer: str | None = None
    ingress: bool = False
    bus_topic: str | None = None


@dataclass(frozen=True, slots=True)
class VersionSpec:
    """A version to keep."""

    version: str
    language: str
    source: str
    hash: str
    declaration: str
    findings: str
    author: str
    origin: Origin = Origin.DEPLOY
    parent: str | None = None
    path: str | None = None
    needs: tuple[str, ...] = ()  # the tools that its text uses (H7)


@dataclass(frozen=True, slots=True)
class Reserve:
    """One event a prepare result asks for.

    `offered` is the content number with which this prepare was shown it *as pending*. What getByIds
    showed reserved, consumed or skipped was not offered: it would be prepared again for ever (C5).
    """

    topic: str
    message_id: str
    offered: int | None = None


@dataclass(frozen=True, slots=True)
class Pinned:
    """What prepare gave, as it is kept for mutate, next and every heir (C6, C12, C13)."""

    prepared: str
    clock_at: int
    seed: str
    wake_at_asked: str | None = None
    reads: str | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """What a stopped run keeps: why, how often, until when, and what a person is told.

    `notice` is announced and not kept: the counts keep that it was given (F2).
    """

    counts: Counts
    error: str | None = None
    due_at: int | None = None
    waits_on: str | None = None
    escalated: Reason | None = None
    calls: str | None = None
    logs: str | None = None
    notice: Reason | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit brings: events, the new state (None keeps the old), what was logged."""

    publications: tuple[Publication, ...] = ()
    state: str | None = None
    next_run_at: int | None = None
    wake_at: int | None = None
    calls: str | None = None
    logs: str | None = None
    reads: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A mutation to be written into the ledger before it is sent (L2)."""

    id: str
    tool: str
    args: str
    title: str | None
    inputs: str
    hash: str
    reads: str | None = None
    terms: Terms | None = None
    asked: bool = False
    approved_by: str | None = None
    allowance_id: str | None = None

    def facts(self, workflow_id: str, key: str) -> RowFacts:
        """What the seal of its row covers, with the key it is sent with (L11)."""
        return RowFacts(
            self.id,
            workflow_id,
            self.tool,
            self.inputs,
            key,
            self.hash,
            self.asked,
            self.approved_by,
            self.allowance_id,
        )


@dataclass(frozen=True, slots=True)
class Key:
    """The key a call is sent with, and when the outside was first sent it, by any row (L7)."""

    text: str
    first_at: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became known about a mutation by its so many-th send (L6)."""

    attempt: int
    result: str | None = None
    error: str | None = None
    refused: bool = False
    due_at: int | None = None
    is_unsent: bool = False  # it was to be sent again, and nothing left (L7)
    outage: Outage | None = None
    known: Knowledge | None = None  # how the outcome became known, if it did (L12)


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """A workflow."""

    id: str
    name: str
    active_version: str | None
    paused: int
    paused_since: int | None
    counter: int
    holder: str | None
    epoch: int
    repairs: int
    repairs_since: int
    created_at: int
    removed_at: int | None
    blind_since: int | None = None
    missing_machine: str | None = None  # it is bound to this one, and no host serves there (H7)
    unserved: str | None = None  # what each host lacks for it, where none can do it (H7)


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version, active or proposed."""

    version: str
    language: str
    source: str
    hash: str
    declaration: str
    findings: str
    author: str
    origin: str
    parent: str | None
    activated_at: int | None
    created_at: int


@dataclass(frozen=True, slots=True)
class HandlerRow:
    """A handler with its state and its times."""

    name: str
    kind: str
    position: int
    orphaned: int
    schedule: str | None
    state: str | None
    next_run_at: int | None
    wake_at: int | None
    changed: int
    seen: int
    not_before: int
    untried: int


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event with its content; `dropped` is read where a person looks at it alone (T5)."""

    topic: str
    message_id: str
    seq: int
    content: int
    title: str
    body: str
    status: str
    reserved_by: str | None
    finished_by: str | None
    created_by: str
    attempts: int
    created_at: int
    finished_at: int | None
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run with everything it keeps; `row` is the status of the ledger row it holds."""

    id: str
    workflow_id: str
    version: str
    handler: str
    kind: str
    retry_of: str | None
    chain: str
    open: int
    phase: str
    status: str
    outcome: str | None
    waits: str | None
    waits_on: str | None
    counter: int
    prepared: str | None
    prepared_by: str | None
    wake_at_asked: str | None
    result: str | None
    state_before: str | None
    state_after: str | None
    clock_at: int | None
    seed: str | None
    error: str | None
    due_at: int | None
    transient_count: int
    logic_count: int
    crash_count: int
    repair_count: int
    outage_since: int | None
    outage_count: int
    outage_ms: int
    outage_told: int
    escalated: str | None
    calls: str | None
    logs: str | None
    created_at: int
    updated_at: int
    row: str | None

    @property
    def state(self) -> Run:
        """The run as the rules see it."""
        return run_of(self.kind, self.phase, self.status, self.row, self.outcome, self.waits)

    @property
    def counts(self) -> Counts:
        """The failures of its chain."""
        outage = None
        if self.outage_since is not None:
            is_told = bool(self.outage_told)
            outage = Outage(self.outage_since, self.outage_count, self.outage_ms, is_told)
        return Counts(
            self.transient_count, self.logic_count, self.crash_count, self.repair_count, outage
        )


@dataclass(frozen=True, slots=True)
class MutationRow:
    """A row of the ledger."""

    id: str
    workflow_id: str
    run_id: str
    held_by: str
    tool: str
    args: str
    title: str | None
    inputs: str
    key: str
    hash: str
    status: str
    refused: int
    result: str | None
    error: str | None
    attempt: int
    resends: int
    asks: int
    first_sent_at: int | None
    sent_at: int | None
    due_at: int | None
    created_at: int
    updated_at: int
    lag_ms: int | None = None
    timeout_ms: int | None = None
    key_lifetime_ms: int | None = None
    first_boot: str | None = None
    first_boot_ms: int | None = None
    is_resent: int = 0
    outage_since: int | None = None
    outage_count: int = 0
    outage_ms: int = 0
    outage_told: int = 0
    late: str | None = None
    asked: int = 0
    approved_by: str | None = None
    allowance_id: str | None = None
    args_proposed: str | None = None
    amended_by: str | None = None
    seal: str | None = None
    known_how: str | None = None
    known_at: int | None = None
    known_by: str | None = None
    known_said: str | None = None
    digests: str | None = None
    end_seal: str | None = None
    handle: str | None = None  # what the first step of its call made, as JSON (L14)
    basis: str | None = None  # a digest of what it was sent with; null: made by schema 5 (L7)
    key_sent_at: int | None = None  # when any row first sent its key; not in lists (L7)

    @property
    def terms(self) -> Terms | None:
        """What its tool promised when it was made; nothing is kept in rows of schema 1 (L6)."""
        if self.lag_ms is None or self.timeout_ms is None:
            return None
        return Terms(self.lag_ms, self.timeout_ms, self.key_lifetime_ms)

    @property
    def outage(self) -> Outage | None:
        """The time in which no question about it can be asked, if it lasts (L5)."""
        if self.outage_since is None:
            return None
        is_told = bool(self.outage_told)
        return Outage(self.outage_since, self.outage_count, self.outage_ms, is_told)

    @property
    def facts(self) -> RowFacts:
        """What its seal covers (L11)."""
        return RowFacts(
            self.id,
            self.workflow_id,
            self.tool,
            self.inputs,
            self.key,
            self.hash,
            bool(self.asked),
            self.approved_by,
            self.allowance_id,
            self.amended_by,
            self.handle,
        )

    @property
    def has_ended(self) -> bool:
        """Tell whether nothing more becomes of it: its status is final (L15)."""
        return self.status in FINAL

    @property
    def known(self) -> Knowledge | None:
        """How its outcome became known, if it did (L12)."""
        if self.known_how is None:
            return None
        return Knowledge(Known(self.known_how), self.known_by, self.known_said)

    @property
    def is_unsent(self) -> bool:
        """Tell whether it was approved and its send was not begun (A4)."""
        return self.status == MutationStatus.IN_FLIGHT and self.sent_at is None


@dataclass(frozen=True, slots=True)
class AllowanceRow:
    """An allowance, and how many calls were sent under it (A3)."""

    id: str
    workflow_id: str
    mutation_id: str
    tool: str
    version: str
    args: str
    matching: str
    calls: int
    until: int
    given_by: str
    given_at: int
    revoked_by: str | None
    revoked_at: int | None
    seal: str
    used: int

    @property
    def value(self) -> Allowance:
        """The allowance as the rules see it."""
        return Allowance(
            self.tool,
            self.version,
            cast("dict[str, Json]", decode(self.args)),
            cast("dict[str, str]", decode(self.matching)),
            self.calls,
            self.until,
            self.used,
            self.revoked_at is not None,
        )

    @property
    def facts(self) -> AllowanceFacts:
        """What its seal covers (L11)."""
        return AllowanceFacts(
            self.id,
            self.workflow_id,
            self.mutation_id,
            self.tool,
            self.version,
            self.args,
            self.matching,
            self.calls,
            self.until,
            self.given_by,
            self.given_at,
        )


def run_of(
    kind: str, phase: str, status: str, row: str | None, outcome: str | None, waits: str | None
) -> Run:
    """Read the words of a stored run."""
    held = MutationStatus(row) if row else None
    known, waiting = Outcome(outcome) if outcome else None, Waits(waits) if waits else None
    return Run(Kind(kind), Phase(phase), Status(status), held, known, waiting)
