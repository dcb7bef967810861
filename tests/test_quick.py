"""`make quick` chooses the tests nearest to a change, and says what it left out."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.outcomes import Skipped

from tests import quick
from tests.house import ROOT
from tests.order import ALL, FIRST, marks

PATIENCE_S = 120.0


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
    chosen.pytest_runtest_setup()
    with pytest.raises(Skipped):
        quick.Quick([], cpu_s=0.0).pytest_runtest_setup()


@pytest.mark.parametrize(("begun", "status"), [(1, 0), (0, 5)])
def test_how_many_tests_were_not_begun_is_said(begun: int, status: int) -> None:
    """None begun is wrong: a run that tried nothing must not look like one that found nothing."""
    said: list[str] = []
    reporter: Any = SimpleNamespace(write_line=said.append)
    session: Any = SimpleNamespace(exitstatus=0)
    chosen = quick.Quick([])
    for is_skipped in [True] * 2 + [False] * begun:
        report: Any = SimpleNamespace(when="setup", skipped=is_skipped)
        chosen.pytest_runtest_logreport(report)
    chosen.pytest_sessionfinish(session)
    chosen.pytest_terminal_summary(reporter)
    assert said == ["2 tests not begun in time; `make test` runs them."]
    assert session.exitstatus == status


def test_a_step_that_hangs_is_ended_with_what_it_started_and_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make quick` hung once, without a word; now the word is the name of the step."""
    monkeypatch.setattr(quick, "DAEMONS", {"types": ("python", "-c", "print('daemon ended')")})
    started = tmp_path / "started"
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(started)!r}, 'w').write(str(child.pid))\n"
        "print('so far', flush=True)\n"
        "time.sleep(600)\n"
    )
    with quick.Step("types", "python", "-c", script, limit_s=600) as step:
        until(lambda: started.exists() and started.read_text() != "")
        step._limit_s = 0
        assert step.finish() == 1
    until(lambda: not is_running(int(started.read_text())))
    ended = "Ended after 0 s: it hangs, or this machine is very busy.\n"
    assert capfd.readouterr().out == f"daemon ended\n--- types\nso far\n{ended}"


def test_a_step_that_is_left_is_ended(tmp_path: Path) -> None:
    """Ctrl-C on `make quick` leaves no program behind."""
    with (
        pytest.raises(KeyboardInterrupt),
        quick.Step("lint", "python", "-c", "import time; time.sleep(600)") as step,
    ):
        raise KeyboardInterrupt
    assert step._child.returncode == -signal.SIGKILL


def test_a_step_says_what_was_wrong_and_reads_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    script = "import sys; print('asks', sys.stdin.read()); sys.exit(3)"
    with quick.Step("lint", "python", "-c", script) as step:
        assert step.finish() == 3
    with quick.Step("lint", "python", "-c", "print('well')") as step:
        assert step.finish() == 0
    assert capfd.readouterr().out == "--- lint\nasks \n"


def until(is_so: Callable[[], bool]) -> None:
    last = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < last
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_every_mark_names_tests_that_exist() -> None:
    for names in ALL.values():
        for name in names:
            place = ROOT / name.partition("::")[0]
            assert list(place.parent.glob(f"{place.name}*")), name
    assert marks(FIRST[0]) == ["slow", "process"]
    assert marks("tests/fire/test_kill.py::t") == ["slow", "fire", "process"]
    assert marks("tests/rules/test_a.py::t") == []
