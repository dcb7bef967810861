"""What a question costs over a large store: `python -m bench.views`.

The store (`--workflows`, `--inputs`) is filled with rows as a host leaves them: every input was
consumed by a run that made one change and published one event, which was consumed in its turn; one
input in twenty is still pending. For each question the table shows its statements, the processor
time of this process, the wall time, and how long a publish had to wait at most while the question
was asked again and again.

Figures, no gates: the test counts statements instead (`tests/desk/test_statements.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import apsw

import duly
from duly.rules.source import Language

SOURCE = """
export default Keep.workflow({
  name: "flow",
  topics: { mail: { ingress: true }, row: {}, note: { ingress: true } },
  producers: { poll: { schedule: { interval: "1d" }, async handler() {} } },
  consumers: {
    file: Keep.consumer({ subscribe: ["mail"], async prepare() { return { reservations: [] }; } }),
    tell: Keep.consumer({ subscribe: ["row"], async prepare() { return { reservations: [] }; } }),
  },
});
"""
ROUNDS = 3
PENDING_EVERY = 20
FILL = (Path(__file__).parent / "views.sql").read_text(encoding="utf-8")

Ask = Callable[[duly.Host], Awaitable[Any]]
LAST = "flow-00001"
QUESTIONS: dict[str, Ask] = {
    "workflow": lambda host: host.workflow(LAST),
    "workflows, a page of 100": lambda host: host.workflows(),
    "attention": lambda host: host.attention(),
    "inputs, a page of 100": lambda host: host.inputs(LAST),
    "inputs that were skipped (none)": lambda host: host.inputs(LAST, status="skipped"),
    "outputs, a page of 100": lambda host: host.outputs(LAST),
    "events, a page of 100": lambda host: host.events(LAST),
    "runs, a page of 100": lambda host: host.runs(),
    "mutations, a page of 100": lambda host: host.mutations(),
    "find, in titles": lambda host: host.find("Mail 77"),
    "why": lambda host: host.why(LAST),
}


async def fill(path: Path, workflows: int, inputs: int) -> None:
    """Deploy one workflow, and put copies of it and their history beside it."""
    async with duly.Host(f"sqlite:///{path}") as host:
        await host.deploy(duly.Source(Language.JAVASCRIPT, SOURCE), by="bench")
    connection = apsw.Connection(str(path))
    connection.execute("begin")
    for table in ("workflow", "version", "handler", "topic"):
        columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
        key = "id" if table == "workflow" else "workflow_id"
        (rows,) = (connection.execute(f"select * from {table}").fetchall(),)
        for number in range(workflows):
            name = f"flow-{number:05}"
            for row in rows:
                copy = dict(zip(columns, row, strict=True)) | {key: name}
                if table == "workflow":
                    copy |= {"name": name, "counter": 2 * inputs + 2000}
                if table == "handler":
                    copy |= {"next_run_at": None, "seen": 2 * inputs + 2000, "untried": 0}
                marks = ", ".join("?" for _ in copy)
                text = f"insert into {table} ({', '.join(copy)}) values ({marks})"
                connection.execute(text, tuple(copy.values()))
    connection.execute("create temp table made (x integer, w text, seq integer, at integer, waits)")
    given = {
        "workflows": workflows,
        "inputs": inputs,
        "now": int(time.time() * 1000),
        "pending_every": PENDING_EVERY,
    }
    for text in FILL.strip().split(";\n\n"):
        connection.execute(text, {k: v for k, v in given.items() if f":{k}" in text})
    connection.execute("commit")
    connection.close()


async def write(host: duly.Host, waits_ms: list[float]) -> None:
    """Publish again and again, and note how long each publish took."""
    number = 0
    while True:
        number += 1
        begun_s = time.perf_counter()
        await host.publish("flow", "note", message_id=str(number), title="A note")
        waits_ms.append((time.perf_counter() - begun_s) * 1000)
        await asyncio.sleep(0.002)


async def count_statements(host: duly.Host, ask: Ask) -> int:
    """Count the statements of one question."""
    backend: Any = host._desk().parts.store.backend
    plain, counted = backend.ask, [0]

    class Counted:
        def __init__(self, tx: Any) -> None:
            self._tx = tx

        def __getattr__(self, name: str) -> Any:
            counted[0] += name in ("all", "one", "run")
            return getattr(self._tx, name)

    backend.ask = lambda body: plain(lambda tx: body(Counted(tx)))
    try:
        await ask(host)
    finally:
        backend.ask = plain
    return counted[0]


async def measure(path: Path) -> None:
    """Ask every question, alone and beside a writer, and print a table."""
    async with duly.Host(f"sqlite:///{path}") as host:
        print("| question | statements | CPU ms | wall ms | a publish waits at most, ms |")
        print("|---|---|---|---|---|")
        for name, ask in QUESTIONS.items():
            statements = await count_statements(host, ask)
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            for _ in range(ROUNDS):
                await ask(host)
            cpu_ms = (time.process_time() - cpu_s) * 1000 / ROUNDS
            wall_ms = (time.perf_counter() - wall_s) * 1000 / ROUNDS
            waits_ms: list[float] = []
            writing = asyncio.create_task(write(host, waits_ms))
            for _ in range(ROUNDS):
                await ask(host)
            writing.cancel()
            longest = max(waits_ms, default=0.0)
            print(f"| {name} | {statements} | {cpu_ms:,.1f} | {wall_ms:,.1f} | {longest:,.1f} |")


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill a store and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workflows", type=int, default=200)
    parser.add_argument("--inputs", type=int, default=100_000)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "views.db"
        begun_s = time.perf_counter()
        asyncio.run(fill(path, given.workflows, given.inputs))
        size_mib = path.stat().st_size / 2**20
        print(
            f"{given.workflows:,} workflows, {given.inputs:,} inputs: {size_mib:,.0f} MiB, "
            f"filled in {time.perf_counter() - begun_s:.1f} s\n"
        )
        asyncio.run(measure(path))


if __name__ == "__main__":
    main()
