"""A crash test: a user's own workflow, with the project's tools, through one crash after another.

Law 1  No mutation reaches the real outside. A stand-in with the tool's own terms replaces every
       tool that changes something, and counts its calls. A read returns what was given for it;
       else the real tool is asked once, and its result is kept for every run of the test. No
       model is asked: the tools of `llm` return samples (M10).
Law 2  What happens without a crash must happen with one: the same changes, each as often, and the
       same events with the same ends.
Law 3  Where the host stops and asks a person, a simulated person says the truth; the report
       counts how often that was needed.
Law 4  Every difference has a number, and the number repeats it.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from duly.config import Policy, SandboxSettings
from duly.connectors.base import Connector
from duly.connectors.llm import ModelWay, using_model
from duly.connectors.registry import Registry
from duly.desk.record import Run, Why
from duly.env import Loop
from duly.errors import ConfigError, DulyError, Invalid, RequestRefused
from duly.host import Host
from duly.rules.catalog import Tool
from duly.rules.event import Publication, parse_publication
from duly.rules.replay import OutsideChange
from duly.rules.source import Source
from duly.rules.value import Json, as_mapping, canonical, suggest
from duly.rules.word import Act, MutationStatus, Status, Waits
from duly.store import Store, statements
from duly.store.base import Durability, StoreVerb, Transaction
from duly.testing.crash import AFTER
from duly.testing.fault import Fault
from duly.testing.sample_model import SampleModel
from duly.testing.stage import FILE, Stage
from duly.testing.stand_in import StandIns
from duly.testing.worker_cache import Memory, Read, WorkerCache
from duly.words import Clock, say

LENGTH_S: Final = 300.0  # in this time faults come; every schedule is due at its beginning
REST_S: Final = 600.0  # to come back in: longer than a lag, a backoff, a first doubt
LOOK_S: Final = 60.0  # how often the person looks whether a question waits
CRASHES_MAX: Final = 100
EVENTS_MAX: Final = 1000
BEFOREHAND: Final = timedelta(minutes=1)  # so that every id of a run is newer than the deploy
BY: Final = "simulation"

# The points after which something is different in the store.
WRITES: Final = frozenset(
    f"{AFTER} {name}"
    for name, verb in vars(Store).items()
    if isinstance(verb, StoreVerb) and verb.durability is not Durability.READ
)
STRIKES: Final[Mapping[str, Fault]] = {
    "before the effect": Fault.CRASH_BEFORE,
    "after the effect": Fault.CRASH_AFTER,
    "answer lost": Fault.TIMEOUT_AFTER,
}


@dataclass(frozen=True, slots=True)
class Props:
    """What every run of the test is given: events for topics, and results of tools by their names.

    A tool that reads and is not named is really called; a mutation that is not named returns a
    sample of its declared result, or {}.
    """

    events: tuple[Mapping[str, Json], ...] = ()
    answers: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Strike:
    """One thing that goes wrong: at the nth call of a tool, or at the nth pass of a point."""

    number: int
    where: str
    tool: str | None = None
    point: str = ""
    nth: int = 0
    fault: Fault = Fault.OK

    @property
    def is_crash(self) -> bool:
        """Tell whether the host dies of it."""
        return self.fault is not Fault.TIMEOUT_AFTER


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A crash after which the workflow did not end as it does without one."""

    number: int
    where: str
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CrashTestReport:
    """What came of it: the changes without a fault, and every mismatch.

    `troubles` is what went wrong without any fault; then no crash was tried. `crashes` were tried
    of `possible` ones, and `asked` of them needed a person's answer. `missed` were planned at a
    point that the host did not reach in that run.
    """

    workflow: str
    changes: tuple[OutsideChange, ...]
    troubles: tuple[str, ...]
    possible: int
    crashes: int
    asked: int
    missed: int
    mismatches: tuple[Mismatch, ...]


