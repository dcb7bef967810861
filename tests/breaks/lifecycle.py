"""Breaks of the life of a run: C, L, R, F and A, one guard of the tables each."""

from __future__ import annotations

from dataclasses import replace

from duly.rules import failure, lifecycle
from duly.rules.lifecycle import Change, Counts, Run, To
from duly.rules.word import (
    Act,
    Answer,
    Failure,
    Outcome,
    Phase,
    Progress,
    Reserved,
    Status,
    Verdict,
)
from duly.rules.word import MutationStatus as Row
from tests.breaks import Break

HERE = "duly.rules.lifecycle"
CHAIN = "duly.rules.chain"
CRASHES = ("tests/engine/test_crashes.py",)
WALK = ("tests/rules/test_lifecycle.py", "tests/rules/test_lifecycle_acts.py")
LEDGER = ("tests/rules/test_ledger.py",)
FAILURE = ("tests/rules/test_failure.py",)


def _answers(status: Status, given: Answer, to: To) -> dict[Status, dict[Answer, To]]:
    table = {key: dict(answers) for key, answers in lifecycle.ANSWERS.items()}
    table[status][given] = to
    return table


def _acts(wish: Act, row: Row | None, to: To, reserved: Reserved) -> object:
    return {**lifecycle.ACTS, wish: {**lifecycle.ACTS[wish], row: (to, reserved)}}


def _steps(phase: Phase, step: Progress, to: To) -> object:
    key = (phase, None)
    return {**lifecycle.STEPS, key: {**lifecycle.STEPS[key], step: to}}


def _succeed_afresh(run: Run) -> Change:
    return Change(run, Reserved.RELEASE, lifecycle.START[run.kind])


_ACT, _LATE = lifecycle.act, lifecycle.late


def _act_as_if_told(
    run: Run, wish: Act, *, is_paused: bool = False, is_told: bool = False
) -> Change:
    return _ACT(run, wish, is_paused=is_paused, is_told=True)


def _forget_crashes(counts: Counts, run: Run, outage: object = None) -> Counts:
    return replace(counts, crash=counts.crash + (run.status is Status.CRASHED))


