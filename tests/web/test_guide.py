"""The guide for a language model on the page: to be copied, and as a file."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from duly.words import page as words
from tests.web.stand import ask, serving
from tests.web.test_page import signed

TEXT = re.compile(r"<textarea[^>]* readonly[^>]*>\n(.*?)</textarea>", re.DOTALL)


@pytest.mark.parametrize("language", [None, "python", "javascript"])
async def test_the_page_has_the_guide_of_this_host(language: str | None, tmp_path: Path) -> None:
    """W1, G16: every character of it, in a field and as an attachment."""
    query = "" if language is None else f"?language={language}"
    async with serving(tmp_path) as web:
        headers = await signed(web)
        guide = await web.host.guide(language, on_page=True)  # type: ignore[arg-type]
        assert "clock.next" in guide  # a tool of this host
        page = await ask(web.app, f"/guide{query}", headers=headers)
        (shown,) = TEXT.findall(page.text)
        assert (page.status, unescape(shown).strip()) == (200, guide.strip())
        assert f'href="/guide.md{query}"' in page.text
        file = await ask(web.app, f"/guide.md{query}", headers=headers)
        assert (file.status, file.text) == (200, guide)
        assert file["content-disposition"] == 'attachment; filename="duly-guide.md"'
        assert file["content-type"] == "text/markdown; charset=utf-8"


async def test_a_person_who_could_deploy_is_led_to_the_guide(tmp_path: Path) -> None:
    """M9: from the empty first page, and from *Deploy another script* later."""
    async with serving(tmp_path) as web:
        headers = await signed(web)
        assert 'href="/guide"' in (await ask(web.app, "/", headers=headers)).text
        await web.deploy()
        assert 'href="/guide"' in (await ask(web.app, "/scripts", headers=headers)).text
        refused = await ask(web.app, "/guide?language=cobol", headers=headers)
        assert (refused.status, "cobol" in refused.text) == (400, True)


async def test_the_guide_on_the_page_says_what_to_do_there(tmp_path: Path) -> None:
    """W1, U6: a chat types no command; the buttons that it names are those of the page."""
    async with serving(tmp_path) as web:
        headers = await signed(web)
        page = (await ask(web.app, "/guide.md", headers=headers)).text
        assert "duly check" not in page
        assert f"presses *{words.LOOK_FIRST}*" in page
        (tried,) = re.findall(r"\*(Try it [^*]+)\*", page)
        assert words.TRY_TODAY.startswith(tried)
        assert "duly check FILE" in await web.host.guide()
        for text in (page, await web.host.guide()):
            assert "the connections that the project had when it was made: `clock`." in text
            assert "<!--" not in text


async def test_the_guide_is_copied_by_a_button_that_is_there_with_javascript_alone(
    tmp_path: Path,
) -> None:
    """G14: without it the field is marked and copied by hand, as the page says."""
    async with serving(tmp_path) as web:
        text = (await ask(web.app, "/guide", headers=await signed(web))).text
        assert '<button type="button" data-copy="guide" hidden>' in text
        assert '<textarea id="guide"' in text
        assert f'<p id="guide-by-hand">{words.GUIDE_COPY}</p>' in unescape(text)
