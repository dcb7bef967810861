"""A transaction that is to be run, and one whose caller waits for the writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from duly.store.base import Durability, Transaction


class Job:
    """One transaction, and what became of it."""

    __slots__ = ("body", "durability", "error", "value")

    def __init__(self, body: Callable[[Transaction], Any], durability: Durability) -> None:
        self.body = body
        self.durability = durability
        self.value: Any = None
        self.error: Exception | None = None


class WaitingJob(Job):
    """A transaction that a caller waits for."""

    __slots__ = ("future",)

    def __init__(
        self,
        body: Callable[[Transaction], Any],
        durability: Durability,
        future: asyncio.Future[Any],
    ) -> None:
        super().__init__(body, durability)
        self.future = future

    def answer(self) -> None:
        """Tell the caller, unless it went away."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.error)
