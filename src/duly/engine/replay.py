"""What another version would have changed outside, tried on what past runs were given (F3).

Law 1  A past run is repeated with what it had and nothing else: the events it reserved, as it was
       shown them, its state, clock and seed, and what its reads were answered.
Law 2  No connector is called: nothing is asked outside and nothing is sent. The outside is a
       recording.
Law 3  A run that cannot be repeated is reported as such. It never counts as equal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from duly.engine import rehearsal
from duly.engine.base import Parts, StepFailed
from duly.engine.live import Notes
from duly.engine.rehearsal import MemoryTopics, Rehearsal
from duly.engine.run import Told, ask_mutate
from duly.env import Env
from duly.errors import NotFound
from duly.rules.access import Step
from duly.rules.catalog import Catalog, Tool
from duly.rules.event import EventStatus
from duly.rules.prepared import SEED_BYTES, seed
from duly.rules.redaction import Redactor, redact, redact_text
from duly.rules.replay import Difference, OutsideChange, Replay, compare
from duly.rules.value import Json, decode, digest
from duly.rules.word import Kind, Outcome
from duly.sandbox.base import Loaded
from duly.store.people import GrantRow
from duly.store.recording import Past

R = TypeVar("R")


async def replay(parts: Parts, workflow_id: str, loaded: Loaded, *, runs_max: int = 20) -> Replay:
    """Run a version over the inputs of the newest committed runs and compare the changes."""
    pasts = await parts.store.list_past(workflow_id, limit=runs_max)
    found = [await _repeat(parts, loaded, past) for past in pasts]
    produced = [Produced.read(text) for text in await parts.store.list_produced(workflow_id)]
    found += [await _produce(parts, workflow_id, loaded, each) for each in produced]
    tried = len(pasts) + len(produced)
    return Replay(tried, tuple(each for each in found if each is not None))


@dataclass(frozen=True, slots=True)
class Produced:
    """What a producer was given, and by which names it published what it found."""

    run: str
    handler: str
    at_ms: int
    state_text: str | None
    reads: str | None
    names: frozenset[tuple[str, str]]

    @classmethod
    def read(cls, text: str) -> Produced:
        """Read what the run wrote down."""
        kept = cast("dict[str, Any]", decode(text))
        names = frozenset((topic, message_id) for topic, message_id in kept["published"])
        return cls(kept["run"], kept["handler"], kept["at"], kept["state"], kept["reads"], names)


async def _produce(
    parts: Parts, workflow_id: str, loaded: Loaded, past: Produced
) -> Difference | None:
    """Repeat a producer: an event by another name is another event, and done once more (T5)."""
    outside = RecordedOutside(
        parts.outside.catalog,
        () if past.reads is None else (past.reads,),
        parts.outside.secrets(),
    )
    problem = None
    if all(each.name != past.handler for each in loaded.declaration.producers):
        problem = f"the new version has no producer {past.handler}."
    elif outside.dropped:
        problem = f"what {past.handler} read was too large to be kept."
    if problem is None:
        problem = await _rename(parts, workflow_id, loaded, past, outside)
    return None if problem is None else _show(parts, Difference(past.run, (), problem=problem))


async def _rename(
    parts: Parts, workflow_id: str, loaded: Loaded, past: Produced, outside: RecordedOutside
) -> str | None:
    """Say which event a producer would call otherwise, or None."""
    grants = tuple(_leave(each.capability) for each in outside.catalog.tools)
    clock = Still(past.at_ms, past.run, parts.env)
    stage = Rehearsal(clock, MemoryTopics(grants=grants), parts.sandbox, outside, parts.policy)
    live = rehearsal.take_up(
        loaded,
        past.handler,
        Kind.PRODUCER,
        Notes(parts.policy.limits, parts.outside.secrets),
        workflow_id=workflow_id,
        run_id=past.run,
        state_text=past.state_text,
    )
    attempt = await rehearsal.produce(stage, live)
    if attempt.failed is not None:
        return outside.problem or _say(attempt.failed)
    names = _names(attempt.told)
    if names == past.names:
        return None
    topic, message_id = min(names ^ past.names)
    word = "no longer publish" if (topic, message_id) in past.names else "also publish"
    return f"{past.handler} would {word} “{message_id}” in {topic}, given what it was given then."


async def _repeat(parts: Parts, loaded: Loaded, past: Past) -> Difference | None:
    """Repeat one run; None: it would make the same change, and end as well."""
    outside = RecordedOutside(parts.outside.catalog, past.reads, parts.outside.secrets())
    before = _asked_for(past)
    problem = _obstacle(loaded, past, outside)
    if problem is None:
        try:
            difference = await _play(parts, loaded, past, before, outside)
        except StepFailed as failed:
            problem = outside.problem or _say(failed)
        else:
            return None if difference is None else _show(parts, difference)
    return _show(parts, Difference(past.run.id, _titles(past), before, problem=problem))


async def _play(
    parts: Parts, loaded: Loaded, past: Past, before: OutsideChange | None, outside: RecordedOutside
) -> Difference | None:
    """Run the steps; `next` only where the change is the same, with the answer there was."""
    run = past.run
    assert run.clock_at is not None, run
    assert run.outcome is not None, run
    chain = run.seed or run.chain
    pending = (replace(each, status=EventStatus.PENDING, reserved_by=None) for each in past.inputs)
    topics = MemoryTopics(
        grants=tuple(_leave(each.capability) for each in outside.catalog.tools),
        events={(each.topic, each.message_id): each for each in pending},
    )
    stage = Rehearsal(
        Still(run.clock_at, chain, parts.env), topics, parts.sandbox, outside, parts.policy
    )
    live = rehearsal.take_up(
        loaded,
        run.handler,
        Kind.CONSUMER,
        Notes(parts.policy.limits, parts.outside.secrets),
        workflow_id=run.workflow_id,
        run_id=chain,
        state_text=run.state_before,
    )
    wanted = None
    taken = await rehearsal.prepare(stage, live)
    if taken:
        wanted, _ = await ask_mutate(stage, live)
    after = None if wanted is None else OutsideChange(wanted.tool.name, wanted.args)
    difference = compare(run.id, _titles(past), before, after)
    if difference is not None:
        return difference
    if len(taken) < len(past.inputs):
        # The events it leaves lying would be worked on once more, under another key (L7).
        said = f"it would take {len(taken)} of the {len(past.inputs)} events that run took."
        return Difference(run.id, _titles(past), before, problem=said)
    told = await rehearsal.tell(stage, live, Outcome(run.outcome), run.result)
    said_otherwise = await _publishes_otherwise(parts, past, told)
    if said_otherwise is None:
        return None
    return Difference(run.id, _titles(past), before, problem=said_otherwise)


async def _publishes_otherwise(parts: Parts, past: Past, told: Told) -> str | None:
    """Say what `next` would publish otherwise: an event less, more, or of other content (F3)."""
    now = {(each.topic, each.message_id): each.digest for each in told.publications}
    was = {(each.topic, each.message_id): each.digest for each in past.published}
    if lost := sorted(was.keys() - now.keys()):
        topic, message_id = lost[0]
        return f"it would no longer publish “{message_id}” in {topic}, and what follows from it."
    for (topic, message_id), digest_now in now.items():
        digest_then = was.get((topic, message_id))
        if digest_then is not None and digest_then != digest_now:
            return f"it would publish “{message_id}” in {topic} with other content."
    limit = parts.policy.limits.peek_bytes
    for topic, message_id in sorted(now.keys() - was.keys()):
        # What another run had put out before was published by this one too, or not: T5.
        known = await parts.store.get_by_ids(
            past.run.workflow_id, topic, (message_id,), bytes_max=limit
        )
        if not known:
            return f"it would also publish “{message_id}” in {topic}, which was not there."
    return None


@dataclass(frozen=True, slots=True)
class Still:
    """The clock of a past run; its prepare gets the run's dice, since its own were not kept."""

    at_ms: int
    first_run: str
    env: Env

    def now_ms(self) -> int:
        """Return when the prepare result was stored (C13)."""
        return self.at_ms

    def monotonic_ms(self) -> int:
        """Return the same moment every time: nothing takes any time here."""
        return 0

    def random_bytes(self, count: int) -> bytes:
        """Make the same bytes every time."""
        return seed(self.first_run, Step.PREPARE).to_bytes(SEED_BYTES)[:count]

    def compute(self, function: Callable[[], R]) -> Awaitable[R]:
        """Let the host's own thread do the sums."""
        return self.env.compute(function)


