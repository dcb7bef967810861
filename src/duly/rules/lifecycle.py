"""The life of a run and of its one mutation (C, L, R, F of the rules).

Law 1  Every change of a run's phase, status, outcome or ledger row is decided here, as a value;
       the store writes it guarded by the value it was decided on (R8).
Law 2  The phase only moves forward; a failure changes the status, never the phase (R2, R3).
Law 3  The ledger row decides whether the mutation happened, never the phase (L3).
       Applied, failed, rejected and skipped are final; an unknown row blocks every retry (L8).
Law 4  A run that stops gets at most one successor, and what that one inherits is decided by the
       row alone: nothing done, begin afresh; done or declined, go on to `next`; unknown, only
       ask (R5). The events the run reserved go with that decision (R6).
Law 5  Every open state has an exit, by the host or by a person (R9).

A run is three small machines side by side: the *phase* says how far it got, the *status* why it
does not move, the *row* what is known of the outside. Callers ask with the run as they last saw
it and get the run as it must be next, or an error: a key missing from a table is the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from duly.errors import IllegalTransition, RequestRefused, see
from duly.rules.state import CONSUMER_START as CONSUMER_START
from duly.rules.state import ENDED as ENDED
from duly.rules.state import FINAL as FINAL
from duly.rules.state import LEDGER as LEDGER
from duly.rules.state import PRODUCER_START as PRODUCER_START
from duly.rules.state import START as START
from duly.rules.state import UNKNOWN as UNKNOWN
from duly.rules.state import Change as Change
from duly.rules.state import Counts as Counts
from duly.rules.state import Run as Run
from duly.rules.state import To as To
from duly.rules.word import (
    Act,
    Answer,
    Failure,
    Kind,
    Outcome,
    Phase,
    Progress,
    Reserved,
    Status,
    Verdict,
    Waits,
)
from duly.rules.word import MutationStatus as Row  # the rules' own short word for it

K = TypeVar("K")
V = TypeVar("V")

CRASHES_MAX: Final = 3  # the third crashed run in a row gets no successor at once (R7)


APPLIED: Final = To(Phase.MUTATED, Status.ACTIVE, Row.APPLIED, Outcome.APPLIED)
DECLINED: Final = To(Phase.MUTATED, Status.ACTIVE, Row.REJECTED, Outcome.SKIPPED)
SKIPPED: Final = To(Phase.MUTATED, Status.ACTIVE, Row.SKIPPED, Outcome.SKIPPED)
LATER: Final = To(status=Status.PAUSED_TRANSIENT, row=Row.FAILED)
WRONG: Final = To(status=Status.FAILED_LOGIC, row=Row.FAILED)
ASK: Final = To(status=Status.PAUSED_RECONCILIATION, row=Row.NEEDS_RECONCILE)
GIVE_UP: Final = To(status=Status.PAUSED_RECONCILIATION, row=Row.INDETERMINATE)
SPOILT: Final = To(status=Status.FAILED_INTERNAL, row=Row.FAILED)
SENT: Final = To(status=Status.ACTIVE, row=Row.IN_FLIGHT)
GO_ON: Final = To(status=Status.ACTIVE)
WITHDRAWN: Final = To(row=Row.FAILED)

# The way forward of an active run, by phase and row (C6–C11, P4).
_BEGIN_NEXT: Final = {Progress.BEGIN_NEXT: To(Phase.EMITTING)}
_COMMIT: Final = {Progress.COMMIT: To(Phase.COMMITTED, Status.COMMITTED)}
STEPS: Final[Mapping[tuple[Phase, Row | None], Mapping[Progress, To]]] = {
    (Phase.EXECUTING, None): _COMMIT,
    (Phase.PREPARING, None): {Progress.PREPARE_DONE: To(Phase.PREPARED)},
    (Phase.PREPARED, None): {
        Progress.BEGIN_MUTATE: To(Phase.MUTATING),
        Progress.NOTHING_RESERVED: To(Phase.EMITTING, outcome=Outcome.NONE),
    },
    (Phase.MUTATING, None): {
        Progress.ASK_APPROVAL: To(
            status=Status.PAUSED_APPROVAL, row=Row.PROPOSED, waits=Waits.APPROVAL
        ),
        Progress.SEND: SENT,
        Progress.NO_CALL: To(Phase.MUTATED, outcome=Outcome.NONE),
    },
    (Phase.MUTATED, None): _BEGIN_NEXT,
    (Phase.MUTATED, Row.APPLIED): _BEGIN_NEXT,
    (Phase.MUTATED, Row.REJECTED): _BEGIN_NEXT,
    (Phase.MUTATED, Row.SKIPPED): _BEGIN_NEXT,
    (Phase.EMITTING, None): _COMMIT,
    (Phase.EMITTING, Row.APPLIED): _COMMIT,
    (Phase.EMITTING, Row.REJECTED): _COMMIT,
    (Phase.EMITTING, Row.SKIPPED): _COMMIT,
}

# What a failure makes of the status (F2–F5), and where each can strike: only a step that may call
# a connector can lack a sign-in or a grant; between steps only our own code can fail.
FAILURES: Final[Mapping[Failure, To]] = {
    Failure.LOGIC: To(status=Status.FAILED_LOGIC),
    Failure.TRANSIENT: To(status=Status.PAUSED_TRANSIENT),
    Failure.UNREACHABLE: To(status=Status.PAUSED_TRANSIENT),
    Failure.AUTH: To(status=Status.PAUSED_APPROVAL, waits=Waits.CONNECTION),
    Failure.PERMISSION: To(status=Status.PAUSED_APPROVAL, waits=Waits.GRANT),
    Failure.INTERNAL: To(status=Status.FAILED_INTERNAL),
}
FAILS_AT: Final[Mapping[Phase, frozenset[Failure]]] = {
    Phase.EXECUTING: frozenset(Failure),
    Phase.PREPARING: frozenset(Failure),
    Phase.PREPARED: frozenset({Failure.INTERNAL}),
    Phase.MUTATING: frozenset(Failure),
    Phase.MUTATED: frozenset({Failure.INTERNAL}),
    Phase.EMITTING: frozenset({Failure.LOGIC, Failure.TRANSIENT, Failure.INTERNAL}),
}

# How a send's answer changes run and row (L4). The status tells the two kinds of send apart: an
# active run sends for the first time, or again after a definite no (F4); a run that waits for
# reconciliation sends an unknown call again (L7), and there a refusal proves nothing about the
# first send unless the outside says that it remembered the key.
ANSWERS: Final[Mapping[Status, Mapping[Answer, To]]] = {
    Status.ACTIVE: {
        Answer.APPLIED: APPLIED,
        Answer.REFUSED: WRONG,
        Answer.REMEMBERED: WRONG,
        Answer.RATE_LIMITED: LATER,
        Answer.NOT_SENT: LATER,
        Answer.AUTH: To(status=Status.PAUSED_APPROVAL, row=Row.PROPOSED, waits=Waits.CONNECTION),
        Answer.PERMISSION: To(status=Status.PAUSED_APPROVAL, row=Row.PROPOSED, waits=Waits.GRANT),
        Answer.UNKNOWN: ASK,
    },
    Status.PAUSED_RECONCILIATION: {
        Answer.APPLIED: APPLIED,
        Answer.REFUSED: ASK,
        Answer.REMEMBERED: WRONG,
        Answer.RATE_LIMITED: ASK,
        Answer.NOT_SENT: ASK,
        Answer.AUTH: ASK,
        Answer.PERMISSION: ASK,
        Answer.UNKNOWN: ASK,
    },
}

# What a late answer makes of its row (L1, L6): it settles a row that is still unknown. After a
# missing sign-in or permission a fresh run finds the same, and waits for it: a call that was given
# up cannot be sent again (F4). An unknown answer changes nothing.
LATE: Final[Mapping[Answer, To]] = {
    Answer.APPLIED: APPLIED,
    Answer.REFUSED: WRONG,
    Answer.REMEMBERED: WRONG,
    Answer.RATE_LIMITED: LATER,
    Answer.NOT_SENT: LATER,
    Answer.AUTH: LATER,
    Answer.PERMISSION: LATER,
}

# L7: only a refusal on the merits of the call makes the next key another one.
GROWS_GENERATION: Final = frozenset({Answer.REFUSED, Answer.REMEMBERED})

# What asking the outside makes of an unknown row (L5, L6): inline while the run is active and the
# row in flight, later in the background.
VERDICTS: Final[Mapping[Verdict, To]] = {
    Verdict.APPLIED: APPLIED,
    Verdict.NOT_APPLIED: LATER,
    Verdict.UNSURE: ASK,
    Verdict.GIVEN_UP: GIVE_UP,
}
LATE_AT: Final = frozenset(
    {
        (Status.PAUSED_RECONCILIATION, Row.NEEDS_RECONCILE),
        (Status.PAUSED_RECONCILIATION, Row.INDETERMINATE),
    }
)
# What becomes of a run whose row was changed in the store, by whether the row was sent before: a
# call that never was has not happened, and of any other a person must say so (L11).
CHANGED: Final[Mapping[bool, To]] = {False: SPOILT, True: GIVE_UP}
CHANGED_AT: Final = frozenset(
    {
        (Status.ACTIVE, Row.IN_FLIGHT),
        (Status.PAUSED_RECONCILIATION, Row.IN_FLIGHT),
        (Status.PAUSED_RECONCILIATION, Row.NEEDS_RECONCILE),
    }
)
ASKABLE: Final = frozenset(
    {(Status.ACTIVE, Row.IN_FLIGHT), (Status.PAUSED_RECONCILIATION, Row.NEEDS_RECONCILE)}
)


def _settling(to: To) -> Mapping[Row | None, tuple[To, Reserved]]:
    """Spell a person's answer about an unknown call; `act` says when it is taken (L5, L10)."""
    return {Row.INDETERMINATE: (to, Reserved.HOLD), Row.NEEDS_RECONCILE: (to, Reserved.HOLD)}


