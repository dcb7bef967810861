"""The life of a run, walked through every state it can reach."""

from __future__ import annotations

import pytest

from duly.errors import IllegalTransition
from duly.rules import chain, lifecycle
from duly.rules.lifecycle import Counts, Run
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
    Way,
)
from duly.rules.word import MutationStatus as Row
from tests.rules.walk import ALL, OPEN, in_flight, indeterminate, moves, proposed

ORDER = list(Phase)
UNKNOWN = {Row.IN_FLIGHT, Row.NEEDS_RECONCILE, Row.INDETERMINATE}
SENDS = {Progress.SEND, Act.APPROVE, Act.RECONNECT, Act.GRANT, "send again"}
UNKNOWN_STATES = [run for run in ALL if run.row in UNKNOWN]


def test_the_machine_stays_small_enough_to_read() -> None:
    """R8: every state was walked, and there are as many as the tables say, no more."""
    assert (len(ALL), len(OPEN)) == (84, 66)


def test_a_phase_only_moves_forward() -> None:
    """R2: no move takes a run back; what begins afresh is another run."""
    for run in ALL:
        for move in moves(run):
            assert ORDER.index(move.change.run.phase) >= ORDER.index(run.phase), (run, move)


def test_a_failure_a_crash_or_a_refusal_never_moves_the_phase() -> None:
    """R3: only success and a settled outcome move the phase."""
    for run in ALL:
        for move in moves(run):
            if move.by in ("failure", "restart"):
                assert move.change.run.phase is run.phase, (run, move)
            if move.by == "answer" and move.name != Answer.APPLIED:
                assert move.change.run.phase is run.phase, (run, move)


def test_the_way_of_a_consumer_without_trouble() -> None:
    """C6, C9, R2: prepare, mutate, next, in this order, with and without a call."""
    run = lifecycle.advance(lifecycle.CONSUMER_START, Progress.PREPARE_DONE)
    assert run.phase is Phase.PREPARED
    mutating = lifecycle.advance(run, Progress.BEGIN_MUTATE)
    quiet = lifecycle.advance(mutating, Progress.NO_CALL)
    assert (quiet.phase, quiet.row, quiet.outcome) == (Phase.MUTATED, None, Outcome.NONE)
    ended = lifecycle.commit(lifecycle.advance(quiet, Progress.BEGIN_NEXT))
    assert (ended.run.status, ended.reserved) == (Status.COMMITTED, Reserved.CONSUME)


def test_a_run_that_reserved_nothing_goes_straight_to_next_with_outcome_none() -> None:
    """C7: mutate is skipped and next is told `none`."""
    run = lifecycle.advance(lifecycle.CONSUMER_START, Progress.PREPARE_DONE)
    emitting = lifecycle.advance(run, Progress.NOTHING_RESERVED)
    assert (emitting.phase, emitting.outcome) == (Phase.EMITTING, Outcome.NONE)


def test_a_producer_only_executes_and_commits() -> None:
    """P4, P1: a producer never holds a ledger row and never meets another phase."""
    for run in ALL:
        if run.kind is Kind.PRODUCER:
            assert run.row is None, run
            assert run.phase in (Phase.EXECUTING, Phase.COMMITTED), run


def test_next_runs_once_the_outcome_is_known_and_only_then() -> None:
    """C10: at emitting the outcome is applied, none or skipped, never missing."""
    for run in ALL:
        if run.phase in (Phase.MUTATED, Phase.EMITTING) and run.kind is Kind.CONSUMER:
            assert run.outcome is not None, run
        assert (run.outcome is Outcome.APPLIED) is (run.row is Row.APPLIED), run
        if run.outcome is Outcome.SKIPPED:
            assert run.row in (Row.SKIPPED, Row.REJECTED), run


