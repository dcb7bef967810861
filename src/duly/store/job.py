"""A transaction that waits for the writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duly.store.base import Durability, Transaction


@dataclass(slots=True, eq=False)
class Job:
    """One transaction that a caller waits for, and what became of it."""

    body: Callable[[Transaction], Any]
    durability: Durability
    future: asyncio.Future[Any]
    value: Any = None
    error: Exception | None = None

    def answer(self) -> None:
        """Tell the caller, unless it went away."""
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.error)