# What a person's act makes of a run whose row it finds, and of its events (R9, L10, U3, F4).
_ENDED: Final = To(status=Status.ABANDONED)
_WITHDRAWN_END: Final = To(status=Status.ABANDONED, row=Row.FAILED)
_UNBLOCK: Final[Mapping[Row | None, tuple[To, Reserved]]] = {
    None: (GO_ON, Reserved.HOLD),
    Row.PROPOSED: (SENT, Reserved.HOLD),
}
_UNDONE: Final[Mapping[Row | None, tuple[To, Reserved]]] = {
    None: (_ENDED, Reserved.RELEASE),
    Row.FAILED: (_ENDED, Reserved.RELEASE),
    Row.PROPOSED: (_WITHDRAWN_END, Reserved.RELEASE),
}
_FOLLOWED: Final[Mapping[Row | None, tuple[To, Reserved]]] = {
    None: (To(), Reserved.RELEASE),
    Row.FAILED: (To(), Reserved.RELEASE),
    Row.PROPOSED: (WITHDRAWN, Reserved.RELEASE),
    Row.APPLIED: (To(), Reserved.TRANSFER),
    Row.REJECTED: (To(), Reserved.TRANSFER),
    Row.SKIPPED: (To(), Reserved.TRANSFER),
}
ACTS: Final[Mapping[Act, Mapping[Row | None, tuple[To, Reserved]]]] = {
    Act.APPROVE: {Row.PROPOSED: (SENT, Reserved.HOLD)},
    Act.AMEND: {Row.PROPOSED: (To(), Reserved.HOLD)},
    Act.REJECT: {Row.PROPOSED: (DECLINED, Reserved.HOLD)},
    Act.RECONNECT: _UNBLOCK,
    Act.GRANT: _UNBLOCK,
    Act.TRY_AGAIN: {Row.INDETERMINATE: (ASK, Reserved.HOLD)},
    Act.DID_NOT_HAPPEN: _settling(LATER),
    Act.HAPPENED: _settling(APPLIED),
    Act.SKIP: _settling(SKIPPED),
    Act.SKIP_EVENT: _UNDONE,
    Act.DEPLOY: _FOLLOWED,
    Act.RETRY: _FOLLOWED,
    Act.ABANDON: {
        **_UNDONE,
        Row.APPLIED: (_ENDED, Reserved.CONSUME),
        Row.REJECTED: (_ENDED, Reserved.SKIP),
        Row.SKIPPED: (_ENDED, Reserved.SKIP),
    },
    Act.PAUSE: {None: (_ENDED, Reserved.RELEASE)},
}

