"""What is being handled now, so that whatever is emitted meanwhile names its cause (B12).

Law 1  What a handler emits or schedules is caused by the event it handles, stands one step deeper
       and belongs to the same correlation, unless it names another.
Law 2  A task that a handler starts speaks for the same event, also after the handler has returned:
       otherwise a loop would only have to begin a task to be endless.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from duly.rules.delivery import Event, depth_after
from duly.store.record import JournalEvent


@dataclass(frozen=True, slots=True)
class Handled:
    """The event a handler was called with."""

    event_id: int
    correlation_id: str | None
    depth: int


_handled: ContextVar[Handled | None] = ContextVar("duly_handled", default=None)


def handle(event: Event, depth: int) -> None:
    """Say that the code that follows in this context handles an event."""
    _handled.set(Handled(event.id, event.correlation_id, depth))


def name_causation(event_id: int) -> str:
    """Name an event as the cause of another; a workflow knows it by the same name (T10)."""
    return f"bus:{event_id}"


def cause(topic: str, source: str, payload: str, correlation_id: str | None) -> JournalEvent:
    """Make an event that is caused by what is being handled, if anything is."""
    handled = _handled.get()
    if handled is None:
        return JournalEvent(topic, source, payload, correlation_id)
    return JournalEvent(
        topic,
        source,
        payload,
        handled.correlation_id if correlation_id is None else correlation_id,
        name_causation(handled.event_id),
        depth_after(handled.depth),
    )
