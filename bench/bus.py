"""The bus beside its yardstick, and beside huey on SQLite.

An emit is durable when it returns, as the yardstick's insert is. A delivery is counted from its
place in a backlog to its record: begin, call of a handler that does nothing, finish. Idle latency
is the time from the call of `emit`, which waits for the disk, to the handler's first line.

huey is measured twice: with `fsync`, which is what waits for the disk as an emit does, and as it is
by default, which does not.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.measure import (
    Figure,
    Measured,
    Size,
    Slice,
    Stopwatch,
    Trial,
    idle,
    plural,
    take_all,
)
from bench.report import Section
from bench.runs.peer import Peer
from bench.store import CountingDisk
from bench.yardstick import PAYLOAD, Yardstick
from duly.bus.bus import Bus
from duly.bus.dispatcher import Dispatcher
from duly.config import Limits
from duly.env import Loop
from duly.rules.delivery import Event
from duly.store import Store
from duly.store.sqlite import open_sqlite

EMIT_GOALS = {1: 0.6, 10: 3.0, 100: 6.0}
SUBSCRIBERS = (1, 3)
BACKLOG_PER_S = 3_000
HUEY = (("with fsync", True), ("by default", False))
REST_S = 0.02
SAID = json.loads(PAYLOAD)


@dataclass(slots=True)
class Subject:
    """A bus on a real file, with handlers that do nothing."""

    env: Loop
    disk: CountingDisk
    store: Store
    dispatcher: Dispatcher
    bus: Bus
    begun_at_s: float = 0.0
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    async def emit(self, callers: int, seconds: float) -> Slice:
        """Let so many callers emit for a while; the topic has no subscriber."""
        watch = Stopwatch(seconds, lambda: self.disk.syncs)

        async def call() -> int:
            done = 0
            while not done or watch.is_running():
                await self.bus.emit("unheard", SAID, source="bench")
                done += 1
            return done

        return watch.stop(sum(await asyncio.gather(*(call() for _ in range(callers)))))

    async def deliver(self, subscribers: int, seconds: float) -> Slice:
        """Deliver a backlog to so many subscribers, and count the deliveries."""
        await self.dispatcher.drain()  # what was emitted to no subscriber is closed before
        topic = f"heard.{subscribers}"
        events = max(10, int(seconds * BACKLOG_PER_S / subscribers))
        await asyncio.gather(*(self.bus.emit(topic, SAID, source="bench") for _ in range(events)))
        watch = Stopwatch(0, lambda: self.disk.syncs)
        await self.dispatcher.drain()
        await self.store.sync()
        return watch.stop(events * subscribers)

    async def latencies_ms(self, times: int) -> list[float]:
        """Return how long an emit to an idle bus takes to reach its handler."""
        found = []
        serving = asyncio.ensure_future(self.dispatcher.serve())
        for _ in range(times):
            await asyncio.sleep(REST_S)
            emitted_at_s = time.perf_counter()
            self.heard.clear()
            await self.bus.emit("heard.1", SAID, source="bench")
            await self.heard.wait()
            found.append((self.begun_at_s - emitted_at_s) * 1000)
        serving.cancel()
        await asyncio.wait([serving])
        return found

    async def hear(self, event: Event) -> None:
        self.begun_at_s = time.perf_counter()
        self.heard.set()


async def open_subject(path: Path) -> Subject:
    """Open a bus with one subscriber of one topic and three of another."""
    env, disk = Loop(), CountingDisk(path)
    store = Store(await open_sqlite(disk, env))
    dispatcher = Dispatcher(env, store, limits=Limits(), entered=lambda workflow_id: None)
    subject = Subject(env, disk, store, dispatcher, Bus(env, store, dispatcher, Limits()))
    for subscribers in SUBSCRIBERS:
        for number in range(subscribers):
            subject.bus.subscribe(
                f"heard.{subscribers}", subject.hear, subscriber_id=f"bench.{subscribers}.{number}"
            )
    await dispatcher.drain()
    return subject


def trials(subject: Subject, yardstick: Measured) -> list[Trial]:
    """List what is measured of Duly."""
    emits = [
        Trial(
            Figure(f"Duly, emit, {plural(callers, 'caller')}", goal, callers),
            partial(subject.emit, callers),
            yardstick,
        )
        for callers, goal in EMIT_GOALS.items()
    ]
    deliveries = [
        Trial(
            Figure(f"Duly, deliver to {plural(count, 'subscriber')}"),
            partial(subject.deliver, count),
            yardstick,
        )
        for count in SUBSCRIBERS
    ]
    return emits + deliveries


def trials_of_huey(peer: Peer, yardstick: Measured) -> list[Trial]:
    """List what is measured of huey."""

    async def enqueue(seconds: float, *, fsync: bool) -> Slice:
        return peer.slice(work="enqueue", seconds=seconds, fsync=fsync)

    async def deliver(seconds: float, *, fsync: bool) -> Slice:
        count = max(10, int(seconds * BACKLOG_PER_S))
        return peer.slice(work="deliver", count=count, fsync=fsync)

    return [
        Trial(Figure(f"{peer.name}, {words}, {how}"), partial(work, fsync=fsync), yardstick)
        for how, fsync in HUEY
        for words, work in (("enqueue, 1 caller", enqueue), ("work, 1 worker", deliver))
    ]


async def measure(folder: Path, size: Size, peers: Sequence[Peer]) -> Section:
    """Take all figures round after round, then the times to begin."""
    yardstick = Yardstick(folder)
    subject = await open_subject(folder / "bus.db")
    every = trials(subject, yardstick.publish)
    for peer in peers:
        every += trials_of_huey(peer, yardstick.publish)
    rows = await take_all(every, size.rounds, size.slice_s, size.yardstick_s)
    await subject.dispatcher.drain()  # closes the events that have no subscriber
    begun = [idle("Duly", await subject.latencies_ms(size.idle))]
    begun += [
        idle(f"{peer.name}, {how}", peer.latencies_ms(size.idle, fsync=fsync))
        for peer in peers
        for how, fsync in HUEY
    ]
    await subject.dispatcher.close()
    await subject.store.close()
    subject.env.close()
    yardstick.close()
    return Section(rows, begun)
