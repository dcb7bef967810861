"""The outside of a simulation: it does what the story says, and counts what really happened.

Law 1  An effect is counted here and nowhere else; no host can see the count.
Law 2  It keeps its promises, as a real service must: a request takes effect, and can be seen,
       within `LAG_S` of leaving, or never; after that the answer to a question is the truth.
Law 3  A call of a host that is dead has no effect, unless it had left before.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from duly.connectors.base import Applied, Call, Connector, NotApplied, Unsure, mutation
from duly.errors import AuthNeeded, NotSent, Refused, Transient, UnknownOutcome
from duly.rules.value import Json
from duly.simulation.point import AFTER, BEFORE, EFFECT, QUESTION, Points

LAG_S: Final = 20.0
TIMEOUT_S: Final = 10.0
LIFETIME_S: Final = 86_400.0
SLOW_S: Final = 6.0
LATE_S: Final = 15.0
FOR_EVER_S: Final = 1_000_000.0


class Outcome(StrEnum):
    """What becomes of one call."""

    OK = "ok"
    REFUSED = "refused"
    RATE_LIMITED = "rate limited"
    NOT_SENT = "not sent"
    AUTH = "sign-in lost"
    TIMEOUT_BEFORE = "timeout before the effect"
    TIMEOUT_AFTER = "timeout after the effect"
    AMBIGUOUS_BEFORE = "ambiguous, without effect"
    AMBIGUOUS_AFTER = "ambiguous, with effect"
    SLOW = "slow"
    LATE = "late landing"
    TWICE = "delivered twice"
    REFUSAL_LOST = "refused, and the answer lost"


# What the caller waits for in vain, or is told nothing certain about, while nothing happened yet.
WITHOUT_EFFECT: Final = frozenset(
    {
        Outcome.TIMEOUT_BEFORE,
        Outcome.AMBIGUOUS_BEFORE,
        Outcome.LATE,
        Outcome.REFUSAL_LOST,
    }
)
AMBIGUOUS: Final = frozenset(
    {Outcome.AMBIGUOUS_BEFORE, Outcome.AMBIGUOUS_AFTER, Outcome.REFUSAL_LOST}
)


class Saying(StrEnum):
    """What becomes of one question about a call."""

    TRUTH = "truth"
    NOT_YET = "not yet visible"
    UNSURE = "unsure"
    FAILING = "failing"
    HANGING = "hanging"


@dataclass(slots=True)
class Outside:
    """The outside across all lives of the host."""

    outcomes: list[Outcome]
    sayings: list[Saying]
    tell: Callable[[str], None]
    now_s: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    on_leave: Callable[[Call], None]  # told of every call whose first byte is about to leave
    rows: dict[str, Json] = field(default_factory=dict)  # by key: what was done, and its answer
    effects: Counter[str] = field(default_factory=Counter)  # by event: how often
    refusals: set[str] = field(default_factory=set)  # keys it will refuse for ever
    landing: int = 0  # requests that left and have had no effect yet
    settled_at: dict[str, float] = field(default_factory=dict)  # when nothing can land any more
    calls: int = 0

    def next_outcome(self) -> Outcome:
        """Take the next outcome of the story; after its end everything works."""
        self.calls += 1
        return self.outcomes.pop(0) if self.outcomes else Outcome.OK

    def next_saying(self) -> Saying:
        """Take the next answer of the story; after its end only the truth is told."""
        return self.sayings.pop(0) if self.sayings else Saying.TRUTH

    def happen(self, call: Call, *, is_once: bool) -> Json:
        """Make the change; a tool that does a repeated call once does it once."""
        if is_once and call.key in self.rows:
            return self.rows[call.key]
        ids = call.args["ids"]
        assert isinstance(ids, list), ids
        self.effects.update(str(each) for each in ids)
        self.rows[call.key] = {"row": len(self.rows) + 1}
        self.tell(f"a row appears for {', '.join(map(str, ids))}")
        return self.rows[call.key]

    def land_later(self, call: Call, *, is_once: bool) -> None:
        """Let a request that has left take effect after a while, whoever still waits for it."""

        def land() -> None:
            self.landing -= 1
            if call.key not in self.refusals:
                self.happen(call, is_once=is_once)

        self.landing += 1
        asyncio.get_running_loop().call_later(LATE_S, land)

    def has_happened(self, key: str) -> bool:
        """Tell the truth."""
        return key in self.rows


class Sheet(Connector):
    """The one connector of a simulation, for one life of the host."""

    name = "sheet"

    def __init__(self, outside: Outside, points: Points) -> None:
        self._outside = outside
        self._points = points

    @mutation(noun="row", lag_s=LAG_S, timeout_s=TIMEOUT_S)
    async def append_asked(self, call: Call, ids: list[str]) -> Json:
        """Append a row; the sheet can be asked about it."""
        return await self._change(call, is_once=False)

    @append_asked.reconcile
    async def append_asked_happened(self, call: Call) -> Applied | NotApplied | Unsure:
        """Look for the row of this very call."""
        return await self._say(call)

    @mutation(noun="row", lag_s=LAG_S, timeout_s=TIMEOUT_S)
    async def append_blind(self, call: Call, ids: list[str]) -> Json:
        """Append a row; nobody can say afterwards whether it is there."""
        return await self._change(call, is_once=False)

    @mutation(
        noun="row", lag_s=LAG_S, timeout_s=TIMEOUT_S, idempotent=True, key_lifetime_s=LIFETIME_S
    )
    async def append_once(self, call: Call, ids: list[str]) -> Json:
        """Append a row once for every key."""
        return await self._change(call, is_once=True)

    async def _change(self, call: Call, *, is_once: bool) -> Json:
        outside = self._outside
        outcome = outside.next_outcome()
        outside.tell(f"call {call.attempt} of {call.tool}: {outcome}")
        self._points.reach(BEFORE, EFFECT)
        outside.on_leave(call)
        outside.settled_at[call.key] = outside.now_s() + LAG_S
        if call.key in outside.refusals:
            raise Refused("the sheet said no before", remembered=True)
        self._refuse(outcome)
        if outcome in WITHOUT_EFFECT:
            if outcome is Outcome.LATE:
                outside.land_later(call, is_once=is_once)
            if outcome is Outcome.REFUSAL_LOST and is_once and call.key not in outside.rows:
                outside.refusals.add(call.key)
            await self._give_up(outcome)
        if outcome is Outcome.SLOW:
            await self._outside.sleep(SLOW_S)
            self._points.stop_if_dead()
        result = outside.happen(call, is_once=is_once)
        if outcome is Outcome.TWICE and is_once:
            result = outside.happen(call, is_once=is_once)
        self._points.reach(AFTER, EFFECT)
        if outcome in (Outcome.TIMEOUT_AFTER, Outcome.AMBIGUOUS_AFTER):
            await self._give_up(outcome)
        return result

    def _refuse(self, outcome: Outcome) -> None:
        if outcome is Outcome.REFUSED:
            raise Refused("the sheet says no")
        if outcome is Outcome.RATE_LIMITED:
            raise Transient("too many rows", retry_after_s=30, outcome="refused")
        if outcome is Outcome.NOT_SENT:
            raise NotSent("no connection")
        if outcome is Outcome.AUTH:
            raise AuthNeeded("signed out")

    async def _give_up(self, outcome: Outcome) -> None:
        if outcome in AMBIGUOUS:
            raise UnknownOutcome("the connection broke")
        await self._outside.sleep(FOR_EVER_S)

    async def _say(self, call: Call) -> Applied | NotApplied | Unsure:
        outside = self._outside
        saying = outside.next_saying()
        outside.tell(f"asked about {call.tool}: {saying}")
        self._points.reach(BEFORE, QUESTION)
        if saying is Saying.HANGING:
            await self._outside.sleep(FOR_EVER_S)
        if saying is Saying.FAILING:
            raise Transient("the sheet cannot be read")
        if saying is Saying.UNSURE:
            return Unsure("the sheet is busy")
        is_settled = outside.now_s() >= outside.settled_at.get(call.key, 0)
        if saying is Saying.NOT_YET and not is_settled:
            return NotApplied()  # it may say so as long as something can still land
        if outside.has_happened(call.key):
            return Applied(outside.rows[call.key])
        return NotApplied()
