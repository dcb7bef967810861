"""The user's own workflow, in the real interpreter, through every schedule with one crash.

Law 1  What happens without a crash is what should happen with one: the same changes of the
       outside, as often, and the same events with the same ends.
Law 2  Every failure is one sentence: where the host died, and what was different.

    def furnish(world):
        world.mailbox(2)
        world.sheet()

    for sentence in simulate(Source("python", text), furnish):
        print(sentence)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol, TypeVar

from duly.desk.record import Run
from duly.errors import NotDeployed
from duly.host import Host
from duly.rules.source import Source
from duly.rules.word import Status
from duly.store.base import Backend, Durability, Transaction
from duly.testing.crash import AFTER, BEFORE, Crash
from duly.testing.stage import Stage, open_stage
from duly.testing.world import World

R = TypeVar("R")

LENGTH_S: Final = 900.0  # longer than any first wait: a lag, a backoff, a schedule of minutes
SCHEDULES_MAX: Final = 400

Furnish = Callable[[World], object]


class Ended(Protocol):
    """How a play ended: what became of the outside and of the events, and who still waits."""

    @property
    def changes(self) -> Counter[str]:
        """How often each change was made."""

    @property
    def events(self) -> Counter[tuple[str, str, str]]:
        """The events by topic, message id and status."""

    @property
    def waiting(self) -> tuple[str, ...]:
        """What a person would have to see to."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the outside and of the events."""

    changes: Counter[str]
    events: Counter[tuple[str, str, str]]  # topic, message id, status
    waiting: tuple[str, ...]  # what a person would have to see to
    points: tuple[str, ...]


class Tripwire:
    """A backend that lets its host die at one point, counted from now on."""

    def __init__(self, backend: Backend, stage: Stage, at: int | None) -> None:
        self._backend = backend
        self._stage = stage
        self._at = at
        self.points: list[str] = []

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Run a verb, unless the host dies before it or right after."""
        if durability is Durability.READ:
            return await self._backend.transact(body, durability)
        self._reach(f"{BEFORE} {body.__name__}")
        answer = await self._backend.transact(body, durability)
        self._reach(f"{AFTER} {body.__name__}")
        return answer

    async def sync(self) -> None:
        """Return when everything committed so far is durable."""
        await self._backend.sync()

    async def close(self) -> None:
        """Give the database back."""
        await self._backend.close()

    def _reach(self, name: str) -> None:
        self.points.append(name)
        if len(self.points) - 1 == self._at:
            self._stage.env.crash()
            raise Crash


def simulate(
    source: Source, furnish: Furnish, *, schedules_max: int = SCHEDULES_MAX
) -> tuple[str, ...]:
    """Play a workflow through every schedule with one crash; answer a sentence per failure."""
    try:
        plain = _play(source, furnish, None)
    except NotDeployed as error:
        return (f"It cannot be deployed: {error}",)
    problems = [f"Without any crash, {each}" for each in plain.waiting]
    step = -(-len(plain.points) // schedules_max) if plain.points else 1
    for at in range(0, len(plain.points), step):
        outcome = _play(source, furnish, at)
        where = f"When the host dies {plain.points[at]} (point {at + 1})"
        problems.extend(f"{where}: {each}" for each in compare(plain, outcome))
    return tuple(problems)


def _play(source: Source, furnish: Furnish, at: int | None) -> Outcome:
    with TemporaryDirectory() as folder, open_stage(Path(folder)) as stage:
        furnish(stage)
        return stage.run(_lives(stage, source, at))


async def _lives(stage: Stage, source: Source, at: int | None) -> Outcome:
    """Let a host live, and if it died on the way, the next one."""
    host = await stage.host()
    deployed = await host.deploy(source, by="simulation", grant=True)
    store = host._desk().parts.store
    tripwire = store.backend = Tripwire(store.backend, stage, at)
    if at is None:
        await _live(stage, host)
    else:
        await stage.crash(host, _live(stage, host))
        host = await stage.host()
        await _live(stage, host)
    return await _look(stage, host, deployed.workflow, tuple(tripwire.points))


async def _live(stage: Stage, host: Host) -> None:
    async with host.running():
        await stage.advance(LENGTH_S)


async def _look(stage: Stage, host: Host, workflow: str, points: tuple[str, ...]) -> Outcome:
    events = await host.events(workflow, limit=1000)
    runs = await host.runs(workflow, limit=1000)
    waiting = tuple(
        f"a run of {run.handler} is {run.status}: {run.error}" for run in still_open(runs)
    )
    return Outcome(
        Counter(each.tool for each in stage.effects),
        Counter((each.topic, each.message_id, str(each.status)) for each in events),
        waiting,
        points,
    )


def still_open(runs: Iterable[Run]) -> list[Run]:
    """Choose the runs that neither came to an end nor are followed by another."""
    ended = (Status.COMMITTED, Status.ABANDONED, Status.CRASHED, Status.PAUSED_TRANSIENT)
    seen = tuple(runs)
    followed = {run.retry_of for run in seen}
    return [run for run in seen if run.status not in ended and run.id not in followed]


def compare(plain: Ended, crashed: Ended) -> Iterator[str]:
    """Say, a sentence each, what a crash has made different (law 1)."""
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
            yield f"Somebody still waits: {sentence}"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
