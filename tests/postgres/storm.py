"""Real hosts on one server, killed, stopped and cut off, while an outside counts what reaches it.

Law 1  The verdict never depends on how fast the machine is: the storm ends, the hosts are left in
       peace, and then every note has been posted once, by one committed run.
Law 2  What was done to the hosts is counted and printed: a storm in which nothing happened proves
       nothing.
Law 3  Every host has two subscribers of the bus (`tests/postgres/storm_bus.py`).
Law 4  A standby that is promoted was waited for. So a person may resume what is paused for it, and
       the storm does. It also retries what waits for a person after three crashes in a row (R7).

    python -m tests.postgres.storm                       10 minutes, and until 10,000 runs
    python -m tests.postgres.storm --minutes 2 --runs 0  two minutes, however many they are
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg

from duly.errors import DulyError
from duly.host import Host
from duly.rules.standing import Code
from tests.postgres import server as servers
from tests.postgres.proxy import Proxy, proxied
from tests.postgres.service import CONNECTOR, Counting, serve
from tests.postgres.stand import KEY, Outside, deploy
from tests.postgres.storm_bus import TOPIC, Ticking, install
from tests.postgres.succession import Succession

LEASE_S: Final = 3.0
CALM_S: Final = 600.0  # how long the hosts may take to finish in peace; only what hangs takes it
BACKLOG_MAX: Final = 400  # notes that are published and not posted yet
SETTINGS: Final = """
url = "{url}"
extensions = "extensions"

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
    proxy: Proxy
    process: subprocess.Popen[bytes] | None = None

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
    succession: Succession
    counting: Counting
    chance: random.Random
    workflows: int
    line: Proxy  # of the host that publishes; nothing befalls it
    members: list[Member] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    published: list[str] = field(default_factory=list)
    resumed: int = 0
    retried: int = 0

    def __post_init__(self) -> None:
        self.ticking = Ticking(self.counting.told)

    def raise_fleet(self, hosts: int) -> None:
        """Make a project for every host, each with a line of its own, and start them."""
        for number in range(hosts):
            folder = self.base / f"host{number}"
            folder.mkdir()
            proxy = Proxy(self.succession.primary)
            text = SETTINGS.format(url=proxy.address(), lease_s=LEASE_S)
            (folder / "duly.toml").write_text(text)
            (folder / "outside_count.py").write_text(CONNECTOR)
            install(folder)
            member = Member(folder, proxy)
            member.start()
            self.members.append(member)

    async def blow(self, host: Host, seconds: float, runs: int) -> None:
        """Let something befall the hosts again and again, while notes are published."""
        ends_s = time.monotonic() + seconds
        befall = {
            "killed": self._kill,
            "stopped": self._pause,
            "cut off": self._cut,
            "silenced": self._silence,
            "closed": self._close,
            "server restarted": self._restart_server,
            "standby promoted": self._promote,
        }
        order = list(befall)
        works = (self._publish(host), self._mind(host), self.ticking.emit(host))
        tasks = [asyncio.create_task(each) for each in works]
        try:
            number = 0
            while (
                time.monotonic() < ends_s or number < len(order) or len(self.counting.posts) < runs
            ):
                if number % len(order) == 0:
                    self.chance.shuffle(order)
                what = order[number % len(order)]
                await befall[what](self.chance.choice(self.members))
                self.faults[what] += 1
                number += 1
                await asyncio.sleep(self.chance.uniform(0.2, LEASE_S))
                for task in tasks:
                    if task.done():
                        task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _publish(self, host: Host) -> None:
        while True:
            number = len(self.published)
            if number - len(self.counting.posts) >= BACKLOG_MAX:
                await asyncio.sleep(0.1)
                continue
            flow, note = f"flow{number % self.workflows}", f"note{number}"
            try:
                await host.publish(flow, "note", title=note, message_id=note)
            except DulyError:
                await asyncio.sleep(0.1)
            else:
                self.published.append(note)
                await asyncio.sleep(0)

    async def _mind(self, host: Host) -> None:
        """Start hosts that have ended, and resume what was paused, as a person does."""
        while True:
            await asyncio.sleep(0.3)
            self._restart()
            await self._resume(host)

    async def _resume(self, host: Host) -> None:
        with suppress(DulyError):
            for each in await host.workflows():
                if each.paused:
                    await host.resume(each.name)
                    self.resumed += 1
            await host.bus.resume()
            await self.ticking.mind(host)
            for entry in await host.attention():
                if entry.reason.code == Code.CRASHED_TOO_OFTEN:  # its hosts died again and again
                    (retry,) = (each for each in entry.offers if each.verb == "retry")
                    await host.retry(**retry.args)
                    self.retried += 1

    # -- What befalls them ----------------------------------------------------------------------

    async def _kill(self, member: Member) -> None:
        member.end()
        member.start()

    async def _pause(self, member: Member) -> None:
        """Stop a host for longer than its lease, and let it go on."""
        member.tell(signal.SIGSTOP)
        await asyncio.sleep(LEASE_S * self.chance.uniform(1.2, 2.2))
        member.tell(signal.SIGCONT)

    async def _cut(self, member: Member) -> None:
        """End every connection of a host at once."""
        member.proxy.hang_up()

    async def _silence(self, member: Member) -> None:
        """Let nothing pass between a host and the server, for less than a lease or for more."""
        member.proxy.silence()
        await asyncio.sleep(LEASE_S * self.chance.uniform(0.3, 2))
        member.proxy.speak()

    async def _close(self, member: Member) -> None:
        member.tell(signal.SIGTERM)

    async def _restart_server(self, member: Member) -> None:
        await self.succession.restart(self.chance.uniform(0, LEASE_S))

    async def _promote(self, member: Member) -> None:
        primary = await self.succession.fail_over()
        for proxy in (self.line, *(each.proxy for each in self.members)):
            proxy.turn(primary)

    def _restart(self) -> None:
        for member in self.members:
            assert member.process is not None
            if member.process.poll() is not None:
                self.faults["ended and started again"] += 1
                member.start()

    # -- The verdict ----------------------------------------------------------------------------

    async def calm(self, host: Host) -> None:
        """Leave the hosts in peace until every note is done."""
        await self.succession.is_followed()
        ends_s = time.monotonic() + CALM_S
        while left := self._ask(LEFT):
            self._restart()
            await self._resume(host)
            if time.monotonic() > ends_s:
                logs = "\n".join(
                    f"--- {each.folder.name}\n{each.log[-3000:]}" for each in self.members
                )
                raise AssertionError(
                    f"{left} notes and events of the bus are stuck\n{self._state()}\n{logs}"
                )
            await asyncio.sleep(0.2)

    def _ask(self, text: str) -> int:
        with psycopg.connect(servers.address(self.succession.primary)) as connection:
            ((count,),) = connection.execute(text.encode()).fetchall()
            return int(count)

    def _list(self, text: str) -> list[int]:
        with psycopg.connect(servers.address(self.succession.primary)) as connection:
            return [int(row[0]) for row in connection.execute(text.encode()).fetchall()]

    def _state(self) -> str:
        asked = (
            "select id, holder, epoch, paused from workflow",
            "select * from host",
            "select workflow_id, phase, status, error_class, epoch from run where open = 1",
            "select status, count(*) from mutation group by status",
            "select subscriber_id, status, count(*), max(attempts) from delivery group by 1, 2",
        )
        with psycopg.connect(servers.address(self.succession.primary)) as connection:
            return "\n".join(str(connection.execute(each).fetchall()) for each in asked)

    def judge(self) -> str:
        """Compare what was published with what reached the outside and what was committed."""
        posts = self.counting.posts
        twice = {note: count for note, count in posts.items() if count > 1}
        lost = set(self.published) - set(posts)
        assert not twice, f"posted more than once: {twice}"
        assert not lost, f"never posted: {sorted(lost)[:20]}"
        unheard = set(posts) - set(self.published)
        # The answer to the last publish may have been on its way when the storm ended.
        assert len(unheard) <= 1, f"posted and never published: {sorted(unheard)[:20]}"
        doubles = self._ask(DOUBLE_COMMITS)
        assert not doubles, f"{doubles} notes were committed more than once"
        told = [
            ("notes published, each posted once", len(posts)),
            ("runs committed", self._ask("select count(*) from run where status = 'committed'")),
            ("runs crashed", self._ask("select count(*) from run where status = 'crashed'")),
            ("committed more than once", doubles),
            ("left open", self._ask("select count(*) from run where open = 1")),
            ("workflows paused after a promotion, resumed", self.resumed),
            ("runs retried by a person after three crashes in a row", self.retried),
            *self.ticking.judge(self._list(TICKS), self._ask(UNDELIVERED), self.faults.total()),
            *((f"hosts or server: {what}", count) for what, count in sorted(self.faults.items())),
        ]
        return "\n".join(f"{count:>8}  {what}" for what, count in told)


