"""What does it cost to bring a store of a million rows up to the schema of now?

    python -m bench.upgrade                          # SQLite, from the oldest and the last schema
    python -m bench.upgrade --server                 # PostgreSQL, from the last schema
    python -m bench.upgrade --rows 100000 --kills 5

A store of the older schema is filled by SQL: inputs, what they say, the runs that took them and the
changes that were made, all ended. Then a host of now opens it in a process of its own, as
`duly serve` does: on a file it copies the store first; on a server `pg_dump` is the copy, as the
page about operations says. Seconds, processor time and the peak of the memory are of that process.

Then the same host is killed on the way, at moments spread over the time that it took. After every
kill the store must be whole: of the old schema and read by it, or of the new one; with every row.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Final

import apsw
import psycopg

import duly
from duly.env import Loop
from duly.store import postgres
from duly.store.migrate import MIGRATIONS, SCHEMA_VERSION
from duly.store.sqlite import Schema, open_sqlite
from tests.postgres import server as servers

ROWS: Final = 1_000_000
ROWS_EACH: Final = 5  # of an input: it, its text, its run, its reservation, its change
KILLS: Final = 5
SERVER_FIRST: Final = 5  # the first version of the schema that a server had
KEY: Final = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
MIB: Final = 1024 * 1024
SCHEMAS: Final = Path(__file__).parents[1] / "tests" / "store"
TABLES: Final = ("event", "payload", "run", "reservation", "mutation")
NUMBERS: Final = "with recursive n(i) as (select 1 union all select i + 1 from n where i < {count})"
FILL: Final = (
    "insert into workflow (id, name, counter, created_at) values ('w', 'letters', {count}, 1)",
    "insert into topic (workflow_id, name, consumer) values ('w', 'mail.received', 'answer')",
    """insert into payload (workflow_id, content, title, body, digest) {numbers}
    select 'w', i, 'Mail ' || i, '{{"text": "' || substr('{words}', 1 + i % 60, 300) || '"}}',
    'sha256:' || i from n""",
    """insert into event (workflow_id, seq, topic, message_id, status, content, finished_by,
    created_by, created_at, finished_at) {numbers} select 'w', i, 'mail.received', '<' || i
    || '@mail.example>', 'consumed', i, 'run_' || i, 'outside', 1000 + i, 2000 + i from n""",
    """insert into run (id, workflow_id, version, handler, kind, chain, open, phase, status,
    outcome, counter, prepared, result, created_at, updated_at) {numbers} select 'run_' || i, 'w',
    '1', 'answer', 'consumer', 'run_' || i, 0, 'committed', 'committed', 'applied', i,
    '{{"data": {{"n": ' || i || '}}}}', '{{"line": ' || i || '}}', 1000 + i, 2000 + i from n""",
    "insert into reservation (run_id, seq, content) {numbers} select 'run_' || i, i, i from n",
    """insert into mutation (id, workflow_id, run_id, held_by, tool, args, title, inputs, key, hash,
    status, result, attempt, first_sent_at, sent_at, created_at, updated_at) {numbers}
    select 'mut_' || i, 'w', 'run_' || i, 'run_' || i, 'sheet.append_row', '{{"values": ["Mail '
    || i || '"]}}', 'Write Mail ' || i, 'sha256:' || i, 'key_' || i, 'sha256:' || i, 'applied',
    '{{"line": ' || i || '}}', 1, 1500 + i, 1500 + i, 1500 + i, 2000 + i from n""",
)
WORDS: Final = (
    "what a mail says is about so long, and no two of them begin with the same words; " * 5
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What an upgrade took."""

    seconds: float
    cpu_s: float
    peak_mib: float


def fill(run: Callable[[str], object], rows: int) -> None:
    """Put rows of ended work into a store that is empty."""
    count = rows // ROWS_EACH
    numbers = NUMBERS.format(count=count)
    for each in FILL:
        run(each.format(count=count, numbers=numbers, words=WORDS))


