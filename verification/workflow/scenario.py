"""A story: everything that is going to happen in one simulation, written down beforehand.

Law: the same story is played the same way, always. A story comes from a seed, or from counting
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
ACTS_MAX: Final = 6
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


class Wish(StrEnum):
    """What a person, or whoever publishes, does meanwhile."""

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
class Act:
    """Something a person does at a time, or when the host comes by a place so many times.

    Zero times is every time. Whoever comes in at a place means the oldest event, or the next.
    """

    at_ms: int
    wish: Wish
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
class Story:
    """One schedule of time, interleaving, crashes, faults and people's acts."""

    shape: Shape = Shape.FIFO
    tool: Tool = Tool.ASKED
    mails: int = 1
    crashes: tuple[PlannedCrash, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    sayings: tuple[Saying, ...] = ()
    acts: tuple[Act, ...] = ()
    dice: int = 0  # the order in which those who can run do; 0 is the plain one
    approval: Approval = Approval.NEVER
    is_granted: bool = True  # whoever deployed it gave it leave to use its tool
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
GENEROUS: Final = (Wish.ALLOW, Wish.AMEND, Wish.APPROVE_ALL, Wish.REVOKE_ALLOWANCE)
RARE: Final = (Wish.SET_CLOCK, *GENEROUS)  # only in stories of an unkind world
ANSWERS: Final = (  # what a person says who is asked to agree
    Wish.APPROVE,
    Wish.APPROVE_TWICE,
    Wish.APPROVE_UNSEEN,
    Wish.APPROVE_LATE,
    Wish.REJECT,
)
OUTCOMES: Final = (Outcome.OK, Outcome.OK, Outcome.OK, Outcome.OK, Outcome.LATE, *USUAL)
SAYINGS: Final = (Saying.TRUTH, Saying.TRUTH, *USUAL_SAYINGS)
SHAPES: Final = (
    *(Shape.FIFO, Shape.FIFO, Shape.BATCH, Shape.BATCH),
    *(each for each in Shape if each is not Shape.WAKE),
)
# What people do without being asked to agree. Whoever lies may get a change twice, or none; that
# is their right, and then nothing is checked.
WISHES: Final[tuple[Wish, ...]] = (
    Wish.PUBLISH,
    Wish.PUBLISH,
    Wish.RESUME,
    Wish.RESUME,
    Wish.REPLACE,
    Wish.PAUSE,
    Wish.RETRY,
    Wish.RECONNECT,
    Wish.ANSWER,
    *(wish for wish in Wish if wish not in (*ANSWERS, *RARE)),
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
    "after start_run",
    "before a sync of the log",
    "after publish",
    "after an answer to publish",
)
SORE_TIMES: Final = 4
# The places where somebody who comes in between could do harm.
DOORS: Final = (
    "after start_run",
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
    *((Wish.REPLACE, "after start_run"),) * 4,
    *((Wish.SKIP, "after start_run"),) * 2,
    (Wish.PAUSE, "after commit_run"),
    (Wish.PAUSE, "after start_run"),
    (Wish.PAUSE, "after prepare_run"),
    (Wish.PAUSE, "after send"),
    (Wish.PAUSE, "after record"),
    (Wish.ABANDON, "after prepare_run"),
    (Wish.ABANDON, "after start_run"),
    (Wish.ABANDON, "before the effect"),
    (Wish.SKIP, "after prepare_run"),
    (Wish.SKIP, "before the effect"),
    *((Wish.SKIP, "after record"),) * 3,
    (Wish.ABANDON, "after record"),
    (Wish.RETRY, "after record"),
    (Wish.ANSWER, "after record"),
    (Wish.ANSWER, "after record"),
    (Wish.TRY_AGAIN, "after record"),
    (Wish.RESUME, "after set_wish"),
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
# Who was told so must find it done, whatever the power takes.
ASKED_DONE: Final = (Wish.APPROVE, Wish.REJECT, Wish.REVOKE)
ASKED_SHARP: Final = (
    *((Wish.APPROVE, "after propose"),) * 4,
    *((Wish.APPROVE_TWICE, "after propose"),) * 2,
    *((Wish.REJECT, "after propose"),) * 8,
    (Wish.APPROVE_UNSEEN, "after propose"),
    *((wish, "after propose") for wish in (Wish.GRANT, Wish.RECONNECT, Wish.LIMIT, Wish.REVOKE)),
    *((wish, "after propose") for wish in (Wish.PAUSE, Wish.DEPLOY, Wish.ROLL_BACK)),
    *((wish, "after propose") for wish in (Wish.RETRY, Wish.ABANDON, Wish.SKIP)),
    *((Wish.REVOKE, "after approve"),) * 4,
    *((wish, "after approve") for wish in (Wish.PAUSE, Wish.PAUSE, Wish.LIMIT, Wish.GRANT)),
    *((wish, "after approve") for wish in (Wish.DEPLOY, Wish.ROLL_BACK, Wish.REJECT)),
    *((wish, "after approve") for wish in (Wish.RETRY, Wish.ABANDON, Wish.SKIP)),
    (Wish.PAUSE, "before send_approved"),
    (Wish.REVOKE, "before send_approved"),
    (Wish.REVOKE, "before approve"),
    *((Wish.APPROVE_LATE, f"after {verb}") for verb in ("reject", "retry_run", "abandon_run")),
    (Wish.APPROVE_LATE, "after commit_run"),
    *((Wish.APPROVE, f"after {verb}") for verb in ("deploy", "set_wish", "grant")),
    *((Wish.GRANT, f"after {verb}") for verb in ("revoke", "record", "stop_run")),
    *((wish, "after commit_run") for wish in (Wish.LIMIT, Wish.REVOKE)),
    (Wish.RECONNECT, "after record"),
)
ASKED_SHARE: Final = 0.45
POLICIES: Final = (
    *(Approval.ALWAYS,) * 3,
    *(Approval.ABOVE_LOW,) * 2,
    Approval.ABOVE_MEDIUM,
)
ANSWERS_MAX: Final = 5


def invent(seed: int) -> Story:
    """Make up a story of an ordinary bad day; `unkind` makes it worse."""
    dice = Dice(seed)
    crashes = tuple(
        _crash(dice) for _ in range(dice.choose((0, 1, 2, 2, 3, 3, CRASHES_MAX, CRASHES_MAX)))
    )
    acts = [_act(dice) for _ in range(dice.randrange(ACTS_MAX + 1))]
    story = Story(
        shape=dice.choose(SHAPES),
        tool=dice.choose((Tool.ASKED, Tool.BLIND, Tool.ONCE)),
        mails=dice.choose((1, 2, 3, 3, 4, 5, MAILS_MAX)),
        crashes=crashes,
        outcomes=tuple(dice.choose(OUTCOMES) for _ in range(dice.randrange(8))),
        sayings=tuple(dice.choose(SAYINGS) for _ in range(dice.randrange(8))),
        acts=in_order(acts),
        dice=1 + dice.randrange(1 << 31) if dice.happens(0.7) else 0,
        is_granted=dice.happens(0.9),
    )
    return _asked(dice, story) if dice.happens(ASKED_SHARE) else story


def _asked(dice: Dice, story: Story) -> Story:
    """Let a person be asked before every change, answer this and that, and the host die on it."""
    answers = [_answer(dice) for _ in range(1 + dice.randrange(ANSWERS_MAX))]
    crashes = [_sorer(dice, each) if dice.happens(0.4) else each for each in story.crashes]
    if dice.happens(0.25):
        wish = dice.choose(ASKED_DONE)
        answers.append(Act(0, wish, at="after propose", times=1 + dice.randrange(2)))
        crashes.insert(0, PlannedCrash(1, Death.POWER, f"after an answer to {wish}"))
    return replace(
        story,
        shape=story.shape if story.shape in CHANGING else Shape.FIFO,
        crashes=tuple(crashes),
        acts=in_order([*story.acts, *answers]),
        approval=dice.choose(POLICIES),
    )


def _sorer(dice: Dice, crash: PlannedCrash) -> PlannedCrash:
    return PlannedCrash(1 + dice.randrange(2), crash.death, dice.choose(ASKED_SORE))


def in_order(acts: list[Act]) -> tuple[Act, ...]:
    """Put acts in the order of their times."""
    return tuple(sorted(acts, key=lambda act: act.at_ms))


def _crash(dice: Dice) -> PlannedCrash:
    death = dice.choose((Death.KILL, Death.KILL, Death.POWER))
    if dice.happens(0.5):
        return PlannedCrash(1 + dice.randrange(SORE_TIMES), death, dice.choose(SORE))
    return PlannedCrash(1 + dice.randrange(GAP_MAX), death)


def _act(dice: Dice) -> Act:
    """Make up an act: at a door, while much happens, while somebody waits, or at any time."""
    wish, which = dice.choose(WISHES), dice.randrange(MAILS_MAX)
    if dice.happens(0.4):
        wish, door = dice.choose(SHARP)
        times = 0 if wish is Wish.ANSWER else 1 + dice.randrange(SORE_TIMES)
        return Act(0, wish, dice.choose((0, 0, 1)), door, times)
    if dice.happens(0.3):
        return Act(0, wish, which, dice.choose(DOORS), 1 + dice.randrange(SORE_TIMES))
    return Act(dice.randrange(dice.choose((200, 2_000, 30_000, LENGTH_MS))), wish, which)


def _answer(dice: Dice) -> Act:
    """Make up what a person does about a call that waits for a yes, or at any time."""
    if dice.happens(0.8):
        wish, door = dice.choose(ASKED_SHARP)
        is_always = wish is Wish.APPROVE and dice.happens(0.5)
        times = 0 if is_always else 1 + dice.randrange(2)
        return Act(0, wish, dice.choose((0, 0, 1)), door, times)
    at_ms = dice.randrange(dice.choose((200, 2_000, 30_000, LENGTH_MS)))
    return Act(at_ms, dice.choose(ANSWERS), dice.randrange(MAILS_MAX))
