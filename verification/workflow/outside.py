"""The outside of a simulation: it does what the scenario says, and counts what really happened.

Law 1  An effect is counted here and nowhere else; no host can see the count.
Law 2  It keeps its promises, and not one more: a request takes effect, and can be seen, until the
       last moment of `LAG_S` after its send ended, or never; after that a question is answered
       truly. A send has ended when the connector returned, or when its process died.
Law 3  A call of a host that is dead has no effect, unless it had left before. A send may go on
       after its cancel, after its timeout and after an orderly close; only its process ends it.
Law 4  A key is known for its lifetime since the first request with it, and then forgotten: the
       same call again is then another change.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from duly.connectors.base import Applied, Call, Connector, NotApplied, Unsure, mutation
from duly.connectors.registry import Registry
from duly.errors import AuthNeeded, NotSent, Refused, Transient, UnknownOutcome
from duly.rules.value import Json
from duly.testing.crash import AFTER, BEFORE, CrashPoints
from verification.point import EFFECT, QUESTION

LAG_S: Final = 20.0
TIMEOUT_S: Final = 10.0
LIFETIME_S: Final = 86_400.0
BRIEF_S: Final = 75.0  # a key that is forgotten while the host still tries
SLOW_S: Final = 6.0
LATE_S: Final = LAG_S - 0.001  # after the send has ended: as late as the lag allows
DEAF_S: Final = TIMEOUT_S + 15.0  # a send that hears no cancel returns after this time (L7)
TICK_S: Final = 0.001
LONG_S: Final = 75.0  # or, without a key to be forgotten, long after every wait of a close
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
    DEAF = "outlives its cancel, with effect"
    DEAF_REFUSED = "outlives its cancel, then refused"
    EXITS = "raises SystemExit, with effect"
    EXITS_BEFORE = "raises SystemExit, without effect"
    BREAKS = "raises a BaseException, with effect"
    MUTE = "raises what cannot be read, with effect"
    PLAIN = "raises a plain error, with effect"
    GIVES_UP = "cancels itself, with effect"


class Base(BaseException):
    """What no connector should raise."""


class Mute(Exception):
    """An error that cannot even be read."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


STRANGE: Final[Mapping[Outcome, Callable[[], BaseException]]] = {
    Outcome.EXITS: lambda: SystemExit(3),
    Outcome.EXITS_BEFORE: lambda: SystemExit(0),
    Outcome.BREAKS: lambda: Base("broken"),
    Outcome.MUTE: Mute,
    Outcome.PLAIN: lambda: ValueError("an error without a class"),
    Outcome.GIVES_UP: asyncio.CancelledError,
}
OUTLASTING: Final = (Outcome.DEAF, Outcome.DEAF_REFUSED)
# What an ordinary bad day brings; the rest comes in scenarios of an unkind world.
USUAL: Final = tuple(each for each in Outcome if each not in (*STRANGE, *OUTLASTING))
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
    EXITING = "raising SystemExit"
    BREAKING = "raising a BaseException"
    MUTE = "raising what cannot be read"
    UNREADABLE = "unsure, for a reason that cannot be read"
    DEAF = "outliving its cancel"


