"""The one writer of a SQLite database: it commits in groups and says when a group is on the disk.

Law 1: one batch at a time touches the connection. Callers that wait while it runs are in the next.
Law 2: no caller gets its result before COMMIT, and a barrier's caller not before the sync that
       covers it (L2), also if the barrier changed no row: it may have read what a rider wrote.
Law 3: a job that fails, fails alone; a batch that is lost is run again, one job at a time.
Law 4: after a failed sync nothing is known about the disk, so every further call raises: the store
       must be opened again, as after a crash.

The connection runs with `synchronous=normal`: SQLite orders its checkpoints with syncs of its own,
and a COMMIT syncs nothing. The sync of the write-ahead log is ours (decision 010).

A batch with a barrier blocks, so it goes to a thread. A batch without one is a matter of
microseconds and runs where it is, unless the batches before it were slow. If no other caller waits,
it is not even a batch: the job runs inside its caller's own call, some times in a row.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import apsw

from duly import fork
from duly.env import Env
from duly.errors import (
    DulyError,
    IllegalTransition,
    StoreError,
    StoreForked,
    StoreLost,
    StoreUnavailable,
    parts_of,
)
from duly.store.base import Durability, Transaction
from duly.store.disk import shut
from duly.store.failure import explain, is_sync_failure
from duly.store.job import Job, WaitingJob
from duly.store.queries import Statement
from duly.store.transaction import NOT_OPEN, FindKey, NamedTransaction
from duly.store.wal import CHECKPOINT_PAGES, WriteAheadLog

R = TypeVar("R")

BATCH_JOBS_MAX = 500
IDLE_SYNC_MS = 10
INLINE_JOBS_MAX = 20
INLINE_SLOW_MS = 5
INLINE_PAUSE_BATCHES = 10
# So many jobs run inside their callers before one waits for its turn: a caller that asks again and
# again must let the event loop come round.
DIRECT_JOBS_MAX = 16
AT_ONCE = frozenset({Durability.READ, Durability.RIDER})


class TransactionLost(Exception):
    """SQLite has ended the transaction by itself, and everything in it is gone."""


class Writer:
    """Runs transactions on one connection: a queue, a drain, and the moments of durability."""

    def __init__(
        self,
        connection: apsw.Connection,
        statements: Mapping[str, Statement],
        env: Env,
        *,
        path: str,
        sync_wal: Callable[[], None],
        release: Callable[[], None],
        say_closed: Callable[[], None],
        say_level: Callable[[], None],
        say_ahead: Callable[[], None],
        checkpoint_pages: int = CHECKPOINT_PAGES,
        is_direct: bool = True,
    ) -> None:
        self._connection = connection
        self._execute = connection.cursor().execute
        self._transaction = NamedTransaction(connection, statements)
        self._env = env
        self._loop = asyncio.get_running_loop()
        self._path = path
        self._sync_wal = sync_wal
        self._release = release
        self._say_closed = say_closed
        self.log = WriteAheadLog(
            connection,
            say_level=say_level,
            say_ahead=say_ahead,
            checkpoint_pages=checkpoint_pages,
        )
        self._waiting: deque[WaitingJob] = deque()
        # How many read on connections of their own. Both belong to the event loop.
        self._reading = 0
        self._moving = asyncio.Lock()
        self._moved = asyncio.Event()
        # Whether a batch is at work whose commits can be seen before they are on the disk.
        self._is_committing = False
        self._drainer: asyncio.Task[None] | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._broken: StoreLost | None = None
        self._closing = False
        self._shut_down = False
        # A drain that was cancelled leaves its thread at work; closing waits for it here.
        self._lock = threading.Lock()
        self._inline_pause_batches = 0
        self._is_direct = is_direct  # whether a job may run inside its caller's own call
        self._in_a_row = 0  # how many did since the last that waited
        fork.own(self)

    @property
    def seal_key(self) -> bytes | None:
        """The key that rows are sealed with, if there is one."""
        return self._transaction.seal_key

    def seal_with(self, find_key: FindKey) -> None:
        """Seal the rows that end from now on with this key; it is looked up each time (L15)."""
        self._transaction.find_key = find_key

    def abandon(self) -> None:
        """Leave the store to the parent, in a forked child (H1): nothing is asked of SQLite."""
        if self._shut_down:
            return
        self._broken = StoreForked(code="store_forked", subject=str(self._path))
        self._shut_down = True
        # A thread of the parent may hold it, and that thread does not exist here.
        self._lock = threading.Lock()
        fork.quiet(self._loop)

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Run `body` in a transaction of its own; return its result once that is durable.

        A caller that is cancelled before its job was taken has changed nothing; one that is
        cancelled later may have: the job is carried out.
        """
        self.require_open()
        if durability in AT_ONCE and self._take_turn():
            return self._commit_now(body, durability)
        self._in_a_row = 0
        return await self._enqueue(body, durability)  # type: ignore[no-any-return]

    async def sync(self) -> None:
        """Return when everything committed so far is power-loss durable."""
        await self._enqueue(_nothing, Durability.BARRIER)

    async def between(self, work: Callable[[], R]) -> R:
        """Do something short with the connection between two batches; it must write nothing."""

        def alone() -> R:
            with self._lock:
                self._require_sound()
                return work()

        self._require_sound()
        return await self._env.call_blocking(alone)

    async def close(self) -> None:
        """Finish the jobs of all waiting callers, sync, and give the connection back."""
        if isinstance(self._broken, StoreForked):
            self._require_sound()
        self._closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        try:
            if self._broken is None:
                await self.sync()
        finally:
            await self._env.call_blocking(self._shut)

    def _take_turn(self) -> bool:
        """Take the connection for one job, if no caller waits and it would hold up no other."""
        return (
            self._is_direct
            and not self._waiting
            and (self._drainer is None or self._drainer.done())
            and self._in_a_row < DIRECT_JOBS_MAX
            and self._inline_pause_batches == 0
            and not self.log.is_fresh
            and not self.log.is_long
            and not self.log.is_overgrown
            and self._lock.acquire(blocking=False)
        )

    def _commit_now(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Run one job where its caller is, with the lock taken by `_take_turn`."""
        try:
            try:
                self._in_a_row += 1
                job = Job(body, durability)
                started_ms = self._env.monotonic_ms()
                self._commit_locked([job])
            finally:
                self._lock.release()
        except BaseException as error:
            self._break(error, [])
            if not isinstance(error, Exception):
                raise
            self._require_sound()
        if self._env.monotonic_ms() - started_ms >= INLINE_SLOW_MS:
            self._inline_pause_batches = INLINE_PAUSE_BATCHES
        self.log.tell_growth()
        if self.log.is_long and not self._reading:
            self._start_drain()  # which moves the log
        self._sweep_later()
        if job.error is not None:
            raise job.error
        return job.value  # type: ignore[no-any-return]

    def _enqueue(
        self, body: Callable[[Transaction], Any], durability: Durability
    ) -> asyncio.Future[Any]:
        self._require_sound()
        job = WaitingJob(body, durability, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        # Not a flag: a task that is cancelled before its first step would never take it back.
        if self._drainer is None or self._drainer.done():
            self._start_drain()
        return job.future

    def _start_drain(self) -> None:
        self._drainer = self._env.spawn(self._drain(), "store writer")
        self._drainer.add_done_callback(self._replace_drain)

    def _replace_drain(self, drainer: asyncio.Task[None]) -> None:
        """Start another drain if this one was cancelled before it began: no caller may hang."""
        is_needed = any(not job.future.done() for job in self._waiting)
        if drainer is self._drainer and is_needed and self._broken is None:
            self._start_drain()

    async def _drain(self) -> None:
        """Commit batch after batch until no caller waits."""
        batch: list[WaitingJob] = []
        try:
            while self._waiting or (self.log.is_long and not self._reading):
                if self.log.is_overgrown:
                    await self._make_room()
                batch = self._take()
                self._is_committing = bool(batch)
                if batch:
                    await self._perform(batch)
                self._is_committing = False
                for job in batch:
                    job.answer()
                self.log.tell_growth()
                if self.log.is_long:
                    await self._make_room()
        except BaseException as error:
            self._break(error, batch)
            if not isinstance(error, Exception):
                raise
        self._sweep_later()

    def _sweep_later(self) -> None:
        """See that riders are synced, though no barrier follows."""
        is_swept = self._sweeper is not None and not self._sweeper.done()
        if self.log.is_unsynced and not is_swept and self._broken is None:
            self._sweeper = self._env.spawn(self._sweep(), "store sync")

    async def begin_reading(self) -> None:
        """Wait until a second connection may begin to read: not while the log is being moved.

        The log is moved as a whole or not at all (mark, law 3), so no reader may hold a part back.
        """
        self.require_open()
        while self._must_wait_for_log():
            self._moved.clear()
            await self._moved.wait()
            self.require_open()
        async with self._moving:
            self._reading += 1

    def _must_wait_for_log(self) -> bool:
        is_drained = self._drainer is None or self._drainer.done()
        return self.log.is_starved and (self._reading > 0 or not is_drained)

    async def sync_seen(self) -> None:
        """Return when everything that a reader can have seen is on the disk (L2)."""
        self._require_sound()
        if self.log.is_unsynced or self._is_committing:
            await self.sync()

    def end_reading(self) -> None:
        """Note that a reader has ended; a log that waited for it is moved now."""
        self._reading -= 1
        is_idle = self._drainer is None or self._drainer.done()
        if is_idle and self.log.is_long and self._broken is None:
            self._start_drain()

    def require_open(self) -> None:
        """Refuse a caller that comes after the store was closed, lost or forked."""
        self._require_sound()
        if self._closing:
            raise StoreUnavailable(code="store_closed", subject=str(self._path))

    async def _make_room(self) -> None:
        """Move the log into the database, unless a reader would hold a part of it back."""
        async with self._moving:
            if not self._reading:
                try:
                    await self._env.call_blocking(self._move_log)
                finally:
                    self._moved.set()

    def _take(self) -> list[WaitingJob]:
        """Take the waiting jobs, up to the limit; drop those whose caller was cancelled."""
        batch: list[WaitingJob] = []
        while self._waiting and len(batch) < BATCH_JOBS_MAX:
            job = self._waiting.popleft()
            if not job.future.done():
                batch.append(job)
        return batch

    async def _perform(self, batch: Sequence[Job]) -> None:
        """Commit a batch, in a thread if it would hold up the event loop."""
        if not self._is_quick(batch):
            self._inline_pause_batches = max(0, self._inline_pause_batches - 1)
            await self._env.call_blocking(lambda: self._commit(batch))
            return
        started_ms = self._env.monotonic_ms()
        self._commit(batch)
        if self._env.monotonic_ms() - started_ms >= INLINE_SLOW_MS:
            self._inline_pause_batches = INLINE_PAUSE_BATCHES

    def _is_quick(self, batch: Sequence[Job]) -> bool:
        return (
            self._inline_pause_batches == 0
            and not self.log.is_fresh
            and len(batch) <= INLINE_JOBS_MAX
            and all(job.durability is not Durability.BARRIER for job in batch)
        )

    async def _sweep(self) -> None:
        """Sync riders that no barrier synced: none stays in memory longer than this."""
        await self._env.sleep(IDLE_SYNC_MS / 1000)
        self._sweeper = None
        if self.log.is_unsynced and self._broken is None and not self._closing:
            try:
                await self.sync()
            except StoreError:
                # The next caller gets the error; no caller waits here.
                assert self._broken is not None

    def _break(self, error: BaseException, batch: list[WaitingJob]) -> None:
        """Raise in every call from now on (law 4)."""
        told = isinstance(error, DulyError | OSError | apsw.Error)
        cause = str(error) if told else repr(error)
        self._broken = StoreLost(
            code="store_stopped", subject=str(self._path), facts={"cause": cause}
        )
        self._moved.set()
        batch.extend(self._waiting)
        self._waiting.clear()
        for job in batch:
            job.error = StoreLost(**parts_of(self._broken))
            job.answer()

    def _require_sound(self) -> None:
        if self._broken is not None:
            # Each caller gets an error of its own: a traceback belongs to one raise.
            raise type(self._broken)(**parts_of(self._broken))

    # What follows runs in whichever thread holds the lock; nothing of it touches the event loop.

    def _commit(self, batch: Sequence[Job]) -> None:
        """Run a batch of jobs and note in each what became of it."""
        with self._lock:
            self._commit_locked(batch)

    def _commit_locked(self, batch: Sequence[Job]) -> None:
        self._require_sound()
        jobs = [job for job in batch if job.body is not _nothing]
        if self.log.is_overgrown:
            jobs = self._refuse_writers(jobs)
        try:
            if len(jobs) == 1:
                self._commit_alone(jobs[0])
            elif jobs:
                self._commit_together(jobs)
        finally:
            self._transaction.closed_by = NOT_OPEN
            self._roll_back()
        if any(job.durability is Durability.BARRIER for job in batch):
            self._sync()

    def _commit_alone(self, job: Job) -> None:
        try:
            # A reader asks for no right to write, so it works where nothing can be written.
            is_reader = job.durability is Durability.READ
            self._execute("begin" if is_reader else "begin immediate")
            value = self._run(job)
            self._execute("commit")
        except Exception as error:
            self._fail(job, error)
            self._roll_back()
        else:
            job.value = value

    def _commit_together(self, jobs: list[Job]) -> None:
        try:
            self._execute("begin immediate")
        except apsw.Error as error:
            # Nothing has run, and alone none of them would fare better.
            for job in jobs:
                self._fail(job, error)
            return
        try:
            for job in jobs:
                self._run_in_savepoint(job)
            self._execute("commit")
        except (apsw.Error, TransactionLost) as error:
            if is_sync_failure(error):
                raise
            self._roll_back()
            for job in jobs:
                job.value = job.error = None
                self._commit_alone(job)

    def _run_in_savepoint(self, job: Job) -> None:
        self._require_transaction()
        self._execute("savepoint job")
        try:
            value = self._run(job)
        except Exception as error:
            self._require_transaction()
            self._execute("rollback to job")
            self._fail(job, error)
        else:
            job.value = value
        self._execute("release job")
        self._require_transaction()

    def _run(self, job: Job) -> Any:
        self._transaction.closed_by = None
        value = job.body(self._transaction)
        if self._transaction.closed_by is not None:
            # The body shrugged at a failed statement; its transaction is not worth committing.
            raise self._transaction.closed_by
        self._require_transaction()
        return value

    def _require_transaction(self) -> None:
        if not self._connection.in_transaction:
            raise TransactionLost

    def _fail(self, job: Job, error: Exception) -> None:
        if is_sync_failure(error):
            raise error
        if isinstance(error, TransactionLost):
            error = StoreUnavailable(code="sqlite_gave_up", subject=str(self._path))
        if isinstance(error, StopIteration):
            # A future refuses this error, and the results of a whole batch would be lost with it.
            error = IllegalTransition("a transaction raised StopIteration; this is a bug in Duly")
        job.error = explain(error, self._path)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._execute("rollback")

    def _sync(self) -> None:
        if self.log.is_unsynced:
            self._sync_wal()
            self.log.is_unsynced = False

    def _move_log(self) -> None:
        with self._lock:
            self.log.move()

    def _refuse_writers(self, jobs: list[Job]) -> list[Job]:
        """Refuse jobs that write while the log cannot be moved (law 5); return the others."""
        if self.log.error is None:
            return jobs
        told = explain(self.log.error, self._path)
        for job in jobs:
            if job.durability is not Durability.READ:
                job.error = type(told)(f"{told}; the log is at its limit and takes nothing more")
        return [job for job in jobs if job.error is None]

    def _shut(self) -> None:
        with self._lock:
            if self._shut_down:
                return
            self._shut_down = True
            if self._broken is not None:
                # A page whose sync failed may read back as it was before: moving it into the
                # database would spread the damage.
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            else:
                self._say_closed()
            self._broken = self._broken or StoreLost(code="store_closed", subject=str(self._path))
            shut(self._connection)
            self._release()


def _nothing(transaction: Transaction) -> None:
    """Change nothing: the body of a bare sync, which needs no transaction."""
