"""The event being handled now, so that an event emitted meanwhile names it as its cause (B12).

Law 1  What a handler emits or schedules is caused by the event it handles, stands one step deeper
       and belongs to the same correlation, unless it names another. What it publishes into a
       workflow goes on that chain too, under a mark that no caller can set.
Law 2  A task that a handler starts speaks for the same event, also after the handler has returned:
       otherwise a loop would only have to begin a task to be endless.
Law 3  A number names an event in one store alone. What a handler says to another host goes on its
       correlation and its depth, and names no cause: there the number is another event's.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, replace

from duly.rules.delivery import Event, depth_after
from duly.store import Store
from duly.store.record import JournalEvent


@dataclass(frozen=True, slots=True)
class Handled:
    """The event a handler was called with, and the store in which its number names it."""

    home: Store
    event_id: int
    correlation_id: str | None
    depth: int


_handled: ContextVar[Handled | None] = ContextVar("duly_handled", default=None)


def handle(event: Event, depth: int, home: Store) -> None:
    """Say that the code that follows in this context handles an event of a store."""
    _handled.set(Handled(home, event.id, event.correlation_id, depth))


def handled_event(store: Store) -> int | None:
    """Return the id of the event of this store that the code that asks is handling, if any."""
    handled = _handled.get()
    return None if handled is None or handled.home is not store else handled.event_id


def name_causation(event_id: int) -> str:
    """Name an event as the cause of another; a workflow knows it by the same name (T10)."""
    return f"bus:{event_id}"


def cause(
    store: Store, topic: str, source: str, payload: str, correlation_id: str | None
) -> JournalEvent:
    """Make an event for a store that is caused by what is being handled, if anything is."""
    return follow(store, JournalEvent(topic, source, payload, correlation_id))


def follow(store: Store, event: JournalEvent) -> JournalEvent:
    """Put an event for a store on the chain of what is being handled, if anything is."""
    handled = _handled.get()
    if handled is None:
        return event
    event_id = handled_event(store)
    return replace(
        event,
        correlation_id=event.correlation_id or handled.correlation_id,
        causation_id=None if event_id is None else name_causation(event_id),
        depth=depth_after(handled.depth),
    )
