"""The engine's loop: which workflow is due, and whose turn it is (S).

Law 1  At most one piece of work of a workflow runs at any moment; workflows run side by side, and
       beyond the host's slots they take turns, one run each (S1).
Law 2  What is due is read from the store. This object remembers only hints where to look, so
       losing them loses nothing (S8).
Law 3  An idle workflow costs nothing (S9): how the loop sleeps and wakes stands in `duly.loop`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from duly.engine import approval
from duly.engine.base import Parts
from duly.engine.ended import write_ends
from duly.engine.late import Late
from duly.engine.lease import Lease
from duly.engine.local import bind_granted
from duly.engine.settlement import settle
from duly.engine.upkeep import UPKEEP, Upkeep
from duly.engine.worker import Worker
from duly.errors import Fenced, NotFound, Stale, StoreError, StoreLost
from duly.loop import REST_MS, WorkLoop, end_within
from duly.rules.allowance import Allow
from duly.rules.schedule import earliest
from duly.rules.turn import Work
from duly.rules.value import Json
from duly.rules.word import Act
from duly.store.due import DUE_LIMIT_MAX, Due
from duly.store.record import Action

STOP_S: Final = 30.0  # how long an orderly stop waits for calls that are out (R7)

log = logging.getLogger("duly.engine")


class Engine(WorkLoop[str]):
    """Runs what is due; one piece of work is the turn of one workflow."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts.env)
        self._parts = parts
        # Called after work that may have announced something the bus is to deliver (B10).
        self.worked: Callable[[], None] = lambda: None
        self._worker = Worker(parts, on_repair_end=self._end_repair)
        self._late = Late(parts, self._worker, on_written=self._take_late)
        self._upkeep = Upkeep(parts)
        self._ready: dict[str, None] = {}  # workflows to look at, in the order of their turns
        self._again: set[str] = set()  # woken while they were running
        self._keeper: asyncio.Task[None] | None = None  # renews the lease of a host of a fleet
        self._sharing: asyncio.Task[None] | None = None  # gives back what is more than a share
        self._is_ending = False  # the lease lapsed while a send was out: the process ends
        self._is_cut = False  # the store knows of more than it named the last time
        self._has_moved = False  # something was done since then
        self._wake_max_ms = round(parts.policy.wake_max_s * 1000)

    # -- For callers ----------------------------------------------------------------------------

    def wake(self, workflow_id: str | None = None) -> None:
        """Look again: at one workflow, or at all of them."""
        lease = self._parts.lease
        if workflow_id is None:
            self._must_look = True
        elif workflow_id in self._at_work:
            self._again.add(workflow_id)
        else:
            self._ready[workflow_id] = None
            if lease is not None and not self._worker.claims.holds(workflow_id):
                lease.tell(workflow_id)  # another host may hold it, and knows nothing of it (H7)
        self._bell.set()

    def hear(self, workflow_id: str | None = None) -> None:
        """Look again because another host says so: at one workflow, or at all of them (H9)."""
        self._worker.claims.look_again(workflow_id)
        if workflow_id is None or workflow_id in self._at_work:
            self.wake(workflow_id)
        else:
            self._ready[workflow_id] = None
            self._bell.set()

    def doubt(self) -> None:
        """Claim anew what this host holds: riders that it was told of are lost (H10, R7).

        The store may show a run as it was before its last write, with nothing that is due.
        """
        for workflow_id in self._worker.claims.drop_all():
            self.wake(workflow_id)

    async def join(self) -> None:
        """Be a host of a fleet, from now until the engine is closed (H2)."""
        if self._parts.lease is not None:
            await self._worker.claims.join()
            self._start_keeper(self._parts.lease)

    def drop(self, run_id: str) -> None:
        """Cancel the task of a run that a person's act ended; a call that is out is not cut."""
        for workflow_id, live in self._worker.live.items():
            if live.id == run_id and not live.is_out and workflow_id in self._at_work:
                self._at_work[workflow_id].cancel()

    async def settle(
        self,
        mutation_id: str,
        answer: Act,
        *,
        said_ms: int,
        seen: int | None = None,
        result: Json = None,
        action: Action,
    ) -> None:
        """Decide an indeterminate mutation by what a person said at that moment (L10, L6)."""
        said = partial(settle, self._parts, self._worker, mutation_id, answer, said_ms=said_ms)
        await said(seen=seen, result=result, action=action)
        self.wake()

    async def approve(
        self, mutation_id: str, seen: str, *, action: Action, allow: Allow | None = None
    ) -> None:
        """Let exactly the proposed call be sent when its workflow runs (A4)."""
        await approval.approve(self._parts, mutation_id, seen, action=action, allow=allow)

    async def approve_all(
        self, seen: Mapping[str, str], *, action: Action
    ) -> tuple[str | None, ...]:
        """Let several proposed calls of one tool be sent; say of each why it was refused (A3)."""
        return await approval.approve_all(self._parts, seen, action=action)

    async def amend(
        self, mutation_id: str, seen: str, args: Mapping[str, Json], *, action: Action
    ) -> str:
        """Put a person's own arguments into a proposed call; return its new hash (A3)."""
        return await approval.amend(self._parts, mutation_id, seen, args, action=action)

    async def reject(
        self,
        mutation_id: str,
        *,
        reason: str | None = None,
        seen: str | None = None,
        action: Action,
    ) -> None:
        """Decline a proposed call (A4)."""
        await approval.reject(self._parts, mutation_id, reason=reason, seen=seen, action=action)

    async def close(self) -> None:
        """Wait until no task runs any more, put down what was not begun, and leave (R7, H2).

        Call it when no send is out: with its claims the host gives back the right to send (L6).
        """
        await self._stopped.wait()
        await self._worker.put_down_rest()  # a late answer waits for as long as a row is in flight
        await self._late.close()
        await self._worker.put_down_rest()  # and may have made its run active
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        await self._worker.claims.leave()

    # -- Looking --------------------------------------------------------------------------------

    async def _open(self) -> None:
        self._worker.is_stopping = False
        if self._is_ending:
            raise self._lost_lease()
        if self._parts.lease is not None:
            self._parts.lease.serve(is_on=True)
            self._start_keeper(self._parts.lease)
        await self._report_strays()

    async def _report_strays(self) -> None:
        """Log the reserved events that belong to no open run; there should never be any (R7)."""
        try:
            strays = await self._parts.store.list_strays()
        except StoreError as error:
            log.error("the store cannot be read: %s", error)
            return
        for stray in strays:
            log.error(
                "event %s of topic %s in workflow %s is reserved by run %s, which is over",
                stray.message_id,
                stray.topic,
                stray.workflow_id,
                stray.reserved_by,
            )

    async def _look(self, now: int, is_draining: bool) -> None:
        """Ask the store which workflows have something due, and when to ask again."""
        if self._is_ending:
            raise self._lost_lease()
        self._has_moved = False
        try:
            own = self._worker.claims.sight
            due = await self._parts.store.due(now, wake_max_ms=self._wake_max_ms, **own)
            tidy_at = await self._upkeep.due_at(now)
        except StoreLost:
            raise  # it never comes back: the caller of `serve` must open another host (H3)
        except StoreError as error:
            if is_draining:
                raise  # the caller of `drain` must not believe that nothing was due
            log.error("the store cannot be read: %s", error)
            self._rest()
            return
        for workflow_id in (*_workflows(due), *due.suspects):
            if workflow_id in self._at_work:
                # Its turn may have looked before this was due, and be about to end.
                self._again.add(workflow_id)
            else:
                self._ready.setdefault(workflow_id)
        if tidy_at is not None and tidy_at <= now and UPKEEP not in self._at_work:
            self._ready.setdefault(UPKEEP)  # behind everything else
        self._plan(earliest((due.next_at, _later(tidy_at, now))), now)
        # The rest comes when these have had their turn; until then the store is not read (S9).
        named = (due.runs, due.reconciles, due.producers, due.consumers)
        self._is_cut = any(len(each) >= DUE_LIMIT_MAX for each in named)

    @property
    def _has_more(self) -> bool:
        # If nothing was done, a look finds the same again: it comes after the rest, or a wake (H3).
        return self._is_cut and self._has_moved and not self._ready

    def _begin_found(self, is_draining: bool) -> bool:
        """Start a turn for every workflow that waits, as long as there are slots (S1)."""
        while self._ready and len(self._at_work) < self._parts.policy.runs_max:
            workflow_id = next(iter(self._ready))
            del self._ready[workflow_id]
            turn = partial(self._turn, workflow_id)
            self._begin(workflow_id, turn, f"workflow {workflow_id}")
        return bool(self._at_work or self._ready) or not self._worker.repairs.is_idle

    def _ended(self, workflow_id: str, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:
            # Also if a connector cancelled it: what is left of its run must be found again (R7).
            self._rest()
        if workflow_id in self._again:
            self._again.discard(workflow_id)
            self._ready[workflow_id] = None
        if self._is_cut and not self._has_moved and not self._ready:
            self._rest()  # nothing could be done in what was named; there is more
        self._bell.set()

    def _end_repair(self, workflow_id: str, is_failed: bool) -> None:
        """Look at the workflow after a repair; one that was cut short begins again later (F3)."""
        self.worked()
        if is_failed:
            self._rest()
            self._bell.set()
        else:
            self.wake(workflow_id)

    def _take_late(self, workflow_id: str) -> None:
        """Look at a workflow after a late answer was written (L1)."""
        self.worked()
        self.wake(workflow_id)

    # -- One workflow's turn --------------------------------------------------------------------

    async def _turn(self, workflow_id: str) -> None:
        """Do what is due in one workflow until nothing is, or until others wait for the slot."""
        try:
            while not self._worker.is_stopping:
                self._again.discard(workflow_id)
                if not await self._do_next(workflow_id):
                    return
                self._has_moved = True
                if self._ready:  # one run each, then the next workflow has its turn
                    self._again.add(workflow_id)
                    return
        except (Stale, Fenced) as error:
            self._worker.claims.drop(workflow_id)
            if error.code != "lapsed":  # a host that has lapsed looks when it is another (H2)
                self._again.add(workflow_id)  # another task or a person was faster: look again
        except NotFound:
            self._worker.claims.drop(workflow_id)
            log.info("workflow %s is gone", workflow_id)
        except Exception as error:
            self._worker.claims.drop(workflow_id, is_fault=not isinstance(error, StoreError))
            told = "workflow %s: backing off for %d s: %s"
            log.error(told, workflow_id, REST_MS // 1000, error, exc_info=error)
            self._rest()
        except BaseException:
            self._worker.claims.drop(workflow_id)
            raise

    async def _do_next(self, workflow_id: str) -> bool:
        if workflow_id == UPKEEP:
            return await self._keep_up()
        fence = await self._worker.claims.take(workflow_id)
        if fence is None:
            return False  # another host has it; when that is gone, a look finds it again (H2)
        if fence.gone is not None:
            is_moved = await self._worker.stand_in(fence, fence.gone)
            self.worked()
            return is_moved
        await bind_granted(self._parts, fence)
        now = self._parts.env.now_ms()
        taken = await self._worker.take_turn(fence, self._wake_max_ms, now)
        if taken.choice.work is Work.NOTHING:
            self._plan(taken.choice.look_at, now)
            return False
        if taken.choice.work is Work.HAND_OVER:
            await write_ends(self._parts, self._worker)
            await self._worker.hand_over(taken)
            self.worked()
            return False
        is_heard = True
        try:
            is_heard = await self._worker.do(taken)
        finally:
            if is_heard:
                self.worked()
        return True

    async def _keep_up(self) -> bool:
        if await self._upkeep.take_turn():
            return True
        now = self._parts.env.now_ms()
        self._plan(await self._upkeep.due_at(now), now)
        return False

    # -- A host of a fleet ----------------------------------------------------------------------

    def _start_keeper(self, lease: Lease) -> None:
        """Let a task keep the lease, unless one does already."""
        if self._keeper is None or self._keeper.done():
            self._keeper = self._parts.env.spawn(self._keep_lease(lease), "lease")

    async def _keep_lease(self, lease: Lease) -> None:
        """Keep the lease; when it has lapsed, come back as another host (H2).

        It is kept until the host is closed, not only while it works: a send may outlast a stop.
        """
        while not self._is_ending:
            try:
                await self._worker.claims.join()
            except StoreError as error:
                log.warning("the host cannot join yet: %s", error)
                await self._parts.env.sleep(lease.times.renew_ms / 1000)
                continue
            self.hear()
            await lease.keep(self._renewed)
            await self._lapse(lease)

    def _renewed(self) -> None:
        """Look for what is free now, and give back what is more than the share (H7)."""
        self.hear()
        assert self._parts.lease is not None
        self._parts.lease.renewed()
        for workflow_id in self._parts.lease.gone:
            self._ready.setdefault(workflow_id)
        if self._sharing is None or self._sharing.done():
            self._sharing = self._parts.env.spawn(self._share(), "share")

    async def _share(self) -> None:
        await write_ends(self._parts, self._worker)
        try:
            await self._worker.claims.give_back(self._at_work.keys())
        except StoreError as error:
            log.info("no workflow could be given back yet: %s", error)

    async def _lapse(self, lease: Lease) -> None:
        """Drop all memory of runs; a host with a send out ends its process instead (H2)."""
        log.error("host %s has lost its lease", lease.host_id)
        self._worker.claims.forget()
        if self._parts.outside.sends_out() or lease.is_calling():
            self._is_ending = self._worker.is_stopping = True
            lease.lost = self._lost_lease
            lease.end()
            self.wake()  # and the caller of `serve` is told
            return
        lease.lapsed()
        tasks = tuple(self._at_work.values())
        for task in tasks:
            task.cancel()
        await self._worker.repairs.stop()
        if tasks:
            await asyncio.wait(tasks)

    def _lost_lease(self) -> StoreLost:
        assert self._parts.lease is not None
        tools = sorted(each.tool for each in self._parts.outside.sends_out())
        facts = {"tools": tools or ["a handler"]}
        return StoreLost(code="lapsed_sending", subject=self._parts.lease.host_id, facts=facts)

    # -- Stopping -------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """Start nothing new, wait for calls that are out, put the other runs down (R7)."""
        if self._parts.lease is not None:
            self._parts.lease.serve(is_on=False)
        self._worker.is_stopping = True
        tasks = dict(self._at_work)
        for workflow_id, live in self._worker.live.items():
            if not live.is_out and workflow_id in tasks:
                tasks[workflow_id].cancel()
        await end_within(tasks.values(), STOP_S)
        await self._worker.repairs.stop()
        self._ready.clear()
        self._again.clear()


def _later(at: int | None, now: int) -> int | None:
    return at if at is not None and at > now else None


def _workflows(due: Due) -> tuple[str, ...]:
    """The workflows that have something due, each once: open runs, questions, then the rest."""
    groups = (due.runs, due.reconciles, due.consumers, due.producers)
    return tuple(dict.fromkeys(each.workflow_id for group in groups for each in group))
