"""What follows a stopped run: the only code that knows (F, R5–R7).

Law 1  A stop is decided by the rules and written once, with its class, its sentence and the time
       at which the engine looks again.
Law 2  What the host follows by itself is followed in one transaction: the old run closed, the new
       one opened, events and ledger row released or handed on (R6).
Law 3  When the host cannot move a run on, a person is told why (F8).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from duly.engine.announcements import Announcements
from duly.engine.base import Details, Parts, StepFailed
from duly.engine.live import Live, show_args
from duly.fact import Reason
from duly.rules import chain, lifecycle
from duly.rules import outage as outages
from duly.rules.kept import KeptError
from duly.rules.lifecycle import Counts, Run
from duly.rules.outage import Outage
from duly.rules.redaction import redact_text
from duly.rules.schedule import backoff_ms
from duly.rules.shown import cut
from duly.rules.standing import Facts, escalate, read
from duly.rules.word import Failure, MutationStatus, Phase, Progress, Status, Way
from duly.store.base import Fence
from duly.store.record import RunRow, Stop
from duly.words.phrase import say_wait
from duly.words.recovered import say_recovered

ERROR_CHARS: Final = 2000  # what is kept of an error's words
ARGS_CHARS: Final = 1000

log = logging.getLogger("duly.engine")

# The way into the step a run stands before.
INTO: Final = {
    Phase.PREPARED: Progress.BEGIN_MUTATE,
    Phase.MUTATED: Progress.BEGIN_NEXT,
}

# A run whose call cannot be asked about.
SILENT: Final = Run(
    phase=Phase.MUTATING,
    status=Status.PAUSED_RECONCILIATION,
    row=MutationStatus.NEEDS_RECONCILE,
)

# What follows an interruption, by the ledger row alone (R5, R7).


class Successor:
    """Stops runs and follows them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._announcements = Announcements(parts)

    # -- Stopping -------------------------------------------------------------------------------

    async def fail(self, live: Live, failed: StepFailed) -> None:
        """Stop a run whose step failed, before or after its mutation, never during it."""
        await live.settled()
        new = lifecycle.fail(_into_step(live.run, failed.failure), failed.failure)
        stop = self.stop(live, new, failed)
        await self._parts.store.stop_run(
            live.fence,
            live.id,
            live.stored,
            new,
            stop,
            now=self._parts.env.now_ms(),
            announce=await self._announcements.changed(
                live, new, tells=stop.escalated, notice=stop.notice, error=stop.error
            ),
        )
        live.move(new)

    def stop(self, live: Live, new: Run, failed: StepFailed) -> Stop:
        """Work out what a stopped run keeps: counts, due time, what it waits for, what is said."""
        now, details = self._parts.env.now_ms(), failed.details
        wait_ms = 0
        before, outage = live.counts.outage, None
        if failed.failure is Failure.UNREACHABLE:
            wait_ms = self._outage_wait_ms(before, details.retry_after_s)
            outage = outages.go_on(before, now, wait_ms)
        counts = chain.counted(live.counts, new, outage)
        due_at = None
        way = self._parts.way(new, counts)
        if way is Way.BACKOFF:
            if outage is None:
                wait_ms = self._backoff_ms(counts, details.retry_after_s)
            due_at = now + wait_ms
        elif way is Way.REPAIR:
            due_at = now  # the next look asks the repairer (F3)
        return Stop(
            counts=counts,
            error=self._error_text(failed, new),
            due_at=due_at,
            waits_on=details.waits_on,
            escalated=self._escalation(new, counts, str(failed), live, details),
            calls=live.notes.calls_text,
            logs=live.notes.logs_text,
            notice=self._notice(live, new, before, outage, str(failed), now + wait_ms),
        )

    def keep(self, live: Live, new: Run, message: str) -> Stop:
        """Work out what is kept of a run that waits for news of its mutation (L5)."""
        return Stop(
            counts=live.counts,
            error=self._error_text(StepFailed(message, Failure.TRANSIENT), new),
            escalated=self._escalation(new, live.counts, message, live, Details()),
            calls=live.notes.calls_text,
            logs=live.notes.logs_text,
        )

    async def put_down(self, live: Live) -> None:
        """Put a run down because the host stops; the next start follows it, uncounted (R7)."""
        store, now = self._parts.store, self._parts.env.now_ms()
        await live.settled()
        stored = live.stored
        if stored.status is Status.PAUSED_RECONCILIATION and stored.row is MutationStatus.IN_FLIGHT:
            # An unknown call that was being sent again is unknown as before (L7).
            change = lifecycle.crash(stored, live.counts)
            await store.move_run(live.fence, live.id, stored, change.run, now=now)
            live.move(change.run)
            return
        if stored.status is not Status.ACTIVE:
            return
        if stored.row is MutationStatus.IN_FLIGHT:
            if (await store.get_held_mutation(live.id)).is_unsent:
                return  # approved, and not begun: the next host sends it (A4)
            # The next host asks what became of the call; a stop does not count as a crash (R7).
            change = lifecycle.crash(stored, live.counts)
            heir = self._parts.env.new_id("run")
            await store.succeed_run(live.fence, live.id, stored, change, heir, live.counts, now=now)
            live.move(change.run)
            return
        new = lifecycle.fail(_into_step(live.run, Failure.TRANSIENT), Failure.TRANSIENT)
        stop = Stop(
            counts=live.counts,
            error=self._error_text(StepFailed("The host was stopped.", Failure.TRANSIENT), new),
            due_at=now,
            calls=live.notes.calls_text,
            logs=live.notes.logs_text,
        )
        await store.stop_run(live.fence, live.id, stored, new, stop, now=now)
        live.move(new)

    # -- Following ------------------------------------------------------------------------------

    async def follow(self, fence: Fence, row: RunRow) -> str:
        """Open the run after one whose wait is over; return its id."""
        successor_id = self._parts.env.new_id("run")
        await self._parts.store.succeed_run(
            fence,
            row.id,
            row.state,
            lifecycle.succeed(row.state),
            successor_id,
            row.counts,
            now=self._parts.env.now_ms(),
        )
        return successor_id

    async def recover(self, live: Live, row: RunRow, *, is_counted: bool = True) -> str | None:
        """Recover a run that a host died on; return its successor, if it gets one (R7).

        A run that was let go because the store failed is not counted as a crash.
        """
        store, now = self._parts.store, self._parts.env.now_ms()
        fence, state, counts = live.fence, row.state, row.counts
        judged = replace(counts, crash=0)
        if state.status is Status.ACTIVE and is_counted:
            judged = counts = chain.counted(counts, replace(state, status=Status.CRASHED))
        change = lifecycle.crash(state, judged)
        if change.successor is not None or change.run.status is not Status.CRASHED:
            log.info(
                "%s: interrupted; %s (%s)", live.workflow, say_recovered(change.run.row), row.id
            )
        if change.successor is not None:
            successor_id = self._parts.env.new_id("run")
            await store.succeed_run(fence, row.id, state, change, successor_id, counts, now=now)
            return successor_id
        if change.run.status is not Status.CRASHED:
            await store.move_run(fence, row.id, state, change.run, now=now)
            return None
        stop = self._stop_crashed(live, row, change.run, counts)
        announce = await self._announcements.changed(
            live, change.run, tells=stop.escalated, notice=stop.notice
        )
        await store.stop_run(fence, row.id, state, change.run, stop, now=now, announce=announce)
        return None

    def _stop_crashed(self, live: Live, row: RunRow, crashed: Run, counts: Counts) -> Stop:
        """Work out what follows the third crash in a row and later ones (R7).

        A run that had reserved and sent nothing is tried again after a wait that grows, and the
        person is told once; any other waits for the person.
        """
        now = self._parts.env.now_ms()
        was_empty = chain.is_empty(crashed, len(live.inputs) if row.prepared else 0)
        message = f"{counts.crash} times in a row."
        stop = Stop(
            counts=counts,
            error=self._error_text(StepFailed(message, Failure.INTERNAL), crashed),
            calls=row.calls,
            logs=row.logs,
        )
        if self._parts.way(crashed, counts, was_empty=was_empty) is Way.PERSON:
            log.info(
                "%s: interrupted; once too often in a row, so it waits for you (%s)",
                live.workflow,
                row.id,
            )
            facts = Facts(
                run=crashed, way=Way.PERSON, workflow=live.workflow, attempts=counts.crash
            )
            return replace(stop, escalated=escalate(facts))
        more = counts.crash - lifecycle.CRASHES_MAX
        wait_ms = backoff_ms(self._parts.policy.retries, more, self._jitter())
        wait = say_wait(wait_ms)
        log.info(
            "%s: interrupted again and again; retrying in %s (%s)", live.workflow, wait, row.id
        )
        facts = Facts(
            run=crashed,
            way=Way.BACKOFF,
            workflow=live.workflow,
            attempts=counts.crash,
            due_at_ms=now + wait_ms,
        )
        return replace(stop, due_at=now + wait_ms, notice=None if more else read(facts).reason)

    # -- Words ----------------------------------------------------------------------------------

    def _backoff_ms(self, counts: Counts, retry_after_s: float | None) -> int:
        retries = self._parts.policy.retries
        return backoff_ms(retries, counts.transient - 1, self._jitter(), retry_after_s)

    def _outage_wait_ms(self, outage: Outage | None, retry_after_s: float | None) -> int:
        failures = 0 if outage is None else outage.failures
        retries = self._parts.policy.retries
        return outages.wait_ms(retries, failures, self._jitter(), retry_after_s)

    def _jitter(self) -> float:
        return int.from_bytes(self._parts.env.random_bytes(4)) / 2**32

    def _escalation(
        self, run: Run, counts: Counts, message: str, live: Live, details: Details
    ) -> Reason | None:
        """Say why this run needs a person; None where the host moves it on itself (F8)."""
        if self._parts.way(run, counts) is not Way.PERSON:
            return None
        facts = Facts(
            run=run,
            way=Way.PERSON,
            workflow=live.workflow,
            needs=details.waits_on,
            title=live.title if live.prepared_text is not None else None,
            tool=details.tool,
            service=(details.tool or details.waits_on or "").partition(".")[0],
            message=self.clean(message),
            attempts=counts.transient,
        )
        return escalate(facts)

    def _notice(
        self,
        live: Live,
        run: Run,
        before: Outage | None,
        after: Outage | None,
        message: str,
        retry_at: int,
    ) -> Reason | None:
        """Say, once, that the outside cannot be reached for an hour (F2)."""
        if after is None or not outages.is_news(before, after):
            return None
        facts = Facts(
            run=run,
            way=Way.BACKOFF,
            workflow=live.workflow,
            message=self.clean(message),
            due_at_ms=retry_at,
            unreachable_since_ms=after.since_ms,
        )
        return read(facts).reason

    def silence(self, live: Live, tool: str, outage: Outage, message: str) -> Reason:
        """Say that the outside cannot be asked about a call, and since when (L5)."""
        facts = Facts(
            run=SILENT,
            way=Way.RECONCILER,
            workflow=live.workflow,
            tool=tool,
            title=live.title,
            message=self.clean(message),
            unreachable_since_ms=outage.since_ms,
            may_settle=True,
        )
        return read(facts).reason

    def _error_text(self, failed: StepFailed, run: Run) -> str:
        details: Details = failed.details
        shown = show_args(dict(details.args), self._parts.outside.secrets(), ARGS_CHARS)
        said = self.clean(str(failed))
        failure, status = failed.failure.value, run.status.value
        code = failed.code or None
        return KeptError(failure, status, said, details.line, details.tool, shown, code).text

    def clean(self, text: str) -> str:
        """Take secrets out of an error's words, and keep a readable part of them (A5)."""
        # Sandbox and connector have cut it where it is too long.
        said = redact_text(text, self._parts.outside.secrets(), is_cut=True)
        return cut(said, ERROR_CHARS).encode("utf-8", "replace").decode()


def _into_step(run: Run, failure: Failure) -> Run:
    """Step into what comes next: between two steps only our own code can fail (R2, F1)."""
    if failure is Failure.INTERNAL or run.phase not in INTO:
        return run
    return lifecycle.advance(run, INTO[run.phase])
