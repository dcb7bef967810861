"""Every story of the bus with one crash: each place where a host can die, in every small situation.

Law: as in `exhaustive`: the places are counted, not listed; points with the same future are played
once; a point of a verb the bus writes with that is never reached is a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from duly.testing.crash import AFTER, BEFORE
from verification.bus.run import play
from verification.bus.scenario import BusStory, Deed, Habit, Listener, Wish
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
TAKEN: Final = (Wish.EMIT, Wish.DEFER, Wish.CANCEL, Wish.UNSUBSCRIBE, Wish.RETRY, Wish.DISCARD)
MUST_BE_REACHED: Final = frozenset(
    {
        *(f"{moment} {verb}" for moment in (BEFORE, BETWEEN, AFTER) for verb in BUS_VERBS),
        f"{BEFORE} {SYNC}",
        f"{BEFORE} {HANDLER}",
        f"{AFTER} {HANDLER}",
        *(f"{AFTER} {ANSWER} {wish}" for wish in TAKEN),
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


def cases() -> tuple[Case[BusStory], ...]:
    """Answer every situation: what handlers do, what is deferred, and what people do besides."""
    return (*_called(), *_deferred(), *_people(), *_crashed())


def _called() -> Iterator[Case[BusStory]]:
    yield Case("two listeners", BusStory(events=2, listeners=(Listener(), Listener())))
    yield Case("nobody", BusStory(events=1, listeners=()))
    yield Case("away", BusStory(events=2, listeners=(Listener(away=(0,)), Listener())))
    yield Case("workflow", BusStory(events=2, is_heard=True))
    hanging = Listener(habits=(Habit.HANG,))
    yield Case(
        "small turns",
        BusStory(topics=2, events=2, listeners=(hanging, Listener(1)), batch=1),
    )
    for habit in HABITS:
        yield Case(habit.value, BusStory(listeners=(Listener(habits=(habit,)), Listener())))
    patient = Listener(habits=(Habit.RAISE, Habit.RAISE))
    yield Case("retries", BusStory(events=2, listeners=(patient, Listener())))


def _deferred() -> Iterator[Case[BusStory]]:
    def case(name: str, *deeds: Deed) -> Case[BusStory]:
        return Case(name, BusStory(events=0, deeds=deeds))

    soon = Deed(0, Wish.DEFER, 0, 1_000)
    yield case("deferred", Deed(0, Wish.DEFER, 0, 3_000), soon, Deed(0, Wish.DEFER))
    yield case("cancelled", soon, Deed(500, Wish.CANCEL), Deed(600, Wish.CANCEL))
    yield case("cancelled too late", soon, Deed(2_000, Wish.CANCEL))
    yield case("cancelled meanwhile", soon, Deed(0, Wish.CANCEL, at=f"{BEFORE} promote_due"))
    yield case("clock forward", Deed(0, Wish.DEFER, 0, 60_000), Deed(500, Wish.CLOCK_FORWARD))
    # The machine is off until both are overdue.
    both = (Deed(0, Wish.DEFER, 0, 90_000), Deed(0, Wish.DEFER, 0, 60_000))
    off = PlannedCrash(2, at=f"{AFTER} {ANSWER} {Wish.DEFER}", down_s=200.0)
    yield Case("overdue in order", BusStory(events=0, deeds=both, crashes=(off,)))
    yield case("clock back", soon, Deed(500, Wish.CLOCK_BACK))


def _people() -> Iterator[Case[BusStory]]:
    dead = BusStory(events=2, listeners=(replace(ONCE, habits=(Habit.RAISE,)), Listener()))
    yield Case("retry", replace(dead, deeds=(Deed(1_000, Wish.RETRY),)))
    yield Case("discard", replace(dead, deeds=(Deed(1_000, Wish.DISCARD),)))
    for door in (f"{BEFORE} begin_delivery", f"{BEFORE} {HANDLER}"):
        yield Case("unsubscribe", BusStory(events=2, deeds=(Deed(0, Wish.UNSUBSCRIBE, at=door),)))
    stopped = BusStory(events=2, deeds=(Deed(0, Wish.STOP, at=f"{BEFORE} {HANDLER}"),))
    yield Case("stop", stopped)
    hanging = Listener(habits=(Habit.HANG,))
    both = BusStory(topics=2, events=2, listeners=(hanging, replace(hanging, topic=1)))
    yield Case("stop cut short", replace(both, deeds=(Deed(1_000, Wish.STOP),)))
    emits = tuple(Deed(2_000, Wish.EMIT) for _ in range(4))
    away = BusStory(events=0, listeners=(Listener(away=(1,)), Listener()), batch=1)
    deeds = (Deed(1_000, Wish.STOP), *emits, Deed(3_000, Wish.UNSUBSCRIBE))
    yield Case("unsubscribe in turns", replace(away, deeds=deeds))


def _crashed() -> Iterator[Case[BusStory]]:
    """Answer what a crash follows on: a handler that takes its host with it, and its recovery."""
    killing = PlannedCrash(1, at=f"{BEFORE} {HANDLER}")
    heard = BusStory(events=1, listeners=(ONCE,), is_heard=True)
    yield Case("crashed", replace(heard, crashes=(killing,)))
    yield Case("crashed twice", replace(heard, crashes=(killing, killing)))
    yield Case("crashed three times", replace(heard, crashes=(killing, killing, killing)))
    lingering = Listener(habits=(Habit.LINGER,))
    both = BusStory(topics=2, events=2, listeners=(lingering, replace(lingering, topic=1)))
    beside = PlannedCrash(2, at=f"{BEFORE} {HANDLER}")
    yield Case("crashed beside another", replace(both, crashes=(beside,)))
    yield Case("crashed alone after that", replace(both, crashes=(beside, killing)))
    overdue = BusStory(events=0, deeds=(Deed(0, Wish.DEFER),))
    yield Case("overdue", replace(overdue, crashes=(PlannedCrash(1, at=f"{BEFORE} promote_due"),)))


def unfold(case: Case[BusStory], *, is_thorough: bool = False) -> Base[BusStory]:
    """Play a situation and answer its stories with one crash more: every point, every death."""
    return unfold_by(case.story, play, lambda _: False, is_thorough=is_thorough)


def never_reached(points: Iterable[str]) -> tuple[str, ...]:
    """Answer the points that must be reached and were not."""
    return tuple(sorted(MUST_BE_REACHED - set(points)))
