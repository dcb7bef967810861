"""Real hosts on one server, killed, stopped and cut off, while an outside counts what reaches it.

Law 1  The verdict never depends on how fast the machine is: the storm ends, the hosts are left in
       peace, and then every note has been posted once.
Law 2  What was done to the hosts is counted and printed: a storm in which nothing happened proves
       nothing.

    python -m tests.postgres.storm --seconds 600 --hosts 4 --workflows 20
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg

from duly.errors import DulyError
from duly.host import Host
from tests.postgres import server as servers
from tests.postgres.proxy import Proxy, proxied
from tests.postgres.service import CONNECTOR, Counting, serve
from tests.postgres.stand import KEY, Outside, deploy

LEASE_S: Final = 3.0
CALM_S: Final = 300.0  # how long the hosts may take to finish in peace; only what hangs takes it
SETTINGS: Final = """
url = "{url}"

[fleet]
lease_s = {lease_s}

[policy.retries]
first_s = 0.2
longest_s = 1
attempts = 1000

[policy.reconcile]
first_s = 0.2
longest_s = 1
attempts = 1000

[connectors.outside]
use = "outside_count:Outside"
"""


@dataclass
class Member:
    """One place in the fleet, with one process after the other in it."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    is_stopped: bool = False

    def start(self) -> None:
        """Start a host."""
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "duly", "serve"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "DULY_KEY": KEY},
        )
        log.close()

    def tell(self, what: signal.Signals) -> None:
        """Send a signal to the host alone."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            self.process.send_signal(what)

    def end(self) -> None:
        """Kill what is left of the host and its workers, by the number of its session."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def log(self) -> str:
        """What its hosts have said."""
        return (self.folder / "log").read_text(errors="replace")


