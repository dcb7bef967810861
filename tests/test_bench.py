"""The bench runs and prints every row; how fast it was is nobody's business here."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bench import crowd
from bench.__main__ import main
from bench.measure import Figure, Slice
from bench.store import INBOX, PEEK_BYTES, open_subject
from duly.env import Loop

CALLERS = {"runs": ("1 caller", "10 callers", "100 callers"), "publish": ("1 caller", "10 callers")}
PLAIN = [f"{work}, {callers}" for work, each in CALLERS.items() for callers in each]
EVERY = ["yardstick run4", "yardstick publish", *PLAIN, *(f"{name}, 1,000 rows" for name in PLAIN)]


def test_the_bench_prints_every_row_and_cleans_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--quick", "--folder", str(tmp_path)])
    header, *rows = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert header.split() == (
        ["figure", "per", "second", "ratio", "min", "max", "goal", "syncs", "CPU", "µs"]
    )
    assert [row.split("  ")[0] for row in rows] == EVERY
    assert list(tmp_path.iterdir()) == []


def test_the_bench_prints_the_same_rows_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--quick", "--json", "--folder", str(tmp_path)])
    printed = json.loads(capsys.readouterr().out)
    assert [figure["figure"] for figure in printed["figures"]] == EVERY
    for figure in printed["figures"]:
        assert figure["ratio_min"] <= figure["ratio"] <= figure["ratio_max"]
        assert min(figure["per_s"], figure["syncs"], figure["cpu_us"]) > 0
        assert (figure["goal"] is None) == figure["figure"].startswith("yardstick")
    by_name = {figure["figure"]: figure for figure in printed["figures"]}
    for name in PLAIN:
        full_goal = by_name[f"{name}, 1,000 rows"]["goal"]
        assert full_goal == pytest.approx(0.8 * by_name[name]["ratio"])


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


@pytest.mark.parametrize(("per_s", "verdict"), [(29, "missed"), (30, "met")])
def test_a_goal_is_met_by_the_ratio_to_the_slices_around(per_s: int, verdict: str) -> None:
    figure = Figure("runs", goal=1.5)
    figure.add(_slice(10), _slice(per_s), _slice(30))
    assert (figure.ratio, figure.verdict) == (per_s / 20, verdict)


def _slice(per_s: int) -> Slice:
    return Slice(count=per_s, wall_s=1, cpu_s=0, syncs=0)
