"""Programs that take orders: Duly in each language, DBOS, Restate and huey.

Law: every program runs in a process of its own and is given the same orders, one line of JSON each;
it replies with what it did and what that cost. Peers have environments of their own, made once with
the pip and the npm that this machine is set up with and kept below the bench's folder. They are no
part of Duly's own environment, and no test needs them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import Slice

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DBOS_VERSION = "3.3.0"
HUEY_VERSION = "3.5.4"
PROCRASTINATE_VERSION = "3.10.0"
RESTATE_VERSION = "1.7.12"
RESTATE_SDK_VERSION = "1.14.5"  # the last that runs on Node.js 20
END_S = 30.0


@dataclass(frozen=True, slots=True)
class Program:
    """How to start a program, and what its rows are called."""

    name: str
    command: tuple[str | Path, ...]


class Peer:
    """A program that was started and waits for orders."""

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    def slice(self, **order: object) -> Slice:
        """Order some work; return what was done and what it cost."""
        return Slice(**self._order(order))

    def latencies_ms(self, times: int, **order: object) -> list[float]:
        """Return how long it takes to begin when nothing else happens."""
        found: list[float] = self._order({"times": times, **order})
        return found

    def _order(self, order: dict[str, object]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        if not reply:
            raise RuntimeError(f"{self.name} ended without a reply:\n{self._log.read_text()}")
        return json.loads(reply)


def duly(language: str) -> Program:
    """Return this tree's own program for one language."""
    command = (sys.executable, "-m", "bench.runs.duly_program", language)
    return Program(f"Duly, {language}", command)


def dbos(folder: Path) -> Program:
    """Make DBOS's environment, if it is not there."""
    python = make_python(folder / f"dbos-{DBOS_VERSION}", f"dbos=={DBOS_VERSION}")
    return Program(f"DBOS {DBOS_VERSION}", (python, HERE / "dbos_program.py"))


def huey(folder: Path) -> Program:
    """Make huey's environment, if it is not there."""
    python = make_python(folder / f"huey-{HUEY_VERSION}", f"huey=={HUEY_VERSION}")
    return Program(f"huey {HUEY_VERSION}", (python, HERE / "huey_program.py"))


def restate(folder: Path) -> Program:
    """Fetch Restate's server and library, if they are not there; both need Node.js."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise FileNotFoundError("Node.js with npm is not there")
    home = folder / f"restate-{RESTATE_VERSION}"
    ready = home / "ready"
    if not ready.exists():
        home.mkdir(parents=True, exist_ok=True)
        names = (f"restate-server@{RESTATE_VERSION}", f"restate-sdk@{RESTATE_SDK_VERSION}")
        # Scripts of packages are not run: one of them would report the installation.
        told = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        packages = [f"@restatedev/{each}" for each in names]
        subprocess.run([npm, "install", "--prefix", home, *told, *packages], check=True, stdout=2)
        ready.touch()
    command = (node, HERE / "restate_program.mjs", home.absolute())
    return Program(f"Restate {RESTATE_VERSION}", command)


MAKERS = {"DBOS": dbos, "Restate": restate, "huey": huey}


def prepare(names: Sequence[str], folder: Path) -> tuple[list[Program], list[str]]:
    """Return the peers that can be measured here, and why the others cannot."""
    programs, notes = [], []
    for name in names:
        try:
            programs.append(MAKERS[name](folder))
        except (OSError, subprocess.CalledProcessError) as error:
            notes.append(f"{name} is not measured: {error}.")
    return programs, notes


@contextmanager
def started(program: Program, folder: Path) -> Iterator[Peer]:
    """Start a program with its files in a folder, and end it and its children afterwards."""
    path = folder / f"{program.name.split(' ')[-1]}.log"
    search = os.pathsep.join(each for each in (str(ROOT), os.environ.get("PYTHONPATH")) if each)
    with path.open("w") as log:
        process = subprocess.Popen(
            program.command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": search},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # so that its children can be ended with it
        )
        try:
            yield Peer(program.name, process, path)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def make_python(home: Path, requirement: str) -> Path:
    """Make an environment with one package, if it is not there; return its Python."""
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        install = ["-m", "pip", "install", "--quiet", "--quiet", requirement]
        subprocess.run([python, *install], check=True)
        ready.touch()
    return python.absolute()