def old_schema(version: int) -> Schema:
    """Return the schema as it was."""
    text = (SCHEMAS / f"schema_{version}.sql").read_text(encoding="utf-8")
    return Schema(text, {}, version=version)


# -- The upgrade, in a process of its own ---------------------------------------------------------


async def open_once(url: str) -> None:
    """Open a store as a host does, and close it."""
    async with duly.Host(url):
        pass


def upgrade_here(url: str) -> None:
    """Bring a store up in this process, and print what it took."""
    begun_s, cpu_s = time.monotonic(), time.process_time()
    asyncio.run(open_once(url))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took_s = time.monotonic() - begun_s
    print(json.dumps([round(took_s, 1), round(time.process_time() - cpu_s, 1), round(peak_mib)]))


def begin(url: str) -> subprocess.Popen[str]:
    """Begin an upgrade in a process of its own."""
    words = [sys.executable, "-m", "bench.upgrade", "--here", url]
    environ = {**os.environ, "DULY_KEY": KEY}
    return subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, text=True)


def upgrade(url: str) -> Cost:
    """Bring a store up in a process of its own; return what it took."""
    process = begin(url)
    out, _ = process.communicate()
    assert process.returncode == 0, process.returncode
    return Cost(*json.loads(out))


def moment_of(number: int, kills: int, cost: Cost) -> float:
    """Say when to kill: more often early, for what follows the schema (sealing) takes longer."""
    return 0.5 + cost.seconds * ((number + 0.5) / kills) ** 2


def kill_on_the_way(url: str, after_s: float) -> None:
    """Begin an upgrade and kill it so long after its interpreter began."""
    process = begin(url)
    with suppress(subprocess.TimeoutExpired):
        process.wait(after_s)
    process.send_signal(SIGKILL)
    process.communicate()


# -- A file ---------------------------------------------------------------------------------------


async def make_empty(path: Path, version: int) -> None:
    """Make an empty store of an older schema, or open one and see that it can be opened."""
    env = Loop()
    await (await open_sqlite(path, env, schema=old_schema(version))).close()
    env.close()


def look_at_file(path: Path) -> tuple[int, tuple[int, ...]]:
    """Return the version of a store and how many rows it has."""
    with apsw.Connection(str(path)) as store:
        counts = [store.execute(f"select count(*) from {each}").get for each in TABLES]
        found: int = store.pragma("user_version")
    store.close()
    return found, tuple(counts)


def measure_file(folder: Path, version: int, rows: int, kills: int) -> None:
    """Upgrade a file from one version; kill some upgrades on the way."""
    path = folder / f"from-{version}.db"
    asyncio.run(make_empty(path, version))
    store = apsw.Connection(str(path))
    with store:
        fill(store.execute, rows)
    store.close()
    _, whole = look_at_file(path)
    kept = path.with_suffix(".kept")
    shutil.copyfile(path, kept)
    cost = upgrade(f"sqlite:///{path}")
    backup = path.with_name(f"{path.name}.v{version}.backup")
    assert look_at_file(path) == (SCHEMA_VERSION, whole)
    assert look_at_file(backup) == (version, whole)
    _say("SQLite", version, whole, path.stat().st_size, cost)
    left: dict[int, int] = {}
    for number in range(kills):
        for each in folder.glob(f"{path.name}*"):
            each.unlink()
        shutil.copyfile(kept, path)
        kill_on_the_way(f"sqlite:///{path}", moment_of(number, kills, cost))
        found, counts = look_at_file(path)
        assert counts == whole, (number, counts)
        if found == version:
            asyncio.run(make_empty(path, version))
        left[found] = left.get(found, 0) + 1
        upgrade(f"sqlite:///{path}")
        assert look_at_file(path) == (SCHEMA_VERSION, whole)
    _say_kills(left)


# -- A server -------------------------------------------------------------------------------------


@contextmanager
def running_server(folder: Path) -> Iterator[Path]:
    """Run a server that syncs as a real one does."""
    servers.start(folder, "fsync=on")
    try:
        yield folder
    finally:
        servers.stop(folder)


