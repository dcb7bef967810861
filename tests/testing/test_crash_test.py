"""A crash test of the examples that ship; what it says of broken ones stands in tests/faces."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly import Applied, Call, Connector, NotApplied, Page, mutation, read
from duly.rules.source import Source
from duly.rules.value import Json
from duly.testing.crash_test import CrashTest

EXAMPLES = Path(__file__).parents[2] / "examples"


class Gmail(Connector):
    name = "gmail"

    @read
    async def search(self, query: str = "", after: str | None = None) -> Page:
        mail: dict[str, Json] = {"id": "m1", "from": "Ada", "subject": "Hello"}
        return Page([mail] if after is None else [], last_cursor="m1")


class Sheets(Connector):
    name = "sheets"

    @mutation(noun="row", lag_s=5)
    async def append_row(self, call: Call, spreadsheet_id: str, values: list[str]) -> Json:
        raise AssertionError("the real outside was reached")

    @append_row.reconcile
    async def row_happened(self, call: Call) -> Applied | NotApplied:
        raise AssertionError("the real outside was asked")


@pytest.mark.parametrize(
    ("name", "language"), [("mail_to_table.py", "python"), ("mail_to_table.js", "javascript")]
)
def test_example_survives_every_crash(name: str, language: str) -> None:
    """L3, R7: the same rows and events as without a crash, in the real interpreter."""
    source = Source(language, (EXAMPLES / name).read_text(), name)  # type: ignore[arg-type]
    with CrashTest(source, [Gmail(), Sheets()]) as test:
        report = test.run(crashes_max=8)
    assert [each.args["values"] for each in report.changes] == [["Ada", "Hello"]]
    assert (report.crashes, report.mismatches, report.troubles, report.missed) == (8, (), (), 0)
    # Not only the three faults of its one call: the rest are crashes after writes of the store.
    assert report.possible > report.crashes > 3
