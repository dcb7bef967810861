"""Steps that run as they would, while nothing comes of it: nothing is stored, nothing is sent.

Law 1  The steps are asked by the very code of real runs, with its access table, its checks of
       arguments and publishes, and its limits.
Law 2  Behind them stand topics in memory and an outside that can only be read. Neither can change
       anything: no mutation can be sent from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from duly.config import Policy, WorkflowPolicy
from duly.connectors.llm import ModelWay
from duly.engine.base import PLAIN_POLICY, StepFailed
from duly.engine.blobs import RehearsedBlobs
from duly.engine.calls import Wanted
from duly.engine.live import Live, Notes
from duly.engine.run import Told, ask_mutate, ask_next, ask_prepare, ask_producer, pin
from duly.engine.step_env import HostClock, StepOutside
from duly.errors import Invalid, NotFound
from duly.rules.catalog import Catalog, Tool
from duly.rules.event import (
    CHANGES,
    EventMove,
    EventStatus,
    Publication,
    Republish,
    check_fitting,
    count_fitting,
    move,
    on_republish,
)
from duly.rules.lifecycle import START, Counts
from duly.rules.model import AskModel, ModelAnswer, ModelQuestion
from duly.rules.prepared import Judgement, Prepared, judge_reservation
from duly.rules.value import Json, decode, digest
from duly.rules.word import Failure, Kind, MutationStatus, Outcome
from duly.sandbox.base import Loaded, Sandbox
from duly.store.base import Fence
from duly.store.people import GrantRow
from duly.store.record import EventRow, Reserve
from duly.store.run import not_to_be_had

MADE_UP = "rehearsal"  # the author of an event that a rehearsal published


class CountSent(Protocol):
    """The store's own count of what was sent (A1)."""

    def __call__(
        self, workflow_id: str, tools: Iterable[str], *, since: int, besides: str = ""
    ) -> Awaitable[int]:
        """Return how often any of these tools was sent since a moment."""


