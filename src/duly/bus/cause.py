"""What is being handled now, so that whatever is emitted meanwhile names its cause (B12).

Law 1  What a handler emits or schedules is caused by the event it handles, stands one step deeper
       and belongs to the same correlation, unless it names another. What it publishes into a
       workflow goes on that chain too, under a mark that no caller can set.
Law 2  A task that a handler starts speaks for the same event, also after the handler has returned:
       otherwise a loop would only have to begin a task to be endless.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, replace

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


def handled_event() -> int | None:
    """Answer the id of the event the code that asks is handling, if it handles one."""
    handled = _handled.get()
    return None if handled is None else handled.event_id


def name_causation(event_id: int) -> str:
    """Name an event as the cause of another; a workflow knows it by the same name (T10)."""
    return f"bus:{event_id}"


def cause(topic: str, source: str, payload: str, correlation_id: str | None) -> JournalEvent:
    """Make an event that is caused by what is being handled, if anything is."""
    return follow(JournalEvent(topic, source, payload, correlation_id))


def follow(event: JournalEvent) -> JournalEvent:
    """Put an event on the chain of what is being handled, if anything is."""
    handled = _handled.get()
    if handled is None:
        return event
    return replace(
        event,
        correlation_id=event.correlation_id or handled.correlation_id,
        causation_id=name_causation(handled.event_id),
        depth=depth_after(handled.depth),
    )
