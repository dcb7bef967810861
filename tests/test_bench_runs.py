"""The bench of whole runs runs without its peer and prints every row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.measure import Slice
from bench.runs.__main__ import Row, main
from bench.runs.subject import Costs

EVERY = [
    f"{language}, {workflows}"
    for workflows in ("1 workflow", "10 workflows")
    for language in ("JavaScript", "Python")
]


def test_the_bench_of_runs_prints_every_row_and_cleans_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--quick", "--alone", "--json", "--folder", str(tmp_path)])
    printed = json.loads(capsys.readouterr().out)
    assert [row["figure"] for row in printed["runs"]] == EVERY
    for row in printed["runs"]:
        assert row["per_s"] > 0
        assert row["syncs"] > 0
        assert row["times_dbos"] is None
    assert set(printed["latencies_ms"]) == {"JavaScript", "Python"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("per_s", "verdict"), [(49, "missed"), (50, "met")])
def test_a_goal_is_met_by_the_ratio_to_the_peer(per_s: int, verdict: str) -> None:
    row = Row.of("Python, 10 workflows", 5.0)
    row.disk.add(_slice(100), _slice(per_s), _slice(100))
    row.peer.add(_slice(5), _slice(per_s), _slice(15))
    assert row.cells()[3:6] == (f"{per_s / 10:.1f}", "5.0", verdict)


def test_what_workers_spend_is_told_per_run() -> None:
    assert Costs(_slice(10), worker_s=0.05).worker_us == pytest.approx(5_000)


def _slice(per_s: int) -> Slice:
    return Slice(count=per_s, wall_s=1, cpu_s=0, syncs=0)
