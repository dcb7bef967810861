"""One host of the fleet: it works between `go` and `rest`, and writes a dot for every change."""

from __future__ import annotations

import asyncio
import os
import sys

import duly
from bench.runs.duly_program import Desk

DOT, RESTED = b".", b"r"


class Telling(Desk):
    """The outside, which tells the bench of every change."""

    @duly.mutation(risk="low")
    async def file(self, call: duly.Call, id: str, text: str) -> dict[str, int]:  # noqa: A002
        """Make the change."""
        os.write(1, DOT)
        return {"row": 1}


async def work(url: str) -> None:
    """Follow the orders of the bench until there are no more."""
    loop = asyncio.get_running_loop()
    host = duly.Host(url, connectors=[Telling()])
    await host.open()
    os.write(1, RESTED)
    while await loop.run_in_executor(None, sys.stdin.readline):  # go
        async with host.running():
            await loop.run_in_executor(None, sys.stdin.readline)  # rest
        os.write(1, RESTED)
    await host.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