class RecordedOutside:
    """The outside as a run saw it: the same question gets the same answers, in their order."""

    def __init__(self, catalog: Catalog, texts: Iterable[str], secrets: Redactor) -> None:
        self.catalog = catalog
        self.problem: str | None = None  # what it was asked and does not know
        self.dropped = 0  # answers that were too large to be kept
        self._secrets = secrets
        self._answers: dict[str, deque[Json]] = {}
        for text in texts:
            kept = cast("dict[str, Any]", decode(text))
            self.dropped += kept["dropped"]
            for each in kept["reads"]:
                here = self._name(each["tool"], each["args"])
                self._answers.setdefault(here, deque()).append(each["answer"])

    async def read(self, tool: Tool, args: Mapping[str, Json]) -> Json:
        """Return what the outside told the run, or note that the run did not ask this."""
        answers = self._answers.get(self._name(tool.name, args))
        if not answers:
            self.problem = f"it asks {tool.name} for something that run did not ask."
            raise NotFound(code="not_asked_before", subject=tool.name)
        return answers.popleft()

    def _name(self, tool: str, args: Mapping[str, Json]) -> str:
        # They were kept without secrets, and one may have become known since (A5).
        return digest([tool, redact(dict(args), self._secrets)])


def _obstacle(loaded: Loaded, past: Past, outside: RecordedOutside) -> str | None:
    """Say what stands in the way of repeating a run, before a script is asked."""
    handler = past.run.handler
    if all(each.name != handler for each in loaded.declaration.consumers):
        return f"the new version has no consumer {handler}."
    prepared = cast("dict[str, Any]", decode(past.run.prepared or "{}"))
    reserved = sum(len(each["ids"]) for each in prepared["reservations"])
    if len(past.inputs) < reserved:
        return "what it was given is no longer kept."
    if outside.dropped:
        return "what it read was too large to be kept."
    return None