BREAKS = (
    Break(
        "C6",
        HERE,
        "STEPS",
        _steps(Phase.PREPARING, Progress.PREPARE_DONE, To(Phase.MUTATING)),
        WALK,
        "prepare goes straight to mutating",
    ),
    Break(
        "C7",
        HERE,
        "STEPS",
        _steps(Phase.PREPARED, Progress.NOTHING_RESERVED, To(Phase.MUTATING)),
        WALK,
        "a run that reserved nothing runs mutate",
    ),
    Break(
        "C9",
        HERE,
        "STEPS",
        _steps(Phase.MUTATING, Progress.NO_CALL, To(Phase.EMITTING, outcome=Outcome.NONE)),
        WALK,
        "a mutate without a call is never mutated",
    ),
    Break(
        "C10",
        HERE,
        "VERDICTS",
        {**lifecycle.VERDICTS, Verdict.APPLIED: replace(lifecycle.APPLIED, outcome=Outcome.NONE)},
        WALK,
        "next is told none after an applied mutation",
    ),
    Break(
        "C11",
        HERE,
        "ON_COMMIT",
        {**lifecycle.ON_COMMIT, Outcome.SKIPPED: Reserved.CONSUME},
        WALK,
        "skipped events end consumed",
    ),
    Break(
        "L1",
        HERE,
        "LEDGER",
        {**lifecycle.LEDGER, Row.APPLIED: frozenset({Row.FAILED})},
        WALK,
        "an applied row may become failed",
    ),
    Break(
        "L2",
        HERE,
        "STEPS",
        _steps(Phase.MUTATING, Progress.SEND, To()),
        WALK,
        "a call is sent without a row",
    ),
    Break(
        "L3",
        HERE,
        "INHERITING",
        {**lifecycle.INHERITING, Row.APPLIED: lifecycle.CONSUMER_START},
        WALK,
        "after an applied mutation the successor begins afresh",
    ),
    Break(
        "L4",
        HERE,
        "ANSWERS",
        _answers(Status.PAUSED_RECONCILIATION, Answer.REFUSED, lifecycle.WRONG),
        WALK,
        "a refused re-send counts as failed",
    ),
    Break(
        "L4",
        "duly.rules.failure",
        "TRANSIENT_OUTCOMES",
        {**failure.TRANSIENT_OUTCOMES, None: Answer.NOT_SENT},
        FAILURE,
        "a 503 counts as not sent",
    ),
    Break(
        "L5",
        HERE,
        "VERDICTS",
        {**lifecycle.VERDICTS, Verdict.UNSURE: lifecycle.LATER},
        WALK,
        "unsure counts as not applied",
    ),
    Break(
        "L6",
        "duly.rules.ledger",
        "is_absence_settled",
        lambda lag_ms, since_end_ms: True,
        LEDGER,
        "an absence is believed at once",
    ),
    Break("L7", "duly.rules.ledger", "RESENDS_MAX", 6, LEDGER, "a sixth re-send"),
    Break(
        "L7",
        HERE,
        "GROWS_GENERATION",
        frozenset(Answer),
        LEDGER,
        "every failed send makes a new key",
    ),
    Break(
        "L8",
        HERE,
        "ACTS",
        _acts(Act.ABANDON, Row.NEEDS_RECONCILE, To(status=Status.ABANDONED), Reserved.RELEASE),
        WALK,
        "an unknown mutation can be abandoned",
    ),
    Break(
        "L9",
        HERE,
        "VERDICTS",
        {**lifecycle.VERDICTS, Verdict.APPLIED: replace(lifecycle.APPLIED, phase=Phase.MUTATING)},
        WALK,
        "applied without the phase",
    ),
    Break(
        "L10",
        HERE,
        "act",
        _act_as_if_told,
        WALK,
        "a person may answer for a mutation the host still asks about",
    ),
    Break(
        "L1",
        HERE,
        "late",
        lambda run, given, *, is_definite: _LATE(run, given, is_definite=True),
        WALK,
        "a late no to one of two sends settles the row",
    ),
    Break(
        "R2",
        HERE,
        "FAILURES",
        {**lifecycle.FAILURES, Failure.TRANSIENT: To(Phase.PREPARING, Status.PAUSED_TRANSIENT)},
        WALK,
        "a failure takes the run back to preparing",
    ),
    Break(
        "R3",
        HERE,
        "FAILURES",
        {**lifecycle.FAILURES, Failure.LOGIC: To(Phase.EMITTING, Status.FAILED_LOGIC)},
        WALK,
        "a failure moves the phase forward",
    ),
    Break(
        "R4",
        HERE,
        "ACTS",
        _acts(
            Act.REJECT,
            Row.PROPOSED,
            replace(lifecycle.DECLINED, status=Status.PAUSED_TRANSIENT),
            Reserved.HOLD,
        ),
        WALK,
        "a rejected run stops instead of going on",
    ),
    Break("R5", HERE, "succeed", _succeed_afresh, WALK, "every successor begins afresh"),
    Break(
        "R6",
        HERE,
        "succeed",
        lambda run: replace(_succeed_afresh(run), reserved=Reserved.HOLD),
        WALK,
        "the events stay with the run that stopped",
    ),
    Break("R7", HERE, "CRASHES_MAX", 10**6, WALK, "a run that kills its host is started for ever"),
    Break(
        "R7", CHAIN, "counted", _forget_crashes, WALK, "crashes are counted over the whole chain"
    ),
    Break(
        "R8",
        HERE,
        "FAILS_AT",
        {phase: frozenset(Failure) for phase in Phase},
        WALK,
        "a sign-in can be missing where nothing is called",
    ),
    Break(
        "R9",
        HERE,
        "ACTS",
        {**lifecycle.ACTS, Act.ABANDON: {None: lifecycle.ACTS[Act.ABANDON][None]}},
        WALK,
        "only a run without a row can be abandoned",
    ),
    Break("F1", "duly.rules.failure", "READ_ERRORS", {}, FAILURE, "every read error is our bug"),
    Break("F2", CHAIN, "counted", lambda counts, run, outage=None: counts, WALK, "nothing counts"),
    Break("F3", CHAIN, "LOGIC_FAILURES_MAX", 10**6, WALK, "a script is repaired for ever"),
    Break("R7", CHAIN, "is_empty", lambda run, reserved: True, CRASHES, "reserved work backs off"),
    Break("R7", CHAIN, "EMPTY_CRASHES_MAX", 10**6, CRASHES, "an empty look crashes for ever"),
    Break("F4", HERE, "ACT_WAITS", {}, WALK, "any act moves a run that waits for another"),
    Break(
        "F5",
        HERE,
        "FOLLOWED_BY_HOST",
        frozenset(Status),
        WALK,
        "the host retries an internal failure",
    ),
    Break("F7", HERE, "PAUSE_DROPS", frozenset(Phase), WALK, "a pause drops a run in next"),
    Break(
        "A3",
        HERE,
        "ACTS",
        _acts(Act.APPROVE, Row.PROPOSED, lifecycle.GO_ON, Reserved.HOLD),
        WALK,
        "approving does not send",
    ),
    Break(
        "A4",
        HERE,
        "ACTS",
        _acts(Act.REJECT, Row.PROPOSED, lifecycle.SKIPPED, Reserved.HOLD),
        WALK,
        "a rejection is written as a skip",
    ),
    Break(
        "U3",
        HERE,
        "HOLDS_NOTHING",
        frozenset(),
        WALK,
        "an event is skipped away from a run that reserved none",
    ),
)
