"""The way of one host of a fleet to the server, and the counters of its connections.

Law 1  Every transaction can be stopped, lost or late on its way, or its result can be.
Law 2  The counters are the ones that ship (`duly.store.slot`); what a connection does with them is
       what `duly.store.postgres_session` does with a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final, Protocol, TypeVar

from duly.env import Env
from duly.errors import StoreOlder, StoreUnavailable
from duly.store.base import Durability, Transaction
from duly.store.postgres_session import OF_LEASE
from duly.store.slot import Entered, HostSlots, Slot, enter, move
from duly.testing.crash import AFTER, BEFORE, CrashPoints
from verification.fleet.scenario import ASKED, Mishap, What
from verification.fleet.server import ConnectionLost, Request, Server, name_of
from verification.point import AnswerLost

R = TypeVar("R")

CONNECT_S: Final = 2.0  # how long a host tries to reach the store
PATIENCE_S: Final = 3.0  # how long it waits for an answer
BEHIND_S: Final = 6.0  # longer than the host waits between two renewals
LATER: Final = (What.LATE, What.LATE_ASKED)
ENTRY: Final = "enter_slot"
CALLS_MAX: Final = 3_000  # so many transactions in one second, and it runs in circles


class Unheard(AnswerLost):
    """The answer was lost; the host may ask what became of its transaction."""

    def __init__(self, request: Request[Any], *, is_asked: bool) -> None:
        super().__init__("The store has not answered.")
        self.request = request
        self.is_asked = is_asked


class Caller(Protocol):
    """As much of a host as its way to the server needs."""

    next_mishap: Mishap | None

    @property
    def env(self) -> Env:
        """Its clocks."""

    @property
    def host_id(self) -> str:
        """The id under which it writes now."""

    @property
    def is_cut(self) -> bool:
        """Tell whether it does not reach the store."""

    @property
    def is_refused(self) -> bool:
        """Tell whether it gets no connection but that of its lease."""

    def die(self) -> None:
        """Let the process be dead."""


class Line:
    """The way of one process to the server: every transaction can be stopped, lost or late."""

    def __init__(self, caller: Caller, server: Server, points: CrashPoints) -> None:
        self.server = server
        self._caller = caller
        self._points = points
        self._second = 0
        self._calls = 0

    async def transact(
        self,
        body: Callable[[Transaction], R],
        durability: Durability,
        *,
        life: int | None = None,
        host_id: str | None = None,
        heard: Callable[[], None] = lambda: None,
    ) -> R:
        """Send a transaction to the server and wait for its result.

        It is of the host as it is called now, unless an id is given. If the server was gone it is
        sent again. One that is counted belongs to the server on which its slot was entered: a
        connection leads to one server, also when it is used much later.
        """
        verb = name_of(body)
        is_write = durability is not Durability.READ
        self._points.stop_if_dead()
        self._check_pace()
        host_id = host_id or self._caller.host_id
        if is_write:
            self._points.reach(BEFORE, verb)
        await self._caller.env.sleep(0)  # a host that is stopped here sends it when it goes on
        self._points.stop_if_dead()
        mishap, self._caller.next_mishap = self._caller.next_mishap, None
        try:
            result = await self._send(body, durability, host_id, mishap, life)
        except ConnectionLost:
            if life is not None:
                raise
            result = await self._send(body, durability, host_id, None, None)
        heard()
        self._points.stop_if_dead()
        if is_write:
            self._points.reach(AFTER, verb)
        await self._caller.env.sleep(0)
        self._points.stop_if_dead()
        return result

    async def connect(self) -> None:
        """Find a connection besides that of the lease."""
        if self._caller.is_refused:
            await self._caller.env.sleep(CONNECT_S)
            self._points.stop_if_dead()
            raise StoreUnavailable("The server has no connection to spare.")

    async def _send(
        self,
        body: Callable[[Transaction], R],
        durability: Durability,
        host_id: str,
        mishap: Mishap | None,
        life: int | None,
    ) -> R:
        env = self._caller.env
        if self._caller.is_cut:
            await env.sleep(CONNECT_S)
            raise StoreUnavailable("The store cannot be reached.")
        # The entry of a slot locks its row before its commit is sent: no later entry overtakes it.
        is_late = mishap is not None and mishap.what in LATER and name_of(body) != ENTRY
        late_s = 0.0 if mishap is None or not is_late else mishap.lasts_s
        request = self.server.submit(body, durability, host_id, late_s, life)
        if mishap is None:
            return await self.server.hear(request)
        if mishap.what is What.BEHIND:
            await request.answer
            self.server.fall(round(mishap.lasts_s), is_promotion=True)
            await env.sleep(BEHIND_S)
            return await self.server.hear(request)
        if not is_late:
            await request.answer
        await env.sleep(PATIENCE_S)
        raise Unheard(request, is_asked=mishap.what in ASKED)

    def _check_pace(self) -> None:
        second = self._caller.env.monotonic_ms() // 1000
        if second != self._second:
            self._second, self._calls = second, 0
        self._calls += 1
        if self._calls == CALLS_MAX:
            self._caller.die()
            raise AssertionError("the host runs in circles")

    async def ask(self, body: Callable[[Transaction], R]) -> R:
        """Send a question."""
        return await self.transact(body, Durability.READ)

    async def sync(self) -> None:
        """Return when what was committed is durable."""

        def flush(tx: Transaction) -> None:
            """Write nothing; what waits for the disk makes everything before it durable."""

        await self.transact(flush, Durability.BARRIER)

    async def close(self) -> None:
        """Hang up."""


class CountedBackend:
    """The store as a host of a fleet writes to it: each write is counted (H2, H10)."""

    def __init__(
        self,
        line: Line,
        find_host: Callable[[], str],
        note: Callable[[Transaction], None],
        on_older: Callable[[], Awaitable[None]],
        on_lost_riders: Callable[[], None],
    ) -> None:
        self._line = line
        self._find_host = find_host
        self._note = note
        self._on_older = on_older
        self._on_lost_riders = on_lost_riders
        self._slots = HostSlots()
        # By connection: the slot that it has entered, and on which server.
        self._entered: dict[int, tuple[Slot, int]] = {}
        self._free: list[int] = []
        self._numbers = count()

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Run a transaction on a connection of its own; a write is counted."""
        await self._line.connect()
        if durability is Durability.READ:
            return await self._line.transact(body, durability)
        number = self._free.pop() if self._free else next(self._numbers)
        host_id = self._find_host()  # as in the product, every attempt is one of the same host
        try:
            return await self._try(number, host_id, body, durability)
        except ConnectionLost:
            return await self._try(number, host_id, body, durability)  # certainly not committed
        except StoreOlder:
            await self._on_older()
            self._slots.give_up(host_id)
            raise
        finally:
            self._free.append(number)
            if self._slots.take_lacking():
                self._on_lost_riders()

    async def _try(
        self, number: int, host_id: str, body: Callable[[Transaction], R], durability: Durability
    ) -> R:
        slot = await self._enter(number, host_id)
        began, (_, life) = self._slots.moment, self._entered[number]
        seen = Slot(slot.number, slot.host_id, slot.session, 0)  # it is entered anew meanwhile
        values: list[R] = []

        def counted(tx: Transaction) -> R:
            move(tx, seen)
            values.append(body(tx))
            return values[-1]

        def heard() -> None:
            """Note it at once, as a connection does: its caller may be cancelled meanwhile."""
            slot.commit_seq += 1
            self._slots.tell(slot, durability, began)

        counted.__name__ = name_of(body)
        try:
            return await self._line.transact(
                counted, durability, life=life, host_id=host_id, heard=heard
            )
        except asyncio.CancelledError:
            # A real connection runs it to its end all the same, and knows its number.
            self._entered.pop(number, None)
            raise
        except Unheard as lost:
            self._entered.pop(number, None)
            if not lost.is_asked:
                raise
            moved = slot.commit_seq + 1
            slot = await self._enter(number, host_id)
            is_committed = slot.commit_seq >= moved
            self._line.server.believe(lost.request, is_committed=is_committed)
            if not is_committed:
                raise ConnectionLost("It is not committed, and will not be.") from lost
            self._slots.tell(slot, durability, began)
            return values[-1]

    async def _enter(self, number: int, host_id: str) -> Slot:
        life = self._line.server.life
        known, entered_on = self._entered.get(number, (None, None))
        is_new = known is None or known.host_id != host_id or entered_on != life
        if known is not None and not is_new and not self._slots.must_compare:
            return known

        def enter_slot(tx: Transaction) -> Entered:
            self._note(tx)
            return enter(tx, self._slots, host_id, number)

        try:
            entered = await self._line.transact(enter_slot, Durability.BARRIER, host_id=host_id)
        except (asyncio.CancelledError, Unheard):
            self._entered.pop(number, None)  # it may be entered: this connection is used no more
            raise
        is_former = self._find_host() != host_id
        slot = self._slots.keep(entered, is_new=is_new, is_former=is_former)
        self._entered[number] = slot, life
        return slot

    @property
    def has_former(self) -> bool:
        """Tell whether what a former id was told is still compared."""
        return self._slots.has_former

    async def compare(self) -> None:
        """Compare on the connection of the lease, as `PostgresBackend.compare_for` does."""
        host_id = self._find_host()

        def enter_slot(tx: Transaction) -> Entered:
            return enter(tx, self._slots, host_id, OF_LEASE)

        try:
            entered = await self._line.transact(enter_slot, Durability.BARRIER, host_id=host_id)
        except StoreOlder:
            await self._on_older()
            self._slots.give_up(host_id)
            raise
        self._slots.keep(entered, is_former=self._find_host() != host_id)
        if self._slots.take_lacking():
            self._on_lost_riders()

    async def ask(self, body: Callable[[Transaction], R]) -> R:
        """Send a question."""
        await self._line.connect()
        return await self._line.ask(body)

    async def sync(self) -> None:
        """Return when what was committed is durable."""
        await self._line.sync()

    async def close(self) -> None:
        """Hang up."""
