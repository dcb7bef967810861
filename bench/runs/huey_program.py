"""The peer's side: huey on SQLite, its consumer in the same process, as its guide starts it.

It reads one order per line and replies with one line of JSON. By default huey does not wait for the
disk; with `fsync` it does, which is what a run or an emit of ours is to be compared with. A run is
a pipeline of three tasks that do what the subject's three steps do; so many workers work off a
backlog of them. huey deletes a task before it runs it: what a crash interrupts is lost.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from huey import SqliteHuey  # type: ignore[import-not-found]

TEXT = "x" * 1000
REST_S = 0.5
DONE_S = 120.0


class Queue:
    """A queue on a file of its own, with a task that does nothing and a run of three tasks."""

    def __init__(self, name: str, *, fsync: bool) -> None:
        self.huey = SqliteHuey(filename=f"huey-{name}.db", fsync=fsync)
        self.begun_at_s = 0.0
        self._missing = 0
        self._lock = threading.Lock()
        self._is_done = threading.Event()
        task = self.huey.task()

        @task  # type: ignore[untyped-decorator]
        def hear(text: str) -> None:
            self.begun_at_s = time.perf_counter()
            self._count()

        @task  # type: ignore[untyped-decorator]
        def prepare(number: int) -> dict[str, Any]:
            return {"number": number, "text": TEXT}

        @task  # type: ignore[untyped-decorator]
        def mutate(number: int, text: str) -> dict[str, Any]:
            return {"number": number, "text": text, "row": number}

        @task  # type: ignore[untyped-decorator]
        def tell(number: int, text: str, row: int) -> dict[str, Any]:
            self._count()
            return {"number": number, "text": text, "row": row}

        self.hear = hear
        self.run = lambda number: self.huey.enqueue(prepare.s(number).then(mutate).then(tell))

    def enqueue(self, seconds: float) -> dict[str, float]:
        """Enqueue for a while, one after the other; the backlog is then thrown away."""
        cpu_s, began_s, count = time.process_time(), time.perf_counter(), 0
        while not count or time.perf_counter() - began_s < seconds:
            self.hear(TEXT)
            count += 1
        found = measured(count, began_s, cpu_s)
        self.huey.flush()
        return found

    def work(self, enqueue: Callable[[int], object], count: int, workers: int) -> dict[str, float]:
        """Work off a backlog with so many workers."""
        self.huey.flush()
        for number in range(count):
            enqueue(number)
        self._expect(count)
        consumer = self.huey.create_consumer(workers=workers, periodic=False)
        cpu_s, began_s = time.process_time(), time.perf_counter()
        consumer.start()
        if not self._is_done.wait(DONE_S):
            raise TimeoutError(f"{self._missing} of {count} tasks were not done")
        found = measured(count, began_s, cpu_s)
        consumer.stop(graceful=True)
        return found

    def latencies_ms(self, times: int) -> list[float]:
        """Measure how long an idle consumer takes to begin a task."""
        self.huey.flush()
        consumer = self.huey.create_consumer(workers=1, periodic=False)
        consumer.start()
        found = []
        for _ in range(times):
            time.sleep(REST_S)
            self._expect(1)
            asked_at_s = time.perf_counter()
            self.hear(TEXT)
            if not self._is_done.wait(DONE_S):
                raise TimeoutError("the task was not done")
            found.append((self.begun_at_s - asked_at_s) * 1000)
        consumer.stop(graceful=True)
        return found

    def _expect(self, count: int) -> None:
        self._missing = count
        self._is_done.clear()

    def _count(self) -> None:
        with self._lock:
            self._missing -= 1
            if self._missing == 0:
                self._is_done.set()


def measured(count: int, began_s: float, cpu_s: float) -> dict[str, float]:
    """Return what a slice did and cost."""
    wall_s = time.perf_counter() - began_s
    return {"count": count, "wall_s": wall_s, "cpu_s": time.process_time() - cpu_s}


def main() -> None:
    """Reply to orders until there are no more."""
    logging.disable()  # huey writes a line for each task
    queues = {
        fsync: Queue(name, fsync=fsync) for name, fsync in (("plain", False), ("fsync", True))
    }
    for line in sys.stdin:
        order = json.loads(line)
        queue = queues[order.get("fsync", True)]
        reply: object
        if "times" in order:
            reply = queue.latencies_ms(order["times"])
        elif order["work"] == "enqueue":
            reply = queue.enqueue(order["seconds"])
        elif order["work"] == "deliver":
            reply = queue.work(lambda _: queue.hear(TEXT), order["count"], 1)  # noqa: B023
        else:
            reply = queue.work(queue.run, order["count"], order["callers"])
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
