"""What a new user stumbled over who had the page alone: what a page says is a person's word."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import duly.web
from duly.faces.web import drawing, page
from duly.testing import Stage
from duly.words import page as words
from tests.desk.test_approval import proposed
from tests.engine.stand import NAME, TOOL
from tests.web.stand import ask, serving
from tests.web.test_page import post, signed


async def test_what_became_of_several_calls_is_said_by_their_tools(duly_world: Stage) -> None:
    """A3, U6: the tool and the claim stand there; an id that is none stands as it came."""
    play, shown = await proposed(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    ticked = {f"call.{shown.mutation}": shown.hash, "call.no_change": "0" * 64}
    reply = await post(app, headers, "/approve", ticked)
    assert reply.status == 200
    assert f'<a href="/m/{shown.mutation}">{TOOL}</a> <small>claimed: ' in reply.text
    assert '<a href="/m/no_change">no_change</a></td>' in reply.text
    assert reply.text.count(">approved</strong>") == reply.text.count(">refused</strong>") == 1


async def test_what_became_of_several_inputs_is_said_by_their_titles(tmp_path: Path) -> None:
    """U3, U6: a title, a link to the input; the number of another input lends it no title."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers, topic = await signed(web), "mail.received"
        for number in (1, 2, 3):
            await web.host.publish("invoices", topic, title=f"Mail {number}", message_id=number)
        seqs = {each.title: each.seq for each in await web.host.inputs("invoices")}
        one, two, three = (json.dumps(["invoices", topic, each]) for each in "123")
        ticked = {
            f"input.{seqs['Mail 1']}": one,
            f"input.{seqs['Mail 3']}": two,
            "input.x": three,
            "back": "w/invoices",
        }
        text = (await post(web.app, headers, "/skip", ticked)).text
        assert f'<a href="/i/invoices/{seqs["Mail 1"]}">Mail 1</a>' in text
        assert f'<a href="/i/invoices/{seqs["Mail 3"]}">2</a>' in text
        assert '<a href="/i/invoices/x">3</a>' in text
        assert text.count(">skipped</strong>") == 3


async def test_a_paused_workflow_is_resumed_first(duly_world: Stage) -> None:
    """G9: what helps stands first, a no beside it, and what ends something behind a click."""
    play, _ = await proposed(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    await play.host.pause(NAME, by="ada")
    article = (await ask(app, "/", headers=headers)).text
    article = article[article.index("<article") : article.index("</article>")]
    shown, _, behind = article.partition("Other ways")
    act = re.compile(r'action="/act/(\w+)"')
    assert act.findall(shown) == ["resume", "reject"]
    assert {"retry", "skip"} <= set(act.findall(behind))


def test_a_suspect_is_skipped_by_its_title() -> None:
    """U3: what may be the cause is named as its sentence names it, not by a message id."""
    skip: dict[str, Any] = {"verb": "skip", "args": {"message_id": "page:4dbe"}}
    reason: dict[str, Any] = {"facts": {"suspect": "Order C"}}
    titles = drawing.titles_of(reason, ())
    assert words.name_offer(skip, drawing.title_of([skip], titles)) == "Skip “Order C”"
    assert drawing.titles_of(reason, ["Rent"]) == ["Rent"]
    for facts in ({}, {"suspect": ""}):
        assert drawing.titles_of({"facts": facts}, ()) == ()


async def test_a_list_of_workflows_that_is_cut_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6, F8: a page that lists the first thousand alone does not look complete."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        told = words.say_first(1)
        assert told not in (await ask(web.app, "/", headers=headers)).text
        monkeypatch.setattr(page, "PAGE_ROWS_MAX", 1)
        assert told in (await ask(web.app, "/", headers=headers)).text
        assert words.say_first(1000).startswith("Only the first 1,000 workflows")


async def test_a_page_that_is_narrowed_by_status_is_followed(tmp_path: Path) -> None:
    """G13: only a search for a text costs more than its page, and is made once."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        for end, is_followed in (("?status=pending", True), ("?status=", True), ("?text=", True)):
            text = (await ask(web.app, f"/w/invoices{end}", headers=headers)).text
            assert ("data-live" in text) is is_followed, end
        assert "data-live" not in (await ask(web.app, "/w/invoices?text=M", headers=headers)).text
