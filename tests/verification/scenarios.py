"""Scenarios that once went wrong, each with what it taught; every test run runs them."""

from __future__ import annotations

from duly.rules.permission import Approval
from verification.workflow.outside import Outcome, Saying
from verification.workflow.scenario import Action, Death, Do, PlannedCrash, Scenario
from verification.workflow.shape import Shape, Tool
from verification.workflow.unkind import from_seed

REGRESSIONS = {
    "the outside itself broke its promise": Scenario(
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
        actions=(
            Action(17_695, Do.SKIP),
            Action(49_001, Do.ABANDON, 2),
            Action(73_710, Do.REPLACE, 4),
            Action(77_736, Do.SKIP_MUTATION, 2),
        ),
    ),
    "a person changed a call while the host was being closed, and heard nothing": Scenario(
        shape=Shape.FIFO,
        tool=Tool.BLIND,
        mails=5,
        crashes=(PlannedCrash(1, Death.CLOSE, at="before the question"),),
        actions=(
            Action(0, Do.REPUBLISH, 5),
            Action(0, Do.ALLOW, 1, at="after propose"),
            Action(0, Do.AMEND, 6, at="after propose"),
        ),
        dice=398_174_627,
        approval=Approval.ALWAYS,
    ),
    "the oracle looked at what a dead host still saw": Scenario(
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
        actions=(
            Action(67_514, Do.RETRY, 3),
            Action(78_395, Do.PUBLISH, 3),
            Action(96_775, Do.REPUBLISH, 4),
            Action(114_735, Do.PUBLISH, 3),
        ),
        dice=1_842_149_984,
    ),
    "the outside remembered a refusal of a call it had already made": Scenario(
        shape=Shape.BATCH,
        tool=Tool.ONCE,
        mails=3,
        outcomes=(Outcome.TIMEOUT_AFTER, Outcome.REFUSAL_LOST, Outcome.AMBIGUOUS_AFTER),
    ),
    "the oracle took the newest id for the newest run, and the clock had gone back": Scenario(
        mails=3,
        crashes=(PlannedCrash(1, at="after prepare_run"),),
        actions=(Action(0, Do.CLOCK_BACK, at="after take_turn"),),
    ),
    "the clock was set back twice while a run waited, and nobody looked again": Scenario(
        outcomes=(Outcome.NOT_SENT,),
        actions=(Action(740, Do.CLOCK_BACK), Action(4995, Do.CLOCK_BACK)),
    ),
    "the host died on a retry that was done, and the oracle took it for nobody's": Scenario(
        approval=Approval.ALWAYS,
        crashes=(PlannedCrash(3, at="before a sync of the log"),),
        actions=(Action(10_000, Do.RETRY), Action(40_000, Do.APPROVE)),
    ),
    "a grant and a revoke came at once, and it could not be said which was last": Scenario(
        mails=3,
        actions=(
            Action(0, Do.REVOKE, at="after take_turn"),
            Action(0, Do.GRANT, at="after take_turn"),
        ),
        dice=5,
    ),
    "a send that outlives its cancel waited for less than the clock shows, for ever": from_seed(
        655
    ),
    "a sum of floats let the outside deny a row for a hair too long": Scenario(
        outcomes=(Outcome.NOT_SENT, Outcome.LATE),
        sayings=(Saying.TRUTH, Saying.NOT_YET),
    ),
    "the clock was set back, and the oracle counted a send of a later day": from_seed(103_237),
    "a yes was written before the disk failed, and the oracle took it back": from_seed(21_233),
    "the disk was full, and no question could be counted": from_seed(20_209),
    "the clock was set back between a look and the plan made of it, by a year": Scenario(
        tool=Tool.ASKED,
        approval=Approval.ALWAYS,
        outcomes=(Outcome.TIMEOUT_BEFORE,),
        actions=(
            Action(0, Do.SET_CLOCK, 40462, at="before take_turn", times=3),
            Action(0, Do.SET_CLOCK, 58749, at="after record"),
            Action(0, Do.APPROVE_ALL, at="after propose"),
        ),
    ),
}
