"""Our own side: a whole host with sandboxed workflows, from a published event to a committed run.

A run is a consumer's: prepare peeks one event and reserves it, mutate asks for one outside change
that takes no time, next publishes an event of 1 KiB. Every workflow has a queue of its own.

It reads one order per line, `{"callers": 10, "count": 200}` or `{"times": 30}`, and replies with
one line of JSON; `callers` is the number of workflows, and `count` that of all runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path

import duly
from bench.measure import Slice, Stopwatch
from duly.rules.source import Language
from duly.store.disk import FileDisk

IN, OUT = "ticket.opened", "ticket.filed"
TEXT = "x" * 1000
PUBLISHERS_MAX = 200
STORES = count(1)  # every host begins with a new store
SHARE = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)
REST_S = 0.05  # long enough for whatever is still to be synced

JAVASCRIPT = """
export default Keep.workflow({
  name: "NAME",
  topics: { "ticket.opened": { ingress: true }, "ticket.filed": {} },
  consumers: {
    file: Keep.consumer({
      subscribe: ["ticket.opened"],
      async prepare(ctx) {
        await ctx.desk.begin({});
        const [ticket] = await ctx.peek("ticket.opened", { limit: 1 });
        if (!ticket) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "ticket.opened", ids: [ticket.messageId] }],
          data: { id: ticket.messageId, text: ticket.payload.text },
          ui: { title: `File ticket ${ticket.messageId}` },
        };
      },
      async mutate(ctx, prepared) {
        await ctx.desk.file({ id: prepared.data.id, text: prepared.data.text });
      },
      async next(ctx, prepared, result) {
        if (result.status !== "applied") return;
        await ctx.publish("ticket.filed", {
          messageId: `filed:${prepared.data.id}`,
          title: `Ticket ${prepared.data.id} is filed`,
          payload: { text: prepared.data.text },
        });
      },
    }),
  },
});
"""
PYTHON = """
from duly import workflow

flow = workflow("NAME", topics={"ticket.opened": {"ingress": True}, "ticket.filed": {}})


