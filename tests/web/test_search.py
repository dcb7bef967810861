"""Searches and filters of the page: none says that nothing is there before it has looked (U6)."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

import duly.web
from duly.config import Policy
from duly.faces.web import flow, page, query
from duly.rules.schedule import DAY_MS
from duly.rules.source import EXAMPLE, Source
from duly.store import find as search
from duly.testing import Stage
from duly.words import page as words
from tests.desk.test_approval import proposed
from tests.engine.stand import NAME, TOOL
from tests.web.stand import Web, ask, serving
from tests.web.test_page import signed

NEXT: Final = re.compile(r'href="([^"]+)">(?:Older|Further)<')
TOPIC: Final = "mail.received"


async def publish(web: Web, *titles: str) -> None:
    for title in titles:
        await web.host.publish("invoices", TOPIC, title=title, message_id=f"m {title}")


async def walk(web: Web, path: str, headers: dict[str, str]) -> list[str]:
    """Read a list page by page, as a person does who follows its links."""
    read = []
    while path:
        reply = await ask(web.app, path, headers=headers)
        assert reply.status == 200
        read.append(unescape(reply.text))
        found = NEXT.search(reply.text)
        path = unescape(found[1]) if found else ""
    return read


@pytest.mark.parametrize("path", ["/w/invoices?text=Rent", "/find?text=Rent"])
async def test_a_search_that_did_not_end_says_so_and_goes_on(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6, G13: that nothing matches is said when everything was looked through."""
    for name in ("LOOKED_MAX", "LOOKED_PER_STATEMENT"):
        monkeypatch.setattr(search, name, 3)
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        await publish(web, "Rent", *(f"Mail {number}" for number in range(4)))
        first, *others = await walk(web, path, headers)
        assert (words.UNFINISHED in first, words.NO_MATCH in first) == (True, False)
        assert [">Rent</a>" in each for each in others] == [True]
        *_, last = await walk(web, path.replace("Rent", "Tax"), headers)
        assert (words.NO_MORE_MATCH in last, words.NO_MATCH in last) == (True, False)
        monkeypatch.undo()
        (only,) = await walk(web, path.replace("Rent", "Tax"), headers)
        assert words.NO_MATCH in only


async def test_a_search_in_a_workflow_keeps_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: what the form shows is what is searched; a page is filled although few have it."""
    for module in (flow, query):
        monkeypatch.setattr(module, "ROWS", 2)
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        await publish(web, *(f"Mail {number}" for number in range(9)))
        for number in (1, 3, 5):
            await web.host.skip("invoices", TOPIC, f"m Mail {number}", by="ada")
        path = "/w/invoices?text=Mail&status=skipped"
        pages = await walk(web, path, headers)
        titles = [title for each in pages for title in re.findall(r">(Mail \d)</a>", each)]
        assert titles == ["Mail 5", "Mail 3", "Mail 1"]
        assert len(pages) < 9 / 2
        assert all('value="skipped" selected' in each for each in pages)
        assert "data-live" not in pages[0]  # it costs more, and is made when it is asked for
        events = {**headers, "accept": "text/event-stream"}
        assert (await ask(web.app, path, headers=events)).status == 409


@pytest.mark.parametrize("path", ["/w/invoices?", "/find?"])
async def test_a_search_by_day_goes_by_the_clock_that_the_page_names(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: with or without a text; the form and each next page keep the days."""
    for module in (flow, page, query):
        monkeypatch.setattr(module, "ROWS", 2)
    async with serving(tmp_path, policy=Policy(timezone="Pacific/Kiritimati")) as web:
        await web.deploy()
        headers = await signed(web)
        await publish(web, "Rent before")
        web.clock.shift_ms = 2 * DAY_MS
        await publish(web, "Rent", "Tax", "Mail")
        (hit,) = (await web.host.find("m Tax")).hits
        day = hit.created_at.astimezone(ZoneInfo("Pacific/Kiritimati")).date()
        one = f"{path}first_day={day}&last_day={day}"
        pages = await walk(web, one, headers)
        titles = [title for each in pages for title in re.findall(r">([A-Z]\w+)</a></td>", each)]
        # If a day begins there between two of them, the others came on another one.
        assert titles in (["Mail", "Tax", "Rent"], ["Mail", "Tax"], ["Tax", "Rent"])
        assert f'name="first_day" value="{day}"' in pages[0]
        assert f'name="last_day" value="{day}"' in pages[-1]
        assert "data-live" not in pages[0]
        (found,) = await walk(web, f"{one}&text=tax", headers)
        assert (">Tax</a>" in found, ">Mail</a>" in found) == (True, False)
        (none,) = await walk(web, f"{path}text=Rent&last_day=2020-01-01", headers)
        assert words.NO_MATCH in none
        refused = await ask(web.app, f"{path}first_day=tuesday", headers=headers)
        assert (refused.status, "first_day is" in refused.text) == (400, True)