STRANGE_SAYINGS: Final = (
    Saying.EXITING,
    Saying.BREAKING,
    Saying.MUTE,
    Saying.UNREADABLE,
    Saying.DEAF,
)
USUAL_SAYINGS: Final = tuple(each for each in Saying if each not in STRANGE_SAYINGS)


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
    known: set[str] = field(default_factory=set)  # keys whose change it still remembers
    refusals: set[str] = field(default_factory=set)  # keys it refuses for ever
    first_at: dict[str, float] = field(default_factory=dict)  # by key: when it came first
    landing: list[float] = field(default_factory=list)  # when requests on their way take effect
    out: Counter[str] = field(default_factory=Counter)  # by key: sends that have not ended
    ended_at: dict[str, float] = field(default_factory=dict)  # by key: when the last send ended
    unsure: Counter[str] = field(default_factory=Counter)  # by key: answers that settled nothing
    calls: int = 0

    def next_outcome(self) -> Outcome:
        """Take the next outcome of the scenario; after its end everything works."""
        self.calls += 1
        return self.outcomes.pop(0) if self.outcomes else Outcome.OK

    def next_saying(self) -> Saying:
        """Take the next answer of the scenario; after its end only the truth is told."""
        return self.sayings.pop(0) if self.sayings else Saying.TRUTH

    def leave(self, call: Call) -> None:
        """Note a request whose first byte is about to leave."""
        self.on_leave(call)
        self.out[call.key] += 1

    def end(self, call: Call) -> None:
        """Note that a send is over, with any result."""
        self.out[call.key] -= 1
        self.ended_at[call.key] = self.now_s()

    def is_settled(self, key: str) -> bool:
        """Tell whether nothing that was sent with this key can land any more."""
        # To the microsecond, as the loop counts: a sum of floats may be a hair more than it is.
        since_s = round(self.now_s() - self.ended_at.get(key, -LAG_S), 6)
        return not self.out[key] and since_s >= LAG_S

    def forget(self, key: str, lifetime_s: float) -> None:
        """Forget a key whose time is over; a refusal may be remembered for longer (law 4)."""
        if self.now_s() >= self.first_at.setdefault(key, self.now_s()) + lifetime_s:
            self.first_at[key] = self.now_s()
            self.known.discard(key)

    def happen(self, call: Call, once_s: float) -> Json:
        """Make the change; a tool that does a repeated call once does it once for so long."""
        if once_s:
            self.forget(call.key, once_s)
            if call.key in self.known:
                return self.rows[call.key]
            self.known.add(call.key)
        ids = call.args["ids"]
        assert isinstance(ids, list), ids
        self.effects.update(str(each) for each in ids)
        self.rows[call.key] = {"row": len(self.rows) + 1}
        self.tell(f"a row appears for {', '.join(map(str, ids))}")
        return self.rows[call.key]

    def land_later(self, call: Call, once_s: float) -> None:
        """Let a request that is on its way take effect at the last moment of the lag."""
        at_s = self.now_s() + LATE_S

        def land() -> None:
            self.landing.remove(at_s)
            if call.key not in self.refusals:
                self.happen(call, once_s)

        self.landing.append(at_s)
        asyncio.get_running_loop().call_later(LATE_S, land)

    def has_happened(self, key: str) -> bool:
        """Tell the truth."""
        return key in self.rows


