"""Calls that a script made together, and the answers that wait to be handed to it.

Law 1  Calls begin in the order in which they were made, each when there is room for the largest
       answer it may get; the first begins in any case. So the answers that wait for a script are
       bounded in bytes, however many calls it makes at once (X2).
Law 2  Answers are handed over in the order of their calls; room is given back after that.
Law 3  When the script is left, its remaining calls are dropped (C3).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Self, TypeVar

import msgspec

from duly.sandbox.base import ScriptCall

A = TypeVar("A")


@dataclass(slots=True, eq=False)
class BegunCall(Generic[A]):
    """A call that is being answered, or was, and what its answer may take, or does."""

    call_id: int
    task: asyncio.Task[A]
    held_bytes: int


class Together(Generic[A]):
    """What one script asked for and was not told yet.

    `most_of` says how large the answer to a call can be.
    """

    def __init__(
        self,
        answer: Callable[[ScriptCall], Coroutine[Any, Any, A]],
        most_of: Callable[[ScriptCall], int],
        room_bytes: int,
    ) -> None:
        self._answer = answer
        self._most_of = most_of
        self._room_bytes = room_bytes
        self._asked: deque[ScriptCall] = deque()
        self._begun: deque[BegunCall[A]] = deque()
        self.held_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Tell whether no call waits for its answer."""
        return not self._asked and not self._begun

    def ask(self, calls: Iterable[ScriptCall]) -> None:
        """Take calls, and begin those there is room for."""
        self._asked.extend(calls)
        self._begin()

    async def first(self) -> tuple[int, A]:
        """Wait for the answer to the oldest call."""
        oldest = self._begun[0]
        return oldest.call_id, await oldest.task

    def handed(self) -> None:
        """Forget the oldest answer: its script has it now."""
        self._hold(self._begun.popleft(), 0)

    def _begin(self) -> None:
        while self._asked:
            most_bytes = self._most_of(self._asked[0])
            if self._begun and self.held_bytes + most_bytes > self._room_bytes:
                return
            call = self._asked.popleft()
            task = asyncio.get_running_loop().create_task(self._answer(call))
            begun = BegunCall(call.id, task, most_bytes)
            self.held_bytes += most_bytes
            self._begun.append(begun)
            task.add_done_callback(partial(self._weigh, begun))

    def _weigh(self, begun: BegunCall[A], task: asyncio.Task[A]) -> None:
        """Count an answer that is there by its real size.

        An error of a call that is never handed over is retrieved too: its script was left before.
        """
        if not task.cancelled() and task.exception() is None:
            self._hold(begun, size_bytes(task.result()))

    def _hold(self, begun: BegunCall[A], held_bytes: int) -> None:
        self.held_bytes += held_bytes - begun.held_bytes
        begun.held_bytes = held_bytes
        self._begin()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._asked.clear()
        for begun in self._begun:
            begun.task.cancel()
        self._begun.clear()


def size_bytes(answer: object) -> int:
    """Return the bytes that an answer takes; an answer that can be large comes as text."""
    return len(answer) if isinstance(answer, msgspec.Raw) else 0
