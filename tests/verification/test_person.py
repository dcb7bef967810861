"""What people do about calls that wait for them, one small scenario each."""

from __future__ import annotations

import re

import pytest

from duly.rules.permission import Approval
from verification.workflow.exhaustive import YES
from verification.workflow.outside import Outcome
from verification.workflow.run import run
from verification.workflow.scenario import Action, Death, Do, PlannedCrash, Scenario

ASKED = Scenario(approval=Approval.ALWAYS)
APPROVED = "after approve"


def asked(*actions: Action, crashes: tuple[PlannedCrash, ...] = (), mails: int = 1) -> Scenario:
    return Scenario(approval=Approval.ALWAYS, actions=actions, crashes=crashes, mails=mails)


def rows_at(scenario: Scenario) -> list[float]:
    """Run a scenario that must end well; answer when, in seconds, rows appeared in the sheet."""
    ending = run(scenario)
    assert ending.problems == ()
    found = (re.match(r"(\d+\.\d+) s: a row appears", line) for line in ending.trace)
    return [float(each[1]) for each in found if each]


def refusals(scenario: Scenario) -> list[str]:
    """Run a scenario that must end well; return what people were refused."""
    ending = run(scenario)
    assert ending.problems == ()
    marked = (line.partition("a person was refused: ")[2] for line in ending.trace)
    return [each for each in marked if each]


def test_call_waits_until_a_person_approves() -> None:
    """A3: nothing is sent before the yes, and then once."""
    assert rows_at(asked(Action(10_000, Do.APPROVE))) == [10.0]


@pytest.mark.parametrize("approval", [Approval.NEVER, Approval.ABOVE_MEDIUM])
def test_policy_that_does_not_ask_keeps_nobody_waiting(approval: Approval) -> None:
    """A3: a medium risk is not above medium."""
    assert rows_at(Scenario(approval=approval)) == [0.0]


def test_rejected_call_is_never_made() -> None:
    """A4: nothing is sent, whatever is approved later."""
    scenario = asked(Action(10_000, Do.REJECT), Action(20_000, Do.APPROVE_LATE))
    assert rows_at(scenario) == []
    assert len(refusals(scenario)) == 1


def test_two_clicks_at_once_make_one_change() -> None:
    """A4: of two answers one is taken."""
    assert rows_at(asked(Action(10_000, Do.APPROVE_TWICE))) == [10.0]


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (Do.APPROVE_UNSEEN, "is not what was shown"),
        (Do.PAUSE, "while the workflow is paused"),
        (Do.REVOKE, "which is not granted"),
    ],
)
def test_yes_that_does_not_fit_is_refused(do: Do, said: str) -> None:
    """A4, F7: another hash, a pause, a grant that was taken back."""
    (sentence,) = refusals(asked(Action(10_000, do), Action(20_000, Do.APPROVE)))[:1]
    assert said in sentence


@pytest.mark.parametrize("death", [Death.KILL, Death.POWER])
@pytest.mark.parametrize("at", ["after an answer to approve", "before send_approved"])
def test_yes_outlives_the_host(at: str, death: Death) -> None:
    """A4: what was approved and not begun is sent by the next host, and nobody is asked again."""
    ending = run(asked(YES, crashes=(PlannedCrash(1, death, at),)))
    assert ending.problems == ()
    assert ending.deaths == 1
    assert sum("a row appears" in line for line in ending.trace) == 1
    assert sum("did: approve" in line for line in ending.trace) == 1
    assert not any("asked about" in line for line in ending.trace)


def test_call_cut_off_after_its_send_time_is_asked_about() -> None:
    """A4, R7: a send time without an answer is unknown, approved or not."""
    ending = run(asked(YES, crashes=(PlannedCrash(1, at="after send_approved"),)))
    assert ending.problems == ()
    assert any("asked about" in line for line in ending.trace)


@pytest.mark.parametrize("do", [Do.REVOKE, Do.PAUSE])
def test_call_approved_and_not_sent_waits_for_leave_and_resume(do: Do) -> None:
    """A1, F7: what is taken back between the yes and the send holds."""
    back = Do.GRANT if do is Do.REVOKE else Do.RESUME
    assert rows_at(asked(YES, Action(0, do, at=APPROVED), Action(30_000, back))) == [30.0]