@dataclass(frozen=True, slots=True)
class _Ending:
    """What became of the outside and of the events."""

    changes: Counter[str]
    events: Counter[tuple[str, str, str]]
    waiting: tuple[str, ...]
    made: tuple[OutsideChange, ...]
    asked: int = 0
    points: tuple[str, ...] = ()
    calls: int = 0  # how many of the changes were made while faults come


class NotMet(DulyError):
    """The crash that was planned did not come."""


class CrashTest:
    """Runs one source again and again; closing it ends every process it started.

    with CrashTest(source, connectors) as test:
        print(test.run().mismatches)
    """

    def __init__(
        self,
        source: Source,
        connectors: Iterable[Connector],
        *,
        policy: Policy | None = None,
        sandbox: SandboxSettings | None = None,
        props: Props | None = None,
        read: Read | None = None,
        length_s: float = LENGTH_S,
        start: datetime | None = None,
    ) -> None:
        self._source = source
        self._connectors = tuple(connectors)
        self._policy = policy or Policy()
        given = props or Props()
        self._events = tuple(_read_events(given.events, self._policy))
        self._length_s = length_s
        now = datetime.fromtimestamp(Loop().now_ms() // 60_000 * 60, UTC)
        self._start = start or now
        self._registry = Registry(self._connectors)
        answers = _check_answers(given.answers, self._registry)
        self._workers = WorkerCache(self._policy, sandbox or SandboxSettings())
        self._memory = Memory(read or self._read, answers)
        self._stand_ins = StandIns(self._registry, answers, self._memory)
        self._folder = TemporaryDirectory(prefix="duly-simulate-")
        self._workflow = ""

    def __enter__(self) -> CrashTest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker and thread, and leave no file behind."""
        self._workers.close()
        self._memory.close()
        self._folder.cleanup()

    async def _read(self, tool: Tool, args: Mapping[str, Json]) -> Json:
        with using_model(ModelWay(SampleModel())):
            return await self._registry.read(tool, args)

    # -- All runs -------------------------------------------------------------------------------

    def run(
        self,
        *,
        crashes_max: int = CRASHES_MAX,
        only: int | None = None,
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> CrashTestReport:
        """Run without a fault, then with one fault after another; `only` repeats one of them."""
        self._deploy()
        plain = self._run_with(None)
        strikes = _strikes(plain)
        chosen = _choose(strikes, crashes_max, only)
        if plain.waiting:
            return CrashTestReport(
                self._workflow, plain.made, plain.waiting, len(strikes), 0, 0, 0, ()
            )
        mismatches: list[Mismatch] = []
        asked = missed = 0
        for done, strike in enumerate(chosen):
            progress(done, len(chosen))
            try:
                ending = self._run_with(strike)
            except NotMet:
                missed += 1
                continue
            asked += ending.asked > plain.asked
            if differences := tuple(_compare(plain, ending)):
                mismatches.append(Mismatch(strike.number, strike.where, differences))
        progress(len(chosen), len(chosen))
        tried = len(chosen) - missed
        told = (tried, asked, missed, tuple(mismatches))
        return CrashTestReport(self._workflow, plain.made, (), len(strikes), *told)

    # -- One run --------------------------------------------------------------------------------

    def _deploy(self) -> None:
        """Make the file that every run begins with: deployed, granted, its events published."""
        with self._stage("template", self._start - BEFOREHAND) as stage:
            self._workflow = stage.run(self._prepare(stage))

    async def _prepare(self, stage: Stage) -> str:
        host = await self._open(stage)
        deployed = await host.deploy(self._source, by=BY, grant=True)
        desk = host._desk()
        found = await desk.find(deployed.workflow)

        # Into any topic, as in a trial: the user's events stand for those of producers, too.
        def publish(tx: Transaction) -> None:
            for each in self._events:
                statements.read_topic(tx, found.id, each.topic)
                statements.publish(tx, found.id, each, created_by=BY, now=desk.now_ms)

        await desk.parts.store.backend.transact(publish, Durability.BARRIER)
        await host.close()
        return deployed.workflow

    def _run_with(self, strike: Strike | None) -> _Ending:
        name = "plain" if strike is None else str(strike.number)
        with self._stage(name, self._start) as stage:
            shutil.copy(self._path("template") / FILE, self._path(name) / FILE)
            ending = stage.run(self._lives(stage, strike))
        shutil.rmtree(self._path(name))
        return ending

    async def _lives(self, stage: Stage, strike: Strike | None) -> _Ending:
        """Let a host live, and if it died on the way, the next one, to the same end."""
        host = await self._open(stage)
        person = _Person(stage, self._workflow)
        store = stage.env.stores[-1]
        passed: list[str] = []
        store.points.on_point = passed.append
        if strike is not None and strike.tool is not None:
            stage.plan(strike.tool, *[Fault.OK] * (strike.nth - 1), strike.fault)
        elif strike is not None:
            store.plan_nth(strike.point, strike.nth)
        life = person.attend(host, self._length_s)
        if strike is not None and strike.is_crash:
            await _run_into(stage, host, life)
            host = await self._open(stage)
        else:
            await life
        # Faults come in the first part only; the rest is for coming back.
        points, calls = tuple(passed), len(stage.effects)
        await person.attend(host, self._length_s + REST_S)
        ending = await _look(stage, host, self._workflow)
        return replace(ending, asked=person.asked, points=points, calls=calls)

    async def _open(self, stage: Stage) -> Host:
        stand_ins = [self._stand_ins.make(stage, each) for each in self._connectors]
        return await stage.host(connectors=stand_ins, policy=self._policy)

    def _stage(self, name: str, start: datetime) -> AbstractContextManager[Stage]:
        self._path(name).mkdir()
        return self._workers.open_stage(self._path(name), start)

    def _path(self, name: str) -> Path:
        return Path(self._folder.name) / name


def _read_events(events: Iterable[Mapping[str, Json]], policy: Policy) -> Iterator[Publication]:
    """Check given events as if they were published."""
    for place, event in enumerate(events):
        fields = dict(as_mapping(event, f"events[{place}]", "topic", "title", "payload"))
        topic = fields.pop("topic", None)
        if not isinstance(topic, str):
            raise Invalid(f"events[{place}] names no topic.", path=f"events[{place}].topic")
        yield parse_publication(topic, fields, policy.limits)


def _check_answers(answers: Mapping[str, Json], registry: Registry) -> dict[str, Json]:
    known = [tool.name for tool in registry.catalog.tools]
    for name in answers:
        if name not in known:
            raise Invalid(f"answers: there is no tool {name}. {suggest(name, known)}", path=name)
    return dict(answers)


# -- The person -----------------------------------------------------------------------------------


class _Person:
    """The user: says yes to every call, and the truth about changes."""

    def __init__(self, stage: Stage, workflow: str) -> None:
        self._stage = stage
        self._workflow = workflow
        self.asked = 0

    async def attend(self, host: Host, until_s: float) -> None:
        """Let the host work until so many seconds have passed since the beginning."""
        async with host.running():
            while (left_s := until_s - self._stage.loop.elapsed_ms / 1000) > 0:
                await self._stage.advance(min(left_s, LOOK_S))
                await self._answer(host)

    async def _answer(self, host: Host) -> None:
        for approval in await host.approvals(self._workflow):
            if approval.waits is Waits.APPROVAL:
                self.asked += 1
                await host.approve(approval.mutation, approval.hash, by=BY)
        unknown = MutationStatus.INDETERMINATE
        for mutation in await host.mutations(self._workflow, status=unknown):
            found = self._stage._find(mutation.tool, mutation.key)
            try:
                if found is None:
                    await host.settle(mutation.id, Act.DID_NOT_HAPPEN, by=BY)
                else:
                    await host.settle(mutation.id, Act.HAPPENED, found.result, by=BY)
            except RequestRefused:
                continue  # too early to say (L6); the next look comes
            self.asked += 1


# -- What may go wrong, and what must not --------------------------------------------------------


def _strikes(plain: _Ending) -> tuple[Strike, ...]:
    """List every fault there is: of the outside first, then of the store, numbered."""
    found: list[Strike] = []
    times: Counter[str] = Counter()
    for change in plain.made[: plain.calls]:
        times[change.tool] += 1
        nth = times[change.tool]
        for words, fault in STRIKES.items():
            where = f"{change.tool}, call {nth}: {words}"
            found.append(Strike(0, where, change.tool, nth=nth, fault=fault))
    for name in plain.points:
        times[name] += 1
        if name in WRITES:
            found.append(Strike(0, f"store: {name}", point=name, nth=times[name]))
    return tuple(replace(each, number=number) for number, each in enumerate(found, 1))


def _choose(strikes: tuple[Strike, ...], most: int, only: int | None) -> tuple[Strike, ...]:
    """Take them all, or as many as fit: those of the outside, then the store's, evenly spread."""
    if only is not None:
        if not 1 <= only <= len(strikes):
            raise Invalid(f"There is no crash {only}; say 1 to {len(strikes)}.", path="only")
        return (strikes[only - 1],)
    outside = [each for each in strikes if each.tool is not None][:most]
    store = [each for each in strikes if each.tool is None]
    left = most - len(outside)
    if left < len(store):
        store = [store[place * len(store) // left] for place in range(left)]
    return (*outside, *store)


async def _run_into(stage: Stage, host: Host, life: Coroutine[Any, Any, None]) -> None:
    """Live until the planned crash, or say that it did not come."""
    try:
        await stage.crash(host, life)
    except ConfigError as error:
        raise NotMet(str(error)) from error


def _tell(why: Why, clock: Clock) -> str:
    """Say why a run is still open, and where its script failed if that is why (U7)."""
    said = say(why.reason, clock, long=True)
    if (script := why.script) is None:
        return said
    line = "" if script.line is None else f", line {script.line}"
    return f"{script.handler}.{script.step}{line}: {said}"


async def _look(stage: Stage, host: Host, workflow: str) -> _Ending:
    events = await host.events(workflow, limit=EVENTS_MAX)
    runs = await host.runs(workflow, limit=EVENTS_MAX)
    sentences = [_tell(await host.why(run.id), host.now) for run in _still_open(runs)]
    return _Ending(
        changes=Counter(
            f"{each.tool} {canonical(dict(each.args)).decode()}" for each in stage.effects
        ),
        events=Counter((each.topic, each.message_id, str(each.status)) for each in events),
        waiting=tuple(dict.fromkeys(sentences)),
        made=tuple(OutsideChange(each.tool, each.args) for each in stage.effects),
    )


def _still_open(runs: Iterable[Run]) -> list[Run]:
    """Choose the runs that neither came to an end nor are followed by another."""
    ended = (Status.COMMITTED, Status.ABANDONED, Status.PAUSED_TRANSIENT)
    seen = tuple(runs)
    followed = {run.retry_of for run in seen}
    return [run for run in seen if run.status not in ended and run.id not in followed]


def _compare(plain: _Ending, crashed: _Ending) -> Iterator[str]:
    """Say, a sentence each, what a crash has made different (law 2)."""
    for change in sorted(plain.changes.keys() | crashed.changes.keys()):
        wanted, count = plain.changes[change], crashed.changes[change]
        if count != wanted:
            yield f"{change} was done {_times(count)} instead of {_times(wanted)}."
    for topic, message_id, status in sorted((plain.events - crashed.events).keys()):
        yield f"There is no event {message_id} of {topic} that is {status}."
    for topic, message_id, status in sorted((crashed.events - plain.events).keys()):
        yield f"There is an event {message_id} of {topic} that is {status}; is its id stable?"
    for sentence in crashed.waiting:
        if sentence not in plain.waiting:
            yield f"A workflow still waits: {sentence}"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
