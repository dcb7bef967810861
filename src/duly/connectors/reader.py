"""Reads what strangers wrote (mails, feeds), in a locked process that can be killed (K7).

Law 1: a connector names a reader of `READERS` and gives it bytes; no other code runs in there.
Law 2: bytes that cost too much, break the reader or kill its process are one item that could not
       be read: the caller gets `Unreadable`, which says why, and the next bytes are read as ever.
       Bytes that last too long and compute little are not at fault: a locked process cannot wait,
       so the machine was busy. They are read again later; the third time they are unreadable.
Law 3: a process is used again and again; the first one starts with the first bytes, one that is
       idle for a minute ends by itself, and `close` leaves none behind.

Documents have a process of their own kind (`document_cell.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from duly import fork
from duly.cell.cell import Cell, CellBounds, CellClosed, CellOverrun, CellStarved
from duly.cell.serve import CellAnswer, Reader, question, serve
from duly.connectors import feed_text, mail, s3_text
from duly.connectors.base import Connector
from duly.errors import DulyError, NotSent

T = TypeVar("T")

PROGRAM: Final = "duly.connectors.reader:main"
NEEDED: Final = ("duly", "msgspec")
CELLS_MAX: Final = 2  # processes of one connector that read at the same time
MEMORY_BYTES: Final = 512 * 1024 * 1024
BOUNDS: Final = CellBounds(cpu_s=2.0, wall_s=10.0, answer_bytes=2 * 1024 * 1024)
STARVED_MAX: Final = 3  # times that the same bytes may be at no fault
STARVED_KEPT: Final = 100  # of the bytes that this is counted for
TRIES_MAX: Final = 2  # a process may have ended by itself while it was idle

READERS: Final[Mapping[str, Reader]] = {
    "mail": mail.read_mail,
    "mail.id": mail.read_id,
    "mail.part": mail.read_part,
    "feed": feed_text.read_feed,
    "feed.entry": feed_text.read_entry,
    "s3.list": s3_text.read_list,
}


class Unreadable(DulyError):
    """It cannot be read."""


class Readers:
    """The processes of one connector; used from any of its threads."""

    def __init__(
        self,
        program: str = PROGRAM,
        needed: tuple[str, ...] = NEEDED,
        bounds: CellBounds = BOUNDS,
    ) -> None:
        self.is_unlocked = False  # whether less than a complete lock was accepted (X1)
        self.bounds = bounds
        self._program, self._needed = program, needed
        self._begin()

    def _begin(self) -> None:
        self._door = threading.Lock()
        self._slots = threading.BoundedSemaphore(CELLS_MAX)
        self._idle: list[Cell] = []
        self._busy: set[Cell] = set()
        self._closed = 0  # how often it was closed
        self._starved: dict[bytes, int] = {}
        fork.own(self)

    def read(self, name: str, data: bytes, kind: type[T], bounds: CellBounds | None = None) -> T:
        """Let a reader read bytes, within its own bounds if it has any; or raise Unreadable."""
        with self._slots:
            closed = self._closed
            for _ in range(TRIES_MAX):
                cell = self._take(closed)
                try:
                    asked = question(name, data)
                    return _value(cell.ask(asked, bounds or self.bounds), kind)
                except CellStarved as error:
                    if self._is_at_fault(data):
                        raise Unreadable(str(error)) from None
                    raise NotSent(f"The machine is too busy to read it: {error}.") from None
                except CellOverrun as error:
                    raise Unreadable(str(error)) from None
                except CellClosed:
                    if closed != self._closed:
                        raise NotSent("The host was closed while it read.") from None
                finally:
                    self._give_back(cell, closed)
        raise Unreadable("reading it ended the process that reads")

    def _is_at_fault(self, data: bytes) -> bool:
        """Count that bytes lasted too long; tell whether they did so too often (law 2)."""
        mark = sha256(data).digest()
        with self._door:
            count = self._starved.pop(mark, 0) + 1
            if count < STARVED_MAX:
                self._starved[mark] = count  # the newest is the last
            for each in tuple(self._starved)[:-STARVED_KEPT]:
                del self._starved[each]
        return count >= STARVED_MAX

    def close(self) -> None:
        """End every process; the next bytes start another."""
        with self._door:
            self._closed += 1
            idle, self._idle = self._idle, []
            for cell in self._busy:
                cell.kill()
        for cell in idle:
            cell.close()

    def abandon(self) -> None:
        """Leave the processes to the parent, in a forked child (H1)."""
        for cell in (*self._idle, *self._busy):
            cell.abandon()
            fork.leak(cell)
        self._begin()

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes there are."""
        with self._door:
            return tuple(cell.pid for cell in (*self._idle, *self._busy))

    def _take(self, closed: int) -> Cell:
        while True:
            with self._door:
                cell = self._idle.pop() if self._idle else None
                if cell is not None:
                    self._busy.add(cell)
            if cell is None:
                return self._start(closed)
            if cell.is_alive:
                return cell
            self._give_back(cell, closed)

    def _start(self, closed: int) -> Cell:
        try:
            with fork.HELD:
                cell = Cell(self._program, self._needed)
                with self._door:
                    self._busy.add(cell)
                    is_late = closed != self._closed
        except OSError as error:
            raise NotSent(f"The process that reads could not be started: {error}") from error
        if is_late:
            cell.kill()  # It was closed meanwhile, and that did not see this process.
        try:
            cell.ready(is_unlocked=self.is_unlocked)
        except BaseException as error:
            with self._door:
                self._busy.discard(cell)
            cell.close()
            if isinstance(error, CellClosed):
                raise NotSent(f"The process that reads could not be started: {error}") from error
            raise
        return cell

    def _give_back(self, cell: Cell, closed: int) -> None:
        with self._door:
            self._busy.discard(cell)
            # A process that was killed may look alive for a moment.
            is_kept = closed == self._closed and cell.is_alive
            if is_kept:
                self._idle.append(cell)
        if not is_kept:
            cell.close()


class ReadingConnector(Connector):
    """A connector that reads what strangers wrote."""

    _readers: Readers | None = None

    @property
    def readers(self) -> Readers:
        """The processes it reads in; none is started before the first bytes."""
        if self._readers is None:
            object.__setattr__(self, "_readers", Readers())  # a connector may be frozen
        assert self._readers is not None
        return self._readers


def _value(body: bytes, kind: type[T]) -> T:
    """Decode an answer of the process; it is as hostile as the bytes it was made from."""
    try:
        answer = msgspec.json.decode(body, type=CellAnswer)
        if answer.error is None:
            return msgspec.json.decode(answer.value, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Unreadable("the process that reads made no sense of it") from None
    raise Unreadable(f"it breaks the reader ({answer.error[:100]})")


def main(channel: int) -> None:
    """Be the process that reads."""
    mail.warm_up()
    feed_text.warm_up()
    s3_text.warm_up()
    serve(channel, READERS, memory_bytes=MEMORY_BYTES)
