"""The checks between two edits: format, lint, types, layers, and the tests nearest to the change.

Law 1: it takes half a minute on two idle cores once the type checker's daemon runs: each of two
       processes begins no test after `CPU_S` of processor time, however busy the machine is. How
       many were not begun is printed, and `make test` runs them. If none was begun, that is wrong.
Law 2: the nearest tests come first: test files that changed, then those named like a changed
       module, then the rooms that changed. What changed is what git sees against `main`.
Law 3: what is long (`order.MARKS`) never runs here.

    make quick                        everything above
    python -m tests.quick --commit    no tests; what `make hook` puts before every commit
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest
from _pytest.outcomes import Skipped

from tests.cost import spent_s
from tests.house import ROOT
from tests.order import MARKS

CPU_S: Final = 22.0  # of 30; the tools and the last tests that are begun take the rest
BASE: Final = "main"
NEAREST: Final = "QUICK_NEAREST"  # not DULY_: those are settings of a host
ALWAYS: Final = ("tests/test_house.py", "tests/test_rules_map.py", "tests/rules")
# Those that run the tools are left to the tools themselves.
NOT_HERE: Final = (
    "tests/test_house.py::test_types_are_strict",
    "tests/test_house.py::test_a_function_without_types_is_caught",
    "tests/test_house.py::test_format_is_the_house_format",
    "tests/test_house.py::test_lint_has_nothing_to_say",
    "tests/test_house.py::test_rooms_import_downward_only",
    "tests/test_house.py::test_every_python_example_of_the_docs_runs",
    "tests/rules/test_schedule_cron.py",
    "tests/rules/test_schedule_due.py",
)
TOOLS: Final = {
    "format": ("ruff", "format", "--check", "."),
    "lint": ("ruff", "check", "--output-format=concise", "."),
    "layers": ("lint-imports", "--no-logo"),
    "types": ("dmypy", "run"),
}


def changed_files() -> list[str]:
    """List what differs from the base: committed, not committed, or not yet known to git."""
    base = _git("merge-base", "HEAD", BASE) or ["HEAD"]
    return sorted({*_git("diff", "--name-only", base[0]), *_git("ls-files", "-o", "-X.gitignore")})


def nearest_tests(changed: Iterable[str], root: Path = ROOT) -> list[str]:
    """Choose test files and folders for changed files, the nearest first (law 2)."""
    tests, named, rooms = [], [], []
    for path in map(Path, changed):
        place = path.parts
        if place[0] == "tests" and path.name.startswith("test_") and (root / path).exists():
            tests.append(str(path))
        elif place[:2] == ("src", "duly") and path.suffix in (".py", ".js", ".sql"):
            room = root / "tests" / place[2] if len(place) > 3 else root / "tests"
            if room != root / "tests" and room.is_dir():
                rooms.append(str(room.relative_to(root)))
            found = sorted(room.glob(f"test_{path.stem}*.py"))
            named += [str(each.relative_to(root)) for each in found]
        elif place[0] == "tests" and len(place) > 2 and (root / "tests" / place[1]).is_dir():
            rooms.append(f"tests/{place[1]}")
    return list(dict.fromkeys([*tests, *named, *rooms]))


def main(words: Sequence[str]) -> int:
    """Run the tools beside each other, then the tests; return 0 if nothing is wrong."""
    begun_s = time.monotonic()
    tools = {name: _start(*command) for name, command in TOOLS.items()}
    status = 0
    if "--commit" not in words:
        nearest = nearest_tests(changed_files())
        print("Nearest:", ", ".join(nearest) or "nothing but the house and the rules", flush=True)
        status = _run_tests(nearest)
    for name, child in tools.items():
        said, _ = child.communicate()
        if child.returncode:
            print(f"--- {name}\n{said}", end="")
            status = status or child.returncode
    print(f"{'Wrong' if status else 'Well'} after {time.monotonic() - begun_s:.0f} s.")
    return status


def _run_tests(nearest: Sequence[str]) -> int:
    marks = " and ".join(f"not {mark}" for mark in MARKS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-p", "tests.quick", "-m", marks]
        + [*dict.fromkeys([*nearest, *ALWAYS])]
        + [f"--deselect={each}" for each in NOT_HERE],
        cwd=ROOT,
        env={**os.environ, NEAREST: "\n".join(nearest)},
        check=False,
    )
    return done.returncode


def _start(tool: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(Path(sys.executable).with_name(tool)), *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


# -- The plugin of the tests -----------------------------------------------------------------------


class Quick:
    """Begins the nearest tests first, and none when its time is used up (laws 1 and 2)."""

    def __init__(self, nearest: Sequence[str], cpu_s: float = CPU_S) -> None:
        self._cpu_s = cpu_s
        self._nearest = nearest
        self._begun = 0
        self._left_out = 0

    def _rank(self, item: pytest.Item) -> int:
        places = range(len(self._nearest))
        found = (place for place in places if item.nodeid.startswith(self._nearest[place]))
        return next(found, len(self._nearest))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort what was collected; the house and the rules come after the change's own tests."""
        items.sort(key=self._rank)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Leave a test out once the time is used up: it is neither passed nor failed."""
        if spent_s() > self._cpu_s:
            raise Skipped("no time left")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what was begun and what was left out."""
        if report.when == "setup":
            self._left_out += report.skipped
            self._begun += not report.skipped

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Call it wrong if no test was begun (law 1)."""
        if self._left_out and not self._begun:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many tests were not begun."""
        if self._left_out:
            left = f"{self._left_out} tests not begun in time; `make test` runs them."
            terminalreporter.write_line(left)


def pytest_configure(config: pytest.Config) -> None:
    """Take part where `make quick` started this run."""
    if NEAREST in os.environ:
        nearest = [each for each in os.environ[NEAREST].split("\n") if each]
        config.pluginmanager.register(Quick(nearest), "quick")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
