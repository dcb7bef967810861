"""The one place that changes the outside (L).

Law 1  The call is in the ledger, in flight, on the disk, before its first byte leaves (L2).
Law 2  A call is sent once. It is sent again only under its own key, where the outside promises to
       do it once (L7), or after a definite no (F4).
Law 3  The connector says how a call ended by the type of its error. Without such a type the
       outcome is unknown, and the outside is asked about it; it is never guessed (L4, L5).
Law 4  "It did not happen" is believed only after the tool's lag. The lag counts from the end of
       the send, as this process saw it; if no process saw the end, from when this one took the row
       over. The question must have been asked after that: its answer may be that old (L6).
Law 5  A send that no task waits for any more is still heard: its answer goes to `engine/late.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from duly.connectors.base import Applied, Call, NotApplied, Unasked, Unsure
from duly.connectors.watch import Reply, Watch
from duly.engine import entry, proof
from duly.engine.announcements import Announcements
from duly.engine.base import Details, Parts, StepFailed, boot_now, stamp
from duly.engine.calls import Wanted, say
from duly.engine.claims import Claims
from duly.engine.envelope import find_missing
from duly.engine.live import Live
from duly.engine.local import bind
from duly.engine.sends import Heard as Heard
from duly.engine.sends import Sending, Sends, watched_answer
from duly.engine.sends import Sent as Sent
from duly.engine.successor import Successor
from duly.errors import NotSent
from duly.fact import Reason
from duly.rules import chain, lifecycle
from duly.rules import ledger as rules
from duly.rules import outage as outages
from duly.rules.catalog import Tool, ToolKind
from duly.rules.failure import ANSWERED, answer_of, failure_of, waits_on
from duly.rules.ledger import NO_SENDS, FirstSends, Knowledge, Recourse
from duly.rules.lifecycle import GROWS_GENERATION
from duly.rules.outage import Outage
from duly.rules.schedule import moment, reconcile_delay_ms
from duly.rules.word import Answer, Failure, Known, MutationStatus, Progress, Status, Verdict
from duly.store import record
from duly.store.record import Key, MutationRow, Recorded
from duly.words.seal import say_unsent

WriteSend: TypeAlias = Callable[..., Awaitable[Key | None]]

log = logging.getLogger("duly.engine")


class Ledger:
    """Sends mutations, and knows when each send of this process ended."""

    def __init__(self, parts: Parts, successor: Successor, claims: Claims) -> None:
        self._parts = parts
        self._successor = successor
        self._claims = claims
        self._announcements = Announcements(parts)
        self.sends = Sends(parts.env, claims)
        # Called with an answer that came when no task waited for it any more (L1).
        self.on_late: Callable[[str, Sending, Heard], None] = lambda *_: None

    # -- Making a mutation ----------------------------------------------------------------------

    async def make(self, live: Live, wanted: Wanted, reads_text: str | None) -> None:
        """Write a mutation down and send it, or lay it before a person first (L2, A3)."""
        call = await entry.enter(self._parts, live, wanted, reads_text)
        env, store = self._parts.env, self._parts.store
        if wanted.needs_approval:
            allowance = await entry.find_allowance(self._parts, live, wanted)
            if allowance is not None:
                allowed = entry.allow(call, allowance)
                if await self._send_new(live, wanted, allowed, store.send_allowed):
                    return
            new = lifecycle.advance(live.run, Progress.ASK_APPROVAL)
            await store.propose(
                live.fence,
                live.id,
                live.stored,
                new,
                call,
                calls=live.notes.calls_text,
                logs=live.notes.logs_text,
                now=env.now_ms(),
                announce=await self._announcements.proposed(live, new, call),
            )
            live.move(new)
            return
        await self._send_new(live, wanted, call, store.send)

    async def _send_new(
        self, live: Live, wanted: Wanted, call: record.Call, verb: WriteSend
    ) -> bool:
        """Write a new row and send its call; return whether its allowance still held (L2, A3)."""
        new = lifecycle.advance(live.run, Progress.SEND)
        live.is_out = True
        sent_at = self._parts.env.now_ms()
        basis = self._parts.outside.basis_now(call.tool)
        sending = partial(verb, live.fence, live.id, live.stored, new, call, now=sent_at)
        key = await sending(boot=boot_now(self._parts), basis=basis)
        if key is None:
            live.is_out = False
            return False
        live.move(new)
        sent = self._first(live, wanted, call, sent_at, key, basis)
        await self._take_in(live, sent, await self._send(live, sent))
        return True

    def _first(
        self, live: Live, wanted: Wanted, call: record.Call, at: int, key: Key, basis: str | None
    ) -> Sent:
        """Spell the first send of a call, as its row has it."""
        name, times = wanted.tool.name, (moment(at), moment(key.first_at))
        asked = Call(name, wanted.args, key.text, live.workflow, 1, *times, basis=basis)
        assert call.terms is not None, call
        return Sent(call.id, wanted.tool, asked, call.terms, line=wanted.line)

    def recorded_call(self, live: Live, tool: Tool, row: MutationRow) -> Call:
        """Spell the call a row records, exactly as it was or will be sent."""
        return entry.recorded_call(live, tool, row)

    async def send_recorded(
        self,
        live: Live,
        row: MutationRow,
        tool: Tool,
        *,
        firsts: FirstSends = NO_SENDS,
        outage: Outage | None = None,
    ) -> None:
        """Send the call of a row that is in flight by a person's act or as a re-send (F4, L7).

        What was granted when it was made may have been taken back since: then nothing is sent, and
        the run waits for the grant as if the outside had said no (A1). `firsts` are the first sends
        with the key of an unknown call: writing and waiting may have outlasted the key (L7).
        """
        env = self._parts.env
        if await self.refuse_changed(live, row):
            return
        asked = self.recorded_call(live, tool, row)
        lacking = await find_missing(
            self._parts, live.fence.workflow_id, tool, asked.args, besides=row.id
        )
        if lacking is None and row.is_unsent:
            live.is_out = True  # a stop waits from here on: the row says that it was sent (R7)
            basis = self._parts.outside.basis_now(tool.name)
            write = partial(self._parts.store.send_approved, live.fence, live.id, live.stored)
            row = await write(now=env.now_ms(), boot=boot_now(self._parts), basis=basis)
            # What is sent is what this transaction read, not what was read before it (L11).
            if await self.refuse_changed(live, row):
                return
            asked = self.recorded_call(live, tool, row)
        terms = rules.terms_of(row.terms, tool)
        sent = Sent(row.id, tool, asked, terms, row.resends, outage)
        is_resend = live.run.status is Status.PAUSED_RECONCILIATION
        if lacking is not None:
            heard = Heard(Answer.PERMISSION, error=lacking.error)
        else:
            live.is_out = True
            heard = await self._send(live, sent, firsts if is_resend else None)
        await self._take_in(live, sent, heard)

    async def refuse_changed(self, live: Live, row: MutationRow) -> bool:
        """Stop a run whose row was changed in the store; tell whether it was (L11).

        Nothing of it is sent or asked. Of a row that was sent before, a person must say what
        became of it; of one that never was, nothing happened.
        """
        flaw = await entry.find_flaw(self._parts, row, live.prepared_text)
        if flaw is None:
            return False
        message = say_unsent(row.tool, flaw, row.id)
        log.error("%s", message)
        new = entry.spoil(live.run, row)
        if new.row is MutationStatus.FAILED:
            stop = self._successor.stop(live, new, StepFailed(message, Failure.INTERNAL))
            recorded = Recorded(row.attempt, error=stop.error, known=Knowledge(Known.UNSENT))
        else:
            stop = self._successor.keep(live, new, message)
            recorded = Recorded(row.attempt, error=stop.error)
        await self._record(live, new, recorded, stop)
        return True

    async def cannot_send(self, live: Live, row: MutationRow) -> None:
        """Take back a call that was approved and whose connector is not here any more (L4)."""
        if await self.refuse_changed(live, row):
            return
        tool = Tool(row.tool, ToolKind.MUTATION, row.tool)
        heard = Heard(Answer.NOT_SENT, error=NotSent(code="connector_gone", subject=row.tool))
        call = self.recorded_call(live, tool, row)
        terms = rules.terms_of(row.terms, None)
        await self._take_in(live, Sent(row.id, tool, call, terms), heard)

    # -- Sending --------------------------------------------------------------------------------

    async def _send(self, live: Live, sent: Sent, firsts: FirstSends | None = None) -> Heard:
        """Let the connector make the change, within the tool's time (L4)."""
        env, tool = self._parts.env, sent.tool
        await bind(self._parts, live.fence, tool)
        await self._claims.until_sendable(live.fence)
        if firsts and not rules.is_key_alive(sent.terms, firsts.stamps, stamp(env, firsts)):
            live.is_out = False
            return Heard(Answer.NOT_SENT, error=NotSent(code="key_forgotten"), is_expired=True)
        begun_at = env.monotonic_ms()
        # Counted from now: the barrier that wrote the row may have taken its time (L7).
        send_by = moment(env.now_ms() + round(tool.timeout_s * 1000))
        keeper = partial(entry.keep_handle, self._parts, self.sends, live.fence, sent)
        call = replace(sent.call, send_by=send_by, keeper=keeper)
        watch = self._parts.send(live, tool, call)
        sending = Sending(watch, tool, call.attempt, begun_at)
        self.sends.add(sent.mutation_id, sending)
        watch.on_end(partial(self._note_end, sent.mutation_id, sending))
        try:
            reply = await watched_answer(watch, sent)
        except asyncio.CancelledError:
            sending.is_left = True
            self._note_end(sent.mutation_id, sending)  # it may have answered at this very moment
            raise
        # A send that ended while it was being cancelled has given its answer (L13).
        sending.is_left = reply is None and watch.is_out
        heard = self._hear(tool, watch, reply)
        took_ms = env.monotonic_ms() - begun_at
        live.notes.call(tool.name, dict(call.args), heard.answer.value, took_ms)
        if heard.warning is not None:
            live.notes.warn(env.now_ms(), heard.warning)
        return heard

    def _note_end(self, mutation_id: str, sending: Sending) -> None:
        """Hand a late answer on, once: at the end of its send, or at its yes (L1, L6)."""
        reply = sending.watch.reply
        if not sending.is_left or sending.is_heard or reply is None:
            return
        if sending.watch.is_out and not sending.watch.is_done:
            return
        sending.is_late = sending.is_heard = True
        self.on_late(mutation_id, sending, self._hear(sending.tool, sending.watch, reply))

    def _hear(self, tool: Tool, sending: Watch, reply: Reply | None) -> Heard:
        """Read what a send came to; `reply` is None when its time was over first (L4)."""
        if reply is None:
            message = f"no answer in {tool.timeout_s:g} s"
            if sending.withheld is not None:
                message = f"a part of the call was still at work; it had said: {sending.withheld}"
            return Heard(Answer.UNKNOWN, error=TimeoutError(message))
        if reply.error is not None:
            return Heard(answer_of(reply.error), error=reply.error)
        text, warning = entry.keepable(self._parts, tool, reply.value)
        return Heard(Answer.APPLIED, text, warning=warning)

    # -- Taking an answer in --------------------------------------------------------------------

    async def _take_in(self, live: Live, sent: Sent, heard: Heard) -> None:
        """Write what a send gave; an unknown one is asked about at once (L4, L5)."""
        call, tool = sent.call, sent.tool
        is_resend = live.run.status is Status.PAUSED_RECONCILIATION
        known = Knowledge(Known.SENT_AGAIN if is_resend else Known.ANSWERED)
        new = lifecycle.answer(live.run, heard.answer)
        if heard.answer is Answer.APPLIED:
            text, attempt = heard.result_text, call.attempt
            await self._applied(live, sent.mutation_id, new, text, attempt, known)
            return
        error = heard.error or RuntimeError("no reason was given")
        if new.row is MutationStatus.NEEDS_RECONCILE:
            now = self._parts.env.now_ms()
            live.counts = chain.unanswered(live.counts, failure_of(error), now)
            await self._unknown(live, sent, new, heard, say(tool.name, error))
            return
        failure = ANSWERED[heard.answer]
        needed = waits_on(failure, tool, error)
        retry_after_s = getattr(error, "retry_after_s", None)
        details = Details(sent.line, tool.name, call.args, needed, retry_after_s)
        failed = StepFailed(
            say(tool.name, error), failure, details, code=getattr(error, "code", "")
        )
        stop = self._successor.stop(live, new, failed)
        recorded = Recorded(
            call.attempt,
            error=stop.error,
            refused=heard.answer in GROWS_GENERATION,
            known=known if new.row in lifecycle.FINAL else None,
        )
        await self._record(live, new, recorded, stop)
        if new.row in lifecycle.FINAL:
            self.sends.forget(sent.mutation_id)

    async def _unknown(
        self, live: Live, sent: Sent, new: lifecycle.Run, heard: Heard, message: str
    ) -> None:
        """Keep an unknown call for asking or sending again, or ask right now (L5, L7)."""
        tool, call = sent.tool, sent.call
        self.sends.follow_sent(live.fence.workflow_id, sent)
        if live.run.status is Status.PAUSED_RECONCILIATION:
            await self._unknown_again(live, sent, new, heard, message)
            return
        recourse = rules.recourse(
            is_repeatable=tool.idempotent, can_be_asked=tool.reconciles, is_paused=False
        )
        if recourse is Recourse.GIVE_UP:
            mutation_id = sent.mutation_id
            await self.judge(live, mutation_id, call.attempt, Verdict.GIVEN_UP, message=message)
        elif recourse is Recourse.ASK:
            is_believable = (
                self.sends.absence_wait_ms(live.fence, sent.mutation_id, sent.terms) == 0
            )
            verdict = await self.ask(tool, self.sends.with_handle(sent.mutation_id, call))
            await self.hear_verdict(live, sent, verdict, message, is_believable=is_believable)
        else:
            stop = self._successor.keep(live, new, message)
            due_at = self._parts.env.now_ms()  # sent again at once
            recorded = Recorded(call.attempt, error=stop.error, due_at=due_at)
            await self._record(live, new, recorded, stop)

    async def _unknown_again(
        self, live: Live, sent: Sent, new: lifecycle.Run, heard: Heard, message: str
    ) -> None:
        """Keep a call that was to be sent again: what comes next comes at L5's times (L7).

        One that was not sent has used up none of its sends: the outside is out of reach, and it is
        tried for as long as that lasts.
        """
        now = self._parts.env.now_ms()
        stop = self._successor.keep(live, new, message)
        wait_ms, after = 1, outages.answered(sent.outage)
        is_unsent = heard.answer is Answer.NOT_SENT
        if is_unsent and not heard.is_expired:
            wait_ms = self.miss_wait_ms(sent.outage)
            after = outages.go_on(sent.outage, now, wait_ms)
            notice = self.say_silence(live, sent.tool.name, sent.outage, after, message)
            stop = replace(stop, notice=notice)
        elif not is_unsent:
            times = self._parts.policy.reconcile
            wait_ms = reconcile_delay_ms(times, max(0, sent.resends - 1))
        wait_ms = self.sends.until_overdue(sent.mutation_id, sent.terms, wait_ms)
        recorded = Recorded(
            sent.call.attempt,
            error=stop.error,
            due_at=now + wait_ms,
            is_unsent=is_unsent,
            outage=after,
        )
        await self._record(live, new, recorded, stop)

    async def hear_verdict(
        self,
        live: Live,
        sent: Sent,
        verdict: Applied | NotApplied | Unsure,
        message: str,
        *,
        is_believable: bool,
        is_answered: bool = True,
    ) -> None:
        """Take in what the outside said; a no is believed if it was believable when asked (L6).

        `is_answered`: the send itself was heard, and not cut short by the end of its host.
        """
        now, mutation_id, attempt = self._parts.env.now_ms(), sent.mutation_id, sent.call.attempt
        if isinstance(verdict, Applied):
            text, warning = entry.keepable(self._parts, sent.tool, verdict.result)
            if warning:
                live.notes.warn(now, warning)
            await self.judge(live, mutation_id, attempt, Verdict.APPLIED, result_text=text)
            return
        if isinstance(verdict, NotApplied) and is_believable:
            met = chain.trouble_of_absent(live.counts, is_answered=is_answered)
            absent = Verdict.NOT_APPLIED
            await self.judge(live, mutation_id, attempt, absent, message=message, met=met)
            return
        after = None
        wait_ms = self.sends.absence_wait_ms(live.fence, mutation_id, sent.terms)
        if isinstance(verdict, Unsure):
            if verdict.reason:
                message = f"{message}; {verdict.reason}"
            wait_ms = reconcile_delay_ms(self._parts.policy.reconcile, 0)
            if isinstance(verdict, Unasked):
                after = outages.go_on(None, now, wait_ms)
        wait_ms = self.sends.until_overdue(mutation_id, sent.terms, wait_ms)
        await self.judge(
            live,
            mutation_id,
            attempt,
            Verdict.UNSURE,
            message=message,
            due_at=now + wait_ms,
            outage=after,
        )

    async def judge(
        self,
        live: Live,
        mutation_id: str,
        attempt: int,
        verdict: Verdict,
        *,
        message: str = "",
        result_text: str | None = None,
        due_at: int | None = None,
        outage: Outage | None = None,
        met: Failure = Failure.TRANSIENT,
    ) -> None:
        """Write what asking settled, or that it settled nothing yet (L5, L6)."""
        new = lifecycle.judge(live.run, verdict)
        if verdict is Verdict.APPLIED:
            found = Knowledge(Known.ASKED, said="it happened")
            await self._applied(live, mutation_id, new, result_text, attempt, found)
            return
        known = None
        if verdict is Verdict.NOT_APPLIED:
            known = Knowledge(Known.ASKED, said="it did not happen")
            stop = self._successor.stop(live, new, StepFailed(message, met))
        else:
            stop = self._successor.keep(live, new, message)
        recorded = Recorded(attempt, error=stop.error, due_at=due_at, outage=outage, known=known)
        await self._record(live, new, recorded, stop)
        if new.row in lifecycle.FINAL:
            self.sends.forget(mutation_id)

    async def _applied(
        self,
        live: Live,
        mutation_id: str,
        new: lifecycle.Run,
        text: str | None,
        attempt: int,
        known: Knowledge,
    ) -> None:
        """Begin to write that it happened; `next` runs meanwhile, the commit comes after (L9)."""
        recorded = Recorded(attempt, result=text or "null", known=known)
        old = live.stored
        announce = await self._announcements.changed(live, new)
        live.result_text = recorded.result
        live.move(new)
        now = self._parts.env.now_ms()
        live.recording = asyncio.ensure_future(
            self._parts.store.record(
                live.fence, live.id, old, new, recorded, now=now, announce=announce
            )
        )
        live.recording.add_done_callback(partial(self._forget, mutation_id))

    def _forget(self, mutation_id: str, writing: asyncio.Future[None]) -> None:
        """Forget the sends of a row that is settled; if writing failed it is unknown still (L6)."""
        if not writing.cancelled() and writing.exception() is None:
            self.sends.forget(mutation_id)

    async def _record(
        self, live: Live, new: lifecycle.Run, recorded: Recorded, stop: record.Stop
    ) -> None:
        await self._parts.store.record(
            live.fence,
            live.id,
            live.stored,
            new,
            recorded,
            stop=stop,
            now=self._parts.env.now_ms(),
            announce=await self._announcements.changed(
                live, new, tells=stop.escalated, notice=stop.notice, error=stop.error
            ),
        )
        live.move(new)
        live.is_out = False

    # -- Asking ---------------------------------------------------------------------------------

    async def ask(self, tool: Tool, call: Call) -> Applied | NotApplied | Unsure:
        """Ask the outside whether this very call happened; no answer is Unasked (L5, L13)."""
        limit_s = self._parts.policy.limits.reconcile_s
        verdict: Applied | NotApplied | Unsure
        try:
            verdict = await self._parts.outside.reconcile(tool, call, limit_s=limit_s)
        except TimeoutError:
            return Unasked(f"asking gave no answer in {limit_s:g} s")
        except Exception as error:
            verdict = Unasked(f"asking failed: {say(tool.name, error)}")
        if isinstance(verdict, Unsure):
            # The reason is a connector's own text. Stored uncleaned it could fail, and the
            # question would be asked for ever (L5, A5).
            return type(verdict)(self._successor.clean(verdict.reason))
        return await proof.believe(self._parts, tool, call, verdict)

    def miss_wait_ms(self, outage: Outage | None) -> int:
        """Return how long to wait after a question that could not be asked (L5)."""
        failures = 0 if outage is None else outage.failures
        return reconcile_delay_ms(self._parts.policy.reconcile, failures)

    def say_silence(
        self, live: Live, tool: str, before: Outage | None, after: Outage, message: str
    ) -> Reason | None:
        """Say, once, that the outside cannot be asked for an hour (L5)."""
        if not outages.is_news(before, after):
            return None
        return self._successor.silence(live, tool, after, message)
