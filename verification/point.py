"""The places where a host can die, and the store and the disk that know them.

Law 1  A crash is a moment: what the disk holds then is what the next host finds. Whatever the dead
       host's tasks still do reaches neither that disk nor the outside.
Law 2  Every write verb has its points: before it, after each of its statements, after its commit;
       the log has one before each sync, every outside call one before its effect and one after
       it, every question one before it, and every act of a person one after it was answered.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

from duly.store.base import Backend, Durability, Row, Transaction
from duly.testing.crash import AFTER, BEFORE
from verification.disk import MemoryDisk

R = TypeVar("R")
S = TypeVar("S")  # what the oracles of a play see of its store

BETWEEN: Final = "between the statements of"
SYNC: Final = "a sync of the log"
EFFECT: Final = "the effect"
QUESTION: Final = "the question"
HANDLER: Final = "the handler"
ANSWER: Final = "an answer to"  # a person was told that an act is done


class Crash(BaseException):
    """The host has died here."""


STEPS_MAX: Final = 20_000  # a life has some hundred; whoever needs so many runs in circles


class Points:
    """Counts the places a host comes by, and lets it die where it is told to."""

    def __init__(
        self, is_last: Callable[[str, int, int], bool], on_death: Callable[[str], None]
    ) -> None:
        # By the point's name, how many points there were, and how often this one.
        self._is_last = is_last
        self.on_point: Callable[[str], None] = lambda _: None
        self._on_death = on_death
        self.count = 0
        self.steps = 0
        self.on_circle: Callable[[], None] = lambda: None
        self.names: Counter[str] = Counter()
        self.is_dead = False
        self.died = asyncio.Event()

    def pass_by(self, moment: str, what: str) -> None:
        """Come by a place; the host may be dead afterwards, and does not notice yet."""
        if self.is_dead:
            return
        name = f"{moment} {what}"
        self.count += 1
        self.names[name] += 1
        self.on_point(name)
        if self._is_last(name, self.count, self.names[name]):
            self.is_dead = True
            self._on_death(name)
            self.died.set()

    def reach(self, moment: str, what: str) -> None:
        """Come by a place, and stop there if this is where the host dies."""
        self.pass_by(moment, what)
        self.stop_if_dead()

    def stop_if_dead(self) -> None:
        """Stop whoever belongs to a host that is dead, and whoever runs in circles."""
        self.steps += 1
        if self.steps == STEPS_MAX:
            self.is_dead = True
            self.on_circle()
        if self.is_dead:
            raise Crash


class PointedDisk(MemoryDisk):
    """A disk that says when its log is about to be synced, and can be told from another."""

    points: Points | None = None
    _digests: tuple[object, bytes, bytes] = (None, b"", b"")

    def digest(self) -> tuple[bytes, bytes]:
        """Name what is seen of it, and what is durable or could be; the same as long as it is."""
        done = (*self.counts.values(), *self.files)
        if self._digests[0] != done:
            seen, durable = sha256(), sha256()
            for name, file in sorted(self.files.items()):
                seen.update(name.encode() + file.content)
                durable.update(name.encode() + file.durable + repr(file.pending).encode())
            self._digests = done, seen.digest(), durable.digest()
        return self._digests[1:]

    def sync_wal(self) -> None:
        """Sync the log; a host that dies here has committed what is not durable."""
        if self.points is not None:
            # Nothing is raised here: SQLite and the writer would take it for an error of the disk.
            self.points.pass_by(BEFORE, SYNC)
        super().sync_wal()


class PointedBackend(Generic[S]):
    """A store's backend with points in it; `watch` is shown the store as of every commit.

    What was read is old when it is heard: `linger` lets others come in between, as a thread would.
    `glance` is shown the store as of every read of one name: what was to be seen there then.
    """

    def __init__(
        self,
        backend: Backend,
        points: Points,
        see: Callable[[Transaction], S],
        watch: Callable[[S], None],
        linger: Callable[[], Awaitable[None]],
        glance: tuple[str, Callable[[S], None]] | None = None,
    ) -> None:
        self._backend = backend
        self._points = points
        self._see = see
        self._watch = watch
        self._linger = linger
        self._glanced, self._glance = glance or ("", watch)

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Run a verb, unless the host dies before, in between or right after."""
        if durability is Durability.READ:
            return await self._read(body)
        verb = body.__name__
        self._points.reach(BEFORE, verb)

        def pointed(tx: Transaction) -> tuple[R, S]:
            return body(PointedTransaction(tx, self._points, verb)), self._see(tx)

        answer, seen = await self._backend.transact(pointed, durability)
        self._points.stop_if_dead()  # what a dead host still sees is on no disk
        self._watch(seen)
        self._points.reach(AFTER, verb)
        return answer

    async def _read(self, body: Callable[[Transaction], R]) -> R:
        is_glanced = body.__name__ == self._glanced

        def seen(tx: Transaction) -> tuple[R, S | None]:
            return body(tx), self._see(tx) if is_glanced else None

        self._points.stop_if_dead()
        answer, found = await self._backend.transact(seen, Durability.READ)
        if found is not None:
            self._points.stop_if_dead()
            self._glance(found)
        await self._linger()
        self._points.stop_if_dead()
        return answer

    async def sync(self) -> None:
        """Return when everything committed so far is durable."""
        await self._backend.sync()

    async def close(self) -> None:
        """Give the database back."""
        await self._backend.close()


class PointedTransaction:
    """A transaction in which the host can die after every statement."""

    def __init__(self, tx: Transaction, points: Points, verb: str) -> None:
        self._tx = tx
        self._points = points
        self._verb = verb

    def all(self, statement: str, /, **parameters: Any) -> list[Row]:
        """Run a statement and return every row."""
        return self._after(self._tx.all(statement, **parameters))

    def one(self, statement: str, /, **parameters: Any) -> Row | None:
        """Run a statement and return its only row, if there is one."""
        return self._after(self._tx.one(statement, **parameters))

    def run(self, statement: str, /, **parameters: Any) -> int:
        """Run a statement that returns no rows; answer how many rows it changed."""
        return self._after(self._tx.run(statement, **parameters))

    def _after(self, answer: R) -> R:
        self._points.reach(BETWEEN, self._verb)
        return answer
