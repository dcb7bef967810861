"""A commit leaves some cases of some tests to other commits, and together they run every case."""

from __future__ import annotations

import re
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from tests import pace, spread
from tests.house import ROOT
from tests.pace import KINDS, SHARE_OF, left_out

COMMITS = range(1000, 1012)


@pytest.fixture(autouse=True)
def paced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let three made-up tests leave cases out, one of them a whole file."""
    shares = {"tests/a.py::test_third": 3, "tests/b.py": 4, "tests/c.py::test_kinds": 4}
    monkeypatch.setattr(pace, "SHARE_OF", shares)
    monkeypatch.setattr(pace, "KINDS", {"tests/c.py::test_kinds": r"^[a-z]+"})


def run_by(names: list[str], commit: int) -> list[str]:
    gone = left_out(names, commit)
    assert gone <= set(names)
    return [name for name in names if name not in gone]


@pytest.mark.parametrize(("test", "share"), [("a.py::test_third", 3), ("b.py::test_x", 4)])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 100])
def test_as_many_commits_as_the_share_run_every_case(test: str, share: int, count: int) -> None:
    names = [f"tests/{test}[{number}]" for number in range(count)]
    runs = [run_by(names, commit) for commit in COMMITS]
    for begin in range(len(COMMITS) - share + 1):
        assert {name for run in runs[begin : begin + share] for name in run} == set(names)
    assert {len(run) for run in runs} == {-(-count // share)}
    assert runs[0] == run_by(names, COMMITS[0]), "a run that failed fails again"
    assert count < share or any(one != other for one, other in pairwise(runs))


def test_neighbours_are_not_chosen_in_step() -> None:
    """Of cases in two languages, or on two stores, a commit never runs those of one alone."""
    names = [f"tests/b.py::test_x[{number}-{way}]" for number in range(100) for way in "ab"]
    for commit in COMMITS:
        run = run_by(names, commit)
        assert 10 <= sum(name.endswith("-a]") for name in run) <= 40


def test_each_kind_has_a_case_in_each_commit() -> None:
    names = [f"tests/c.py::test_kinds[{kind}.{n}]" for kind in ("x", "yy", "z") for n in range(5)]
    names.append("tests/c.py::test_kinds[rare.1]")
    for commit in COMMITS:
        run = run_by(names, commit)
        assert {name.partition("[")[2].partition(".")[0] for name in run} == {
            "x",
            "yy",
            "z",
            "rare",
        }
        assert len(run) == 3 * 2 + 1


def test_what_does_not_stand_in_the_table_is_never_left_out() -> None:
    names = ["tests/a.py::test_third", "tests/b.py::test_x", "tests/bb.py::test_x[1]"]
    names += [f"tests/a.py::test_third_more[{number}]" for number in range(9)]
    assert all(left_out(names, commit) == set() for commit in COMMITS)


@pytest.mark.parametrize(
    ("some", "every", "count"), [("1", "", 1), ("", "", 3), ("1", "1", 3), ("", "1", 3)]
)
def test_a_run_that_does_not_ask_for_less_collects_every_case(
    monkeypatch: pytest.MonkeyPatch, some: str, every: str, count: int
) -> None:
    """What is left out is not collected: it counts neither as passed nor as skipped."""
    monkeypatch.setenv("TEST_SOME", some)
    monkeypatch.setenv("TEST_EVERY_CASE", every)
    told: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: told.extend(items))
    items: list[Any] = [SimpleNamespace(nodeid=f"tests/a.py::test_third[{n}]") for n in range(3)]
    config: Any = SimpleNamespace(hook=hook)
    spread.pytest_collection_modifyitems(config, items)
    assert (len(items), len(told)) == (count, 3 - count)


@pytest.mark.parametrize("name", sorted({*SHARE_OF, *KINDS}))
def test_every_test_of_the_table_is_there_and_has_cases(name: str) -> None:
    """A test that was renamed would run whole again, and nobody would notice."""
    file, _, test = name.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    if test:
        assert re.search(rf"^(async )?def {test}\(", text, re.MULTILINE)
    assert "parametrize" in text or "params=" in text
    assert name in SHARE_OF, "only what is left out needs kinds"
