"""`make quick` chooses the tests nearest to a change, and says what it left out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import quick
from tests.order import FIRST, MARKS, marks


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("engine/test_ledger.py", "engine/test_ledger_seal.py", "engine/test_other.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).touch()
    (tmp_path / "tests" / "test_config.py").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        (["docs/rules.md", "README.md"], []),
        (["src/duly/config.py"], ["tests/test_config.py"]),
        (["src/duly/nowhere/x.py"], []),
        (["tests/engine/stand.py"], ["tests/engine"]),
        (["tests/engine/test_gone.py"], ["tests/engine"]),
        (
            ["src/duly/engine/ledger.py", "tests/engine/test_other.py"],
            [
                *["tests/engine/test_other.py", "tests/engine/test_ledger.py"],
                *["tests/engine/test_ledger_seal.py", "tests/engine"],
            ],
        ),
    ],
)
def test_the_nearest_tests_come_first(tree: Path, changed: list[str], chosen: list[str]) -> None:
    assert quick.nearest_tests(changed, tree) == chosen


def test_what_was_chosen_nearest_is_begun_first_and_nothing_when_the_time_is_used_up() -> None:
    names = ["tests/rules/test_a.py::t", "tests/engine/test_b.py::t", "tests/engine/test_c.py::t"]
    items: Any = [SimpleNamespace(nodeid=name) for name in names]
    chosen = quick.Quick(["tests/engine/test_c.py", "tests/engine"], cpu_s=1e9)
    chosen.pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == names[::-1]
    assert chosen.pytest_runtest_protocol() is None
    assert quick.Quick([], cpu_s=0.0).pytest_runtest_protocol() is True


def test_how_many_tests_were_not_begun_is_said() -> None:
    said: list[str] = []
    report: Any = SimpleNamespace(nodeid="tests/rules/test_a.py::t")
    reporter: Any = SimpleNamespace(write_line=said.append)
    chosen = quick.Quick([])
    chosen.pytest_xdist_node_collection_finished(["tests/rules/test_a.py::t", "other"])
    chosen.pytest_runtest_logreport(report)
    chosen.pytest_terminal_summary(reporter)
    assert said == ["1 tests not begun in time; `make test` runs them."]


def test_every_mark_names_tests_that_exist() -> None:
    for names in MARKS.values():
        for name in names:
            place = quick.ROOT / name.partition("::")[0]
            assert list(place.parent.glob(f"{place.name}*")), name
    assert marks(FIRST[0]) == ["slow"]
    assert marks("tests/fire/test_kill.py::t") == ["slow", "fire"]
    assert marks("tests/rules/test_a.py::t") == []
