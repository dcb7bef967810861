"""A few days of a laptop, and what the scenario itself must be able to see."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from verification import __main__ as command
from verification import weeks, weeks_world
from verification.weeks import FULL, SHORT, Plan, run, wrong
from verification.workflow.planted import BUGS, planted


def test_laptop_is_left_alone_for_days() -> None:
    """F2, R7, S2: nothing twice, nothing lost, no needless question, and soon caught up."""
    report = run(SHORT)
    assert wrong(SHORT, report) == ()
    assert report.changes >= SHORT.changes
    assert report.lives == 1 + SHORT.crashes + len(SHORT.upgrades)
    assert report.returns >= SHORT.days


def test_what_goes_wrong_is_said() -> None:
    """Each number that is not as it must be has its sentence."""
    fine = weeks.Report(
        changes=1,
        twice=(),
        lost=(),
        questions=(),
        unfinished=(),
        digests=SHORT.days + 2,
        slowest_s=1.0,
        returns=1,
        crashes=SHORT.crashes,
        lives=1,
        cpu_s=1.0,
        problems=(),
    )
    assert wrong(SHORT, fine) == ()
    assert wrong(SHORT, replace(fine, twice=("a",))) != ()
    assert wrong(SHORT, replace(fine, lost=("a",))) != ()
    assert wrong(SHORT, replace(fine, questions=("?",) * 3)) != ()
    assert wrong(SHORT, replace(fine, unfinished=("run a",))) != ()
    assert wrong(SHORT, replace(fine, slowest_s=601.0)) != ()
    assert wrong(SHORT, replace(fine, digests=SHORT.days + 3)) != ()
    assert wrong(SHORT, replace(fine, crashes=0)) != ()


@pytest.fixture
def a_day(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """One day on which most goes well, looked at every hour."""
    monkeypatch.setattr(weeks_world, "EVERY", "1h")
    return Plan(SHORT.start, 1, 40, 0, (), 0, 0, (), 0.0)


def test_scenario_sees_what_is_made_twice(a_day: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """L3: a host that makes an unknown change again is caught within a day."""
    monkeypatch.setattr(weeks_world, "ODD", 0.3)
    bug = next(each for each in BUGS if each.name == "unknown-is-not-sent")
    with planted(bug):
        assert run(a_day).twice != ()


def test_command_says_how_it_went(
    a_day: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures, the questions, and exit 1 where something is wrong."""
    monkeypatch.setattr(weeks, "FULL", a_day)
    assert command.main(["--three-weeks", "--json"]) in (0, 1)
    report = json.loads(capsys.readouterr().out)
    assert report["lost"] == report["twice"] == []
    assert len(report["questions"]) == 1
    monkeypatch.setattr(weeks, "run", lambda _: weeks.Report(**{**report_of(report), "lives": 9}))
    command.main(["--three-weeks"])
    told = capsys.readouterr().out
    assert "in 1 days and 9 lives" in told
    assert "0 made twice, 0 lost" in told
    assert "1 questions to a person:" in told


def report_of(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "wrong"}


def test_full_plan_is_what_was_promised() -> None:
    """Three weeks, five workflows, twenty thousand changes, ten crashes, two upgrades."""
    assert (FULL.days, FULL.changes, FULL.crashes, len(FULL.upgrades)) == (21, 20_000, 10, 2)
    assert len(weeks.WORKFLOWS) == 5
    assert FULL.ignored_s == 2 * weeks.DAY_S
