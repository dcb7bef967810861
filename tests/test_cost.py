"""The costs of the tests are processor time, also of the processes a test has waited for."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cost import Costs, folder, spent_s, table

BUSY = "import time\nwhile time.process_time() < 0.2:\n    pass"


def test_a_process_a_test_has_waited_for_is_part_of_its_cost() -> None:
    before_s = spent_s()
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    assert spent_s() - before_s >= 0.15  # the system counts in hundredths


def test_waiting_costs_nothing_and_computing_does() -> None:
    costs: Any = Costs(None)
    report = SimpleNamespace(nodeid="tests/store/test_x.py::test_y", duration=3.0)
    for work in (lambda: None, lambda: sum(range(5_000_000))):
        costs._before_s = spent_s()
        work()
        making = costs.pytest_runtest_makereport()
        next(making)
        with pytest.raises(StopIteration):
            making.send(report)
        costs.pytest_runtest_logreport(report)
    assert 0.02 < costs.of_tests[report.nodeid] < 3.0
    assert costs.walls[report.nodeid] == 6.0


def test_a_test_belongs_to_its_folder_or_to_its_file() -> None:
    assert folder("tests/bus/extension/test_loader.py::test_x[a::b]") == "tests/bus"
    assert folder("tests/test_house.py::test_types_are_strict") == "tests/test_house.py"


def test_the_dearest_come_first() -> None:
    assert table({"a": 1.0, "b": 3.0, "c": 2.0}, shown=2) == ["     3.00  b", "     2.00  c"]
