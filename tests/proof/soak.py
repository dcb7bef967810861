"""A host at work for long, under faults, killed every minute; the outside counts.

    python -m tests.proof.soak --minutes 60 --rate 50 --kill-every 60 --seed 1

Law 1  Real parts: `duly serve` in its own process, a SQLite file, scripts in the sandbox, and an
       outside in this process, which no kill reaches. It counts what really happened.
Law 2  An event is sent until the host acknowledges it. From then on it must be one effect.
Law 3  Three things are judged: made twice, lost, stuck. Memory is reported: that of the host and of
       what it started, right before each kill, so that the first and the last life can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from duly.api.session import Remote
from duly.errors import DulyError
from tests.engine.crash_window.script import INBOX, source
from tests.house import ROOT

FLOWS: Final = (
    *((f"asked-{number}", "asked", "javascript") for number in range(4)),
    *((f"asked-py-{number}", "asked", "python") for number in range(2)),
    *((f"keyed-{number}", "keyed", "javascript") for number in range(4)),
)
FAULTS: Final = {"plain": 970, "lost": 10, "cut": 10, "slow": 10}  # of a thousand calls
SLOW_S: Final = 0.2
PUBLISHERS: Final = 5
START_S: Final = 120.0
REST_S: Final = 60.0  # without any effect for so long, what is missing is stuck
LOOK_S: Final = 0.2
KIB: Final = 1024
ENDED: Final = ("applied", "failed", "skipped", "rejected")
PROJECT: Final = """
[connectors.book]
use = "tests.fire.connector:Book"
port = {port}

[policy.retries]
first_s = 0.1
longest_s = 1
attempts = 1000

