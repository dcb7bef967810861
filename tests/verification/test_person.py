"""What people do about calls that wait for them, one small story each."""

from __future__ import annotations

import re

import pytest

from duly.rules.permission import Approval
from verification.workflow.exhaustive import YES
from verification.workflow.outside import Outcome
from verification.workflow.run import play
from verification.workflow.scenario import Act, Death, PlannedCrash, Story, Wish

ASKED = Story(approval=Approval.ALWAYS)
APPROVED = "after approve"


def asked(*acts: Act, crashes: tuple[PlannedCrash, ...] = (), mails: int = 1) -> Story:
    return Story(approval=Approval.ALWAYS, acts=acts, crashes=crashes, mails=mails)


def rows_at(story: Story) -> list[float]:
    """Play a story that must end well; answer when, in seconds, rows appeared in the sheet."""
    ending = play(story)
    assert ending.problems == ()
    found = (re.match(r"(\d+\.\d+) s: a row appears", line) for line in ending.trace)
    return [float(each[1]) for each in found if each]


def refusals(story: Story) -> list[str]:
    """Play a story that must end well; answer what people were refused."""
    ending = play(story)
    assert ending.problems == ()
    marked = (line.partition("a person was refused: ")[2] for line in ending.trace)
    return [each for each in marked if each]


def test_call_waits_until_a_person_approves() -> None:
    """A3: nothing is sent before the yes, and then once."""
    assert rows_at(asked(Act(10_000, Wish.APPROVE))) == [10.0]


@pytest.mark.parametrize("approval", [Approval.NEVER, Approval.ABOVE_MEDIUM])
def test_policy_that_does_not_ask_keeps_nobody_waiting(approval: Approval) -> None:
    """A3: a medium risk is not above medium."""
    assert rows_at(Story(approval=approval)) == [0.0]


def test_rejected_call_is_never_made() -> None:
    """A4: nothing is sent, whatever is approved later."""
    story = asked(Act(10_000, Wish.REJECT), Act(20_000, Wish.APPROVE_LATE))
    assert rows_at(story) == []
    assert len(refusals(story)) == 1


def test_two_clicks_at_once_make_one_change() -> None:
    """A4: of two answers one is taken."""
    assert rows_at(asked(Act(10_000, Wish.APPROVE_TWICE))) == [10.0]


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (Wish.APPROVE_UNSEEN, "is not what was shown"),
        (Wish.PAUSE, "while the workflow is paused"),
        (Wish.REVOKE, "which is not granted"),
    ],
)
def test_yes_that_does_not_fit_is_refused(wish: Wish, said: str) -> None:
    """A4, F7: another hash, a pause, a grant that was taken back."""
    (sentence,) = refusals(asked(Act(10_000, wish), Act(20_000, Wish.APPROVE)))[:1]
    assert said in sentence


@pytest.mark.parametrize("death", [Death.KILL, Death.POWER])
@pytest.mark.parametrize("at", ["after an answer to approve", "before send_approved"])
def test_yes_outlives_the_host(at: str, death: Death) -> None:
    """A4: what was approved and not begun is sent by the next host, and nobody is asked again."""
    ending = play(asked(YES, crashes=(PlannedCrash(1, death, at),)))
    assert ending.problems == ()
    assert ending.deaths == 1
    assert sum("a row appears" in line for line in ending.trace) == 1
    assert sum("did: approve" in line for line in ending.trace) == 1
    assert not any("asked about" in line for line in ending.trace)


def test_call_cut_off_after_its_send_time_is_asked_about() -> None:
    """A4, R7: a send time without an answer is unknown, approved or not."""
    ending = play(asked(YES, crashes=(PlannedCrash(1, at="after send_approved"),)))
    assert ending.problems == ()
    assert any("asked about" in line for line in ending.trace)


@pytest.mark.parametrize("wish", [Wish.REVOKE, Wish.PAUSE])
def test_call_approved_and_not_sent_waits_for_leave_and_resume(wish: Wish) -> None:
    """A1, F7: what is taken back between the yes and the send holds."""
    back = Wish.GRANT if wish is Wish.REVOKE else Wish.RESUME
    assert rows_at(asked(YES, Act(0, wish, at=APPROVED), Act(30_000, back))) == [30.0]


