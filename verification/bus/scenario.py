"""A scenario of the bus: listeners, events, what people do, and where the host dies.

Law: the same scenario always runs the same way. What a handler does is written here, by how often
it was called before; the bus learns it only by calling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from duly.config import BusSettings
from duly.rules.delivery import Retry
from duly.testing.dice import Dice
from verification.workflow.scenario import GAP_MAX, Death, PlannedCrash

TOPICS: Final = ("alpha", "beta", "gamma", "delta")
HEARD: Final = TOPICS[0]  # the topic a workflow listens to, where one does
BATCH: Final = BusSettings().batch
LENGTH_MS: Final = 120_000
EVENTS_MAX: Final = 6
LISTENERS_MAX: Final = 4
ACTIONS_MAX: Final = 7
CRASHES_MAX: Final = 4
LIVES_AWAY_MAX: Final = 4


class Habit(StrEnum):
    """What a handler does when it is called."""

    RETURN = "returns"
    LINGER = "returns after three seconds"
    RAISE = "raises"
    REFUSE = "refuses for good"
    CANCEL_ITSELF = "raises CancelledError"
    EXIT = "raises SystemExit"
    INTERRUPT = "raises KeyboardInterrupt"
    HANG = "does not return"
    IGNORE = "does not return, also when it is told to"
    EMIT = "emits to the next topic"
    EMIT_HERE = "emits to its own topic"
    EMIT_AND_RAISE = "emits and raises"
    DEFER = "schedules after half a second"
    DEFER_LONGER = "schedules after two seconds"
    CANCEL = "cancels something"


@dataclass(frozen=True, slots=True)
class Listener:
    """A subscriber: its topic, its patience, and what it does the first times it is called."""

    topic: int = 0
    attempts: int = 3
    delays_s: tuple[float, ...] = (1, 5)
    habits: tuple[Habit, ...] = ()
    rest: Habit = Habit.RETURN  # what it does from then on
    away: tuple[int, ...] = ()  # the lives of the host in which it is not connected

    @property
    def retry(self) -> Retry:
        """How often it is tried, and after which waits."""
        return Retry(self.attempts, self.delays_s)


class BusDo(StrEnum):
    """What the program, or a person, does meanwhile."""

    EMIT = "emit"
    DEFER = "schedule"
    CANCEL = "cancel"
    RETRY = "retry a dead letter"
    DISCARD = "discard a dead letter"
    UNSUBSCRIBE = "unsubscribe"
    STOP = "stop and start again"
    CLOCK_FORWARD = "set the clock a day forward"
    CLOCK_BACK = "set the clock a day back"


@dataclass(frozen=True, slots=True)
class BusAction:
    """Something that is done at a time, or when the host comes by a place so many times.

    `which` is the topic that is spoken to, or which of those there are is meant.
    """

    at_ms: int
    do: BusDo
    which: int = 0
    delay_ms: int = 0
    at: str = ""
    times: int = 1


@dataclass(frozen=True, slots=True)
class BusScenario:
    """One schedule of time, interleaving, crashes, what handlers do and what people do."""

    topics: int = 1
    events: int = 1  # emitted at the beginning, to one topic after the other
    listeners: tuple[Listener, ...] = (Listener(),)
    actions: tuple[BusAction, ...] = ()
    crashes: tuple[PlannedCrash, ...] = ()
    is_heard: bool = False  # a workflow listens to the first topic
    batch: int = BATCH  # how many deliveries the bus begins in one turn, at most
    dice: int = 0  # the order in which those who can run do; 0 is the plain one

    def topic(self, number: int) -> str:
        """Name a topic of this scenario."""
        return TOPICS[number % self.topics]

    def name(self, number: int) -> str:
        """Name a subscriber of this scenario."""
        return f"listener{number}"


HABITS: Final = (
    *(Habit.RETURN,) * 4,
    *(Habit.RAISE,) * 4,
    *(Habit.EMIT, Habit.EMIT_HERE, Habit.DEFER, Habit.LINGER) * 2,
    *Habit,
)
RESTS: Final = (*(Habit.RETURN,) * 9, Habit.RAISE, Habit.RAISE, Habit.LINGER)
PATIENCES: Final = (
    (3, (1.0, 5.0)),
    (3, (1.0, 5.0)),
    (1, ()),
    (2, (0.0,)),
    (2, (60.0,)),
    (4, (2.0, 30.0, 60.0)),
)
ACTIONS: Final = (
    *(BusDo.EMIT, BusDo.DEFER, BusDo.CANCEL) * 4,
    *(BusDo.RETRY, BusDo.DISCARD, BusDo.STOP) * 2,
    *BusDo,
)
DELAYS_MS: Final = (0, 0, 300, 999, 1_000, 5_000, 20_000, 60_000, 1_800_000)
# The places where a death hurts most; half of all deaths come here.
SORE: Final = (
    "after emit",
    "after an answer to emit",
    "after an answer to emit",
    "after an answer to schedule",
    "after an answer to schedule",
    "after an answer to cancel",
    "before the handler",
    "before the handler",
    "after the handler",
    "after the handler",
    "before finish_delivery",
    "between the statements of finish_delivery",
    "after finish_delivery",
    "after begin_delivery",
    "after promote_due",
    "between the statements of promote_due",
    "between the statements of begin_delivery",
    "before recover_bus",
    "after recover_bus",
    "after cancel",
    "after subscribe",
    "after unsubscribe",
    "after close_left",
    "before give_back_running",
    "after give_back_running",
    "before a sync of the log",
)
SORE_TIMES: Final = 4
# Actions that are durable when the caller was told so.
TOLD: Final = (BusDo.DEFER, BusDo.CANCEL, BusDo.UNSUBSCRIBE, BusDo.RETRY, BusDo.DISCARD)
TOLD_SHARE: Final = 0.2
# The places where an action that comes in between could do harm.
DOORS: Final = (
    (BusDo.CANCEL, "before promote_due"),
    (BusDo.CANCEL, "between the statements of promote_due"),
    (BusDo.CANCEL, "after promote_due"),
    (BusDo.CANCEL, "after defer"),
    (BusDo.EMIT, "before begin_delivery"),
    (BusDo.EMIT, "after begin_delivery"),
    (BusDo.EMIT, "before the handler"),
    (BusDo.EMIT, "after finish_delivery"),
    (BusDo.DEFER, "after recover_bus"),
    (BusDo.UNSUBSCRIBE, "before begin_delivery"),
    (BusDo.UNSUBSCRIBE, "after begin_delivery"),
    (BusDo.UNSUBSCRIBE, "before the handler"),
    (BusDo.UNSUBSCRIBE, "after finish_delivery"),
    (BusDo.RETRY, "after finish_delivery"),
    (BusDo.RETRY, "after finish_delivery"),
    (BusDo.DISCARD, "after finish_delivery"),
    (BusDo.STOP, "before the handler"),
    (BusDo.STOP, "after begin_delivery"),
    (BusDo.STOP, "after finish_delivery"),
    (BusDo.STOP, "after promote_due"),
)


def from_seed(seed: int) -> BusScenario:
    """Make up a scenario."""
    dice = Dice(seed)
    topics = dice.choose((1, 1, 2, 2, 3, len(TOPICS)))
    actions = [_action(dice) for _ in range(dice.randrange(ACTIONS_MAX + 1))]
    scenario = BusScenario(
        topics=topics,
        events=dice.choose((1, 2, 3, 3, 4, EVENTS_MAX)),
        listeners=tuple(_listener(dice) for _ in range(1 + dice.randrange(LISTENERS_MAX))),
        actions=_in_order(actions),
        crashes=tuple(_crash(dice) for _ in range(dice.choose((0, 1, 1, 2, 2, 3, CRASHES_MAX)))),
        is_heard=dice.happens(0.4),
        dice=1 + dice.randrange(1 << 31) if dice.happens(0.7) else 0,
        batch=dice.choose((BATCH, BATCH, 1, 2)),
    )
    return _told(dice, scenario) if dice.happens(TOLD_SHARE) else scenario


def _told(dice: Dice, scenario: BusScenario) -> BusScenario:
    """Let the power fail right after a caller was told that something is done."""
    do = dice.choose(TOLD)
    actions = [BusAction(1, BusDo.DEFER, 0, 60_000), BusAction(2_000 + dice.randrange(5_000), do)]
    return replace(
        scenario,
        listeners=(Listener(attempts=1, delays_s=(), habits=(Habit.RAISE,)), *scenario.listeners),
        actions=_in_order([*scenario.actions, *actions]),
        crashes=(PlannedCrash(1, Death.POWER, f"after an answer to {do}"), *scenario.crashes),
    )


def _in_order(actions: list[BusAction]) -> tuple[BusAction, ...]:
    return tuple(sorted(actions, key=lambda action: action.at_ms))


def _listener(dice: Dice) -> Listener:
    attempts, delays_s = dice.choose(PATIENCES)
    away: tuple[int, ...] = ()
    if dice.happens(0.2):
        away = tuple(life for life in range(LIVES_AWAY_MAX) if dice.happens(0.5))
    return Listener(
        topic=dice.choose((0, 0, 0, dice.randrange(len(TOPICS)))),
        attempts=attempts,
        delays_s=delays_s,
        habits=tuple(dice.choose(HABITS) for _ in range(dice.randrange(6))),
        rest=dice.choose(RESTS),
        away=away,
    )


def _action(dice: Dice) -> BusAction:
    """Make up a action: at a door, while much happens, or at any time."""
    which, delay_ms = dice.randrange(6), dice.choose(DELAYS_MS)
    if dice.happens(0.35):
        do, door = dice.choose(DOORS)
        return BusAction(0, do, which, delay_ms, door, 1 + dice.randrange(SORE_TIMES))
    at_ms = dice.randrange(dice.choose((200, 2_000, 10_000, LENGTH_MS)))
    return BusAction(at_ms, dice.choose(ACTIONS), which, delay_ms)


def _crash(dice: Dice) -> PlannedCrash:
    death = dice.choose((Death.KILL, Death.POWER))
    if dice.happens(0.6):
        return PlannedCrash(1 + dice.randrange(SORE_TIMES), death, dice.choose(SORE))
    return PlannedCrash(1 + dice.randrange(GAP_MAX), death)