def _asked_for(past: Past) -> OutsideChange | None:
    """Return the change a run asked for, whether or not it was made."""
    if past.mutation is None:
        return None
    args = cast("dict[str, Json]", decode(past.mutation.args))
    return OutsideChange(past.mutation.tool, args)


def _names(told: Told) -> set[tuple[str, str]]:
    """Name what a step published."""
    return {(each.topic, each.message_id) for each in told.publications}


def _say(failed: StepFailed) -> str:
    line = failed.details.line
    where = "" if line is None else f" (line {line})"
    return f"the new version fails on it{where}: {str(failed).rstrip('.')}."


def _titles(past: Past) -> tuple[str, ...]:
    return tuple(each.title for each in past.inputs)


def _leave(capability: str) -> GrantRow:
    """Grant a capability: no connector is called here, so no permission is needed (A1)."""
    return GrantRow(capability, None, "{}", rehearsal.MADE_UP, 0)


def _show(parts: Parts, difference: Difference) -> Difference:
    """Take the secrets out, now that it was compared (A5)."""
    secrets = parts.outside.secrets()

    def clean(change: OutsideChange | None) -> OutsideChange | None:
        if change is None:
            return None
        return OutsideChange(
            change.tool, cast("dict[str, Json]", redact(dict(change.args), secrets))
        )

    problem = difference.problem
    return replace(
        difference,
        inputs=tuple(redact_text(each, secrets) for each in difference.inputs),
        before=clean(difference.before),
        after=clean(difference.after),
        problem=None if problem is None else redact_text(problem, secrets),
    )
