"""The places where a host can die, and the store and the disk that know them.

Law 1  A crash is a moment: what the disk holds then is what the next host finds. Nothing that the
       dead host's tasks still do reaches that disk or the outside.
Law 2  Every write verb has its points: before it, after each of its statements, after its commit;
       the log has one before each sync, every outside call one before its effect and one after
       it, every question one before it, and every action of a person one after it was answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

from duly.errors import StoreUnavailable
from duly.store.base import Backend, Durability, Row, Transaction
from duly.testing.crash import BEFORE, CrashingBackend, CrashPoints
from verification.lent import LendingDisk

R = TypeVar("R")
S = TypeVar("S")  # what the oracles of a run see of its store

BETWEEN: Final = "between the statements of"
SYNC: Final = "a sync of the log"
EFFECT: Final = "the effect"
QUESTION: Final = "the question"
HANDLER: Final = "the handler"
ANSWER: Final = "an answer to"  # a person was told that an action is done


class AnswerLost(StoreUnavailable):
    """The store may have done what it was asked, or do it later; its answer was not heard."""


class PointedDisk(LendingDisk):
    """A disk that says when its log is about to be synced, and can be told from another."""

    points: CrashPoints | None = None
    _digests: tuple[object, bytes, bytes] = (None, b"", b"")

    def digest(self) -> tuple[bytes, bytes]:
        """Name what is seen of it, and what is durable or could be; the same as long as it is."""
        done = (*self.counts.values(), *self.files)
        if self._digests[0] != done:
            seen, durable = sha256(), sha256()
            for name, file in sorted(self.files.items()):
                of_content, of_durable = file.digests()
                seen.update(name.encode() + of_content)
                durable.update(name.encode() + of_durable)
            self._digests = done, seen.digest(), durable.digest()
        return self._digests[1:]

    def sync_wal(self) -> None:
        """Sync the log; a host that dies here has committed what is not durable."""
        if self.points is not None:
            # Nothing is raised here: SQLite and the writer would take it for an error of the disk.
            self.points.pass_by(BEFORE, SYNC)
        super().sync_wal()


class PointedBackend(CrashingBackend, Generic[S]):
    """A store's backend with points in it; `watch` is shown the store as of every commit.

    What was read is old when its caller gets it: `linger` lets other tasks run in between, as a
    thread would. `glance` is shown the store as of every read of one name.
    """

    def __init__(
        self,
        backend: Backend,
        points: CrashPoints,
        see: Callable[[Transaction], S],
        watch: Callable[[S], None],
        linger: Callable[[], Awaitable[None]],
        glance: tuple[str, Callable[[S], None]] | None = None,
    ) -> None:
        super().__init__(backend, points)
        self._see = see
        self._watch = watch
        self._linger = linger
        self._glanced, self._glance = glance or ("", watch)

    async def _write(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        verb = body.__name__

        def pointed(tx: Transaction) -> tuple[R, S]:
            return body(PointedTransaction(tx, self._points, verb)), self._see(tx)

        result, seen = await self._transact(pointed, durability)
        self._points.stop_if_dead()  # what a dead host still sees is on no disk
        self._watch(seen)
        return result

    async def _read(self, body: Callable[[Transaction], R]) -> R:
        is_glanced = body.__name__ == self._glanced

        def seen(tx: Transaction) -> tuple[R, S | None]:
            return body(tx), self._see(tx) if is_glanced else None

        self._points.stop_if_dead()
        result, found = await self._transact(seen, Durability.READ)
        if found is not None:
            self._points.stop_if_dead()
            self._glance(found)
        await self._linger()
        self._points.stop_if_dead()
        return result


class PointedTransaction:
    """A transaction in which the host can die after every statement."""

    def __init__(self, tx: Transaction, points: CrashPoints, verb: str) -> None:
        self._tx = tx
        self._points = points
        self._verb = verb
        self.host: str | None = tx.host

    def all(self, statement: str, /, **parameters: Any) -> list[Row]:
        """Run a statement and return every row."""
        return self._after(self._tx.all(statement, **parameters))

    def one(self, statement: str, /, **parameters: Any) -> Row | None:
        """Run a statement and return its only row, if there is one."""
        return self._after(self._tx.one(statement, **parameters))

    def run(self, statement: str, /, **parameters: Any) -> int:
        """Run a statement that returns no rows; return how many rows it changed."""
        return self._after(self._tx.run(statement, **parameters))

    def write(self, statement: str, /, **parameters: Any) -> None:
        """Run a statement of which nothing is asked."""
        self._tx.write(statement, **parameters)
        self._after(None)

    def change(
        self, statement: str, what: str, rows: int | None = None, /, **parameters: Any
    ) -> None:
        """Run a write that must change so many rows, or some."""
        self._tx.change(statement, what, rows, **parameters)
        self._after(None)

    @property
    def clock_ms(self) -> int:
        """What the database's own clock shows."""
        return self._tx.clock_ms

    @property
    def timeline(self) -> int | None:
        """Which history the database tells."""
        return self._tx.timeline

    @property
    def started(self) -> int | None:
        """When the server began."""
        return self._tx.started

    @property
    def seal_key(self) -> bytes | None:
        """The key that rows are sealed with."""
        return self._tx.seal_key

    def _after(self, answer: R) -> R:
        self._points.reach(BETWEEN, self._verb)
        return answer
