"""A worker that is not the interpreter any more has few threads all the same (X2)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from duly.cell import lock
from duly.cell.process import Stat
from duly.cell.user import FIRST_USER
from duly.config import Limits
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.source import Language, Source
from duly.sandbox.base import MISSING, Broke
from duly.sandbox.python_launcher import THREADS_MAX
from tests.sandbox.python_stand import WORLD, make

SOURCE = str(Path(lock.__file__).parents[2])
TRIED = 300
# Locks itself as the launcher does; where it would become the interpreter it starts threads.
PROGRAM = f"""
import os, sys, threading, time
from duly.sandbox import python_launcher
def become(*_):
    threading.stack_size(64 * 1024)
    made = 0
    try:
        for _ in range({TRIED}):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
            made += 1
    except RuntimeError:
        pass
    os.write(1, f"{{made}} {{os.getuid()}} {{os.getgid()}}".encode())
    os._exit(0)
os.execve = become
python_launcher.main(1, "no", str(python_launcher.find_binary()))
"""


def test_a_worker_of_a_root_host_is_a_user_of_its_own_with_few_threads() -> None:
    """X1, X2: the kernel counts threads by user, and root's not at all; another host is told."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": SOURCE},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    made, user, group = map(int, done.stdout.rpartition(b"}")[2].split())
    if os.geteuid() != 0:  # nobody but root can give a process a user of its own
        assert (made, user) == (TRIED, os.getuid())
        return
    assert made < THREADS_MAX
    assert user == group > FIRST_USER


async def test_a_worker_with_many_threads_is_ended_by_its_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X2: the host counts them too, whichever user it runs as, and names the limit."""
    monkeypatch.setattr(Stat, "threads", lambda _: THREADS_MAX + 1)
    sandbox = make(Limits(step_cpu_s=20))
    text = "from duly import producer, workflow\nasync def p(ctx, state):\n    while True: pass\n"
    text += "workflow('w', topics=['t'], producers={'p': producer(p)})\n"
    try:
        loaded = await sandbox.load(Source(Language.PYTHON, text), Catalog())
        async with sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), WORLD) as script:
            turn = await script.start()
    finally:
        await sandbox.close()
    assert isinstance(turn, Broke)
    assert not turn.is_lost
    assert f"more than {THREADS_MAX} threads" in str(turn.error)


def test_threads_are_counted() -> None:
    """X2: by the kernel, for a process that is not ours to ask."""
    stat = Stat(os.getpid())
    tasks = len(list(Path("/proc/self/task").iterdir()))
    assert stat.threads() == tasks
    stat.close()