def look_at_server(url: str) -> tuple[int, tuple[int, ...]]:
    """Return the version of a store and how many rows it has."""
    with psycopg.connect(url) as store:
        ((found,),) = store.execute("select version from store").fetchall()
        counts = [
            store.execute(f"select count(*) from {each}".encode()).fetchall()[0][0]
            for each in TABLES
        ]
    return found, tuple(counts)


def measure_server(folder: Path, version: int, rows: int, kills: int) -> None:
    """Upgrade a database from one version; kill some upgrades on the way."""
    admin = servers.superuser(folder)
    kept, url = (servers.address(folder, name) for name in ("kept", "work"))

    def renew() -> None:
        with psycopg.connect(admin, autocommit=True) as one:
            one.execute("drop database if exists work with (force)")
            one.execute(f"create database work template kept owner {servers.ROLE}".encode())

    with psycopg.connect(admin, autocommit=True) as one:
        one.execute("drop database if exists kept with (force)")
        one.execute(f"create database kept template template0 owner {servers.ROLE}".encode())
    postgres.bring_up(kept, old_schema(version))
    with psycopg.connect(kept) as store:
        fill(lambda text: store.execute(text.encode()), rows)
    with psycopg.connect(kept, autocommit=True) as store:
        store.execute("vacuum analyze")
        ((size,),) = store.execute("select pg_database_size('kept')").fetchall()
    _, whole = look_at_server(kept)
    dump = [str(servers.binaries(folder) / "pg_dump"), "-Fc", "-f", str(folder / "dump"), kept]
    begun_s = time.monotonic()
    subprocess.run(dump, check=True)
    dump_s = time.monotonic() - begun_s
    renew()
    cost = upgrade(url)
    assert look_at_server(url) == (SCHEMA_VERSION, whole)
    _say("PostgreSQL", version, whole, size, cost)
    print(f"  pg_dump before it: {dump_s:.1f} s")
    left: dict[int, int] = {}
    for number in range(kills):
        renew()
        kill_on_the_way(url, moment_of(number, kills, cost))
        found, counts = look_at_server(url)
        assert counts == whole, (number, counts)
        if found == version:
            postgres.bring_up(url, old_schema(version))
        left[found] = left.get(found, 0) + 1
        upgrade(url)
        assert look_at_server(url) == (SCHEMA_VERSION, whole)
    _say_kills(left)


def _say(store: str, version: int, rows: Sequence[int], size: int, cost: Cost) -> None:
    print(
        f"{store}, {version} to {SCHEMA_VERSION}: {sum(rows):,} rows, {size / MIB:,.0f} MiB: "
        f"{cost.seconds:g} s, {cost.cpu_s:g} s of CPU, peak {cost.peak_mib:,.0f} MiB",
        flush=True,
    )


def _say_kills(left: dict[int, int]) -> None:
    told = ", ".join(f"{count} of schema {version}" for version, count in sorted(left.items()))
    print(f"  killed on the way: {told or 'never'}; every row there, and brought up afterwards")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.upgrade", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--from", dest="versions", type=int, action="append", choices=MIGRATIONS)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--server", action="store_true", help="PostgreSQL, not a file")
    parser.add_argument("--here", metavar="URL", help="bring this store up, and say what it took")
    given = parser.parse_args()
    if given.here:
        return upgrade_here(given.here)
    first = SERVER_FIRST if given.server else min(MIGRATIONS)
    versions = given.versions or sorted({first, SCHEMA_VERSION - 1})
    with tempfile.TemporaryDirectory(prefix="upgrade-") as name:
        folder = Path(name)
        if given.server:
            folder.chmod(0o711)
            with running_server(folder / "server") as place:
                for version in versions:
                    measure_server(place, version, given.rows, given.kills)
            return None
        for version in versions:
            measure_file(folder, version, given.rows, given.kills)
    return None


if __name__ == "__main__":
    main()
