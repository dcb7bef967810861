"""Measure the fleet and print one table."""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO

import psycopg

from bench.__main__ import FOLDER
from bench.fleet.crew import Crew, DbosCrew, DulyCrew, Made, ProcrastinateCrew, server_cpu_s
from bench.report import Surroundings
from bench.runs import peer
from tests.postgres import server as servers

LINK_S = 0.001  # each way
END_S = 30.0
DATABASES = count(1)
DURABLE = ("fsync=on", "synchronous_commit=on", "max_connections=400")
HEAD = "link    workflows  program        hosts  runs/s  × one host  × DBOS  CPU ms/run  server ms"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    rounds: int
    runs: int
    seconds: float
    hosts: tuple[int, ...]
    workflows: tuple[int, ...]


WHOLE = Plan(rounds=3, runs=800, seconds=3.0, hosts=(1, 2, 4), workflows=(8, 100))
SHORT = Plan(rounds=1, runs=200, seconds=1.0, hosts=(1, 2, 4), workflows=(8, 100))
QUICK = Plan(rounds=1, runs=16, seconds=0.4, hosts=(2,), workflows=(8,))


@dataclass(frozen=True, slots=True)
class Found:
    """One row: runs per second, and the processor time of a run."""

    per_s: float
    cpu_ms: float
    server_ms: float


def main() -> None:
    """Measure what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="does it run at all?")
    parser.add_argument("--short", action="store_true", help="one short round of everything")
    parser.add_argument("--alone", action="store_true", help="without peers")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where peers are kept")
    options = parser.parse_args()
    os.environ["DULY_KEY"] = base64.b64encode(os.urandom(32)).decode()
    around, plan = Surroundings(), QUICK if options.quick else SHORT if options.short else WHOLE
    with tempfile.TemporaryDirectory(prefix="fleet-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        programs = [] if options.alone else [peer_python(each, options.folder) for each in PEERS]
        with servers.server(folder / "server", *DURABLE), slow_link(folder / "server") as port:
            print(HEAD)
            places = {"socket": servers.address(folder / "server", "{}")}
            places["slow"] = f"postgresql://{servers.ROLE}@127.0.0.1:{port}/{{}}"
            for link, place in places.items():
                for workflows in plan.workflows:
                    asyncio.run(measure(Place(folder, place, link), workflows, plan, programs))
    said = around.conditions(plan.rounds)
    print(f"{said.on}, {said.cores} cores; other programs had {said.others:.0%} of them.")


@dataclass(frozen=True, slots=True)
class Place:
    """Where databases are made, and how the programs reach them."""

    folder: Path
    address: str
    link: str

    def make(self) -> str:
        """Make a database and return its address."""
        name = f"bench{next(DATABASES)}"
        url = servers.superuser(self.folder / "server")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"create database {name} owner {servers.ROLE}".encode())
        return self.address.format(name)


PEERS = ("dbos", "procrastinate")
VERSIONS = {"dbos": peer.DBOS_VERSION, "procrastinate": peer.PROCRASTINATE_VERSION}


def peer_python(name: str, folder: Path) -> tuple[str, Path]:
    """Make a peer's environment, if it is not there; return its Python."""
    version = VERSIONS[name]
    return name, peer.make_python(folder / f"{name}-{version}", f"{name}=={version}")


async def measure(
    place: Place, workflows: int, plan: Plan, programs: Sequence[tuple[str, Path]]
) -> None:
    """Measure all programs with each number of hosts, and print their rows."""
    alone: dict[str, float] = {}
    for hosts in plan.hosts:
        async with AsyncExitStack() as stack:
            crews = [await stack.enter_async_context(duly_crew(place, hosts, workflows))]
            for name, python in programs:
                crews.append(await stack.enter_async_context(peer_crew(place, name, python, hosts)))
            found = await take(crews, place.folder / "server", workflows, plan)
        for name, row in found.items():
            one = alone.setdefault(name, row.per_s)
            dbos = f"{row.per_s / found['DBOS'].per_s:6.1f}" if "DBOS" in found else "     –"
            print(
                f"{place.link:6}  {workflows:9}  {name:13}  {hosts:5}  {row.per_s:6.0f}"
                f"  {row.per_s / one:10.2f}  {dbos}  {row.cpu_ms:10.1f}  {row.server_ms:9.1f}",
                flush=True,
            )


async def take(crews: Sequence[Crew], server: Path, workflows: int, plan: Plan) -> dict[str, Found]:
    """Let the crews take turns; a first round only warms them."""
    found: dict[str, list[tuple[Made, float]]] = defaultdict(list)
    for number in range(plan.rounds + 1):
        for crew in crews:
            before_s = server_cpu_s(server)
            made = await crew.slice(workflows, plan.runs, plan.seconds)
            if number > 0:
                found[crew.name].append((made, server_cpu_s(server) - before_s))
    return {
        name: Found(
            statistics.median(each.runs / each.wall_s for each, _ in slices),
            statistics.median(each.cpu_s / each.runs * 1000 for each, _ in slices),
            statistics.median(server_s / each.runs * 1000 for each, server_s in slices),
        )
        for name, slices in found.items()
    }


@asynccontextmanager
async def duly_crew(place: Place, hosts: int, workflows: int) -> AsyncIterator[Crew]:
    """Start so many hosts on a database of their own."""
    url = place.make()
    command = [sys.executable, "-m", "bench.fleet.member", url]
    with processes(place.folder / "duly.log", command, hosts) as started:
        crew = DulyCrew(started)
        try:
            await crew.open(url, workflows)
            yield crew
        finally:
            await crew.close()


@asynccontextmanager
async def peer_crew(place: Place, name: str, python: Path, hosts: int) -> AsyncIterator[Crew]:
    """Start so many processes of a peer on a database of their own."""
    here = Path(__file__).parent
    program = {
        "dbos": here.parent / "runs" / "dbos_program.py",
        "procrastinate": here / "procrastinate_program.py",
    }[name]
    with processes(place.folder / f"{name}.log", [python, program, place.make()], hosts) as started:
        if name == "dbos":
            yield DbosCrew(started)
        else:
            crew = ProcrastinateCrew(started)
            await crew.open()
            yield crew


@contextmanager
def processes(
    log: Path, command: Sequence[str | Path], number: int
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start a program so often; its input's end is its own, and after a while it is killed."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        with log.open("a") as words:
            started += (_start(command, words) for _ in range(number))
        yield started
    except RuntimeError as error:
        raise RuntimeError(f"{error}:\n{log.read_text()[-2000:]}") from error
    finally:
        for each in started:
            assert each.stdin is not None
            assert each.stdout is not None
            each.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                each.wait(END_S)
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()
            each.stdout.close()


def _start(command: Sequence[str | Path], words: IO[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=words,
        start_new_session=True,  # so that its children can be ended with it
    )


@contextmanager
def slow_link(server: Path) -> Iterator[int]:
    """Run a link that holds every byte for a while; give its port."""
    socket = server / ".s.PGSQL.5432"
    command = [sys.executable, "-m", "bench.fleet.link", str(socket), str(LINK_S)]
    with processes(server.parent / "link.log", command, 1) as (link,):
        assert link.stdout is not None
        yield int(link.stdout.readline())


if __name__ == "__main__":
    main()