SETTLING: Final = frozenset({Act.TRY_AGAIN, Act.DID_NOT_HAPPEN, Act.HAPPENED, Act.SKIP})
_STANDING_STILL: Final = frozenset(
    {
        Status.PAUSED_TRANSIENT,
        Status.PAUSED_APPROVAL,
        Status.FAILED_LOGIC,
        Status.FAILED_INTERNAL,
        Status.CRASHED,
    }
)
_OPEN: Final = frozenset(Status) - ENDED
_APPROVAL: Final = frozenset({Status.PAUSED_APPROVAL})
_RECONCILIATION: Final = frozenset({Status.PAUSED_RECONCILIATION})
ACT_STATUSES: Final[Mapping[Act, frozenset[Status]]] = {
    Act.APPROVE: _APPROVAL,
    Act.AMEND: _APPROVAL,
    Act.REJECT: _APPROVAL,
    Act.RECONNECT: _APPROVAL,
    Act.GRANT: _APPROVAL,
    Act.TRY_AGAIN: _RECONCILIATION,
    Act.DID_NOT_HAPPEN: _RECONCILIATION,
    Act.HAPPENED: _RECONCILIATION,
    Act.SKIP: _RECONCILIATION,
    Act.SKIP_EVENT: _OPEN,
    Act.DEPLOY: frozenset({Status.FAILED_LOGIC}),
    Act.RETRY: _STANDING_STILL,
    Act.ABANDON: _OPEN,
    Act.PAUSE: frozenset({Status.ACTIVE}),
}
# The acts that need the run to wait for exactly that (F4); rejecting needs only a proposal.
ACT_WAITS: Final[Mapping[Act, Waits]] = {
    Act.APPROVE: Waits.APPROVAL,
    Act.AMEND: Waits.APPROVAL,
    Act.RECONNECT: Waits.CONNECTION,
    Act.GRANT: Waits.GRANT,
}
# U3: a run has reserved nothing yet, so no event can be skipped away from it.
HOLDS_NOTHING: Final = frozenset({Phase.EXECUTING, Phase.PREPARING})
# F7: what a pause drops; past these the run goes on to its commit.
PAUSE_DROPS: Final = frozenset({Phase.EXECUTING, Phase.PREPARING, Phase.PREPARED, Phase.MUTATING})

