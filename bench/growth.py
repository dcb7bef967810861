"""How much a script makes its host grow, and how long it stops it: `python -m bench.growth`.

Each case is one run of one script in a process of its own, so that the peak is its own. While
it runs, a task notes the longest time in which the event loop did not turn, and another one
publishes into a second workflow and notes how long it had to wait for the writer at most.

Figures, no gates: the tests count bytes and results instead (`tests/engine/test_waiting.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duly
from duly.rules.source import Language

MIB = 1024 * 1024
PAUSE_S = 0.005
LARGE = "x" * 200_000
SIDE = """
export default Keep.workflow({
  name: "side",
  topics: { note: { ingress: true } },
  producers: { rest: { schedule: { interval: "1d" }, async handler() {} } },
});
"""
JAVASCRIPT = """
export default Keep.workflow({
  name: "grow",
  topics: { in: { ingress: true }, out: {} },
  PRODUCERS
  consumers: { take: Keep.consumer({ subscribe: ["in"], async prepare(ctx) { BODY } }) },
});
"""
JAVASCRIPT_PRODUCER = """
  producers: { make: { schedule: { interval: "1h" }, async handler(ctx) { BODY } } },
"""
PYTHON = """
import asyncio
from duly import workflow
flow = workflow("grow", topics={"in": {"ingress": True}, "out": {}})
PRODUCERS

@flow.consumer("in")
class take:
    async def prepare(self, ctx, state):
        BODY
"""
PYTHON_PRODUCER = """
@flow.producer(every="1h")
async def make(ctx, state):
    BODY
"""


@dataclass(frozen=True, slots=True)
class Case:
    """What a script does: so many events before, and its one step in both languages."""

    javascript: str
    python: str
    events: int = 1
    is_producer: bool = False


NONE_JS = "return { reservations: [] };"
NONE_PY = 'return {"reservations": []}'
MANY_JS = "Promise.all(Array.from({length: COUNT}, (_, n) => CALL))"
MANY_PY = "asyncio.gather(*[CALL for n in range(COUNT)])"


def looking(count: int, javascript: str, python: str, events: int = 1) -> Case:
    """Make a case of a prepare that makes so many calls at once, and reserves nothing."""
    many = MANY_JS.replace("COUNT", str(count)).replace("CALL", f"{javascript}.then(() => 0)")
    same = MANY_PY.replace("COUNT", str(count)).replace("CALL", python)
    return Case(f"await {many}; {NONE_JS}", f"await {same}; {NONE_PY}", events)


def publishing(count: int, javascript: str, python: str) -> Case:
    """Make a case of a producer that publishes so many events at once."""
    call = 'ctx.publish("out", {messageId: n, title: `N ${n}`, payload: PAYLOAD})'
    many = MANY_JS.replace("CALL", call).replace("PAYLOAD", javascript)
    call = 'ctx.publish("out", message_id=n, title=f"N {n}", payload=PAYLOAD)'
    same = MANY_PY.replace("CALL", call).replace("PAYLOAD", python)
    many, same = (f"await {each}".replace("COUNT", str(count)) for each in (many, same))
    return Case(many, same, is_producer=True)


def reserving(count: int) -> Case:
    """Make a case of a prepare that reserves so many events that do not exist."""
    return Case(
        "return { reservations: [{ topic: 'in', ids: "
        f"Array.from({{length: {count}}}, (_, n) => `x${{n}}`) }}] }};",
        f'ids = [f"x{{n}}" for n in range({count})]; '
        'return {"reservations": [{"topic": "in", "ids": ids}]}',
    )


def ids(count: int) -> tuple[str, str]:
    """Spell the ids of the first events in both languages."""
    return (
        f"Array.from({{length: {count}}}, (_, n) => `${{n}}`)",
        f"[str(n) for n in range({count})]",
    )


def getting(count: int, at_once: int) -> Case:
    """Make a case of a prepare that asks for so many events by their ids."""
    javascript, python = ids(count)
    calls = f'ctx.getByIds("in", {javascript})', f'ctx.get_by_ids("in", {python})'
    return looking(at_once, *calls, events=count)


CASES: dict[str, Case] = {
    "400 gathered peeks of 4 MB": looking(400, 'ctx.peek("in")', 'ctx.peek("in")', events=20),
    "400 gathered getByIds of 4 MB": getting(20, 400),
    "one getByIds of 600 events of 200 kB": getting(600, 1),
    "one peek of 1000 over 600 events of 200 kB": looking(
        1, 'ctx.peek("in", {limit: 1000})', 'ctx.peek("in", limit=1000)', events=600
    ),
    "200 gathered reads of 4 MiB": looking(200, "ctx.tape.play({})", "ctx.tape.play()"),
    "one read of a million small values": looking(1, "ctx.tape.count({})", "ctx.tape.count()"),
    "a reservation of 400,000 unknown ids": reserving(400_000),
    "a reservation of 10,000 unknown ids": reserving(10_000),
    "data of 300,000 small values": Case(
        "return { reservations: [], data: Array(300000).fill(0) };",
        'return {"reservations": [], "data": [0] * 300000}',
    ),
    "3 publishes of 120,000 small values": publishing(3, "Array(120000).fill(0)", "[0] * 120000"),
    "1000 publishes of 16 kB": publishing(1000, '"x".repeat(16000)', '"x" * 16000'),
    "a read with 200,000 small values as argument": looking(
        1, "ctx.tape.hear({what: Array(200000).fill(0)})", "ctx.tape.hear(what=[0] * 200000)"
    ),
}


class Tape(duly.Connector):
    """Returns as much as a tool may."""

    name = "tape"

    @duly.read
    async def play(self) -> str:
        """Return a text just below the limit."""
        return "x" * (4 * MIB - 100)

    @duly.read
    async def count(self) -> list[int]:
        """Return a million small values."""
        return [0] * 1_000_000

    @duly.read
    async def hear(self, what: list[int]) -> int:
        """Return how many values came."""
        return len(what)


class Watch:
    """Notes how long the loop stood still, and how long a writer waited."""

    def __init__(self, host: duly.Host) -> None:
        self._host = host
        self.gap_s = 0.0
        self.wait_s = 0.0

    async def tick(self) -> None:
        """Look at the clock again and again."""
        last_s = time.perf_counter()
        while True:
            await asyncio.sleep(PAUSE_S)
            now_s = time.perf_counter()
            self.gap_s, last_s = max(self.gap_s, now_s - last_s - PAUSE_S), now_s

    async def write(self) -> None:
        """Publish into another workflow again and again."""
        number = 0
        while True:
            number += 1
            begun_s = time.perf_counter()
            await self._host.publish("side", "note", message_id=str(number), title="A note")
            self.wait_s = max(self.wait_s, time.perf_counter() - begun_s)
            await asyncio.sleep(PAUSE_S)


def source_of(case: Case, language: str) -> tuple[Language, str]:
    """Write the script of a case."""
    body, whole, maker, idle, kind = (
        (case.javascript, JAVASCRIPT, JAVASCRIPT_PRODUCER, NONE_JS, Language.JAVASCRIPT)
        if language == "JavaScript"
        else (case.python, PYTHON, PYTHON_PRODUCER, NONE_PY, Language.PYTHON)
    )
    produced = maker.replace("BODY", body) if case.is_producer else ""
    looked = idle if case.is_producer else body
    return kind, whole.replace("BODY", looked).replace("PRODUCERS", produced)


def memory_kib(word: str) -> int:
    """Ask the kernel what this process holds, or held at most."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(f"{word}:"):
            return int(line.split()[1])
    raise AssertionError(word)


