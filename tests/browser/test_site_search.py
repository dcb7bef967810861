"""The site's own search, from its folder, without a server (U6)."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from tests.browser.chromium import find
from tests.browser.stand import NARROW, WAIT_MS, WIDE
from tests.site.build import build


def test_words_find_a_heading_and_enter_leads_to_it(tmp_path: Path) -> None:
    """U6: opened as a file; no error, and nothing is fetched from elsewhere."""
    expect.set_options(timeout=WAIT_MS)
    out = build(tmp_path / "out").out
    asked: list[str] = []
    errors: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        page = browser.new_context(viewport=WIDE).new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((out / "index.html").as_uri())
        page.get_by_role("searchbox").fill("figures monitor")
        expect(page.locator("#found a").first).to_contain_text("Figures for a monitor")
        page.get_by_role("searchbox").press("Enter")
        expect(page.locator("h2#figures-for-a-monitor")).to_be_in_viewport()
        assert page.url.endswith("operations.html#figures-for-a-monitor")
        page.get_by_role("searchbox").fill("no such heading anywhere")
        expect(page.locator("#found")).to_have_text("No heading has these words.")
        page.get_by_role("searchbox").fill("")
        expect(page.locator("#found")).to_be_hidden()
        page.set_viewport_size(NARROW)
        page.reload()
        page.get_by_role("searchbox").fill("retention")
        expect(page.locator("#found a").first).to_be_visible()
        browser.close()
    assert errors == []
    assert [each for each in asked if not each.startswith(out.as_uri())] == []