@pytest.mark.parametrize(
    ("outcome", "reserved"),
    [
        (Outcome.NONE, Reserved.CONSUME),
        (Outcome.APPLIED, Reserved.CONSUME),
        (Outcome.SKIPPED, Reserved.SKIP),
    ],
)
def test_a_commit_consumes_the_events_or_skips_them_after_a_skip(
    outcome: Outcome, reserved: Reserved
) -> None:
    """C11: reserved events end with the run that reserved them."""
    committed = [
        move.change
        for run in ALL
        if run.kind is Kind.CONSUMER and run.outcome is outcome
        for move in moves(run)
        if move.name == Progress.COMMIT
    ]
    assert committed
    assert {change.reserved for change in committed} == {reserved}


def test_a_ledger_row_only_makes_the_moves_of_the_ledger() -> None:
    """L1: the table is checked against the walk, move by move."""
    made = {
        (run.row, move.change.run.row)
        for run in ALL
        for move in moves(run)
        if move.change.run.row is not run.row
    }
    allowed = {(old, new) for old, news in lifecycle.LEDGER.items() for new in news}
    assert made == allowed


def test_a_final_row_stays_what_it_is() -> None:
    """L1: applied, failed, rejected and skipped are final."""
    for run in ALL:
        if run.row in (Row.APPLIED, Row.FAILED, Row.REJECTED, Row.SKIPPED):
            assert all(move.change.run.row is run.row for move in moves(run)), run


def test_an_applied_mutation_is_never_made_again() -> None:
    """L3, R5: every way on from applied keeps the row, and no successor begins afresh."""
    for run in ALL:
        if run.row is not Row.APPLIED:
            continue
        for move in moves(run):
            assert move.name not in SENDS, (run, move)
            if move.change.successor:
                assert move.change.successor.phase is Phase.EMITTING, (run, move)
                assert move.change.successor.row is Row.APPLIED, (run, move)


def test_a_call_leaves_only_from_a_row_that_says_in_flight() -> None:
    """L2: whatever sends makes the row in_flight in the same decision."""
    senders = [(run, move) for run in ALL for move in moves(run) if move.name in SENDS]
    assert senders
    for run, move in senders:
        if run.row is None and move.by == "person":
            continue  # a reconnect or grant without a row only starts the step again
        assert move.change.run.row is Row.IN_FLIGHT, (run, move)


def test_a_repairer_is_never_asked_about_an_unknown_mutation() -> None:
    """L8: no unknown row is held by a failed:logic run."""
    assert not [run for run in UNKNOWN_STATES if run.status is Status.FAILED_LOGIC]


DEFINITE = [
    (Answer.REFUSED, Row.FAILED, Status.FAILED_LOGIC, None),
    (Answer.REMEMBERED, Row.FAILED, Status.FAILED_LOGIC, None),
    (Answer.RATE_LIMITED, Row.FAILED, Status.PAUSED_TRANSIENT, None),
    (Answer.NOT_SENT, Row.FAILED, Status.PAUSED_TRANSIENT, None),
    (Answer.AUTH, Row.PROPOSED, Status.PAUSED_APPROVAL, Waits.CONNECTION),
    (Answer.PERMISSION, Row.PROPOSED, Status.PAUSED_APPROVAL, Waits.GRANT),
    (Answer.UNKNOWN, Row.NEEDS_RECONCILE, Status.PAUSED_RECONCILIATION, None),
    (Answer.APPLIED, Row.APPLIED, Status.ACTIVE, None),
]


@pytest.mark.parametrize(("given", "row", "status", "waits"), DEFINITE)
def test_the_answer_to_a_first_send(
    given: Answer, row: Row, status: Status, waits: Waits | None
) -> None:
    """L4, F4: a definite no ends the row, a sign-in keeps the call for later, a doubt asks."""
    run = lifecycle.answer(in_flight(), given)
    assert (run.row, run.status, run.waits) == (row, status, waits)


@pytest.mark.parametrize("given", Answer)
def test_a_refused_resend_of_an_unknown_call_leaves_it_unknown(given: Answer) -> None:
    """L4: the door that refuses the second request proves nothing about the first one."""
    waiting = lifecycle.answer(in_flight(), Answer.UNKNOWN)
    run = lifecycle.answer(lifecycle.resend(waiting), given)
    expected = {Answer.APPLIED: Row.APPLIED, Answer.REMEMBERED: Row.FAILED}
    assert run.row is expected.get(given, Row.NEEDS_RECONCILE)


