"""What a host answers: one frozen record for each thing a person or an agent can ask about.

Law: every word is its enum, every time an aware datetime in UTC, every list a tuple, and workflows
go by their names. JSON is what it is; each answer has a copy of its own. Of a record that is
`is_read_at_length`, the reason has a longer sentence too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from duly.fact import Offer, Reason
from duly.rules.access import Step
from duly.rules.account import OutputStatus
from duly.rules.allowance import End
from duly.rules.asking import Answering
from duly.rules.catalog import Risk
from duly.rules.count import Activity, Count
from duly.rules.event import EventStatus
from duly.rules.identity import IdKind
from duly.rules.late import LateAnswer
from duly.rules.planned import Planned
from duly.rules.source import Language
from duly.rules.standing import InputStatus, Mover, Standing
from duly.rules.value import Json
from duly.rules.word import Failure, Kind, Known, MutationStatus, Outcome, Phase, Status, Waits
from duly.script.finding import Finding
from duly.store.record import Origin


@dataclass(frozen=True, slots=True)
class Deployed:
    """A version that is active now; `missing` lists the capabilities not granted yet (A2).

    It is not `new` if this text was active already and the caller did not ask for it again.
    `changes` says of each tool with which it may change something how the tool can be asked (K1).
    """

    workflow: str
    version: str
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()
    new: bool = True
    changes: tuple[Answering, ...] = ()


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow: how it stands and why, and when its producers run.

    `next_check_at` is the next planned time of a producer, `wakes_at` the earliest wake-up that
    its script asked for. `activity` is what was processed in the last 24 hours and what came of
    it, `pending` what waits; `stale` has waited too long, `orphaned` was left behind by a newer
    version. Counts end at a thousand. `ingress` are the topics that can be published into from
    outside, `offers` what can be done to the whole workflow now.
    """

    name: str
    version: str
    standing: Standing
    reason: Reason
    schedule: tuple[Planned, ...]
    next_check_at: datetime | None
    wakes_at: datetime | None
    activity: Activity
    pending: tuple[Count, ...]
    stale: int
    orphaned: int
    paused: bool
    findings: tuple[Finding, ...]
    created_at: datetime
    ingress: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """An event; `caused_by` names its inputs by topic and message id, and is empty for an input.

    `dropped` counts the other contents that were published for it too late (T5). `is_output` says
    that no consumer takes it: it waits for nothing, and is kept (W9).
    """

    topic: str
    message_id: str
    title: str
    payload: Json
    status: EventStatus
    seq: int
    reserved_by: str | None
    created_by: str
    caused_by: tuple[tuple[str, str], ...]
    created_at: datetime
    dropped: int = 0
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run stopped: the class of the failure (F1), its code, and where it happened (R1)."""

    failure: str
    message: str
    line: int | None = None
    tool: str | None = None
    args: Json = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a run: `source` is the step that said it, or `duly` for the host's own."""

    at: datetime
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of one handler; `retry_of` is the run it follows."""

    id: str
    workflow: str
    version: str
    handler: str
    kind: Kind
    retry_of: str | None
    phase: Phase
    status: Status
    outcome: Outcome | None
    error: RunError | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Ending:
    """How the outcome of a mutation became known (L12).

    `by` said so, `said` is what they or the outside said; `is_unsent`: nothing was sent.
    """

    how: Known
    at: datetime
    by: str | None = None
    said: str | None = None
    is_unsent: bool = False


@dataclass(frozen=True, slots=True)
class Mutation:
    """A row of the ledger: `run` made it, `held_by` answers for it now (L1).

    `title` is claimed; tool, arguments and `form` are observed (L11). `late` decided nothing (L1);
    `known` is how the outcome became known, `proposed` the script's own call if amended (A3).
    """

    id: str
    run: str
    held_by: str
    workflow: str
    tool: str
    args: Json
    title: str | None
    key: str
    status: MutationStatus
    result: Json
    attempt: int
    hash: str
    sent_at: datetime | None
    late: tuple[LateAnswer, ...] = ()
    known: Ending | None = None
    approved_by: str | None = None
    allowance: str | None = None
    amended_by: str | None = None
    proposed: Json = None
    form: tuple[tuple[str, str], ...] = ()
    proposed_form: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Approved:
    """What became of a yes among several: it was taken, or refused with a reason (A3)."""

    mutation: str
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Allowance:
    """The next calls of a tool that need no further yes; `ended` says why it covers none (A3).

    `where` maps an argument to its glob; the others are those of the approved call, `args`.
    """

    id: str
    workflow: str
    mutation: str
    tool: str
    version: str
    args: Json
    where: Json
    calls: int
    used: int
    until: datetime
    given_by: str
    given_at: datetime
    ended: End | None
    revoked_by: str | None


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a workflow; `parent` is the one it was repaired from or rolled back to (W8).

    One that was only proposed has no `activated_at`; `declined_by` turned it down.
    """

    workflow: str
    version: str
    language: Language
    author: str
    origin: Origin
    parent: str | None
    findings: tuple[Finding, ...]
    active: bool
    activated_at: datetime | None
    created_at: datetime
    declined_by: str | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """What the host observed of a call: the tool and its actual arguments, without secrets."""

    tool: str
    args: Json


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that waits for a person: what the script claims, apart from what it does (L11).

    `hash` is what an approval names; it changes with any argument and any input. A call that waits
    for a connection or a grant (`waits`, `waits_on`) is not approved but reconnected or granted.
    `form` is the call as its tool wants a person to see it: names and full texts, in order.
    `editable` arguments can be amended, `proposed` are the script's own where some were (A3),
    `answering` is how the outside can be asked (K1), `rules` are those that ask for a yes.
    """

    mutation: str
    run: str
    workflow: str
    claimed: str | None
    observed: Preview
    risk: Risk | None
    inputs: tuple[str, ...]
    hash: str
    waits: Waits
    waits_on: str | None
    created_at: datetime
    form: tuple[tuple[str, str], ...] = ()
    editable: tuple[str, ...] = ()
    amended_by: str | None = None
    proposed: Json = None
    answering: Answering | None = None
    rules: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """Something a person or an agent did: who, when, what, on what (A6)."""

    id: str
    at: datetime
    by: str
    verb: str
    workflow: str | None
    target: str | None
    detail: Json


@dataclass(frozen=True, slots=True)
class Output:
    """What came of a workflow's work: a change outside, or an event no consumer takes (U2, U4).

    `id` is a mutation's, or topic and message id. `claimed` is what the script calls it, `observed`
    the call the host saw; an event has none. `key` is where the next page goes on. `known` says
    how its outcome became known, with what a person said who rejected it (L12).
    """

    id: str
    claimed: str | None
    observed: Preview | None
    status: OutputStatus
    at: datetime
    inputs: tuple[str, ...]
    key: str
    known: Ending | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """What came in: what became of it, and what came of it, across all consumers (U2, T9)."""

    topic: str
    message_id: str
    title: str
    status: InputStatus
    seq: int
    created_at: datetime
    stale: bool
    reason: Reason
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class FailedScript:
    """Where a script failed, and what it printed last (U7)."""

    handler: str
    step: Step
    line: int | None
    logs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attention:
    """Something only a person can move on; `key` is where the next page goes on (F8).

    `script` is where the script failed, if that is why.
    """

    is_read_at_length: ClassVar[bool] = True

    workflow: str
    reason: Reason
    titles: tuple[str, ...]
    claimed: str | None
    observed: Preview | None
    offers: tuple[Offer, ...]
    since: datetime
    key: str
    script: FailedScript | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """Why something stands as it does (U7).

    `inputs` are titles; `mover` moves it on, `at` when, if known; `script` is where it failed.
    """

    is_read_at_length: ClassVar[bool] = True

    workflow: str
    reason: Reason
    inputs: tuple[str, ...]
    claimed: str | None
    observed: Preview | None
    mover: Mover
    at: datetime | None
    offers: tuple[Offer, ...]
    script: FailedScript | None = None


@dataclass(frozen=True, slots=True)
class TriedChange:
    """A mutation that was asked for and not made; `inputs` are the titles of its events.

    `claimed` is what the script calls it, `observed` what it is (L11). Where `is_followed` is
    false, its result was not given and `next` was not tried.
    """

    handler: str
    claimed: str | None
    observed: Preview
    inputs: tuple[str, ...]
    needs_approval: bool
    is_followed: bool


@dataclass(frozen=True, slots=True)
class TriedEvent:
    """An event that would have been published."""

    handler: str
    topic: str
    message_id: str
    title: str
    payload: Json


@dataclass(frozen=True, slots=True)
class TriedProblem:
    """Why a run would have stopped: the class of the failure (F1), and where in the script."""

    handler: str
    failure: Failure
    sentence: str
    line: int | None


@dataclass(frozen=True, slots=True)
class TriedRun:
    """One run of one handler: the titles of what it took, and what it logged."""

    handler: str
    kind: Kind
    inputs: tuple[str, ...]
    logs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """What a source would do now; `missing` lists the capabilities not granted yet (A2)."""

    workflow: str
    findings: tuple[Finding, ...]
    missing: tuple[str, ...]
    runs: tuple[TriedRun, ...]
    changes: tuple[TriedChange, ...]
    published: tuple[TriedEvent, ...]
    problems: tuple[TriedProblem, ...]
    summary: Reason


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy of the store that is on the disk; it shows the store as it was at that moment."""

    path: Path
    bytes: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Rows:
    """What a SELECT found; `is_cut` says that a limit left rows out (H1)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Json, ...], ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Hit:
    """An event whose message id or title has the text that was looked for (U6).

    `is_output` says that no consumer takes it: it waits for nothing, and is kept (W9).
    """

    workflow: str
    topic: str
    message_id: str
    title: str
    status: EventStatus
    seq: int
    created_at: datetime
    is_output: bool = False


@dataclass(frozen=True, slots=True)
class Hits:
    """A page of what was found; with `after` the search goes on where this page ended.

    `after` is None when everything was looked through. `looked` counts the titles that were read.
    """

    hits: tuple[Hit, ...]
    after: str | None
    looked: int


@dataclass(frozen=True, slots=True)
class Identity:
    """Something that a person can name by its id; `short` is as much of it as names it alone (U6).

    An allowance has no status.
    """

    id: str
    short: str
    kind: IdKind
    workflow: str
    status: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret by its name alone; `problem` says why it cannot be read and what to do."""

    connector: str
    name: str
    problem: str | None = None