def test_grant_does_not_send_what_waits_for_a_yes() -> None:
    """F4: a row that waits for approval is sent by approve alone."""
    story = asked(Act(5_000, Wish.GRANT), Act(6_000, Wish.RECONNECT), Act(20_000, Wish.APPROVE))
    assert rows_at(story) == [20.0]


def test_missing_grant_keeps_a_call_from_being_made() -> None:
    """A1, A2: deployed without leave, it waits at its first call."""
    assert rows_at(Story(is_granted=False, acts=(Act(10_000, Wish.GRANT),))) == [10.0]


def test_limit_of_a_day_is_kept() -> None:
    """A1: the second change waits until somebody allows more."""
    acts = (Act(0, Wish.LIMIT, at="after publish"), Act(30_000, Wish.GRANT))
    assert rows_at(Story(mails=2, acts=acts)) == [0.0, 30.0]


@pytest.mark.parametrize("wish", [Wish.RETRY, Wish.ABANDON])
def test_withdrawn_call_cannot_be_approved(wish: Wish) -> None:
    """R9: the next run proposes anew, and that one waits for its own yes."""
    late = Act(20_000, Wish.APPROVE_LATE)
    story = asked(Act(10_000, wish), late, Act(30_000, Wish.APPROVE))
    assert rows_at(story) == [30.0]
    assert len(refusals(story)) == 1


def test_event_skipped_under_a_proposal_is_not_worked_on() -> None:
    """U3: the proposal is withdrawn with it."""
    assert rows_at(asked(Act(10_000, Wish.SKIP), Act(20_000, Wish.APPROVE))) == []


def test_new_versions_do_not_touch_a_proposal() -> None:
    """A4, W8: deployed and rolled back, the same call waits, and is sent."""
    acts = (Act(10_000, Wish.DEPLOY), Act(20_000, Wish.ROLL_BACK), Act(30_000, Wish.APPROVE))
    assert rows_at(asked(*acts)) == [30.0]


def test_sign_in_lost_after_a_yes_needs_no_second_one() -> None:
    """F4: the approved call is sent when the connection is back."""
    acts = (YES, Act(30_000, Wish.RECONNECT))
    story = Story(approval=Approval.ALWAYS, outcomes=(Outcome.AUTH,), acts=acts)
    assert rows_at(story) == [30.0]


def test_workflow_that_was_removed_rests() -> None:
    """W10: it takes no event, and its history does not change."""
    story = Story(acts=(Act(10_000, Wish.REMOVE), Act(20_000, Wish.PUBLISH)))
    assert rows_at(story) == [0.0]
    (said,) = refusals(story)
    assert said.startswith("publish (")


def test_workflow_with_an_open_run_is_not_removed() -> None:
    """W10: a proposal that waits is an open run."""
    (said,) = refusals(asked(Act(10_000, Wish.REMOVE), Act(20_000, Wish.APPROVE)))
    assert said.startswith("remove (")


def test_allowance_covers_the_next_calls_and_then_one_asks() -> None:
    """A3: the first is approved, two more are allowed with it, the fourth waits for a yes."""
    story = asked(Act(10_000, Wish.ALLOW, 1), Act(50_000, Wish.APPROVE), mails=4)
    assert rows_at(story) == [10.0, 10.0, 10.0, 50.0]


def test_revoked_allowance_covers_nothing() -> None:
    """A3: what comes after it asks."""
    story = asked(
        Act(10_000, Wish.ALLOW, 2),
        Act(0, Wish.REVOKE_ALLOWANCE, at="after commit_run"),
        Act(50_000, Wish.APPROVE),
        mails=2,
    )
    assert rows_at(story) == [10.0, 50.0]


def test_amended_call_is_sent_as_the_person_wrote_it() -> None:
    """A3: a yes to what was shown before is refused, the next one is taken."""
    story = asked(Act(10_000, Wish.AMEND), Act(20_000, Wish.APPROVE))
    assert rows_at(story) == [20.0]


def test_all_at_once_takes_what_waits() -> None:
    """A3: what is over is refused by itself."""
    story = asked(Act(10_000, Wish.APPROVE_ALL), Act(20_000, Wish.APPROVE_ALL), mails=2)
    assert rows_at(story) == [10.0, 20.0]
