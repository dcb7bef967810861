"""What a look at the page costs: `python -m bench.look`.

A store is filled as in `bench.views`, `duly serve` is started on it as a person would, and pages
are asked for over HTTP, one after the other: the wall time as a viewer feels it, and the processor
time of the host and of its page, which is what is compared between a small store and a large one.
Then a viewer follows a page and something is published; the time until the viewer is told is taken,
once alone and once while four other pages are followed too.
At last events are published while nobody looks and while `--viewers` do, in turn, a few times each,
so that a machine that does other work disturbs both alike; what they cost is compared.

Figures, no gates: a machine that does other work shows other wall times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import choice
from statistics import median

from bench.views import LAST, fill

PAGES = (
    *("/", f"/w/{LAST}", f"/w/{LAST}/outputs", f"/w/{LAST}/runs", f"/w/{LAST}/setup"),
    *("/find?text=Mail%2077", "/actions", "/bus", "/runs/run_000000001", "/m/mutation_000000001"),
)
# Followed at once; the second one is where a change is looked for.
FOLLOWED = ("/", "/w/work", "/w/work/outputs", "/w/work/runs", f"/w/{LAST}")
ROUNDS = 9
CHANGES = 9
EVENTS = 600  # of one turn: what pages saved up in a quiet time is spent once in it
TURNS = 4  # of work that nobody looks at, and of work that many look at
TOKENS = 6
STARTED_S_MAX = 120.0
MOST_S = 1200.0  # for all of it: what takes longer hangs
TICKS = os.sysconf("SC_CLK_TCK")
DULY = (sys.executable, "-m", "duly")
WORK = """
from duly import workflow

flow = workflow("work", topics={"in": {"ingress": True}})


@flow.consumer("in")
class take:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("in", limit=1)
        ids = [each["message_id"] for each in pending]
        return {"reservations": [{"topic": "in", "ids": ids}], "data": {}}
