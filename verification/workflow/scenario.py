"""A scenario: everything that is going to happen in one simulation, written down beforehand.

Law: the same scenario always runs the same way. It comes from a seed, or from counting
through every place where a host can die; it can be made smaller, and it can be read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from duly.rules.permission import Approval
from duly.testing.dice import Dice
from verification.disk import Kind, Operation
from verification.workflow.outside import USUAL, USUAL_SAYINGS, Outcome, Saying
from verification.workflow.shape import CHANGING, Shape, Tool

MAILS_MAX: Final = 6
CRASHES_MAX: Final = 4
GAP_MAX: Final = 60
ACTIONS_MAX: Final = 6
LENGTH_MS: Final = 120_000


class Death(StrEnum):
    """How a life ends: the process alone, the machine with what was not synced, or in order.

    After an orderly close the process goes on: what the host has left behind goes on beside the
    next one.
    """

    KILL = "kill"
    POWER = "power cut"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class PlannedCrash:
    """The host dies at the so many-th point of its life, or when it comes by `at` so often.

    The next one starts after `down_s`.
    """

    gap: int
    death: Death = Death.KILL
    at: str = ""
    down_s: float = 0.0

    @property
    def is_reboot(self) -> bool:
        """Tell whether the machine starts again, too."""
        return self.death is Death.POWER or self.down_s > 0


class Do(StrEnum):
    """What a person, or a publisher, does meanwhile."""

    PUBLISH = "publish"
    REPUBLISH = "publish the same again"
    REPLACE = "publish other content"
    PAUSE = "pause"
    RESUME = "resume"
    SKIP = "skip an event"
    RETRY = "retry"
    ABANDON = "abandon"
    DEPLOY = "deploy"
    RUN_NOW = "run now"
    RECONNECT = "reconnect"
    CLOCK_FORWARD = "set the clock a day forward"
    CLOCK_BACK = "set the clock a day back"
    ANSWER = "answer"
    SKIP_MUTATION = "answer skip"
    TRY_AGAIN = "answer try again"
    LIE = "answer falsely"
    APPROVE = "approve"
    APPROVE_TWICE = "approve twice at once"
    APPROVE_UNSEEN = "approve with another hash"
    APPROVE_LATE = "approve what waits no more"
    REJECT = "reject"
    GRANT = "grant"
    LIMIT = "grant once a day"
    REVOKE = "revoke"
    ROLL_BACK = "roll back"
    REMOVE = "remove"
    SET_CLOCK = "set the clock"
    ALLOW = "allow the next calls"
    AMEND = "amend"
    APPROVE_ALL = "approve all at once"
    REVOKE_ALLOWANCE = "revoke an allowance"


@dataclass(frozen=True, slots=True)
class Action:
    """Something a person does at a time, or when the host comes by a place so many times.

    Zero times is every time. An action at a place is about the oldest event, or the next.
    """

    at_ms: int
    do: Do
    which: int = 0
    at: str = ""
    times: int = 1


@dataclass(frozen=True, slots=True)
class DiskFault:
    """The disk fails when the host comes by a place so often: after `wait` operations, for a while.

    It lasts until it was met once, or for so many seconds.
    """

    at: str
    times: int = 1
    operation: Operation = Operation.WRITE
    kind: Kind = Kind.FULL
    wait: int = 0
    lasts_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One schedule of time, interleaving, crashes, faults and people's actions."""

    shape: Shape = Shape.FIFO
    tool: Tool = Tool.ASKED
    mails: int = 1
    crashes: tuple[PlannedCrash, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    sayings: tuple[Saying, ...] = ()
    actions: tuple[Action, ...] = ()
    dice: int = 0  # the order in which those who can run do; 0 is the plain one
    approval: Approval = Approval.NEVER
    is_granted: bool = True  # the person who deployed it granted it its tool
    faults: tuple[DiskFault, ...] = ()

    @property
    def is_clock_believed(self) -> bool:
        """Tell whether a key's age may be told by the wall clock: it is off by less than a day."""
        is_repeated = self.tool in (Tool.ONCE, Tool.BRIEF)
        return is_repeated and any(crash.is_reboot for crash in self.crashes)

    @property
    def is_asked(self) -> bool:
        """Tell whether a person must agree to every change: the sheet's are of medium risk."""
        return self.approval in (Approval.ALWAYS, Approval.ABOVE_LOW)


# What a person says about a call that waits, besides a plain yes or no (A3).
GENEROUS: Final = (Do.ALLOW, Do.AMEND, Do.APPROVE_ALL, Do.REVOKE_ALLOWANCE)
RARE: Final = (Do.SET_CLOCK, *GENEROUS)  # only in scenarios of an unkind world
ANSWERS: Final = (  # what a person says who is asked to agree
    Do.APPROVE,
    Do.APPROVE_TWICE,
    Do.APPROVE_UNSEEN,
    Do.APPROVE_LATE,
    Do.REJECT,
)
OUTCOMES: Final = (Outcome.OK, Outcome.OK, Outcome.OK, Outcome.OK, Outcome.LATE, *USUAL)
SAYINGS: Final = (Saying.TRUTH, Saying.TRUTH, *USUAL_SAYINGS)
SHAPES: Final = (
    *(Shape.FIFO, Shape.FIFO, Shape.BATCH, Shape.BATCH),
    *(each for each in Shape if each is not Shape.WAKE),
)
# What people do without being asked to agree. A person who lies may get a change twice, or none;
# that is their right, and then nothing is checked.
ACTIONS: Final[tuple[Do, ...]] = (
    Do.PUBLISH,
    Do.PUBLISH,
    Do.RESUME,
    Do.RESUME,
    Do.REPLACE,
    Do.PAUSE,
    Do.RETRY,
    Do.RECONNECT,
    Do.ANSWER,
    *(do for do in Do if do not in (*ANSWERS, *RARE)),
)
# The places where a death hurts most; half of all deaths come here.
SORE: Final = (
    "after send",
    "before the effect",
    "after the effect",
    "before record",
    "after record",
    "before commit_run",
    "after commit_run",
    "after prepare_run",
    "after take_turn",
    "before a sync of the log",
    "after publish",
    "after an answer to publish",
)
SORE_TIMES: Final = 4
# The places where an action that comes in between could do harm.
DOORS: Final = (
    "after take_turn",
    "before prepare_run",
    "after prepare_run",
    "before send",
    "after send",
    "before the effect",
    "after the effect",
    "after record",
    "after commit_run",
    "after succeed_run",
    "before the question",
)
# Who at which door has the best chance to do harm.
SHARP: Final = (
    *((Do.REPLACE, "after take_turn"),) * 4,
    *((Do.SKIP, "after take_turn"),) * 2,
    (Do.PAUSE, "after commit_run"),
    (Do.PAUSE, "after take_turn"),
    (Do.PAUSE, "after prepare_run"),
    (Do.PAUSE, "after send"),
    (Do.PAUSE, "after record"),
    (Do.ABANDON, "after prepare_run"),
    (Do.ABANDON, "after take_turn"),
    (Do.ABANDON, "before the effect"),
    (Do.SKIP, "after prepare_run"),
    (Do.SKIP, "before the effect"),
    *((Do.SKIP, "after record"),) * 6,
    (Do.ABANDON, "after record"),
    (Do.RETRY, "after record"),
    (Do.ANSWER, "after record"),
    (Do.ANSWER, "after record"),
    (Do.TRY_AGAIN, "after record"),
    (Do.RESUME, "after set_paused"),
)


# The same, where a person is asked: who comes in while a call waits for a yes, or has one.
ASKED_SORE: Final = (
    "after propose",
    "before approve",
    "between the statements of approve",
    "after approve",
    "after approve",
    "before send_approved",
    "between the statements of send_approved",
    "after send_approved",
    "after reject",
)
# A person who was told so must find it done, also after a power cut.
ASKED_DONE: Final = (Do.APPROVE, Do.REJECT, Do.REVOKE)
ASKED_SHARP: Final = (
    *((Do.APPROVE, "after propose"),) * 4,
    *((Do.APPROVE_TWICE, "after propose"),) * 2,
    *((Do.REJECT, "after propose"),) * 8,
    (Do.APPROVE_UNSEEN, "after propose"),
    *((do, "after propose") for do in (Do.GRANT, Do.RECONNECT, Do.LIMIT, Do.REVOKE)),
    *((do, "after propose") for do in (Do.PAUSE, Do.DEPLOY, Do.ROLL_BACK)),
    *((do, "after propose") for do in (Do.RETRY, Do.ABANDON, Do.SKIP)),
    *((Do.REVOKE, "after approve"),) * 4,
    *((do, "after approve") for do in (Do.PAUSE, Do.PAUSE, Do.LIMIT, Do.GRANT)),
    *((do, "after approve") for do in (Do.DEPLOY, Do.ROLL_BACK, Do.REJECT)),
    *((do, "after approve") for do in (Do.RETRY, Do.ABANDON, Do.SKIP)),
    (Do.PAUSE, "before send_approved"),
    (Do.REVOKE, "before send_approved"),
    (Do.REVOKE, "before approve"),
    *((Do.APPROVE_LATE, f"after {verb}") for verb in ("reject", "retry_run", "abandon_run")),
    (Do.APPROVE_LATE, "after commit_run"),
    *((Do.APPROVE, f"after {verb}") for verb in ("deploy", "set_paused", "grant")),
    *((Do.GRANT, f"after {verb}") for verb in ("revoke", "record", "stop_run")),
    *((do, "after commit_run") for do in (Do.LIMIT, Do.REVOKE)),
    (Do.RECONNECT, "after record"),
)
ASKED_SHARE: Final = 0.45
POLICIES: Final = (
    *(Approval.ALWAYS,) * 3,
    *(Approval.ABOVE_LOW,) * 2,
    Approval.ABOVE_MEDIUM,
)
ANSWERS_MAX: Final = 5


def invent(seed: int) -> Scenario:
    """Make up a scenario of an ordinary bad day; `unkind` makes it worse."""
    dice = Dice(seed)
    crashes = tuple(
        _crash(dice) for _ in range(dice.choose((0, 1, 2, 2, 3, 3, CRASHES_MAX, CRASHES_MAX)))
    )
    actions = [_action(dice) for _ in range(dice.randrange(ACTIONS_MAX + 1))]
    scenario = Scenario(
        shape=dice.choose(SHAPES),
        tool=dice.choose((Tool.ASKED, Tool.BLIND, Tool.ONCE)),
        mails=dice.choose((1, 2, 3, 3, 4, 5, MAILS_MAX)),
        crashes=crashes,
        outcomes=tuple(dice.choose(OUTCOMES) for _ in range(dice.randrange(8))),
        sayings=tuple(dice.choose(SAYINGS) for _ in range(dice.randrange(8))),
        actions=in_order(actions),
        dice=1 + dice.randrange(1 << 31) if dice.happens(0.7) else 0,
        is_granted=dice.happens(0.9),
    )
    return _asked(dice, scenario) if dice.happens(ASKED_SHARE) else scenario


def _asked(dice: Dice, scenario: Scenario) -> Scenario:
    """Let a person be asked before every change, answer this and that, and the host die on it."""
    answers = [_answer(dice) for _ in range(1 + dice.randrange(ANSWERS_MAX))]
    crashes = [_sorer(dice, each) if dice.happens(0.4) else each for each in scenario.crashes]
    if dice.happens(0.25):
        do = dice.choose(ASKED_DONE)
        answers.append(Action(0, do, at="after propose", times=1 + dice.randrange(2)))
        crashes.insert(0, PlannedCrash(1, Death.POWER, f"after an answer to {do}"))
    return replace(
        scenario,
        shape=scenario.shape if scenario.shape in CHANGING else Shape.FIFO,
        crashes=tuple(crashes),
        actions=in_order([*scenario.actions, *answers]),
        approval=dice.choose(POLICIES),
    )


def _sorer(dice: Dice, crash: PlannedCrash) -> PlannedCrash:
    return PlannedCrash(1 + dice.randrange(2), crash.death, dice.choose(ASKED_SORE))


def in_order(actions: list[Action]) -> tuple[Action, ...]:
    """Put actions in the order of their times."""
    return tuple(sorted(actions, key=lambda action: action.at_ms))


def _crash(dice: Dice) -> PlannedCrash:
    death = dice.choose((Death.KILL, Death.KILL, Death.POWER))
    if dice.happens(0.5):
        return PlannedCrash(1 + dice.randrange(SORE_TIMES), death, dice.choose(SORE))
    return PlannedCrash(1 + dice.randrange(GAP_MAX), death)


def _action(dice: Dice) -> Action:
    """Make up an action: at a door, while much happens, while a person is asked, or at any time."""
    do, which = dice.choose(ACTIONS), dice.randrange(MAILS_MAX)
    if dice.happens(0.4):
        do, door = dice.choose(SHARP)
        times = 0 if do is Do.ANSWER else 1 + dice.randrange(SORE_TIMES)
        return Action(0, do, dice.choose((0, 0, 1)), door, times)
    if dice.happens(0.3):
        return Action(0, do, which, dice.choose(DOORS), 1 + dice.randrange(SORE_TIMES))
    return Action(dice.randrange(dice.choose((200, 2_000, 30_000, LENGTH_MS))), do, which)


def _answer(dice: Dice) -> Action:
    """Make up what a person does about a call that waits for a yes, or at any time."""
    if dice.happens(0.8):
        do, door = dice.choose(ASKED_SHARP)
        is_always = do is Do.APPROVE and dice.happens(0.5)
        times = 0 if is_always else 1 + dice.randrange(2)
        return Action(0, do, dice.choose((0, 0, 1)), door, times)
    at_ms = dice.randrange(dice.choose((200, 2_000, 30_000, LENGTH_MS)))
    return Action(at_ms, dice.choose(ANSWERS), dice.randrange(MAILS_MAX))
