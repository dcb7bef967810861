"""What does a host cost that has nothing to do? Memory and processor time, with its page.

    python -m bench.idle               # about a minute
    python -m bench.idle --seconds 300

`duly serve` serves a project with one workflow that has worked once, and the page listens. After
`SETTLE_S` the processor time of all its processes is added up over the seconds that follow.
*memory* is their share of pages (PSS): a page that several processes use is counted once.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

DULY = (sys.executable, "-m", "duly")
WAIT_S = 120.0  # until the workflow has worked
SETTLE_S = 10.0
GOAL_MB = 120
TICKS = os.sysconf("SC_CLK_TCK")
FLOW = """
from duly import workflow

flow = workflow("idle", topics=["seen"])


@flow.producer(every="7d")
async def look(ctx, state):
    await ctx.publish("seen", message_id="1", title=f"Note {1}: looked once", payload={})


@flow.consumer("seen")
class note:
    async def prepare(self, ctx, state):
        seen = await ctx.peek("seen")
        return {"reservations": [{"topic": "seen", "ids": [each["message_id"] for each in seen]}]}
"""


def members(session: int) -> list[Path]:
    """List the processes of a session in /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                found.append(entry)
    return found


def memory_mb(processes: Sequence[Path]) -> float:
    """Add up their shares of pages."""
    lines = [
        line
        for each in processes
        for line in (each / "smaps_rollup").read_text().splitlines()
        if line.startswith("Pss:")
    ]
    return sum(int(line.split()[1]) for line in lines) * 1024 / 1e6


def processor_s(processes: Sequence[Path]) -> float:
    """Add up their processor time, with that of the children that have ended."""
    total = 0
    for each in processes:
        fields = (each / "stat").read_text().rpartition(")")[2].split()
        total += sum(int(ticks) for ticks in fields[11:15])
    return total / TICKS


def until_worked(home: Path, host: subprocess.Popen[bytes]) -> None:
    """Wait until the workflow has worked once, so that what it needs has been started."""
    until = time.monotonic() + WAIT_S
    words = [*DULY, "deploy", "idle.py", "--grant"]
    while not any(home.glob("*.socket")):
        if time.monotonic() > until or host.poll() is not None:
            raise SystemExit("The host of the bench did not come up.")
        time.sleep(0.2)
    subprocess.run(words, cwd=home, check=True, capture_output=True)
    asked = [*DULY, "events", "idle", "--status", "consumed", "--json"]
    while b"Note 1" not in subprocess.run(asked, cwd=home, check=True, capture_output=True).stdout:
        if time.monotonic() > until:
            raise SystemExit("The workflow of the bench did not work.")
        time.sleep(0.5)


def main() -> None:
    """Measure one idle host and print what it costs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as name:
        home = Path(name) / "project"
        subprocess.run([*DULY, "init", str(home)], check=True, capture_output=True)
        (home / "idle.py").write_text(FLOW)
        words = [*DULY, "serve", "--page-port", "0"]
        quiet = subprocess.DEVNULL
        host = subprocess.Popen(words, cwd=home, stdout=quiet, stderr=quiet, start_new_session=True)
        try:
            until_worked(home, host)
            time.sleep(SETTLE_S)
            there = members(host.pid)
            before = processor_s(there)
            time.sleep(seconds)
            used_s = processor_s(there) - before
            print(f"processes   {len(there)}")
            print(f"memory      {memory_mb(there):.0f} MB (goal {GOAL_MB})")
            print(f"processor   {100 * used_s / seconds:.2f} % of one, over {seconds:.0f} s")
        finally:
            host.terminate()
            host.wait(WAIT_S)


if __name__ == "__main__":
    main()