@flow.consumer("ticket.opened")
class file:
    async def prepare(self, ctx, state):
        await ctx.desk.begin()
        pending = await ctx.peek("ticket.opened", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        ticket = pending[0]
        return {
            "reservations": [{"topic": "ticket.opened", "ids": [ticket["message_id"]]}],
            "data": {"id": ticket["message_id"], "text": ticket["payload"]["text"]},
            "ui": {"title": f"File ticket {ticket['message_id']}"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.desk.file(id=prepared["data"]["id"], text=prepared["data"]["text"])

    async def next(self, ctx, prepared, result, state):
        if result["status"] != "applied":
            return
        await ctx.publish(
            "ticket.filed",
            message_id=f"filed:{prepared['data']['id']}",
            title=f"Ticket {prepared['data']['id']} is filed",
            payload={"text": prepared["data"]["text"]},
        )
"""
SOURCES = {
    "JavaScript": (Language.JAVASCRIPT, JAVASCRIPT),
    "Python": (Language.PYTHON, PYTHON),
}


class Desk(duly.Connector):
    """The outside: it takes no time, and knows when it was last called."""

    name = "desk"

    def __init__(self) -> None:
        self.filed = 0
        self.begun_at_s = 0.0
        self.began = asyncio.Event()

    @duly.read
    async def begin(self) -> None:
        """Note that a handler has begun."""
        self.begun_at_s = time.perf_counter()
        self.began.set()

    @duly.mutation(risk="low")
    async def file(self, call: duly.Call, id: str, text: str) -> dict[str, int]:  # noqa: A002
        """Make the change."""
        self.filed += 1
        return {"row": self.filed}


class Syncs:
    """How often a log was synced in this process."""

    made = 0


class Subject:
    """An open host with so many workflows of one language."""

    def __init__(self, host: duly.Host, desk: Desk, names: list[str]) -> None:
        self._host = host
        self._desk = desk
        self._names = names
        self._numbers = count(1)

    async def run(self, events: int) -> Slice:
        """Publish so many events to every workflow, then measure how they are worked off."""
        await self._publish(events)
        before, workers_before_s = self._desk.filed, workers_cpu_s()
        watch = Stopwatch(syncs=lambda: Syncs.made)
        await self._host.drain()
        done = watch.stop(events * len(self._names))
        assert self._desk.filed - before == done.count, "a run was lost or made twice"
        children_s, children_bytes = workers_cpu_s() - workers_before_s, workers_bytes()
        return replace(done, children_s=children_s, children_bytes=children_bytes)

    async def close(self) -> None:
        """Close the host."""
        await self._host.close()

    async def latencies_ms(self, times: int) -> list[float]:
        """Measure how long an idle host takes from a publish to the handler's first call."""
        found = []
        async with self._host.running():
            for _ in range(times):
                await asyncio.sleep(REST_S)
                self._desk.began.clear()
                published_at_s = time.perf_counter()
                await self._publish_one(self._names[0])
                await self._desk.began.wait()
                found.append((self._desk.begun_at_s - published_at_s) * 1000)
            await asyncio.sleep(REST_S)
        return found

    async def _publish(self, events: int) -> None:
        waiting = asyncio.Semaphore(PUBLISHERS_MAX)

        async def publish(name: str) -> None:
            async with waiting:
                await self._publish_one(name)

        await asyncio.gather(*(publish(name) for name in self._names * events))

    async def _publish_one(self, name: str) -> None:
        number = next(self._numbers)
        await self._host.publish(
            name, IN, message_id=f"t{number}", title=f"Ticket {number}", payload={"text": TEXT}
        )


async def open_subject(folder: Path, language: str, workflows: int) -> Subject:
    """Open a host and let every workflow have run once."""
    desk = Desk()
    host = duly.Host(f"sqlite:///{folder / f'{language}-{next(STORES)}.db'}", connectors=[desk])
    await host.open()
    word, text = SOURCES[language]
    names = [f"{language}-{number}" for number in range(workflows)]
    for name in names:
        await host.deploy(duly.Source(word, text.replace("NAME", name)), by="bench", grant=True)
    subject = Subject(host, desk, names)
    await subject.run(1)
    return subject


@contextmanager
def counting_syncs() -> Iterator[None]:
    """Count the syncs of every store that is opened meanwhile."""
    plain = FileDisk.sync_wal

    def counting(disk: FileDisk) -> None:
        Syncs.made += 1
        plain(disk)

    FileDisk.sync_wal = counting  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        FileDisk.sync_wal = plain  # type: ignore[method-assign]


def workers_cpu_s() -> float:
    """Return the processor time of every living worker, at any depth below this process."""
    own = os.getpid()
    return _cpu_s(fields for pid, fields in _below(own).items() if pid != own)


def cpu_below_s(root: int) -> float:
    """Return the processor time of a process and of every living one below it."""
    return _cpu_s(_below(root).values())


def workers_bytes() -> int:
    """Return the memory of every living worker; a page that several share is counted once."""
    own = os.getpid()
    return sum(_memory_bytes(pid) for pid in _below(own) if pid != own)


def _cpu_s(found: Iterable[list[str]]) -> float:
    ticks = sum(int(fields[11]) + int(fields[12]) for fields in found)
    return ticks / os.sysconf("SC_CLK_TCK")


def _memory_bytes(pid: int) -> int:
    try:
        told = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = SHARE.search(told)
    return int(found[1]) * 1024 if found else 0


def _below(root: int) -> dict[int, list[str]]:
    """Return the numbers that the kernel reports about a process and each one below it."""
    told: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            told[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
    parents = {pid: int(fields[1]) for pid, fields in told.items()}
    return {pid: fields for pid, fields in told.items() if _is_below(pid, root, parents)}


def _is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid != root:
        if pid not in parents:
            return False
        pid = parents[pid]
    return True


async def serve(language: str) -> None:
    """Reply to orders until there are no more; a host stays open while its number is asked for."""
    loop = asyncio.get_running_loop()
    subject: Subject | None = None
    workflows = 0
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        if subject is None or order.get("callers", 1) != workflows:
            if subject is not None:
                await subject.close()
            workflows = order.get("callers", 1)
            subject = await open_subject(Path(), language, workflows)
        reply: object
        if "times" in order:
            reply = await subject.latencies_ms(order["times"])
        else:
            reply = asdict(await subject.run(max(1, order["count"] // workflows)))
        print(json.dumps(reply), flush=True)
    if subject is not None:
        await subject.close()


def main() -> None:
    """Serve orders for the language that was named."""
    with counting_syncs():
        asyncio.run(serve(sys.argv[1]))


if __name__ == "__main__":
    main()
