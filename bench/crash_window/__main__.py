"""Kill each program before and after its effect, start it again, and count the effects.

    python -m bench.crash_window            # prints the table
    python -m bench.crash_window --write    # and keeps it for the pages

Every peer gets a virtual environment of its own in a temporary folder, installed by pip from the
index this machine's pip is set up for. What the table says was counted in the file the effects
are written to; the last column is what the program itself says about the work.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL

from bench.crash_window.figures import HEADER, Counted, Row, keep

ROOT = Path(__file__).parents[2]
PACKAGE = "bench.crash_window"
PLACES = ("before", "after")
AGAIN = "nowhere"  # the task is queued, and no process dies
PROCESS_S = 120.0
HUEY_QUIET_S = 20.0  # twice the longest pause of its consumer between two looks


@dataclass(frozen=True, slots=True)
class Subject:
    """A program, and what the service can do for it."""

    label: str
    package: str
    is_keyed: bool = False
    is_looked_up: bool = False
    is_queued_again: bool = False
    tool: str = ""


SUBJECTS = (
    Subject("Duly, the service can be asked", "duly", tool="asked"),
    Subject("Duly, the service writes a key once", "duly", is_keyed=True, tool="keyed"),
    Subject("Duly, no key and no way to ask", "duly", tool="silent"),
    Subject("DBOS, a step with retries", "dbos"),
    Subject("DBOS at its best: the service writes a key once", "dbos", is_keyed=True),
    Subject("DBOS at its best: one attempt and a look-up before it", "dbos", is_looked_up=True),
    Subject("huey, a task with retries", "huey"),
    Subject(
        "huey at its best: a key once, queued again by you",
        "huey",
        is_keyed=True,
        is_queued_again=True,
    ),
    Subject(
        "huey at its best: a look-up, queued again by you",
        "huey",
        is_looked_up=True,
        is_queued_again=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Count:
    """What was counted after one death and one restart."""

    effects: int
    said: str


@dataclass(frozen=True, slots=True)
class Trial:
    """One subject in one folder of its own."""

    subject: Subject
    python: Path
    folder: Path

    def run(self, place: str) -> Count:
        """Let it die at a place, start it again, and count."""
        if self.subject.package == "huey":
            self._huey(place)
        else:
            program = [str(self.python), "-m", f"{PACKAGE}.{self.subject.package}_program"]
            self._die(program, place)
            self._run(program, "")
        book, said = self.folder / "book.txt", self.folder / "said.txt"
        effects = len(book.read_text(encoding="utf-8").split()) if book.exists() else 0
        return Count(effects, said.read_text(encoding="utf-8"))

    def _huey(self, place: str) -> None:
        """Queue the task, let the consumer die, give another one time, and look at the queue."""
        program = [str(self.python), "-m", f"{PACKAGE}.huey_program"]
        consumer = [str(self.python.parent / "huey_consumer"), f"{PACKAGE}.huey_task.huey"]
        self._run(program, place)
        self._die(consumer, place)
        if self.subject.is_queued_again:
            self._run(program, AGAIN)
        with subprocess.Popen(
            consumer, cwd=self.folder, env=self._environment(""), stderr=subprocess.DEVNULL
        ) as second:
            try:
                second.wait(timeout=HUEY_QUIET_S)
            except subprocess.TimeoutExpired:
                second.terminate()
        self._run(program, "")

    def _die(self, command: Sequence[str], place: str) -> None:
        done = self._start(command, place)
        if done.returncode != -SIGKILL:
            raise SystemExit(f"{command} should have died, and did not: {done.stderr[-2000:]}")

    def _run(self, command: Sequence[str], place: str) -> None:
        done = self._start(command, place)
        if done.returncode != 0:
            raise SystemExit(f"{command} failed: {done.stderr[-2000:]}")

    def _start(self, command: Sequence[str], place: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self._environment(place),
            capture_output=True,
            text=True,
            timeout=PROCESS_S,
            check=False,
        )

    def _environment(self, place: str) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CRASH_WINDOW_FOLDER": str(self.folder),
            "CRASH_WINDOW_PLACE": place,
            "CRASH_WINDOW_KEYED": "1" if self.subject.is_keyed else "",
            "CRASH_WINDOW_LOOKED_UP": "1" if self.subject.is_looked_up else "",
            "DULY_TOOL": self.subject.tool,
        }


def install(package: str, folder: Path) -> Path:
    """Give a peer an environment of its own; Duly has the one this bench runs in."""
    if package == "duly":
        return Path(sys.executable)
    place = folder / f"environment-{package}"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--quiet", package]
    subprocess.run(command, check=True)
    return python


def version_of(package: str, python: Path) -> str:
    """Ask an environment which version it has."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def show(rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADER))]
    for row in rows:
        print(
            "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        )


def count() -> Counted:
    """Kill every program at every place."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="crash-window-") as name:
        folder = Path(name)
        pythons = {package: install(package, folder) for package in ("duly", "dbos", "huey")}
        versions = {package: version_of(package, each) for package, each in pythons.items()}
        for number, subject in enumerate(SUBJECTS):
            found = {}
            for place in PLACES:
                own = folder / f"{number}-{place}"
                own.mkdir()
                found[place] = Trial(subject, pythons[subject.package], own).run(place)
            before, after = (found[place] for place in PLACES)
            version = versions[subject.package]
            rows.append(Row(subject.label, version, before.effects, after.effects, after.said))
    today = datetime.now(UTC).date().isoformat()
    return Counted(today, platform.python_version(), platform.system(), tuple(rows))


def main(words: Sequence[str]) -> None:
    """Count, print one table, and keep it if that is wanted."""
    counted = count()
    show([HEADER, *(each.cells for each in counted.rows)])
    if "--write" in words:
        keep(counted)


if __name__ == "__main__":
    main(sys.argv[1:])
