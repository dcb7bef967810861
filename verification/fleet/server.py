"""The one store of a fleet, as a server: transactions come in from hosts and are run in turn.

Law 1  A transaction that has arrived is run to its end, also when the host that sent it is dead.
       The host may be told nothing of it, or it may arrive when its host has stopped waiting.
Law 2  Leases are counted by the server's own clock, which no host can set.
Law 3  The oracles see the store as of every commit, in the order of the commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from duly.store.base import Backend, Durability, Fence, Row, Transaction
from duly.testing.dice import Dice
from duly.testing.loop import VirtualLoop
from verification.fleet.process import outside
from verification.workflow.seen import Seen, see

R = TypeVar("R")

# What moves no workflow: the oracles of workflows need not look again.
OF_LEASES: Final = frozenset({"join", "renew", "evict", "leave"})
DELAYS_S: Final = (0.0, 0.0, 0.0, 0.0, 0.002, 0.03, 0.4)


@dataclass(frozen=True, slots=True)
class FleetSeen:
    """Which hosts are here and until when, and which of them holds the workflow."""

    hosts: dict[str, int | None]
    holder: str | None
    epoch: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A write that was committed: by which host, and what it found and left."""

    verb: str
    host_id: str
    before: FleetSeen
    after: FleetSeen
    clock_ms: int
    fence: Fence | None  # the claim under which it was made, if it needed one


class Judge(Protocol):
    """The oracles: they are shown every commit."""

    def see_commit(self, commit: Commit) -> None:
        """Look at the leases."""

    def see_work(self, seen: Seen) -> None:
        """Look at everything else."""


@dataclass(slots=True)
class _Request:
    body: Callable[[Transaction], Any]
    durability: Durability
    verb: str
    host_id: str
    answer: asyncio.Future[Any]


@dataclass(slots=True)
class Server:
    """Runs the transactions of all hosts, one after the other."""

    loop: VirtualLoop
    backend: Backend
    judge: Judge
    dice: Dice | None = None
    ahead_ms: int = 0  # how far its clock was set forward
    now: FleetSeen = field(default_factory=lambda: FleetSeen({}, None, 0))
    _requests: asyncio.Queue[_Request] = field(default_factory=asyncio.Queue)

    @property
    def clock_ms(self) -> int:
        """What the server's own clock shows."""
        return self.loop.elapsed_ms + self.ahead_ms

    def submit(
        self,
        body: Callable[[Transaction], R],
        durability: Durability,
        host_id: str,
        late_s: float = 0.0,
    ) -> asyncio.Future[R]:
        """Let a transaction arrive, at once or later; return where its result will be."""
        answer: asyncio.Future[R] = self.loop.create_future()
        request = _Request(body, durability, body.__name__, host_id, answer)
        context = outside()
        if late_s:
            self.loop.call_later(late_s, self._requests.put_nowait, request, context=context)
        else:
            self.loop.call_soon(self._requests.put_nowait, request, context=context)
        return answer

    async def serve(self) -> None:
        """Run what arrives, in turn."""
        while True:
            request = await self._requests.get()
            if self.dice is not None and (delay_s := self.dice.choose(DELAYS_S)):
                await self.loop.sleep(delay_s)
            await self._run(request)

    async def see(self) -> Seen:
        """Return everything the store says."""
        return await self.backend.transact(see, Durability.READ)

    async def _run(self, request: _Request) -> None:
        try:
            if request.durability is Durability.READ:
                result = await self.backend.transact(request.body, Durability.READ)
            else:
                result = await self._write(request)
        except Exception as error:
            if not request.answer.done():
                request.answer.set_exception(error)
                request.answer.exception()  # a host that waits no more leaves it unread
        else:
            if not request.answer.done():
                request.answer.set_result(result)

    async def _write(self, request: _Request) -> Any:
        is_of_work = request.verb not in OF_LEASES

        def whole(tx: Transaction) -> tuple[Any, Commit, Seen | None]:
            clocked = _ServerTransaction(tx, self.clock_ms)
            before = see_fleet(tx)
            result = request.body(clocked)
            commit = Commit(
                request.verb,
                request.host_id,
                before,
                see_fleet(tx),
                self.clock_ms,
                find_fence(request.body),
            )
            return result, commit, see(tx) if is_of_work else None

        result, commit, seen = await self.backend.transact(whole, request.durability)
        self.now = commit.after
        self.judge.see_commit(commit)
        if seen is not None:
            self.judge.see_work(seen)
        return result


def see_fleet(tx: Transaction) -> FleetSeen:
    """Read the hosts and the claim."""
    holder, epoch = tx.all("oracle_claims")[0]
    return FleetSeen(dict(tx.all("oracle_hosts")), holder, epoch)


def find_fence(body: Any) -> Fence | None:
    """Find the claim among the arguments of a verb: they are what its transaction closes over."""
    for cell in getattr(body, "__closure__", None) or ():
        held = cell.cell_contents
        arguments = held if isinstance(held, tuple) else (held,)
        for each in arguments:
            if isinstance(each, Fence):
                return each
            if callable(each) and (found := find_fence(each)) is not None:
                return found
    return None


class _ServerTransaction:
    """A transaction whose clock is the server's."""

    def __init__(self, tx: Transaction, clock_ms: int) -> None:
        self._tx = tx
        self.clock_ms = clock_ms

    def all(self, statement: str, /, **parameters: Any) -> list[Row]:
        return self._tx.all(statement, **parameters)

    def one(self, statement: str, /, **parameters: Any) -> Row | None:
        return self._tx.one(statement, **parameters)

    def run(self, statement: str, /, **parameters: Any) -> int:
        return self._tx.run(statement, **parameters)

    @property
    def seal_key(self) -> bytes | None:
        return self._tx.seal_key
