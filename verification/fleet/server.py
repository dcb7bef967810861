"""The one store of a fleet, as a server: transactions come in from hosts and are run in turn.

Law 1  A transaction that has arrived is run to its end, also when the host that sent it is dead.
       The host may be told nothing of it, or it may arrive when its host has stopped waiting.
Law 2  Leases are counted by the server's own clock, which no host can set.
Law 3  The oracles see the store as of every commit, in the order of the commits.
Law 4  A server that restarts may have lost riders that no barrier followed. A standby that takes
       its place may lack any last commits, and begins another timeline. So may a disk that is
       brought back, on the same one. Every connection is lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

from duly.errors import StoreUnavailable
from duly.store.base import STARTS_PER_MS, Durability, Fence, Row, Transaction
from duly.store.upkeep import TIMELINE
from duly.testing.dice import Dice
from duly.testing.loop import VirtualLoop
from verification.fleet.database import Database
from verification.fleet.process import outside
from verification.sight import Part
from verification.workflow.seen import Seen, see

R = TypeVar("R")

# What moves no workflow: the oracles of workflows need not look again. The last two do so only
# after a promotion; without one they change the row of a counter.
OF_LEASES: Final = frozenset({"join", "renew", "leave"})
OF_COUNTERS: Final = frozenset({"note", "enter_slot"})
DELAYS_S: Final = (0.0, 0.0, 0.0, 0.0, 0.002, 0.03, 0.4)
LOST_MAX: Final = 40  # so many commits a standby may lack


class ConnectionLost(StoreUnavailable):
    """The server that was spoken to is gone, and has not run the transaction."""


@dataclass(frozen=True, slots=True)
class FleetSeen:
    """Which hosts are here and until when, and which of them holds the workflow."""

    hosts: dict[str, int | None]
    holder: str | None
    epoch: int
    blind_since: int | None = None


HOSTS: Final[Part[dict[str, int | None]]] = Part("oracle_hosts", dict)
CLAIM: Final = Part("oracle_claims", lambda rows: rows[0])


@dataclass(frozen=True, slots=True)
class Commit:
    """A write that was committed: by which host, and what it found and left."""

    verb: str
    host_id: str
    before: FleetSeen
    after: FleetSeen
    clock_ms: int
    fence: Fence | None  # the claim under which it was made, if it needed one


@dataclass(slots=True)
class Kept:
    """A commit that may be lost, and the store as it left it."""

    commit: Commit
    durability: Durability
    image: bytes
    is_told: bool = False  # its host has heard of it
    is_lost: bool = False


class Judge(Protocol):
    """The oracles: they are shown every commit."""

    def see_belief(self, verb: str, *, is_committed: bool) -> None:
        """Look at what a host believes of a write, and what is not so."""

    def see_loss(self, lost: Sequence[Kept]) -> None:
        """Look at what a server has lost."""

    def see_commit(self, commit: Commit) -> None:
        """Look at the leases."""

    def see_work(self, seen: Seen) -> None:
        """Look at everything else."""

    def see_break(self, error: Exception) -> None:
        """Hear that the simulation itself is broken."""


@dataclass(slots=True)
class Request(Generic[R]):
    """A transaction on its way."""

    body: Callable[[Transaction], R]
    durability: Durability
    host_id: str
    life: int  # of the server that it was sent to
    answer: asyncio.Future[R]
    kept: Kept | None = None
    is_run: bool = False
    is_given_up: bool = False  # its host believes that it is not committed, and never will be

    @property
    def is_committed(self) -> bool:
        """Tell whether it is in the store."""
        return self.is_run and not (self.kept is not None and self.kept.is_lost)

    @property
    def verb(self) -> str:
        """What it does."""
        return name_of(self.body)


@dataclass(slots=True)
class Server:
    """Runs the transactions of all hosts, one after the other."""

    loop: VirtualLoop
    database: Database
    judge: Judge
    dice: Dice | None = None
    keeps: bool = False  # the commits that may be lost
    ahead_ms: int = 0  # how far its clock was set forward
    life: int = 1  # which server this is
    came_ms: int = 0  # when it came, by its clock
    timeline: int = 1  # which history it tells
    now: FleetSeen = field(default_factory=lambda: FleetSeen({}, None, 0))
    _next: tuple[int, bool, bool] | None = None  # the server that takes its place: see `fall`
    _arrived: deque[Request[Any]] = field(default_factory=deque)
    _is_busy: bool = False
    _context: Context = field(default_factory=outside)  # of no process
    _kept: deque[Kept] = field(default_factory=lambda: deque(maxlen=LOST_MAX + 1))

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
        life: int | None = None,
    ) -> Request[R]:
        """Let a transaction arrive, at once or later; its result will be in what is returned.

        It is for the server that is here now, or for the one that it was begun with.
        """
        answer: asyncio.Future[R] = self.loop.create_future()
        request = Request(body, durability, host_id, self.life if life is None else life, answer)
        if late_s:
            self.loop.call_later(late_s, self._arrive, request, context=self._context)
        else:
            self.loop.call_soon(self._arrive, request, context=self._context)
        return request

    async def hear(self, request: Request[R]) -> R:
        """Wait for a result, and have heard of it; the server may be another one by then."""
        result = await request.answer
        self._tell(request)
        return result

    def _tell(self, request: Request[Any]) -> None:
        if request.kept is not None and not request.kept.is_told:
            request.kept.is_told = True
            if request.kept.is_lost:
                self.judge.see_loss([request.kept])

    def open(self) -> None:
        """Come up for the first time."""
        self.now = self.database.read(self._see_fleet)
        if self.keeps:
            self.database.write(self._note_timeline)
            begun = Commit("open", "", self.now, self.now, 0, None)
            self._kept.append(Kept(begun, Durability.BARRIER, self.database.copy()))

    def _note_timeline(self, tx: Transaction) -> None:
        """Let it be known since long which history this is, as to a store that has worked."""
        tx.run("put_upkeep", name=TIMELINE, at=self.timeline)

    def fall(self, lost: int, *, is_promotion: bool, is_rollback: bool = False) -> None:
        """Let another server take its place before the next transaction, with fewer commits.

        One that restarts lacks no barrier, nor what came before it.
        """
        self._next = (lost, is_promotion, is_rollback)

    def believe(self, request: Request[Any], *, is_committed: bool) -> None:
        """Compare what a host has found out about a write whose answer was lost."""
        request.is_given_up = not is_committed
        if request.is_committed != is_committed:
            self.judge.see_belief(request.verb, is_committed=is_committed)
        elif is_committed:
            self._tell(request)

    def _arrive(self, request: Request[Any]) -> None:
        """Run what arrives, in turn; some take a while, and those behind them wait."""
        self._arrived.append(request)
        if not self._is_busy:
            self._go_on()

    def _go_on(self) -> None:
        self._is_busy = False
        while self._arrived and not self._is_busy:
            if self._next is not None:
                self._come_back(*self._next)
            if self._arrived[0].life != self.life:
                self._refuse(self._arrived.popleft(), ConnectionLost("The server is gone."))
                continue
            if self.dice is not None and (delay_s := self.dice.choose(DELAYS_S)):
                self._is_busy = True
                self.loop.call_later(delay_s, self._run_first, context=self._context)
            else:
                self._run_first()

    def _run_first(self) -> None:
        try:
            self._run(self._arrived.popleft())
        except Exception as error:
            self.judge.see_break(error)
        if self._is_busy:
            self._go_on()

    def see(self) -> Seen:
        """Return everything the store says."""
        return self.database.read(self._see)

    def _see(self, tx: Transaction) -> Seen:
        return see(tx, self.database.sight.read)

    def _see_fleet(self, tx: Transaction) -> FleetSeen:
        """Read the hosts and the claim."""
        read = self.database.sight.read
        return FleetSeen(read(tx, HOSTS), *read(tx, CLAIM))

    def _come_back(self, most: int, is_promotion: bool, is_rollback: bool) -> None:
        self._next = None
        self.life += 1
        self.came_ms = self.clock_ms
        self.timeline += is_promotion
        lost: list[Kept] = []
        while len(lost) < most and len(self._kept) > 1:
            keeps_barriers = not (is_promotion or is_rollback)
            if keeps_barriers and self._kept[-1].durability is Durability.BARRIER:
                break
            lost.append(self._kept.pop())
            lost[-1].is_lost = True
        self.database.close()
        self.database = Database(self._kept[-1].image)
        self.now = self.database.read(self._see_fleet)
        self.judge.see_loss(lost)

    def _run(self, request: Request[Any]) -> None:
        run = self._read if request.durability is Durability.READ else self._write
        try:
            result, seen = run(request)
        except Exception as error:
            self._refuse(request, error)
            return
        if seen is not None:
            self._show(request, *seen)
        if not request.answer.done():
            request.answer.set_result(result)

    def _clocked(self, tx: Transaction) -> Transaction:
        started = self.came_ms * STARTS_PER_MS + self.life
        return _ServerTransaction(tx, self.clock_ms, self.timeline, started)

    def _read(self, request: Request[Any]) -> tuple[Any, None]:
        def clocked(tx: Transaction) -> Any:
            return request.body(self._clocked(tx))

        return self.database.read(clocked), None

    def _refuse(self, request: Request[Any], error: Exception) -> None:
        if not request.answer.done():
            request.answer.set_exception(error)
            request.answer.exception()  # a host that waits no more leaves it unread

    def _write(self, request: Request[Any]) -> tuple[Any, tuple[Commit, Seen | None]]:
        verb, changes = request.verb, self.database.changes

        def whole(tx: Transaction) -> tuple[Any, tuple[Commit, Seen | None]]:
            clocked = self._clocked(tx)
            result = request.body(clocked)
            is_counter = verb in OF_COUNTERS and self.database.changes == changes + 1
            after = self.now if is_counter else self._see_fleet(tx)
            fence = find_fence(request.body)
            commit = Commit(verb, request.host_id, self.now, after, self.clock_ms, fence)
            is_of_work = verb not in OF_LEASES and not is_counter
            return result, (commit, self._see(tx) if is_of_work else None)

        return self.database.write(whole)

    def _show(self, request: Request[Any], commit: Commit, seen: Seen | None) -> None:
        self.now = commit.after
        request.is_run = True
        if request.is_given_up:
            self.judge.see_belief(request.verb, is_committed=False)
        if self.keeps:
            request.kept = Kept(commit, request.durability, self.database.copy())
            self._kept.append(request.kept)
        self.judge.see_commit(commit)
        if seen is not None:
            self.judge.see_work(seen)


def name_of(body: Any) -> str:
    """Return the name of a verb; a question may have none."""
    return getattr(body, "__name__", "ask")


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
    """A transaction whose clock, timeline and start are the server's."""

    def __init__(self, tx: Transaction, clock_ms: int, timeline: int, started: int) -> None:
        self._tx = tx
        self.clock_ms = clock_ms
        self.timeline = timeline
        self.started = started
        self.host: str | None = None

    def all(self, statement: str, /, **parameters: Any) -> list[Row]:
        return self._tx.all(statement, **parameters)

    def one(self, statement: str, /, **parameters: Any) -> Row | None:
        return self._tx.one(statement, **parameters)

    def run(self, statement: str, /, **parameters: Any) -> int:
        return self._tx.run(statement, **parameters)

    def write(self, statement: str, /, **parameters: Any) -> None:
        self._tx.write(statement, **parameters)

    def change(
        self, statement: str, what: str, rows: int | None = None, /, **parameters: Any
    ) -> None:
        self._tx.change(statement, what, rows, **parameters)

    @property
    def seal_key(self) -> bytes | None:
        return self._tx.seal_key
