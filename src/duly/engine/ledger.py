"""The one place that changes the outside (L).

Law 1  The call is in the ledger, in flight, on the disk, before its first byte leaves (L2).
Law 2  A call is sent once. It is sent again only under its own key, where the outside promises to
       do it once (L7), or after a definite no (F4).
Law 3  An answer is what the connector says by its error's type; whatever it does not say is
       unknown, and unknown is asked about, never guessed (L4, L5).
Law 4  "It did not happen" is believed only after the tool's lag since the send ended, as this
       process saw it end; a send that nobody saw the end of counts from when we took it over. What
       counts is when the question was asked: the answer may be as old as that (L6).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from duly.connectors.base import Applied, Call, NotApplied, Unsure
from duly.engine.base import Details, Parts, StepFailed
from duly.engine.calls import Wanted, say
from duly.engine.envelope import find_missing
from duly.engine.herald import Herald
from duly.engine.live import Live
from duly.engine.successor import Successor
from duly.errors import Invalid, NotSent, PermissionDenied
from duly.rules import ledger as rules
from duly.rules import lifecycle
from duly.rules.catalog import Tool, ToolKind
from duly.rules.failure import ANSWERED, answer_of, waits_on
from duly.rules.ledger import Recourse
from duly.rules.lifecycle import GROWS_GENERATION
from duly.rules.permission import proposal_hash
from duly.rules.schedule import moment, reconcile_delay_ms
from duly.rules.value import Json, decode, encode
from duly.rules.word import Answer, Failure, MutationStatus, Progress, Status, Verdict
from duly.store import record
from duly.store.record import MutationRow, Recorded

END_S: Final = 1.0  # how long a call that was told to stop may take to do so before we go on
STILL_OUT_MS: Final = 10_000  # how long a send that has not ended is left alone before we ask again

log = logging.getLogger("duly.engine")


@dataclass(frozen=True, slots=True)
class Heard:
    """What a send, or asking about one, gave."""

    answer: Answer
    result_text: str | None = None
    error: BaseException | None = None
    warning: str | None = None


class Ledger:
    """Sends mutations, and knows when each send of this process ended."""

    def __init__(self, parts: Parts, successor: Successor) -> None:
        self._parts = parts
        self._successor = successor
        self._herald = Herald(parts)
        self._since_ms = parts.env.monotonic_ms()
        # When each send ended; None while it has not. What is not here was not sent by us (L6).
        self._ended: dict[str, int | None] = {}
        # How many sends of a row have not ended: one that hangs may still land after another (L6).
        self._out: Counter[str] = Counter()

    # -- Making a mutation ----------------------------------------------------------------------

    async def make(self, live: Live, wanted: Wanted) -> None:
        """Write a mutation down and send it, or lay it before a person first (L2, A3)."""
        call = await self._enter(live, wanted)
        env, store = self._parts.env, self._parts.store
        if wanted.needs_approval:
            new = lifecycle.advance(live.run, Progress.ASK_APPROVAL)
            await store.propose(
                live.fence,
                live.id,
                live.stored,
                new,
                call,
                now=env.now_ms(),
                announce=await self._herald.proposed(live, new, call),
            )
            live.move(new)
            return
        new = lifecycle.advance(live.run, Progress.SEND)
        live.is_out = True
        sent_at = env.now_ms()
        await store.send(live.fence, live.id, live.stored, new, call, now=sent_at)
        live.move(new)
        asked = self._call(live, wanted.tool, wanted.args, call.key, 1, sent_at)
        heard = await self._send(live, call.id, wanted.tool, asked)
        await self._take_in(live, call.id, wanted.tool, asked, heard, line=wanted.line)

    async def _enter(self, live: Live, wanted: Wanted) -> record.Call:
        """Spell the ledger row: the call as observed, its title, its inputs, its key (L2, L7)."""
        inputs = rules.inputs_digest(live.fence.workflow_id, live.handler, live.inputs)
        generation = await self._parts.store.count_refusals(inputs)
        limit_bytes = self._parts.policy.limits.data_bytes
        return record.Call(
            id=self._parts.env.new_id("mutation"),
            tool=wanted.tool.name,
            args=encode(dict(wanted.args), wanted.tool.name, limit_bytes=limit_bytes),
            title=live.title,
            inputs=inputs,
            key=rules.idempotency_key(inputs, generation),
            hash=proposal_hash(wanted.tool.name, wanted.args, live.prepared),
            reads=live.reads_text,
        )

    def _call(
        self,
        live: Live,
        tool: Tool,
        args: Mapping[str, Json],
        key: str,
        attempt: int,
        sent_at: int,
    ) -> Call:
        return Call(tool.name, args, key, live.workflow, attempt, moment(sent_at))

    def recorded_call(self, live: Live, tool: Tool, row: MutationRow) -> Call:
        """Spell the call a row records, exactly as it was or will be sent."""
        args = cast("dict[str, Json]", decode(row.args))
        return self._call(live, tool, args, row.key, row.attempt, row.sent_at or row.created_at)

    async def send_recorded(self, live: Live, row: MutationRow, tool: Tool) -> None:
        """Send the call of a row that is in flight by a person's act or as a re-send (F4, L7).

        What was granted when it was made may have been taken back since: then nothing is sent, and
        the run waits for the grant as if the outside had said no (A1).
        """
        asked = self.recorded_call(live, tool, row)
        lacking = await find_missing(
            self._parts, live.fence.workflow_id, tool, asked.args, besides=row.id
        )
        if lacking is not None:
            heard = Heard(Answer.PERMISSION, error=PermissionDenied(lacking.sentence))
        else:
            if row.is_unsent:
                store, now = self._parts.store, self._parts.env.now_ms()
                row = await store.send_approved(live.fence, live.id, live.stored, now=now)
                asked = self.recorded_call(live, tool, row)
            live.is_out = True
            heard = await self._send(live, row.id, tool, asked)
        await self._take_in(live, row.id, tool, asked, heard, resends=row.resends)

    async def cannot_send(self, live: Live, row: MutationRow) -> None:
        """Take back a call that was approved and whose connector is not here any more (L4)."""
        tool = Tool(row.tool, ToolKind.MUTATION, row.tool)
        heard = Heard(Answer.NOT_SENT, error=NotSent("its connector is not here"))
        await self._take_in(live, row.id, tool, self.recorded_call(live, tool, row), heard)

    # -- Sending --------------------------------------------------------------------------------

    async def _send(self, live: Live, mutation_id: str, tool: Tool, call: Call) -> Heard:
        """Let the connector make the change, within the tool's time (L4)."""
        env = self._parts.env
        begun_at = env.monotonic_ms()
        self._ended[mutation_id] = None
        self._out[mutation_id] += 1
        task = asyncio.ensure_future(self._parts.outside.change(tool, call))
        task.add_done_callback(lambda _: self._note_end(mutation_id))
        try:
            done, _ = await asyncio.wait({task}, timeout=tool.timeout_s)
            if not done:
                task.cancel()
                await asyncio.wait({task}, timeout=END_S)
        except asyncio.CancelledError:
            task.cancel()
            raise
        heard = self._hear(tool, task if done else None)
        took_ms = env.monotonic_ms() - begun_at
        live.notes.call(tool.name, dict(call.args), heard.answer.value, took_ms)
        if heard.warning is not None:
            live.notes.warn(env.now_ms(), heard.warning)
        return heard

    def _note_end(self, mutation_id: str) -> None:
        self._out[mutation_id] -= 1
        if self._out[mutation_id] > 0:
            return
        del self._out[mutation_id]
        if mutation_id in self._ended:
            self._ended[mutation_id] = self._parts.env.monotonic_ms()

    def _hear(self, tool: Tool, task: asyncio.Future[Json] | None) -> Heard:
        if task is None:
            return Heard(Answer.UNKNOWN, error=TimeoutError(f"no answer in {tool.timeout_s:g} s"))
        if task.cancelled():
            return Heard(Answer.UNKNOWN, error=RuntimeError("the connector gave up half-way"))
        error = task.exception()
        if error is not None:
            if not isinstance(error, Exception):
                raise error
            return Heard(answer_of(error), error=error)
        text, warning = self._keepable(tool, task.result())
        return Heard(Answer.APPLIED, text, warning=warning)

    def _keepable(self, tool: Tool, result: Json) -> tuple[str, str | None]:
        """Write a result down; one that cannot be kept changes nothing about what happened (L9)."""
        limits = self._parts.policy.limits
        try:
            path, most = tool.name, limits.result_bytes
            return encode(result, path, limit_bytes=most, depth=limits.json_depth), None
        except Invalid as error:
            return "null", f"{tool.name} was done, but its result was not kept: {error}"

    # -- Taking an answer in --------------------------------------------------------------------

    async def _take_in(
        self,
        live: Live,
        mutation_id: str,
        tool: Tool,
        call: Call,
        heard: Heard,
        *,
        line: int | None = None,
        resends: int = 0,
    ) -> None:
        """Write what a send gave; an unknown one is asked about at once (L4, L5)."""
        if heard.answer is Answer.APPLIED:
            new = lifecycle.answer(live.run, heard.answer)
            await self._applied(live, mutation_id, new, heard.result_text, call.attempt)
            return
        error = heard.error or RuntimeError("no reason was given")
        new = lifecycle.answer(live.run, heard.answer)
        if new.row is MutationStatus.NEEDS_RECONCILE:
            await self._unknown(live, mutation_id, tool, call, new, error, resends)
            return
        failure = ANSWERED[heard.answer]
        needed = waits_on(failure, tool, error)
        details = Details(line, tool.name, call.args, needed, getattr(error, "retry_after_s", None))
        failed = StepFailed(say(tool.name, error), failure, details)
        stop = self._successor.stop(live, new, failed)
        recorded = Recorded(
            call.attempt,
            error=stop.error,
            refused=heard.answer in GROWS_GENERATION,
        )
        await self._record(live, new, recorded, stop)
        if new.row in lifecycle.FINAL:
            self._ended.pop(mutation_id, None)

    async def _unknown(
        self,
        live: Live,
        mutation_id: str,
        tool: Tool,
        call: Call,
        new: lifecycle.Run,
        error: BaseException,
        resends: int,
    ) -> None:
        """Keep an unknown call for asking or sending again, or ask right now (L5, L7)."""
        message = say(tool.name, error)
        now = self._parts.env.now_ms()
        recourse = rules.recourse(
            is_repeatable=tool.idempotent, can_be_asked=tool.reconciles, is_paused=False
        )
        if live.run.status is Status.PAUSED_RECONCILIATION:
            # It was sent again: the next time, or the next question, comes at L5's times (L7).
            due_at = now + reconcile_delay_ms(self._parts.policy.reconcile, max(0, resends - 1))
        elif recourse is Recourse.SEND_AGAIN:
            due_at = now  # at once
        elif recourse is Recourse.GIVE_UP:
            await self.judge(live, mutation_id, call.attempt, Verdict.GIVEN_UP, message=message)
            return
        else:
            is_believable = self.absence_wait_ms(mutation_id, tool) == 0
            verdict = await self.ask(tool, call)
            await self.hear_verdict(
                live, mutation_id, tool, call.attempt, verdict, message, is_believable=is_believable
            )
            return
        stop = self._successor.keep(live, new, message)
        await self._record(live, new, Recorded(call.attempt, error=stop.error, due_at=due_at), stop)

    async def hear_verdict(
        self,
        live: Live,
        mutation_id: str,
        tool: Tool,
        attempt: int,
        verdict: Applied | NotApplied | Unsure,
        message: str,
        *,
        is_believable: bool,
    ) -> None:
        """Take in what the outside said; a no is believed if it was believable when asked (L6)."""
        now = self._parts.env.now_ms()
        if isinstance(verdict, Applied):
            text, warning = self._keepable(tool, verdict.result)
            if warning:
                live.notes.warn(now, warning)
            await self.judge(live, mutation_id, attempt, Verdict.APPLIED, result_text=text)
            return
        if isinstance(verdict, NotApplied) and is_believable:
            await self.judge(live, mutation_id, attempt, Verdict.NOT_APPLIED, message=message)
            return
        wait_ms = self.absence_wait_ms(mutation_id, tool)
        if isinstance(verdict, Unsure):
            if verdict.reason:
                message = f"{message}; {verdict.reason}"
            wait_ms = reconcile_delay_ms(self._parts.policy.reconcile, 0)
        await self.judge(
            live, mutation_id, attempt, Verdict.UNSURE, message=message, due_at=now + wait_ms
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
    ) -> None:
        """Write what asking settled, or that it settled nothing yet (L5, L6)."""
        new = lifecycle.judge(live.run, verdict)
        if verdict is Verdict.APPLIED:
            await self._applied(live, mutation_id, new, result_text, attempt)
            return
        if verdict is Verdict.NOT_APPLIED:
            stop = self._successor.stop(live, new, StepFailed(message, Failure.TRANSIENT))
        else:
            stop = self._successor.keep(live, new, message)
        await self._record(live, new, Recorded(attempt, error=stop.error, due_at=due_at), stop)
        if new.row in lifecycle.FINAL:
            self._ended.pop(mutation_id, None)

    async def _applied(
        self, live: Live, mutation_id: str, new: lifecycle.Run, text: str | None, attempt: int
    ) -> None:
        """Begin to write that it happened; `next` runs meanwhile, the commit comes after (L9)."""
        recorded = Recorded(attempt, result=text or "null")
        old = live.stored
        announce = await self._herald.changed(live, new)
        live.result_text = recorded.result
        live.move(new)
        writing = self._parts.store.record(
            live.fence,
            live.id,
            old,
            new,
            recorded,
            now=self._parts.env.now_ms(),
            announce=announce,
        )
        live.recording = asyncio.ensure_future(writing)
        live.recording.add_done_callback(partial(self._forget, mutation_id))

    def _forget(self, mutation_id: str, writing: asyncio.Future[None]) -> None:
        """Forget a send that is settled; one the store was not told of is still unknown (L6)."""
        if not writing.cancelled() and writing.exception() is None:
            self._ended.pop(mutation_id, None)

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
            announce=await self._herald.changed(live, new, tells=stop.escalated, error=stop.error),
        )
        live.move(new)
        live.is_out = False

    # -- Asking ---------------------------------------------------------------------------------

    async def ask(self, tool: Tool, call: Call) -> Applied | NotApplied | Unsure:
        """Ask the outside whether this very call happened; no answer is Unsure (L5)."""
        limit_s = self._parts.policy.limits.reconcile_s
        try:
            async with asyncio.timeout(limit_s):
                verdict = await self._parts.outside.reconcile(tool, call)
        except asyncio.CancelledError:
            raise
        except TimeoutError:
            return Unsure(f"asking gave no answer in {limit_s:g} s")
        except Exception as error:
            verdict = Unsure(f"asking failed: {say(tool.name, error)}")
        if isinstance(verdict, Unsure):
            # Its words are a stranger's: what cannot be kept would be asked for ever (L5, A5).
            return Unsure(self._successor.clean(str(verdict.reason)))
        return verdict

    def absence_wait_ms(self, mutation_id: str, tool: Tool) -> int:
        """Answer how long until "it did not happen" can be believed; zero is now (L6)."""
        lag_ms = round(tool.lag_s * 1000)
        ended_at = self._ended.get(mutation_id, self._since_ms)
        if ended_at is None:  # the send has not even ended
            return max(STILL_OUT_MS, lag_ms)
        since_ms = self._parts.env.monotonic_ms() - ended_at
        return 0 if rules.is_absence_settled(lag_ms, since_ms) else lag_ms - since_ms
