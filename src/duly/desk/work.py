"""Engine and bus at work together: strangers, each of which may give the other something to do.

Law 1  A drain ends when neither has anything due: one that was done is begun again when the other
       rings it.
Law 2  The error of one ends both, in order, and is what the caller hears; cancelling ends both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from duly.env import Env
from duly.loop import OneAtATime, outlast


class WorkPart(Protocol):
    """One of those who work."""

    @property
    def is_rung(self) -> bool:
        """Tell whether somebody has rung since it last looked."""

    async def until_rung(self) -> None:
        """Return when somebody has rung since it last looked."""

    async def drain(self) -> None:
        """Work until nothing is due at this moment."""

    async def serve(self) -> None:
        """Work until cancelled."""


class HostWork:
    """Lets all parts of a host work at the same time, and ends them together."""

    def __init__(self, env: Env, *parts: WorkPart) -> None:
        self._env = env
        self._parts = parts
        self._one_at_a_time = OneAtATime()

    async def serve(self) -> None:
        """Work until cancelled, or until one part fails."""
        with self._one_at_a_time():
            tasks = {self._start(part.serve, "serve") for part in self._parts}
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _end(tasks)

    async def drain(self) -> None:
        """Work until no part has anything due at this moment."""
        with self._one_at_a_time():
            at_work = {self._start(part.drain, "drain"): part for part in self._parts}
            bells: dict[asyncio.Task[None], WorkPart] = {}
            try:
                while at_work:
                    await asyncio.wait((*at_work, *bells), return_when=asyncio.FIRST_COMPLETED)
                    for task in [each for each in at_work if each.done()]:
                        part = at_work.pop(task)
                        _raise_first({task})
                        bells[self._start(part.until_rung, "bell")] = part
                    for bell in [each for each, part in bells.items() if part.is_rung]:
                        part = bells.pop(bell)
                        bell.cancel()
                        at_work[self._start(part.drain, "drain")] = part
            finally:
                await _end({*at_work, *bells})

    def _start(
        self, work: Callable[[], Coroutine[Any, Any, None]], name: str
    ) -> asyncio.Task[None]:
        return self._env.spawn(work(), f"duly part {name}")


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel the tasks that still work, once, wait until they have ended, and raise why.

    A caller that is cancelled a second time meanwhile is cancelled after that: an orderly stop is
    not cut short (R7). A caller that is cancelled while a task fails gets the failure.
    """
    for task in tasks:
        task.cancel()
    try:
        await outlast(*tasks)
    finally:
        _raise_first(tasks)


def _raise_first(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error
