"""A story: everything that is going to happen in one simulation, written down beforehand.

Law: the same story is played the same way, always. A story comes from a seed, or from counting
through every place where a host can die; it can be made smaller, and it can be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from duly.simulation.dice import Dice
from duly.simulation.outside import Outcome, Saying
from duly.simulation.shape import Shape, Tool

MAILS_MAX: Final = 6
CRASHES_MAX: Final = 4
GAP_MAX: Final = 60
ACTS_MAX: Final = 6
LENGTH_MS: Final = 120_000


class Death(StrEnum):
    """How a host dies: the process alone, or the machine with what was not synced."""

    KILL = "kill"
    POWER = "power cut"


@dataclass(frozen=True, slots=True)
class Crash:
    """The host dies at the so many-th point of its life, or when it comes by `at` so often."""

    gap: int
    death: Death = Death.KILL
    at: str = ""


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
class Story:
    """One schedule of time, interleaving, crashes, faults and people's acts."""

    shape: Shape = Shape.FIFO
    tool: Tool = Tool.ASKED
    mails: int = 1
    crashes: tuple[Crash, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    sayings: tuple[Saying, ...] = ()
    acts: tuple[Act, ...] = ()
    dice: int = 0  # the order in which those who can run do; 0 is the plain one


OUTCOMES: Final = (Outcome.OK, Outcome.OK, Outcome.OK, Outcome.OK, Outcome.LATE, *Outcome)
SAYINGS: Final = (Saying.TRUTH, Saying.TRUTH, *Saying)
SHAPES: Final = (Shape.FIFO, Shape.FIFO, Shape.BATCH, Shape.BATCH, *Shape)
# Whoever lies may get a change twice, or none; that is their right, and then nothing is checked.
WISHES: Final = (
    Wish.PUBLISH,
    Wish.PUBLISH,
    Wish.RESUME,
    Wish.RESUME,
    Wish.REPLACE,
    Wish.PAUSE,
    Wish.RETRY,
    Wish.RECONNECT,
    Wish.ANSWER,
    *Wish,
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
    (Wish.REPLACE, "after start_run"),
    (Wish.REPLACE, "after start_run"),
    (Wish.SKIP, "after start_run"),
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
    (Wish.SKIP, "after record"),
    (Wish.SKIP, "after record"),
    (Wish.ABANDON, "after record"),
    (Wish.RETRY, "after record"),
    (Wish.ANSWER, "after record"),
    (Wish.ANSWER, "after record"),
    (Wish.TRY_AGAIN, "after record"),
    (Wish.RESUME, "after set_wish"),
)


def from_seed(seed: int) -> Story:
    """Make up a story."""
    dice = Dice(seed)
    crashes = tuple(
        _crash(dice) for _ in range(dice.choose((0, 1, 2, 2, 3, 3, CRASHES_MAX, CRASHES_MAX)))
    )
    acts = sorted(
        (_act(dice) for _ in range(dice.randrange(ACTS_MAX + 1))), key=lambda act: act.at_ms
    )
    return Story(
        shape=dice.choose(SHAPES),
        tool=dice.choose(tuple(Tool)),
        mails=dice.choose((1, 2, 3, 3, 4, 5, MAILS_MAX)),
        crashes=crashes,
        outcomes=tuple(dice.choose(OUTCOMES) for _ in range(dice.randrange(8))),
        sayings=tuple(dice.choose(SAYINGS) for _ in range(dice.randrange(8))),
        acts=tuple(acts),
        dice=1 + dice.randrange(1 << 31) if dice.happens(0.7) else 0,
    )


def _crash(dice: Dice) -> Crash:
    death = dice.choose((Death.KILL, Death.KILL, Death.POWER))
    if dice.happens(0.5):
        return Crash(1 + dice.randrange(SORE_TIMES), death, dice.choose(SORE))
    return Crash(1 + dice.randrange(GAP_MAX), death)


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
