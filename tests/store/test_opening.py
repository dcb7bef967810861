"""Opening a store: whose file it is, who else has it, and what a cancelled opening leaves.

Law: an opening that is refused has changed nothing, and keeps nothing.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

from duly.env import Loop
from duly.errors import StoreError, StoreInUse, StoreNewer, StoreUnavailable
from duly.store.base import Durability
from duly.store.disk import FileDisk
from duly.store.migrate import APPLICATION_ID, bring_up, check_version
from duly.store.sqlite import BUSY_MS, open_sqlite
from tests.store import notebook
from tests.store.notebook import write
from tests.store.test_sqlite import content, open_notebook, other_process, run

BARRIER, READ = Durability.BARRIER, Durability.READ
PATIENCE_S = 120
HELD = r"duly\.db: another program has the database open, .* End that program, then open"
OURS = r"duly\.db: this process has this file open already, .*Close that host"

# A program that knows nothing of Duly: it does one thing to a database, and goes on or is gone.
OUTSIDER = """
import apsw, os, sys
connection = apsw.Connection(sys.argv[1])
try:
    print(connection.execute(sys.argv[2]).fetchall(), flush=True)
except apsw.BusyError as error:
    print(error, flush=True)
sys.stdin.read()
os._exit(0)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.db"


def outsider(path: Path, sql: str) -> str:
    """Let another program do one thing to a database and leave without closing it."""
    command = [sys.executable, "-c", OUTSIDER, str(path), sql]
    return subprocess.run(command, input="", capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("sql", ["select * from line", "insert into line values (1, 'x', 'x')"])
def test_another_program_is_kept_out_while_a_host_runs(path: Path, sql: str) -> None:
    """H1: who reads is kept out as well as who writes, and the host notices nothing of it."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("one"), BARRIER)
        assert outsider(path, sql) == "database is locked\n"
        await backend.transact(write("two"), BARRIER)
        await backend.close()
        assert outsider(path, "select label from line") == "[('one',), ('two',)]\n"

    run(story)


@pytest.mark.parametrize("sql", ["begin; select * from line", "begin immediate"])
def test_a_store_that_another_program_has_open_is_refused(path: Path, sql: str) -> None:
    """H1: the error says what to do; when the other is gone the store is opened."""

    async def story(env: Loop) -> None:
        await (await open_notebook(path, env)).close()
        command = [sys.executable, "-c", OUTSIDER, str(path), sql]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as other:  # noqa: ASYNC220
            assert other.stdout is not None
            assert other.stdout.readline()  # it has the database open from here on
            with pytest.raises(StoreInUse, match=HELD):
                await open_notebook(path, env)
        await (await open_notebook(path, env)).close()

    run(story)


def test_a_program_that_has_the_database_for_a_moment_is_waited_for(path: Path) -> None:
    """H3: the wait begins with the first look at the file."""
    waits: list[int] = []

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        waits.append(backend._connection.pragma("busy_timeout"))
        await backend.close()

    def check(connection: apsw.Connection, path: str, version: int) -> int | None:
        waits.append(connection.pragma("busy_timeout"))
        return check_version(connection, path, version)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duly.store.sqlite.check_version", check)
        run(story)
    assert waits == [BUSY_MS, BUSY_MS]


def test_a_hard_link_is_the_same_store(path: Path) -> None:
    """H1: two names have two locks beside them, and are one file."""

    async def story(env: Loop) -> None:
        await (await open_notebook(path, env)).close()
        link = path.with_name("linked duly.db")
        link.hardlink_to(path)
        with other_process(path, "hold"), pytest.raises(StoreInUse, match=HELD):
            await open_notebook(link, env)
        backend = await open_notebook(path, env)
        with pytest.raises(StoreInUse, match=OURS):
            await open_notebook(link, env)
        await backend.close()
        await (await open_notebook(link, env)).close()

    run(story)


def test_a_lock_file_that_was_removed_lets_no_second_host_in(path: Path) -> None:
    """H1: removing it is what people do to a lock they believe to be stale."""
    lock = Path(f"{path}.lock")

    async def story(env: Loop) -> None:
        with other_process(path, "hold"):
            remove(lock)
            with pytest.raises(StoreInUse, match=HELD):
                await open_notebook(path, env)
        await (await open_notebook(path, env)).close()

    run(story)


def test_a_second_host_of_the_same_process_does_not_take_the_firsts_lock_away(path: Path) -> None:
    """H1: closing a file ends all locks a process has on it, unless SQLite itself closes it."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("one"), BARRIER)
        remove(Path(f"{path}.lock"))
        with pytest.raises(StoreInUse, match=OURS):
            await open_notebook(path, env)
        assert outsider(path, "select * from line") == "database is locked\n"
        await backend.transact(write("two"), BARRIER)
        await backend.close()

    run(story)


def test_a_newer_store_without_a_log_is_left_alone(path: Path) -> None:
    """H4: a copy is of that kind; not even its journal mode changes."""
    newer = apsw.Connection(str(path))
    newer.execute("create table theirs (x)")
    newer.pragma("application_id", APPLICATION_ID)
    newer.pragma("user_version", 7)
    newer.close()
    before = path.read_bytes()

    async def story(env: Loop) -> None:
        with pytest.raises(StoreNewer, match="nothing was changed"):
            await open_notebook(path, env)

    run(story)
    assert path.read_bytes() == before


def test_the_log_of_another_program_is_left_alone(path: Path) -> None:
    """H4: it died and left a log; moving it into the database is its own affair."""
    log = Path(f"{path}-wal")
    outsider(path, "pragma journal_mode = wal; create table theirs (x)")
    before = path.read_bytes(), log.read_bytes()
    assert before[1]

    async def story(env: Loop) -> None:
        with pytest.raises(StoreError, match="a SQLite database of another program"):
            await open_notebook(path, env)

    run(story)
    assert (path.read_bytes(), log.read_bytes()) == before


def test_a_restored_copy_beside_the_log_of_a_dead_host_is_refused(path: Path) -> None:
    """H5: SQLite would write the newer pages of the log over the older database."""
    log = Path(f"{path}-wal")

    async def story(env: Loop) -> None:
        backend = await open_notebook(path, env)
        await backend.transact(write("in the copy"), BARRIER)
        FileDisk(path).copy(backend._connection, 1)
        await backend.close()
        with other_process(path, "write") as host:
            assert host.stdout is not None
            assert host.stdout.readline() == "barrier 1\n"
            host.send_signal(signal.SIGKILL)
        restore(path)
        copied, left = content(path), content(log)
        assert left
        with pytest.raises(
            StoreUnavailable, match=r"duly\.db-wal is the log of another .* Move it away"
        ):
            await open_notebook(path, env)
        assert (content(path), content(log)) == (copied, left)
        remove(log)
        backend = await open_notebook(path, env)
        assert await backend.transact(notebook.read, READ) == ["in the copy"]
        await backend.close()

    run(story)


def remove(file: Path) -> None:
    file.unlink()


def restore(path: Path) -> None:
    """Restore a copy as people do: over the database, and nothing else."""
    shutil.copyfile(f"{path}.v1.backup", path)


class Gate:
    """Holds an opening in its thread until the test lets it go on, or fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.is_reached = threading.Event()
        self.may_pass = threading.Event()
        self._error = error
        monkeypatch.setattr("duly.store.sqlite.bring_up", self._bring_up)

    def _bring_up(self, *args: Any, **options: Any) -> None:
        self.is_reached.set()
        assert self.may_pass.wait(PATIENCE_S)
        if self._error is not None:
            raise self._error
        bring_up(*args, **options)

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self.is_reached.wait, PATIENCE_S)


@pytest.mark.parametrize("error", [None, StoreUnavailable("planted")], ids=["opens", "fails"])
def test_an_opening_that_is_cancelled_gives_the_store_back(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """H1, H3: a caller that hears that it was cancelled can open the store at once."""

    async def story(env: Loop) -> None:
        with monkeypatch.context() as patch:
            gate = Gate(patch, error)
            opening = asyncio.ensure_future(open_notebook(path, env))
            await gate.until_reached()
            opening.cancel()
            await asyncio.sleep(0)
            assert not opening.done()
            gate.may_pass.set()
            with pytest.raises(asyncio.CancelledError):
                await opening
        await (await open_notebook(path, env)).close()

    run(story)


def test_an_opening_that_is_cancelled_twice_gives_the_store_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1, H3: nobody waits for the thread any more, so the thread itself gives it back."""
    env = Loop()

    async def leave() -> None:
        gate = Gate(monkeypatch)
        opening = asyncio.ensure_future(open_notebook(path, env))
        await gate.until_reached()
        # The end of a program cancels every task, also the one that waits for the thread.
        for _ in range(2):
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await opening
        gate.may_pass.set()

    asyncio.run(leave())
    env.close()
    monkeypatch.undo()

    async def story(env: Loop) -> None:
        await (await open_notebook(path, env)).close()

    run(story)


def wait_for_end(process: int) -> None:
    os.waitpid(process, 0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_neither_keeps_the_lock_nor_gives_it_away(path: Path) -> None:
    """H1: the child shares the lock, which is its parent's."""

    async def story(env: Loop) -> None:
        disk = FileDisk(path)
        backend = await open_sqlite(disk, env, schema=notebook.SCHEMA)
        wait_for, go_on = os.pipe()
        leaver = os.fork()
        if leaver == 0:
            disk.release()
            os._exit(0)
        wait_for_end(leaver)
        with pytest.raises(StoreInUse, match=f"process {os.getpid()}"):
            await open_notebook(path, env)
        keeper = os.fork()
        if keeper == 0:
            os.close(go_on)
            os.read(wait_for, 1)
            os._exit(0)
        try:
            await backend.close()
            await (await open_notebook(path, env)).close()
        finally:
            os.close(go_on)
            wait_for_end(keeper)
            os.close(wait_for)

    run(story)
