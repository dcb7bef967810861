"""The same work through the store that ships: every verb, its guards and its constraints.

A run is take_turn, peek, prepare_run, send, record and commit_run with one publish. Each caller
has a workflow of its own, for a workflow has at most one open run (F6). What the rules decide on
the way is decided once, up front: this measures the store, not the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from bench.crowd import CONSUMER, INBOX, OUTBOX, OUTSIDE, VERSION, fill
from bench.measure import (
    Figure,
    Size,
    Slice,
    Stopwatch,
    Trial,
    events_needed,
    itself,
    plural,
    take_all,
)
from bench.report import Section
from bench.yardstick import ARGUMENTS, PAYLOAD, PEEK, PREPARED, RESULT, STATE, TITLE, Yardstick
from duly.config import Limits
from duly.env import Loop
from duly.rules.event import Publication
from duly.rules.lifecycle import CONSUMER_START, advance, answer, commit
from duly.rules.turn import Choice, Work
from duly.rules.word import Answer, Kind, Progress
from duly.store import Store, statements
from duly.store.base import Durability, Fence, Transaction
from duly.store.disk import FileDisk
from duly.store.due import Outlook
from duly.store.record import (
    Action,
    Call,
    Commit,
    HandlerSpec,
    Pinned,
    Recorded,
    Reserve,
    TopicSpec,
    VersionSpec,
)
from duly.store.sqlite import open_sqlite
from duly.store.workflow import Deployment

WORKFLOWS = 100
RUN_GOALS = {1: 0.8, 10: 2.5, 100: 4.0}
PUBLISH_GOALS = {1: 0.6, 10: 3.0, 100: 6.0}
FULL_STORE_PART = 0.9  # within 10 % of the small store
PEEK_BYTES = Limits().peek_bytes

PINNED = advance(CONSUMER_START, Progress.PREPARE_DONE)
SENT = advance(advance(PINNED, Progress.BEGIN_MUTATE), Progress.SEND)
APPLIED = answer(SENT, Answer.APPLIED)
COMMITTED = commit(advance(APPLIED, Progress.BEGIN_NEXT))

Once = Callable[[Fence], Awaitable[None]]


def _start(outlook: Outlook) -> Choice:
    """Choose the consumer: it always has something to do here."""
    return Choice(Work.START, next(each for each in outlook.handlers if each.name == CONSUMER))


class CountingDisk(FileDisk):
    """The real disk, counting how often the log is synced."""

    syncs = 0

    def sync_wal(self) -> None:
        """Sync the log and count it."""
        self.syncs += 1
        super().sync_wal()


class Subject:
    """An open store with one workflow per caller."""

    def __init__(self, store: Store, disk: CountingDisk, env: Loop) -> None:
        self.store = store
        self._disk = disk
        self._env = env
        self._numbers = count(1)
        self._fences: list[Fence] = []
        self._pending: dict[str, int] = {}

    async def deploy(self, workflows: int) -> None:
        """Deploy workflows that are all alike."""
        await asyncio.gather(*(self._deploy_one(number) for number in range(workflows)))

    async def claim(self, workflows: int) -> None:
        """Take the right to write to the workflows that were deployed."""
        await self.store.join("bench", now=self._env.now_ms())
        self._fences = await asyncio.gather(
            *(self.store.claim("bench", _workflow_id(number)) for number in range(workflows))
        )

    async def run(self, callers: int, seconds: float) -> Slice:
        """Let so many callers make whole runs for a while."""
        await self._top_up(events_needed(seconds) // callers, self._fences[:callers])
        return await self._repeat(self._run_once, callers, seconds)

    async def publish(self, callers: int, seconds: float) -> Slice:
        """Let so many callers publish for a while."""
        return await self._repeat(self._publish_once, callers, seconds)

    async def _deploy_one(self, number: int) -> None:
        deployment = Deployment(
            workflow_id=_workflow_id(number),
            name=f"Email to sheets {number}",
            replaces=None,
            version=VersionSpec(VERSION, "python", "", "", "{}", "[]", "bench"),
            handlers=(HandlerSpec(CONSUMER, Kind.CONSUMER, 0),),
            topics=(
                TopicSpec(INBOX, CONSUMER),
                TopicSpec(OUTBOX),
                TopicSpec(OUTSIDE, ingress=True),
            ),
        )
        action = Action(self._env.new_id("action"), "bench", "deploy")
        await self.store.deploy(deployment, successor_id="", action=action, now=self._env.now_ms())

    async def _repeat(self, once: Once, callers: int, seconds: float) -> Slice:
        watch = Stopwatch(seconds, lambda: self._disk.syncs)

        async def call(fence: Fence) -> int:
            done = 0
            while not done or watch.is_running():
                await once(fence)
                done += 1
            return done

        counts = await asyncio.gather(*(call(fence) for fence in self._fences[:callers]))
        # What is counted is durable, as the yardstick's work is.
        await self.store.sync()
        return watch.stop(sum(counts))

    async def _run_once(self, fence: Fence) -> None:
        store, now = self.store, self._env.now_ms
        run_id = self._env.new_id("run")
        await store.take_turn(fence, run_id, _start, now=now())
        event, *_ = await store.peek(fence.workflow_id, INBOX, limit=PEEK, bytes_max=PEEK_BYTES)
        pinned = Pinned(PREPARED, now(), run_id)
        reserves = (Reserve(INBOX, event.message_id, event.content),)
        await store.prepare_run(fence, run_id, CONSUMER_START, PINNED, pinned, reserves, now=now())
        mutation_id = self._env.new_id("mutation")
        call = Call(mutation_id, "sheets.append_row", ARGUMENTS, TITLE, run_id, mutation_id)
        await store.send(fence, run_id, PINNED, SENT, call, now=now())
        await store.record(fence, run_id, SENT, APPLIED, Recorded(1, result=RESULT), now=now())
        publications = (self._publication(OUTBOX),)
        await store.commit_run(
            fence, run_id, APPLIED, COMMITTED, Commit(publications, STATE), now=now()
        )
        self._pending[fence.workflow_id] -= 1

    async def _publish_once(self, fence: Fence) -> None:
        action = Action(self._env.new_id("action"), "bench", "publish")
        await self.store.publish(
            fence.workflow_id, self._publication(OUTSIDE), action=action, now=self._env.now_ms()
        )

    async def _top_up(self, pending: int, fences: list[Fence]) -> None:
        now = self._env.now_ms()
        missing = {
            fence.workflow_id: max(0, pending - self._pending.get(fence.workflow_id, 0))
            for fence in fences
        }

        def publish(tx: Transaction) -> None:
            for workflow_id, events in missing.items():
                for _ in range(events):
                    publication = self._publication(INBOX)
                    statements.publish(tx, workflow_id, publication, created_by="bench", now=now)

        await self.store.backend.transact(publish, Durability.BARRIER)
        for workflow_id, events in missing.items():
            self._pending[workflow_id] = self._pending.get(workflow_id, 0) + events

    def _publication(self, topic: str) -> Publication:
        message_id = f"mail-{next(self._numbers)}"
        return Publication(topic, message_id, TITLE, PAYLOAD, message_id)


def _workflow_id(number: int) -> str:
    return f"workflow_{number:04}"


async def open_subject(path: Path, env: Loop) -> Subject:
    """Open a store, new or filled, on the real disk."""
    disk = CountingDisk(path)
    return Subject(Store(await open_sqlite(disk, env)), disk, env)


def trials(subject: Subject, yardstick: Yardstick, suffix: str = "") -> list[Trial]:
    """List what is measured on one store."""
    kinds = (
        ("runs", RUN_GOALS, subject.run, yardstick.run4),
        ("publish", PUBLISH_GOALS, subject.publish, yardstick.publish),
    )
    return [
        Trial(
            Figure(f"{name}, {plural(callers, 'caller')}{suffix}", goal, callers),
            partial(work, callers),
            beside,
        )
        for name, goals, work, beside in kinds
        for callers, goal in goals.items()
    ]


async def measure(folder: Path, size: Size) -> Section:
    """Measure a small and a full store, and the yardstick against itself."""
    env = Loop()
    yardstick = Yardstick(folder)
    small, full = folder / "small.db", folder / "full.db"
    for path in (small, full):
        fresh = await open_subject(path, env)
        await fresh.deploy(WORKFLOWS)
        await fresh.store.close()
    fill(full, size.rows // WORKFLOWS)
    subjects = [await open_subject(path, env) for path in (small, full)]
    for subject in subjects:
        await subject.claim(WORKFLOWS)
    own = [
        itself("yardstick run4", yardstick.run4),
        itself("yardstick publish", yardstick.publish),
    ]
    plain = trials(subjects[0], yardstick)
    crowded = trials(subjects[1], yardstick, f", {size.rows:,} rows")
    every = [*own, *plain, *crowded]
    rows = await take_all(every, size.rounds, size.slice_s, size.yardstick_s)
    for subject in subjects:
        await subject.store.close()
    yardstick.close()
    env.close()
    expected = {
        beside.figure.name: trial.figure.ratio * FULL_STORE_PART
        for trial, beside in zip(plain, crowded, strict=True)
    }
    return Section([replace(row, goal=expected.get(row.name, row.goal)) for row in rows])
