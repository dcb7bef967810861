"""A pasted script: shown like a file of the project, allowed by ticks, and deployed as shown."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

import duly.web
from duly.api.build import build_host
from duly.api.project import find_project
from duly.errors import NotDeployed, RequestRefused
from duly.faces.web.lack import Lacks
from duly.rules.source import EXAMPLE
from duly.words import page as words
from tests.web.stand import ask, serving
from tests.web.test_add import standing
from tests.web.test_page import Page, post, signed

TEXT: Final = EXAMPLE["text"]


def pasted(text: str, **more: str) -> dict[str, str]:
    return {"source.language": "python", "source.text": text, **more}


def shown_form(text: str) -> dict[str, str]:
    """Return what the form of a shown script sends: its hidden fields, and no tick."""
    (found,) = [each for path, each in Page(text).forms() if path == "/deploy-script"]
    (source,) = text.partition('name="source.text" hidden>\n')[2].split("</textarea>")[:1]
    sent = {name: each for name, each in found.items() if not name.startswith("allow.")}
    return {**sent, "source.text": unescape(source)}


async def test_the_guide_leads_to_a_field_that_is_open_and_posts_to_a_preview(
    tmp_path: Path,
) -> None:
    """G14: without a further click; nothing there deploys."""
    async with serving(tmp_path) as web:
        headers = await signed(web)
        guide = (await ask(web.app, "/guide", headers=headers)).text
        assert 'href="/scripts#paste"' in guide
        for path in ("/scripts", "/"):
            page = Page((await ask(web.app, path, headers=headers)).text)
            assert ("details", {"id": "paste", "open": None}) in page.elements
            assert "/preview" in [action for action, _ in page.forms()]
            assert "/act/deploy" not in [action for action, _ in page.forms()]


async def test_a_pasted_script_is_shown_with_what_it_asks_for_and_deployed_as_shown(
    tmp_path: Path,
) -> None:
    """M9, A1: the tools stand there, nothing is ticked, and what was ticked alone is allowed."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        text = (tmp_path / "workflows" / "welcome.py").read_text()
        reply = await post(web.app, headers, "/preview", pasted(text.replace("\n", "\r\n")))
        page = Page(reply.text)
        assert (reply.status, await web.host.workflows()) == (200, ())
        for told in ("What it will do", "outbox.write", "inbox.search", words.DEPLOY_ALLOWED):
            assert told in page.text
        ticks = [given for _, given in page.elements if given.get("type") == "checkbox"]
        assert {each["name"] for each in ticks} >= {"allow.outbox.write"}
        assert not any("checked" in each for each in ticks)
        sent = shown_form(reply.text)
        assert sent["source.text"] == text
        changed = await post(web.app, headers, "/deploy-script", {**sent, "source.text": TEXT})
        assert (changed.status, await web.host.workflows()) == (409, ())
        ticked = {**sent, "allow.outbox.write": "true"}
        done = await post(web.app, headers, "/deploy-script", ticked)
        assert (done.status, done["location"]) == (303, "/w/welcome")
        assert await web.host.source("welcome") == text
        granted = [each.capability for each in await web.host.grants("welcome")]
        assert granted == ["outbox.write"]


