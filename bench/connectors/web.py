"""A call of a web service: the `http` connector beside bare httpx2, on the same loopback server.

Law: both open a connection for each call, as every mutation must (K2), and read the same answer.
httpx2 with connections that it keeps is shown beside. All take their turn in every round.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

import httpx2

from duly.connectors.base import Call
from duly.connectors.http import Http

HOST = "127.0.0.1"
SERVER = """
import asyncio

BODY = b'{"id": 1, "item": "tea"}'
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n"

async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            for line in head.lower().split(b"\\r\\n"):
                if line.startswith(b"content-length:"):
                    await reader.readexactly(int(line.partition(b":")[2]))
            writer.write(HEAD % len(BODY) + BODY)
            await writer.drain()
            if b"connection: close" in head.lower():
                break
    except (OSError, EOFError):
        pass
    writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""
OPERATIONS: dict[str, Any] = {
    "list_orders": {"method": "GET", "path": "/orders"},
    "create_order": {
        "method": "POST",
        "path": "/orders",
        "arguments": {"item": "string"},
        "key": {"header": "Idempotency-Key"},
    },
}


@dataclass(frozen=True, slots=True)
class Cost:
    """One call: how long, and how much processor time of this process."""

    wall_ms: float
    cpu_ms: float


@contextmanager
def serving() -> Iterator[int]:
    """Run the server in a process of its own; return its port."""
    words = [sys.executable, "-c", SERVER]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


async def slice_of(work: Callable[[int], Awaitable[Any]], count: int) -> Cost:
    """Do it so many times, one after the other."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    for number in range(count):
        await work(number)
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    return Cost(wall_s / count * 1000, cpu_s / count * 1000)


async def measure(rounds: int, count: int) -> dict[str, Cost]:
    """Return the median cost of each kind of call."""
    with serving() as port:
        url = f"http://{HOST}:{port}"
        duly: Any = Http(url, operations=OPERATIONS, allow=[HOST])
        context = httpx2.create_ssl_context() if hasattr(httpx2, "create_ssl_context") else True

        async def bare(_: int) -> Any:
            async with httpx2.AsyncClient(verify=context, trust_env=False) as client:
                return (await client.post(f"{url}/orders", json={"item": "tea"})).json()

        async def bare_read(_: int) -> Any:
            async with httpx2.AsyncClient(verify=context, trust_env=False) as client:
                return (await client.get(f"{url}/orders")).json()

        async def change(number: int) -> Any:
            now = datetime.now(UTC)
            call = Call("shop.create_order", {"item": "tea"}, f"k{number}", "w", 1, now)
            return await duly.create_order(call, item="tea")

        async def read(_: int) -> Any:
            return await duly.list_orders()

        async with httpx2.AsyncClient(trust_env=False) as kept:

            async def reuse(_: int) -> Any:
                return (await kept.post(f"{url}/orders", json={"item": "tea"})).json()

            trials = {
                "httpx2, a connection each, POST": bare,
                "duly http, a mutation": change,
                "httpx2, a connection each, GET": bare_read,
                "duly http, a read": read,
                "httpx2, one connection for all": reuse,
            }
            found: dict[str, list[Cost]] = {name: [] for name in trials}
            for work in trials.values():
                await slice_of(work, 5)
            for _ in range(rounds):
                for name, work in trials.items():
                    found[name].append(await slice_of(work, count))
    return {
        name: Cost(median(e.wall_ms for e in costs), median(e.cpu_ms for e in costs))
        for name, costs in found.items()
    }
