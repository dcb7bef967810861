"""A process that forks while it has a store open: the child can do nothing to it.

Every story runs in a process of its own, because its children end as interpreters end: with what
is registered for the exit, with the garbage collector, with the finalisation of every module.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from duly.env import Loop
from duly.errors import StoreInUse
from duly.store.base import Durability
from tests.store import notebook
from tests.store.notebook import write
from tests.store.test_sqlite import open_notebook, run

BARRIER, READ = Durability.BARRIER, Durability.READ
PATIENCE_S = 60

# A host's store in a process that forks; each kind of child ends in its own way, and after each of
# them the parent goes on writing.
FORKING = """
import asyncio, gc, multiprocessing, os, signal, sys
from pathlib import Path
from duly.env import Loop
from duly.errors import StoreForked
from duly.store.base import Durability
from duly.store.sqlite import open_sqlite
from tests.store import notebook

KINDS = ["exit", "return", "collect", "at once", "verb", "close", "between", "open again"]

def say(text):
    os.write(1, (text + "\\n").encode())

async def refused(awaitable):
    try:
        await awaitable
    except StoreForked as error:
        say(f"refused: {str(error).partition(': ')[2][:23]}")

async def in_child(kind, backend, path):
    if kind == "verb":
        await refused(backend.transact(notebook.write("child"), Durability.BARRIER))
        await refused(backend.transact(notebook.read, Durability.READ))
    if kind == "close":
        await refused(backend.close())
    if kind == "between":
        await refused(backend.between(lambda: say("in the parent's connection")))
    if kind == "open again":
        asyncio.run(refused(open_sqlite(path, Loop(), schema=notebook.SCHEMA)))

async def main():
    path = Path(sys.argv[1])
    backend = await open_sqlite(path, Loop(), schema=notebook.SCHEMA)
    await backend.transact(notebook.write("before"), Durability.BARRIER)
    for kind in KINDS:
        # A rider's sync is planned, and a task of the store waits for it.
        await backend.transact(notebook.write(f"rider {kind}"), Durability.RIDER)
        child = os.fork()
        if child == 0:
            await in_child(kind, backend, path)
            if kind == "at once":
                os._exit(0)
            if kind == "collect":
                del backend
                gc.collect()
            if kind == "return":
                return
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        say(f"{kind}: {os.waitstatus_to_exitcode(status)}")
        async with asyncio.timeout(120):
            await backend.transact(notebook.write(f"after {kind}"), Durability.BARRIER)
    process = multiprocessing.get_context("fork").Process(target=gc.collect)
    process.start()
    process.join()
    say(f"multiprocessing: {process.exitcode}")
    await backend.transact(notebook.write("after multiprocessing"), Durability.BARRIER)
    say("done")
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""

# A child that lives on when its parent was killed, and ends in an orderly way when it is told to.
OUTLIVING = """
import asyncio, os, sys
from pathlib import Path
from duly.env import Loop
from duly.store.base import Durability
from duly.store.sqlite import open_sqlite
from tests.store import notebook

async def main():
    backend = await open_sqlite(Path(sys.argv[1]), Loop(), schema=notebook.SCHEMA)
    await backend.transact(notebook.write("before"), Durability.BARRIER)
    if os.fork() == 0:
        os.write(1, b"child\\n")
        sys.stdin.readline()
        os.write(1, b"child leaves\\n")
        sys.exit(0)
    await backend.transact(notebook.write("after"), Durability.BARRIER)
    os.write(1, b"parent\\n")
    await asyncio.sleep(3600)

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.db"


@contextmanager
def started(program: str, path: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, process.stdin, process.stdout
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_a_child_that_ends_leaves_the_store_to_its_parent(path: Path) -> None:
    """H1: it neither closes, checkpoints nor unlocks it, however it ends; every verb is refused."""
    kinds = ["exit", "return", "collect", "at once", "verb", "close", "between", "open again"]
    refusals = {"verb": 2, "close": 1, "between": 1, "open again": 1}
    said = [
        line
        for kind in kinds
        for line in ["refused: this process was forked"] * refusals.get(kind, 0) + [f"{kind}: 0"]
    ]
    said += ["multiprocessing: 0", "done"]

    async def story(env: Loop) -> None:
        with started(FORKING, path) as (process, orders, told):
            heard = await asyncio.to_thread(lambda: [told.readline() for _ in said])
            assert heard == [f"{line}\n" for line in said]
            with pytest.raises(StoreInUse):
                await open_notebook(path, env)
            orders.write("\n")
            orders.flush()
            assert await asyncio.to_thread(process.wait, PATIENCE_S) == -signal.SIGKILL
        backend = await open_notebook(path, env)
        lines = await backend.transact(notebook.read, READ)
        expected = ["before"]
        for kind in kinds:
            expected += [f"rider {kind}", f"after {kind}"]
        assert lines == [*expected, "after multiprocessing"]
        await backend.integrity_check(full=True)
        await backend.close()

    run(story)


def test_a_child_that_outlives_its_parent_holds_no_lock(path: Path) -> None:
    """H1: the lock dies with the parent; the child's own end takes nothing from the next host."""

    async def story(env: Loop) -> None:
        with started(OUTLIVING, path) as (process, orders, told):
            said = await asyncio.to_thread(lambda: {told.readline() for _ in range(2)})
            assert said == {"child\n", "parent\n"}
            process.kill()
            process.wait()
            backend = await open_notebook(path, env)
            await backend.transact(write("next host"), BARRIER)
            orders.write("\n")
            orders.flush()
            assert await asyncio.to_thread(told.readline) == "child leaves\n"
            assert await asyncio.to_thread(told.read) == ""  # it has ended, without a word more
            with pytest.raises(StoreInUse):
                await open_notebook(path, env)
            await backend.transact(write("and on"), BARRIER)
            lines = await backend.transact(notebook.read, READ)
            assert lines == ["before", "after", "next host", "and on"]
            await backend.close()

    run(story)
