"""What a person presses while a page changes under their hand: no click is taken for another one.

Law: a walk leaves nothing open that the next one would meet: what waited has been decided.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from playwright.sync_api import Locator, Page, Route, expect

from duly.words import offered as words
from tests.browser.judge import judge
from tests.browser.stand import Person, call
from tests.browser.walk import HIDDEN, HOSTILE, article, follows, letter
from tests.connectors.mcp_server import TOOLS
from tests.faces.real import wait_for

OPEN_PAGES: Final = ("/", "/w/letters", "/why/letters", "/m/{mutation}", "/runs/{run}")
REFUSED: Final = ("401", "404", "409")
STREAM: Final = "text/event-stream"
# Set `window.told` when a page was made anew with a text in it, after the script of the page.
HEAR: Final = """text => source.addEventListener("page", (event) => {
  if (event.data.includes(text)) window.told = text;
})"""
# A button that came up just now: how it takes a click, and how it does a moment later.
FRESH: Final = """each => {
  const copy = each.cloneNode(true);
  each.after(copy);
  const first = getComputedStyle(copy).pointerEvents;
  for (const each of copy.getAnimations()) each.finish();
  const then = getComputedStyle(copy).pointerEvents;
  copy.remove();
  return [first, then];
}"""
# The same button after something above it went away.
MOVED: Final = """each => {
  for (const one of each.getAnimations()) one.finish();
  const before = getComputedStyle(each).pointerEvents;
  const other = document.createElement("article");
  each.closest("article").before(other);
  drop(other);
  return [before, getComputedStyle(each).pointerEvents];
}"""
# The main part as it was updated, and as a reload would show it.
BOTH: Final = """async () => {
  const text = await (await fetch(location.href)).text();
  const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("main");
  const old = document.querySelector("main").cloneNode(true);
  for (const each of old.querySelectorAll("[hidden]")) each.hidden = false;
  for (const each of old.querySelectorAll(".new")) each.remove();
  for (const each of old.querySelectorAll("details")) each.open = false;
  for (const each of old.querySelectorAll("[data-sent]")) delete each.dataset.sent;
  for (const each of old.querySelectorAll("[class='']")) each.removeAttribute("class");
  for (const each of old.querySelectorAll("[class~='at']")) each.classList.remove("at");
  return [old, fresh].map(each => each.innerHTML.replace(/\\s+/g, " "));
}"""
TOUCHED: Final = """() => !!document.querySelector("[data-gone]")
  || [...document.querySelectorAll("main input, main textarea, main select")].some(isTouched)"""


def is_as_reloaded(page: Page) -> None:
    """G13: a page that nobody touches says the same, updated or loaded anew."""
    if not page.locator("main[data-live]").count() or page.evaluate(TOUCHED):
        return

    def is_same() -> bool:
        one, other = page.evaluate(BOTH)
        return bool(one == other)

    wait_for(is_same, f"the page {page.url} as a reload shows it")


def _approvals(person: Person) -> list[dict[str, Any]]:
    return list(json.loads(call(person.folder, "approvals", "--json").stdout))


def _newest(person: Person) -> dict[str, Any]:
    """Read the newest change of the letters."""
    told = call(person.folder, "mutations", "letters", "--limit", "1", "--json").stdout
    (found,) = json.loads(told)
    return dict(found)


def _centre(button: Locator) -> tuple[float, float]:
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def second_click_settles_nothing(person: Person, page: Page) -> None:
    """L10: where the answer to an approved call is lost, a second click answers nothing for it."""
    person.publish("letters", "Letter clicked twice", "twice", letter(subject="Lost"))
    person.goes(page, "/")
    button = article(page, "Letter clicked twice").get_by_role("button", name="Approve")
    place = _centre(button)
    button.dblclick()
    settling = page.get_by_text("Say what became of it")
    expect(settling).to_be_visible()
    for _ in range(2):  # also one who clicks on, however slowly
        page.mouse.dblclick(*place)
    expect(page.get_by_role("button", name="happen")).to_have_count(0)
    row = _newest(person)
    assert (row["status"], row["attempt"]) == ("indeterminate", 1)
    person.goes(page, "/")
    settling.click()
    page.get_by_role("button", name="It happened", exact=True).click()
    expect(page.locator("article")).to_have_count(0)
    row = _newest(person)
    assert (row["status"], row["attempt"]) == ("applied", 1)


def second_click_without_javascript_sends_nothing(person: Person, _: Page) -> None:
    """G11: a browser without scripts posts both clicks; the call is sent once."""
    person.publish("letters", "Letter to Carl", "carl", letter(to="carl@example.org"))
    window = person.context(java_script_enabled=False)
    page = window.new_page()
    wait_for(lambda: bool(_approvals(person)), "the letter to Carl")
    page.goto("/")
    button = page.locator("article", has_text="Letter to Carl").get_by_role(
        "button", name="Approve"
    )
    button.dblclick()
    wait_for(lambda: _newest(person)["status"] == "applied", "the letter to Carl")
    window.close()
    assert [each for each in person.posts() if "carl@" in each] == ["carl@example.org: Hello"]
    _forgive(person)


def what_comes_up_takes_no_click(person: Person, page: Page) -> None:
    """A button that comes up, or moves up, under a hand is not pressed by a click for another."""
    person.publish("letters", "Letter to Dora", "dora", letter(to="dora@example.org"))
    person.goes(page, "/")
    each = article(page, "Letter to Dora")
    button = each.get_by_role("button", name="Approve")
    assert button.evaluate(FRESH) == ["none", "auto"]
    assert button.evaluate(MOVED) == ["auto", "none"]
    each.get_by_role("button", name="Reject").click()
    expect(page.locator("article")).to_have_count(0)


def decided_call_goes_and_the_next_arrives(person: Person, page: Page) -> None:
    """G13: a page that is followed lets a decided call go, and shows the next of its workflow."""
    for name in ("Emil", "Fay"):
        person.publish("letters", f"Letter to {name}", name, letter(to=f"{name}@example.org"))
    for path, name in (("/", "Emil"), ("/w/letters", "Fay")):
        person.goes(page, path)
        article(page, f"Letter to {name}")
        follows(page)
        if name == "Fay":
            person.publish("letters", "Letter to Gus", "Gus", letter(to="gus@example.org"))
        (waiting,) = _approvals(person)
        done = call(person.folder, "approve", waiting["mutation"], "--yes")
        assert done.exit_code == 0, done.output
        other = "Fay" if name == "Emil" else "Gus"
        each = page.locator("article", has_text=f"Letter to {other}")
        # Behind `1 new`, unless the page was made while neither of the two waited.
        article(page, f"Letter to {other}")
        expect(page.locator("article")).to_have_count(1)
        is_as_reloaded(page)
    each.get_by_role("button", name="Reject").click()
    expect(page.locator("article")).to_have_count(0)


def changed_call_stays_on_every_page(person: Person, page: Page) -> None:
    """G11: what is approved is what was read, on every page that has the button."""
    person.publish("letters", "Letter to Hans", "hans", letter(to="hans@example.org"))
    person.goes(page, "/")
    article(page, "Letter to Hans")
    (waiting,) = _approvals(person)
    page.goto("about:blank")  # a browser opens six connections to one host, and not more
    tabs: list[Page] = []
    for path in OPEN_PAGES:
        tab = page.context.new_page()
        person.goes(tab, path.format(**waiting))
        follows(tab)
        tab.evaluate(HEAR, "Dear Hedy")
        tab.evaluate("document.querySelector('main form').dataset.sent = '1'")
        tabs.append(tab)
    words = ("amend", waiting["mutation"], waiting["hash"], json.dumps({"text": "Dear Hedy"}))
    assert call(person.folder, *words).exit_code == 0
    for path, tab in zip(OPEN_PAGES, tabs, strict=True):
        wait_for(lambda tab=tab: tab.evaluate("window.told") is not None, path)  # type: ignore[misc]
        shown = tab.locator(f"[data-hash='{waiting['hash']}']")
        expect(shown).to_contain_text("Dear Ada")
        expect(shown).not_to_contain_text("Dear Hedy")
        assert tab.evaluate("document.querySelector('main form').dataset.sent") == "1", path
        tab.evaluate("delete document.querySelector('main form').dataset.sent")
        act = "Reject" if path == "/" else "Approve"
        shown.get_by_role("button", name=act).click()
        expect(tab.locator("h1")).to_contain_text("The call changed")
        expect(tab.locator("dd.meant")).to_have_count(2)  # the body, on both sides
        for text in ("Dear Ada", "Dear Hedy"):
            expect(tab.locator("div.sides dl.form", has_text=text)).to_be_visible()
        if path == "/":
            judge(person, tab, "a call that changed", "page-conflict")
        tab.close()
    _forgive(person)
    person.goes(page, "/")
    article(page, "Letter to Hans").get_by_role("button", name="Reject").click()
    expect(page.locator("article")).to_have_count(0)


def dead_letters_are_decided(person: Person, page: Page) -> None:
    """B5: what an extension gave up stands on the bus with its error: once more, or put away."""
    person.goes(page, "/bus")
    for _ in range(2):
        assert call(person.folder, "bus", "emit", "lamp.lit", "{}").exit_code == 0
    given_up = page.locator("article", has_text="The lamp is broken")
    expect(given_up).to_have_count(2)
    judge(person, page, "dead letters")
    given_up.first.get_by_role("button", name="Retry").click()  # in vain
    expect(given_up).to_have_count(2)
    (person.folder / "mended").touch()
    given_up.first.get_by_role("button", name="Retry").click()
    expect(given_up).to_have_count(1)
    given_up.get_by_role("button", name="Discard").click()
    expect(given_up).to_have_count(0)
    assert (person.folder / "lit").read_text() == "lit\n"


def offers_are_read_and_agreed_to(person: Person, page: Page) -> None:
    """M7, G9: what a server offers is shown whole; one that changed is agreed to in nothing."""
    person.goes(page, "/connect/notes")
    page.get_by_role("button", name=words.ASK_OFFERS).click()
    expect(page.locator("article", has_text="addNote")).to_contain_text("Add a note.")
    judge(person, page, "what a server offers")
    other = [TOOLS[0], {**TOOLS[1], "description": HOSTILE}]
    (person.folder / "tools.json").write_text(json.dumps(other))
    page.get_by_role("button", name=words.AGREE).click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was agreed to")
    assert not HIDDEN & set(page.locator("main").inner_text())
    assert page.locator("main script, main img").count() == 0
    judge(person, page, "other tools than were shown")
    page.get_by_role("button", name=words.AGREE).click()
    expect(page.get_by_role("status")).to_contain_text("Agreed to: 2 tools.")
    judge(person, page, "tools that were agreed to")
    _forgive(person)


def what_is_gone_is_said(person: Person, page: Page) -> None:
    """G6: signed out, or gone: neither is called a lost connection, nor tried for ever."""
    link = call(person.folder, "open").stdout.strip()
    window = person.context()
    window.clear_cookies()
    tab = window.new_page()
    tab.clock.install()
    tab.goto(link)
    tab.fill("#name", "Old phone")
    tab.click("main button")
    person.goes(tab, "/w/letters/setup")
    tab.get_by_label("Title").fill("Typed before")
    asked: list[str] = []
    follows(tab)
    assert call(person.folder, "token", "revoke", "Old phone").exit_code == 0
    expect(tab.locator("#told")).to_contain_text("not signed in any more")
    tab.on("request", lambda each: asked.append(each.url))
    tab.clock.run_for(60_000)
    assert (asked, tab.evaluate("source")) == ([], None)
    assert tab.get_by_label("Title").input_value() == "Typed before"
    window.close()

    def refuse(route: Route) -> None:
        if route.request.headers.get("accept") == STREAM:
            route.fulfill(status=404)
        else:
            route.continue_()

    page.route("**/w/letters", refuse)
    person.goes(page, "/w/letters")
    expect(page.locator("#told")).to_contain_text("This is not here any more.")
    page.unroute("**/w/letters")
    _forgive(person)


def _forgive(person: Person) -> None:
    """Forget what a browser says on its console of a page that says no."""
    found = [each for each in person.problems if not any(code in each for code in REFUSED)]
    person.problems[:] = found


LIVE: Final[tuple[Callable[[Person, Page], None], ...]] = (
    second_click_settles_nothing,
    second_click_without_javascript_sends_nothing,
    what_comes_up_takes_no_click,
    decided_call_goes_and_the_next_arrives,
    changed_call_stays_on_every_page,
    dead_letters_are_decided,
    offers_are_read_and_agreed_to,
    what_is_gone_is_said,
)