def test_a_second_send_after_a_sign_in_is_as_definite_as_a_first() -> None:
    """L4, F4: its first send was refused for certain, so a refusal now is certain too."""
    waiting = lifecycle.answer(in_flight(), Answer.AUTH)
    again = lifecycle.act(waiting, Act.RECONNECT).run
    assert lifecycle.answer(again, Answer.REFUSED).row is Row.FAILED


@pytest.mark.parametrize(
    ("verdict", "row", "status", "phase"),
    [
        (Verdict.APPLIED, Row.APPLIED, Status.ACTIVE, Phase.MUTATED),
        (Verdict.NOT_APPLIED, Row.FAILED, Status.PAUSED_TRANSIENT, Phase.MUTATING),
        (Verdict.UNSURE, Row.NEEDS_RECONCILE, Status.PAUSED_RECONCILIATION, Phase.MUTATING),
        (Verdict.GIVEN_UP, Row.INDETERMINATE, Status.PAUSED_RECONCILIATION, Phase.MUTATING),
    ],
)
def test_what_asking_gives_inline_and_in_the_background(
    verdict: Verdict, row: Row, status: Status, phase: Phase
) -> None:
    """L5, L6, L9: the same verdict means the same, whenever it is given."""
    background = lifecycle.answer(in_flight(), Answer.UNKNOWN)
    for run in (in_flight(), background):
        after = lifecycle.judge(run, verdict)
        assert (after.row, after.status, after.phase) == (row, status, phase)


def test_what_follows_a_stopped_run_is_decided_by_the_row_it_holds() -> None:
    """R5: nothing done begins afresh, done or declined goes on to next, unknown only asks."""
    fresh = {None, Row.FAILED, Row.PROPOSED}
    for run in ALL:
        for move in moves(run):
            successor = move.change.successor
            if successor is None:
                continue
            held = move.change.run.row
            assert move.change.inherits is (held not in fresh), (run, move)
            if held in fresh:
                assert successor == lifecycle.START[run.kind]
                assert held is not Row.PROPOSED, "a proposal is withdrawn first"
            elif held in UNKNOWN:
                assert (successor.phase, successor.status) == (
                    Phase.MUTATING,
                    Status.PAUSED_RECONCILIATION,
                )
            else:
                assert (successor.phase, successor.outcome) == (Phase.EMITTING, run.outcome)


def test_reserved_events_are_released_or_transferred_with_the_successor() -> None:
    """R6: a run that gets a successor gives the events away in the same change."""
    for run in ALL:
        for move in moves(run):
            if move.change.successor:
                assert move.change.reserved in (Reserved.RELEASE, Reserved.TRANSFER), (run, move)


def test_a_crash_asks_about_what_was_in_flight_and_begins_the_rest_afresh() -> None:
    """R7: recovery decides by the row, and a re-send cut short leaves its run as it is."""
    crashed = lifecycle.crash(in_flight(), Counts(crash=1))
    assert crashed.run.status is Status.CRASHED
    assert crashed.run.row is Row.NEEDS_RECONCILE
    assert crashed.successor
    assert crashed.successor.row is Row.NEEDS_RECONCILE
    waiting = lifecycle.answer(in_flight(), Answer.UNKNOWN)
    cut_short = lifecycle.crash(lifecycle.resend(waiting), Counts(crash=1))
    assert (cut_short.run, cut_short.successor) == (waiting, None)


def test_the_third_crash_in_a_row_waits_for_a_person_unless_it_only_asks() -> None:
    """R7: a run that kills its host is not started for ever; an unknown mutation is still asked."""
    third = Counts(crash=3)
    assert lifecycle.crash(lifecycle.CONSUMER_START, third).successor is None
    assert lifecycle.crash(lifecycle.CONSUMER_START, Counts(crash=2)).successor
    assert lifecycle.crash(in_flight(), third).successor


def test_only_crashes_must_come_in_a_row() -> None:
    """R7, F2, F3: other counts grow over the chain, so no mixture of failures goes on for ever."""
    counts = Counts()
    for status in (Status.CRASHED, Status.PAUSED_TRANSIENT, Status.CRASHED, Status.FAILED_LOGIC):
        counts = chain.counted(counts, Run(status=status))
    assert counts == Counts(transient=1, logic=1, crash=0)


