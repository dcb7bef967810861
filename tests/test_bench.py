"""The bench runs and prints every row; how fast it was is not judged here."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bench import crowd, report
from bench.__main__ import main
from bench.crowd import INBOX
from bench.measure import Figure, Slice, Trial
from bench.report import Section
from bench.runs import peer as peers
from bench.runs.section import _compared
from bench.store import PEEK_BYTES, open_subject
from duly.env import Loop

CALLERS = ("1 caller", "10 callers", "100 callers")
PLAIN = [f"{work}, {callers}" for work in ("runs", "publish") for callers in CALLERS]
STORE = ["yardstick run4", "yardstick publish", *PLAIN, *(f"{name}, 1,000 rows" for name in PLAIN)]
BUS = [*(f"Duly, emit, {callers}" for callers in CALLERS), "Duly, deliver to 1 subscriber"]
BUS += ["Duly, deliver to 3 subscribers"]
STEP = ["bare quickjs-ng", "JavaScript", "Python"]
LANGUAGES = ("Duly, JavaScript", "Duly, Python")


def take(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, *words: str
) -> tuple[Section, str]:
    """Run one section of the bench without peers; return its facts and what it printed."""
    main([name, "--quick", "--alone", "--json", "--folder", str(folder), *words])
    printed = capsys.readouterr().out
    (section,) = report.decode(printed.encode()).values()
    return section, printed


@pytest.mark.parametrize(("name", "rows"), [("store", STORE), ("bus", BUS), ("step", STEP)])
def test_a_section_has_every_row_and_cleans_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, rows: list[str]
) -> None:
    section, _ = take(tmp_path, capsys, name)
    assert [row.name for row in section.rows] == rows
    for row in section.rows:
        assert 0 < row.per_s_min <= row.per_s <= row.per_s_max
        assert 0 < row.ratio_min <= row.ratio <= row.ratio_max
        assert row.cpu_us > 0
    assert list(tmp_path.iterdir()) == []


def test_the_full_store_is_to_reach_most_of_what_the_small_one_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section, _ = take(tmp_path, capsys, "store")
    by_name = {row.name: row for row in section.rows}
    for name in PLAIN:
        expected = pytest.approx(0.9 * by_name[name].ratio, rel=0.01)
        assert by_name[f"{name}, 1,000 rows"].goal == expected


def test_whole_runs_are_counted_with_the_cost_of_their_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section, _ = take(tmp_path, capsys, "runs", "--workflows", "1", "3")
    assert [(row.name, row.callers) for row in section.rows] == [
        (name, workflows) for workflows in (1, 3) for name in LANGUAGES
    ]
    for row in section.rows:
        assert min(row.per_s, row.ratio, row.cpu_us, row.syncs or 0, row.children_bytes or 0) > 0
        assert row.children_us is not None
        assert row.against == {}
    assert tuple(each.name for each in section.idle) == LANGUAGES
    assert list(tmp_path.iterdir()) == []


def test_a_section_says_when_and_beside_what_it_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section, _ = take(tmp_path, capsys, "step", "--rounds", "2")
    found = section.conditions
    assert found is not None
    assert (found.rounds, 0 <= found.others <= 1) == (2, True)
    assert min(found.load_before, found.load_after) >= 0
    assert replace(found, others=0.1).is_quiet
    assert not replace(found, others=0.11).is_quiet


def test_a_section_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "no such section: speed" in capsys.readouterr().err


@pytest.mark.parametrize("part", [["--quick"], ["--alone"], ["--workflows", "3"]])
def test_a_part_of_a_section_is_not_kept(
    capsys: pytest.CaptureFixture[str], part: list[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["runs", "--write", *part])
    assert "--write keeps whole sections" in capsys.readouterr().err


def test_a_peer_that_cannot_be_had_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    programs, notes = peers.prepare(["Restate"], tmp_path)
    assert programs == []
    assert notes == ["Restate is not measured: Node.js with npm is not there."]


def test_a_program_that_ends_says_why(tmp_path: Path) -> None:
    program = peers.Program("Duly, Cobol", peers.duly("Cobol").command)
    with peers.started(program, tmp_path) as peer, pytest.raises(RuntimeError, match="KeyError"):
        peer.slice(callers=1, count=1)


def test_a_run_is_compared_with_a_peer_round_by_round() -> None:
    ours, theirs = Figure("Duly, Python", callers=10), Figure("DBOS 3.3.0", callers=10)
    for own, other in ((30, 10), (50, 10), (10, 1)):
        ours.add(_slice(10), _slice(own), _slice(10))
        theirs.add(_slice(10), _slice(other), _slice(10))
    trials = [Trial(each, _never, lambda seconds: _slice(1)) for each in (ours, theirs)]
    row, beside = _compared(trials, [ours.row(), theirs.row()], 10)
    assert row.against == pytest.approx({"DBOS": 5.0})
    assert (row.goals, beside.against) == ({"DBOS": 5.0}, {})


def test_costs_are_told_for_each_time() -> None:
    figure = Figure("runs")
    figure.add(_slice(10), Slice(10, 1.0, 0.2, 5, 0.05, 7_000), _slice(30))
    row = figure.row()
    assert (row.cpu_us, row.syncs, row.children_us) == pytest.approx((20_000, 0.5, 5_000))
    assert (row.ratio, row.children_bytes) == (0.5, 7_000)


def test_a_crowd_is_a_sound_store_with_so_many_pending_events(tmp_path: Path) -> None:
    async def fill_and_look() -> tuple[int, int]:
        env = Loop()
        path = tmp_path / "crowd.db"
        subject = await open_subject(path, env)
        await subject.deploy(2)
        await subject.store.close()
        crowd.fill(path, 30)
        subject = await open_subject(path, env)
        store = subject.store
        peeked = await store.peek("workflow_0001", INBOX, limit=1000, bytes_max=PEEK_BYTES)
        runs = await store.list_runs(limit=1000)
        assert {run.state.row for run in runs} == {"applied"}
        await store.backend.integrity_check(full=True)  # type: ignore[attr-defined]
        await store.close()
        env.close()
        return len(peeked), len(runs)

    assert asyncio.run(fill_and_look()) == (30, 60)


async def _never(seconds: float) -> Slice:
    raise AssertionError


def _slice(per_s: int) -> Slice:
    return Slice(count=per_s, wall_s=1, cpu_s=0)
