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
    """The host dies at the so many-th point of its life."""

    gap: int
    death: Death = Death.KILL


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
    ANSWER = "answer"
    SKIP_MUTATION = "answer skip"
    TRY_AGAIN = "answer try again"
    LIE = "answer falsely"


@dataclass(frozen=True, slots=True)
class Act:
    """Something a person does at a time."""

    at_ms: int
    wish: Wish
    which: int = 0


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


OUTCOMES: Final = (Outcome.OK, Outcome.OK, Outcome.OK, Outcome.OK, *Outcome)
SAYINGS: Final = (Saying.TRUTH, Saying.TRUTH, *Saying)
SHAPES: Final = (Shape.FIFO, Shape.FIFO, Shape.BATCH, Shape.BATCH, *Shape)
# Whoever lies may get a change twice, or none; that is their right, and then nothing is checked.
WISHES: Final = (
    Wish.PUBLISH,
    Wish.PUBLISH,
    Wish.RESUME,
    Wish.RESUME,
    Wish.RETRY,
    Wish.ANSWER,
    *Wish,
)


def from_seed(seed: int) -> Story:
    """Make up a story."""
    dice = Dice(seed)
    crashes = tuple(
        Crash(1 + dice.randrange(GAP_MAX), dice.choose((Death.KILL, Death.KILL, Death.POWER)))
        for _ in range(dice.choose((0, 1, 2, 2, 3, 3, CRASHES_MAX)))
    )
    acts = sorted(
        (
            Act(dice.randrange(LENGTH_MS), dice.choose(WISHES), dice.randrange(MAILS_MAX))
            for _ in range(dice.randrange(ACTS_MAX + 1))
        ),
        key=lambda act: act.at_ms,
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
