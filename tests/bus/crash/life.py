"""A process with a bus that its parent kills: `python -m tests.bus.crash.life FOLDER`.

Each handler appends a line when it begins and when it ends; what was written stays.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from duly.host import Host
from duly.rules.delivery import Event, Retry

TOPICS: Final = 3
SUBSCRIBERS: Final = 2  # of each topic
EVENTS: Final = 60


async def live(folder: str) -> None:
    """Subscribe, emit once, and deliver until killed or done."""
    log = os.open(f"{folder}/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def hearer(name: str) -> Callable[[Event], Awaitable[None]]:
        async def hear(event: Event) -> None:
            os.write(log, f"{os.getpid()} begin {name} {event.id}\n".encode())
            await asyncio.sleep(0.001 * (event.id % 4))
            failed = Path(folder) / f"failed-{name}-{event.id}"
            if event.payload["number"] % 7 == 3 and event.id % 2 and not failed.exists():
                failed.touch()
                os.write(log, f"{os.getpid()} fail {name} {event.id}\n".encode())
                raise ValueError("once")
            os.write(log, f"{os.getpid()} end {name} {event.id}\n".encode())

        return hear

    async with Host(f"sqlite:///{folder}/duly.db") as host:
        for topic in range(TOPICS):
            for number in range(SUBSCRIBERS):
                name = f"t{topic}s{number}"
                host.bus.subscribe(
                    f"t{topic}", hearer(name), subscriber_id=name, retry=Retry(3, (0.0,))
                )
        if not await host.bus.journal():
            for number in range(EVENTS):
                await host.bus.emit(f"t{number % TOPICS}", {"number": number}, source="test")
        os.write(log, f"{os.getpid()} ready\n".encode())
        await host.drain()
        while any(
            str(each.status) in ("waiting", "running")
            for each in await host.bus.deliveries(limit=1000)
        ):
            await host.drain()
        os.write(log, f"{os.getpid()} over\n".encode())


if __name__ == "__main__":
    asyncio.run(live(sys.argv[1]))
