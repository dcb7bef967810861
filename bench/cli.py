"""How long until a command answers? `duly --help` and `duly status`, beside git and DBOS.

    python -m bench.cli              # some ten seconds
    python -m bench.cli --rounds 20

Each command is a process of its own, started again in each round, and the best of the rounds
counts: what is left then is the program and not what else the machine did. *CPU* is the processor
time of the child, which says more on a busy machine. `duly status` asks a running host.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

GOAL_S = 0.25
WAIT_S = 60.0  # until the host listens
DULY = (sys.executable, "-m", "duly")
COLUMNS = ("command", "seconds", "CPU s", "goal s")


@dataclass(frozen=True, slots=True)
class Command:
    """One command line, and how long it may take."""

    name: str
    words: Sequence[str]
    goal_s: float | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """The best of several rounds."""

    seconds: float
    cpu_s: float


def measure(words: Sequence[str], folder: Path, rounds: int) -> Taken:
    """Run a command again and again and keep the best of each figure."""
    found: list[tuple[float, float]] = []
    for _ in range(rounds):
        before, begun = _children_s(), time.perf_counter()
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
        found.append((time.perf_counter() - begun, _children_s() - before))
    return Taken(min(each for each, _ in found), min(each for _, each in found))


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def serving(folder: Path) -> Iterator[Path]:
    """Run the host of a small project."""
    home = folder / "project"
    subprocess.run([*DULY, "init", str(home)], check=True, capture_output=True)
    host = subprocess.Popen([*DULY, "dev"], cwd=home, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + WAIT_S
        while not _is_deployed(home):
            if time.monotonic() > until or host.poll() is not None:
                raise SystemExit("The host of the bench did not come up.")
            time.sleep(0.2)
        yield home
    finally:
        host.terminate()
        host.wait(WAIT_S)


def _is_deployed(home: Path) -> bool:
    if not any(home.glob("*.socket")):
        return False
    told = subprocess.run([*DULY, "status"], cwd=home, capture_output=True, text=True, check=False)
    return "welcome" in told.stdout


def list_commands() -> list[Command]:
    """List what is measured; what is not installed is left out."""
    found = [
        Command("python -c pass", (sys.executable, "-c", "pass")),
        Command("duly --help", (*DULY, "--help"), GOAL_S),
        Command("duly status", (*DULY, "status"), GOAL_S),
        Command("duly runs", (*DULY, "runs")),
    ]
    others = [("git", ("--version",)), ("git", ("status",)), ("dbos", ("--help",))]
    for name, words in others:
        place = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
        if place is not None:
            found.append(Command(" ".join((name, *words)), (place, *words)))
    return found


def main() -> None:
    """Measure everything and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as name, serving(Path(name)) as home:
        if shutil.which("git"):
            subprocess.run(["git", "init", "-q"], cwd=home, check=True)
        print("{:16} {:>8} {:>8} {:>8}".format(*COLUMNS))
        for each in list_commands():
            taken = measure(each.words, home, rounds)
            goal = "" if each.goal_s is None else f"{each.goal_s:.2f}"
            print(f"{each.name:16} {taken.seconds:8.3f} {taken.cpu_s:8.3f} {goal:>8}")


if __name__ == "__main__":
    main()