# R5: how the run after a stopped one begins, and what the events do.
_ASKING: Final = Run(
    Kind.CONSUMER, Phase.MUTATING, Status.PAUSED_RECONCILIATION, Row.NEEDS_RECONCILE
)
_TELLING: Final = Run(Kind.CONSUMER, Phase.EMITTING, Status.ACTIVE, Row.APPLIED, Outcome.APPLIED)
INHERITING: Final[Mapping[Row, Run]] = {
    Row.APPLIED: _TELLING,
    Row.REJECTED: replace(_TELLING, row=Row.REJECTED, outcome=Outcome.SKIPPED),
    Row.SKIPPED: replace(_TELLING, row=Row.SKIPPED, outcome=Outcome.SKIPPED),
    Row.IN_FLIGHT: _ASKING,
    Row.NEEDS_RECONCILE: _ASKING,
    Row.INDETERMINATE: replace(_ASKING, row=Row.INDETERMINATE),
}
FRESH: Final = frozenset({None, Row.FAILED, Row.PROPOSED})
FOLLOWED_BY_HOST: Final = frozenset({Status.PAUSED_TRANSIENT, Status.CRASHED})

# C11: how the events of a committed consumer run end.
ON_COMMIT: Final[Mapping[Outcome, Reserved]] = {
    Outcome.NONE: Reserved.CONSUME,
    Outcome.APPLIED: Reserved.CONSUME,
    Outcome.SKIPPED: Reserved.SKIP,
}


