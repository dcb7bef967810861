"""`python -m verification`: what it says and how it ends."""

from __future__ import annotations

import json
import re

import pytest

from tests.verification.test_planted import FOUND
from verification import __main__ as command
from verification import survey
from verification.workflow import planted
from verification.workflow.run import run
from verification.workflow.unkind import from_seed


def test_seeds_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Schedules, speed, medians and points, and no bar where nobody watches."""
    assert command.main(["--seeds", "12", "--from", "100"]) == 0
    told = capsys.readouterr()
    assert re.search(r"12 schedules, \d+\.\d per second and core", told.out)
    assert "different points reached" in told.out
    assert "0 went wrong" in told.out
    assert told.err == ""


def test_summary_is_the_same_in_two_processes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How the work is divided changes nothing that is counted."""
    monkeypatch.setattr(survey, "SEEDS_AT_ONCE", 4)
    told = []
    for jobs in ("1", "2"):
        assert command.main(["--seeds", "12", "--jobs", jobs, "--json"]) == 0
        counted = json.loads(capsys.readouterr().out)
        del counted["per_second_per_core"]
        told.append(counted)
    assert told[0] == told[1]
    assert told[0]["schedules"] == 12
    assert told[0]["failures"] == []


def test_one_seed_is_told_with_its_hash(capsys: pytest.CaptureFixture[str]) -> None:
    """One seed, one trace, numbered."""
    assert command.main(["--seed", "8"]) == 0
    plain = capsys.readouterr().out
    assert plain.startswith("1: 0.")
    assert command.main(["--seed", "8", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["hash"] in plain
    assert told["problems"] == []


def test_story_that_goes_wrong_is_told_small(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1, and a trace a person can read."""
    bug = next(each for each in planted.BUGS if each.name == "applied-begins-afresh")
    with planted.planted(bug):
        seeds = (FOUND[bug.name], *planted.seeds_of(0))
        seed = next(each for each in seeds if run(from_seed(each)).problems)
        assert command.main(["--seeds", "1", "--from", str(seed)]) == 1
    told = capsys.readouterr().out
    assert f"seed {seed} went wrong: " in told
    assert re.search(r"^\d+: \d+\.\d+ s: the host dies \(kill\) ", told, re.MULTILINE)
    assert re.search(r"^  => ", told, re.MULTILINE)
    assert "1 went wrong" in told


def test_bar_is_shown_to_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person who watches sees how far it is."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert command.main(["--seeds", "2"]) == 0
    assert "1/1" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [[], ["--seeds", "0"], ["--seeds", "1", "--exhaustive"]])
def test_wrong_use_is_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, and what can be said."""
    with pytest.raises(SystemExit) as refused:
        command.main(wrong)
    assert refused.value.code == 2
    assert "usage: python -m verification" in capsys.readouterr().err
