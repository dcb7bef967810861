"""The pytest plugin that says what the tests cost: CPU seconds, of each test and each folder.

Law: a cost is processor time of the test and of every process it waited for, never wall time. It
is therefore nearly the same on an idle machine and on a busy one. What a shared fixture costs is
counted with the first test that uses it.

    make slow                                      the dearest tests and folders of the whole suite
    python -m pytest -p tests.cost tests/store     of one folder
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

SHOWN = 40
OUTSIDE = "(start, imports, collecting)"
DEAR_S = 2.0


def spent_s() -> float:
    """Return the CPU seconds of this process and of the children it has waited for."""
    return sum(os.times()[:4])


def folder(nodeid: str) -> str:
    """Return the part of the suite a test belongs to: `tests/store`, or a file beside them."""
    path = nodeid.partition("::")[0]
    return "/".join(path.split("/")[:2])


def table(costs: Mapping[str, float], shown: int = SHOWN) -> list[str]:
    """Lay the dearest out, one to a line."""
    dearest = sorted(costs.items(), key=lambda each: -each[1])[:shown]
    return [f"{cost:9.2f}  {name}" for name, cost in dearest]


class Costs:
    """Measures each phase of each test, here or in the workers, and adds the phases up."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._before_s = spent_s()
        self._total_s = 0.0
        self.of_tests: dict[str, float] = defaultdict(float)
        self.walls: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, None, None]:
        """Begin to count: what happened between two tests is not a test's."""
        self._before_s = spent_s()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        """Write the cost of a phase on its report; reports travel from the workers as they are."""
        report = yield
        now_s = spent_s()
        report.cpu_s, self._before_s = now_s - self._before_s, now_s
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase to its test."""
        self.of_tests[report.nodeid] += getattr(report, "cpu_s", 0.0)
        self.walls[report.nodeid] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the controller what this process has spent in all."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["cpu_s"] = spent_s()
        elif not session.config.pluginmanager.hasplugin("dsession"):
            self._total_s += spent_s()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a worker has spent in all."""
        self._total_s += getattr(node, "workeroutput", {}).get("cpu_s", 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the dearest tests and what each folder costs."""
        folders: dict[str, float] = defaultdict(float)
        for nodeid, cost in self.of_tests.items():
            folders[folder(nodeid)] += cost
        folders[OUTSIDE] = max(0.0, self._total_s - sum(self.of_tests.values()))
        terminalreporter.section("CPU seconds of the dearest tests")
        terminalreporter.write("\n".join(table(self.of_tests)) + "\n")
        terminalreporter.section(f"CPU seconds: {sum(folders.values()):.0f} in all")
        terminalreporter.write("\n".join(table(folders)) + "\n")
        if self._file:
            rows = {n: [round(c, 3), round(self.walls[n], 3)] for n, c in self.of_tests.items()}
            Path(self._file).write_text(json.dumps({**rows, OUTSIDE: [folders[OUTSIDE], 0]}))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the costs be kept in a file."""
    parser.addoption("--cost-file", help="write the CPU and wall seconds of each test here as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Count in this process; the workers load the plugin too."""
    config.pluginmanager.register(Costs(config.getoption("--cost-file")), "costs")