async def test_all_that_is_shown_is_allowed_by_its_button_or_by_every_tick(tmp_path: Path) -> None:
    """A1: with the deploy, so that no run begins in between and waits."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        text = (tmp_path / "workflows" / "welcome.py").read_text()
        reply = await post(web.app, headers, "/preview", pasted(text))
        names = [
            str(given["name"])
            for _, given in Page(reply.text).elements
            if given.get("type") == "checkbox"
        ]
        every = {**shown_form(reply.text), **dict.fromkeys(names, "true")}
        assert (await post(web.app, headers, "/deploy-script", every)).status == 303
        acts = [each.verb for each in await web.host.actions()]
        assert "grant" not in acts
        granted = {each.capability for each in await web.host.grants("welcome")}
        assert granted == {name.removeprefix("allow.") for name in names}
        again = await post(web.app, headers, "/preview", pasted(f"{text}\n# more\n"))
        assert "allowed already" in again.text
        assert "checkbox" not in again.text


@pytest.mark.parametrize("button", [{"grant": "true"}, {"allow.outbox.write": "true"}])
@pytest.mark.parametrize("is_removed", [False, True])
async def test_a_form_that_is_sent_again_gives_back_no_right_that_was_taken_since(
    tmp_path: Path, *, button: dict[str, str], is_removed: bool
) -> None:
    """A1, W8: a reload sends it once more; it says who took the right, and deploys nothing."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        text = (tmp_path / "workflows" / "welcome.py").read_text()
        shown = shown_form((await post(web.app, headers, "/preview", pasted(text))).text)
        sent = {**shown, **button}
        assert (await post(web.app, headers, "/deploy-script", sent)).status == 303
        told = await post(web.app, headers, "/deploy-script", sent)  # its answer can be reloaded
        assert (told.status, "No new version was made" in told.text) == (200, True)
        if is_removed:
            await web.host.remove("welcome", by="ada")
        else:
            await web.host.revoke("welcome", "outbox.write", by="ada")
        for _ in range(2):
            again = await post(web.app, headers, "/deploy-script", sent)
            assert again.status == 409
            page = Page(again.text)
            for sentence in (words.SCRIPT_CHANGED, f"{words.TAKEN_BACK} ada"):
                assert sentence in page.text
        if is_removed:
            assert await web.host.workflows() == ()
        else:
            held = [each.capability for each in await web.host.grants("welcome")]
            assert "outbox.write" not in held
        unnamed = {name: each for name, each in sent.items() if name != "asked"}
        assert (await post(web.app, headers, "/deploy-script", unnamed)).status == 409
        anew = {**shown_form(again.text), **button}  # it is given when that was read
        assert (await post(web.app, headers, "/deploy-script", anew)).status in (200, 303)
        held = [each.capability for each in await web.host.grants("welcome")]
        assert "outbox.write" in held


async def test_what_was_not_shown_is_not_allowed_by_the_button_that_allows_all(
    tmp_path: Path,
) -> None:
    """A1: a connection that was added between the look and the click asks for one thing more."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        before, mark, after = (
            (tmp_path / "workflows" / "welcome.py")
            .read_text()
            .partition('await ctx.publish("letter')
        )
        text = f'{before}await ctx.crm.write(path=path, text="x")\n            {mark}{after}'
        sent = shown_form((await post(web.app, headers, "/preview", pasted(text))).text)
    settings = tmp_path / "duly.toml"
    settings.write_text(f'{settings.read_text()}\n[connectors.crm]\nuse = "files"\npath = "crm"\n')
    (tmp_path / "crm").mkdir()
    async with build_host(find_project(str(tmp_path), {}, tmp_path)) as host:
        app = duly.web.app(host)
        reply = await post(app, headers, "/deploy-script", {**sent, "grant": "true"})
        assert (reply.status, await host.workflows()) == (409, ())
        page = Page(reply.text)
        assert words.SCRIPT_CHANGED in page.text
        assert "allow.crm.write" in [given.get("name") for _, given in page.elements]
        again = {**shown_form(reply.text), "grant": "true"}
        assert (await post(app, headers, "/deploy-script", again)).status == 303
        granted = {each.capability for each in await host.grants("welcome")}
        assert granted == {"crm.write", "inbox.read", "outbox.write"}


@pytest.mark.parametrize(
    ("text", "line", "is_refused"),
    [
        (TEXT.replace("ctx.peek", "ctx.peak"), 9, False),
        (TEXT.replace("def prepare", "def prepares"), 8, True),
        ("this is no script", 1, True),
    ],
)
async def test_a_script_with_mistakes_is_shown_with_their_lines(
    text: str, line: int, is_refused: bool, tmp_path: Path
) -> None:
    """W5: each mistake with its line, the line marked, and the text to be changed there."""
    async with serving(tmp_path) as web:
        headers = await signed(web)
        reply = await post(web.app, headers, "/preview", pasted(text))
        page = Page(reply.text)
        assert (reply.status, await web.host.workflows()) == (200, ())
        assert f"line {line}: " in page.text
        assert 'class="meant"' in reply.text
        assert (words.NOT_DEPLOYABLE in page.text) is is_refused
        assert ("/deploy-script" not in [action for action, _ in page.forms()]) is is_refused
        assert f"{text}</textarea></label>" in unescape(reply.text)  # to be changed in its field


async def test_a_trial_is_made_only_when_it_is_asked_for(tmp_path: Path) -> None:
    """M9, A1: the data of today is read for the button, and nothing is sent."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        text = (tmp_path / "workflows" / "welcome.py").read_text()
        looked = await post(web.app, headers, "/preview", pasted(text))
        assert "Ada" not in Page(looked.text).text.partition("Text")[0]
        sent = {**shown_form(looked.text), "tried": "true", "allow.outbox.write": "true"}
        tried = await post(web.app, headers, "/preview", sent)
        assert "One pass would make 1 change" in tried.text
        ticks = [given for _, given in Page(tried.text).elements if "checked" in given]
        assert [each["name"] for each in ticks] == ["allow.outbox.write"]  # ticks stay
        assert await web.host.workflows() == ()
        assert not [*(tmp_path / "outbox").iterdir()]


