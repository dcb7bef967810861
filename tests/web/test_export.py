"""Lists as files: attachments in which no text of a stranger is a formula (G16)."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Final

import pytest

from duly.faces.web import export
from duly.rules.source import Language, Source
from tests.web.stand import ask, serving
from tests.web.test_offered import KEEPS
from tests.web.test_page import signed

FORMULA: Final = '=HYPERLINK("https://evil.example";"Bill")'


@pytest.mark.parametrize("what", ["inputs", "outputs"])
async def test_a_list_is_an_attachment_and_no_text_in_it_is_a_formula(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G16, G9: CSV for a spreadsheet program, JSON for a program; both over several pages."""
    monkeypatch.setattr(export, "PAGE_ROWS_MAX", 2)
    topic = {"inputs": "in", "outputs": "log"}[what]
    titles = [FORMULA, "-1+2", "a\u3164b", "-5", "Bill, 7", 'a; "=1+2";b-1']
    async with serving(tmp_path) as web:
        await web.host.deploy(Source(Language.PYTHON, KEEPS))
        for number, title in enumerate(titles):
            await web.host.publish("keeps", topic, title=title, message_id=str(number))
        headers = await signed(web)
        found = await ask(web.app, f"/w/keeps/{what}.csv", headers=headers)
        told = await ask(web.app, f"/w/keeps/{what}.json", headers=headers)
        page = await ask(
            web.app, "/w/keeps" if what == "inputs" else "/w/keeps/outputs", headers=headers
        )
        unknown = await ask(web.app, f"/w/nothing/{what}.csv", headers=headers)
        unsigned = await ask(web.app, f"/w/keeps/{what}.csv")
    assert (unknown.status, unsigned.status) == (404, 401)
    assert f'href="/w/keeps/{what}.csv"' in page.text
    assert found["content-disposition"] == f'attachment; filename="{what}.csv"'
    assert told["content-disposition"] == f'attachment; filename="{what}.json"'
    assert found["content-type"] == "text/csv; charset=utf-8"
    column = {"inputs": "title", "outputs": "claimed"}[what]
    rows = list(csv.DictReader(io.StringIO(found.text.removeprefix("\ufeff"))))
    shown = [row[column] for row in rows][::-1]
    assert shown == [f"'{FORMULA}", "'-1+2", shown[2], "-5", "Bill, 7", 'a; "\'=1+2";b-1']
    assert "\u3164" not in shown[2]
    assert [row[column] for row in json.loads(told.text)][::-1] == titles


async def test_a_list_that_is_narrowed_is_a_file_that_is_narrowed(tmp_path: Path) -> None:
    """G16: the link keeps the filter of its page, and so does the file."""
    async with serving(tmp_path) as web:
        await web.host.deploy(Source(Language.PYTHON, KEEPS))
        await web.host.publish("keeps", "in", title="Mail", message_id="1")
        headers = await signed(web)
        for status, count in (("pending", 1), ("done", 0)):
            page = await ask(web.app, f"/w/keeps?status={status}", headers=headers)
            link = f"/w/keeps/inputs.json?status={status}"
            assert (f'href="{link}"' in page.text) == bool(count)
            told = await ask(web.app, link, headers=headers)
            assert len(json.loads(told.text)) == count


async def test_a_file_ends_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """N: the newest rows, and not one more."""
    monkeypatch.setattr(export, "PAGE_ROWS_MAX", 2)
    monkeypatch.setattr(export, "EXPORT_ROWS_MAX", 3)
    async with serving(tmp_path) as web:
        await web.host.deploy(Source(Language.PYTHON, KEEPS))
        for number in range(4):
            await web.host.publish("keeps", "in", title=f"Mail {number}", message_id=str(number))
        told = await ask(web.app, "/w/keeps/inputs.json", headers=await signed(web))
    assert [row["title"] for row in json.loads(told.text)] == ["Mail 3", "Mail 2", "Mail 1"]
