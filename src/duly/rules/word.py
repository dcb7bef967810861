"""The words of runs and mutations, one enum each; the database's CHECK lists are these same words.

Law: one word means one thing, in code, SQL, command line, pages and docs.
"""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What a handler is."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


class Phase(StrEnum):
    """How far a run got; it only moves forward (P4, R2)."""

    EXECUTING = "executing"
    PREPARING = "preparing"
    PREPARED = "prepared"
    MUTATING = "mutating"
    MUTATED = "mutated"
    EMITTING = "emitting"
    COMMITTED = "committed"


class Status(StrEnum):
    """Why a run does not move (R3)."""

    ACTIVE = "active"
    PAUSED_TRANSIENT = "paused:transient"
    PAUSED_APPROVAL = "paused:approval"
    PAUSED_RECONCILIATION = "paused:reconciliation"
    FAILED_LOGIC = "failed:logic"
    FAILED_INTERNAL = "failed:internal"
    COMMITTED = "committed"
    CRASHED = "crashed"
    ABANDONED = "abandoned"


class MutationStatus(StrEnum):
    """What the ledger knows of a mutation (L1)."""

    PROPOSED = "proposed"
    IN_FLIGHT = "in_flight"
    NEEDS_RECONCILE = "needs_reconcile"
    INDETERMINATE = "indeterminate"
    APPLIED = "applied"
    FAILED = "failed"
    REJECTED = "rejected"
    SKIPPED = "skipped"


class Outcome(StrEnum):
    """What `next` is told of the mutation (C10)."""

    NONE = "none"
    APPLIED = "applied"
    SKIPPED = "skipped"


class Waits(StrEnum):
    """What a `paused:approval` run waits for (F4)."""

    APPROVAL = "approval"
    CONNECTION = "connection"
    GRANT = "grant"


class Failure(StrEnum):
    """The classes of failure (F1); an unknown outcome is an answer, a crash its own move.

    Unreachable is the transient failure that the outside or the way to it causes (F2).
    """

    LOGIC = "logic"
    TRANSIENT = "transient"
    UNREACHABLE = "unreachable"
    AUTH = "auth"
    PERMISSION = "permission"
    INTERNAL = "internal"


class Progress(StrEnum):
    """What an active run does when nothing goes wrong."""

    PREPARE_DONE = "prepare done"
    NOTHING_RESERVED = "nothing reserved"
    BEGIN_MUTATE = "begin mutate"
    ASK_APPROVAL = "ask approval"
    SEND = "send"
    NO_CALL = "no call"
    BEGIN_NEXT = "begin next"
    COMMIT = "commit"


class Answer(StrEnum):
    """How a send ended, as its connector reports it (L4)."""

    APPLIED = "applied"
    REFUSED = "refused"
    REMEMBERED = "refusal remembered"
    RATE_LIMITED = "rate limited"
    NOT_SENT = "not sent"
    AUTH = "sign in"
    PERMISSION = "not permitted"
    UNKNOWN = "unknown"


class Known(StrEnum):
    """How the outcome of a mutation became known (L12)."""

    ANSWERED = "answered"
    ASKED = "asked"
    SENT_AGAIN = "sent_again"
    SETTLED = "settled"
    UNSENT = "unsent"  # nothing was ever sent, so nothing happened


class Verdict(StrEnum):
    """What asking about an unknown mutation gave (L5, L6)."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    UNSURE = "unsure"
    GIVEN_UP = "given up"


class Act(StrEnum):
    """What a person, or an agent for one, can do to a run (R9, L10)."""

    APPROVE = "approve"
    AMEND = "amend"
    REJECT = "reject"
    RECONNECT = "reconnect"
    GRANT = "grant"
    TRY_AGAIN = "try_again"
    DID_NOT_HAPPEN = "did_not_happen"
    HAPPENED = "happened"
    SKIP = "skip"
    SKIP_EVENT = "skip an event"
    DEPLOY = "deploy"
    RETRY = "retry"
    ABANDON = "abandon"
    PAUSE = "pause"


class Reserved(StrEnum):
    """What becomes of the events a run reserved (R6, C11)."""

    HOLD = "hold"
    RELEASE = "release"
    TRANSFER = "transfer"
    CONSUME = "consume"
    SKIP = "skip"


class Way(StrEnum):
    """Who or what moves an open run on."""

    HOST = "host"
    BACKOFF = "backoff"
    REPAIR = "repair"
    RECONCILER = "reconciler"
    PERSON = "person"