@pytest.mark.parametrize("fields", [{}, {"source.text": TEXT}, {"name": "none.py"}])
async def test_a_form_without_a_script_is_refused(fields: dict[str, str], tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        headers = await signed(web)
        for path in ("/preview", "/deploy-script"):
            assert (await post(web.app, headers, path, fields)).status in (400, 404), path
        whole = pasted(TEXT)
        assert (await post(web.app, headers, "/deploy-script", whole)).status == 400  # not seen


async def test_a_workflow_says_what_it_uses_and_is_not_allowed(tmp_path: Path) -> None:
    """A1, U2: on its page and below Setup, with a button for each, until it is allowed."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        await web.host.deploy(tmp_path / "workflows" / "welcome.py")
        for path, back in (("/w/welcome", "w/welcome"), ("/w/welcome/setup", "w/welcome/setup")):
            page = Page((await ask(web.app, path, headers=headers)).text)
            assert words.NOT_ALLOWED in page.text
            found: list[Any] = [each for action, each in page.forms() if action == "/act/grant"]
            seen = (await web.host.right("welcome", "outbox.write")).seen
            sent = {"workflow": "welcome", "capability": "outbox.write", "seen": seen, "back": back}
            assert sent in found
        for each in await web.host.uses("welcome"):
            await web.host.grant("welcome", each)
        for path in ("/w/welcome", "/w/welcome/setup"):
            assert words.NOT_ALLOWED not in (await ask(web.app, path, headers=headers)).text
        await web.host.revoke("welcome", "outbox.write")
        text = (await ask(web.app, "/w/welcome", headers=headers)).text
        assert words.NOT_ALLOWED in text


async def test_what_a_busy_host_did_not_say_is_asked_again() -> None:
    """A1: an error of a moment does not count as “nothing is lacking”; a text that cannot be read
    is not examined again at each change of a page."""
    each = {"name": "a", "version": "1.0", "created_at": "2026-05-01"}
    asked: list[str] = []

    class Session:
        """A host that answers in this order."""

        answers: ClassVar[list[Any]] = [
            RequestRefused(code="host_gone"),
            ["outbox.write"],
            NotDeployed(code="not_deployed"),
        ]

        async def call(self, verb: str, **more: Any) -> Any:
            if verb == "grants":
                return []
            if verb == "right":
                return {"capability": more["capability"], "seen": "word"}
            asked.append(verb)
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

    session: Any = Session()
    lacks = Lacks()
    assert await lacks.find(session, each) == []
    for _ in range(2):
        assert await lacks.find(session, each) == [{"capability": "outbox.write", "seen": "word"}]
    for _ in range(2):
        assert await lacks.find(session, {**each, "version": "2.0"}) == []
    assert len(asked) == 3