@dataclass(slots=True)
class MemoryTopics:
    """The topics of one workflow in memory, with the numbers its consumers go by (T5, S3)."""

    grants: tuple[GrantRow, ...] = ()
    count: CountSent | None = None
    wanted: Counter[str] = field(default_factory=Counter)  # what would have been sent, by tool
    events: dict[tuple[str, str], EventRow] = field(default_factory=dict)
    counter: int = 0
    changed: dict[str, int] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)  # the runs that a model answered

    # -- What steps ask -------------------------------------------------------------------------

    async def peek(
        self,
        workflow_id: str,
        topic: str,
        *,
        limit: int,
        bytes_max: int,
        after: str | None = None,
    ) -> tuple[EventRow, ...]:
        """Read pending events in their order (T6)."""
        start = -1
        if after is not None:
            if (topic, after) not in self.events:
                raise NotFound(code="no_event", subject=str(after), facts={"topic": topic})
            start = self.events[topic, after].seq
        found = [each for each in self.pending(topic) if each.seq > start][:limit]
        return tuple(found[: count_fitting(map(_size_bytes, found), bytes_max)])

    async def get_by_ids(
        self, workflow_id: str, topic: str, message_ids: tuple[str, ...], *, bytes_max: int
    ) -> tuple[EventRow, ...]:
        """Read known events of any status (T7)."""
        asked = ((topic, each) for each in dict.fromkeys(message_ids))
        found = tuple(self.events[each] for each in asked if each in self.events)
        check_fitting(sum(map(_size_bytes, found)), bytes_max)
        return found

    async def list_grants(self, workflow_id: str) -> tuple[GrantRow, ...]:
        """Return the envelope it was given (A1)."""
        return self.grants

    async def count_sent(
        self, workflow_id: str, tools: Iterable[str], *, since: int, besides: str = ""
    ) -> int:
        """Count what was really sent, and what would have been (A1)."""
        names = tuple(tools)
        sent = 0 if self.count is None else await self.count(workflow_id, names, since=since)
        return sent + sum(self.wanted[name] for name in names)

    async def count_first(self, workflow_id: str, tool: str, major: str, *, most: int) -> int:
        """Count what would have been sent: what is tried begins a major version (A3)."""
        return self.wanted[tool]

    async def has_asked_model(self, chain: str) -> bool:
        """Tell whether a model answered a rehearsed run (M4)."""
        return chain in self.answered

    # -- What becomes of it ---------------------------------------------------------------------

    def pending(self, topic: str) -> list[EventRow]:
        """List what waits in a topic, in its order."""
        found = (each for each in self.events.values() if each.topic == topic)
        pending = [each for each in found if each.status == EventStatus.PENDING]
        return sorted(pending, key=lambda each: each.seq)

    def publish(self, publication: Publication, now: int) -> None:
        """Put one event into its topic, by its message id (T5)."""
        here = (publication.topic, publication.message_id)
        old = self.events.get(here)
        status = None if old is None else EventStatus(old.status)
        is_same = old is not None and publication.digest == digest([old.title, decode(old.body)])
        decision = on_republish(status, is_same)
        if decision not in CHANGES:
            return
        self._touch(publication.topic)
        if old is not None and decision is Republish.REPLACED:
            self.events[here] = replace(
                old, content=self.counter, title=publication.title, body=publication.payload_text
            )
            return
        self.events[here] = EventRow(
            *here,
            seq=self.counter,
            content=self.counter,
            title=publication.title,
            body=publication.payload_text,
            status=EventStatus.PENDING,
            reserved_by=None,
            finished_by=None,
            created_by=MADE_UP,
            attempts=0,
            created_at=now,
            finished_at=None,
        )

    def reserve(
        self, prepared: Prepared, offered: Mapping[tuple[str, str], int]
    ) -> tuple[EventRow, ...]:
        """Reserve all a prepare result asks for, or refuse it (C5)."""
        found: list[EventRow] = []
        for each in prepared.reservations:
            for message_id in each.message_ids:
                asked = Reserve(each.topic, message_id, offered.get((each.topic, message_id)))
                row = self.events.get((each.topic, message_id))
                status = None if row is None else EventStatus(row.status)
                content = None if row is None else row.content
                judgement = judge_reservation(status, content, asked.offered)
                if row is None or judgement is not Judgement.RESERVE:
                    raise not_to_be_had(asked, status)
                found.append(row)
        for row in found:
            self._move(row, EventMove.RESERVE)
            self._touch(row.topic)
        return tuple(found)

    def consume(self, inputs: Iterable[EventRow]) -> None:
        """End the events a run took."""
        for each in inputs:
            self._move(self.events[each.topic, each.message_id], EventMove.CONSUME)

    def _move(self, row: EventRow, event_move: EventMove) -> None:
        status = move(EventStatus(row.status), event_move)
        self.events[row.topic, row.message_id] = replace(row, status=status)

    def _touch(self, topic: str) -> None:
        self.counter += 1
        self.changed[topic] = self.counter


def _size_bytes(event: EventRow) -> int:
    return len(event.body.encode()) + len(event.title.encode())


@dataclass(frozen=True, slots=True)
class ReadOnlyOutside:
    """The real outside, for reads only."""

    catalog: Catalog
    look: Callable[[Tool, Mapping[str, Json]], Coroutine[Any, Any, Json]]

    async def read(self, tool: Tool, args: Mapping[str, Json]) -> Json:
        """Ask the outside."""
        return await self.look(tool, args)


