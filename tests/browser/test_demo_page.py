"""`duly demo`: a visitor kills the programs and cuts their network, in a real browser (L5, G14)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.chromium import find
from tests.browser.judge import AXE, BY_LOOK, RUN, TOO_WIDE
from tests.browser.picture import KEEP, take
from tests.browser.stand import NARROW, WAIT_MS, WIDE
from tests.faces.real import PATIENCE_S

INVOICES: Final = os.environ.get("DEMO_INVOICES", "10")
ROUNDS: Final = max(1, int(INVOICES) // 33)  # of one kill and one cut
DBOS: Final = os.environ.get("DEMO_DBOS")  # a Python that has it, for the picture
URL: Final = re.compile(r"http://\S+")
COUNTERS: Final = re.compile(r"^   Duly +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$", re.MULTILINE)


def until(page: Page, label: str, least: int) -> None:
    """Wait until Duly has come so far; the page moves by itself."""
    script = """([label, least]) => [...document.querySelectorAll("article")[0]
      .querySelectorAll(".counters > div")].some(each =>
        each.querySelector("dt").textContent === label &&
        Number(each.querySelector("dd").textContent) >= least)"""
    page.wait_for_function(script, arg=[label, least], timeout=6 * WAIT_MS)


def test_a_visitor_kills_and_cuts_and_nothing_is_twice_or_lost(tmp_path: Path) -> None:
    """L5, L6, R7: the buttons are pressed while work is under way; the outside counts."""
    pictures = Path(os.environ.get(KEEP) or tmp_path)
    more = [] if DBOS is None else ["--dbos", DBOS]
    words = ["demo", "d", "--only-page", "--invoices", INVOICES, *more]
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "duly", *words],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert child.stdout is not None
            url = next(found for line in child.stdout if (found := URL.search(line)))[0]
            _visit(url, pictures)
            out, err = child.communicate(timeout=PATIENCE_S)
        finally:
            child.terminate()
    assert (child.returncode, err) == (0, "")
    counted = COUNTERS.search(out)
    assert counted is not None, out
    assert [int(each) for each in counted.groups()] == [int(INVOICES)] * 3 + [0, 0, 0]
    pressed = f"{ROUNDS} × kill -9 and {ROUNDS} × network cut"
    assert f"Duly: nothing twice, nothing lost, after {pressed}." in out


def _visit(url: str, pictures: Path) -> None:
    """Press both buttons and look at the page as the audit of all pages does."""
    with sync_playwright() as play:
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = play.chromium.launch(executable_path=str(find()), args=options)
        context = browser.new_context(viewport=WIDE)
        problems: list[str] = []
        context.on("console", lambda each: problems.append(each.text))
        page = context.new_page()
        page.goto(url, wait_until="domcontentloaded")
        for each in range(ROUNDS):
            until(page, "rows", 20 * each + 2)
            page.get_by_role("button", name="kill -9").click()
            expect(page.locator(".presses li")).to_have_count(2 * each + 1, timeout=WAIT_MS)
            until(page, "replies", 20 * each + 3)
            page.get_by_role("button", name="Cut the network").click()
            expect(page.locator(".presses li")).to_have_count(2 * each + 2, timeout=WAIT_MS)
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = [*page.evaluate(RUN, None)]
        page.set_viewport_size(NARROW)
        page.emulate_media(color_scheme="dark")
        found += page.evaluate(RUN, BY_LOOK)
        assert (found, page.evaluate(TOO_WIDE), problems) == ([], 0, [])
        if KEEP in os.environ:
            page.set_viewport_size(WIDE)
            page.emulate_media(color_scheme="light")
            until(page, "replies", int(INVOICES))
        take(page, pictures / "demo-1280.png")
        browser.close()