"""


@dataclass(frozen=True, slots=True)
class Served:
    """A host that serves, where its page is, and tokens: one has so many streams at most."""

    port: int
    tokens: list[str]
    host: int
    page: int

    def cpu_s(self) -> tuple[float, float]:
        """Return the processor time of the host and of its page so far."""
        return _cpu_s(self.host), _cpu_s(self.page)

    async def ask(self, path: str, body: object = None, **headers: str) -> tuple[int, bytes]:
        """Send one request on a connection of its own and read its answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(self._head(path, body, headers))
        answer = await reader.read()
        writer.close()
        head, _, rest = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), rest

    async def act(self, verb: str, **args: object) -> None:
        """Call a verb over HTTP."""
        status, answer = await self.ask(f"/api/v1/{verb}", args)
        assert status == 200, answer

    @asynccontextmanager
    async def follow(self, path: str, number: int = 0) -> AsyncIterator[asyncio.StreamReader]:
        """Look at a page as a browser does that follows it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        token = self.tokens[number % len(self.tokens)]
        asked = {"Accept": "text/event-stream", "Authorization": f"Bearer {token}"}
        writer.write(self._head(path, None, asked))
        try:
            yield reader
        finally:
            writer.close()

    def _head(self, path: str, body: object, headers: dict[str, str]) -> bytes:
        sent = b"" if body is None else json.dumps(body).encode()
        lines = {
            "Host": f"127.0.0.1:{self.port}",
            # One or the other: a caller has so many requests a second at most.
            "Authorization": f"Bearer {choice(self.tokens)}",
            "Accept": "text/html",
            "Connection": "close",
            **headers,
        }
        if body is not None:
            lines |= {"Content-Type": "application/json", "Content-Length": str(len(sent))}
        method = "GET" if body is None else "POST"
        told = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{method} {path} HTTP/1.1\r\n{told}\r\n".encode() + sent


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Served]:
    """Serve a project as a person does, and end it afterwards."""
    process = _start(folder)
    try:
        begun_s = time.monotonic()
        while (found := re.search(r"Page http://[^:]+:(\d+)", _read(folder))) is None:
            assert process.poll() is None
            assert time.monotonic() - begun_s < STARTED_S_MAX
            await asyncio.sleep(0.1)
        tokens = [_make_token(folder, number) for number in range(TOKENS)]
        served = Served(int(found[1]), tokens, process.pid, 0)
        status, _ = await served.ask("/healthz")  # it is kept waiting until the page is there
        assert status == 200
        yield replace(served, page=_find_page(process.pid))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _start(folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "said").open("w") as said:
        words = (*DULY, "serve", "--page-port", "0")
        return subprocess.Popen(words, cwd=folder, stderr=said, start_new_session=True)


def _deploy(folder: Path) -> None:
    subprocess.run((*DULY, "deploy"), cwd=folder, check=True, capture_output=True)


def _make_token(folder: Path, number: int) -> str:
    words = (*DULY, "token", "new", f"bench {number}", "--scope", "admin", "--json")
    made = subprocess.run(words, cwd=folder, capture_output=True, check=True)
    return str(json.loads(made.stdout)["token"])


def _read(folder: Path) -> str:
    return (folder / "said").read_text(encoding="utf-8")


def _find_page(host: int) -> int:
    """Find the process of the page among the children of a host."""
    children = Path(f"/proc/{host}/task/{host}/children").read_text().split()
    return next(
        int(each)
        for each in children
        if b"duly.faces.web.process" in Path(f"/proc/{each}/cmdline").read_bytes()
    )


async def look(served: Served) -> dict[str, tuple[float, float]]:
    """Ask for each page a few times; return its wall time and its processor time in ms."""
    found = {}
    for path in PAGES:
        walls_ms, before = [], sum(served.cpu_s())
        for _ in range(ROUNDS):
            begun_s = time.perf_counter()
            status, answer = await served.ask(path)
            walls_ms.append((time.perf_counter() - begun_s) * 1000)
            assert status == 200, (path, answer[:500])
        found[path] = (median(walls_ms), (sum(served.cpu_s()) - before) * 1000 / ROUNDS)
    return found


async def see_changes(served: Served, name: str, others: Sequence[str] = ()) -> list[float]:
    """Follow a page while something is published; return how long each change took to be seen."""
    seen_ms = []
    beside = [asyncio.ensure_future(_watch(served, path, at)) for at, path in enumerate(others, 1)]
    async with served.follow("/w/work") as reader:
        await _next(reader)
        for number in range(CHANGES):
            await asyncio.sleep(0.7)
            title = f"{name} {number}"
            args = {"workflow": "work", "topic": "in", "title": title, "message_id": title}
            await served.act("publish", **args)
            begun_s = time.perf_counter()
            while title.encode() not in await _next(reader):
                pass
            seen_ms.append((time.perf_counter() - begun_s) * 1000)
    assert not any(each.done() for each in beside)
    for each in beside:
        each.cancel()
    await asyncio.gather(*beside, return_exceptions=True)
    return seen_ms


async def _next(reader: asyncio.StreamReader) -> bytes:
    while not (line := await reader.readline()).startswith(b"data: "):
        assert line, "the stream ended"
    return line


async def work(served: Served, name: str) -> tuple[float, float, float]:
    """Publish events and wait for their runs; return runs a second, and ms of CPU of each."""
    host_s, page_s = served.cpu_s()
    begun_s = time.perf_counter()
    for number in range(EVENTS):
        title = f"{name} {number}"
        args = {"workflow": "work", "topic": "in", "title": title, "message_id": title}
        await served.act("publish", **args)
    while True:
        _, answer = await served.ask("/api/v1/events?workflow=work&status=pending&limit=1")
        if json.loads(answer) == []:
            break
        await asyncio.sleep(0.05)
    rate = EVENTS / (time.perf_counter() - begun_s)
    after = served.cpu_s()
    return rate, (after[0] - host_s) * 1000 / EVENTS, (after[1] - page_s) * 1000 / EVENTS


async def _watch(served: Served, path: str, number: int) -> None:
    async with served.follow(path, number) as reader:
        while await reader.read(2**16):
            pass


async def measure_crowd(served: Served, viewers: int) -> None:
    """Compare work that nobody looks at with work that many look at."""
    await work(served, "Warm")
    alone, seen = [], []
    for turn in range(TURNS):
        alone.append(await work(served, f"Alone {turn}"))
        watching = [
            asyncio.ensure_future(_watch(served, FOLLOWED[at % len(FOLLOWED)], at))
            for at in range(viewers)
        ]
        await asyncio.sleep(2)
        assert not any(each.done() for each in watching)
        seen.append(await work(served, f"Seen {turn}"))
        for each in watching:
            each.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        await asyncio.sleep(1)
    # A machine that does other work has few runs a second, so that what viewers cost is much for
    # each of them. By the second it does not depend on that.
    print(f"\n| {EVENTS * TURNS} runs | runs a second | CPU ms a run: host | page ", end="")
    print("| CPU ms a second: host | page |\n|---|---|---|---|---|---|")
    told = [[median(column) for column in zip(*rows, strict=True)] for rows in (alone, seen)]
    for name, (rate, host_ms, page_ms) in zip(
        ("nobody looks", f"{viewers} look"), told, strict=True
    ):
        print(f"| {name} | {rate:.1f} | {host_ms:.2f} | {page_ms:.2f} ", end="")
        print(f"| {rate * host_ms:.0f} | {rate * page_ms:.0f} |")
    print(f"\nRuns a second with viewers: {told[1][0] / told[0][0]:.2f} of those without; ", end="")
    print(f"CPU of host and page a run: {sum(told[1][1:]) / sum(told[0][1:]):.2f} times")
    print(", ".join(f"{each[0] / alone[at][0]:.2f}" for at, each in enumerate(seen)), "in turn")


async def measure(given: argparse.Namespace) -> None:
    """Measure stores of every size that was asked for."""
    found: dict[int, dict[str, tuple[float, float]]] = {}
    for events in given.events:
        with tempfile.TemporaryDirectory(dir=given.folder) as kept:
            folder = Path(kept)
            (folder / "duly.toml").write_text('url = "sqlite:///duly.db"\nworkflows = "."\n')
            (folder / "work.py").write_text(WORK)
            begun_s = time.perf_counter()
            await fill(folder / "duly.db", given.workflows, events // 2)
            print(f"{events:,} events and {events // 2:,} runs, ", end="")
            print(f"filled in {time.perf_counter() - begun_s:.0f} s", flush=True)
            _deploy(folder)
            async with serving(folder) as served:
                await look(served)
                found[events] = await look(served)
                if events == given.events[-1]:
                    others = [each for each in FOLLOWED if each != "/w/work"]
                    seen_ms = await see_changes(served, "Alone seen")
                    beside_ms = await see_changes(served, "Seen beside", others)
                    await measure_crowd(served, given.viewers)
                    print("A change is seen after it was answered:")
                    for pages, times in ((1, seen_ms), (len(FOLLOWED), beside_ms)):
                        told = f"median {median(times):.0f} ms, longest {max(times):.0f} ms"
                        print(f"with {pages} page(s) followed: {told}")
    heads = [f"{events:,}: wall ms | CPU ms" for events in found]
    print(f"\n| page | {' | '.join(heads)} |")
    print(f"|---|{'---|' * 2 * len(found)}")
    for path in PAGES:
        cells = [f"{each[path][0]:.0f} | {each[path][1]:.0f}" for each in found.values()]
        print(f"| `{path}` | {' | '.join(cells)} |")
    print(f"\nLoad of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill stores and look at them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[1000, 100_000, 1_000_000])
    parser.add_argument("--workflows", type=int, default=20)
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--folder", type=Path, help="which disk to use")
    asyncio.run(asyncio.wait_for(measure(parser.parse_args(arguments)), MOST_S))


if __name__ == "__main__":
    main()
