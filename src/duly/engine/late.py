"""Writes the answers of sends that came after the host had stopped waiting (L1, L6).

Law 1  A late yes settles a row that is still unknown, whichever of its sends it was. A late no
       settles it only if no other send of the row is unknown. Any other answer is shown beside
       what was decided meanwhile, by a person or by asking.
Law 2  A late answer comes once. It is written with a barrier, and retried while the store cannot
       write. If the host must end before that, the answer is in the log.
Law 3  It never overtakes a send that is on its way: it waits while the row is in flight.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from duly.engine.announcements import Announcements
from duly.engine.base import Parts, StepFailed
from duly.engine.ledger import Heard
from duly.engine.sends import Sending
from duly.engine.worker import Worker
from duly.errors import Fenced, NotFound, Stale, StoreError, StoreLost
from duly.rules import lifecycle
from duly.rules.failure import ANSWERED
from duly.rules.late import LateAnswer, read_late
from duly.rules.ledger import Knowledge
from duly.rules.lifecycle import GROWS_GENERATION
from duly.rules.schedule import moment
from duly.rules.word import Answer, Failure, Known, MutationStatus, Status
from duly.store.base import Fence
from duly.store.record import MutationRow, Recorded, RunRow
from duly.words.late import say_late
from duly.words.phrase import Clock

AGAIN_S: Final = 1.0  # how soon a row is looked at again that was being sent or changed
TROUBLE_S: Final = 10.0  # and how soon a store that could not write
CLOSE_S: Final = 30.0  # how long a host that ends waits for what is not written yet

log = logging.getLogger("duly.engine")


class Late:
    """Writes late answers, each in a task of its own."""

    def __init__(self, parts: Parts, worker: Worker, on_written: Callable[[str], None]) -> None:
        self._parts = parts
        self._worker = worker
        self._announcements = Announcements(parts)
        self._on_written = on_written
        self._tasks: set[asyncio.Task[None]] = set()
        worker.ledger.on_late = self.take

    def take(self, mutation_id: str, sending: Sending, heard: Heard) -> None:
        """Take an answer in; it is written when the store can."""
        work = self._keep(mutation_id, sending, heard)
        task = self._parts.env.spawn(work, f"late answer of {mutation_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait until everything is written; what cannot be is in the log."""
        tasks = tuple(self._tasks)
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=CLOSE_S)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    async def _keep(self, mutation_id: str, sending: Sending, heard: Heard) -> None:
        late = self._describe(sending, heard)
        said = say_late(late.facts, Clock(self._parts.env.now_ms()), sending.tool.name)
        log.warning("%s (mutation %s)", said, mutation_id)
        try:
            while not await self._try(mutation_id, sending, heard, late, said):
                await self._parts.env.sleep(AGAIN_S)
            sending.is_late = False
        except asyncio.CancelledError:
            log.error("a late answer could not be kept: %s (mutation %s)", said, mutation_id)
            raise

    async def _try(
        self, mutation_id: str, sending: Sending, heard: Heard, late: LateAnswer, said: str
    ) -> bool:
        """Try to write an answer; tell whether nothing is left to do."""
        try:
            return await self._write(mutation_id, sending, heard, late, said)
        except (Stale, Fenced):
            return False  # another task or a person was faster: read the row again
        except (StoreLost, NotFound) as error:
            log.error("a late answer could not be kept: %s: %s", said, error)
            return True
        except StoreError as error:
            log.warning("a late answer waits to be kept: %s: %s", said, error)
            await self._parts.env.sleep(TROUBLE_S)
            return False

    async def _write(
        self, mutation_id: str, sending: Sending, heard: Heard, late: LateAnswer, said: str
    ) -> bool:
        store = self._parts.store
        row = await store.get_mutation(mutation_id)
        if row.status == MutationStatus.IN_FLIGHT:
            return heard.answer is Answer.UNKNOWN  # an answer that settles nothing need not wait
        run = await store.get_run(row.held_by)
        # A no is valid for the call only if this was its one send with an unknown end (L1).
        is_definite = not row.is_resent and sending.attempt == row.attempt
        new = lifecycle.late(run.state, heard.answer, is_definite=is_definite) if run.open else None
        # An answer that settles nothing is kept only where a person must decide; each once.
        is_news = heard.answer is not Answer.UNKNOWN or row.status == MutationStatus.INDETERMINATE
        # Where another host holds the workflow, that one asks about the call (H2).
        fence = None if new is None else await self._worker.claims.take(row.workflow_id)
        if new is not None and fence is not None:
            await self._settle(fence, row, run, new, heard, said)
        elif is_news and not any(each.is_same(late) for each in read_late(row.late)):
            await store.keep_late_answer(mutation_id, late)
        self._on_written(row.workflow_id)
        return True

    async def _settle(
        self,
        fence: Fence,
        row: MutationRow,
        run: RunRow,
        new: lifecycle.Run,
        heard: Heard,
        said: str,
    ) -> None:
        """Write that a late answer settles the row; a run that is active by it goes on (R4)."""
        parts, now = self._parts, self._parts.env.now_ms()
        live = self._worker.resume(await parts.store.outlook(row.workflow_id, fence.epoch), run)
        stop = None
        known = Knowledge(Known.ANSWERED, said=said)
        recorded = Recorded(row.attempt, result=heard.result_text, known=known)
        if new.status is not Status.ACTIVE:
            failure = FAILURES.get(heard.answer, Failure.TRANSIENT)
            message = f"{row.tool}: {heard.error} (answered late)"
            stop = self._worker.successor.stop(live, new, StepFailed(message, failure))
            refused = heard.answer in GROWS_GENERATION
            recorded = Recorded(row.attempt, error=stop.error, refused=refused, known=known)
        tells, error = (None, None) if stop is None else (stop.escalated, stop.error)
        announce = await self._announcements.changed(live, new, tells=tells, error=error)
        try:
            await parts.store.record_late(
                fence, run.id, run.state, new, recorded, stop=stop, now=now, announce=announce
            )
        except Fenced:
            self._worker.claims.drop(row.workflow_id, fence)
            raise
        self._worker.ledger.sends.forget(row.id)

    def _describe(self, sending: Sending, heard: Heard) -> LateAnswer:
        """Put together what a send returned, for a person who decided without it."""
        error = None if heard.error is None else self._worker.successor.clean(str(heard.error))
        at = moment(self._parts.env.now_ms())
        return LateAnswer(sending.attempt, at, heard.answer, error)


# The failure class of a late no. A missing sign-in or permission stops the fresh run again.
FAILURES: Final = {
    answer: failure
    for answer, failure in ANSWERED.items()
    if failure not in (Failure.AUTH, Failure.PERMISSION)
}
