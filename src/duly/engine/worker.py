"""Does one piece of work in one workflow.

Law 1  Every error that a run's own code raises ends in a stored stop; none is swallowed (F1, F5).
Law 2  A run that another task or a person changed meanwhile is left alone: the store refuses the
       write as stale, and the next look finds the new state (R8).
Law 3  A run whose call is out is never stopped as failed: it is left as it is, in flight, and
       found again as unknown (L3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from duly.engine.base import Parts, StepFailed
from duly.engine.claims import Claims
from duly.engine.ledger import Ledger
from duly.engine.library import Library
from duly.engine.live import Live, Notes, open_live, resume_live
from duly.engine.reconciler import Reconciler
from duly.engine.repair import Repairs
from duly.engine.run import take_steps
from duly.engine.successor import Successor
from duly.errors import Fenced, Invalid, RequestRefused, Stale, StoreError, StoreUnavailable
from duly.observed import Span, note, run_span
from duly.rules import lifecycle
from duly.rules.catalog import Tool
from duly.rules.fault import trace
from duly.rules.schedule import parse
from duly.rules.turn import Choice, HandlerOutlook, Work, choose, replanned
from duly.rules.value import decode
from duly.rules.word import Act, Failure, Kind, MutationStatus, Phase, Status, Verdict, Waits
from duly.store.base import Fence
from duly.store.due import Outlook
from duly.store.record import MutationRow, RunRow
from duly.store.turn import TurnTaken
from duly.words.asking import say_gone

FIRST_PHASES: Final = frozenset({Phase.EXECUTING, Phase.PREPARING})
LET_GO_MAX: Final = 10_000  # runs, and chains; most of them have ended meanwhile
TIMES_LEFT_MAX: Final = 10  # so often a chain is let go before that is counted as a crash (R7)
UNBLOCKED_BY = {Waits.CONNECTION: Act.RECONNECT, Waits.GRANT: Act.GRANT}

log = logging.getLogger("duly.engine")


class Worker:
    """Carries out the work the engine chose."""

    def __init__(self, parts: Parts, on_repair_end: Callable[[str, bool], None]) -> None:
        self._parts = parts
        self._library = Library(parts)
        self.successor = Successor(parts)
        self.claims = Claims(parts.env, parts.store, parts.lease)
        self.ledger = Ledger(parts, self.successor, self.claims)
        self._reconciler = Reconciler(parts, self.ledger)
        self.repairs = Repairs(parts, self.successor, self.claims, on_repair_end)
        # The run that each workflow is working on now.
        self.live: dict[str, Live] = {}
        self.is_stopping = False
        # Runs let go because the store failed, or because a stop came while they were written. The
        # host did not die, so no crash is counted (R7, H3).
        self._let_go: dict[str, None] = {}
        self._times_left: dict[str, int] = {}  # by chain

    async def take_turn(self, fence: Fence, wake_max_ms: int, now: int) -> TurnTaken:
        """Choose what a workflow does now; a handler that is to start has its run then (S5)."""
        run_id = self._parts.env.new_id("run")
        repairing, chosen = frozenset(self.repairs.runs), Work.NOTHING

        is_sending = self.ledger.sends.is_sending(fence.workflow_id)

        def choose_now(outlook: Outlook) -> Choice:
            nonlocal chosen
            choice = choose(
                outlook.open_run,
                outlook.handlers,
                now,
                is_paused=outlook.is_paused,
                epoch=fence.epoch,
                repairing=repairing,
                wake_max_ms=wake_max_ms,
                is_able=not outlook.lacking or is_sending,
            )
            chosen = choice.work
            return choice

        able = self.claims.able(fence.workflow_id)
        try:
            taken = await self._parts.store.take_turn(fence, run_id, choose_now, now=now, able=able)
        except StoreUnavailable:
            if chosen is Work.START:
                self._leave(run_id)  # it may have been written
            raise
        self.claims.note_able(taken.outlook)
        return taken

    async def hand_over(self, taken: TurnTaken) -> None:
        """Leave a workflow to hosts that have the tools for it; no send of it is out here (H7)."""
        outlook = taken.outlook
        log.info("a workflow is left to hosts that have %s", ", ".join(outlook.lacking))
        if outlook.open_run is not None and outlook.open_run.epoch is not None:
            row = await self._parts.store.get_run(outlook.open_run.run_id)
            await self.successor.put_down(self.resume(outlook, row))
        await self.claims.hand_back(outlook.fence)

    async def do(self, taken: TurnTaken) -> bool:
        """Do what was chosen for a workflow; return whether the bus may have to deliver for it."""
        outlook, choice = taken.outlook, taken.choice
        if taken.started is not None:
            return await self._start(taken)
        if choice.work is Work.REPLAN:
            assert choice.handler is not None, choice
            await self._replan(outlook, choice.handler)
            return False
        assert outlook.open_run is not None, outlook
        row = await self._parts.store.get_run(outlook.open_run.run_id)
        if choice.work is Work.FOLLOW:
            await self.successor.follow(outlook.fence, row)
        elif choice.work is Work.RECOVER:
            await self._recover(outlook, row)
        elif choice.work is Work.GO_ON:
            await self._go_on(outlook, row)
        elif choice.work is Work.UNBLOCK:
            await self._unblock(outlook, row)
        elif choice.work is Work.REPAIR:
            self.repairs.begin(self.resume(outlook, row), row)
        else:
            await self._reconcile(outlook, row)
        return True

    async def _start(self, taken: TurnTaken) -> bool:
        """Take a run that was just opened as far as it goes; return whether it is heard."""
        live = open_live(taken, self._notes())
        await self._hold(live, partial(self._run, live))
        return live.is_heard

    async def _replan(self, outlook: Outlook, handler: HandlerOutlook) -> None:
        """Plan a producer again that was planned by a clock that was wrong (S2)."""
        store, now = self._parts.store, self._parts.env.now_ms()
        handlers = await store.list_handlers(outlook.fence.workflow_id)
        text = next(each.schedule for each in handlers if each.name == handler.name)
        schedule = parse(None if text is None else decode(text))
        assert handler.next_run_at is not None, handler
        zone = self._parts.policy.timezone
        planned = replanned(schedule, handler.next_run_at, now, zone)
        if planned != handler.next_run_at:
            log.warning(
                "%s.%s: the clock was set; its next check is planned again",
                outlook.workflow,
                handler.name,
            )
        await store.replan(outlook.fence, handler.name, handler.next_run_at, planned, now=now)

    async def stand_in(self, fence: Fence, machine: str) -> bool:
        """Say of a call that no host can ask about that it is unknown (H7).

        Its machine has no host, or its tool none that has it.

        This host runs, sends and asks nothing. It keeps the workflow only where a person is asked
        already: the time of their "it did not happen" counts from its claim (L6). Return whether
        there is more to do.
        """
        outlook = await self._parts.store.outlook(fence.workflow_id, fence.epoch)
        if outlook.open_run is not None:
            row = await self._parts.store.get_run(outlook.open_run.run_id)
            held = row.state.row
            if held is MutationStatus.INDETERMINATE:
                return False
            lease = self._parts.lease
            assert lease is not None, fence
            if held is MutationStatus.IN_FLIGHT and not await self._is_unsent(row.id):
                await self.successor.recover(self.resume(outlook, row), row)
                return True
            if held is MutationStatus.NEEDS_RECONCILE and fence.workflow_id in lease.gone:
                lease.gone -= {fence.workflow_id}  # said once; *try again* waits anew
                live = self.resume(outlook, row)
                mutation = await self._held(live)
                told = say_gone(mutation.tool, machine)
                await self.ledger.judge(
                    live, mutation.id, mutation.attempt, Verdict.GIVEN_UP, message=told
                )
        await self.claims.hand_back(fence)
        return False

    async def _go_on(self, outlook: Outlook, row: RunRow) -> None:
        """Go on with a run that is active by a person's act, or is a successor (R4)."""
        if row.state.row is MutationStatus.IN_FLIGHT and not await self._is_unsent(row.id):
            # Its call has begun and no task waits for the answer: the reconciler asks for it (L3).
            self._leave(row.id)
            await self._recover(outlook, row)
            return
        await self._parts.store.take_up(outlook.fence, row.id, row.state)
        live = self.resume(outlook, row)
        await self._hold(live, partial(self._continue, live, row))

    async def _continue(self, live: Live, row: RunRow) -> None:
        if row.kind == Kind.PRODUCER:
            handlers = await self._parts.store.list_handlers(live.fence.workflow_id)
            planned = (each.next_run_at for each in handlers if each.name == row.handler)
            live.planned_at = next(planned, None)
        if row.state.row is MutationStatus.IN_FLIGHT:  # a person has approved it (A4)
            await self._send_held(live, await self._held(live))
        if live.is_active:
            await self._run(live)

    async def _send_held(self, live: Live, mutation: MutationRow) -> None:
        """Send the call a run holds; take it back if its connector is no longer installed."""
        try:
            tool = self._tool(mutation)
        except Invalid:
            await self.ledger.cannot_send(live, mutation)
            return
        await self.ledger.send_recorded(live, mutation, tool)

    async def _recover(self, outlook: Outlook, row: RunRow) -> None:
        """Give an interrupted run its successor; one whose call was never begun goes on (R7)."""
        if row.state.row is MutationStatus.IN_FLIGHT and await self._is_unsent(row.id):
            await self._parts.store.take_up(outlook.fence, row.id, row.state)
        else:
            assert outlook.open_run is not None, outlook
            is_left = row.id in self._let_go
            is_left |= self.claims.was_dropped(row.workflow_id, outlook.open_run.epoch)
            is_counted = not is_left or self._is_left_too_often(row.chain)
            await self.successor.recover(self.resume(outlook, row), row, is_counted=is_counted)
        self._let_go.pop(row.id, None)

    async def _is_unsent(self, run_id: str) -> bool:
        """Tell whether a held call was approved and never begun, even before a restart (A4)."""
        return (await self._parts.store.get_held_mutation(run_id)).is_unsent

    async def _unblock(self, outlook: Outlook, row: RunRow) -> None:
        """Resume a run whose grant or connection is there now; send a held call as it is (F4)."""
        live = self.resume(outlook, row)
        assert row.state.waits is not None, row
        change = lifecycle.act(row.state, UNBLOCKED_BY[row.state.waits])
        lease = self._parts.lease
        if row.state.waits is Waits.CONNECTION and lease is not None and lease.read_secrets:
            # The person may have signed in at another host, and will not do so a second time.
            await lease.read_secrets()
        await self._hold(live, partial(self._run_unblocked, live, change.run))

    async def _run_unblocked(self, live: Live, new: lifecycle.Run) -> None:
        store, env = self._parts.store, self._parts.env
        now = env.now_ms()
        if new.row is None:
            await store.move_run(live.fence, live.id, live.stored, new, now=now)
            live.move(new)
        else:
            live.is_out = True  # a stop waits from here on: the row says that it was sent (R7)
            basis = self._parts.outside.basis_now((await self._held(live)).tool)
            mutation = await store.send_again(
                live.fence, live.id, live.stored, new, now=now, boot=env.boot(), basis=basis
            )
            live.move(new)
            await self._send_held(live, mutation)
        if live.is_active:
            await self._run(live)

    async def _reconcile(self, outlook: Outlook, row: RunRow) -> None:
        """Try to settle an unknown mutation; if it was applied, the run goes on to `next` (R4)."""
        live = self.resume(outlook, row)
        mutation = await self._held(live)
        settle = partial(self._settle, live, mutation, is_paused=outlook.is_paused)
        await self._hold(live, settle)

    async def _settle(self, live: Live, mutation: MutationRow, *, is_paused: bool) -> None:
        """Ask what became of a mutation, and go on."""
        await self._reconciler.attempt(live, mutation, is_paused=is_paused)
        if not live.is_active:
            return
        await live.settled()
        # Asking takes its time, and a person may have paused the workflow meanwhile: then the run
        # stays active, in the hands of this host, until resume (F7).
        if not (await self._parts.store.outlook(live.fence.workflow_id)).is_paused:
            await self._run(live)

    async def _run(self, live: Live) -> None:
        """Load the script and take the run as far as it goes; its failures are stored (F1)."""
        try:
            live.loaded = await self._library.get(live.fence.workflow_id, live.version)
            _check_handler(live)
            with _watched(live):
                await take_steps(self._parts, self.ledger, live)
                note(**_reached(live))
        except StepFailed as failed:
            await self.successor.fail(live, failed)

    async def _hold(self, live: Live, work: Callable[[], Awaitable[None]]) -> None:
        """Do something with a run; one that another writer changed meanwhile is left alone."""
        self.live[live.fence.workflow_id] = live
        try:
            if self.is_stopping:
                raise asyncio.CancelledError
            await work()
        except (Stale, Fenced) as error:
            # What is left of it is found again. No host has died, so no crash is counted (R7).
            self.claims.drop(live.fence.workflow_id, live.fence)
            log.info("run %s is left alone: %s", live.id, error)
        except asyncio.CancelledError:
            if self.is_stopping:
                await self._put_down(live)
            raise
        except StoreUnavailable:
            self._leave(live.id)
            raise
        except StoreError:
            raise
        except Exception as error:
            where = trace(error, self._parts.outside.secrets())
            log.error("run %s of %s met a fault of ours\n%s", live.id, live.workflow, where)
            if live.stored.status is not Status.ACTIVE or live.is_out:
                raise
            fault = f"{type(error).__name__}: {error}"
            await self.successor.fail(live, StepFailed(fault, Failure.INTERNAL))
        finally:
            del self.live[live.fence.workflow_id]

    def _leave(self, run_id: str) -> None:
        """Remember that a run was let go; of too many the first is counted as a crash after all."""
        self._let_go[run_id] = None
        _bound(self._let_go)

    def _is_left_too_often(self, chain: str) -> bool:
        """Count that a chain was let go; one whose write never succeeds must not run for ever."""
        self._times_left[chain] = self._times_left.pop(chain, 0) + 1
        _bound(self._times_left)
        return self._times_left[chain] > TIMES_LEFT_MAX

    async def _put_down(self, live: Live) -> None:
        """Put a run down; if that fails, the next start finds it like any crashed run."""
        try:
            await self.successor.put_down(live)
        except StoreError as error:
            self._leave(live.id)
            log.info("run %s could not be laid down yet: %s", live.id, error)

    async def put_down_rest(self) -> None:
        """Put down, before the host ends, the runs no task works on (R7)."""
        store = self._parts.store
        try:
            run_ids = {*self._let_go, *await self.claims.list_held_runs()}
        except StoreError as error:
            log.warning("what runs is recovered at the next start: %s", error)
            return
        for run_id in run_ids:
            try:
                row = await store.get_run(run_id)
                if row.open:
                    await self._put_down_left(row)
            except StoreError as error:
                log.warning("run %s is recovered at the next start: %s", run_id, error)

    async def _put_down_left(self, row: RunRow) -> None:
        fence = await self.claims.take(row.workflow_id)
        if fence is not None:
            outlook = await self._parts.store.outlook(row.workflow_id, fence.epoch)
            await self.successor.put_down(self.resume(outlook, row))

    async def check_repeatable(self, tool: Tool | None, row: MutationRow) -> None:
        """Refuse a retry where the tool can neither be asked nor sent again (L10).

        Where this host lacks it, another one of the fleet may have it, and tries (H7).
        """
        if tool is None and self._parts.lease is not None:
            return
        if not await self._reconciler.may_try_again(tool, row):
            raise RequestRefused(code="cannot_ask_or_resend", subject=row.tool)

    def resume(self, outlook: Outlook, row: RunRow) -> Live:
        """Take up a run that is stored already."""
        return resume_live(outlook, row, self._notes())

    def _notes(self) -> Notes:
        return Notes(self._parts.policy.limits, self._parts.outside.secrets)

    def _tool(self, mutation: MutationRow) -> Tool:
        return self._parts.outside.catalog.find(mutation.tool)

    async def _held(self, live: Live) -> MutationRow:
        """Read the ledger row a run holds."""
        return await self._parts.store.get_held_mutation(live.id)


def _bound(remembered: dict[str, Any]) -> None:
    """Forget the oldest, if there are too many."""
    if len(remembered) > LET_GO_MAX:
        del remembered[next(iter(remembered))]


def _watched(live: Live) -> AbstractContextManager[Span | None]:
    """Let an observer see this sitting of a run; without one this is nothing."""
    facts = {"workflow": live.workflow, "handler": live.handler, "version": live.version}
    is_first = live.run.phase in FIRST_PHASES
    return run_span(live.id, f"{live.workflow}.{live.handler}", facts, is_first=is_first)


def _reached(live: Live) -> dict[str, str]:
    outcome = {} if live.run.outcome is None else {"outcome": live.run.outcome.value}
    return {"status": live.run.status.value, **outcome}


def _check_handler(live: Live) -> None:
    """Refuse to run a handler its version does not have: our bug, not the script's (F1)."""
    declared = live.script.declaration
    handlers = declared.producers if live.run.kind is Kind.PRODUCER else declared.consumers
    if all(each.name != live.handler for each in handlers):
        message = f"Version {live.version} has no {live.run.kind} {live.handler}."
        raise StepFailed(message, Failure.INTERNAL)
