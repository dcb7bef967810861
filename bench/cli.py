"""How long until a command answers? `duly --help` and `duly status`, beside git and DBOS.

    python -m bench.cli              # some ten seconds
    python -m bench.cli --rounds 20

Each command is a process of its own. In each round every command is started once, so that what
else the machine does meets all of them alike; the best of the rounds counts. *CPU* is the processor
time of the child, which says more on a busy machine. *ratio* is that time over the one of the
command of git that does the like. `duly status` asks a running host. DBOS is measured where it is
installed (`pip install dbos`); it is no dependency.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

GOAL_S = 0.25
WAIT_S = 60.0  # until the host listens
DULY = (sys.executable, "-m", "duly")
COLUMNS = ("command", "seconds", "CPU s", "goal s", "ratio", "beside")


@dataclass(frozen=True, slots=True)
class Command:
    """One command line, how long it may take, and the command that it is compared with."""

    name: str
    words: Sequence[str]
    goal_s: float | None = None
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """The best of several rounds."""

    seconds: float
    cpu_s: float


def measure(commands: Sequence[Command], folder: Path, rounds: int) -> dict[str, Taken]:
    """Run all commands in turn, again and again, and keep the best of each figure."""
    found: dict[str, list[Taken]] = {each.name: [] for each in commands}
    for _ in range(rounds):
        for each in commands:
            before, begun = _children_s(), time.perf_counter()
            subprocess.run(each.words, cwd=folder, check=True, capture_output=True)
            found[each.name].append(Taken(time.perf_counter() - begun, _children_s() - before))
    return {name: _best(taken) for name, taken in found.items()}


def _best(taken: Sequence[Taken]) -> Taken:
    return Taken(min(each.seconds for each in taken), min(each.cpu_s for each in taken))


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def serving(folder: Path) -> Iterator[Path]:
    """Run the host of a small project."""
    home = folder / "project"
    subprocess.run([*DULY, "init", str(home)], check=True, capture_output=True)
    host = subprocess.Popen([*DULY, "dev", "--no-page"], cwd=home, stderr=subprocess.DEVNULL)
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
        Command("duly --help", (*DULY, "--help"), GOAL_S, "git --version"),
        Command("duly status", (*DULY, "status"), GOAL_S, "git status"),
        Command("duly runs", (*DULY, "runs"), beside="git status"),
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
        commands = list_commands()
        found = measure(commands, home, rounds)
        print("{:16} {:>8} {:>8} {:>8} {:>6}  {}".format(*COLUMNS))
        for each in commands:
            print(write_row(each, found).rstrip())


def write_row(command: Command, found: Mapping[str, Taken]) -> str:
    """Write what a command took, and how that compares."""
    taken, beside = found[command.name], found.get(command.beside)
    goal = "" if command.goal_s is None else f"{command.goal_s:.2f}"
    ratio = "" if beside is None or not beside.cpu_s else f"{taken.cpu_s / beside.cpu_s:.1f}"
    figures = f"{taken.seconds:8.3f} {taken.cpu_s:8.3f} {goal:>8} {ratio:>6}"
    return f"{command.name:16} {figures}  {command.beside if ratio else ''}"


if __name__ == "__main__":
    main()
