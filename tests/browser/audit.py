"""Every page as every person may see it: wide and narrow, light and dark, without JavaScript.

Law: axe finds nothing, nothing is wider than the window, and nothing needs a script to be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from playwright.sync_api import BrowserContext, Page, expect

from duly.faces.web.look import HTML, _write
from tests.browser.judge import AXE, LOOKS, SOME_LOOKS, list_findings
from tests.browser.picture import take
from tests.browser.stand import NARROW, WIDE, Person
from tests.browser.walk import article, letter

PICTURED: Final = ((WIDE, "light"), (NARROW, "dark"))
PICTURES: Final = {
    "/": "page-home",
    "/w/letters": "page-workflow",
    "/m/{mutation}": "page-change",
    "/runs/{failed}": "page-run",
    "/w/letters/versions/1.0..2.0": "page-versions",
}
REFUSED: Final = re.compile(r"\b(?:400|404|409)\b")  # pages that say no: a browser notes them
PAGES: Final = (
    *("/", "/w/letters", "/w/letters/outputs", "/w/letters/runs", "/w/letters/versions"),
    *("/w/letters/versions/1.0", "/w/letters/versions/1.0..2.0", "/w/mail-to-table/setup"),
    "/w/letters/setup",
    *("/i/letters/{seq}", "/m/{mutation}", "/runs/{failed}", "/why/letters", "/find?text=Letter"),
    *(
        "/bus",
        "/tools",
        "/guide",
        "/models",
        "/models?workflow=letters",
        "/connect/archive",
        "/right?workflow=letters&capability=post.send",
        "/add",
        "/add/mail",
        "/actions",
        "/settings",
        "/doctor?verify=1",
    ),
    *(
        "/scripts",
        "/scripts/letters.py",
        "/sign-in?code=0",
        "/ask?code=0",
        "/ask?code=shown",
        "/nothing",
    ),
)

# Other states of these pages, looked at in two ways alone; `judge` looks at more on its way.
STATES: Final = (
    *("/w/letters?text=Letter&status=done", "/w/letters?status=skipped", "/find?text=nothing+here"),
    *("/w/letters/outputs?status=done", "/w/letters/runs?status=committed"),
    *("/w/letters/versions/1.0..2.0?what_if=1", "/why/bus:{bus}", "/find?first_day=2020-01-01"),
)
# What a walk shows to `judge`, because it is the one that comes there.
JUDGED: Final = ("/proposals/{proposal}",)

# What a mail asks about stands only behind the code in the mail; so the page is given the facts.
ASKED: Final = {
    "text": "Letters wants to send a letter.\n\nTo: ada@example.org\nSubject: " + "Hello " * 40,
    "hash": "0" * 64,
    "actor": "mail:ada@example.org",
    "ended": None,
}


def audit(person: Person, pictures: Path) -> None:
    """Look at every page wide and narrow, light and dark; keep pictures of some."""
    person.publish("letters", "Letter to look at", "20", letter(claim="Water the flowers"))
    source = AXE.read_text(encoding="utf-8")
    found: list[str] = []
    window = person.context()
    _answer_asked(window)
    page = window.new_page()
    person.goes(page, "/")
    article(page, "Letter to look at")
    names = _names(page, person)
    for path in (*PAGES, *STATES):
        person.goes(page, path.format(**names))
        page.evaluate(source)
        for size, scheme, rules in LOOKS if path in PAGES else SOME_LOOKS:
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme)
            found += list_findings(page, f"{path} ({scheme})", rules)
            if (size, scheme) in PICTURED and (name := PICTURES.get(path)) is not None:
                take(page, pictures / f"{name}-{size['width']}.png")
    window.close()
    found += _without_scripts(person, source, names)
    person.problems[:] = [each for each in person.problems if not REFUSED.search(each)]
    assert found == [], "\n".join(found)


def _without_scripts(person: Person, axe: str, names: dict[str, str]) -> Iterator[str]:
    """Look at every page whose own scripts never came: axe itself needs JavaScript to look."""
    window = person.context()
    window.route("**/*.js", lambda each: each.fulfill(content_type="text/javascript", body=""))
    _answer_asked(window)
    page = window.new_page()
    for path in PAGES:
        page.goto(path.format(**names))
        page.evaluate(axe)
        for size, scheme, rules in SOME_LOOKS:
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme)
            yield from list_findings(page, f"{path} ({scheme}, no script)", rules)
    window.close()


def a_double_click_deploys_once(person: Person) -> None:
    """Without JavaScript: two clicks at once on *Deploy* are one version."""
    window = person.context(java_script_enabled=False)
    page = window.new_page()
    page.goto("/scripts")
    page.get_by_role("link", name="the guide for a language model").click()
    expect(page.locator("textarea[readonly]")).to_have_value(re.compile("^# Write a Duly workflow"))
    with page.expect_download() as download:
        page.get_by_role("link", name="Download it as a file").click()
    assert download.value.suggested_filename == "duly-guide.md"
    page.goto("/w/cards/versions")
    before = page.locator("tr[data-item]").count()
    field = page.get_by_label("Source")
    field.fill(f"{field.input_value()}\n# Another text.\n")
    page.get_by_role("button", name="Check it").click()
    page.get_by_role("button", name="Deploy").dblclick()
    expect(page.locator("main")).to_contain_text(re.compile("No new version|active"))
    page.goto("/w/cards/versions")
    expect(page.locator("tr[data-item]")).to_have_count(before + 1)
    window.close()


def _answer_asked(window: BrowserContext) -> None:
    """Show the page behind the link of a mail, as the template writes it."""
    around = {"root": "", "path": "/ask", "caller": None, "may": lambda _: False, "host_id": ""}
    given = {**around, "is_live": False, "is_part": False, "zone": "UTC"}
    text = _write("asked.html", {**given, "code": "0" * 22, "told": "", "asked": ASKED})
    window.route("**/ask?code=shown", lambda each: each.fulfill(content_type=HTML, body=text))


def _names(page: Page, person: Person) -> dict[str, str]:
    """Find a change and a failed run to look at."""
    change = page.get_by_role("link", name="All about this change").first
    mutation = str(change.get_attribute("href")).rpartition("/")[2]
    person.goes(page, "/w/letters/runs")
    failed = page.locator("tr[data-item]", has_text="no address").last.get_by_role("link")
    run = str(failed.get_attribute("href")).rpartition("/")[2]
    person.goes(page, "/w/letters")
    came = page.locator("tr[data-item]", has_text="Letter to Ada").get_by_role("link").first
    seq = str(came.get_attribute("href")).rpartition("/")[2]
    person.goes(page, "/bus")
    told = page.locator("tbody[data-rows] tr[data-item]").first
    return {
        "mutation": mutation,
        "failed": run,
        "seq": seq,
        "bus": str(told.get_attribute("data-key")),
    }


def without_javascript(person: Person) -> None:
    """A person without JavaScript reads every page, and rejects something by a form."""
    window = person.context(java_script_enabled=False)
    _answer_asked(window)
    page = window.new_page()
    for path in PAGES:
        if "{" not in path:
            page.goto(path)
            expect(page.locator("main h1")).to_be_visible()
    page.goto("/")
    each = page.locator("article", has_text="Letter to look at")
    each.get_by_label("Reason").fill("Enough flowers")
    each.get_by_role("button", name="Reject").click()
    expect(page.locator("article")).to_have_count(0)
    page.goto("/w/letters")
    expect(page.locator("tr", has_text="Letter to look at")).to_contain_text("rejected")
    window.close()
    person.problems[:] = [each for each in person.problems if not REFUSED.search(each)]
