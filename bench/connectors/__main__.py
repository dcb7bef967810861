"""Measure what connectors cost, and print two tables."""

from __future__ import annotations

import argparse
import asyncio

from bench.connectors import mailbox, web
from bench.report import Surroundings

MIB = 1024 * 1024
BESIDE = {
    "duly http, a mutation": "httpx2, a connection each, POST",
    "duly http, a read": "httpx2, a connection each, GET",
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.connectors", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny: does it run at all?")
    is_quick = parser.parse_args().quick
    around = Surroundings()
    costs = asyncio.run(web.measure(*((1, 5) if is_quick else (15, 100))))
    print("\nOne call over HTTP              wall ms   CPU ms   × httpx2 wall   × httpx2 CPU")
    for name, cost in costs.items():
        line = f"{name:32}{cost.wall_ms:7.2f}{cost.cpu_ms:9.2f}"
        if name in BESIDE:
            bare = costs[BESIDE[name]]
            line += f"{cost.wall_ms / bare.wall_ms:15.2f}{cost.cpu_ms / bare.cpu_ms:15.2f}"
        print(line)
    print("\nMails read by a host                seconds   CPU s   idle MiB   highest MiB")
    total, wanted = (300, 100) if is_quick else (100_000, 1_000)
    for name, found in mailbox.measure(total, wanted):
        idle, highest = found["idle_bytes"] / MIB, found["host_bytes"] / MIB
        print(f"{name:36}{found['seconds']:7.1f}{found['cpu_s']:8.1f}{idle:11.0f}{highest:14.0f}")
    print(f"\n{around.conditions(1)}")


if __name__ == "__main__":
    main()
