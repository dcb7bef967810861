"""The bench of the bus runs without its peer and prints every row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.bus import main

EVERY = ["emit, 1 caller", "emit, 10 callers", "emit, 100 callers", "deliver to 1", "deliver to 3"]


def test_the_bench_of_the_bus_prints_every_row_and_cleans_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--quick", "--alone", "--json", "--folder", str(tmp_path)])
    printed = json.loads(capsys.readouterr().out)
    assert [row["figure"] for row in printed["bus"]] == EVERY
    for row in printed["bus"]:
        assert min(row["per_s"], row["cpu_us"], row["ratio"]) > 0
    assert printed["huey"] is None
    assert list(tmp_path.iterdir()) == []
