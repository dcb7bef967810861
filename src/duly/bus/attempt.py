"""One call of one handler: it may raise anything, hang, or refuse to end (B3).

Law 1  Whatever a handler does, the answer is a sentence or success, and the dispatcher lives.
Law 2  A handler has a time limit. Past it it is cancelled; one that does not end even then is left
       behind and reported: it is *deaf*. Nobody waits for it but its own subscriber, which is not
       called again in this process until it has ended: one subscriber, one call at a time.
Law 3  A handler that returned has succeeded, whoever cancelled what around it.
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
from duly.rules.delivery import HANDLER_TIMEOUT_S, Event, copy_event
from duly.store import Store

GRACE_S: Final = 5.0  # how long a handler that was cancelled may take to end
LATE: Final = f"it took longer than {HANDLER_TIMEOUT_S} s"

Handler = Callable[[Event], Awaitable[Any]]

log = logging.getLogger("duly.bus")


@dataclass(slots=True)
class _Outcome:
    """What became of a call, told by the call itself: its task may have been cancelled since."""

    is_over: bool = False
    error: BaseException | None = None


class Caller:
    """Calls handlers, and knows those that did not end when they were told to."""

    def __init__(self, env: Env, store: Store, freed: Callable[[], None]) -> None:
        self._env = env
        self._store = store
        self._freed = freed
        self._calls: dict[asyncio.Task[None], str] = {}  # and whose handler it is
        self._deaf: dict[asyncio.Task[None], str] = {}

    @property
    def deaf(self) -> frozenset[str]:
        """The subscribers whose handler was left behind and still runs."""
        return frozenset(self._deaf.values())

    async def call(
        self, handler: Handler, event: Event, depth: int, subscriber_id: str
    ) -> str | None:
        """Call a handler; answer what it failed with, or nothing.

        Whoever cancels this call cancels the handler, and learns nothing about it; one that ended
        at that moment has ended.
        """
        outcome = _Outcome()
        name = f"event {event.id} for {subscriber_id}"
        # Its own copy, so that no handler sees what another did to it (B8).
        begin = partial(handle, event, depth, self._store)
        task = self._env.spawn(_run(handler, copy_event(event), begin, outcome), name)
        self._calls[task] = subscriber_id
        task.add_done_callback(self._end)
        try:
            if not await _ends_within(task, HANDLER_TIMEOUT_S):
                return await self._give_up(task, name)
        except asyncio.CancelledError:
            # Not if it ended at that very moment: what it did is done, and to be recorded (law 3).
            if not task.done():
                task.cancel()
                raise
        if outcome.is_over and outcome.error is None:
            return None
        error = outcome.error or asyncio.CancelledError("cancelled before it began")
        said = describe(error)
        log.error(
            "subscriber %s failed on event %s: %s",
            subscriber_id,
            event.id,
            said,
            exc_info=error,
            extra={"subscriber_id": subscriber_id, "event_id": event.id},
        )
        return said

    async def end(self) -> None:
        """Cancel every handler that still runs, wait a little, and say which did not end."""
        for task in self._calls:
            task.cancel()
        await self.outlast()

    async def outlast(self) -> None:
        """Wait a little for those who were cancelled, and say which did not end."""
        if self._calls:
            _, deaf = await asyncio.wait(set(self._calls), timeout=GRACE_S)
            for task in deaf:
                self._deaf[task] = self._calls[task]
                log.error("%s does not end and is left behind", task.get_name())

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._calls[task]
        if self._deaf.pop(task, None) is not None:
            self._freed()

    async def _give_up(self, task: asyncio.Task[None], name: str) -> str:
        task.cancel()
        if await _ends_within(task, GRACE_S):
            log.error("%s was cancelled: %s", name, LATE)
            return LATE
        self._deaf[task] = self._calls[task]
        log.error("%s does not end and is left behind: %s", name, LATE)
        return f"{LATE} and did not end when it was cancelled"


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


def describe(error: BaseException) -> str:
    """Say what was raised, in words every store can keep."""
    try:
        said = str(error)
    except BaseException:
        said = "it cannot say why"
    words = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return words.encode("utf-8", "replace").decode().replace("\0", "?")
