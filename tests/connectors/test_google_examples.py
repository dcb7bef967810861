"""The examples about Google, in both languages, with real scripts against the double."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import duly
from duly.rules.source import Language
from duly.rules.word import MutationStatus
from duly.testing.doubles.google import CLIENT_SECRET
from tests.connectors.google_stand import BOOK, StockedGoogle, make

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[2] / "examples" / "google"
SUFFIX = {Language.PYTHON: "py", Language.JAVASCRIPT: "js"}


async def run_example(
    google: StockedGoogle, folder: Path, language: Language, name: str, *capabilities: str
) -> list[Any]:
    """Run an example until nothing is due; return its changes."""
    file = EXAMPLES / f"{name}.{SUFFIX[language]}"
    kinds = dict.fromkeys(each.partition(".")[0] for each in capabilities)
    connectors = [make(each, google, {}) for each in kinds if each != "clock"]
    async with duly.Host(f"sqlite:///{folder}/duly.db", connectors=connectors) as host:
        for each in connectors:
            await host.set_secret(each.name, "client_secret", CLIENT_SECRET)
            await host.set_secret(each.name, "sign_in", google.grant("ada"))
        source = duly.Source(language, file.read_text(), file.name)
        found = await host.check(source)
        assert [each for each in found if getattr(each, "severity", "refuses") == "refuses"] == []
        await host.deploy(source)
        workflow = name.replace("_", "-")
        for each in capabilities:
            await host.grant(workflow, each)
        await host.drain()
        return [*await host.mutations(workflow)]


@pytest.mark.parametrize("language", Language)
async def test_a_bill_becomes_a_row_and_is_archived(language: Language, tmp_path: Path) -> None:
    """L5: gmail and sheets."""
    with StockedGoogle() as google:
        google.put_sheet("ada", BOOK, "Bills", [["customer", "subject", "duly_key"]])
        needs = ("gmail.read", "gmail.archive", "sheets.append")
        rows = await run_example(google, tmp_path, language, "bills_to_sheet", *needs)
        assert [each.status for each in rows] == [MutationStatus.APPLIED] * 2
        sheet = google.account("ada")["books"][BOOK]["Bills"]
        assert [each[:2] for each in sheet[1:]] == [["bob@example.org", "Invoice 1"]]
        labels = [each["labelIds"] for each in google.account("ada")["messages"].values()]
        assert labels == [["UNREAD"], ["INBOX", "UNREAD"]]


@pytest.mark.parametrize("language", Language)
async def test_a_meeting_gets_its_file(language: Language, tmp_path: Path) -> None:
    """L5: google_calendar and drive."""
    with StockedGoogle() as google:
        needs = ("google_calendar.read", "drive.create", "clock.read")
        rows = await run_example(google, tmp_path, language, "minutes_for_meetings", *needs)
        assert [each.status for each in rows] == [MutationStatus.APPLIED] * 2
        names = {each["name"] for each in google.account("ada")["files"].values()}
        assert names == {"2026-05-01 event1.txt", "2026-05-01 event2.txt"}