def forget_peak() -> None:
    """Let the kernel count the peak from here, where it can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


async def measure(folder: Path, case: Case, language: str) -> dict[str, Any]:
    """Let one script run in a host, and return what it cost."""
    kind, text = source_of(case, language)
    host = duly.Host(f"sqlite:///{folder / 'grow.db'}", connectors=[Tape()])
    async with host:
        await host.deploy(duly.Source(Language.JAVASCRIPT, SIDE), by="bench")
        await host.drain()
        await host.deploy(duly.Source(kind, text), by="bench", grant=True)
        for number in range(case.events):
            await host.publish(
                "grow", "in", message_id=str(number), title=f"Event {number}", payload=LARGE
            )
        watch = Watch(host)
        tasks = [asyncio.create_task(watch.tick()), asyncio.create_task(watch.write())]
        await asyncio.sleep(0.1)
        forget_peak()
        before_kib = memory_kib("VmRSS")
        watch.gap_s = watch.wait_s = 0.0
        begun_s = time.perf_counter()
        await host.drain()
        took_s = time.perf_counter() - begun_s
        grown_kib = memory_kib("VmHWM") - before_kib
        for task in tasks:
            task.cancel()
        handler = "make" if case.is_producer else "take"
        runs = [run for run in await host.runs("grow", limit=50) if run.handler == handler]
        return {
            "grown_mib": grown_kib / 1024,
            "gap_ms": watch.gap_s * 1000,
            "wait_ms": watch.wait_s * 1000,
            "took_s": took_s,
            "ended": str(runs[0].status) if runs else "no run",
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every case in both languages and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", help="one case, in this process, as JSON")
    parser.add_argument("--language", choices=("JavaScript", "Python"))
    parser.add_argument("--only", default="", help="cases whose name holds this")
    given = parser.parse_args(arguments)
    if given.case:
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measure(Path(folder), CASES[given.case], given.language))
        print(json.dumps(found))
        return
    print("| one run | language | grows by | loop stands | a writer waits | takes | ends |")
    print("|---|---|---|---|---|---|---|")
    for name in (each for each in CASES if given.only in each):
        for language in (given.language,) if given.language else ("JavaScript", "Python"):
            command = [sys.executable, "-m", "bench.growth", "--case", name, "--language", language]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"| {name} | {language} | {done.stderr.strip().splitlines()[-1]} |")
                continue
            found = json.loads(done.stdout)
            cells = (
                name,
                language,
                f"{found['grown_mib']:,.0f} MiB",
                f"{found['gap_ms']:,.0f} ms",
                f"{found['wait_ms']:,.0f} ms",
                f"{found['took_s']:.1f} s",
                found["ended"],
            )
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
