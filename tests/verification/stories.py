"""Stories that once went wrong, each with what it taught; they are played in every test run."""

from __future__ import annotations

from duly.rules.permission import Approval
from verification.workflow.outside import Outcome, Saying
from verification.workflow.scenario import Act, Death, PlannedCrash, Story, Wish
from verification.workflow.shape import Shape, Tool
from verification.workflow.unkind import from_seed

REGRESSIONS = {
    "the outside itself broke its promise": Story(
        shape=Shape.BATCH,
        tool=Tool.ASKED,
        mails=5,
        crashes=(PlannedCrash(5), PlannedCrash(28), PlannedCrash(51, Death.POWER)),
        outcomes=(
            Outcome.OK,
            Outcome.AUTH,
            Outcome.OK,
            Outcome.RATE_LIMITED,
            Outcome.TIMEOUT_AFTER,
        ),
        sayings=(Saying.NOT_YET, Saying.NOT_YET),
        acts=(
            Act(17_695, Wish.SKIP),
            Act(49_001, Wish.ABANDON, 2),
            Act(73_710, Wish.REPLACE, 4),
            Act(77_736, Wish.SKIP_MUTATION, 2),
        ),
    ),
    "the oracle looked at what a dead host still saw": Story(
        shape=Shape.DECLINE,
        tool=Tool.BLIND,
        mails=5,
        crashes=(
            PlannedCrash(56, Death.POWER),
            PlannedCrash(54),
            PlannedCrash(49),
            PlannedCrash(37),
        ),
        outcomes=(
            Outcome.RATE_LIMITED,
            Outcome.AMBIGUOUS_BEFORE,
            Outcome.REFUSED,
            Outcome.RATE_LIMITED,
        ),
        sayings=(Saying.UNSURE, Saying.TRUTH),
        acts=(
            Act(67_514, Wish.RETRY, 3),
            Act(78_395, Wish.PUBLISH, 3),
            Act(96_775, Wish.REPUBLISH, 4),
            Act(114_735, Wish.PUBLISH, 3),
        ),
        dice=1_842_149_984,
    ),
    "the outside remembered a refusal of a call it had already made": Story(
        shape=Shape.BATCH,
        tool=Tool.ONCE,
        mails=3,
        outcomes=(Outcome.TIMEOUT_AFTER, Outcome.REFUSAL_LOST, Outcome.AMBIGUOUS_AFTER),
    ),
    "the oracle took the newest id for the newest run, and the clock had gone back": Story(
        mails=3,
        crashes=(PlannedCrash(1, at="after prepare_run"),),
        acts=(Act(0, Wish.CLOCK_BACK, at="after start_run"),),
    ),
    "the clock was set back twice while a run waited, and nobody looked again": Story(
        outcomes=(Outcome.NOT_SENT,),
        acts=(Act(740, Wish.CLOCK_BACK), Act(4995, Wish.CLOCK_BACK)),
    ),
    "the host died on a retry that was done, and the oracle took it for nobody's": Story(
        approval=Approval.ALWAYS,
        crashes=(PlannedCrash(3, at="before a sync of the log"),),
        acts=(Act(10_000, Wish.RETRY), Act(40_000, Wish.APPROVE)),
    ),
    "a grant and a revoke came at once, and nobody could say which was last": Story(
        mails=3,
        acts=(
            Act(0, Wish.REVOKE, at="after start_run"),
            Act(0, Wish.GRANT, at="after start_run"),
        ),
        dice=5,
    ),
    "a send that outlives its cancel waited for less than the clock shows, for ever": from_seed(
        655
    ),
    "a sum of floats let the outside deny a row for a hair too long": Story(
        outcomes=(Outcome.NOT_SENT, Outcome.LATE),
        sayings=(Saying.TRUTH, Saying.NOT_YET),
    ),
    "the clock was set back, and the oracle counted a send of a later day": from_seed(103_237),
    "a yes was written before the disk failed, and the oracle took it back": from_seed(21_233),
    "the disk was full, and no question could be counted": from_seed(20_209),
}
