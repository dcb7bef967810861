"""What was said on the bus, who was called, and what people were told, as the scenario saw it.

Law: the bus cannot see this. Every emission carries a mark of its own in its payload, so what is
found in the journal can be traced to its emitter, however often and in whichever life.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from verification.bus.seen import Pair

# As the rules say them, and by themselves: what the bus takes them for is what is looked at.
HANDLER_TIMEOUT_S: Final = 300  # B3
RESETTING_DELAY_MS: Final = 1_000  # B12


@dataclass(slots=True)
class Emission:
    """Something that was put on the bus, or is to be: what it must look like there (B12)."""

    mark: int
    topic: str
    source: str
    correlation_id: str | None
    causation_id: str | None
    depth: int
    delay_ms: int | None = None  # none: it was emitted at once
    # When its delay is over at the earliest, by a clock that cannot be set, and in which boot of
    # the machine it was said: another boot knows only the wall clock.
    due_ms: int = 0
    boot: str | None = None
    answer: int | None = None  # the id its caller was told, when it was durable
    is_cancelled: bool = False  # a caller was told so
    cancels: int = 0  # how often a caller began to


class End(StrEnum):
    """How a call ended, as the handler itself knows it."""

    RETURNED = "returned"
    RAISED = "raised"
    REFUSED = "refused"  # it said: never again


@dataclass(slots=True)
class Call:
    """One call of a handler, in one life of the host; one that the host died on has no end."""

    life: int
    began_ms: int
    end: End | None = None
    ended_ms: int = 0

    @property
    def is_late(self) -> bool:
        """Tell whether it ended after its time was over."""
        return self.ended_ms - self.began_ms >= HANDLER_TIMEOUT_S * 1_000

    @property
    def has_succeeded(self) -> bool:
        """Tell whether it returned before its time was over."""
        return self.end is End.RETURNED and not self.is_late


@dataclass(slots=True)
class Record:
    """Everything a scenario knows by itself."""

    emissions: dict[int, Emission] = field(default_factory=dict)
    calls: dict[Pair, list[Call]] = field(default_factory=lambda: defaultdict(list))
    called: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by subscriber
    asked: set[tuple[str, Pair]] = field(default_factory=set)  # actions on dead letters that began
    # What a caller was told is done with a dead letter, in which life, after how many calls.
    decided: dict[Pair, tuple[str, int, int]] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)  # a caller began to unsubscribe them
    # Who was unsubscribed, and what was being delivered to it when the caller was told so.
    gone: dict[str, frozenset[int]] = field(default_factory=dict)

    def emit(
        self,
        topic: str,
        source: str,
        *,
        delay_ms: int | None = None,
        correlation_id: str | None = None,
        handled: tuple[int, Emission] | None = None,
    ) -> Emission:
        """Write down what is about to be said, and what caused it."""
        mark = len(self.emissions) + 1
        causation_id, depth = None, 0
        if handled is not None:
            event_id, cause = handled
            causation_id, depth = f"bus:{event_id}", cause.depth + 1
            correlation_id = correlation_id or cause.correlation_id
        if delay_ms is not None and delay_ms >= RESETTING_DELAY_MS:
            depth = 0
        made = Emission(mark, topic, source, correlation_id, causation_id, depth, delay_ms)
        self.emissions[mark] = made
        return made

    def deferred(self) -> list[Emission]:
        """What a caller was told will fire later, in the order in which it was said."""
        return [
            each
            for each in self.emissions.values()
            if each.delay_ms is not None and each.answer is not None
        ]
