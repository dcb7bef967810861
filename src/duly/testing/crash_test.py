"""A drill: a user's own workflow, with the project's tools, through one crash after another.

Law 1  No mutation reaches the real outside. Every tool that changes something is played by a
       stand-in with the tool's own terms, which counts what it was made to do; reads are answered
       by what was given, else asked of the real tool once, and remembered for every play.
Law 2  What happens without a crash is what must happen with one: the same changes, each as often,
       and the same events with the same ends.
Law 3  Where the host stops and asks a person, a person answers here, by the truth; how often that
       was needed is told.
Law 4  Every difference is a story with a number, and the number plays it again.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from duly.config import Policy, SandboxSettings
from duly.connectors.base import Call, Connector
from duly.connectors.registry import Place, Registry
from duly.desk.record import Why
from duly.env import Loop
from duly.errors import ConfigError, DulyError, Invalid, RequestRefused
from duly.host import Host
from duly.rules.catalog import Tool, ToolKind
from duly.rules.event import Publication, parse_publication
from duly.rules.shape import sample
from duly.rules.source import Source
from duly.rules.value import Json, as_mapping, canonical, suggest
from duly.rules.word import Act, MutationStatus, Waits
from duly.store import part
from duly.store.base import Durability, Transaction
from duly.testing.crash import AFTER
from duly.testing.fault import Fault
from duly.testing.simulate import Tripwire, compare, still_open
from duly.testing.stage import FILE, Stage
from duly.testing.worker_cache import Memory, Read, Troupe

LENGTH_S: Final = 300.0  # in this time faults come; every schedule is due at its beginning
REST_S: Final = 600.0  # to come back in: longer than a lag, a backoff, a first doubt
LOOK_S: Final = 60.0  # how often the person looks whether somebody waits
CRASHES_MAX: Final = 100
EVENTS_MAX: Final = 1000
BEFOREHAND: Final = timedelta(minutes=1)  # so that no id made in a play was made before
BY: Final = "drill"

STRIKES: Final[Mapping[str, Fault]] = {
    "before the effect": Fault.CRASH_BEFORE,
    "after the effect": Fault.CRASH_AFTER,
    "answer lost": Fault.TIMEOUT_AFTER,
}


@dataclass(frozen=True, slots=True)
class Props:
    """What a play is given: events for its topics, what tools answer, by their names.

    A tool that reads and is not named is really asked; a mutation that is not named answers a
    sample of its declared result, or {}.
    """

    events: tuple[Mapping[str, Json], ...] = ()
    answers: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Strike:
    """One thing that goes wrong: the n-th call of a tool, or the n-th point of the store."""

    number: int
    where: str
    tool: str | None = None
    nth: int = 0
    fault: Fault = Fault.OK

    @property
    def is_crash(self) -> bool:
        """Tell whether the host dies of it."""
        return self.fault is not Fault.TIMEOUT_AFTER


@dataclass(frozen=True, slots=True)
class Change:
    """One change that was made outside, as the stand-in saw it."""

    tool: str
    args: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Story:
    """A play that did not end as it should have."""

    number: int
    where: str
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drilled:
    """What came of it: the changes without a fault, and the stories that differ.

    `troubles` is what went wrong without any fault; then no crash was tried. `crashes` were tried
    of `possible` ones, and `asked` of them needed a person's answer; `missed` were to be tried, but
    the host came by another way and did not meet them.
    """

    workflow: str
    changes: tuple[Change, ...]
    troubles: tuple[str, ...]
    possible: int
    crashes: int
    asked: int
    missed: int
    stories: tuple[Story, ...]


@dataclass(frozen=True, slots=True)
class _Ending:
    """What became of the outside and of the events."""

    changes: Counter[str]
    events: Counter[tuple[str, str, str]]
    waiting: tuple[str, ...]
    made: tuple[Change, ...]
    asked: int = 0
    points: tuple[str, ...] = ()
    calls: int = 0  # how many of the changes were made while faults come


class NotMet(DulyError):
    """The crash that was planned did not come."""


class Drill:
    """Plays one source again and again; closing it ends every process it started.

    with Drill(source, connectors) as drill:
        print(drill.run().stories)
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
        self._answers = _check_answers(given.answers, self._registry)
        self._troupe = Troupe(self._policy, sandbox or SandboxSettings())
        self._memory = Memory(read or self._registry.read, self._answers)
        self._folder = TemporaryDirectory(prefix="duly-drill-")
        self._workflow = ""

    def __enter__(self) -> Drill:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker and thread, and leave no file behind."""
        self._troupe.close()
        self._memory.close()
        self._folder.cleanup()

    # -- All plays ------------------------------------------------------------------------------

    def run(
        self,
        *,
        crashes_max: int = CRASHES_MAX,
        only: int | None = None,
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> Drilled:
        """Play without a fault, then with one fault after another; `only` plays one story."""
        self._deploy()
        plain = self._play(None)
        strikes = _strikes(plain)
        chosen = _choose(strikes, crashes_max, only)
        if plain.waiting:
            return Drilled(self._workflow, plain.made, plain.waiting, len(strikes), 0, 0, 0, ())
        stories: list[Story] = []
        asked = missed = 0
        for done, strike in enumerate(chosen):
            progress(done, len(chosen))
            try:
                ending = self._play(strike)
            except NotMet:
                missed += 1
                continue
            asked += ending.asked > plain.asked
            if differences := tuple(compare(plain, ending)):
                stories.append(Story(strike.number, strike.where, differences))
        progress(len(chosen), len(chosen))
        tried = len(chosen) - missed
        told = (tried, asked, missed, tuple(stories))
        return Drilled(self._workflow, plain.made, (), len(strikes), *told)

    # -- One play -------------------------------------------------------------------------------

    def _deploy(self) -> None:
        """Make the file that every play begins with: deployed, granted, its events published."""
        with self._stage("template", self._start - BEFOREHAND) as stage:
            self._workflow = stage.run(self._prepare(stage))

    async def _prepare(self, stage: Stage) -> str:
        host = await self._open(stage)
        deployed = await host.deploy(self._source, by=BY, grant=True)
        desk = host._desk()
        found = await desk.find(deployed.workflow)

        # Into any topic, as in a trial: whoever drills plays the producers, too.
        def publish(tx: Transaction) -> None:
            for each in self._events:
                part.read_topic(tx, found.id, each.topic)
                part.publish(tx, found.id, each, created_by=BY, now=desk.now_ms)

        await desk.parts.store.backend.transact(publish, Durability.BARRIER)
        await host.close()
        return deployed.workflow

    def _play(self, strike: Strike | None) -> _Ending:
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
        at = None
        if strike is not None and strike.tool is not None:
            stage.plan(strike.tool, *[Fault.OK] * strike.nth, strike.fault)
        elif strike is not None:
            at = strike.nth
        store = host._desk().parts.store
        tripwire = store.backend = Tripwire(store.backend, stage, at)
        life = person.attend(host, self._length_s)
        if strike is not None and strike.is_crash:
            await _run_into(stage, host, life)
            host = await self._open(stage)
        else:
            await life
        # Faults come in the first part only; the rest is for coming back.
        points, calls = tuple(tripwire.points), len(stage.effects)
        await person.attend(host, self._length_s + REST_S)
        ending = await _look(stage, host, self._workflow)
        return replace(ending, asked=person.asked, points=points, calls=calls)

    async def _open(self, stage: Stage) -> Host:
        stand_ins = [self._stand_in(stage, each) for each in self._connectors]
        return await stage.host(connectors=stand_ins, policy=self._policy)

    def _stage(self, name: str, start: datetime) -> AbstractContextManager[Stage]:
        self._path(name).mkdir()
        return self._troupe.open_stage(self._path(name), start)

    def _path(self, name: str) -> Path:
        return Path(self._folder.name) / name

    # -- Stand-ins ------------------------------------------------------------------------------

    def _stand_in(self, stage: Stage, connector: Connector) -> Connector:
        """Make a connector with the tools and terms of another, which reaches nothing real."""
        methods: dict[str, Any] = {}
        for name, place in self._registry._places.items():
            if place.connector is not connector:
                continue
            tool = self._registry.catalog.find(name)
            if tool.kind is ToolKind.MUTATION:
                methods[place.method] = self._changer(stage, tool, place)
                if place.asker is not None:
                    methods[place.asker] = stage._asker(tool.name)
            else:
                methods[place.method] = self._reader(stage, tool, place)
        kind = type(type(connector).__name__, (type(connector),), methods)
        made: Connector = object.__new__(kind)
        object.__setattr__(made, "name", connector.name)
        return made

    def _changer(self, stage: Stage, tool: Tool, place: Place) -> Any:
        answers = self._answers

        @wraps(_function(place))
        async def change(self: Connector, call: Call, **args: Json) -> Json:
            # In the shape of the real tool, or a script that is right would fail here.
            given = tool.name in answers
            result = answers[tool.name] if given else sample(tool.result, args)

            async def act() -> Any:
                return await stage._change(
                    call, tool.name, lambda **_: result, args, is_idempotent=tool.idempotent
                )

            answer: Json = await stage._meet(tool.name, act)
            return answer

        return change

    def _reader(self, stage: Stage, tool: Tool, place: Place) -> Any:
        memory = self._memory

        @wraps(_function(place))
        async def look(self: Connector, **args: Json) -> Json:
            with stage.loop.outstanding():
                return await memory.ask(tool, args)

        return look


def _function(place: Place) -> Any:
    """Find what the class declared, whose signature is the tool's."""
    declared = getattr(type(place.connector), place.method)
    return getattr(declared, "function", declared)