@dataclass
class Storm:
    """A fleet in a storm."""

    base: Path
    url: str
    proxy: Proxy
    counting: Counting
    database: str
    chance: random.Random
    workflows: int
    members: list[Member] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    published: list[str] = field(default_factory=list)
    server: Path | None = None  # the folder of a server that the storm may restart

    def raise_fleet(self, hosts: int) -> None:
        """Make a project for every host, and start them."""
        for number in range(hosts):
            folder = self.base / f"host{number}"
            folder.mkdir()
            text = SETTINGS.format(url=self.proxy.address(self.database), lease_s=LEASE_S)
            (folder / "duly.toml").write_text(text)
            (folder / "outside_count.py").write_text(CONNECTOR)
            member = Member(folder)
            member.start()
            self.members.append(member)

    async def blow(self, host: Host, seconds: float) -> None:
        """Publish notes, and let something befall the hosts again and again."""
        ends_s = time.monotonic() + seconds
        next_s = time.monotonic()
        befall = [self._kill, self._pause, self._cut, self._close]
        if self.server is not None:
            befall.append(self._restart_server)
        while time.monotonic() < ends_s or not befall_all(self.faults):
            await self._publish(host)
            if time.monotonic() >= next_s:
                fault = befall[self.faults.total() % len(befall)]
                await fault(self.chance.choice(self.members))
                next_s = time.monotonic() + self.chance.uniform(0.2, LEASE_S)
            await asyncio.sleep(0.02)
            self._restart()

    async def _publish(self, host: Host) -> None:
        number = len(self.published)
        flow, note = f"flow{number % self.workflows}", f"note{number}"
        with suppress(DulyError):
            await host.publish(flow, "note", title=note, message_id=note)
            self.published.append(note)

    async def _kill(self, member: Member) -> None:
        self.faults["killed"] += 1
        member.end()
        member.start()

    async def _pause(self, member: Member) -> None:
        """Stop a host for longer than its lease, and let it go on."""
        self.faults["stopped"] += 1
        member.tell(signal.SIGSTOP)
        await asyncio.sleep(LEASE_S * self.chance.uniform(1.2, 2.2))
        member.tell(signal.SIGCONT)

    async def _cut(self, member: Member) -> None:
        self.faults["cut"] += 1
        self.proxy.hang_up()

    async def _close(self, member: Member) -> None:
        self.faults["closed"] += 1
        member.tell(signal.SIGTERM)

    async def _restart_server(self, member: Member) -> None:
        """Let the server die without an orderly end, and start it again."""
        assert self.server is not None
        self.faults["server restarted"] += 1
        servers.stop(self.server, "immediate")
        await asyncio.sleep(self.chance.uniform(0, LEASE_S))
        servers.start(self.server)

    def _restart(self) -> None:
        for member in self.members:
            assert member.process is not None
            if member.process.poll() is not None:
                self.faults["restarted"] += 1
                member.start()

    async def calm(self) -> None:
        """Leave the hosts in peace until every note is done."""
        ends_s = time.monotonic() + CALM_S
        while self._open_notes():
            self._restart()
            if time.monotonic() > ends_s:
                logs = "\n".join(
                    f"--- {each.folder.name}\n{each.log[-3000:]}" for each in self.members
                )
                raise AssertionError(
                    f"{self._open_notes()} notes are stuck\n{self._state()}\n{logs}"
                )
            await asyncio.sleep(0.2)

    def _open_notes(self) -> int:
        with psycopg.connect(self.url) as connection:
            found = connection.execute("select count(*) from event where status <> 'consumed'")
            ((count,),) = found.fetchall()
            return int(count)

    def _state(self) -> str:
        asked = (
            "select id, holder, epoch, paused from workflow",
            "select * from host",
            "select workflow_id, phase, status, error_class, epoch from run where open = 1",
            "select status, count(*) from mutation group by status",
        )
        with psycopg.connect(self.url) as connection:
            return "\n".join(str(connection.execute(each).fetchall()) for each in asked)

    def judge(self) -> str:
        """Compare what was published with what reached the outside."""
        posts = self.counting.posts
        twice = {note: count for note, count in posts.items() if count > 1}
        lost = set(self.published) - set(posts)
        assert not twice, f"posted more than once: {twice}"
        assert not lost, f"never posted: {sorted(lost)[:20]}"
        assert set(posts) <= set(self.published), "posted and never published"
        told = ", ".join(f"{count} {what}" for what, count in sorted(self.faults.items()))
        return f"{len(self.published)} notes, each posted once; hosts: {told}"


def befall_all(faults: Counter[str]) -> bool:
    """Tell whether each kind of fault has happened."""
    return all(faults[each] for each in ("killed", "stopped", "cut", "closed"))


@contextmanager
def stormy(base: Path, folder: Path, database: str, workflows: int, seed: int) -> Iterator[Storm]:
    """Make ready for a storm, and end every process afterwards."""
    counting = Counting()
    outside = serve(counting)
    (base / "port").write_text(str(outside.server_address[1]))
    url = servers.address(folder, database)
    with proxied(folder) as proxy:
        storm = Storm(base, url, proxy, counting, database, random.Random(seed), workflows)
        try:
            yield storm
        finally:
            for member in storm.members:
                member.end()
            outside.shutdown()
            outside.server_close()


async def run(storm: Storm, hosts: int, seconds: float) -> str:
    """Let a storm pass over a fleet; return what happened."""
    async with Host(storm.url, connectors=[Outside()]) as host:
        for number in range(storm.workflows):
            await deploy(host, f"flow{number}")
        storm.raise_fleet(hosts)
        await storm.blow(host, seconds)
        await storm.calm()
    return storm.judge()


def main() -> None:
    """Run a storm on a server of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--workflows", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ["DULY_KEY"] = KEY
    folder = Path(tempfile.mkdtemp(prefix="duly-storm-"))
    folder.chmod(0o755)
    with servers.server(folder / "server"):
        base = folder / "fleet"
        base.mkdir()
        with stormy(base, folder / "server", "postgres", given.workflows, given.seed) as storm:
            storm.server = folder / "server"
            print(asyncio.run(run(storm, given.hosts, given.seconds)))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
