"""What is under way, for a program that watches: runs, their steps, their calls, and models.

Law 1  Without an observer nothing is made: one look at a variable is all that a run pays.
Law 2  A span has ids and words of ours: workflow, handler, step, tool, model, status. It has no
       payload, title, argument, result, message id or text of an error.
Law 3  An observer is given spans that ended. It must not wait; what it raises is logged, and
       reaches no run.

An observer is set for the tasks that begin below `observing`. It decides nothing: no part of the
house asks it anything but the time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

LINKS_MAX: Final = 32  # of one run: the runs that published what it works on
OFFERED_MAX: Final = 1_000  # events of one run whose publisher is remembered

log = logging.getLogger("duly.observed")


class SpanKind(StrEnum):
    """What a span is about, from the outermost to the innermost."""

    RUN = "run"
    STEP = "step"
    CALL = "call"
    MODEL = "model"


@dataclass(slots=True)
class Span:
    """Something that began, and then ended; `links` are the runs that published its inputs."""

    kind: SpanKind
    name: str
    run: str
    begun_at_ms: int
    parent: Span | None = None
    is_first: bool = True  # of a run: later sittings of it belong to the first one
    facts: dict[str, str | int] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)
    ended_at_ms: int = 0
    has_failed: bool = False
    id: str = ""  # as an observer calls it
    offered: dict[tuple[str, str], str] = field(default_factory=dict)


class Observer(Protocol):
    """A program that watches; `now_ms` is its clock."""

    def now_ms(self) -> int:
        """Return the wall clock, in milliseconds since 1970 UTC."""

    def ended(self, span: Span) -> None:
        """Take a span that ended."""


_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)
_span: ContextVar[Span | None] = ContextVar("span", default=None)
_NOTHING: Final[AbstractContextManager[None]] = nullcontext()


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Let an observer watch what the tasks do that begin in here."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def run_span(
    run: str, name: str, facts: Mapping[str, str | int], *, is_first: bool
) -> AbstractContextManager[Span | None]:
    """Watch one sitting of a run."""
    observer = _observer.get()
    if observer is None:
        return _NOTHING
    return _watch(observer, SpanKind.RUN, name, run, facts, is_first=is_first)


def span(kind: SpanKind, name: str, **facts: str | int) -> AbstractContextManager[Span | None]:
    """Watch a part of the run that goes on in this task, if one is watched."""
    around = _span.get()
    observer = _observer.get()
    if observer is None or around is None:
        return _NOTHING
    return _watch(observer, kind, name, around.run, facts, around=around)


def note(**facts: str | int) -> None:
    """Say more about the innermost span of this task."""
    around = _span.get()
    if around is not None:
        around.facts.update(facts)


def offered(topic: str, message_id: str, created_by: str) -> None:
    """Remember which run published an event that the run of this task was shown."""
    run = _run()
    if run is not None and len(run.offered) < OFFERED_MAX:
        run.offered[topic, message_id] = created_by


def reserved(topic: str, message_id: str) -> None:
    """Link the run of this task to the one that published an event it works on."""
    run = _run()
    publisher = None if run is None else run.offered.get((topic, message_id))
    if run is None or publisher is None or publisher in run.links:
        return
    if len(run.links) < LINKS_MAX:
        run.links.append(publisher)


def _run() -> Span | None:
    found = _span.get()
    while found is not None and found.kind is not SpanKind.RUN:
        found = found.parent
    return found


@contextmanager
def _watch(
    observer: Observer,
    kind: SpanKind,
    name: str,
    run: str,
    facts: Mapping[str, str | int],
    *,
    around: Span | None = None,
    is_first: bool = True,
) -> Iterator[Span]:
    made = Span(kind, name, run, observer.now_ms(), around, is_first, dict(facts))
    token = _span.set(made)
    try:
        yield made
    except BaseException:
        made.has_failed = True
        raise
    finally:
        _span.reset(token)
        made.ended_at_ms = observer.now_ms()
        made.offered.clear()
        _hand(observer, made)


def _hand(observer: Observer, made: Span) -> None:
    try:
        observer.ended(made)
    except Exception:
        log.exception("An observer failed on a %s; what it is not told is not lost", made.kind)
