"""Finds out what became of a mutation whose outcome is unknown (L5–L8).

Law 1  It asks; it sends only where the tool promises to do a repeated call once (L7), and never
       while the workflow is paused (F7).
Law 2  Answers of "unsure" are counted and spaced, and the count is stored; when they are used up a
       person is asked. A "no" that comes too early to be believed costs nothing (L6).
Law 3  A question that could not be asked costs nothing either: it is asked again for as long as
       that lasts, at last every ten minutes. After an hour a person is told, and may answer (L5).
Law 4  The next attempt always has a stored time, later than now, also after an error (L13). The
       time is stored before the question: while the disk takes no writes, nothing is asked.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace

from duly.connectors.base import Applied, Call, NotApplied, Unasked, Unsure
from duly.engine.announcements import Announcements
from duly.engine.base import Parts, boot_now, stamp
from duly.engine.ledger import Ledger, Sent
from duly.engine.live import Live
from duly.errors import Invalid, StoreError
from duly.fact import Reason
from duly.rules import ledger as rules
from duly.rules import lifecycle, outage
from duly.rules.catalog import Tool
from duly.rules.fault import trace
from duly.rules.ledger import FirstSends, Recourse, Terms, is_last_ask, recourse
from duly.rules.outage import Outage
from duly.rules.schedule import reconcile_delay_ms
from duly.rules.word import Verdict
from duly.store.record import MutationRow
from duly.words.asking import say_other_account
from duly.words.warning import say_still_out

log = logging.getLogger("duly.engine")


class Reconciler:
    """Asks about unknown mutations in the background."""

    def __init__(self, parts: Parts, ledger: Ledger) -> None:
        self._parts = parts
        self._ledger = ledger
        self._announcements = Announcements(parts)

    async def attempt(self, live: Live, row: MutationRow, *, is_paused: bool) -> None:
        """Make one attempt to settle a row; if it was applied, the run is active again."""
        next_ms = self._ledger.miss_wait_ms(None)
        row = await self._wait(live, row, next_ms, row.error, outage=row.outage)
        try:
            await self._attempt(live, row, is_paused=is_paused)
        except StoreError:
            raise
        except Exception as error:
            # A fault of ours or of a connector: it is asked again at L5's times, not at once.
            where = trace(error, self._parts.outside.secrets())
            log.error("asking what became of %s met a fault\n%s", row.tool, where)
            await self._miss(live, row, f"asking failed: {type(error).__name__}")

    async def _attempt(self, live: Live, row: MutationRow, *, is_paused: bool) -> None:
        if await self._ledger.refuse_changed(live, row):
            return
        try:
            tool = self._parts.outside.catalog.find(row.tool)
        except Invalid as error:
            await self._miss(live, row, f"its connector is not here: {error}")
            return
        terms = rules.terms_of(row.terms, tool)
        self._ledger.sends.follow(row.id, row.workflow_id, row.attempt, terms)
        is_overdue = self._ledger.sends.is_overdue(row.id, terms)
        firsts = await self._list_firsts(row.key)
        # Beside a send that hangs nothing is sent again: it would hang as well.
        is_repeatable = self._may_resend(row, terms, firsts, row.resends) and not is_overdue
        way = recourse(
            is_repeatable=is_repeatable, can_be_asked=tool.reconciles, is_paused=is_paused
        )
        if way is Recourse.SEND_AGAIN:
            await self._resend(live, row, tool, firsts)
        elif way is Recourse.ASK:
            await self._ask(live, row, tool, terms)
        elif way is Recourse.WAIT:
            wait_ms = round(self._parts.policy.reconcile.longest_s * 1000)
            await self._wait(live, row, wait_ms, row.error, outage=row.outage)
        elif is_overdue:
            await self._give_up(live, row, say_still_out(row.tool, terms))
        elif terms.key_lifetime_ms is not None and not self._is_same_account(row):
            await self._give_up(live, row, say_other_account(row.tool))
        else:
            await self._give_up(live, row, f"{row.tool} cannot be asked what happened")

    async def may_try_again(self, tool: Tool | None, row: MutationRow) -> bool:
        """Tell whether asking or sending again could settle a row, counted anew (L10)."""
        if tool is None:
            return False
        if tool.reconciles:
            return True
        firsts = await self._list_firsts(row.key)
        return self._may_resend(row, rules.terms_of(row.terms, tool), firsts, resends=0)

    def _may_resend(self, row: MutationRow, terms: Terms, firsts: FirstSends, resends: int) -> bool:
        """Tell whether a row may be sent again; another account would do it twice (L7)."""
        if not self._is_same_account(row):
            return False
        now = stamp(self._parts.env, firsts)
        return rules.may_resend(terms, firsts.stamps, now, resends=resends)

    async def _list_firsts(self, key: str) -> FirstSends:
        asked_ms = self._parts.env.monotonic_ms()
        return replace(await self._parts.store.list_first_sends(key), asked_ms=asked_ms)

    def _is_same_account(self, row: MutationRow) -> bool:
        return row.basis == self._parts.outside.basis_now(row.tool)

    async def _resend(self, live: Live, row: MutationRow, tool: Tool, firsts: FirstSends) -> None:
        env = self._parts.env
        new = lifecycle.resend(live.run)
        live.is_out = True
        again = await self._parts.store.send_again(
            live.fence, live.id, live.stored, new, now=env.now_ms(), boot=boot_now(self._parts)
        )
        live.move(new)
        await self._ledger.send_recorded(live, again, tool, firsts=firsts, outage=row.outage)

    async def _ask(self, live: Live, row: MutationRow, tool: Tool, terms: Terms) -> None:
        call: Call = self._ledger.recorded_call(live, tool, row)
        is_believable = self._ledger.sends.absence_wait_ms(live.fence, row.id, terms) == 0
        verdict = await self._ledger.ask(tool, call)
        is_settled = isinstance(verdict, Applied)
        is_settled = is_settled or (isinstance(verdict, NotApplied) and is_believable)
        if is_settled:
            message = f"{row.tool}: the outside says that it did not happen"
            sent = Sent(row.id, tool, call, terms)
            is_answered = row.error is not None
            await self._ledger.hear_verdict(
                live, sent, verdict, message, is_believable=True, is_answered=is_answered
            )
        elif self._ledger.sends.is_overdue(row.id, terms):
            await self._give_up(live, row, say_still_out(row.tool, terms))
        elif isinstance(verdict, Unasked):
            await self._miss(live, row, verdict.reason or f"{row.tool} could not be asked")
        elif isinstance(verdict, Unsure):
            await self._count(live, row, verdict.reason or f"{row.tool} is not sure what happened")
        else:
            wait_ms = self._ledger.sends.absence_wait_ms(live.fence, row.id, terms)
            await self._wait(live, row, wait_ms, row.error, outage=outage.answered(row.outage))

    async def _count(self, live: Live, row: MutationRow, reason: str) -> None:
        """Count an answer that settles nothing; the last one asks a person instead (L5)."""
        if is_last_ask(row.asks, self._parts.policy.reconcile.attempts):
            await self._give_up(live, row, reason)
            return
        wait_ms = reconcile_delay_ms(self._parts.policy.reconcile, row.asks + 1)
        after = outage.answered(row.outage)
        await self._wait(live, row, wait_ms, reason, is_counted=True, outage=after)

    async def _miss(self, live: Live, row: MutationRow, reason: str) -> None:
        """Keep that a question could not be asked; after an hour a person is told (L5)."""
        before = row.outage
        now = self._parts.env.now_ms()
        wait_ms = self._ledger.miss_wait_ms(before)
        after = outage.go_on(before, now, wait_ms)
        notice = self._ledger.say_silence(live, row.tool, before, after, reason)
        await self._wait(live, row, wait_ms, reason, outage=after, notice=notice)

    async def _wait(
        self,
        live: Live,
        row: MutationRow,
        wait_ms: int,
        reason: str | None,
        *,
        is_counted: bool = False,
        outage: Outage | None,
        notice: Reason | None = None,
    ) -> MutationRow:
        # A send that hangs is shown when its time is over, not at the next question (L6).
        wait_ms = self._ledger.sends.until_overdue(row.id, self._terms(row), wait_ms)
        announce = await self._announcements.changed(live, live.run, notice=notice)
        now = self._parts.env.now_ms()
        due_at = now + math.ceil(wait_ms)
        await self._parts.store.count_attempt(
            live.fence,
            row.id,
            row.asks,
            row.due_at,
            is_counted=is_counted,
            due_at=due_at,
            error=reason,
            now=now,
            outage=outage,
            announce=announce,
        )
        return replace(row, due_at=due_at)

    def _terms(self, row: MutationRow) -> Terms:
        try:
            return rules.terms_of(row.terms, self._parts.outside.catalog.find(row.tool))
        except Invalid:
            return rules.terms_of(row.terms, None)

    async def _give_up(self, live: Live, row: MutationRow, reason: str) -> None:
        await self._ledger.judge(live, row.id, row.attempt, Verdict.GIVEN_UP, message=reason)
