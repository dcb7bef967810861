"""Each layer of the lock made unavailable in turn, and the lock of an ordinary user."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.cell import lock, syscall
from duly.cell import user as user_module
from duly.cell.lock import Layer
from duly.env import Loop
from duly.errors import ConfigError
from duly.rules.catalog import Catalog
from duly.sandbox import pool as pool_module
from duly.sandbox import python_process
from duly.sandbox.pool import Pool
from duly.sandbox.python import PythonSandbox
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.hostile.attack import Program, write
from tests.sandbox.hostile.stand import ROOMY

# Which function puts a layer on, and what is told when it is not there.
LAYERS = {
    Layer.DESCRIPTORS: ("_close_all_but", "descriptors"),
    Layer.LIMITS: ("_limit", "limits"),
    # Who is not root any more can put nothing on its files before that.
    Layer.PRIVILEGES: ("_give_up_privileges", "privileges|files"),
    Layer.FILES: ("_restrict_files", "files"),
    Layer.SYSTEM_CALLS: ("_filter_system_calls", "a socket|system calls"),
}
NOBODY = 65534
# Only root can become another user; one that is not root is an ordinary user already.
USERS = [0, NOBODY] if os.getuid() == 0 else [os.getuid()]
# A python3 that everybody may run, if the system has one of its own.
PYTHON = next(filter(os.path.exists, ("/usr/bin/python3", sys.executable)))


def unavailable(layer: Layer) -> str:
    """Write the line that takes a layer away."""
    return f"from duly.cell import lock; lock.{LAYERS[layer][0]} = lambda *_: None"


async def refusal_of_javascript(broken: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Answer why a worker with something broken takes no work."""
    # A lock that closes nothing needs something to close: the worker opens it itself.
    before = f"; import os; os.open('/', os.O_RDONLY); {broken}; serve("
    monkeypatch.setattr(pool_module, "PROGRAM", pool_module.PROGRAM.replace("; serve(", before))
    pool = Pool(Loop())
    with pytest.raises(ConfigError) as told:
        await pool.take()
    assert pool.pids == ()
    await pool.close()
    return str(told.value)


async def refusal_of_python(broken: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Answer the same of Python's launcher."""
    before = f"; import os; os.open('/', os.O_RDONLY); {broken}; main("
    program = python_process.PROGRAM.replace("; main(", before)
    monkeypatch.setattr(python_process, "PROGRAM", program)
    sandbox = PythonSandbox(Loop(), ROOMY, names=NAMES, refuse=refuse_lacking)
    with pytest.raises(ConfigError) as told:
        await sandbox.load(write("python", Program("return 1"), {}), Catalog())
    await sandbox.close()
    return str(told.value)


REFUSALS = {"javascript": refusal_of_javascript, "python": refusal_of_python}


@pytest.mark.parametrize("layer", Layer)
@pytest.mark.parametrize("language", REFUSALS)
async def test_no_script_runs_without_a_layer(
    language: str, layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X1: the host refuses, and names what is missing."""
    told = await REFUSALS[language](unavailable(layer), monkeypatch)
    assert re.search(f"missing: ({LAYERS[layer][1]})", told), told


@pytest.mark.parametrize("language", REFUSALS)
async def test_no_script_runs_on_a_processor_nobody_has_a_list_for(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X1: its numbers of system calls would mean something else; it is called by its name."""
    other = "import platform; platform.machine = lambda: 'riscv64'"
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    told = await REFUSALS[language](other, monkeypatch)
    assert "system calls (no list of system calls for a riscv64 processor)" in told, told
    assert "a known processor" in lock.is_lockable().missing


def test_a_descriptor_far_up_is_noticed() -> None:
    """X1: what a lock left open is found, also where few would look."""
    number = os.dup2(0, 1000)
    try:
        others = set(map(int, os.listdir("/proc/self/fd"))) - {number}  # noqa: PTH208
        assert not lock._has_no_other_descriptor(others)
        assert lock._has_no_other_descriptor({*others, number})
    finally:
        os.close(number)


# Locks itself with either profile and tells what is missing.
PROGRAM = """
import json, os, sys
from duly.cell import lock
user = os.getuid()
executes = (sys.argv[1],) if len(sys.argv) > 1 else ()
report = lock.lock((0, 1, 2), lock.Profile(1 << 30, executes=executes, reads=("/usr/lib",)))
os.write(1, json.dumps([user, report.missing]).encode())
"""


@pytest.fixture
def copied() -> Iterator[Path]:
    """Copy what the lock is made of to where everybody may read it."""
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder) / "duly" / "cell"
        room.mkdir(parents=True)
        for module in (lock, syscall, user_module):
            assert module.__file__ is not None
            shutil.copy(module.__file__, room)
        for place in (Path(folder), room.parent, room):
            place.chmod(0o755)
        for file in room.iterdir():
            file.chmod(0o644)
        yield Path(folder)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("words", [(), ("/bin/cat",)])
def test_the_lock_holds_for_root_and_for_an_ordinary_user(
    copied: Path, user: int, words: tuple[str, ...]
) -> None:
    """X1: every layer, whichever user the host runs as."""
    done = subprocess.run(
        [PYTHON, "-c", PROGRAM, *words],
        env={"PYTHONPATH": str(copied)},
        cwd="/",
        user=user if os.getuid() != user else None,
        group=user if os.getuid() != user else None,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == [user, []], done.stderr
