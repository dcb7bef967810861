"""The oracle of what people allowed: what it lets pass, and what it says of the rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from duly.connectors.base import Call
from verification.workflow.consent import Consent
from verification.workflow.oracle import Oracle
from verification.workflow.seen import AllowanceSeen, EventSeen, MutationSeen, RunSeen, Seen

CAPABILITY = "sheet.append"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
RUN = RunSeen("r1", "r1", None, 1, "mutating", "active", None, None, None, "file", None, "1.0")
ROW = MutationSeen(
    "x1", "r1", "r1", "in_flight", "key", '{"ids":["m0"]}', 1, "inputs", 0, "hash", NOW_MS
)
CALL = Call("sheet.append", {"ids": ["m0"]}, "key", "mail", 1, NOW)
BARE = Seen(
    {"r1": RUN}, {}, {}, frozenset(), {}, {}, {}, {CAPABILITY: None}, False, False, version="1.0"
)
SENT = replace(BARE, mutations={"x1": ROW})
WAITING = RUN._replace(status="paused:approval", waits="approval")
PROPOSED = replace(
    BARE,
    runs={"r1": WAITING},
    mutations={"x1": ROW._replace(status="proposed", attempt=0, sent_at=None)},
)


def consent(*, is_asked: bool = False) -> Consent:
    return Consent(CAPABILITY, is_asked)


def looked(allowed: Consent, *seen: Seen) -> list[str]:
    """Show a row of moments, and answer what is said of the last."""
    said: list[str] = []
    was = None
    for now in seen:
        said = list(allowed.look(was, now))
        was = now
    return said


def test_call_that_is_written_down_and_granted_may_leave() -> None:
    """L2: nothing is said of a call that is in the ledger exactly as it leaves."""
    allowed = consent()
    assert looked(allowed, BARE, SENT) == []
    assert list(allowed.see_leave(CALL, SENT)) == []


@pytest.mark.parametrize(
    "row",
    [
        ROW._replace(status="proposed"),
        ROW._replace(key="another"),
        ROW._replace(attempt=2),
        ROW._replace(args='{"ids":["m1"]}'),
        ROW._replace(sent_at=None),
    ],
)
def test_call_that_is_not_written_down_so_is_told(row: MutationSeen) -> None:
    """L2: another status, key, attempt, argument or no send time is not this call."""
    seen = replace(BARE, mutations={"x1": row})
    allowed = consent()
    looked(allowed, BARE, seen)
    (said,) = allowed.see_leave(CALL, seen)
    assert said == "attempt 1 of sheet.append left, and is not written down so"


def test_attempt_that_leaves_twice_is_told() -> None:
    """A4: a double click sends once."""
    allowed = consent()
    looked(allowed, BARE, SENT)
    assert list(allowed.see_leave(CALL, SENT)) == []
    assert list(allowed.see_leave(CALL, SENT)) == ["attempt 1 of mutation x1 left twice"]


def test_call_nobody_approved_is_told() -> None:
    """A3: where a person is to be asked, nothing leaves without a yes."""
    allowed = consent(is_asked=True)
    looked(allowed, BARE, SENT)
    assert list(allowed.see_leave(CALL, SENT)) == [
        "mutation x1 left, and no person had approved it"
    ]


def test_yes_counts_until_it_is_refused() -> None:
    """A4: of two answers at once one is refused, and the other still counts."""
    allowed = consent(is_asked=True)
    looked(allowed, BARE, SENT)
    allowed.approve(ROW)
    allowed.approve(ROW)
    allowed.refuse(ROW)
    assert list(allowed.see_leave(CALL, SENT)) == []


def test_yes_to_another_call_does_not_count() -> None:
    """A4: the hash and the call a person saw are those that leave."""
    allowed = consent(is_asked=True)
    looked(allowed, BARE, SENT)
    allowed.approve(ROW._replace(hash="another"))
    assert list(allowed.see_leave(CALL, SENT)) == [
        "mutation x1 left, and no person had approved it"
    ]


def test_rejected_call_that_leaves_is_told() -> None:
    """A4: a no is for ever."""
    allowed = consent()
    looked(allowed, BARE, SENT)
    allowed.rejected.add("x1")
    assert list(allowed.see_leave(CALL, SENT)) == ["mutation x1 was rejected and left"]
    assert looked(allowed, SENT) == ["mutation x1 was rejected and is in_flight"]


def test_grant_taken_back_before_the_last_look_is_told() -> None:
    """A1: who writes after a revoke and sends all the same has not looked."""
    none = replace(BARE, grants={})
    moved = replace(none, runs={"r1": RUN._replace(prepared="{}")})
    sent = replace(moved, mutations={"x1": ROW})
    allowed = consent()
    looked(allowed, BARE, none, moved, sent)
    assert list(allowed.see_leave(CALL, sent)) == ["mutation x1 left after 0 others, allowed are 0"]


def test_grant_taken_back_while_a_call_leaves_may_come_too_late() -> None:
    """A1: between the look and the first byte nothing is promised for a first send."""
    sent = replace(SENT, grants={})
    allowed = consent()
    looked(allowed, BARE, replace(BARE, grants={}), sent)
    assert list(allowed.see_leave(CALL, sent)) == []


def test_grant_of_a_call_that_is_sent_again_is_looked_at_after_the_send_is_written() -> None:
    """A1: a revoke before that write holds."""
    none = replace(BARE, grants={})
    again = replace(none, mutations={"x1": ROW._replace(attempt=2)})
    allowed = consent()
    looked(allowed, SENT, replace(SENT, grants={}), again)
    said = list(allowed.see_leave(replace(CALL, attempt=2), again))
    assert said == ["mutation x1 left after 0 others, allowed are 0"]


@pytest.mark.parametrize(("limit", "is_told"), [(2, False), (1, True)])
def test_call_past_the_limit_of_its_day_is_told(limit: int, is_told: bool) -> None:
    """A1: one at the limit may leave, one past it may not."""
    granted = replace(BARE, grants={CAPABILITY: limit})
    first = replace(granted, mutations={"x1": ROW})
    other = RUN._replace(id="r2", chain="r2")
    runs = {"r1": RUN._replace(open=0), "r2": other}
    second_row = ROW._replace(id="x2", run_id="r2", held_by="r2", key="second")
    begun = replace(first, runs=runs)
    second = replace(begun, mutations={"x1": ROW, "x2": second_row})
    allowed = consent()
    looked(allowed, granted, first)
    assert list(allowed.see_leave(CALL, first)) == []
    looked(allowed, first, begun, second)
    said = list(allowed.see_leave(replace(CALL, key="second"), second))
    assert said == (["mutation x2 left after 1 others, allowed are 1"] if is_told else [])


def test_revoke_that_does_not_hold_is_told() -> None:
    """A1: what a person was told is taken back is gone until a person grants it."""
    allowed = consent()
    allowed.is_taken_back = True
    assert looked(allowed, BARE) == ["sheet.append was taken back and is granted"]


def test_proposal_nobody_wants_is_told() -> None:
    """A3: a policy that does not ask makes no proposal."""
    assert looked(consent(is_asked=True), BARE, PROPOSED) == []
    said = looked(consent(), BARE, PROPOSED)
    assert said == ["run r1 waits for an approval that no policy wants"]


def test_approval_that_is_asked_for_again_is_told() -> None:
    """A4: a yes that was taken outlives everything."""
    allowed = consent(is_asked=True)
    allowed.agreed.add("x1")
    assert looked(allowed, PROPOSED) == ["mutation x1 was approved and waits for approval"]


def test_proposal_that_nobody_withdrew_must_not_go_away() -> None:
    """A4, R9: only an action of a person takes a proposal away."""
    gone = replace(PROPOSED, mutations={"x1": ROW._replace(status="failed")})
    said = looked(consent(is_asked=True), PROPOSED, gone)
    assert said == ["mutation x1 was withdrawn, and no person wanted that"]
    allowed = consent(is_asked=True)
    with allowed.withdrawal():
        assert looked(allowed, PROPOSED, gone) == []


def test_withdrawal_a_host_died_on_may_have_been_done() -> None:
    """R9: the next look may find it; the one after that must not."""
    gone = replace(PROPOSED, mutations={"x1": ROW._replace(status="failed")})
    allowed = consent(is_asked=True)
    looked(allowed, PROPOSED)
    with pytest.raises(KeyboardInterrupt), allowed.withdrawal():
        raise KeyboardInterrupt
    assert list(allowed.look(PROPOSED, gone)) == []
    assert list(allowed.look(PROPOSED, gone, life=1)) == []
    assert list(allowed.look(PROPOSED, gone, life=1)) != []


# -- What the oracle of the store adds ------------------------------------------------------------


def judged(*seen: Seen, effects: Counter[str] | None = None) -> list[str]:
    allowed = consent(is_asked=True)
    allowed.withdrawing = 1
    oracle = Oracle(effects or Counter(), allowed)
    for now in seen:
        oracle.look(now)
    return oracle.problems


def test_approved_call_that_is_dropped_is_told() -> None:
    """A4: a restart takes no yes away."""
    approved = replace(BARE, mutations={"x1": ROW._replace(sent_at=None, attempt=0)})
    unknown = ROW._replace(sent_at=None, attempt=0, status="needs_reconcile")
    said = judged(approved, replace(BARE, mutations={"x1": unknown}))
    assert said == ["mutation x1 was approved, not sent, and is needs_reconcile"]
    assert judged(approved, SENT) == []


def test_yes_taken_while_paused_is_told() -> None:
    """F7: a paused workflow takes no yes."""
    approved = replace(BARE, mutations={"x1": ROW._replace(sent_at=None, attempt=0)})
    said = judged(replace(PROPOSED, is_paused=True), replace(approved, is_paused=True))
    assert said == ["mutation x1 was approved while the workflow was paused"]


def test_proposal_without_a_run_that_waits_is_told() -> None:
    """A3: a proposal whose run went on, or ended, waits for nobody."""
    said = judged(replace(PROPOSED, runs={"r1": RUN}))
    assert said == ["mutation x1 is proposed, and its run is active"]


@pytest.mark.parametrize(
    ("status", "effects", "said"),
    [
        ("skipped", 0, []),
        ("consumed", 0, ["event m0 was rejected and is consumed"]),
        ("skipped", 1, ["event m0 was rejected, and a change was made"]),
    ],
)
def test_events_of_a_rejected_call_end_skipped(status: str, effects: int, said: list[str]) -> None:
    """A4: nothing was changed for them, and nothing says so."""
    ended = RUN._replace(open=0, status="committed", phase="committed", outcome="skipped")
    rejected = replace(
        BARE,
        runs={"r1": ended},
        mutations={"x1": ROW._replace(status="rejected", sent_at=None, attempt=0)},
        events={1: EventSeen(1, "mail", "m0", status, None, "r1", "user")},
        reservations={"r1": frozenset({1})},
    )
    assert judged(rejected, effects=Counter({"m0": effects})) == said


def test_two_calls_under_one_hash_are_told() -> None:
    """A4: who approves one of them must not have approved the other."""
    other = ROW._replace(id="x2", run_id="r2", held_by="r2", args='{"ids":["m1"]}', inputs="others")
    runs = {"r1": RUN._replace(open=0), "r2": RUN._replace(id="r2", chain="r2")}
    said = judged(replace(SENT, runs=runs, mutations={"x1": ROW, "x2": other}))
    assert "mutation x2 is shown under the hash of another call" in said


def test_removed_workflow_that_changes_is_told() -> None:
    """W10: history stays as it is."""
    removed = replace(BARE, runs={"r1": RUN._replace(open=0)}, is_removed=True)
    assert judged(removed, removed) == []
    said = judged(removed, replace(removed, runs={"r1": RUN._replace(open=0, escalated="now")}))
    assert said == ["a workflow that was removed has changed"]


def test_workflow_removed_under_an_open_run_is_told() -> None:
    """W10: a run is finished first."""
    said = judged(BARE, replace(BARE, is_removed=True))
    assert "a workflow was removed while a run was open" in said


# -- Allowances and amended calls -----------------------------------------------------------------

ALLOWED = AllowanceSeen("a1", "x0", "1.0", 1, NOW_MS + 1, 0)
UNDER = replace(BARE, mutations={"x1": ROW._replace(allowance_id="a1")}, allowances={"a1": ALLOWED})


def under(*seen: Seen, calls: int = 1) -> list[str]:
    """Show moments to an oracle whose person allowed so many calls with the yes to x0."""
    allowed = consent(is_asked=True)
    allowed.allowed["x0"].append(calls)
    return looked(allowed, *seen)


def test_call_under_an_allowance_may_leave() -> None:
    """A3: no further yes is needed."""
    allowed = consent(is_asked=True)
    allowed.allowed["x0"].append(1)
    assert looked(allowed, replace(BARE, allowances={"a1": ALLOWED}), UNDER) == []
    assert list(allowed.see_leave(CALL, UNDER)) == []


@pytest.mark.parametrize(
    ("allowance", "calls", "said"),
    [
        (ALLOWED._replace(is_revoked=1), 1, "that was revoked"),
        (ALLOWED._replace(version="0.9"), 1, "of another version"),
        (ALLOWED, 0, "1 calls were sent under a1"),
    ],
)
def test_call_under_an_allowance_that_does_not_hold_is_told(
    allowance: AllowanceSeen, calls: int, said: str
) -> None:
    """A3: revoked, of another version, or used more often than a person said."""
    now = replace(UNDER, allowances={"a1": allowance})
    (problem,) = under(replace(BARE, allowances=now.allowances), now, calls=calls)
    assert problem.endswith(said)


@pytest.mark.parametrize("is_clock_set", [False, True])
def test_call_that_asks_while_an_allowance_holds_is_told(is_clock_set: bool) -> None:
    """A3: it was counted twice, or overlooked; with a clock that was set it cannot be said."""
    allowed = consent(is_asked=True)
    allowed.is_clock_set = is_clock_set
    holding = {"a1": ALLOWED}
    before, now = (replace(each, allowances=holding) for each in (BARE, PROPOSED))
    said = looked(allowed, before, now)
    assert said == ([] if is_clock_set else ["mutation x1 asks, and an allowance covers it"])


def test_call_of_a_run_that_outlived_its_version_asks_and_is_not_sent_unasked() -> None:
    """A3: an allowance ends with its version, also for a run that began before the deploy."""
    holding = {"a1": ALLOWED}
    before, asking = (replace(each, allowances=holding, version="2.0") for each in (BARE, PROPOSED))
    assert looked(consent(is_asked=True), before, asking) == []
    (problem,) = under(before, replace(UNDER, version="2.0"), calls=1)
    assert problem.endswith("of another version")


def test_only_a_person_who_amends_changes_a_recorded_call() -> None:
    """A3: while it waits, and what the script asked for is kept."""
    before = ROW._replace(status="proposed", attempt=0, sent_at=None)
    amended = before._replace(args="{}", hash="other", args_proposed=before.args)
    allowed = consent()
    assert not allowed.is_amended(before, amended)
    with allowed.amendment():
        assert allowed.is_amended(before, amended)
        assert not allowed.is_amended(before, amended._replace(args_proposed=None))
        assert not allowed.is_amended(before, amended._replace(key="other"))
        assert not allowed.is_amended(before, amended._replace(status="in_flight"))