def advance(run: Run, step: Progress) -> Run:
    """Take one step forward; only an active run may."""
    if run.status is not Status.ACTIVE:
        raise _bug(run, step=step)
    return _move(run, _look_up(STEPS.get((run.phase, run.row), {}), step, run))


def commit(run: Run) -> Change:
    """End a run whose last step is done; its events are consumed, or skipped after a skip (C11)."""
    committed = advance(run, Progress.COMMIT)
    if run.kind is Kind.PRODUCER:
        return Change(committed)
    assert run.outcome is not None, run
    return Change(committed, ON_COMMIT[run.outcome])


def fail(run: Run, failure: Failure) -> Run:
    """Stop an active run that has no call out; with a call out, its answer decides (`answer`)."""
    if run.status is not Status.ACTIVE or run.row is Row.IN_FLIGHT:
        raise _bug(run, move="fail")
    if failure not in FAILS_AT.get(run.phase, ()):
        raise _bug(run, failure=failure)
    return _move(run, FAILURES[failure])


def answer(run: Run, given: Answer) -> Run:
    """Record how a send ended."""
    if run.row is not Row.IN_FLIGHT:
        raise _bug(run, move="answer")
    return _move(run, _look_up(ANSWERS.get(run.status, {}), given, run))


def resend(run: Run) -> Run:
    """Send an unknown call again under its key (L7), where `ledger.may_resend` allows it."""
    if (run.status, run.row) != (Status.PAUSED_RECONCILIATION, Row.NEEDS_RECONCILE):
        raise _bug(run, move="send_again")
    return _move(run, To(row=Row.IN_FLIGHT))


def judge(run: Run, verdict: Verdict) -> Run:
    """Record what asking gave; `ledger.is_absence_settled` comes before NOT_APPLIED (L6)."""
    if (run.status, run.row) not in ASKABLE:
        raise _bug(run, move="ask")
    return _move(run, VERDICTS[verdict])


def spoil(run: Run, *, was_sent: bool) -> Run:
    """Stop a run whose row was changed in the store: nothing of it is sent or asked (L11)."""
    if (run.status, run.row) not in CHANGED_AT:
        raise _bug(run, move="send_or_ask")
    is_unknown = run.status is Status.PAUSED_RECONCILIATION  # something of it was sent before
    return _move(run, CHANGED[was_sent or is_unknown])


def late(run: Run, given: Answer, *, is_definite: bool) -> Run | None:
    """Decide what a late answer changes: the host had stopped waiting for its send (L1, L6).

    None: it is shown beside the row and changes nothing. `is_definite` says that no other send of
    the row is unknown: only then a no to this one is a no to the call.
    """
    if (run.status, run.row) not in LATE_AT or given not in LATE:
        return None
    if given is not Answer.APPLIED and not is_definite:
        return None
    return _move(run, LATE[given])


