"""What measures the connectors still runs, in a tiny size; how fast it was is not judged here."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from bench.connectors import __main__ as bench
from bench.connectors import mailbox, web

FIGURES = {"seconds": 0.0, "cpu_s": 0.0, "idle_bytes": 0, "host_bytes": 0}
ROWS = ("all 2 mails of a mailbox", "the first 2 mails of 6", "the last 2 mails of 6")


def test_the_costs_of_connectors_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """K6: each row is there; one host, which begins behind a cursor, reads for all three."""
    measure, read_mails, read = web.measure, mailbox.measure, mailbox._read
    found: list[dict[str, Any]] = []

    def read_last(office: Any, folder: Any, wanted: int, after: str | None) -> dict[str, Any]:
        if after is None:
            return FIGURES
        found.append(read(office, folder, wanted, after))
        return found[-1]

    monkeypatch.setattr(web, "measure", lambda rounds, count: measure(1, 2))
    monkeypatch.setattr(mailbox, "measure", lambda total, wanted: read_mails(6, 2))
    monkeypatch.setattr(mailbox, "_read", read_last)
    monkeypatch.setattr(sys, "argv", ["bench.connectors", "--quick"])
    bench.main()
    said = capsys.readouterr().out
    for row in (*bench.BESIDE, *bench.BESIDE.values(), *ROWS):
        assert f"\n{row} " in said
    assert len(found) == 1
    assert found[0]["host_bytes"] >= found[0]["idle_bytes"] > 0
