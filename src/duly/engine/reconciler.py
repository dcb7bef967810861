"""Finds out what became of a mutation nobody knows the end of (L5–L8).

Law 1  It asks; it sends only where the tool promises to do a repeated call once (L7), and never
       while the workflow is paused (F7).
Law 2  Questions are counted and spaced, and the count is stored; when they are used up a person is
       asked. A "no" that comes too early to be believed costs nothing (L6).
"""

from __future__ import annotations

import math

from duly.connectors.base import Applied, Call, NotApplied, Unsure
from duly.engine.base import Parts
from duly.engine.ledger import Ledger
from duly.engine.live import Live
from duly.errors import Invalid
from duly.rules import lifecycle
from duly.rules.catalog import Tool
from duly.rules.ledger import Recourse, is_last_ask, may_resend, recourse
from duly.rules.schedule import reconcile_delay_ms
from duly.rules.word import Verdict
from duly.store.record import MutationRow


class Reconciler:
    """Asks about unknown mutations in the background."""

    def __init__(self, parts: Parts, ledger: Ledger) -> None:
        self._parts = parts
        self._ledger = ledger

    async def attempt(self, live: Live, row: MutationRow, *, is_paused: bool) -> None:
        """Make one attempt to settle a row; the run is active again if it turned out applied."""
        try:
            tool = self._parts.outside.catalog.find(row.tool)
        except Invalid as error:
            await self._count(live, row, f"its connector is not here: {error}")
            return
        way = recourse(
            is_repeatable=self.may_resend(tool, row, resends=row.resends),
            can_be_asked=tool.reconciles,
            is_paused=is_paused,
        )
        if way is Recourse.SEND_AGAIN:
            await self._resend(live, tool)
        elif way is Recourse.ASK:
            await self._ask(live, row, tool)
        elif way is Recourse.WAIT:
            wait_ms = round(self._parts.policy.reconcile.longest_s * 1000)
            await self._wait(live, row, wait_ms, row.error, is_counted=False)
        else:
            await self._give_up(live, row, f"{row.tool} cannot be asked what happened")

    def may_resend(self, tool: Tool, row: MutationRow, *, resends: int) -> bool:
        """Tell whether a row's call may be sent again under its key (L7)."""
        lifetime_s = tool.key_lifetime_s
        return may_resend(
            idempotent=tool.idempotent,
            resends=resends,
            now_ms=self._parts.env.now_ms(),
            first_sent_ms=row.first_sent_at or row.created_at,
            timeout_ms=round(tool.timeout_s * 1000),
            lag_ms=round(tool.lag_s * 1000),
            key_lifetime_ms=0 if lifetime_s is None else lifetime_s * 1000,
        )

    async def _resend(self, live: Live, tool: Tool) -> None:
        new = lifecycle.resend(live.run)
        live.is_out = True
        again = await self._parts.store.send_again(
            live.fence, live.id, live.stored, new, now=self._parts.env.now_ms()
        )
        live.move(new)
        await self._ledger.send_recorded(live, again, tool)

    async def _ask(self, live: Live, row: MutationRow, tool: Tool) -> None:
        call: Call = self._ledger.recorded_call(live, tool, row)
        is_believable = self._ledger.absence_wait_ms(row.id, tool) == 0
        verdict = await self._ledger.ask(tool, call)
        if isinstance(verdict, Unsure):
            await self._count(live, row, verdict.reason or f"{row.tool} is not sure what happened")
            return
        if isinstance(verdict, NotApplied) and not is_believable:
            wait_ms = self._ledger.absence_wait_ms(row.id, tool)
            await self._wait(live, row, wait_ms, row.error, is_counted=False)
            return
        assert isinstance(verdict, Applied | NotApplied), verdict
        message = f"{row.tool}: the outside says that it did not happen"
        await self._ledger.hear_verdict(
            live, row.id, tool, row.attempt, verdict, message, is_believable=is_believable
        )

    async def _count(self, live: Live, row: MutationRow, reason: str) -> None:
        """Count a question without an answer; the last one asks a person instead (L5)."""
        if is_last_ask(row.asks, self._parts.policy.reconcile.attempts):
            await self._give_up(live, row, reason)
            return
        wait_ms = reconcile_delay_ms(self._parts.policy.reconcile, row.asks + 1)
        await self._wait(live, row, wait_ms, reason, is_counted=True)

    async def _wait(
        self, live: Live, row: MutationRow, wait_ms: int, reason: str | None, *, is_counted: bool
    ) -> None:
        now = self._parts.env.now_ms()
        await self._parts.store.count_attempt(
            live.fence,
            row.id,
            row.asks,
            is_counted=is_counted,
            due_at=now + math.ceil(wait_ms),
            error=reason,
            now=now,
        )

    async def _give_up(self, live: Live, row: MutationRow, reason: str) -> None:
        await self._ledger.judge(live, row.id, row.attempt, Verdict.GIVEN_UP, message=reason)