async def test_what_waits_in_a_workflow_stands_on_its_page_however_much_waits_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F8: another thousand that wait come before it; its own come in full."""
    for name in ("ROWS", "PAGE_ROWS_MAX"):
        monkeypatch.setattr(flow, name, 1)
    async with serving(tmp_path) as web:
        for name in ("a-first", "invoices", "z-last"):
            text = EXAMPLE["text"].replace("invoices", name)
            await web.host.deploy(Source(EXAMPLE["language"], text), grant=True)  # type: ignore[arg-type]
            await web.host.publish(name, TOPIC, title=f"Of {name}", message_id="1")
        web.clock.shift_ms = 8 * DAY_MS
        headers = await signed(web)
        for name in ("a-first", "invoices", "z-last"):
            text = (await ask(web.app, f"/w/{name}", headers=headers)).text
            (article,) = re.findall(r"<article.*?</article>", text, re.DOTALL)
            assert f"Of {name}" in article
        (entry,) = await web.host.attention(limit=1, after="invoices")
        real = [entry, *await web.host.attention(after=entry.key)]
        own = [*(replace(entry, key=f"invoices/{n}") for n in "123"), *real[1:]]

        async def attention(*, limit: int, after: str) -> Any:
            return tuple(each for each in own if each.key > after)[:limit]

        web.host.attention = attention  # type: ignore[assignment,method-assign]
        text = (await ask(web.app, "/w/invoices", headers=headers)).text
        assert re.findall(r'<article[^>]*data-key="(invoices/\d)', text) == [
            f"invoices/{n}" for n in "123"
        ]


async def test_outputs_and_runs_are_filtered_by_their_address(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: the address has the filter, its fields show it, and the next page keeps it."""
    play, shown = await proposed(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    change = f'href="/m/{shown.mutation}"'
    for end, is_there in (
        ("?status=waiting", True),
        (f"?text={TOOL.upper()}", True),
        (f"?status=waiting&text={TOOL}", True),
        ("?status=rejected", False),
        ("?text=nothing", False),
    ):
        reply = await ask(app, f"/w/{NAME}/outputs{end}", headers=headers)
        table = reply.text.partition("<tbody")[2]
        assert (reply.status, change in table) == (200, is_there), end
        assert (words.NO_MATCH in reply.text) is not is_there
    assert (
        f'value="{TOOL}"'
        in (await ask(app, f"/w/{NAME}/outputs?text={TOOL}", headers=headers)).text
    )
    (run,) = [each for each in await play.host.runs(NAME) if each.id == shown.run]
    for end, is_there in (
        (f"?status={run.status}", True),
        (f"?handler={run.handler}", True),
        ("?status=committed", False),
    ):
        reply = await ask(app, f"/w/{NAME}/runs{end}", headers=headers)
        assert (reply.status, f'href="/runs/{run.id}"' in reply.text) == (200, is_there), end
    assert (
        f'value="{run.status}" selected'
        in (await ask(app, f"/w/{NAME}/runs?status={run.status}", headers=headers)).text
    )


async def test_filtered_outputs_go_on_where_the_page_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: a page that looked through as much as it may says so, and its link goes on."""
    for name in ("ROWS", "PAGE_ROWS_MAX"):
        monkeypatch.setattr(flow, name, 3 if name == "PAGE_ROWS_MAX" else 2)
    made: list[dict[str, Any]] = [
        {"id": f"e{n}", "key": f"k{n}", "status": "done" if n % 4 else "skipped", "claimed": None}
        | {"observed": None, "inputs": [f"Mail {n}"], "at": "2026-11-01T00:00:00Z"}
        for n in range(9, 0, -1)
    ]
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)

        async def outputs(workflow: str, *, limit: int, before: str | None = None) -> Any:
            return tuple(each for each in made if before is None or each["key"] < before)[:limit]

        web.host.outputs = outputs  # type: ignore[assignment,method-assign]
        pages = await walk(web, "/w/invoices/outputs?status=skipped", headers)
        found = [title for each in pages for title in re.findall(r"<div>(Mail \d)</div>", each)]
        assert found == ["Mail 8", "Mail 4"]
        pages = await walk(web, "/w/invoices/outputs?text=mail 1", headers)
        assert [words.UNFINISHED in each for each in pages] == [True, True, False, False][
            : len(pages)
        ]
        pages = await walk(web, "/w/invoices/outputs", headers)
        found = [title for each in pages for title in re.findall(r"<div>(Mail \d)</div>", each)]
        assert found == [f"Mail {n}" for n in range(9, 0, -1)]


async def test_old_versions_are_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W8: page by page, and each at its own address."""
    for name, rows in (("ROWS", 2), ("PAGE_ROWS_MAX", 3)):
        monkeypatch.setattr(flow, name, rows)
    monkeypatch.setattr(query, "ROWS", 2)
    async with serving(tmp_path) as web:
        for number in range(5):
            text = f"{EXAMPLE['text']}\n# {number}\n"
            await web.host.deploy(Source(EXAMPLE["language"], text), grant=True)  # type: ignore[arg-type]
        headers = await signed(web)
        pages = await walk(web, "/w/invoices/versions", headers)
        keys = [
            key for each in pages for key in re.findall(r'<tr data-item data-key="(.*?)"', each)
        ]
        assert keys == ["5.0", "4.0", "3.0", "2.0", "1.0"]
        oldest = await ask(web.app, "/w/invoices/versions/1.0", headers=headers)
        assert (oldest.status, "# 0" in oldest.text) == (200, True)
        unknown = await ask(web.app, "/w/invoices/versions/9.0", headers=headers)
        assert unknown.status == 404
