"""Programs with a bus that are killed where the parent says: `python -m tests.bus.crash.process`.

Law: a life says nothing but by its exit status and by one file per subscriber, to which a handler
appends the event's id when it has succeeded. What was written there is there, whatever becomes of
the process. Lives are forked from a process that has imported everything and opened nothing.

    {"folder": "…", "verb": "finish_delivery", "moment": "after", "count": 2}
    {"folder": "…", "handler": "first", "event": 2, "moment": "after"}
    {"folder": "…", "neighbours": 20, "together": true}
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from duly.host import Host
from duly.rules.delivery import Event, Retry

SUBSCRIBERS: Final = ("first", "second")
ATTEMPTS = 3
EVENTS: Final = 4


def die() -> None:
    """End as nobody can prevent."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(host: Host, orders: dict[str, Any]) -> None:
    """Die before or after the so many-th call of a verb of the store."""
    if "verb" not in orders:
        return
    store = host._desk().parts.store
    working = getattr(store, orders["verb"])
    calls = 0

    async def deadly(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        is_now = calls == orders.get("count", 1)
        if is_now and orders["moment"] == "before":
            die()
        answer = await working(*args, **kwargs)
        if is_now:
            die()
        return answer

    setattr(store, orders["verb"], deadly)


def handler(name: str, orders: dict[str, Any]) -> Callable[[Event], Awaitable[None]]:
    """Write down every success; die in it where the orders say."""
    path = Path(orders["folder"]) / name

    async def handle(event: Event) -> None:
        is_here = (orders.get("handler"), orders.get("event")) == (name, event.id)
        if is_here and orders["moment"] == "before":
            die()
        with path.open("a") as file:
            file.write(f"{event.id}\n")
        if is_here:
            die()

    return handle


async def live(orders: dict[str, Any]) -> None:
    """Subscribe, emit and defer if nobody has, and deliver."""
    async with Host(f"sqlite:///{orders['folder']}/duly.db") as host:
        kill_at(host, orders)
        for name in SUBSCRIBERS:
            host.bus.subscribe(
                "mail", handler(name, orders), subscriber_id=name, retry=Retry(ATTEMPTS, (0,))
            )
        if not await host.bus.journal():
            for number in range(EVENTS - 1):
                await host.bus.emit("mail", {"number": number}, source="test")
        await host.drain()
        # Recovery is over: what is overdue from now on is promoted.
        if not await host.bus.deferred() and not await host.bus.deferred(status="fired"):
            await host.bus.schedule_at(0, "mail", {}, source="test")
        await host.drain()


async def live_together(orders: dict[str, Any]) -> None:
    """Deliver one event to each of many topics; the handler of the last one kills the process.

    *Together* it does so when all of them run, and none of them ends before.
    """
    count, folder = orders["neighbours"], Path(orders["folder"])
    running: set[str] = set()
    everybody = asyncio.Event()

    async def hear(event: Event) -> None:
        running.add(event.topic)
        if len(running) > count:
            everybody.set()
        if orders["together"]:
            await everybody.wait()
        if event.topic == f"t{count}":
            die()
        if orders["together"]:
            await asyncio.Event().wait()
        with (folder / event.topic).open("a") as file:
            file.write(f"{event.id}\n")

    async with Host(f"sqlite:///{folder}/duly.db") as host:
        topics = [f"t{number}" for number in range(count + 1)]
        once = Retry(1, ())
        for topic in topics:
            host.bus.subscribe(topic, hear, subscriber_id=topic, retry=once)
        if not await host.bus.journal():
            for topic in topics:
                await host.bus.emit(topic, {}, source="test")
        await host.drain()


def main() -> None:
    """Fork a life for every line of orders, and answer how it ended."""
    for line in sys.stdin:
        life = os.fork()
        if not life:
            orders = json.loads(line)
            asyncio.run(live_together(orders) if "neighbours" in orders else live(orders))
            os._exit(0)
        _, status = os.waitpid(life, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
