"""What a store is: verbs over transactions, and the two ways a transaction becomes durable.

Law 1: one verb is one transaction; what must agree is written by the same verb.
Law 2: a *barrier* returns when its transaction is on the disk, power-loss durable (L2). A *rider*
       returns when it is committed; the next barrier, or an idle moment, makes it durable.
Law 3: a transaction is a function that can be run again: it changes nothing but the database.

A verb is written once, as a plain function over a `Transaction` of named statements
(`sql/queries.sql`), and turned into a coroutine of the store by `@barrier`, `@rider` or
`@read`. SQLite and PostgreSQL differ in their `Backend`, never in their verbs.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, overload

from duly.errors import Stale
from duly.store.tally import Move, Tally

P = ParamSpec("P")
R = TypeVar("R")

Row = tuple[Any, ...]

STARTS_PER_MS: Final = 4096  # of a server, told apart by its database; as in postgres.sql

log = logging.getLogger("duly.store")


class Durability(StrEnum):
    """When a verb may return."""

    BARRIER = "barrier"
    RIDER = "rider"
    TURN = "turn"  # as a rider; its caller comes again and again, and lets others go first
    READ = "read"


class Transaction(Protocol):
    """One open transaction, spoken to in named statements only."""

    def all(self, statement: str, /, **parameters: Any) -> list[Row]:
        """Run a statement and return every row."""

    def one(self, statement: str, /, **parameters: Any) -> Row | None:
        """Run a statement and return its only row, if there is one."""

    def run(self, statement: str, /, **parameters: Any) -> int:
        """Run a statement that returns no rows; return how many rows it changed."""

    def write(self, statement: str, /, **parameters: Any) -> None:
        """Run a statement of which nothing is asked; it may be sent with the next ones."""

    def change(
        self, statement: str, what: str, rows: int | None = None, /, **parameters: Any
    ) -> None:
        """Run a write that must change so many rows, or some: else `what` changed meanwhile (R8).

        It may be sent with the next ones. It is refused before anything of them counts.
        """

    host: str | None  # whose write this is, where writes of hosts are counted (H2)

    @property
    def clock_ms(self) -> int:
        """What the database's own clock shows: leases are counted by it (H2)."""

    @property
    def timeline(self) -> int | None:
        """Which history a server tells: a promotion begins another; None in a file (H10)."""

    @property
    def started(self) -> int | None:
        """Which start of a server this is: no disk comes back without one; None in a file (H10).

        Divided by `STARTS_PER_MS` it is the moment, by the server's clock.
        """

    @property
    def seal_key(self) -> bytes | None:
        """The key that rows are sealed with, if there is one; it is not in the database (L15)."""


class Backend(Protocol):
    """A database that runs transactions."""

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Run `body` in a transaction of its own; return its result once that is durable."""

    async def ask(self, body: Callable[[Transaction], R]) -> R:
        """Run `body`, which changes nothing and may take long, beside the writer.

        It sees one moment, and everything that was committed before it was asked.
        """

    async def sync(self) -> None:
        """Return when everything committed so far is power-loss durable."""

    async def close(self) -> None:
        """Make everything durable and give the database back."""


class HasBackend(Protocol):
    """A class that carries verbs."""

    backend: Backend
    tally: Tally


@dataclass(frozen=True, slots=True)
class Fence:
    """The right to write to a workflow: a write under an old epoch is refused (H2)."""

    workflow_id: str
    epoch: int = -1  # of a reader that has claimed nothing: no write is let through with it
    gone: str | None = None  # its machine, for which a host elsewhere stands in: it sends nothing


def stale(what: str) -> Stale:
    """Refuse: it is no longer in the state that the decision was made on (R8)."""
    return Stale(code="changed_meanwhile", subject=what)


class StoreVerb(Generic[P, R]):
    """A transaction as a coroutine: `Store.publish` is the verb, `store.publish(…)` calls it."""

    def __init__(
        self, body: Callable[Concatenate[Transaction, P], R], durability: Durability
    ) -> None:
        self.body = body
        self.durability = durability
        self.name = body.__name__
        self.__doc__ = body.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        # The store may give a verb another name than its body has in its module.
        self.name = name

    @overload
    def __get__(self, store: None, owner: type) -> StoreVerb[P, R]: ...
    @overload
    def __get__(self, store: HasBackend, owner: type) -> Callable[P, Awaitable[R]]: ...
    def __get__(
        self, store: HasBackend | None, owner: type
    ) -> StoreVerb[P, R] | Callable[P, Awaitable[R]]:
        if store is None:
            return self

        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            moves: list[Move] = []

            def transaction(tx: Transaction) -> R:
                return store.tally.noted(lambda: self.body(tx, *args, **kwargs), moves)

            transaction.__name__ = self.name  # a backend that runs it can say what it is
            result = await store.backend.transact(transaction, self.durability)
            store.tally.add(moves)
            return result

        return call


def barrier(body: Callable[Concatenate[Transaction, P], R]) -> StoreVerb[P, R]:
    """Make a verb whose caller waits for the disk."""
    return StoreVerb(body, Durability.BARRIER)


def rider(body: Callable[Concatenate[Transaction, P], R]) -> StoreVerb[P, R]:
    """Make a verb whose caller waits for the commit only."""
    return StoreVerb(body, Durability.RIDER)


def in_turns(body: Callable[Concatenate[Transaction, P], R]) -> StoreVerb[P, R]:
    """Make a rider that does a part of a long piece of work, and waits for its turn each time."""
    return StoreVerb(body, Durability.TURN)


def read(body: Callable[Concatenate[Transaction, P], R]) -> StoreVerb[P, R]:
    """Make a verb that changes nothing."""
    return StoreVerb(body, Durability.READ)


class Watchers(set[Callable[[], None]]):
    """Who is told after every write of a store, and how many writes there were."""

    writes = 0

    def tell(self) -> None:
        """Call each; an error of one is logged, for the write is done."""
        self.writes += 1
        for told in tuple(self):
            try:
                told()
            except Exception as error:
                log.error("a watcher of the store raised: %r", error, exc_info=error)
