"""What a host answers: one frozen record for each thing a person or an agent can ask about.

Law: every word is its enum, every time an aware datetime in UTC, every list a tuple, and workflows
go by their names. JSON is what it is; each answer has a copy of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from duly.rules.catalog import Risk
from duly.rules.event import EventStatus
from duly.rules.source import Language
from duly.rules.standing import Standing
from duly.rules.value import Json
from duly.rules.word import Kind, MutationStatus, Outcome, Phase, Status, Waits
from duly.script.finding import Finding
from duly.store.record import Origin


@dataclass(frozen=True, slots=True)
class Deployed:
    """A version that is active now; `missing` lists the capabilities nobody granted yet (A2)."""

    workflow: str
    version: str
    findings: tuple[Finding, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow: how it stands and why, in one sentence, and its producers' schedules in words."""

    name: str
    version: str
    standing: Standing
    reason: str
    schedule: tuple[str, ...]
    paused: bool
    findings: tuple[Finding, ...]
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """An event; `caused_by` names its inputs by topic and message id, and is empty for an input."""

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


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run stopped: the class of the failure (F1), and where it happened."""

    failure: str
    message: str
    line: int | None = None
    tool: str | None = None
    args: Json = None


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
class Mutation:
    """A row of the ledger: `run` made it, `held_by` answers for it now (L1).

    `title` is what the script claims, tool and arguments are what the host observed (L11).
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


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a workflow; `parent` is the one it was repaired from or rolled back to (W8).

    One that was only proposed was never active, and has no `activated_at`.
    """

    workflow: str
    version: str
    language: Language
    source: str
    author: str
    origin: Origin
    parent: str | None
    findings: tuple[Finding, ...]
    active: bool
    activated_at: datetime | None
    created_at: datetime


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