def test_grant_does_not_send_what_waits_for_a_yes() -> None:
    """F4: a row that waits for approval is sent by approve alone."""
    scenario = asked(
        Action(5_000, Do.GRANT), Action(6_000, Do.RECONNECT), Action(20_000, Do.APPROVE)
    )
    assert rows_at(scenario) == [20.0]


def test_missing_grant_keeps_a_call_from_being_made() -> None:
    """A1, A2: deployed without leave, it waits at its first call."""
    assert rows_at(Scenario(is_granted=False, actions=(Action(10_000, Do.GRANT),))) == [10.0]


def test_limit_of_a_day_is_kept() -> None:
    """A1: the second change waits until a person allows more."""
    actions = (Action(0, Do.LIMIT, at="after publish"), Action(30_000, Do.GRANT))
    assert rows_at(Scenario(mails=2, actions=actions)) == [0.0, 30.0]


@pytest.mark.parametrize("do", [Do.RETRY, Do.ABANDON])
def test_withdrawn_call_cannot_be_approved(do: Do) -> None:
    """R9: the next run proposes anew, and that one waits for its own yes."""
    late = Action(20_000, Do.APPROVE_LATE)
    scenario = asked(Action(10_000, do), late, Action(30_000, Do.APPROVE))
    assert rows_at(scenario) == [30.0]
    assert len(refusals(scenario)) == 1


def test_event_skipped_under_a_proposal_is_not_worked_on() -> None:
    """U3: the proposal is withdrawn with it."""
    assert rows_at(asked(Action(10_000, Do.SKIP), Action(20_000, Do.APPROVE))) == []


def test_new_versions_do_not_touch_a_proposal() -> None:
    """A4, W8: deployed and rolled back, the same call waits, and is sent."""
    actions = (Action(10_000, Do.DEPLOY), Action(20_000, Do.ROLL_BACK), Action(30_000, Do.APPROVE))
    assert rows_at(asked(*actions)) == [30.0]


def test_sign_in_lost_after_a_yes_needs_no_second_one() -> None:
    """F4: the approved call is sent when the connection is back."""
    actions = (YES, Action(30_000, Do.RECONNECT))
    scenario = Scenario(approval=Approval.ALWAYS, outcomes=(Outcome.AUTH,), actions=actions)
    assert rows_at(scenario) == [30.0]


def test_workflow_that_was_removed_rests() -> None:
    """W10: it takes no event, and its history does not change."""
    scenario = Scenario(actions=(Action(10_000, Do.REMOVE), Action(20_000, Do.PUBLISH)))
    assert rows_at(scenario) == [0.0]
    (said,) = refusals(scenario)
    assert said.startswith("publish (")


def test_workflow_with_an_open_run_is_not_removed() -> None:
    """W10: a proposal that waits is an open run."""
    (said,) = refusals(asked(Action(10_000, Do.REMOVE), Action(20_000, Do.APPROVE)))
    assert said.startswith("remove (")


def test_allowance_covers_the_next_calls_and_then_one_asks() -> None:
    """A3: the first is approved, two more are allowed with it, the fourth waits for a yes."""
    scenario = asked(Action(10_000, Do.ALLOW, 1), Action(50_000, Do.APPROVE), mails=4)
    assert rows_at(scenario) == [10.0, 10.0, 10.0, 50.0]


def test_revoked_allowance_covers_nothing() -> None:
    """A3: what comes after it asks."""
    scenario = asked(
        Action(10_000, Do.ALLOW, 2),
        Action(0, Do.REVOKE_ALLOWANCE, at="after commit_run"),
        Action(50_000, Do.APPROVE),
        mails=2,
    )
    assert rows_at(scenario) == [10.0, 50.0]


def test_amended_call_is_sent_as_the_person_wrote_it() -> None:
    """A3: a yes to what was shown before is refused, the next one is taken."""
    scenario = asked(Action(10_000, Do.AMEND), Action(20_000, Do.APPROVE))
    assert rows_at(scenario) == [20.0]


def test_all_at_once_takes_what_waits() -> None:
    """A3: what is over is refused by itself."""
    scenario = asked(Action(10_000, Do.APPROVE_ALL), Action(20_000, Do.APPROVE_ALL), mails=2)
    assert rows_at(scenario) == [10.0, 20.0]
