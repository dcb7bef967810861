"""Every scenario of the bus with one crash: each point where a host can die, in small situations.

Law: as in `exhaustive`: the places are counted, not listed; points with the same future are run
once; a point of a verb the bus writes with that is never reached is a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from duly.testing.crash import AFTER, BEFORE
from verification.bus.run import run
from verification.bus.scenario import BusAction, BusDo, BusScenario, Habit, Listener
from verification.point import ANSWER, BETWEEN, HANDLER, SYNC
from verification.workflow.exhaustive import Base, Case, unfold_by
from verification.workflow.scenario import PlannedCrash

BUS_VERBS: Final = (
    "emit",
    "defer",
    "cancel",
    "promote_due",
    "subscribe",
    "unsubscribe",
    "close_left",
    "recover_bus",
    "begin_delivery",
    "finish_delivery",
    "give_back_running",
    "discard",
    "retry_delivery",
)
TAKEN: Final = (
    BusDo.EMIT,
    BusDo.DEFER,
    BusDo.CANCEL,
    BusDo.UNSUBSCRIBE,
    BusDo.RETRY,
    BusDo.DISCARD,
)
MUST_BE_REACHED: Final = frozenset(
    {
        *(f"{moment} {verb}" for moment in (BEFORE, BETWEEN, AFTER) for verb in BUS_VERBS),
        f"{BEFORE} {SYNC}",
        f"{BEFORE} {HANDLER}",
        f"{AFTER} {HANDLER}",
        *(f"{AFTER} {ANSWER} {do}" for do in TAKEN),
    }
)
# What handlers do that differs by what the next host finds; all else is left to chance.
HABITS: Final = (
    Habit.RAISE,
    Habit.REFUSE,
    Habit.HANG,
    Habit.IGNORE,
    Habit.EMIT_AND_RAISE,
    Habit.DEFER,
)
ONCE: Final = Listener(attempts=1, delays_s=())


def cases() -> tuple[Case[BusScenario], ...]:
    """Return every situation: what handlers do, what is deferred, and what people do besides."""
    return (*_called(), *_deferred(), *_people(), *_crashed())


def _called() -> Iterator[Case[BusScenario]]:
    yield Case("two listeners", BusScenario(events=2, listeners=(Listener(), Listener())))
    yield Case("no listener", BusScenario(events=1, listeners=()))
    yield Case("away", BusScenario(events=2, listeners=(Listener(away=(0,)), Listener())))
    yield Case("workflow", BusScenario(events=2, is_heard=True))
    hanging = Listener(habits=(Habit.HANG,))
    yield Case(
        "small turns",
        BusScenario(topics=2, events=2, listeners=(hanging, Listener(1)), batch=1),
    )
    for habit in HABITS:
        yield Case(habit.value, BusScenario(listeners=(Listener(habits=(habit,)), Listener())))
    patient = Listener(habits=(Habit.RAISE, Habit.RAISE))
    yield Case("retries", BusScenario(events=2, listeners=(patient, Listener())))


def _deferred() -> Iterator[Case[BusScenario]]:
    def case(name: str, *actions: BusAction) -> Case[BusScenario]:
        return Case(name, BusScenario(events=0, actions=actions))

    soon = BusAction(0, BusDo.DEFER, 0, 1_000)
    yield case("deferred", BusAction(0, BusDo.DEFER, 0, 3_000), soon, BusAction(0, BusDo.DEFER))
    yield case("cancelled", soon, BusAction(500, BusDo.CANCEL), BusAction(600, BusDo.CANCEL))
    yield case("cancelled too late", soon, BusAction(2_000, BusDo.CANCEL))
    yield case("cancelled meanwhile", soon, BusAction(0, BusDo.CANCEL, at=f"{BEFORE} promote_due"))
    yield case(
        "clock forward", BusAction(0, BusDo.DEFER, 0, 60_000), BusAction(500, BusDo.CLOCK_FORWARD)
    )
    # The machine is off until both are overdue.
    both = (BusAction(0, BusDo.DEFER, 0, 90_000), BusAction(0, BusDo.DEFER, 0, 60_000))
    off = PlannedCrash(2, at=f"{AFTER} {ANSWER} {BusDo.DEFER}", down_s=200.0)
    yield Case("overdue in order", BusScenario(events=0, actions=both, crashes=(off,)))
    yield case("clock back", soon, BusAction(500, BusDo.CLOCK_BACK))


def _people() -> Iterator[Case[BusScenario]]:
    dead = BusScenario(events=2, listeners=(replace(ONCE, habits=(Habit.RAISE,)), Listener()))
    yield Case("retry", replace(dead, actions=(BusAction(1_000, BusDo.RETRY),)))
    yield Case("discard", replace(dead, actions=(BusAction(1_000, BusDo.DISCARD),)))
    for door in (f"{BEFORE} begin_delivery", f"{BEFORE} {HANDLER}"):
        yield Case(
            "unsubscribe",
            BusScenario(events=2, actions=(BusAction(0, BusDo.UNSUBSCRIBE, at=door),)),
        )
    stopped = BusScenario(events=2, actions=(BusAction(0, BusDo.STOP, at=f"{BEFORE} {HANDLER}"),))
    yield Case("stop", stopped)
    hanging = Listener(habits=(Habit.HANG,))
    both = BusScenario(topics=2, events=2, listeners=(hanging, replace(hanging, topic=1)))
    yield Case("stop cut short", replace(both, actions=(BusAction(1_000, BusDo.STOP),)))
    emits = tuple(BusAction(2_000, BusDo.EMIT) for _ in range(4))
    away = BusScenario(events=0, listeners=(Listener(away=(1,)), Listener()), batch=1)
    actions = (BusAction(1_000, BusDo.STOP), *emits, BusAction(3_000, BusDo.UNSUBSCRIBE))
    yield Case("unsubscribe in turns", replace(away, actions=actions))


def _crashed() -> Iterator[Case[BusScenario]]:
    """Return what a crash follows on: a handler that takes its host with it, and its recovery."""
    killing = PlannedCrash(1, at=f"{BEFORE} {HANDLER}")
    heard = BusScenario(events=1, listeners=(ONCE,), is_heard=True)
    yield Case("crashed", replace(heard, crashes=(killing,)))
    yield Case("crashed twice", replace(heard, crashes=(killing, killing)))
    yield Case("crashed three times", replace(heard, crashes=(killing, killing, killing)))
    lingering = Listener(habits=(Habit.LINGER,))
    both = BusScenario(topics=2, events=2, listeners=(lingering, replace(lingering, topic=1)))
    beside = PlannedCrash(2, at=f"{BEFORE} {HANDLER}")
    yield Case("crashed beside another", replace(both, crashes=(beside,)))
    yield Case("crashed alone after that", replace(both, crashes=(beside, killing)))
    overdue = BusScenario(events=0, actions=(BusAction(0, BusDo.DEFER),))
    yield Case("overdue", replace(overdue, crashes=(PlannedCrash(1, at=f"{BEFORE} promote_due"),)))


def unfold(case: Case[BusScenario], *, is_thorough: bool = False) -> Base[BusScenario]:
    """Run a situation and return its scenarios with one crash more: every point, every death."""
    return unfold_by(case.scenario, run, lambda _: False, is_thorough=is_thorough)


def never_reached(points: Iterable[str]) -> tuple[str, ...]:
    """Return the points that must be reached and were not."""
    return tuple(sorted(MUST_BE_REACHED - set(points)))
