"""Crews: so many processes of one program on one database, which make runs at once."""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO, Any

import duly
from bench.fleet.member import DOT, RESTED, Telling
from bench.runs.duly_program import IN, SOURCES, TEXT, cpu_below_s

LANGUAGE = "JavaScript"
PUBLISHERS_MAX = 50
READ_BYTES = 65_536
SILENT_S = 120.0  # only what hangs is ended by it


@dataclass(frozen=True, slots=True)
class Made:
    """What a crew made in one slice, and the processor time of its processes."""

    runs: int
    wall_s: float
    cpu_s: float


class Crew:
    """Processes that were started with pipes to them."""

    name = ""

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self._processes = processes

    async def slice(self, workflows: int, runs: int, seconds: float) -> Made:
        """Make runs at once, in all processes."""
        raise NotImplementedError

    async def close(self) -> None:
        """End what was opened here; the processes end with their input."""

    def _tell(self, process: subprocess.Popen[bytes], line: str) -> None:
        assert process.stdin is not None
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()

    def _cpu_s(self) -> float:
        return sum(cpu_below_s(each.pid) for each in self._processes)

    def _outputs(self) -> list[IO[bytes]]:
        return [each.stdout for each in self._processes if each.stdout is not None]

    def _read(self, sign: bytes, wanted: int) -> None:
        """Read until the processes have written a sign so often."""
        while wanted > 0:
            ready, _, _ = select.select(self._outputs(), [], [], SILENT_S)
            chunks = [os.read(each.fileno(), READ_BYTES) for each in ready]
            if not all(chunks) or not ready:
                raise RuntimeError(f"a process of {self.name} ended or hangs; its log says why")
            wanted -= sum(each.count(sign) for each in chunks)


class DulyCrew(Crew):
    """Hosts that share workflows; the bench publishes while they rest."""

    name = "Duly"

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        super().__init__(processes)
        self._numbers = count(1)
        self._host: duly.Host | None = None
        self._names: list[str] = []

    async def open(self, url: str, workflows: int) -> None:
        """Deploy the workflows, and wait until every host is there."""
        self._host = duly.Host(url, connectors=[Telling()])
        await self._host.open()
        word, text = SOURCES[LANGUAGE]
        self._names = [f"flow-{number}" for number in range(workflows)]
        for name in self._names:
            source = duly.Source(word, text.replace("NAME", name))
            await self._host.deploy(source, by="bench", grant=True)
        self._read(RESTED, len(self._processes))

    async def slice(self, workflows: int, runs: int, seconds: float) -> Made:
        """Publish, let all hosts work until every change is made, and let them rest."""
        each = max(1, runs // workflows)
        waiting = asyncio.Semaphore(PUBLISHERS_MAX)
        await asyncio.gather(*(self._publish(name, waiting) for name in self._names * each))
        cpu_s, began_s = self._cpu_s(), time.perf_counter()
        for process in self._processes:
            self._tell(process, "go")
        await asyncio.to_thread(self._read, DOT, each * workflows)
        wall_s = time.perf_counter() - began_s
        for process in self._processes:
            self._tell(process, "rest")
        await asyncio.to_thread(self._read, RESTED, len(self._processes))
        return Made(each * workflows, wall_s, self._cpu_s() - cpu_s)

    async def close(self) -> None:
        """Close the host that publishes."""
        if self._host is not None:
            await self._host.close()

    async def _publish(self, name: str, waiting: asyncio.Semaphore) -> None:
        assert self._host is not None
        number = next(self._numbers)
        given: dict[str, Any] = {"message_id": f"t{number}", "payload": {"text": TEXT}}
        async with waiting:
            await self._host.publish(name, IN, title=f"Ticket {number}", **given)


class Ordered(Crew):
    """A peer that takes orders: one line of JSON each, and one line back."""

    async def _order_all(self, order: Mapping[str, object]) -> list[Any]:
        for process in self._processes:
            self._tell(process, json.dumps(order))
        return [await self._reply(each) for each in self._processes]

    async def _reply(self, process: subprocess.Popen[bytes]) -> Any:
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        if not line:
            raise RuntimeError(f"a process of {self.name} ended; its log says why")
        return json.loads(line)

    def _sum(self, replies: Sequence[Any]) -> Made:
        return Made(
            sum(each["count"] for each in replies),
            max(each["wall_s"] for each in replies),
            sum(each["cpu_s"] for each in replies),
        )


class DbosCrew(Ordered):
    """DBOS, in threads or in tasks, whichever is faster here."""

    name = "DBOS"

    async def slice(self, workflows: int, runs: int, seconds: float) -> Made:
        """Let so many callers in all processes make runs for a while."""
        callers = max(1, workflows // len(self._processes))
        made = []
        for is_async in (False, True):
            order = {"callers": callers, "seconds": seconds / 2, "is_async": is_async}
            made.append(self._sum(await self._order_all(order)))
        return max(made, key=lambda each: each.runs / each.wall_s)


class ProcrastinateCrew(Ordered):
    """Procrastinate: jobs are deferred before, then all workers work them off."""

    name = "procrastinate"

    async def open(self) -> None:
        """Make its tables, by one process."""
        self._tell(self._processes[0], json.dumps({"apply": 1}))
        await self._reply(self._processes[0])

    async def slice(self, workflows: int, runs: int, seconds: float) -> Made:
        """Defer jobs, and let all workers work until there are none."""
        self._tell(self._processes[0], json.dumps({"defer": runs}))
        await self._reply(self._processes[0])
        callers = max(1, workflows // len(self._processes))
        return self._sum(await self._order_all({"callers": callers}))


def server_cpu_s(folder: Path) -> float:
    """Return the processor time of a server and of its living processes."""
    return cpu_below_s(int((folder / "data" / "postmaster.pid").read_text().split()[0]))
