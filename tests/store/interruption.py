"""A verb that is interrupted: it raises when so many statements were run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from duly.store.base import Backend, Durability, Row, Transaction

R = TypeVar("R")


class Interrupted(Exception):
    """Raised in the middle of a verb, by the exam."""


class Interruption:
    """A backend that raises when so many statements were run, in whichever transactions."""

    def __init__(self, backend: Backend, statements: int) -> None:
        self._backend = backend
        self._left = statements
        self.happened = False

    async def ask(self, body: Callable[[Transaction], R]) -> R:
        return await self.transact(body, Durability.READ)

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        return await self._backend.transact(
            lambda tx: body(InterruptedTransaction(tx, self)), durability
        )

    async def sync(self) -> None:
        await self._backend.sync()

    async def close(self) -> None:
        await self._backend.close()

    def count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.happened = True
            raise Interrupted


class InterruptedTransaction:
    """A transaction whose statements are counted, each after it was run."""

    def __init__(self, transaction: Transaction, interruption: Interruption) -> None:
        self._transaction = transaction
        self.seal_key = transaction.seal_key
        self.clock_ms = transaction.clock_ms
        self.timeline, self.started = transaction.timeline, transaction.started
        self.host = transaction.host
        self._interruption = interruption

    def all(self, statement: str, /, **parameters: Any) -> list[Row]:
        return self._after(self._transaction.all(statement, **parameters))

    def one(self, statement: str, /, **parameters: Any) -> Row | None:
        return self._after(self._transaction.one(statement, **parameters))

    def run(self, statement: str, /, **parameters: Any) -> int:
        return self._after(self._transaction.run(statement, **parameters))

    def write(self, statement: str, /, **parameters: Any) -> None:
        self._transaction.write(statement, **parameters)
        self._after(None)

    def change(self, *named: Any, **parameters: Any) -> None:
        self._transaction.change(*named, **parameters)
        self._after(None)

    def _after(self, result: R) -> R:
        self._interruption.count()
        return result
