"""The peer's side: procrastinate with its defaults; a run is one job that takes no time.

It reads one order per line, `{"defer": 400}` or `{"callers": 10}`, and replies with one line of
JSON. A job has no steps: it is less than what a run of Duly or DBOS keeps.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import procrastinate  # type: ignore[import-not-found]

TEXT = "x" * 1000
done = 0


async def serve(url: str) -> None:
    """Reply to orders until there are no more."""
    loop = asyncio.get_running_loop()
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="file")  # type: ignore[untyped-decorator]
    async def file(number: int, text: str) -> None:
        global done
        done += 1

    async with app.open_async():
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(await obey(app, file, json.loads(line))), flush=True)


async def obey(app: Any, file: Any, order: dict[str, int]) -> object:
    """Carry out one order."""
    if "apply" in order:
        await app.schema_manager.apply_schema_async()
        return None
    if "defer" in order:
        many = [{"number": number, "text": TEXT} for number in range(order["defer"])]
        await file.batch_defer_async(*many)
        return None
    before, cpu_s, began_s = done, time.process_time(), time.perf_counter()
    await app.run_worker_async(
        concurrency=order["callers"], wait=False, install_signal_handlers=False
    )
    wall_s = time.perf_counter() - began_s
    return {"count": done - before, "wall_s": wall_s, "cpu_s": time.process_time() - cpu_s}


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
