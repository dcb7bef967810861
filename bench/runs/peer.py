"""DBOS beside us: an environment of its own, made once, and a program that takes orders.

The environment is made with the pip this machine is set up with and is kept below the bench's
folder; it is no part of Duly's own, and no test needs it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import Slice

VERSION = "3.3.0"
PROGRAM = Path(__file__).with_name("dbos_program.py")


class Peer:
    """The peer's program, waiting for orders."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """Which process it is."""
        return self._process.pid

    def run(self, callers: int, seconds: float) -> Slice:
        """Take one slice in threads and one in tasks; return the better of the two."""
        both = [
            self._order(callers=callers, seconds=seconds / 2, is_async=is_async)
            for is_async in (False, True)
        ]
        slices = [Slice(each["count"], each["wall_s"], each["cpu_s"], 0) for each in both]
        return max(slices, key=lambda each: each.per_s)

    def latencies_ms(self, times: int) -> list[float]:
        """Return how long it takes to begin a workflow when nothing else happens."""
        found: list[float] = self._order(times=times)
        return found

    def _order(self, **order: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"The peer ended without an answer:\n{self._log.read_text()}")
        return json.loads(answer)


def prepare(folder: Path) -> Path:
    """Make the peer's environment, if it is not there; return its Python."""
    home = folder / f"dbos-{VERSION}"
    python = home / "bin" / "python"
    ready = home / "ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        install = ["-m", "pip", "install", "--quiet", "--quiet", f"dbos=={VERSION}"]
        subprocess.run([python, *install], check=True)
        ready.touch()
    return python


@contextmanager
def started(python: Path, folder: Path) -> Iterator[Peer]:
    """Start the peer with its database in a folder, and end it afterwards."""
    path = folder / "dbos.log"
    with path.open("w") as log:
        process = subprocess.Popen(
            [python.absolute(), PROGRAM],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        with process:
            yield Peer(process, path)
            assert process.stdin is not None
            process.stdin.close()
