"""The peer's side: DBOS with its defaults, in a process and an environment of its own.

It reads one order per line, `{"callers": 10, "seconds": 1}` or `{"times": 30}`, and replies with
one line of JSON. A run is a workflow of three steps that do what the subject's three steps do; its
functions run inside the peer's own process, without a sandbox. With an address of a PostgreSQL as
argument it keeps its rows there.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

from dbos import DBOS  # type: ignore[import-not-found]

TEXT = "x" * 1000
REST_S = 0.05
NUMBERS = count()
begun_at_s = 0.0


@DBOS.step()  # type: ignore[untyped-decorator]
def prepare(number: int) -> dict[str, Any]:
    return {"id": number, "text": TEXT}


@DBOS.step()  # type: ignore[untyped-decorator]
def mutate(prepared: dict[str, Any]) -> dict[str, Any]:
    return {"row": prepared["id"]}


@DBOS.step()  # type: ignore[untyped-decorator]
def tell(prepared: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    return {"id": prepared["id"], "text": prepared["text"], "row": result["row"]}


@DBOS.workflow()  # type: ignore[untyped-decorator]
def file(number: int) -> None:
    global begun_at_s
    begun_at_s = time.perf_counter()
    prepared = prepare(number)
    tell(prepared, mutate(prepared))


@DBOS.step()  # type: ignore[untyped-decorator]
async def prepare_async(number: int) -> dict[str, Any]:
    return {"id": number, "text": TEXT}


@DBOS.step()  # type: ignore[untyped-decorator]
async def mutate_async(prepared: dict[str, Any]) -> dict[str, Any]:
    return {"row": prepared["id"]}


@DBOS.step()  # type: ignore[untyped-decorator]
async def tell_async(prepared: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    return {"id": prepared["id"], "text": prepared["text"], "row": result["row"]}


@DBOS.workflow()  # type: ignore[untyped-decorator]
async def file_async(number: int) -> None:
    prepared = await prepare_async(number)
    await tell_async(prepared, await mutate_async(prepared))


def run_in_threads(callers: int, ends_at_s: float) -> int:
    """Let so many threads make runs, one after the other each."""

    def call(_: int) -> int:
        done = 0
        while not done or time.perf_counter() < ends_at_s:
            file(next(NUMBERS))
            done += 1
        return done

    with ThreadPoolExecutor(callers) as threads:
        return sum(threads.map(call, range(callers)))


async def run_in_tasks(callers: int, ends_at_s: float) -> int:
    """Let so many tasks make runs, one after the other each."""

    async def call() -> int:
        done = 0
        while not done or time.perf_counter() < ends_at_s:
            await file_async(next(NUMBERS))
            done += 1
        return done

    return sum(await asyncio.gather(*(call() for _ in range(callers))))


def measure(
    runner: asyncio.Runner, callers: int, seconds: float, *, is_async: bool
) -> dict[str, float]:
    """Make runs for a while, in threads or in tasks."""
    cpu_s, began_s = time.process_time(), time.perf_counter()
    if is_async:
        done = runner.run(run_in_tasks(callers, began_s + seconds))
    else:
        done = run_in_threads(callers, began_s + seconds)
    wall_s = time.perf_counter() - began_s
    return {"count": done, "wall_s": wall_s, "cpu_s": time.process_time() - cpu_s}


def latencies_ms(times: int) -> list[float]:
    """Measure how long an idle peer takes from starting a workflow to its first line."""
    found = []
    for _ in range(times):
        time.sleep(REST_S)
        started_s = time.perf_counter()
        DBOS.start_workflow(file, next(NUMBERS)).get_result()
        found.append((begun_at_s - started_s) * 1000)
    return found


def main() -> None:
    """Reply to orders until there are no more."""
    replies, sys.stdout = sys.stdout, sys.stderr  # what the peer itself prints is no reply
    where = {"system_database_url": sys.argv[1]} if len(sys.argv) > 1 else {}
    DBOS(config={"name": "bench", **where})
    DBOS.launch()
    with asyncio.Runner() as runner:  # the peer stays with the loop it first met
        for line in sys.stdin:
            order = json.loads(line)
            if "times" in order:
                reply: Any = latencies_ms(order["times"])
            else:
                reply = measure(
                    runner, order["callers"], order["seconds"], is_async=order["is_async"]
                )
            print(json.dumps(reply), file=replies, flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    main()
