"""What a page marks and offers: facts decide, and no template does (F7, U3, U4, W9)."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Final

import duly.web
from duly.api.registry import Scope
from duly.rules.source import Language, Source
from duly.testing import Stage
from duly.words.page import say_zone
from tests.desk.test_approval import proposed
from tests.desk.test_why import MACHINERY
from tests.engine.stand import NAME, TOOL
from tests.web.stand import ask, serving
from tests.web.test_page import Page, post, signed

KEEPS: Final = """
from duly import workflow

flow = workflow("keeps", topics={"in": {"ingress": True}, "log": {"ingress": True}})


@flow.consumer("in")
class take:
    async def prepare(self, ctx, state):
        return {"reservations": []}
"""


async def test_what_no_consumer_takes_is_kept_and_waits_for_nothing(tmp_path: Path) -> None:
    """W9, U5: it is not called pending, and nothing offers to skip it."""
    async with serving(tmp_path) as web:
        await web.host.deploy(Source(Language.PYTHON, KEEPS))
        headers = await signed(web)
        for topic in ("in", "log"):
            await web.host.publish("keeps", topic, title=f"Mail {topic}", message_id=topic)
        work, output = await web.host.events("keeps")
        assert (work.is_output, output.is_output) == (False, True)
        found = (await web.host.find("Mail")).hits
        assert {each.topic: each.is_output for each in found} == {"in": False, "log": True}
        for path in ("/find?text=Mail", "/w/keeps?text=Mail"):
            text = (await ask(web.app, path, headers=headers)).text
            words = re.findall(r'class="word [a-z]+">(pending|kept)<', text)
            assert sorted(words) == ["kept", "pending"], path
        shown = (await ask(web.app, f"/i/keeps/{output.seq}", headers=headers)).text
        assert ">kept<" in shown
        assert not re.search(">pending<|/act/skip", shown)
        waits = (await ask(web.app, f"/i/keeps/{work.seq}", headers=headers)).text
        assert (">pending<" in waits, "/act/skip" in waits) == (True, True)
        listed = (await ask(web.app, "/w/keeps", headers=headers)).text
        assert listed.count('name="input.') == 1


async def test_a_paused_workflow_offers_to_resume_it_alone(tmp_path: Path) -> None:
    """F7: while it is paused nothing begins, and without a producer nothing is checked."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)

        async def offered() -> set[str]:
            page = Page((await ask(web.app, "/w/invoices", headers=headers)).text)
            acts = {path.removeprefix("/act/") for path, _ in page.forms()}
            return acts & {"run_now", "pause", "resume"}

        assert await offered() == {"pause"}
        await web.host.pause("invoices")
        assert await offered() == {"resume"}


async def test_the_foot_names_the_zone_as_people_do(tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        text = (await ask(web.app, "/", headers=await signed(web))).text
        assert "Times are those of UTC." in text
    assert say_zone("Etc/UTC") == "Times are those of UTC."
    assert say_zone("Europe/Berlin") == "Times are those of Europe/Berlin."


async def test_stale_inputs_are_marked_and_skipped_one_and_many(tmp_path: Path) -> None:
    """U4, U3: what waits for longer than seven days stands out, until it is skipped."""
    async with serving(tmp_path) as web:
        await web.deploy()
        for number in range(4):
            await web.host.publish("invoices", "mail.received", title="Old", message_id=number)
        web.clock.shift_ms = 8 * 86_400_000
        await web.host.publish("invoices", "mail.received", title="New", message_id="new")
        headers = await signed(web)

        async def stale() -> tuple[str, int]:
            home = (await ask(web.app, "/", headers=headers)).text
            told = re.findall(r'href="([^"]+)">(\d+) stale<', home)
            path = unescape(told[0][0]) if told else "/w/invoices?status=pending"
            listed = (await ask(web.app, path, headers=headers)).text
            count = listed.count('<strong class="stale">stale</strong>')
            assert [int(each) for _, each in told] == ([count] if count else [])
            return path, count

        path, count = await stale()
        assert (path, count) == ("/w/invoices?status=pending", 4)
        (first, *_) = await web.host.events("invoices")
        one = (await ask(web.app, f"/i/invoices/{first.seq}", headers=headers)).text
        ((_, fields),) = [each for each in Page(one).forms() if each[0] == "/act/skip"]
        assert (await post(web.app, headers, "/act/skip", fields)).status == 303
        assert (await stale())[1] == 3
        page = Page((await ask(web.app, path, headers=headers)).text)
        boxes = {
            str(given["name"]): str(given["value"])
            for tag, given in page.elements
            if tag == "input" and str(given.get("name", "")).startswith("input.")
        }
        assert len(boxes) == 4
        old = {name: each for name, each in boxes.items() if '"new"' not in each}
        assert (await post(web.app, headers, "/skip", old)).text.count(">skipped</strong>") == 3
        assert (await stale())[1] == 0
        assert {each.status for each in await web.host.inputs("invoices")} == {"pending", "skipped"}


async def test_what_came_and_what_came_of_it_needs_no_word_of_the_machinery(
    duly_world: Stage,
) -> None:
    """U5: runs, phases, handlers and topics stand on other tabs, or behind *details*."""
    play, _ = await proposed(duly_world)
    made = await play.host.new_token("reader", scope=Scope.ADMIN)
    headers = {"accept": "text/html", "authorization": f"Bearer {made.token}"}
    app = duly.web.app(play.host)
    for path in ("/", f"/w/{NAME}", f"/w/{NAME}/outputs"):
        whole = (await ask(app, path, headers=headers)).text
        assert TOOL in whole
        seen = Page(re.sub(r"(?s)<(details|nav|dialog)\b.*?</\1>", "", whole)).text
        (event,) = await play.host.events(NAME)
        for label in (event.title, "Run now", "Title or message id"):
            seen = seen.replace(label, "")
        assert MACHINERY.findall(seen) == [], path
