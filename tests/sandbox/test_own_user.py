"""Under a root host every locked process is a user of its own (X1)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from duly.cell import lock
from duly.cell.cell import Cell
from duly.cell.user import FIRST_USER, stays_root
from duly.connectors import reader
from duly.engine.workshop import STUDIED
from duly.env import Loop
from duly.rules.access import Step
from duly.sandbox.base import MISSING, Asked
from duly.sandbox.pool import Pool
from duly.sandbox.study import Studies
from tests.sandbox.contract import CATALOG, WORLD, Body
from tests.sandbox.python_stand import make

SOURCE = str(Path(lock.__file__).parents[2])


@asynccontextmanager
async def javascript() -> AsyncIterator[int]:
    pool = Pool(Loop())
    worker = await pool.take()
    yield worker.pid
    await pool.give_back(worker)
    await pool.close()


@asynccontextmanager
async def python() -> AsyncIterator[int]:
    sandbox = make()
    loaded = await sandbox.load(Body(python="await ctx.gmail.search()").source("python"), CATALOG)
    async with sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD) as script:
        assert isinstance(await script.start(), Asked)
        assert script._worker is not None
        yield script._worker.pid
    await sandbox.close()


@asynccontextmanager
async def study() -> AsyncIterator[int]:
    studies = Studies(Loop(), STUDIED, wall_s=60)
    worker = await studies.pool.take("one")
    yield worker.pid
    await studies.pool.give_back(worker)
    await studies.close()


@asynccontextmanager
async def mail() -> AsyncIterator[int]:
    cell = Cell(reader.PROGRAM, reader.NEEDED)
    cell.ready()
    yield cell.pid
    cell.close()


IDS = ("Uid", "Gid", "Groups")
PROCESSES = {each.__name__: each for each in (javascript, python, study, mail)}


def ids_of(pid: int) -> tuple[set[int], set[int], set[int]]:
    """Return the users, the groups and the further groups of a process."""
    told = Path(f"/proc/{pid}/status").read_text("ascii")
    lines = dict(line.split(":", 1) for line in told.splitlines())
    users, groups, further = (set(map(int, lines[name].split())) for name in IDS)
    return users, groups, further


@pytest.mark.parametrize("process", PROCESSES)
async def test_every_locked_process_of_a_root_host_is_a_user_of_its_own(process: str) -> None:
    """X1: what the lock would miss, file modes refuse; a host that is not root can give no user."""
    async with PROCESSES[process]() as pid:
        users, groups, further = ids_of(pid)
    if os.geteuid() != 0:
        assert (users, groups) == ({os.getuid()}, {os.getgid()})
        return
    own = {FIRST_USER + pid}
    assert (users, groups, further) == (own, own, set())


# Becomes a user of its own, perhaps with less than root has; tells whether, and who it is then.
PROGRAM = """
import ctypes, os, struct, sys
from duly.cell import lock, user
{before}
print(user.become_own_user(sys.argv[1:]), *os.getresuid(), *os.getresgid())
"""
WITHOUT_KILL = """
head = struct.pack("<Ii", lock.CAPABILITY_VERSION, 0)
sets = (ctypes.c_uint32 * 6)()
lock._must(lock._libc().capget(head, sets), "capget")
sets[0] &= ~user.CAP_KILL
lock._must(lock._libc().capset(head, sets), "capset")
"""


STAYS = ["False", *[str(os.getuid())] * 3, *[str(os.getgid())] * 3]


def become(before: str, *needed: str) -> list[str]:
    words = [sys.executable, "-c", PROGRAM.format(before=before), *needed]
    done = subprocess.run(words, env={"PYTHONPATH": SOURCE}, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().split()


def test_a_process_its_host_could_not_kill_stays_root() -> None:
    """X2: root without CAP_KILL cannot end a process of another user."""
    assert become(WITHOUT_KILL) == STAYS
    assert (become("") != STAYS) is (os.geteuid() == 0)


def test_a_process_whose_files_are_private_stays_root(tmp_path: Path) -> None:
    """X1: an interpreter below a private home could not be started; the host can tell before."""
    folder = tmp_path / "home"
    program = folder / "program"
    folder.mkdir(mode=0o700)
    program.touch(mode=0o755)
    assert become("", str(program)) == STAYS
    assert (stays_root([str(program)]), stays_root()) == (os.geteuid() == 0, False)


def test_no_process_of_an_ordinary_host_stays_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """X1: there is no root to stay."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not stays_root(["/no/such/file"])