class Sheet(Connector):
    """The one connector of a simulation, for one life of the host."""

    name = "sheet"

    def __init__(self, outside: Outside, points: CrashPoints) -> None:
        self._outside = outside
        self._points = points

    @mutation(noun="row", lag_s=LAG_S, timeout_s=TIMEOUT_S, editable=("note",))
    async def append_asked(self, call: Call, ids: list[str], note: str = "") -> Json:
        """Append a row; the sheet can be asked about it."""
        return await self._change(call)

    @append_asked.reconcile
    async def append_asked_happened(self, call: Call) -> Applied | NotApplied | Unsure:
        """Look for the row of this very call."""
        return await self._say(call)

    @mutation(noun="row", lag_s=LAG_S, timeout_s=TIMEOUT_S, editable=("note",))
    async def append_blind(self, call: Call, ids: list[str], note: str = "") -> Json:
        """Append a row; no question can tell afterwards whether it is there."""
        return await self._change(call)

    @mutation(
        noun="row",
        lag_s=LAG_S,
        timeout_s=TIMEOUT_S,
        idempotent=True,
        key_lifetime_s=LIFETIME_S,
        editable=("note",),
    )
    async def append_once(self, call: Call, ids: list[str], note: str = "") -> Json:
        """Append a row once for every key."""
        return await self._change(call, LIFETIME_S)

    @mutation(
        noun="row",
        lag_s=LAG_S,
        timeout_s=TIMEOUT_S,
        idempotent=True,
        key_lifetime_s=BRIEF_S,
        editable=("note",),
    )
    async def append_brief(self, call: Call, ids: list[str], note: str = "") -> Json:
        """Append a row once for every key, which is forgotten soon."""
        return await self._change(call, BRIEF_S)

    async def _change(self, call: Call, once_s: float = 0.0) -> Json:
        outside = self._outside
        self._points.stop_if_dead()  # a dead host makes no call, and uses up none of the scenario
        outcome = outside.next_outcome()
        outside.tell(f"call {call.attempt} of {call.tool}: {outcome}")
        self._points.reach(BEFORE, EFFECT)
        outside.leave(call)
        try:
            return await self._answer(call, outcome, once_s)
        finally:
            if outcome is Outcome.LATE and call.key not in outside.refusals:
                outside.land_later(call, once_s)
            outside.end(call)

    async def _answer(self, call: Call, outcome: Outcome, once_s: float) -> Json:
        outside = self._outside
        if once_s and outcome is not Outcome.NOT_SENT:
            outside.forget(call.key, once_s)
        if call.key in outside.refusals:
            raise Refused("the sheet said no before", remembered=True)
        self._refuse(outcome)
        if outcome in WITHOUT_EFFECT:
            if outcome is Outcome.REFUSAL_LOST and once_s and call.key not in outside.rows:
                outside.refusals.add(call.key)
            await self._give_up(outcome)
        if outcome is Outcome.EXITS_BEFORE:
            raise STRANGE[outcome]()
        if outcome is Outcome.SLOW:
            await self._outside.sleep(SLOW_S)
            self._points.stop_if_dead()
        if outcome in OUTLASTING:
            await self._outlast(DEAF_S if once_s else LONG_S)
        if outcome is Outcome.DEAF_REFUSED:
            raise Refused("the sheet says no, late")
        if call.key in outside.refusals:  # another send of it was refused meanwhile
            raise Refused("the sheet said no before", remembered=True)
        result = outside.happen(call, once_s)
        if outcome is Outcome.TWICE and once_s:
            result = outside.happen(call, once_s)
        self._points.reach(AFTER, EFFECT)
        if outcome in (Outcome.TIMEOUT_AFTER, Outcome.AMBIGUOUS_AFTER):
            await self._give_up(outcome)
        if outcome in STRANGE:
            raise STRANGE[outcome]()
        return result

    async def _outlast(self, seconds: float) -> None:
        """Go on as a thread does: no cancel is heard, and only the end of the process ends it."""
        ends_s = self._outside.now_s() + seconds
        while (left_s := ends_s - self._outside.now_s()) > 0:
            try:
                # At least a millisecond: less than the clock shows would never come to an end.
                await self._outside.sleep(max(left_s, TICK_S))
            except asyncio.CancelledError:
                if self._points.is_dead:
                    raise
        self._points.stop_if_dead()

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
        self._points.stop_if_dead()
        saying = outside.next_saying()
        outside.tell(f"asked about {call.tool}: {saying}")
        self._points.reach(BEFORE, QUESTION)
        if saying is Saying.HANGING:
            await self._outside.sleep(FOR_EVER_S)
        if saying in STRANGE_SAYINGS:
            return await self._say_strangely(saying)
        if saying is Saying.FAILING:
            raise Transient("the sheet cannot be read")
        if saying is Saying.UNSURE:
            outside.unsure[call.key] += 1
            return Unsure("the sheet is busy")
        if saying is Saying.NOT_YET and not outside.is_settled(call.key):
            return NotApplied()  # it may say so as long as something can still land
        if outside.has_happened(call.key):
            return Applied(outside.rows[call.key])
        return NotApplied()

    async def _say_strangely(self, saying: Saying) -> Unsure:
        if saying is Saying.EXITING:
            raise SystemExit(0)
        if saying is Saying.BREAKING:
            raise Base("broken")
        if saying is Saying.MUTE:
            raise Mute
        if saying is Saying.DEAF:
            await self._outlast(LONG_S)
            return Unsure("the sheet took its time")
        return Unsure(Mute())  # type: ignore[arg-type]  # that is what is strange about it


_registries: dict[type[Sheet], Registry] = {}


def register(sheet: Sheet) -> Registry:
    """Return the connectors of one process; what a sheet declares is read once."""
    kind = type(sheet)
    if kind not in _registries:
        _registries[kind] = Registry([sheet])
    known, registry = _registries[kind], Registry()
    registry.catalog = known.catalog
    registry._connectors = dict.fromkeys(known._connectors, sheet)
    registry._places = {
        tool: replace(place, connector=sheet) for tool, place in known._places.items()
    }
    return registry