[policy.reconcile]
first_s = 0.1
longest_s = 1
attempts = 1000
"""


RATE_SHARE_MIN: Final = 0.95  # of the inputs that were to be published
MEMORY_GROWTH_MAX: Final = 1.10  # of the memory at the beginning


@dataclass(slots=True)
class SoakReport:
    """What was done, and what the outside counted."""

    seconds: float = 0.0
    minutes: float = 0.0  # of publishing and killing
    published: int = 0
    effects: int = 0
    kills: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    twice: int = 0
    lost: int = 0
    stuck: int = 0
    memory_first_mib: float = 0.0
    memory_last_mib: float = 0.0
    memory_most_mib: float = 0.0

    wanted: int = 0  # to be published in the time that was given

    @property
    def is_safe(self) -> bool:
        """Tell whether nothing was made twice, lost or stuck."""
        return self.twice == self.lost == self.stuck == 0

    @property
    def is_right(self) -> bool:
        """Tell whether it is safe, kept its pace, and its memory did not grow."""
        kept_pace = self.published >= RATE_SHARE_MIN * self.wanted
        is_flat = self.memory_last_mib <= MEMORY_GROWTH_MAX * self.memory_first_mib
        return self.is_safe and kept_pace and is_flat


class CountingOutside:
    """What there is beyond the host: it does what it is asked, and sometimes says nothing."""

    def __init__(self, seed: int) -> None:
        self.rows: Counter[str] = Counter()
        self.drawn: Counter[str] = Counter()
        self.is_calm = False
        self._keys: dict[str, int] = {}
        self._dice = random.Random(seed)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one caller; `lost` and `cut` hang up without an answer."""
        with suppress(OSError, asyncio.CancelledError):
            if line := await reader.readline():
                answer = await self._answer(json.loads(line))
                if answer is not None:
                    writer.write(json.dumps(answer).encode() + b"\n")
                    await writer.drain()
        writer.close()

    async def _answer(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        key = asked["key"]
        if asked["do"] == "find":
            return {"line": self._keys.get(key)}
        fault = "plain" if self.is_calm else self._draw()
        self.drawn[fault] += 1
        if fault == "cut":
            return None
        if fault == "slow":
            await asyncio.sleep(SLOW_S)
        if time.monotonic_ns() // 1_000_000 > asked["until_ms"]:
            return {"line": None}
        if not (asked["once"] and key in self._keys):
            self.rows[asked["row"]] += 1
            self._keys.setdefault(key, len(self._keys) + 1)
        return None if fault == "lost" else {"line": self._keys[key]}

    def _draw(self) -> str:
        return self._dice.choices(list(FAULTS), list(FAULTS.values()))[0]


class Soak:
    """One soak over one store."""

    def __init__(self, folder: Path, *, rate: float, kill_every_s: float, seed: int) -> None:
        self._folder = folder
        self._rate = rate
        self._kill_every_s = kill_every_s
        self._outside = CountingOutside(seed)
        self._process: subprocess.Popen[bytes] | None = None
        self._acknowledged: set[str] = set()
        self._memory_mib: list[float] = []
        self._until_s = 0.0
        self.report = SoakReport()

    async def run(self, seconds: float) -> SoakReport:
        """Publish and kill for so long, let it come to rest, and count."""
        begun_s = time.monotonic()
        self.report.wanted, self.report.minutes = round(self._rate * seconds), seconds / 60
        server = await asyncio.start_server(self._outside.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        (self._folder / "duly.toml").write_text(PROJECT.format(port=port))
        try:
            self._start()
            await self._deploy()
            self._until_s = time.monotonic() + seconds
            work = [self._publish(each) for each in range(PUBLISHERS)]
            await asyncio.gather(*work, self._kill())
            self._outside.is_calm = True
            await self._rest()
            await self._count()
        finally:
            self._end()
            server.close()
        self.report.seconds = time.monotonic() - begun_s
        return self.report

    def _start(self) -> None:
        words = [sys.executable, "-m", "duly", "--project", str(self._folder), "serve", "--no-page"]
        environ = {key: each for key, each in os.environ.items() if not key.startswith("DULY_")}
        with (self._folder / "host.log").open("ab") as log:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    async def _reach(self) -> Remote:
        """Speak to the host as soon as it answers."""
        end_s = time.monotonic() + START_S
        while True:
            with suppress(DulyError, OSError):
                remote = await Remote.reach(self._folder / "duly.db.socket")
                if remote is not None:
                    return remote
            assert time.monotonic() < end_s, f"no host answers: {self._log()}"
            await asyncio.sleep(LOOK_S)

    def _log(self) -> str:
        return (self._folder / "host.log").read_text(errors="replace")[-3000:]

    async def _deploy(self) -> None:
        remote = await self._reach()
        for name, tool, language in FLOWS:
            made: dict[str, Any] = asdict(source(language, name=name, tool=tool))
            made.pop("hash", None)
            await remote.call("deploy", source=made, grant=True)
        await remote.close()

    async def _publish(self, publisher: int) -> None:
        """Publish at an even pace; what was not acknowledged is published again (law 2)."""
        every_s, number = PUBLISHERS / self._rate, 0
        remote = await self._reach()
        due_s = time.monotonic()
        while (now_s := time.monotonic()) < self._until_s:
            if now_s < due_s:
                await asyncio.sleep(due_s - now_s)
            due_s += every_s
            number += 1
            row = f"{publisher}.{number}"
            flow = FLOWS[(number * PUBLISHERS + publisher) % len(FLOWS)][0]
            while row not in self._acknowledged:
                try:
                    await remote.call(
                        "publish", workflow=flow, topic=INBOX, title=f"Mail {row}", message_id=row
                    )
                    self._acknowledged.add(row)
                except (DulyError, OSError):
                    await remote.close()
                    remote = await self._reach()
        await remote.close()

    async def _kill(self) -> None:
        while True:
            left_s = self._until_s - time.monotonic()
            await asyncio.sleep(max(0.0, min(self._kill_every_s, left_s)))
            assert self._process is not None
            assert self._process.poll() is None, f"the host ended by itself: {self._log()}"
            self._memory_mib.append(memory_mib(self._process.pid))
            if left_s <= self._kill_every_s:
                return
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self.report.kills += 1
            self._start()

    async def _rest(self) -> None:
        """Wait until each event is an effect, or nothing has happened for long."""
        seen, since_s = -1, time.monotonic()
        while len(self._outside.rows) < len(self._acknowledged):
            if self._outside.rows.total() != seen:
                seen, since_s = self._outside.rows.total(), time.monotonic()
            if time.monotonic() - since_s > REST_S:
                return
            await asyncio.sleep(LOOK_S)

    async def _count(self) -> None:
        """Compare what was acknowledged with the outside; then ask the host what is open."""
        rows, report = self._outside.rows, self.report
        report.published, report.effects = len(self._acknowledged), rows.total()
        report.faults = {name: self._outside.drawn[name] for name in FAULTS if name != "plain"}
        report.twice = sum(each - 1 for each in rows.values())
        missing = len(self._acknowledged - rows.keys())
        remote = await self._reach()
        end_s = time.monotonic() + REST_S
        report.stuck = await self._open(remote)
        while report.stuck and time.monotonic() < end_s:
            await asyncio.sleep(LOOK_S)
            report.stuck = await self._open(remote)
        await remote.close()
        # What the host still holds open is stuck; what is in neither place is lost.
        report.lost = max(0, missing - report.stuck)
        memory = self._memory_mib
        report.memory_first_mib, report.memory_last_mib = memory[0], memory[-1]
        report.memory_most_mib = max(memory)

    async def _open(self, remote: Remote) -> int:
        flows: Any = await remote.call("workflows", limit=100)
        waiting = sum(each["count"] for flow in flows for each in flow["pending"])
        asked: Any = await remote.call("attention", limit=100)
        return int(waiting) + len(asked)


def memory_mib(process: int) -> float:
    """Add up the memory of a process and of those that it started, in their own pages."""
    total_kib = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            session = (entry / "stat").read_text().rpartition(")")[2].split()[3]
            if int(session) == process:
                lines = (entry / "smaps_rollup").read_text().splitlines()
                total_kib += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return round(total_kib / KIB, 1)


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--kill-every", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        soak = Soak(Path(name), rate=wanted.rate, kill_every_s=wanted.kill_every, seed=wanted.seed)
        report = asyncio.run(soak.run(wanted.minutes * 60))
    print(json.dumps(asdict(report)))
    return 0 if report.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
