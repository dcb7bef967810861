"""The checks between two edits: format, lint, types, layers, and the tests nearest to the change.

Law 1: it takes half a minute on two idle cores once the type checker's daemon runs: each of two
       processes begins no test after `CPU_S` of processor time, however busy the machine is. How
       many were not begun is printed, and `make test` runs them. If none was begun, that is wrong.
Law 2: the nearest tests come first: test files that changed, then those named like a changed
       module, then the rooms that changed. What changed is what git sees against `main`.
Law 3: what is long (`order.MARKS`) never runs here.
Law 4: no step waits for ever. One that is not over after `LIMIT_S` is ended with all its processes,
       and its name is printed. No step reads from the terminal.

    make quick                        everything above
    python -m tests.quick --commit    no tests; what `make hook` puts before every commit
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, Self

import pytest
from _pytest.outcomes import Skipped

from tests.cost import spent_s
from tests.house import ROOT
from tests.order import MARKS

CPU_S: Final = 22.0  # of 30; the tools and the last tests that are begun take the rest
LIMIT_S: Final = 600.0  # twenty times what the slowest step takes; only one that hangs meets it
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

# What also ends a daemon that hangs; the next `make quick` starts another.
DAEMONS: Final = {"types": ("dmypy", "kill")}


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
    with ExitStack() as steps:
        tools = [steps.enter_context(Step(name, *words)) for name, words in TOOLS.items()]
        status = 0
        if "--commit" not in words:
            nearest = nearest_tests(changed_files())
            said = ", ".join(nearest) or "nothing but the house and the rules"
            print("Nearest:", said, flush=True)
            status = steps.enter_context(_start_tests(nearest)).finish()
        for tool in tools:
            status = tool.finish() or status
    print(f"{'Wrong' if status else 'Well'} after {time.monotonic() - begun_s:.0f} s.")
    return status


class Step:
    """One program of `make quick`: started, waited for within its time, and never left behind."""

    def __init__(
        self,
        name: str,
        *words: str,
        limit_s: float = LIMIT_S,
        env: Mapping[str, str] | None = None,
        is_shown: bool = False,
    ) -> None:
        self._name = name
        self._limit_s = limit_s
        # A file and no pipe: a daemon that the program leaves behind could hold a pipe open.
        self._out = None if is_shown else TemporaryFile("w+")  # noqa: SIM115  closed in __exit__
        self._begun_s = time.monotonic()
        # In a session of its own, so that it can be ended together with what it started.
        self._child = subprocess.Popen(
            [str(Path(sys.executable).with_name(words[0])), *words[1:]],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT if self._out else None,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )

    def finish(self) -> int:
        """Wait for the end, print what a failed tool wrote, and return its exit status."""
        status, word = 1, ""
        try:
            status = self._child.wait(max(0.0, self._begun_s + self._limit_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            word = f"Ended after {self._limit_s:.0f} s: it hangs, or this machine is very busy.\n"
            self._kill()
            if self._name in DAEMONS:
                Step(self._name, *DAEMONS[self._name], is_shown=True).finish()
        if status and (self._out or word):
            print(f"--- {self._name}\n{self._read()}{word}", end="", flush=True)
        return status

    def _read(self) -> str:
        if self._out is None:
            return ""
        self._out.seek(0)
        return self._out.read()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End what is still running, also after Ctrl-C."""
        if self._child.poll() is None:
            self._kill()
        if self._out is not None:
            self._out.close()


def _start_tests(nearest: Sequence[str]) -> Step:
    marks = " and ".join(f"not {mark}" for mark in MARKS)
    return Step(
        *("tests", "python", "-m", "pytest", "-n", "2", "-p", "tests.quick", "-m", marks),
        *dict.fromkeys([*nearest, *ALWAYS]),
        *(f"--deselect={each}" for each in NOT_HERE),
        env={NEAREST: "\n".join(nearest)},
        is_shown=True,
    )


def _git(*words: str) -> list[str]:
    try:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:  # no git here: nothing is known to have changed
        return []
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
