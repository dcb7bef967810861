"""One call of one handler: it may raise anything, hang, or refuse to end (B3).

Law 1  Every call ends in success or in a failure with a sentence, and the dispatcher lives on.
Law 2  A handler has a time limit. Past it it is cancelled; one that does not end even then is left
       behind and reported: it is *stuck*. Only its own subscriber waits for it, and is not called
       again in this process until it has ended: one subscriber, one call at a time.
Law 3  A handler that returned has succeeded, even if its task was cancelled. One that a stop of
       the host cut short has neither succeeded nor failed.
Law 4  An error of a handler is cleaned before it is kept or logged: its text is an extension's,
       and a log is read in a terminal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from duly.bus.cause import handle
from duly.env import Env
from duly.errors import Refused
from duly.rules.delivery import HANDLER_TIMEOUT_S, Event, copy_event
from duly.rules.fault import describe, trace
from duly.rules.redaction import Redactor
from duly.rules.shown import visible
from duly.store import Store
from duly.store.delivery import Ingress

GRACE_S: Final = 5.0  # how long a handler that was cancelled may take to end

Handler = Callable[[Event], Awaitable[Any]]

log = logging.getLogger("duly.bus")


@dataclass(frozen=True, slots=True)
class HandlerFailure:
    """What a handler failed with; *final* if it said that another attempt is of no use (B5)."""

    said: str
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """What an attempt came to, to be recorded; `ingress` goes into a workflow with it (T10)."""

    event_id: int
    subscriber_id: str
    attempt: int
    failure: HandlerFailure | None = None
    ingress: Ingress | None = None


@dataclass(slots=True)
class _Outcome:
    """What became of a call, noted by the call itself: its task may have been cancelled since."""

    is_over: bool = False
    error: BaseException | None = None


class Caller:
    """Calls handlers, and knows those that did not end when they were cancelled."""

    def __init__(
        self, env: Env, store: Store, freed: Callable[[], None], secrets: Redactor
    ) -> None:
        self._env = env
        self._store = store
        self._secrets = secrets
        self._freed = freed
        self._calls: dict[asyncio.Task[None], str] = {}  # and whose handler it is
        self._deaf: dict[asyncio.Task[None], str] = {}

    @property
    def stuck(self) -> frozenset[str]:
        """The subscribers whose handler was left behind and still runs."""
        return frozenset(self._deaf.values())

    @property
    def is_busy(self) -> bool:
        """Tell whether a handler runs."""
        return bool(self._calls)

    async def call(
        self,
        handler: Handler,
        event: Event,
        depth: int,
        subscriber_id: str,
        timeout_s: float = HANDLER_TIMEOUT_S,
    ) -> HandlerFailure | None:
        """Call a handler; return what it failed with, or nothing.

        Cancelling this call cancels the handler. If it returns all the same it has succeeded;
        otherwise the cancellation goes on, and nothing is known of the attempt (law 3).
        """
        outcome = _Outcome()
        name = f"event {event.id} for {subscriber_id}"
        # Its own copy, so that no handler sees what another did to it (B8).
        begin = partial(handle, event, depth, self._store)
        task = self._env.spawn(_run(handler, copy_event(event), begin, outcome), name)
        self._calls[task] = subscriber_id
        task.add_done_callback(self._end)
        try:
            if not await _ends_within(task, timeout_s):
                return await self._give_up(task, f"it took longer than {timeout_s:g} s")
        except asyncio.CancelledError:
            # Not if it ended at that very moment: what it did is done, and to be recorded (law 3).
            if not task.done():
                await self._cancel(task)
                if not outcome.is_over or outcome.error is not None:
                    raise
        if outcome.is_over and outcome.error is None:
            return None
        error = outcome.error or asyncio.CancelledError("cancelled before it began")
        said = describe(error, self._secrets)
        log.error(
            "subscriber %s failed on event %s: %s\n%s",
            subscriber_id,
            event.id,
            visible(said),
            trace(error, self._secrets),
            extra={"subscriber_id": subscriber_id, "event_id": event.id},
        )
        return HandlerFailure(said, is_final=isinstance(error, Refused))

    async def end(self) -> None:
        """Cancel every handler that still runs, wait a little, and log which did not end."""
        calls = set(self._calls) - set(self._deaf)
        for task in calls:
            task.cancel()
        if self._calls:
            _, left = await asyncio.wait(set(self._calls), timeout=GRACE_S)
            for task in left:
                self._leave(task)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._calls[task]
        if self._deaf.pop(task, None) is not None:
            self._freed()

    async def _give_up(self, task: asyncio.Task[None], why: str) -> HandlerFailure:
        if await self._cancel(task):
            log.error("%s was cancelled: %s", task.get_name(), why)
            return HandlerFailure(why)
        return HandlerFailure(f"{why} and did not end when it was cancelled")

    async def _cancel(self, task: asyncio.Task[None]) -> bool:
        """Cancel a handler once, and return whether it ended within its grace."""
        task.cancel()
        if await _ends_within(task, GRACE_S):
            return True
        self._leave(task)
        return False

    def _leave(self, task: asyncio.Task[None]) -> None:
        self._deaf[task] = self._calls[task]
        log.error("%s does not end and is left behind", task.get_name())


async def _ends_within(task: asyncio.Task[None], seconds: float) -> bool:
    # The loop's own timer, which every env's loop keeps: a task for each call would cost more.
    done, _ = await asyncio.wait((task,), timeout=seconds)
    return bool(done)


async def _run(
    handler: Handler, event: Event, begin: Callable[[], None], outcome: _Outcome
) -> None:
    begin()
    try:
        await handler(event)
    except BaseException as error:
        # Also SystemExit and KeyboardInterrupt: asyncio would let either of them end its loop.
        outcome.error = error
    outcome.is_over = True