def act(run: Run, asked: Act, *, is_paused: bool = False, is_told: bool = False) -> Change:
    """Decide what a person's act does to this run, or refuse it with a sentence.

    `is_told`: no question could be asked for an hour and the person was told, so that they may
    answer while asking goes on (L5).
    """
    if asked is Act.PAUSE and not is_dropped_by_pause(run):
        return Change(run)
    rows = ACTS[asked]
    is_possible = run.status in ACT_STATUSES[asked] and run.row in rows
    if run.row is Row.NEEDS_RECONCILE and not is_told:
        is_possible = False
    if not is_possible or (asked is Act.SKIP_EVENT and run.phase in HOLDS_NOTHING):
        raise _refusal(run, asked)
    if run.waits is not ACT_WAITS.get(asked, run.waits):
        raise RequestRefused(code="waits_for_other", facts={"act": asked, "waits": run.waits})
    to, reserved = rows[run.row]
    if is_paused and to is SENT:
        raise RequestRefused(code="paused", facts={"act": asked}, next=see("attention"))
    after = _move(run, to)
    if rows is _FOLLOWED:
        return Change(after, reserved, _successor(run))
    return Change(after, reserved)


def is_dropped_by_pause(run: Run) -> bool:
    """Tell whether a pause ends this run: it is active and its mutation call has not begun (F7)."""
    return run.status is Status.ACTIVE and run.row is None and run.phase in PAUSE_DROPS


def crash(run: Run, counts: Counts) -> Change:
    """Recover a run the host died on (R7): `counts` already counts this crash."""
    if run.status is Status.PAUSED_RECONCILIATION and run.row is Row.IN_FLIGHT:
        return Change(_move(run, To(row=Row.NEEDS_RECONCILE)))
    if run.status is not Status.ACTIVE:
        raise _bug(run, move="crash")
    crashed = replace(run, status=Status.CRASHED)
    if run.row is Row.IN_FLIGHT:
        crashed = _move(crashed, To(row=Row.NEEDS_RECONCILE))
    if counts.crash >= CRASHES_MAX and crashed.row not in UNKNOWN:
        return Change(crashed)
    return succeed(crashed)


def succeed(run: Run) -> Change:
    """Decide how the run after a stopped one begins, by the row it holds alone (R5).

    The host itself follows only a temporary error and a crash. Every other stop waits for a new
    version or a person, whose act is decided by `act`.
    """
    if run.status not in FOLLOWED_BY_HOST:
        raise _bug(run, move="follow")
    reserved = Reserved.RELEASE if run.row in FRESH else Reserved.TRANSFER
    return Change(run, reserved, _successor(run))


def _successor(run: Run) -> Run:
    return START[run.kind] if run.row is None or run.row in FRESH else INHERITING[run.row]


def _move(run: Run, to: To) -> Run:
    row = to.row or run.row
    if row is not run.row and row not in LEDGER[run.row]:
        raise _bug(run, to=row)
    status = to.status or run.status
    # What a run waits for is a fact of paused:approval alone.
    waits = (to.waits or run.waits) if status is Status.PAUSED_APPROVAL else None
    return Run(run.kind, to.phase or run.phase, status, row, to.outcome or run.outcome, waits)


def _look_up(table: Mapping[K, V], key: K, run: Run) -> V:
    try:
        return table[key]
    except KeyError:
        raise _bug(run, key=str(key)) from None


def _bug(run: Run, **more: object) -> IllegalTransition:
    where = {"phase": run.phase, "status": run.status, "row": run.row}
    return IllegalTransition(code="bug", facts={"detail": "run", **where, **more})


def _refusal(run: Run, asked: Act) -> RequestRefused:
    facts = {"act": asked, "status": run.status, "row": run.row}
    if run.status in ENDED:
        return RequestRefused(code="run_over", facts=facts)
    if run.row in UNKNOWN and asked in (Act.RETRY, Act.ABANDON, Act.SKIP_EVENT):
        return RequestRefused(code="outcome_unknown", facts=facts, next=see("attention"))
    if run.row is Row.NEEDS_RECONCILE and asked in SETTLING:
        return RequestRefused(code="still_asking", facts=facts)
    return RequestRefused(code="not_possible_now", facts=facts)
