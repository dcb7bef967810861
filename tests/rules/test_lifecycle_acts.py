"""What a person can do to a run in every state it can reach."""

from __future__ import annotations

import itertools

import pytest

from duly.errors import RequestRefused
from duly.rules import chain, lifecycle
from duly.rules.lifecycle import Counts, Run
from duly.rules.word import (
    Act,
    Answer,
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


def test_an_unknown_mutation_blocks_retry_abandon_and_skip() -> None:
    """L8, R9: while it is unknown nobody begins afresh and no event is let go."""
    assert UNKNOWN_STATES
    for run in UNKNOWN_STATES:
        for wish in (Act.RETRY, Act.ABANDON, Act.SKIP_EVENT, Act.DEPLOY):
            with pytest.raises(RequestRefused):
                lifecycle.act(run, wish)
        for move in moves(run):
            assert move.change.reserved in (Reserved.HOLD, Reserved.TRANSFER), (run, move)
            if move.change.successor:
                assert move.change.successor.status is Status.PAUSED_RECONCILIATION, (run, move)


@pytest.mark.parametrize(
    ("answer", "row", "status", "outcome"),
    [
        (Act.TRY_AGAIN, Row.NEEDS_RECONCILE, Status.PAUSED_RECONCILIATION, None),
        (Act.DID_NOT_HAPPEN, Row.FAILED, Status.PAUSED_TRANSIENT, None),
        (Act.HAPPENED, Row.APPLIED, Status.ACTIVE, Outcome.APPLIED),
        (Act.SKIP, Row.SKIPPED, Status.ACTIVE, Outcome.SKIPPED),
    ],
)
def test_each_answer_of_a_person_settles_an_indeterminate_mutation_and_no_other(
    answer: Act, row: Row, status: Status, outcome: Outcome | None
) -> None:
    """L10: four answers, refused unless the mutation is indeterminate."""
    after = lifecycle.act(indeterminate(), answer).run
    assert (after.row, after.status, after.outcome) == (row, status, outcome)
    for run in ALL:
        if run.row is not Row.INDETERMINATE:
            with pytest.raises(RequestRefused):
                lifecycle.act(run, answer)


@pytest.mark.parametrize("answer", [Act.DID_NOT_HAPPEN, Act.HAPPENED, Act.SKIP])
def test_who_was_told_that_nothing_can_be_asked_may_answer_while_asking_goes_on(
    answer: Act,
) -> None:
    """L5, L1: as for an indeterminate one; who was not told is refused."""
    asked = lifecycle.judge(in_flight(), Verdict.UNSURE)
    assert lifecycle.act(asked, answer, is_told=True) == lifecycle.act(indeterminate(), answer)
    with pytest.raises(RequestRefused, match="still asking"):
        lifecycle.act(asked, answer)


def test_to_try_again_is_no_answer_while_it_is_tried() -> None:
    """L1: a row that needs_reconcile has no move to itself."""
    with pytest.raises(RequestRefused):
        lifecycle.act(lifecycle.judge(in_flight(), Verdict.UNSURE), Act.TRY_AGAIN, is_told=True)


UNSETTLED = (lifecycle.judge(in_flight(), Verdict.UNSURE), indeterminate())


@pytest.mark.parametrize("run", UNSETTLED)
@pytest.mark.parametrize("is_definite", [True, False])
def test_a_late_yes_settles_a_row_that_is_still_unknown(run: Run, is_definite: bool) -> None:
    """L1, L6: of any of its sends."""
    after = lifecycle.late(run, Answer.APPLIED, is_definite=is_definite)
    assert after is not None
    assert (after.row, after.status, after.phase) == (Row.APPLIED, Status.ACTIVE, Phase.MUTATED)


@pytest.mark.parametrize("run", UNSETTLED)
@pytest.mark.parametrize("given", sorted(set(Answer) - {Answer.APPLIED, Answer.UNKNOWN}))
def test_a_late_no_settles_it_only_if_no_other_send_is_unknown(run: Run, given: Answer) -> None:
    """L1: else it is shown beside, for another send may have made the change."""
    after = lifecycle.late(run, given, is_definite=True)
    assert after is not None
    assert after.row is Row.FAILED
    assert lifecycle.late(run, given, is_definite=False) is None


def test_a_late_answer_changes_nothing_that_was_decided() -> None:
    """L1: applied, failed, rejected and skipped are final; what is being sent waits for its own."""
    for run in ALL:
        if run not in UNSETTLED and run.row not in (Row.NEEDS_RECONCILE, Row.INDETERMINATE):
            for given in Answer:
                assert lifecycle.late(run, given, is_definite=True) is None, run
    for run in UNSETTLED:
        assert lifecycle.late(run, Answer.UNKNOWN, is_definite=True) is None


def test_the_same_run_goes_on_after_an_answer_and_gets_a_successor_after_a_stop() -> None:
    """R4: approve, reject, reconnect, grant, and a mutation settled as applied or skipped."""
    going_on = {Act.APPROVE, Act.REJECT, Act.RECONNECT, Act.GRANT, Act.HAPPENED, Act.SKIP}
    for run in ALL:
        for move in moves(run):
            if move.name in going_on and move.by == "person":
                assert move.change.successor is None
                assert move.change.run.status is Status.ACTIVE
                assert move.change.reserved is Reserved.HOLD


def test_every_open_state_has_an_exit_by_a_person_or_moves_on_by_itself() -> None:
    """R9: the walk finds no dead end; a run that waits for a person is left by a person's act."""
    for run in OPEN:
        out = {(move.by, move.name) for move in moves(run)}
        assert out, run
        if chain.way(run, Counts(crash=3, transient=6), has_repairer=False) is Way.PERSON:
            assert [name for by, name in out if by == "person"], run


def test_a_row_waits_for_a_yes_once() -> None:
    """G11, A4: its id is used once, whatever happens to the call that was approved."""
    for run in OPEN:
        for move in moves(run):
            after = move.change.successor or move.change.run
            if after.waits is Waits.APPROVAL and after != run:
                assert run.row is None, (run, move)


def test_every_open_state_can_come_to_its_end() -> None:
    """R9: from everywhere a commit or an abandoned run is in reach."""
    ending = {run for run in ALL if run.status in (Status.COMMITTED, Status.ABANDONED)}
    for _ in ALL:
        for run in OPEN:
            after = {move.change.successor or move.change.run for move in moves(run)}
            if after & ending:
                ending.add(run)
    assert ending == set(ALL)


def test_an_ended_run_never_moves_again() -> None:
    """R3: committed and abandoned are final, with no successor."""
    for run in ALL:
        if run.status in (Status.COMMITTED, Status.ABANDONED):
            assert not list(moves(run)), run


@pytest.mark.parametrize(
    ("row", "reserved"),
    [
        (None, Reserved.RELEASE),
        (Row.FAILED, Reserved.RELEASE),
        (Row.PROPOSED, Reserved.RELEASE),
        (Row.APPLIED, Reserved.CONSUME),
        (Row.REJECTED, Reserved.SKIP),
        (Row.SKIPPED, Reserved.SKIP),
    ],
)
def test_abandoning_lets_the_events_go_where_the_ledger_says(
    row: Row | None, reserved: Reserved
) -> None:
    """R9: what was done is consumed, what was declined is skipped, the rest is free again."""
    runs = [run for run in OPEN if run.row is row]
    assert runs
    for run in runs:
        change = lifecycle.act(run, Act.ABANDON)
        assert (change.run.status, change.reserved) == (Status.ABANDONED, reserved)
        assert change.successor is None
        assert change.run.row is not Row.PROPOSED, "a withdrawn proposal cannot be approved later"


def test_retry_follows_every_run_that_stands_still_and_withdraws_a_proposal() -> None:
    """R9: an active run is not retried, a proposal ends as failed, never sent."""
    for run in OPEN:
        if run.status is Status.ACTIVE or run.row in UNKNOWN:
            with pytest.raises(RequestRefused):
                lifecycle.act(run, Act.RETRY)
        else:
            change = lifecycle.act(run, Act.RETRY)
            assert change.successor is not None
            assert change.run.row is not Row.PROPOSED


def test_skipping_an_event_ends_a_run_whose_mutation_was_not_made() -> None:
    """U3: with no row, a proposed or a failed one; every other row refuses."""
    for run in OPEN:
        has_reserved = run.phase not in (Phase.EXECUTING, Phase.PREPARING)
        if has_reserved and run.row in (None, Row.FAILED, Row.PROPOSED):
            change = lifecycle.act(run, Act.SKIP_EVENT)
            assert (change.run.status, change.reserved) == (Status.ABANDONED, Reserved.RELEASE)
        else:
            with pytest.raises(RequestRefused):
                lifecycle.act(run, Act.SKIP_EVENT)


def test_a_pause_drops_an_active_run_before_its_call_and_no_other() -> None:
    """F7: a begun call and whatever is past mutate go on; what stands still is left alone."""
    begun = (Phase.EXECUTING, Phase.PREPARING, Phase.PREPARED, Phase.MUTATING)
    for run in OPEN:
        change = lifecycle.act(run, Act.PAUSE)
        if run.status is Status.ACTIVE and run.row is None and run.phase in begun:
            assert (change.run.status, change.reserved) == (Status.ABANDONED, Reserved.RELEASE)
        else:
            assert (change.run, change.reserved) == (run, Reserved.HOLD), run


def test_nothing_is_sent_while_the_workflow_is_paused() -> None:
    """F7, A4: approve is refused, and so is every act that would send."""
    sending = [
        (run, wish)
        for run, wish in itertools.product(OPEN, (Act.APPROVE, Act.RECONNECT, Act.GRANT))
        if run.row is Row.PROPOSED
    ]
    assert sending
    for run, wish in sending:
        with pytest.raises(RequestRefused):
            lifecycle.act(run, wish, is_paused=True)


def test_a_run_is_moved_only_by_what_it_waits_for() -> None:
    """F4: approve, reconnect and grant move only runs waiting for exactly that."""
    wants = {
        Act.APPROVE: Waits.APPROVAL,
        Act.RECONNECT: Waits.CONNECTION,
        Act.GRANT: Waits.GRANT,
    }
    for run, (wish, waits) in itertools.product(OPEN, wants.items()):
        if run.waits is waits and (run.row is Row.PROPOSED or wish is not Act.APPROVE):
            assert lifecycle.act(run, wish).run.status is Status.ACTIVE
        else:
            with pytest.raises(RequestRefused):
                lifecycle.act(run, wish)


def test_a_proposal_is_sent_by_approval_and_declined_by_rejection() -> None:
    """A3, A4: approve makes the row in_flight, reject tells next it was skipped."""
    approved = lifecycle.act(proposed(), Act.APPROVE).run
    assert (approved.row, approved.status) == (Row.IN_FLIGHT, Status.ACTIVE)
    rejected = lifecycle.act(proposed(), Act.REJECT).run
    assert (rejected.row, rejected.outcome) == (Row.REJECTED, Outcome.SKIPPED)
    assert rejected.phase is Phase.MUTATED


def test_a_version_that_is_activated_follows_only_a_failed_logic_run() -> None:
    """F3: deploy, rollback and an adopted repair give it its successor."""
    for run in OPEN:
        if run.status is Status.FAILED_LOGIC:
            assert lifecycle.act(run, Act.DEPLOY).successor is not None
        else:
            with pytest.raises(RequestRefused):
                lifecycle.act(run, Act.DEPLOY)


def test_a_refused_act_says_what_stands_in_its_way() -> None:
    """R9: the sentence names the act and the state."""
    with pytest.raises(RequestRefused, match=r"Settle it first"):
        lifecycle.act(indeterminate(), Act.RETRY)
    with pytest.raises(RequestRefused, match=r"already abandoned"):
        lifecycle.act(Run(status=Status.ABANDONED), Act.ABANDON)
    with pytest.raises(RequestRefused, match=r"waits for a connection"):
        lifecycle.act(lifecycle.answer(in_flight(), Answer.AUTH), Act.APPROVE)
