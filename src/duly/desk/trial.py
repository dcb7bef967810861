"""Trying a version before it is deployed: on the world as it is, and on the past (W5, F3).

Law 1: nothing is stored and nothing is sent. Reads are real, and need their grants (A1); a
       mutation is shown, as the script claims it and as it was observed (L11).
Law 2: nothing is made up. What the outside would answer is not known, so what follows a mutation
       is tried only with a result that was given.
Law 3: what is shown has no secrets in it (A5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

from duly.desk import deploy
from duly.desk.base import USER, Desk
from duly.desk.deploy import GivenSource
from duly.desk.record import Preview, Trial, TriedChange, TriedEvent, TriedProblem, TriedRun
from duly.desk.simulation import Simulations
from duly.desk.unadopted import is_in_use, judge_read
from duly.engine import rehearsal
from duly.engine.calls import Wanted
from duly.engine.draft import Draft
from duly.engine.live import Live, Notes
from duly.engine.rehearsal import Attempt, MemoryTopics, ReadOnlyOutside, Rehearsal
from duly.engine.replay import replay
from duly.errors import Invalid, RequestRefused, see
from duly.fact import Reason
from duly.rules.access import check_publishes
from duly.rules.catalog import Catalog, Tool, ToolKind
from duly.rules.declaration import ConsumerDeclaration
from duly.rules.event import Publication, PublishBudget, parse_publication
from duly.rules.left_out import ReadPages, UnreadRest
from duly.rules.permission import missing_capabilities
from duly.rules.redaction import Redactor, redact, redact_text
from duly.rules.replay import Replay
from duly.rules.schedule import pause_after_commit
from duly.rules.source import EXAMPLE
from duly.rules.turn import HandlerOutlook, choose
from duly.rules.value import Json, as_mapping, decode, encode
from duly.rules.verb import Crosses, Scope, check_right, question
from duly.rules.word import Failure, Kind
from duly.sandbox.base import Loaded
from duly.script.finding import Finding
from duly.store.event import find_over
from duly.store.people import GrantRow
from duly.store.record import HandlerRow

CONSUMER_RUNS_MAX: Final = 100

Look: TypeAlias = Callable[[Tool, Mapping[str, Json]], Coroutine[Any, Any, Json]]
# What a mutation would answer, by the name of its tool: the result, or what makes it of the
# arguments.
Results: TypeAlias = Mapping[str, "Json | Callable[[dict[str, Json]], Json]"]


class Trials(Simulations):
    """The questions of an author who has a version and has not deployed it yet."""

    @question(scope=Scope.AGENT, follow=False, example={"source": EXAMPLE, "grant": True})
    async def try_(
        self,
        source: GivenSource,
        *,
        events: Sequence[Mapping[str, Any]] = (),
        results: Annotated[Results | None, Crosses(dict[str, Any] | None)] = None,
        grant: bool = False,
        right: Scope = Scope.ADMIN,
    ) -> Trial:
        """Run a source once with real reads; its mutations are shown, not made.

        `events` are given to its topics besides what its producers publish, each as
        `{topic, title, message_id, payload}`. `results` says what a tool would answer, so that
        what follows its call is tried too. `grant` allows the reads it uses, for this trial, and
        needs the scope decide. For a caller below that scope, a source that is not in use asks no
        model, and no address which it makes up.
        """
        # Rules: A1, G4, M1, M9.
        if grant:
            check_right("try_", right, Scope.DECIDE)
        desk = self._desk()
        draft = await deploy.examine(desk, await deploy.read_source(desk, source), strict=False)
        given = _read_events(draft, events, desk)
        answers = _read_results(results or {}, desk.parts.outside.catalog)
        is_judged = not right.covers(Scope.DECIDE) and not await is_in_use(desk, draft)
        look = _judging(desk, draft) if is_judged else None
        play = await set_up(desk, draft, answers, grant=grant, look=look)
        for publication in given:
            play.stage.store.publish(publication, desk.now_ms)
        await play.run()
        return play.tell(draft.findings)

    @question(scope=Scope.AGENT, follow=False, example={"workflow": "invoices", "source": EXAMPLE})
    async def what_if(self, workflow: str, source: GivenSource) -> Replay:
        """Say what a source would have changed differently in the newest runs of a workflow."""
        # Rules: F3.
        desk = self._desk()
        found = await desk.find(workflow)
        draft = await deploy.examine(desk, await deploy.read_source(desk, source), strict=False)
        if draft.declaration.name != workflow:
            raise RequestRefused(
                code="another_workflow",
                subject=workflow,
                facts={"declared": draft.declaration.name},
                next=see("what_if", "source", workflow=draft.declaration.name),
            )
        return await replay(desk.parts, found.id, _loaded(draft))


# -- Questions checked --------------------------------------------------------------------------


def _read_events(
    draft: Draft, events: Iterable[Mapping[str, Any]], desk: Desk
) -> list[Publication]:
    """Check given events as if they were published, into any topic the source declares."""
    limits = desk.parts.policy.limits
    declared = [each.name for each in draft.declaration.topics]
    budget = PublishBudget()
    given: list[Publication] = []
    for place, event in enumerate(events):
        fields = dict(as_mapping(event, f"events[{place}]", "topic", "title", "payload"))
        topic = fields.pop("topic", None)
        if not isinstance(topic, str):
            path = f"events[{place}].topic"
            raise Invalid(code="not_text", path=path)
        check_publishes(topic, declared, None)
        publication = parse_publication(topic, fields, limits)
        budget = budget.spend(publication, limits)
        given.append(publication)
    return given


def _read_results(results: Results, catalog: Catalog) -> Results:
    for name in results:
        if catalog.find(name).kind is not ToolKind.MUTATION:
            raise Invalid(code="really_read", path="results", facts={"tool": name})
    return {catalog.find(name).name: result for name, result in results.items()}


def _loaded(draft: Draft) -> Loaded:
    assert draft.loaded is not None, draft.source.name
    return draft.loaded


def _judging(desk: Desk, draft: Draft) -> Look:
    async def look(tool: Tool, args: Mapping[str, Json]) -> Json:
        judge_read(desk, tool, args, draft.calls)
        return await desk.parts.outside.read(tool, args)

    return look


# -- Trying -------------------------------------------------------------------------------------


async def set_up(
    desk: Desk,
    draft: Draft,
    results: Results,
    *,
    grant: bool,
    look: Look | None = None,
) -> TrialPlay:
    """Lay the bench: the grants and the states of the deployed workflow, if there is one."""
    parts = desk.parts
    current = await parts.store.find_workflow(draft.declaration.name)
    grants: tuple[GrantRow, ...] = ()
    handlers: tuple[HandlerRow, ...] = ()
    if current is not None:
        grants = await parts.store.list_grants(current.id)
        handlers = await parts.store.list_handlers(current.id)
    granted = frozenset(each.capability for each in grants)
    missing = missing_capabilities(granted, draft.capabilities)
    lent = missing if grant else ()
    allowed = granted.union(lent)
    lent += _harmless(parts.outside.catalog, allowed)
    bench = MemoryTopics(
        grants=grants + tuple(GrantRow(each, None, "{}", USER, desk.now_ms) for each in lent),
        count=parts.store.count_sent,
    )
    pages, ask = ReadPages(), look or parts.outside.read

    async def noting(tool: Tool, args: Mapping[str, Json]) -> Json:
        answer = await ask(tool, args)
        pages.note(tool, args, answer)
        return answer

    glass = ReadOnlyOutside(parts.outside.catalog, noting)
    return TrialPlay(
        desk=desk,
        loaded=_loaded(draft),
        stage=Rehearsal(parts.env, bench, parts.sandbox, glass, parts.policy, models=parts.models),
        workflow_id=current.id if current else parts.env.new_id("workflow"),
        results=results,
        allowed=allowed,
        missing=set() if grant else set(missing),
        states={(each.name, each.kind): each.state for each in handlers},
        pages=pages,
    )


def _harmless(catalog: Catalog, allowed: frozenset[str]) -> tuple[str, ...]:
    """List what needs no leave in a trial: capabilities that only change things, which none does.

    One that a read shares is not among them: the read would really be made (A1).
    """
    changing = {each.capability for each in catalog.tools if each.kind is ToolKind.MUTATION}
    reading = {each.capability for each in catalog.tools if each.kind is not ToolKind.MUTATION}
    return tuple(sorted(changing - reading - allowed))


@dataclass(slots=True)
class TrialPlay:
    """A trial while it goes on."""

    desk: Desk
    loaded: Loaded
    stage: Rehearsal
    workflow_id: str
    results: Results
    allowed: frozenset[str]
    missing: set[str]
    states: dict[tuple[str, str], str | None]
    pages: ReadPages
    seen: dict[str, int] = field(default_factory=dict)
    not_before: dict[str, int] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    idle: set[str] = field(default_factory=set)  # consumers that were tried with nothing to take
    is_over: bool = False
    is_cut: bool = False
    runs: list[TriedRun] = field(default_factory=list)
    changes: list[TriedChange] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)  # of the changes
    published: list[TriedEvent] = field(default_factory=list)
    over: list[TriedEvent] = field(default_factory=list)  # published, and done before
    led_on: set[tuple[str, str]] = field(default_factory=set)  # topic and message id of inputs
    problems: list[TriedProblem] = field(default_factory=list)

    async def run(self) -> None:
        """Run every producer once, then consumers until nothing is due (S3, S5)."""
        await self._pass()
        if not self.is_cut:
            await self._look_at_nothing()

    async def run_again(self) -> int:
        """Do one more pass over the same data; return how many changes it would make.

        What was taken before stays taken; a message id that is another each time is taken anew.
        """
        before = len(self.changes)
        self.not_before.clear()
        await self._pass()
        return len(self.changes) - before

    async def _pass(self) -> None:
        for producer in self.loaded.declaration.producers:
            if self.is_over:
                return
            if producer.name in self.broken:
                continue
            live = self._take_up(producer.name, Kind.PRODUCER)
            await self._take_in(live, await rehearsal.produce(self.stage, live))
        tried = 0
        while not self.is_over and (name := self._due()) is not None:
            if tried == CONSUMER_RUNS_MAX:
                self.is_cut = True
                return
            tried += 1
            seen = self.stage.store.counter
            live = self._take_up(name, Kind.CONSUMER)
            attempt = await rehearsal.consume(self.stage, live, self._answer)
            await self._take_in(live, attempt)
            self._commit(name, attempt, seen)
            if not attempt.inputs:
                self.idle.add(name)

    async def _look_at_nothing(self) -> None:
        """Run each consumer once more with nothing to take: that happens as well (C7)."""
        bench = MemoryTopics(grants=self.stage.store.grants, count=self.stage.store.count)
        stage = replace(self.stage, store=bench)
        for each in self.loaded.declaration.consumers:
            if self.is_over or each.name in self.broken or each.name in self.idle:
                continue
            live = self._take_up(each.name, Kind.CONSUMER)
            attempt = await rehearsal.consume(stage, live, self._answer)
            failed = attempt.failed
            if failed is not None and failed.failure is Failure.LOGIC:
                said = f"When nothing waits: {self._show(str(failed))}"
                problem = TriedProblem(each.name, failed.failure, said, failed.details.line)
                self.problems.append(problem)

    def _take_up(self, handler: str, kind: Kind) -> Live:
        parts = self.desk.parts
        return rehearsal.take_up(
            self.loaded,
            handler,
            kind,
            Notes(parts.policy.limits, parts.outside.secrets),
            workflow_id=self.workflow_id,
            run_id=parts.env.new_id("run"),
            state_text=self.states.get((handler, kind)),
        )

    def _due(self) -> str | None:
        """Choose the next consumer as the scheduler would; one that broke is not asked again."""
        consumers = [
            self._outlook(place, each)
            for place, each in enumerate(self.loaded.declaration.consumers)
            if each.name not in self.broken
        ]
        choice = choose(None, tuple(consumers), self.desk.now_ms, is_paused=False, epoch=0)
        return None if choice.handler is None else choice.handler.name

    def _outlook(self, place: int, consumer: ConsumerDeclaration) -> HandlerOutlook:
        bench, name = self.stage.store, consumer.name
        pending = [each.seq for topic in consumer.subscribe for each in bench.pending(topic)]
        return HandlerOutlook(
            name=name,
            kind=Kind.CONSUMER,
            position=place,
            next_run_at=None,
            wake_at=None,
            changed=max(bench.changed.get(topic, 0) for topic in consumer.subscribe),
            seen=self.seen.get(name, 0),
            not_before=self.not_before.get(name, 0),
            untried=int(name not in self.seen),
            oldest_pending_seq=min(pending, default=None),
        )

    def _answer(self, wanted: Wanted) -> str | None:
        """Write the result that was given for a call; None if none was given."""
        name = wanted.tool.name
        if name not in self.results:
            return None
        given = self.results[name]
        result = given(dict(wanted.args)) if callable(given) else given
        limits = self.desk.parts.policy.limits
        path = f"results.{name}"
        return encode(result, path, limit_bytes=limits.result_bytes, depth=limits.json_depth)

    async def _take_in(self, live: Live, attempt: Attempt) -> None:
        """Note what one run did; what it published lies on the bench from now on.

        What is over in the deployed workflow would be taken by no run again (T5).
        """
        show, kind = self._show, live.run.kind
        titles = tuple(show(each.title) for each in attempt.inputs)
        logs = tuple(each.text for each in live.notes.lines)
        self.runs.append(TriedRun(live.handler, kind, titles, logs))
        if attempt.wanted is not None:
            self._note_change(live, attempt, titles)
        if attempt.wanted is not None or attempt.told.publications or attempt.failed is not None:
            self.led_on |= {(each.topic, show(each.message_id)) for each in attempt.inputs}
        over = await self._find_over(attempt.told.publications)
        for each in attempt.told.publications:
            if (each.topic, each.message_id) in over:
                self.over.append(self._event(live.handler, each))
                continue
            self.stage.store.publish(each, self.desk.now_ms)
            self.published.append(self._event(live.handler, each))
        if attempt.told.state_text is not None:
            self.states[live.handler, kind] = attempt.told.state_text
        if attempt.failed is not None:
            self._note_problem(live, attempt)

    async def _find_over(self, published: Iterable[Publication]) -> set[tuple[str, str]]:
        """Find out which events are over in the deployed workflow, if there is one."""
        by_topic: dict[str, list[str]] = {}
        for each in published:
            by_topic.setdefault(each.topic, []).append(each.message_id)
        over: set[tuple[str, str]] = set()
        for topic, ids in by_topic.items():
            look = partial(find_over, workflow_id=self.workflow_id, topic=topic, message_ids=ids)
            over |= {(topic, each) for each in await self.desk.ask(look)}
        return over

    def _note_change(self, live: Live, attempt: Attempt, titles: tuple[str, ...]) -> None:
        wanted = attempt.wanted
        assert wanted is not None, attempt
        self.missing |= {wanted.tool.capability} - self.allowed
        args = redact(dict(wanted.args), self._secrets)
        self.tools.append(wanted.tool)
        self.changes.append(
            TriedChange(
                handler=live.handler,
                claimed=None if live.title is None else self._show(live.title),
                observed=Preview(wanted.tool.name, args),
                inputs=titles,
                needs_approval=wanted.needs_approval,
                is_followed=attempt.is_told,
            )
        )

    def _note_problem(self, live: Live, attempt: Attempt) -> None:
        failed = attempt.failed
        assert failed is not None, attempt
        self.broken.add(live.handler)
        if failed.failure is Failure.PERMISSION:
            lacking = {failed.details.waits_on or ""} - self.allowed
            self.missing |= lacking - {""}  # of a read that is not made there is none
            self.is_over = bool(lacking)  # no further read is made on the chance of a grant
        self.problems.append(
            TriedProblem(live.handler, failed.failure, self._show(str(failed)), failed.details.line)
        )

    def _commit(self, name: str, attempt: Attempt, seen: int) -> None:
        """End a consumer's run as its commit would have; one that failed ends nothing."""
        if attempt.failed is not None:
            return
        self.stage.store.consume(attempt.inputs)
        self.seen[name] = seen
        published = len(attempt.told.publications)
        held = pause_after_commit(len(attempt.inputs), published, self.desk.now_ms)
        self.not_before[name] = held or 0

    def _event(self, handler: str, publication: Publication) -> TriedEvent:
        return TriedEvent(
            handler=handler,
            topic=publication.topic,
            message_id=self._show(publication.message_id),
            title=self._show(publication.title),
            payload=redact(decode(publication.payload_text), self._secrets),
        )

    @property
    def _secrets(self) -> Redactor:
        return self.desk.parts.outside.secrets()

    def _show(self, text: str) -> str:
        return redact_text(text, self._secrets)

    # -- What came of it ------------------------------------------------------------------------

    def tell(self, findings: tuple[Finding, ...]) -> Trial:
        """Put the trial into one value, with a summary."""
        return Trial(
            workflow=self.loaded.declaration.name,
            findings=findings,
            missing=tuple(sorted(self.missing)),
            runs=tuple(self.runs),
            changes=tuple(self.changes),
            published=tuple(self.published),
            problems=tuple(self.problems),
            summary=Reason("tried", self.loaded.declaration.name, self._facts()),
        )

    @property
    def left_out(self) -> tuple[UnreadRest, ...]:
        """The reads that had more, which the script was not seen to ask for."""
        states = (each for each in self.states.values() if each is not None)
        return self.pages.tell(map(decode, states))

    def _facts(self) -> dict[str, Any]:
        # What is done to the same thing is one thing to a person, whichever tools do it.
        changes = [
            {"done": done, "noun": noun, "count": count}
            for (done, noun), count in Counter(map(_did, self.tools)).items()
        ]
        untried = sorted({each.observed.tool for each in self.changes if not each.is_followed})
        facts = {
            "changes": changes,
            "published": len(self.published),
            "over": len(self.over),
            "untried": untried,
            "left_out": [asdict(each) for each in self.left_out],
            "problems": [
                {"handler": each.handler, "line": each.line, "message": each.sentence}
                for each in self.problems
            ],
        }
        return {**facts, "cut_after": CONSUMER_RUNS_MAX} if self.is_cut else facts


def _did(tool: Tool) -> tuple[str, str | None]:
    """Say what a tool does, and to what; of one without a noun only its name is known."""
    verb = tool.name.partition(".")[2].partition("_")[0]
    return (tool.name, None) if tool.noun is None else (verb, tool.noun)
