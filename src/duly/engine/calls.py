"""What a script asks for, and what it is told.

Law 1  Every call goes through one order of checks before anything happens: access, arguments,
       grant, approval (A1, C2). What a step may not do ends the run; the script is never told (C3).
Law 2  A step returns its mutation, it does not make it. At the first mutation call the script is
       left for good; only after that does the ledger send anything (C8).
Law 3  What a script publishes is kept in memory until its run commits (P3, C11).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final

import msgspec

from duly.connectors.blob import using_blobs
from duly.connectors.llm import using_model
from duly.engine.base import Details, StepFailed, sandbox_failure
from duly.engine.blobs import check_blobs
from duly.engine.envelope import count_today, read_envelope
from duly.engine.live import Live, Reads
from duly.engine.step_env import StepEnv, think
from duly.engine.together import Together
from duly.errors import DulyError, Invalid, NotFound, parts_of
from duly.observed import SpanKind, offered, span
from duly.rules import permission
from duly.rules.access import Operation, Step, check_access, check_publishes, check_subscribed
from duly.rules.catalog import Tool, ToolKind
from duly.rules.event import (
    EventStatus,
    Publication,
    PublishBudget,
    missing_value,
    parse_ids,
    parse_peek,
    parse_publication,
    show_events,
)
from duly.rules.failure import failure_of, waits_on
from duly.rules.permission import Envelope, Forbidden, NeedsApproval, Request, permit
from duly.rules.redaction import AT_ONCE_CHARS
from duly.rules.value import Json, as_mapping, encode, refuse_unknown
from duly.rules.word import Failure
from duly.sandbox.base import (
    Asked,
    Broke,
    Log,
    Missing,
    Result,
    Returned,
    Script,
    ScriptCall,
    Turn,
    World,
)
from duly.store.record import EventRow

READS_AT_ONCE: Final = 10  # of calls a script makes together, so many are answered side by side


@dataclass(frozen=True, slots=True)
class Wanted:
    """The mutation a script asked for: checked, permitted, and not yet made."""

    tool: Tool
    args: Mapping[str, Json]
    needs_approval: bool
    line: int | None
    is_after_model: bool = False  # then no allowance stands for the yes of a person (A3, M4)


@dataclass(slots=True)
class Calls:
    """One step's conversation with its host."""

    parts: StepEnv
    live: Live
    step: Step
    publications: list[Publication] = field(default_factory=list)
    offered: dict[tuple[str, str], int] = field(default_factory=dict)
    budget: PublishBudget = field(default_factory=PublishBudget)
    connector_calls: int = 0
    reads: Reads = field(default_factory=Reads)
    reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READS_AT_ONCE))
    publishing: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting_outside: Callable[[], AbstractContextManager[None]] = nullcontext

    async def until_return(self, args: tuple[Json | Missing, ...], world: World) -> Json | Missing:
        """Run the step to its end; it may not ask for a mutation."""
        ended = await self._converse(args, world)
        assert not isinstance(ended, Wanted), ended
        return ended

    async def until_mutation(self, args: tuple[Json | Missing, ...], world: World) -> Wanted | None:
        """Run the step until it asks for its mutation, or ends without one; then it is left."""
        ended = await self._converse(args, world)
        return ended if isinstance(ended, Wanted) else None

    async def _converse(
        self, args: tuple[Json | Missing, ...], world: World
    ) -> Json | Missing | Wanted:
        opened = self.parts.sandbox.open(
            self.live.script, self.live.handler, self.step, args, world
        )
        async with AsyncExitStack() as stack:
            try:
                script = await stack.enter_async_context(opened)
            except (DulyError, OSError) as error:
                raise sandbox_failure(error) from error
            stack.enter_context(span(SpanKind.STEP, self.step.value))
            self.waiting_outside = script.waiting_outside
            room_bytes = self.parts.policy.limits.answers_bytes
            together = Together(self._answer, self._most_bytes, room_bytes)
            return await self._talk(script, await stack.enter_async_context(together))

    async def _note(self, started_at: int, logs: tuple[Log, ...]) -> None:
        """Keep the script's log lines; many of them are written beside the event loop (X2)."""
        notes = self.live.notes
        if sum(len(each.text) for each in logs) <= AT_ONCE_CHARS:
            notes.log(started_at, self.step, logs)
        else:
            await self.parts.env.compute(lambda: notes.log(started_at, self.step, logs))

    async def _talk(
        self, script: Script, together: Together[Result | Wanted]
    ) -> Json | Missing | Wanted:
        """Answer a script's calls, in their order, until it ends or asks for its mutation."""
        started_at = self.parts.env.now_ms()
        turn: Turn = await script.start()
        while True:
            await self._note(started_at, turn.logs)
            if isinstance(turn, Returned):
                return turn.value
            if isinstance(turn, Broke):
                raise _broke(turn)
            assert isinstance(turn, Asked), turn
            is_alone = together.is_empty and len(turn.calls) == 1
            if is_alone:
                call_id, answer = turn.calls[0].id, await self._answer(turn.calls[0])
            else:
                together.ask(turn.calls)
                call_id, answer = await together.first()
            if isinstance(answer, Wanted):
                return answer
            turn = await script.answer(call_id, answer)
            if not is_alone:
                together.handed()

    def _most_bytes(self, call: ScriptCall) -> int:
        """Say how large the answer to a call can be (N)."""
        limits = self.parts.policy.limits
        own = {"publish": 0, "peek": limits.peek_bytes, "get_by_ids": limits.peek_bytes}
        return own.get(call.path, limits.result_bytes)

    async def _answer(self, call: ScriptCall) -> Result | Wanted:
        """Do what one call asks for; any fault of the call ends the step (C3)."""
        own = {"publish": self._publish, "peek": self._peek, "get_by_ids": self._get_by_ids}
        try:
            if call.path in own:
                return await own[call.path](call)
            return await self._use(call)
        except Invalid as error:
            details = Details(line=call.line, tool=call.path)
            raise StepFailed(str(error), Failure.LOGIC, details, code=error.code) from error

    # -- Events ---------------------------------------------------------------------------------

    async def _publish(self, call: ScriptCall) -> Result:
        check_access(Operation.PUBLISH, self.step, "publish")
        topic, rest, named = _split(call)
        declared = tuple(each.name for each in self.live.script.declaration.topics)
        check_publishes(topic, declared, self.live.publishes)
        if rest:
            named = as_mapping(rest[0], "publish", "message_id", "title", "payload")
        limits = self.parts.policy.limits
        async with self.publishing:  # one after the other, so that their order stays
            publication = await think(
                self.parts.env, named, lambda: parse_publication(topic, named, limits)
            )
            self.budget = self.budget.spend(publication, limits)
            self._warn_of(publication)
            self.publications.append(publication)
        return None

    def _warn_of(self, publication: Publication) -> None:
        word = missing_value(publication)
        if word is not None:
            self.live.notes.warn(
                self.parts.env.now_ms(),
                f'publish: "{publication.message_id}" titled "{publication.title}" says {word}: a'
                " value was missing. Events with the same message id are one event.",
            )

    async def _peek(self, call: ScriptCall) -> Result:
        check_access(Operation.PEEK, self.step, "peek")
        limits = self.parts.policy.limits
        topic, rest, named = _split(call)
        check_subscribed("peek", topic, self.live.consumer.subscribe)
        if rest:
            named = as_mapping(rest[0], "peek", "limit", "after")
        refuse_unknown(named, ("limit", "after"), "peek")
        asked = parse_peek(topic, named.get("limit"), named.get("after"), limits)
        try:
            rows = await self.parts.store.peek(
                self.live.fence.workflow_id,
                topic,
                limit=asked.limit,
                bytes_max=limits.peek_bytes,
                after=asked.after,
            )
        except NotFound as error:
            raise Invalid(**parts_of(error), path="peek.after") from error
        return self._show(rows)

    async def _get_by_ids(self, call: ScriptCall) -> Result:
        check_access(Operation.GET_BY_IDS, self.step, "get_by_ids")
        limits = self.parts.policy.limits
        topic, rest, named = _split(call)
        check_subscribed("get_by_ids", topic, self.live.consumer.subscribe)
        refuse_unknown(named, ("ids",), "get_by_ids")
        wanted = parse_ids(rest[0] if rest else named.get("ids"), limits)
        rows = await self.parts.store.get_by_ids(
            self.live.fence.workflow_id, topic, wanted, bytes_max=limits.peek_bytes
        )
        return self._show(rows)

    def _show(self, rows: tuple[EventRow, ...]) -> Result:
        """Write rows as a script sees them (T7), and remember what it was offered (C5)."""
        for row in rows:
            offered(row.topic, row.message_id, row.created_by)
            if row.status == EventStatus.PENDING:
                self.offered.setdefault((row.topic, row.message_id), row.content)
        return msgspec.Raw(
            show_events((row.topic, row.message_id, row.title, row.body) for row in rows)
        )

    # -- Tools ----------------------------------------------------------------------------------

    async def _use(self, call: ScriptCall) -> Result | Wanted:
        tool = self.parts.outside.catalog.find(call.path)
        self._count_call(tool)
        policy = self.parts.policy_of(self.live.workflow)
        workflow_id = self.live.fence.workflow_id
        envelope = await read_envelope(self.parts, workflow_id)
        policies = (self.parts.policy.approvals, policy.approvals)
        every = (*policies, envelope.asks_for(tool))
        has_asked_model = await self._has_asked_model(tool, every, envelope)
        decision = permit(
            Request(
                tool,
                self.step,
                call.kwargs,
                call.args,
                envelope=envelope,
                mutations_today=await count_today(self.parts, workflow_id, tool, envelope),
                approvals=policies,
                mutate_reads=policy.mutate_reads,
                calls_before=await self._count_first(tool, every),
                has_asked_model=has_asked_model,
            )
        )
        if isinstance(decision, Forbidden):
            raise decision.error
        if isinstance(decision, permission.Missing):
            details = Details(call.line, tool.name, call.kwargs, waits_on=decision.capability)
            raise StepFailed(
                str(decision.error), Failure.PERMISSION, details, code=decision.error.code
            )
        await check_blobs(self.parts.blobs_of(self.live), tool, decision.args)
        if tool.kind is ToolKind.MUTATION:
            is_asked = isinstance(decision, NeedsApproval)
            return Wanted(tool, decision.args, is_asked, call.line, is_after_model=has_asked_model)
        return await self._read(tool, decision.args, call)

    async def _count_first(self, tool: Tool, policies: tuple[Mapping[str, str], ...]) -> int:
        """Count the calls of its major version; without such a policy nothing is counted (A3)."""
        most = permission.first_calls(tool, *policies)
        if not most:
            return 0
        major = permission.major_of(self.live.version)
        workflow_id = self.live.fence.workflow_id
        return await self.parts.store.count_first(workflow_id, tool.name, major, most=most)

    async def _has_asked_model(
        self, tool: Tool, policies: tuple[Mapping[str, str], ...], envelope: Envelope
    ) -> bool:
        """Tell whether a policy asks because a model may have said what a run goes by (M4).

        What an earlier run kept as state, or published, may be a model's word for as long as the
        workflow may ask one; so may what came over the bus, where there is a model at all.
        """
        if not permission.asks_after_model(tool, *policies):
            return False
        hears_bus = any(each.bus for each in self.live.script.declaration.topics)
        if envelope.capabilities & self.parts.outside.catalog.asking:
            return True
        if hears_bus and self.parts.model_of(self.live) is not None:
            return True
        return await self.parts.store.has_asked_model(self.live.chain)

    def _count_call(self, tool: Tool) -> None:
        self.connector_calls += 1
        most = self.parts.policy.limits.calls_per_step
        if self.connector_calls > most:
            raise Invalid(code="too_many", path=tool.name, facts={"limit": most, "unit": "calls"})

    async def _read(self, tool: Tool, args: Mapping[str, Json], call: ScriptCall) -> Result:
        env, outside = self.parts.env, self.parts.outside
        begun_at = env.monotonic_ms()
        outcome = "ok"
        try:
            async with self.reading:
                with span(SpanKind.CALL, tool.name), self._around():
                    value = await outside.read(tool, args)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            failure = failure_of(error)
            outcome = failure.value
            raise self._failed(tool, args, call.line, failure, error) from error
        finally:
            took_ms = env.monotonic_ms() - begun_at
            self.live.notes.call(tool.name, dict(args), outcome, took_ms)
        limits = self.parts.policy.limits
        text = await think(
            env,
            value,
            lambda: encode(
                value, tool.name, limit_bytes=limits.result_bytes, depth=limits.json_depth
            ),
        )
        self.reads.keep(call.id, tool.name, args, text)
        return msgspec.Raw(text)

    @contextmanager
    def _around(self) -> Iterator[None]:
        """Let a read reach the blobs and the models of its workflow; its script waits (K15, M2)."""
        parts, live = self.parts, self.live
        blobs, model = parts.blobs_of(live), parts.model_of(live)
        with self.waiting_outside(), using_blobs(blobs), using_model(model):
            yield

    def _failed(
        self,
        tool: Tool,
        args: Mapping[str, Json],
        line: int | None,
        failure: Failure,
        error: Exception,
    ) -> StepFailed:
        details = Details(
            line,
            tool.name,
            args,
            waits_on(failure, tool, error),
            getattr(error, "retry_after_s", None),
        )
        return StepFailed(say(tool.name, error), failure, details, code=getattr(error, "code", ""))


def say(tool: str, error: BaseException) -> str:
    """Put what a tool raised into words; an error without any says what kind it is."""
    text = str(error).strip()
    if isinstance(error, TimeoutError) and not text:
        text = "no answer in time"
    return f"{tool}: {text or type(error).__name__}"


def _broke(turn: Broke) -> StepFailed:
    failure = Failure.TRANSIENT if turn.is_lost else Failure.LOGIC
    return StepFailed(str(turn.error), failure, Details(line=turn.error.line), code=turn.error.code)


def _split(call: ScriptCall) -> tuple[str, tuple[Json, ...], Mapping[str, object]]:
    """Take the topic out of a call; the rest is at most one more argument, or named ones."""
    named: dict[str, object] = dict(call.kwargs)
    topic, rest = (call.args[0], call.args[1:]) if call.args else (named.pop("topic", None), ())
    if not isinstance(topic, str):
        raise Invalid(code="missing", path=f"{call.path}.topic")
    if len(rest) > 1 or (rest and named):
        raise Invalid(code="too_many", path=call.path, facts={"limit": 2, "unit": "arguments"})
    return topic, rest, named
