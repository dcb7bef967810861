"""Measure the bus beside its yardstick, and beside huey on SQLite: `python -m bench.bus`.

An emit is durable when it returns, as the yardstick's insert is. A delivery is counted from its
place in a backlog to its record: begin, call of a handler that does nothing, finish. Idle latency
is the time from the call of `emit`, which waits for the disk, to the handler's first line.

The goals are reported, never asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.__main__ import COLUMNS, FOLDER, QUICK, WHOLE, Measured, Size, Trial, machine, table
from bench.measure import Figure, Slice, Stopwatch
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
LATENCIES = 30
REST_S = 0.02
HUEY_VERSION = "2.5.3"
PEER = Path(__file__).with_name("bus_huey.py")
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
    """List what is measured."""
    emits = [
        Trial(
            Figure(f"emit, {callers} caller{'s' * (callers > 1)}", goal),
            partial(subject.emit, callers),
            yardstick,
        )
        for callers, goal in EMIT_GOALS.items()
    ]
    deliveries = [
        Trial(Figure(f"deliver to {count}", None), partial(subject.deliver, count), yardstick)
        for count in SUBSCRIBERS
    ]
    return emits + deliveries


async def measure(folder: Path, size: Size) -> tuple[list[Figure], list[float]]:
    """Take all figures round after round, then the latencies."""
    yardstick = Yardstick(folder)
    subject = await open_subject(folder / "bus.db")
    every = trials(subject, yardstick.publish)
    for number in range(size.rounds + 1):
        for trial in every:
            await trial.take(size, is_kept=number > 0)
    await subject.dispatcher.drain()  # closes the events that have no subscriber
    latencies = await subject.latencies_ms(3 if size is QUICK else LATENCIES)
    await subject.dispatcher.close()
    await subject.store.close()
    subject.env.close()
    yardstick.close()
    return [trial.figure for trial in every], latencies


def ask_huey(home: Path, folder: Path, size: Size) -> list[dict[str, Any]] | str:
    """Let huey do the same in an environment of its own, or say why it could not."""
    python = home / f"huey-{HUEY_VERSION}" / "bin" / "python"
    try:
        if not python.exists():
            venv = [sys.executable, "-m", "venv", "--clear", str(python.parents[1])]
            subprocess.run(venv, check=True)
            install = ["-m", "pip", "install", "--quiet", f"huey=={HUEY_VERSION}"]
            subprocess.run([python, *install], check=True)
        rounds, seconds = str(size.rounds), str(size.slice_s)
        done = subprocess.run(
            [python, PEER, rounds, seconds], cwd=folder, check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(python.parents[1], ignore_errors=True)
        return f"huey {HUEY_VERSION} could not be measured: {error}"
    answer: list[dict[str, Any]] = json.loads(done.stdout)
    return answer


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and leave nothing behind but the peer's environment."""
    parser = argparse.ArgumentParser(prog="python -m bench.bus", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny slices: does it run at all?")
    parser.add_argument("--alone", action="store_true", help="without huey; nothing is fetched")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="which disk to measure")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    size = QUICK if options.quick else WHOLE
    try:
        figures, latencies = asyncio.run(measure(folder, size))
        huey = None if options.alone else ask_huey(options.folder, folder, size)
    finally:
        shutil.rmtree(folder)
    if options.json:
        rows = [each.row() for each in figures]
        report = {"machine": machine(), "bus": rows, "latency_ms": median(latencies), "huey": huey}
        print(json.dumps(report))
        return
    print(table(figures, COLUMNS))
    print(f"\nfrom an emit to the handler, idle: median {median(latencies):.2f} ms")
    for row in [huey] if isinstance(huey, str) else huey or []:
        print(
            row
            if isinstance(row, str)
            else f"huey, {row['name']}: {row['value']:,.2f} {row['unit']}"
        )
    print("\n" + ", ".join(f"{name} {value}" for name, value in machine().items()))


if __name__ == "__main__":
    main()
