"""What this process knows of its own sends: which are out, and when the others ended (L6).

Law 1  A send has ended when its last part has. It is still out after its caller stopped waiting.
Law 2  A row of which nothing is known here was sent by a host that is gone: its sends ended with
       it, and their time counts from when this host took its workflow over.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from duly.connectors.base import Call
from duly.connectors.watch import Reply, Watch
from duly.engine.claims import Claims
from duly.env import Env
from duly.observed import SpanKind, span
from duly.rules import ledger as rules
from duly.rules.catalog import Tool
from duly.rules.ledger import Terms
from duly.rules.outage import Outage
from duly.rules.value import Json
from duly.rules.word import Answer
from duly.store.base import Fence


@dataclass(frozen=True, slots=True)
class Heard:
    """What a send, or asking about one, gave."""

    answer: Answer
    result_text: str | None = None
    error: BaseException | None = None
    warning: str | None = None
    is_expired: bool = False  # it was not sent again, for its key may be forgotten (L7)


@dataclass(frozen=True, slots=True)
class Sent:
    """One send of a recorded call: what it was made of, and what is kept of those before it."""

    mutation_id: str
    tool: Tool
    call: Call
    terms: Terms
    resends: int = 0
    outage: Outage | None = None
    line: int | None = None


@dataclass(slots=True)
class Sending:
    """A send of this process, by its number on the row: when it began, and if a task waits."""

    watch: Watch
    tool: Tool
    attempt: int
    begun_ms: int
    is_left: bool = False  # no task waits for its answer any more
    is_heard: bool = False  # it answered after that
    is_late: bool = False  # and what it said is being written
    handle: Json = None  # what its first step made (L14)

    @property
    def is_out(self) -> bool:
        """Tell whether its outcome may still come: it runs, or its answer is being written."""
        return self.watch.is_out or self.is_late


@dataclass(frozen=True, slots=True)
class Unknown:
    """A row whose outcome is unknown, as far as the end of its sends goes (L6)."""

    workflow_id: str
    attempt: int
    timeout_ms: int


class Sends:
    """The sends of each row that is not settled."""

    def __init__(self, env: Env, claims: Claims) -> None:
        self._env = env
        self._claims = claims
        self._of: defaultdict[str, list[Sending]] = defaultdict(list)
        self._unknown: dict[str, Unknown] = {}  # whose end is not on the row yet

    def add(self, mutation_id: str, sending: Sending) -> None:
        """Remember a send that begins."""
        self._of[mutation_id].append(sending)

    def forget(self, mutation_id: str) -> None:
        """Forget the sends of a row that is settled."""
        self._of.pop(mutation_id, None)
        self._unknown.pop(mutation_id, None)

    def follow(self, mutation_id: str, workflow_id: str, attempt: int, terms: Terms) -> None:
        """Have the end of the sends of an unknown row written on it, in a fleet (L6)."""
        if self._claims.is_of_fleet:
            self._unknown[mutation_id] = Unknown(workflow_id, attempt, terms.timeout_ms)

    def follow_sent(self, workflow_id: str, sent: Sent) -> None:
        """Have the end of the sends of a row written on it: what this one came to is unknown."""
        self.follow(sent.mutation_id, workflow_id, sent.call.attempt, sent.terms)

    def list_ended(self) -> tuple[tuple[str, Unknown, int], ...]:
        """List the unknown rows of which no send is out here, and in how long none is at all.

        A send under an earlier claim may last as long as its tool may, from our claim on. Of a
        workflow that is not held here nothing is said.
        """
        return tuple(
            (each, known, self.ends_in_ms(each, known.workflow_id, known.timeout_ms))
            for each, known in self._unknown.items()
            if self._claims.holds(known.workflow_id) and not self.is_out(each)
        )

    def ends_in_ms(self, mutation_id: str, workflow_id: str, timeout_ms: int) -> int:
        """Return in how long no send of a row is out any more: 0 is now (L6)."""
        return max(
            0, self._ended_at(mutation_id, workflow_id, timeout_ms) - self._env.monotonic_ms()
        )

    def has_written(self, mutation_id: str, known: Unknown) -> None:
        """Note that the end of a row's sends is on the row."""
        if self._unknown.get(mutation_id) == known:
            del self._unknown[mutation_id]

    def _ended_at(self, mutation_id: str, workflow_id: str, timeout_ms: int) -> int:
        sends = self._of.get(mutation_id, ())
        over_since_ms = self._claims.over_since_ms(workflow_id, timeout_ms)
        return max(over_since_ms, *(each.watch.ended_at_ms or 0 for each in sends), 0)

    def is_out(self, mutation_id: str) -> bool:
        """Tell whether a send of this row has not returned, or its answer is being written."""
        return any(each.is_out for each in self._of.get(mutation_id, ()))

    def is_sending(self, workflow_id: str) -> bool:
        """Tell whether a send of this workflow is out that no task waits for any more."""
        unknown = self._unknown.items()
        return any(each.workflow_id == workflow_id and self.is_out(one) for one, each in unknown)

    def keep(self, mutation_id: str, attempt: int, handle: Json) -> None:
        """Remember the handle of a send; its row has it already (L14)."""
        for each in self._of.get(mutation_id, ()):
            if each.attempt == attempt:
                each.handle = handle

    def with_handle(self, mutation_id: str, call: Call) -> Call:
        """Return a call with the handle that its last send here kept, if any did (L14)."""
        kept = [each.handle for each in self._of.get(mutation_id, ()) if each.handle is not None]
        return replace(call, handle=kept[-1]) if kept else call

    def absence_wait_ms(
        self, fence: Fence, mutation_id: str, terms: Terms, said_ms: int | None = None
    ) -> int:
        """Return how long until "it did not happen" can be believed; zero is now (L6).

        What was said before now, `said_ms` by the clock of durations, must have been true then.
        """
        overdue_ms = self.overdue_in_ms(mutation_id, terms)
        if overdue_ms is not None:  # a send has not even ended
            return max(overdue_ms, rules.GRACE_MS)
        ended_at = self._ended_at(mutation_id, fence.workflow_id, terms.timeout_ms)
        since_ms = (self._env.monotonic_ms() if said_ms is None else said_ms) - ended_at
        is_settled = rules.is_absence_settled(terms.lag_ms, since_ms)
        return 0 if is_settled else terms.lag_ms - since_ms

    def overdue_in_ms(self, mutation_id: str, terms: Terms) -> int | None:
        """Return in how long the oldest send that is out is overdue; None if none is out (L6)."""
        sends = self._of.get(mutation_id, ())
        begun = [each.begun_ms for each in sends if each.is_out]
        if not begun:
            return None
        return min(begun) + rules.overdue_ms(terms) - self._env.monotonic_ms()

    def is_overdue(self, mutation_id: str, terms: Terms) -> bool:
        """Tell whether a send is still out although its timeout and lag have passed (L6)."""
        overdue_ms = self.overdue_in_ms(mutation_id, terms)
        return overdue_ms is not None and overdue_ms <= 0

    def until_overdue(self, mutation_id: str, terms: Terms, wait_ms: int) -> int:
        """Shorten a wait to the moment at which a send that hangs is shown to a person (L6)."""
        overdue_ms = self.overdue_in_ms(mutation_id, terms)
        return wait_ms if overdue_ms is None else min(wait_ms, max(1, overdue_ms))


async def watched_answer(watch: Watch, sent: Sent) -> Reply | None:
    """Wait for the answer to a send, within the tool's time; an observer sees it as a call."""
    attempt = sent.call.attempt
    with span(SpanKind.CALL, sent.tool.name, mutation=sent.mutation_id, attempt=attempt):
        return await watch.answered(sent.tool.timeout_s)