def _read_events(events: Iterable[Mapping[str, Json]], policy: Policy) -> Iterator[Publication]:
    """Check given events as if they were published."""
    for place, event in enumerate(events):
        fields = dict(as_mapping(event, f"events[{place}]", "Give {topic, title, …}."))
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
    """Whoever looks after the workflow: says yes to every call, and the truth about changes."""

    def __init__(self, stage: Stage, workflow: str) -> None:
        self._stage = stage
        self._workflow = workflow
        self.asked = 0

    async def attend(self, host: Host, until_s: float) -> None:
        """Let the host work until so many seconds of the play are over."""
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
    calls: Counter[str] = Counter()
    for change in plain.made[: plain.calls]:
        nth = calls[change.tool]
        calls[change.tool] += 1
        for words, fault in STRIKES.items():
            where = f"{change.tool}, call {nth + 1}: {words}"
            found.append(Strike(0, where, change.tool, nth, fault))
    found += [
        Strike(0, f"store: {name}", nth=place)
        for place, name in enumerate(plain.points)
        if name.startswith(AFTER)
    ]
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


def _tell(why: Why) -> str:
    """Say why a run is still open, and where its script failed if that is why (U7)."""
    if (script := why.script) is None:
        return why.sentence
    line = "" if script.line is None else f", line {script.line}"
    return f"{script.handler}.{script.step}{line}: {why.sentence}"


async def _look(stage: Stage, host: Host, workflow: str) -> _Ending:
    events = await host.events(workflow, limit=EVENTS_MAX)
    runs = await host.runs(workflow, limit=EVENTS_MAX)
    sentences = [_tell(await host.why(run.id)) for run in still_open(runs)]
    return _Ending(
        changes=Counter(
            f"{each.tool} {canonical(dict(each.args)).decode()}" for each in stage.effects
        ),
        events=Counter((each.topic, each.message_id, str(each.status)) for each in events),
        waiting=tuple(dict.fromkeys(sentences)),
        made=tuple(Change(each.tool, each.args) for each in stage.effects),
    )
