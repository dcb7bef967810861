"""The peer's side: huey on SQLite, its consumer in the same process, as its guide starts it.

Called with rounds and seconds it prints one JSON list. By default huey does not wait for the disk;
with `fsync=True` it does, which is what an emit of ours is to be compared with.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from huey import SqliteHuey  # type: ignore[import-not-found]

TEXT = "x" * 1000
BACKLOG = 300
REST_S = 0.5
DONE_S = 120.0
begun_at_s = 0.0
done = 0


def build(name: str, *, fsync: bool) -> tuple[Any, Any]:
    """Open a queue on a file of its own, and a task that does nothing."""
    Path(f"{name}.db").unlink(missing_ok=True)
    huey = SqliteHuey(filename=f"{name}.db", fsync=fsync)

    @huey.task()  # type: ignore[untyped-decorator]
    def hear(text: str) -> None:
        global begun_at_s, done
        begun_at_s = time.perf_counter()
        done += 1

    return huey, hear


def enqueue_per_s(hear: Any, seconds: float) -> float:
    """Enqueue for a while, one after the other."""
    count, start_s = 0, time.perf_counter()
    while not count or time.perf_counter() - start_s < seconds:
        hear(TEXT)
        count += 1
    return count / (time.perf_counter() - start_s)


def work_per_s(huey: Any, hear: Any) -> float:
    """Work off a backlog with one worker."""
    huey.flush()
    for _ in range(BACKLOG):
        hear(TEXT)
    before, start_s = done, time.perf_counter()
    consumer = huey.create_consumer(workers=1, periodic=False)
    consumer.start()
    while done - before < BACKLOG and time.perf_counter() - start_s < DONE_S:
        time.sleep(0.005)
    worked_s = time.perf_counter() - start_s
    consumer.stop(graceful=True)
    return (done - before) / worked_s


def latency_ms(huey: Any, hear: Any, times: int) -> float:
    """Tell how long an idle consumer takes to begin a task."""
    huey.flush()
    consumer = huey.create_consumer(workers=1, periodic=False)
    consumer.start()
    found = []
    for _ in range(times):
        time.sleep(REST_S)
        before, asked_at_s = done, time.perf_counter()
        hear(TEXT)
        while done == before:
            time.sleep(0.0005)
        found.append((begun_at_s - asked_at_s) * 1000)
    consumer.stop(graceful=True)
    return median(found)


def main() -> None:
    """Measure both ways of waiting for the disk."""
    rounds, seconds = int(sys.argv[1]), float(sys.argv[2])
    rows = []
    for name, fsync in (("defaults", False), ("fsync", True)):
        huey, hear = build(name, fsync=fsync)
        enqueued = median(enqueue_per_s(hear, seconds) for _ in range(rounds))
        rows += [
            {"name": f"enqueue, 1 caller, {name}", "value": enqueued, "unit": "per second"},
            {
                "name": f"work, 1 worker, {name}",
                "value": work_per_s(huey, hear),
                "unit": "per second",
            },
            {"name": f"idle, {name}", "value": latency_ms(huey, hear, rounds * 2), "unit": "ms"},
        ]
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