@dataclass(frozen=True, slots=True)
class NotedModels:
    """The real models; which rehearsed run they answered is noted."""

    models: AskModel
    answered: set[str]
    chain: str

    async def ask(self, question: ModelQuestion) -> ModelAnswer:
        """Ask, and note it."""
        answer = await self.models.ask(question)
        self.answered.add(self.chain)
        return answer


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """All that steps reach while nothing comes of them."""

    env: HostClock
    store: MemoryTopics
    sandbox: Sandbox
    outside: StepOutside
    policy: Policy
    blobs: RehearsedBlobs = field(default_factory=RehearsedBlobs)
    models: AskModel | None = None

    def blobs_of(self, live: Live) -> RehearsedBlobs:
        """Return the blobs of the rehearsal; nothing of them is written."""
        return self.blobs

    def model_of(self, live: Live) -> ModelWay | None:
        """Return the way to models; the host pays, and every try asks anew."""
        if self.models is None:
            return None
        return ModelWay(NotedModels(self.models, self.store.answered, live.chain))

    def policy_of(self, workflow: str) -> WorkflowPolicy:
        """Return what the policy says about one workflow."""
        return self.policy.workflows.get(workflow, PLAIN_POLICY)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a handler, as far as it came.

    `is_told` says whether `next` was run. It is not, where the result of the mutation is unknown.
    """

    inputs: tuple[EventRow, ...] = ()
    wanted: Wanted | None = None
    told: Told = field(default_factory=Told)
    is_told: bool = True
    failed: StepFailed | None = None


# Returns what a mutation would return, as JSON text; None if that is unknown.
Answerer = Callable[[Wanted], str | None]


def take_up(
    loaded: Loaded,
    handler: str,
    kind: Kind,
    notes: Notes,
    *,
    workflow_id: str,
    run_id: str,
    state_text: str | None,
) -> Live:
    """Make a run no store knows."""
    run = START[kind]
    return Live(
        id=run_id,
        fence=Fence(workflow_id, 0),
        workflow=loaded.declaration.name,
        handler=handler,
        version="",
        chain=run_id,
        stored=run,
        run=run,
        counts=Counts(),
        notes=notes,
        loaded=loaded,
        state_text=state_text,
    )


async def produce(stage: Rehearsal, live: Live) -> Attempt:
    """Run a producer; what it published is only told."""
    try:
        return Attempt(told=await ask_producer(stage, live))
    except StepFailed as failed:
        return Attempt(failed=failed)


async def consume(stage: Rehearsal, live: Live, answer: Answerer) -> Attempt:
    """Run a consumer's steps; the mutation it asks for is kept and never sent."""
    inputs: tuple[EventRow, ...] = ()
    wanted: Wanted | None = None
    try:
        inputs = await prepare(stage, live)
        if inputs:  # a run that reserved nothing goes on to `next` (C7)
            wanted, _ = await ask_mutate(stage, live)
        if wanted is not None:
            stage.store.wanted[wanted.tool.name] += 1
        result_text = None if wanted is None else answer(wanted)
        if wanted is not None and result_text is None:
            return Attempt(inputs, wanted, is_told=False)
        outcome = Outcome.NONE if wanted is None else Outcome.APPLIED
        told = await tell(stage, live, outcome, result_text)
        return Attempt(inputs, wanted, told)
    except StepFailed as failed:
        return Attempt(inputs, wanted, failed=failed)


async def prepare(stage: Rehearsal, live: Live) -> tuple[EventRow, ...]:
    """Ask what to work on; return the events it takes."""
    chosen = await ask_prepare(stage, live)
    try:
        inputs = stage.store.reserve(chosen.prepared, chosen.offered)
        live.pinned = pin(stage, live, chosen, stage.env.now_ms())
    except Invalid as error:
        raise StepFailed(str(error), Failure.LOGIC, code=error.code) from error
    return inputs


async def tell(
    stage: Rehearsal, live: Live, outcome: Outcome, result_text: str | None = None
) -> Told:
    """Run `next` with how its mutation is said to have ended."""
    row = MutationStatus.APPLIED if outcome is Outcome.APPLIED else None
    live.run = replace(live.run, outcome=outcome, row=row)
    live.result_text = result_text
    return await ask_next(stage, live)
