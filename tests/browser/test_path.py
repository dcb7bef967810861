"""docs/path-page.md, word by word: what it says is pressed, followed and written in a browser.

Law: each line of a list on the page is one thing a reader does or reads; one that is not
understood here fails.
"""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from tests import house
from tests.browser.chromium import find
from tests.browser.judge import AXE, list_findings
from tests.browser.stand import WAIT_MS, call
from tests.faces.real import running
from tests.readme_page import path_to_duly

PAGE = house.ROOT / "docs" / "path-page.md"
EMPTY = "There is no workflow yet."  # a home of its own, with the scripts of the project
PIECE = re.compile(
    r"^```(?P<kind>sh first terminal|sh|text (?P<file>\S+))\n(?P<text>.*?)^```$"
    r"|^- (?P<line>[^\n]+)$",
    re.MULTILINE | re.DOTALL,
)
LINE = re.compile(
    r"Press \*\*(?P<press>[^*]+)\*\*\."
    r"|Follow \*\*(?P<follow>[^*]+)\*\*\."
    r"|Write `(?P<text>[^`]+)` into \*\*(?P<into>[^*]+)\*\*\."
    r"|Change `(?P<old>[^`]+)` to `(?P<new>[^`]+)` in \*\*(?P<inside>[^*]+)\*\*\."
    r"|You read: \*(?P<read>[^*]+)\*"
)


def pieces() -> list[re.Match[str]]:
    """Read what is typed, saved and done, in the order of the page."""
    return list(PIECE.finditer(PAGE.read_text(encoding="utf-8")))


def do(page: Page, line: str) -> None:
    """Do what one line says."""
    told = LINE.fullmatch(line)
    assert told is not None, f"not understood: {line}"
    main = page.locator("main")
    if name := told["press"]:
        page.get_by_role("button", name=name, exact=True).first.click()
    elif name := told["follow"]:
        page.get_by_role("link", name=name, exact=True).first.click()
    elif told["text"]:
        page.get_by_label(told["into"]).first.fill(told["text"])
    elif told["old"]:
        field = page.get_by_label(told["inside"])
        text = field.input_value()
        assert told["old"] in text
        field.fill(text.replace(told["old"], told["new"]))
    else:
        expect(main).to_contain_text(told["read"])
        if told["read"] == EMPTY:
            page.evaluate(AXE.read_text(encoding="utf-8"))
            assert list(list_findings(page, "a home without workflows", None)) == []


def test_every_line_of_the_path_with_the_page_is_so(tmp_path: Path) -> None:
    """U6, G13: two commands, and then a browser alone."""
    expect.set_options(timeout=WAIT_MS)
    first, *rest = pieces()
    assert first["kind"] == "sh"
    words = ["/bin/sh", "-ec", first["text"]]
    subprocess.run(words, cwd=tmp_path, env=path_to_duly(), capture_output=True, check=True)
    (folder,) = tmp_path.iterdir()
    start, *rest = rest
    assert start["text"].split() == ["duly", "serve"]
    options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
    with running(folder, "serve", "--page-port", "0") as host, sync_playwright() as play:
        host.until("Page http://")
        browser = play.chromium.launch(executable_path=str(find()), args=options)
        try:
            page = browser.new_page()
            page.set_default_timeout(WAIT_MS)
            page.goto(call(folder, "open").stdout.strip())
            for piece in rest:
                if piece["line"]:
                    do(page, piece["line"])
                elif (path := folder / piece["file"]).parent.name == "inbox":
                    path.write_text(piece["text"])
                else:
                    assert path.read_text() == piece["text"]
        finally:
            browser.close()
        assert [each.name for each in (folder / "outbox").glob("*.txt")] == ["ada.txt"]
        host.tell(signal.SIGTERM)
        assert host.end() == 0
