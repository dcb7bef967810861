"""How long until it is there? Packages and seconds of an installation, beside DBOS.

    python -m bench.install            # a minute or so; needs an index to install from
    python -m bench.install --rounds 3

Each round gives each of them a virtual environment of its own and an empty cache, one after the
other, by the pip of this Python and from the index it is set up for. Duly is the wheel of this
tree; making it is not counted, and neither is making an environment.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES_MAX = 34  # beside Duly, on Linux
ELSEWHERE = frozenset({"httpx2-jsfetch"})  # in the lock file for another platform
PEERS = ("dbos",)
OWN = frozenset({"pip", "setuptools", "wheel"})  # what an empty environment has already
COLUMNS = ("program", "version", "packages", "MB", "seconds", "processor")


@dataclass(frozen=True, slots=True)
class Installed:
    """One installation: what came, how much room and how much time it takes."""

    version: str
    packages: int
    size_bytes: int
    took_s: float
    cpu_s: float


def build(folder: Path) -> Path:
    """Make the wheel of this tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(name: str, requirement: str, folder: Path) -> Installed:
    """Install a package and all it needs into an empty environment, from an empty cache."""
    place = folder / "environment"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    before_bytes = _size_bytes(place)
    environ = {
        **os.environ,
        "PIP_CACHE_DIR": str(folder / "cache"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    environ.pop("PYTHONPATH", None)
    pip = [str(python), "-m", "pip"]
    began, before_s = time.perf_counter(), _cpu_s()
    subprocess.run([*pip, "install", "--quiet", "--quiet", requirement], env=environ, check=True)
    took_s, cpu_s = time.perf_counter() - began, _cpu_s() - before_s
    listed = subprocess.run(
        [*pip, "list", "--format", "json"], env=environ, check=True, capture_output=True, text=True
    )
    versions = {each["name"]: each["version"] for each in json.loads(listed.stdout)}
    return Installed(
        version=versions[name],
        packages=len(versions.keys() - OWN),
        size_bytes=_size_bytes(place) - before_bytes,
        took_s=took_s,
        cpu_s=cpu_s,
    )


def _cpu_s() -> float:
    """Return the processor time of all children that have ended."""
    return sum(os.times()[2:4])


def _size_bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def closure(lock: Mapping[str, Any], name: str = "duly") -> set[str]:
    """Name a package and all that it needs, as the lock file says, on any machine."""
    needs = {
        each["name"]: [dependency["name"] for dependency in each.get("dependencies", ())]
        for each in lock["package"]
    }
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += needs[each]
    return found


def locked() -> set[str]:
    """Read the closure of Duly from the lock file."""
    return closure(tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8")))


def show(rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
    for row in rows:
        print(
            "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        )


def main() -> None:
    """Install each as often as the arguments say, in turns, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    rows: list[tuple[str, ...]] = [COLUMNS]
    with tempfile.TemporaryDirectory(prefix="install-") as name:
        folder = Path(name)
        subjects = {"duly": str(build(folder)), **{each: each for each in PEERS}}
        taken: dict[str, list[Installed]] = {each: [] for each in subjects}
        for number in range(rounds):
            for package, requirement in subjects.items():
                own = folder / f"{package}-{number}"
                own.mkdir()
                taken[package].append(install(package, requirement, own))
        for package, all_of_it in taken.items():
            seconds = statistics.median(each.took_s for each in all_of_it)
            one = all_of_it[-1]
            cpu_s = statistics.median(each.cpu_s for each in all_of_it)
            figures = (str(one.packages), f"{one.size_bytes / 1e6:.0f}")
            rows.append((package, one.version, *figures, f"{seconds:.1f}", f"{cpu_s:.1f}"))
    show(rows)
    others = len(locked() - ELSEWHERE - {"duly"})
    print(f"The lock file has {others} packages beside Duly; {PACKAGES_MAX} is the limit.")


if __name__ == "__main__":
    main()
