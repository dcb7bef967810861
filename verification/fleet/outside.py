"""The sheet as a fleet meets it: what has left a host happens on the other side, by itself.

Law 1  A request is carried out by the outside's own task. A host that is stopped or dead does not
       delay it and does not take it back.
Law 2  A connector keeps its time (L7): right before its first byte it looks whether its time is
       over, and sends nothing then. Its time is longer than a lease: a host that was stopped may
       send when it has lost its lease, and its successor must have waited for that (L6).
       A request takes effect, and can be seen, until the last moment of `LAG_S` after its send
       ended, and a send ends at the latest when its time does.
Law 3  A question is answered as of the moment at which it arrives; the host may hear it later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from duly.connectors.base import Applied, Call, NotApplied, Unsure, mutation
from duly.connectors.watch import Watch
from duly.env import CALL
from duly.errors import Refused, UnknownOutcome
from duly.rules.value import Json
from duly.testing.crash import AFTER, BEFORE, CrashPoints
from verification.fleet.process import outside as outside_context
from verification.point import EFFECT, QUESTION
from verification.workflow.outside import (
    AMBIGUOUS,
    BRIEF_S,
    FOR_EVER_S,
    LAG_S,
    LIFETIME_S,
    SLOW_S,
    WITHOUT_EFFECT,
    Outcome,
    Outside,
    Sheet,
)

LONG_TIMEOUT_S: Final = 30.0
LONG_LIFETIME_S: Final = 2 * LIFETIME_S
FIRST_BYTE: Final = "the first byte"


class FleetSheet(Sheet):
    """The one connector of a fleet, in one process of it."""

    @mutation(noun="row", lag_s=LAG_S, timeout_s=LONG_TIMEOUT_S, editable=("note",))
    async def append_asked(self, call: Call, ids: list[str], note: str = "") -> Json:
        """Append a row; the sheet can be asked about it."""
        return await self._change(call)

    @append_asked.reconcile
    async def append_asked_happened(self, call: Call) -> Applied | NotApplied | Unsure:
        """Look for the row of this very call."""
        return await self._say(call)

    @mutation(noun="row", lag_s=LAG_S, timeout_s=LONG_TIMEOUT_S, editable=("note",))
    async def append_blind(self, call: Call, ids: list[str], note: str = "") -> Json:
        """Append a row; no question can tell afterwards whether it is there."""
        return await self._change(call)

    @mutation(
        noun="row",
        lag_s=LAG_S,
        timeout_s=LONG_TIMEOUT_S,
        idempotent=True,
        key_lifetime_s=LIFETIME_S,
        editable=("note",),
    )
    async def append_once(self, call: Call, ids: list[str], note: str = "") -> Json:
        """Append a row once for every key."""
        return await self._change(call, self.lifetime_s)

    @mutation(
        noun="row",
        lag_s=LAG_S,
        timeout_s=LONG_TIMEOUT_S,
        idempotent=True,
        key_lifetime_s=BRIEF_S,
        editable=("note",),
    )
    async def append_brief(self, call: Call, ids: list[str], note: str = "") -> Json:
        """Append a row once for every key, which is forgotten soon."""
        return await self._change(call, BRIEF_S)

    lifetime_s = LIFETIME_S

    def __init__(
        self,
        outside: Outside,
        points: CrashPoints,
        on_check: Callable[[float], None],
        on_leave: Callable[[float], None],
    ) -> None:
        super().__init__(outside, points)
        # Called first, and at the first byte: with how long ago the host looked at its lease.
        self._on_check = on_check
        self._on_leave = on_leave

    async def _change(self, call: Call, once_s: float = 0.0) -> Json:
        outside, loop = self._outside, asyncio.get_running_loop()
        self._points.stop_if_dead()
        watch = CALL.get()
        assert isinstance(watch, Watch), watch
        self._on_check(self._ago_s(watch))
        self._points.reach(BEFORE, EFFECT)
        await outside.sleep(0)  # here a host is stopped right before its first byte
        self._points.stop_if_dead()
        watch.check_time()
        self._on_leave(self._ago_s(watch))
        outcome = outside.next_outcome()
        outside.tell(f"call {call.attempt} of {call.tool}: {outcome}")
        if self._ago_s(watch) == 0:
            outside.leave(call)
        else:  # another host may have written meanwhile that this one is gone
            outside.out[call.key] += 1
        is_over = asyncio.Event()
        request = loop.create_task(
            self._carry_out(call, outcome, once_s, is_over, watch._ends_s),
            name=f"request of {call.tool}",
            context=outside_context(),
        )
        try:
            self._points.reach(AFTER, FIRST_BYTE)
            await outside.sleep(0)
            result = await asyncio.shield(request)
            self._points.reach(AFTER, EFFECT)
            await outside.sleep(0)
            return result
        finally:
            is_over.set()

    def _ago_s(self, watch: Watch) -> float:
        """Return how long ago the host looked whether it may send."""
        left_s = watch._ends_s - self._outside.now_s()
        return round(LONG_TIMEOUT_S - left_s, 6)

    async def _carry_out(
        self, call: Call, outcome: Outcome, once_s: float, is_over: asyncio.Event, ends_s: float
    ) -> Json:
        ending = asyncio.get_running_loop().create_task(self._end(call, is_over, ends_s))
        if outcome is Outcome.LATE and call.key not in self._outside.refusals:
            ending.add_done_callback(lambda _: self._outside.land_later(call, once_s))
        return await self._serve(call, outcome, once_s)

    async def _end(self, call: Call, is_over: asyncio.Event, ends_s: float) -> None:
        """Note the end of a send: when its process has seen it, and at the latest by its time."""
        try:
            async with asyncio.timeout_at(ends_s):
                await is_over.wait()
        except TimeoutError:
            pass
        self._outside.end(call)

    async def _serve(self, call: Call, outcome: Outcome, once_s: float) -> Json:
        """Do with a request what the scenario says; nothing of it belongs to a host."""
        outside = self._outside
        if once_s and outcome is not Outcome.NOT_SENT:
            outside.forget(call.key, once_s)
        if call.key in outside.refusals:
            raise Refused("the sheet said no before", remembered=True)
        self._refuse(outcome)
        if outcome in WITHOUT_EFFECT:
            if outcome is Outcome.REFUSAL_LOST and once_s and call.key not in outside.rows:
                outside.refusals.add(call.key)
            await self._be_silent(outcome)
        if outcome is Outcome.SLOW:
            await outside.sleep(SLOW_S)
        result = outside.happen(call, once_s)
        if outcome is Outcome.TWICE and once_s:
            result = outside.happen(call, once_s)
        if outcome in (Outcome.TIMEOUT_AFTER, Outcome.AMBIGUOUS_AFTER):
            await self._be_silent(outcome)
        return result

    async def _be_silent(self, outcome: Outcome) -> None:
        if outcome in AMBIGUOUS:
            raise UnknownOutcome("the connection broke")
        await self._outside.sleep(FOR_EVER_S)

    async def _say(self, call: Call) -> Applied | NotApplied | Unsure:
        said = await super()._say(call)
        self._points.reach(AFTER, QUESTION)
        await self._outside.sleep(0)
        return said


class LongKeySheet(FleetSheet):
    """A sheet that knows a key for longer than the margin of a day: another machine may use it."""

    lifetime_s = LONG_LIFETIME_S

    @mutation(
        noun="row",
        lag_s=LAG_S,
        timeout_s=LONG_TIMEOUT_S,
        idempotent=True,
        key_lifetime_s=LONG_LIFETIME_S,
        editable=("note",),
    )
    async def append_once(self, call: Call, ids: list[str], note: str = "") -> Json:
        """Append a row once for every key."""
        return await self._change(call, self.lifetime_s)