@pytest.mark.parametrize("count", range(1, 8))
def test_five_transient_failures_are_retried_and_the_sixth_asks_a_person(count: int) -> None:
    """F2: five automatic successors in a row, then escalate."""
    run = lifecycle.fail(lifecycle.CONSUMER_START, Failure.TRANSIENT)
    way = chain.way(run, Counts(transient=count), has_repairer=True)
    assert way is (Way.BACKOFF if count <= 5 else Way.PERSON)


@pytest.mark.parametrize(
    ("counts", "has_repairer", "way"),
    [
        (Counts(logic=1), True, Way.REPAIR),
        (Counts(logic=2, repair=1), True, Way.REPAIR),
        (Counts(logic=3, repair=1), True, Way.PERSON),
        (Counts(logic=1, repair=2), True, Way.PERSON),
        (Counts(logic=1), False, Way.PERSON),
    ],
)
def test_a_logic_failure_is_repaired_within_its_budget(
    counts: Counts, has_repairer: bool, way: Way
) -> None:
    """F3: the third in a row, a used-up budget or no repairer ask a person."""
    run = lifecycle.fail(lifecycle.CONSUMER_START, Failure.LOGIC)
    assert chain.way(run, counts, has_repairer=has_repairer) is way


def test_an_internal_failure_and_every_wait_for_approval_ask_a_person() -> None:
    """F4, F5: nothing of that is retried on its own."""
    for run in OPEN:
        if run.status in (Status.FAILED_INTERNAL, Status.PAUSED_APPROVAL):
            assert chain.way(run, Counts(), has_repairer=True) is Way.PERSON
            assert {move.by for move in moves(run)} == {"person"}, run


def test_an_indeterminate_mutation_asks_a_person_and_an_unknown_one_is_asked_about() -> None:
    """L5: as long as attempts are left the host asks, then a person does."""
    waiting = lifecycle.answer(in_flight(), Answer.UNKNOWN)
    assert chain.way(waiting, Counts(), has_repairer=True) is Way.RECONCILER
    assert chain.way(indeterminate(), Counts(), has_repairer=True) is Way.PERSON


@pytest.mark.parametrize(
    ("failure", "status", "waits"),
    [
        (Failure.LOGIC, Status.FAILED_LOGIC, None),
        (Failure.TRANSIENT, Status.PAUSED_TRANSIENT, None),
        (Failure.AUTH, Status.PAUSED_APPROVAL, Waits.CONNECTION),
        (Failure.PERMISSION, Status.PAUSED_APPROVAL, Waits.GRANT),
        (Failure.INTERNAL, Status.FAILED_INTERNAL, None),
    ],
)
def test_each_class_of_failure_has_its_status(
    failure: Failure, status: Status, waits: Waits | None
) -> None:
    """F1, R3: one class, one status, and what the run waits for."""
    run = lifecycle.fail(lifecycle.PRODUCER_START, failure)
    assert (run.status, run.waits) == (status, waits)


def test_a_wait_is_named_exactly_while_a_run_waits_for_approval() -> None:
    """F4: the run stores what it waits for, and forgets it when it goes on."""
    for run in ALL:
        assert (run.status is Status.PAUSED_APPROVAL) is (run.waits is not None), run


def test_a_move_the_tables_do_not_have_is_our_own_bug() -> None:
    """R8: a missing key is the error."""
    with pytest.raises(IllegalTransition):
        lifecycle.advance(lifecycle.CONSUMER_START, Progress.SEND)
    with pytest.raises(IllegalTransition):
        lifecycle.fail(in_flight(), Failure.LOGIC)
    with pytest.raises(IllegalTransition):
        lifecycle.answer(proposed(), Answer.APPLIED)
    with pytest.raises(IllegalTransition):
        lifecycle.succeed(lifecycle.CONSUMER_START)
    with pytest.raises(IllegalTransition):
        chain.way(Run(status=Status.COMMITTED), Counts(), has_repairer=True)
