"""The page of a connection: secrets by name, what each change says of itself, its proof (K10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import duly
from duly.api.registry import Scope
from duly.connectors.base import Applied, Call, NotApplied, Verdict
from duly.faces.web.look import JSON
from tests.web.stand import ask, serving
from tests.web.test_page import Page, post, signed

HERE: Final = "/connect/post"


class Post(duly.Connector):
    """A service that keeps a line for each letter; the trial of `send` goes to its owner."""

    name = "post"

    def __init__(self, folder: Path) -> None:
        self.sent = folder / "sent"
        self.address = "ada@acme.com"

    def lines(self) -> list[str]:
        return self.sent.read_text().splitlines() if self.sent.exists() else []

    @duly.mutation(lag_s=600, key_in="header", asked="by_search", labels={"to": "To"})
    async def send(self, call: Call, to: str) -> None:
        with self.sent.open("a") as file:
            file.write(f"{call.key} {to}\n")

    @send.reconcile
    async def send_happened(self, call: Call) -> Verdict:
        is_there = any(each.startswith(call.key) for each in self.lines())
        return Applied(None) if is_there else NotApplied()

    @send.trial
    def send_tried(self) -> dict[str, Any]:
        """Sends one letter to yourself."""
        return {"to": self.address}

    @duly.mutation(lag_s=0, key_in="field", asked="exactly")
    async def file(self, call: Call, number: int) -> None:
        with self.sent.open("a") as file:
            file.write(f"{call.key} {number}\n")

    @file.reconcile
    async def file_happened(self, call: Call) -> Verdict:
        return await self.send_happened(call)

    @file.trial
    def file_tried(self) -> None:
        """Files one thing; which, you say."""

    @duly.mutation(key_in="none")
    async def shout(self, call: Call, text: str) -> None: ...


def form_of(text: str, tool: str) -> dict[str, str]:
    found = [fields for path, fields in Page(text).forms() if path == "/prove"]
    (fields,) = (each for each in found if each["tool"] == tool)
    return fields


async def test_a_trial_is_shown_then_made_once_and_its_verdict_is_shown(tmp_path: Path) -> None:
    """K10: what it will do outside stands above the button; a second click sends nothing."""
    outside = Post(tmp_path)
    async with serving(tmp_path, connectors=[outside]) as web:
        headers = await signed(web)
        shown = (await ask(web.app, HERE, headers=headers)).text
        for said in (
            "can answer by search after 600 s (not yet proven with your account)",
            "cannot answer at all",
            "Sends one letter to yourself.",
            "<dt>To</dt><dd><pre>ada@acme.com</pre></dd>",
        ):
            assert said in shown
        fields = form_of(shown, "post.send")
        assert outside.lines() == []
        done = await post(web.app, headers, "/prove", fields)
        assert (done.status, done["location"]) == (303, HERE)
        for _ in range(2):  # a double click, or the same page in another tab
            again = await post(web.app, headers, "/prove", fields)
            assert (again.status, "Nothing was sent now" in again.text) == (409, True)
        assert [each.split()[1] for each in outside.lines()] == ["ada@acme.com"]
        proven = (await ask(web.app, HERE, headers=headers)).text
        assert "proven with your account on" in proven
        assert "The last trial: proven." in proven
        (made, *_) = await web.host.actions()
        assert (made.verb, made.by) == ("prove", "token:admin page")


async def test_a_trial_that_would_do_something_else_is_not_made(tmp_path: Path) -> None:
    """K10, G11: a page that was left open agrees to what it showed, and to nothing else."""
    outside = Post(tmp_path)
    async with serving(tmp_path, connectors=[outside]) as web:
        headers = await signed(web)
        fields = form_of((await ask(web.app, HERE, headers=headers)).text, "post.send")
        outside.address = "eve@acme.com"
        told = await post(web.app, headers, "/prove", fields)
        assert (told.status, "eve@acme.com" in told.text) == (409, True)
        for given in ({"tool": "post.send"}, {"seen": fields["seen"]}):
            assert (await post(web.app, headers, "/prove", given)).status == 400
        unproven = {"tool": "post.shout", "seen": fields["seen"]}
        assert (await post(web.app, headers, "/prove", unproven)).status == 409
        elsewhere = {"tool": "nothing.send", "seen": fields["seen"]}
        assert (await post(web.app, headers, "/prove", elsewhere)).status == 404
        assert outside.lines() == []


async def test_a_person_gives_the_arguments_where_the_connector_has_none(tmp_path: Path) -> None:
    """K10: without them nothing is sent."""
    outside = Post(tmp_path)
    async with serving(tmp_path, connectors=[outside]) as web:
        headers = await signed(web)
        fields = form_of((await ask(web.app, HERE, headers=headers)).text, "post.file")
        for given, status in (("", 400), ("{}", 400), ("[1]", 400), ('{"number": 7}', 303)):
            told = await post(web.app, headers, "/prove", {**fields, "args": given})
            assert told.status == status, given
        assert [each.split()[1] for each in outside.lines()] == ["7"]


async def test_a_secret_is_set_on_the_page_and_never_shown(tmp_path: Path) -> None:
    """A5: its name and when it was set; the form goes back to the page."""
    async with serving(tmp_path, connectors=[Post(tmp_path)]) as web:
        headers = await signed(web)
        assert "post" in (await ask(web.app, "/tools", headers=headers)).text
        given = {"connector": "post", "name": "token", "value": "open-sesame"}
        done = await post(web.app, headers, "/act/set_secret", {**given, "back": HERE[1:]})
        assert (done.status, done["location"]) == (303, HERE)
        text = (await ask(web.app, HERE, headers=headers)).text
        assert ("open-sesame" in text, "<strong>token</strong> set" in text) == (False, True)
        for path in ("/tools", "/settings"):
            assert f'href="{HERE}"' in (await ask(web.app, path, headers=headers)).text


async def test_who_only_reads_is_shown_no_button_that_proves(tmp_path: Path) -> None:
    """G4: a trial spends the account of its owner."""
    async with serving(tmp_path, connectors=[Post(tmp_path)]) as web:
        headers = await signed(web, Scope.DECIDE)
        text = (await ask(web.app, HERE, headers=headers)).text
        assert {path for path, _ in Page(text).forms()} == {"/sign-out"}
        facts = await ask(web.app, HERE, headers={**headers, "accept": JSON})
        assert facts.json["each"]["name"] == "post"