TICKS: Final = f"select id from journal where topic = '{TOPIC}' order by id"
UNDELIVERED: Final = f"""
select (select count(*) from journal where topic = '{TOPIC}' and status <> 'done')
     + (select count(*) from delivery where topic = '{TOPIC}' and status <> 'done')
"""
LEFT: Final = f"select (select count(*) from event where status <> 'consumed') + ({UNDELIVERED})"
DOUBLE_COMMITS: Final = """
select count(*) from (
  select x.seq from reservation x join run r on r.id = x.run_id
  where r.status = 'committed' and r.outcome = 'applied'
  group by r.workflow_id, x.seq having count(*) > 1
) twice
"""


@contextmanager
def short_folder() -> Iterator[Path]:
    """Make a folder that servers can use: with a short name, for that of a socket is, and open."""
    with tempfile.TemporaryDirectory(prefix="duly-storm-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def outside(base: Path) -> Iterator[Counting]:
    """Serve the outside that counts, and write down where."""
    counting = Counting()
    served = serve(counting)
    (base / "port").write_text(str(served.server_address[1]))
    try:
        yield counting
    finally:
        served.shutdown()
        served.server_close()


@asynccontextmanager
async def stormy(base: Path, workflows: int, seed: int) -> AsyncIterator[Storm]:
    """Make ready for a storm, and end every process afterwards."""
    chance = random.Random(seed)
    with (
        outside(base) as counting,
        closing(Succession(base)) as succession,
        proxied(succession.primary) as line,
    ):
        storm = Storm(base, succession, counting, chance, workflows, line)
        succession.begin()
        try:
            yield storm
        finally:
            for member in storm.members:
                member.end()
                member.proxy.close()
            with suppress(AssertionError):
                await succession.is_followed()


async def run(storm: Storm, hosts: int, seconds: float, runs: int = 0) -> str:
    """Let a storm pass over a fleet; return what happened."""
    began_s, own_s = time.monotonic(), time.process_time()
    async with Host(storm.line.address(), connectors=[Outside()]) as host:
        for number in range(storm.workflows):
            await deploy(host, f"flow{number}")
        storm.raise_fleet(hosts)
        await storm.blow(host, seconds, runs)
        blown_s, own_s = time.monotonic(), time.process_time() - own_s
        made, faults = len(storm.counting.posts), storm.faults.total()
        await storm.calm(host)
    calmed_s = time.monotonic()
    storm_s = blown_s - began_s
    took = f"{hosts} hosts, {storm.workflows} workflows; storm {storm_s:.0f} s, "
    calm = f"then {calmed_s - blown_s:.0f} s of calm"
    rate = f"{made / storm_s:.1f} notes a second, {faults * 60 / storm_s:.0f} faults a minute"
    # Its own process has one core at most: it publishes, passes bytes on, and is the outside.
    own = f"the storm itself had {own_s / storm_s:.0%} of a core"
    return f"{took}{calm}; {rate}; {own}\n{storm.judge()}"


async def _sit(base: Path, workflows: int, seed: int, hosts: int, seconds: float, runs: int) -> str:
    async with stormy(base, workflows, seed) as storm:
        return await run(storm, hosts, seconds, runs)


def main() -> None:
    """Run a storm on servers of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--runs", type=int, default=10_000, help="it lasts until these are made")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--workflows", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ["DULY_KEY"] = KEY
    with short_folder() as base:
        told = _sit(base, given.workflows, given.seed, given.hosts, given.minutes * 60, given.runs)
        print(asyncio.run(told))


if __name__ == "__main__":
    main()
