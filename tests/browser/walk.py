"""What a person does with the page, one walk after the other, with one host and one browser.

Law: a walk leaves nothing open that the next one would meet: what waited has been decided.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Final

from playwright.sync_api import Locator, Page, expect

from tests.browser.judge import judge
from tests.browser.stand import Person, age, call
from tests.faces.real import wait_for

LETTER: Final = {"to": "ada@example.org", "subject": "Hello", "text": "Dear Ada,\nhow are you?"}
MAIL: Final = b"From: Ada <ada@example.org>\r\nTo: office@desk.example\r\nSubject: Rent %d\r\n"
OPEN: Final = 1  # of an event source
HIDE: Final = """each => {
  Object.defineProperty(document, "hidden", { value: each, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
# Markup, a template, a terminal, directions, nothing at all.
HOSTILE: Final = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}\x1b[31m pay\u202etxt.exe"
    "\u200b\u2066zero\u2069 😀"
)
PRINTABLE: Final = "<script>alert(1)</script>{{ 7 * 7 }} 😀"  # no other text is a title (T3)
LONG: Final = "x" * 100_000
# Each character that has no width, or that stands before the one it follows.
MISPLACED: Final = """each => {
  const found = [], node = each.firstChild, range = document.createRange();
  let at = 0, before = { left: -1, top: -1 };
  for (const character of node.data) {
    range.setStart(node, at);
    range.setEnd(node, at += character.length);
    const box = range.getBoundingClientRect();
    const isOn = Math.abs(box.top - before.top) < box.height / 2;
    const isHidden = !box.width || (isOn && box.left <= before.left);
    if (character !== "\\n" && isHidden) found.push(character);
    before = box;
  }
  return found;
}"""
HIDDEN: Final = set("\x1b\u202e\u200b\u2066\u2069")
SPELLED: Final = ("1b[31m", "\\u202e", "\\u200b", "\\u2066", "\\u2069")


def letter(**more: str) -> str:
    return json.dumps({**LETTER, **more})


def article(page: Page, title: str) -> Locator:
    """Find what waits, also if it came a moment after the page and is behind `1 new`."""
    found = page.locator("article[data-item]", has_text=title)
    found.wait_for(state="attached")
    while (button := page.locator(".new button").first).count():
        button.click()
    expect(found).to_be_visible()
    return found


def follows(page: Page) -> None:
    """Wait until a page follows its address; its policy forbids it to evaluate a text itself."""
    wait_for(lambda: page.evaluate("source && source.readyState") == OPEN, "the stream")


def mail_arrives(person: Person, page: Page) -> None:
    """A mail is put into the mailbox and its row appears by itself, behind `1 new`."""
    person.goes(page, "/w/mail-to-table")
    expect(page.locator(".empty")).to_be_visible()
    for number in (1, 2):
        name = person.folder / "mailbox" / f"{number}.eml"
        name.with_suffix(".part").write_bytes(MAIL % number + b"\r\nThe rent is due.\r\n")
        name.with_suffix(".part").rename(name)
        row = page.locator("tr[data-item]", has_text=f"Rent {number}")
        if number == 2:  # the list has a row by now: a new one waits until it is asked for
            page.get_by_role("button", name="1 new").click()
        expect(row).to_be_visible()
        expect(row).to_contain_text("done")
    row.get_by_role("link", name="Rent 2").click()
    expect(page.locator("h1")).to_contain_text("Rent 2")
    expect(page.locator("article").first).to_contain_text("table.insert")
    page.go_back()
    expect(row).to_be_visible()
    page.reload()
    expect(row).to_be_visible()


def publish_and_approve(person: Person, page: Page) -> None:
    """The form checks JSON while it is typed; an approval is given once from two tabs."""
    person.goes(page, "/w/letters/setup")
    page.locator("form[action$=publish] select").select_option("letter.came")
    page.get_by_label("Title").fill("Letter to Ada")
    field = page.get_by_label("Payload as JSON")
    field.fill("{")
    assert field.evaluate("each => each.validationMessage").startswith("This is not JSON yet.")
    field.fill(letter())
    assert field.evaluate("each => each.validationMessage") == ""
    page.get_by_role("button", name="Publish").click()
    page.wait_for_url("**/w/letters")
    person.goes(page, "/")
    other = page.context.new_page()
    person.goes(other, "/")
    one, two = article(page, "Letter to Ada"), article(other, "Letter to Ada")
    other.evaluate("close()")
    text = one.inner_text()
    assert text.index("OBSERVED") < text.index("ada@example.org") < text.index("CLAIMED")
    assert text.index("CLAIMED") < text.rindex("Say hello")
    one.get_by_role("button", name="Approve").click()
    expect(page.locator("article", has_text="Letter to Ada")).to_have_count(0)
    two.get_by_role("button", name="Approve").click()  # a tab that saw nothing of it
    expect(other.locator("h1")).to_contain_text("This was not done")
    other.close()
    person.problems[:] = [each for each in person.problems if "409" not in each]
    person.goes(page, "/w/letters/outputs")
    expect(page.locator("tr[data-item]").first).to_contain_text("done")
    assert person.posts() == ["ada@example.org: Hello"]


def changed_call_stays_as_it_was_shown(person: Person, page: Page) -> None:
    """G11: what is approved is what was read, also where the page would have followed a change."""
    person.publish("letters", "To be amended", "amended", letter())
    person.goes(page, "/")
    follows(page)
    each = article(page, "To be amended")
    shown = each.get_attribute("data-hash")
    (waiting,) = json.loads(call(person.folder, "approvals", "--json").stdout)
    words = ("amend", waiting["mutation"], waiting["hash"], json.dumps({"text": "Dear Eve"}))
    assert call(person.folder, *words).exit_code == 0
    person.publish("cards", "Note to Dan", "amended", letter(to="dan@example.org"))
    page.get_by_role("button", name="1 new").click()  # the page was made anew
    assert each.get_attribute("data-hash") == shown
    expect(each).not_to_contain_text("Dear Eve")
    each.get_by_role("button", name="Approve").click()
    expect(page.locator("h1")).to_contain_text("The call changed")
    expect(page.locator("main")).to_contain_text("Dear Eve")
    judge(person, page, "a conflict")
    person.problems[:] = [each for each in person.problems if "409" not in each]
    for title in ("To be amended", "Note to Dan"):
        person.goes(page, "/")
        article(page, title).get_by_role("button", name="Reject").click()
        expect(page.locator("article", has_text=title)).to_have_count(0)


def typed_text_survives(person: Person, page: Page) -> None:
    """A page that changes keeps what is typed, ticked, opened and focused, and where it was."""
    person.publish("letters", "To be rejected", "2", letter(claim="Water the flowers"))
    person.goes(page, "/")
    each = article(page, "To be rejected")
    each.get_by_text("The raw call").click()
    reason = each.get_by_label("Reason")
    reason.fill("She has moved")
    page.evaluate("window.scrollTo(0, 60)")
    person.publish("cards", "Card to Bob", "1", letter(to="bob@example.org"))
    page.get_by_role("button", name="1 new").click()  # the page was made anew
    expect(page.locator("article", has_text="Card to Bob")).to_be_visible()
    assert reason.input_value() == "She has moved"
    assert each.locator("details[open]").count() == 1
    assert page.evaluate("window.scrollY") > 0
    tick = each.get_by_role("checkbox")
    tick.check()
    person.publish("cards", "Card to Eve", "2", letter(to="eve@example.org"))
    expect(page.locator("tr", has_text="cards")).to_be_visible()
    assert tick.is_checked()
    tick.uncheck()
    each.get_by_role("button", name="Reject").click()
    expect(page.locator("article", has_text="To be rejected")).to_have_count(0)
    person.goes(page, "/w/letters")
    row = page.locator("tr[data-item]", has_text="To be rejected")
    expect(row).to_contain_text("rejected")
    row.get_by_role("link", name="post.send").click()
    for told in ("Water the flowers", "She has moved", "rejected", "ada@example.org"):
        expect(page.locator("main")).to_contain_text(told)


def several_at_once(person: Person, page: Page) -> None:
    """Two calls of one tool are approved in one act; each of them is listed."""
    person.publish("letters", "Letter three", "3", letter(subject="Three"))
    person.goes(page, "/")
    for title in ("Letter three", "Card to Bob"):
        article(page, title).get_by_label("Approve with the others").check()
    page.get_by_role("button", name="Approve the ticked calls of post.send").click()
    expect(page.locator("td", has_text="approved")).to_have_count(2)
    judge(person, page, "several approved")
    page.get_by_role("link", name="Back").click()
    each = article(page, "Card to Eve")
    each.get_by_role("button", name="Reject").click()
    expect(page.locator("article")).to_have_count(0)
    assert sorted(person.posts()[1:]) == ["ada@example.org: Three", "bob@example.org: Hello"]


def unknown_is_settled(person: Person, page: Page) -> None:
    """What may have happened is asked of the person, who settles it."""
    person.publish("letters", "Letter lost", "4", letter(subject="Lost"))
    person.goes(page, "/")
    article(page, "Letter lost").get_by_role("button", name="Approve").click()
    expect(page.locator("article dl.form")).to_contain_text("ada@example.org")
    page.get_by_text("Say what became of it").click()
    page.get_by_role("button", name="It happened", exact=True).click()
    expect(page.locator("article")).to_have_count(0)
    person.goes(page, "/w/letters/outputs")
    page.locator("tr[data-item]").first.get_by_role("link", name="post.send").click()
    expect(page.locator(".timeline")).to_contain_text("Settled by")
    expect(page.locator(".timeline")).to_contain_text("Approved by device:Ada's browser")


def failure_is_repaired(person: Person, page: Page) -> None:
    """A failed script shows its line; retry, a corrected version, the difference, and back."""
    person.publish("letters", "Letter nowhere", "5", json.dumps({"subject": "x", "text": "y"}))
    person.goes(page, "/")
    each = article(page, "letters")
    each.get_by_role("button", name="Retry").click()
    person.goes(page, "/w/letters/runs")
    page.locator("tr[data-item]").first.get_by_role("link").click()
    expect(page.locator(".meant")).to_contain_text("The letter has no address")
    expect(page.locator(".log")).to_contain_text("writing to")
    person.goes(page, "/w/letters/versions")
    source = page.get_by_label("Source")
    text = source.input_value()
    source.fill(text.replace('raise ValueError("The letter has no address")', "return"))
    page.get_by_role("button", name="Check it").click()
    expect(page.locator("main")).to_contain_text("A new version of “letters”")
    judge(person, page, "a pasted script before it is deployed")
    page.get_by_role("button", name="Deploy").click()
    expect(page.locator("tr", has_text="2.0")).to_contain_text("active")
    person.goes(page, "/w/letters")
    expect(page.locator("tr", has_text="Letter nowhere")).to_contain_text("done")
    person.goes(page, "/w/letters/versions")
    page.get_by_role("link", name="Compare").click()
    expect(page.locator(".diff .removed").first).to_be_visible()
    page.get_by_role("link", name="Try 1.0").click()
    expect(page.locator("main")).to_contain_text("tried")
    page.get_by_role("button", name="Roll back to 1.0").click()
    expect(page.locator("tr", has_text="3.0")).to_contain_text("active")
    expect(page.locator("tr", has_text="3.0")).to_contain_text("of 1.0")


def webhook_comes_in(person: Person, page: Page) -> None:
    """A topic is opened on the page; what a service sends is a row, and a repeat is none."""
    person.goes(page, "/w/cards/setup")
    page.get_by_label("Topic of the webhook").select_option("letter.came")
    page.get_by_role("button", name="Open a webhook").click()
    expect(page.locator("h1")).to_contain_text("The webhook is open")
    judge(person, page, "a secret that is shown once")
    address = page.locator("#address").input_value()
    page.get_by_role("button", name="Copy").first.click()
    expect(page.locator("#told")).to_have_text("Copied.")
    person.goes(page, "/w/cards")
    follows(page)
    for answer in ("new", "same"):
        sent = page.request.post(
            address,
            headers={"content-type": "application/json", "webhook-id": "msg_1"},
            data=letter(title="Card by webhook"),
        )
        assert (sent.status, sent.json()["event"]) == (202, answer)
    row = page.locator("tr[data-item]", has_text="Card by webhook")
    row.wait_for(state="attached")
    each = article(page, "Card by webhook")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("waiting")
    each.get_by_role("button", name="Reject").click()
    expect(row).to_contain_text("rejected")


def proposals_are_decided(person: Person, page: Page) -> None:
    """What an agent proposes is compared, and turned down or put to use."""
    old = person.folder / "workflows" / "cards.py"
    proposed = person.folder / "proposed.py"
    for claim in ("Say goodbye", "Say good morning"):
        proposed.write_text(old.read_text().replace("Say hello", claim))
        done = call(person.folder, "propose", str(proposed))
        assert done.exit_code == 0, done.output
        person.goes(page, "/")
        page.get_by_role("link", name="Read and compare").click()
        expect(page.locator(".diff .added")).to_contain_text(claim)
        judge(person, page, "a proposal")
        if claim == "Say goodbye":
            page.get_by_label("Reason").fill("Too sad")
            page.get_by_role("button", name="Decline").click()
        else:
            page.get_by_role("button", name="Adopt").click()
            expect(page.locator("tr", has_text="2.0")).to_contain_text("active")
            person.goes(page, "/")
        expect(page.locator("article")).to_have_count(0)
    person.goes(page, "/actions?workflow=cards")
    expect(page.locator("main")).to_contain_text("adopt")


def phone_is_paired(person: Person, page: Page) -> None:
    """A code is shown on the page; the page says if no phone can reach it."""
    person.goes(page, "/settings")
    page.get_by_role("button", name="Show a code").click()
    expect(page.locator("svg.qr")).to_be_visible()
    expect(page.locator("main")).to_contain_text("no phone reaches it")
    judge(person, page, "a link as a picture")
    link = page.locator("main code").inner_text()
    other = person.browser.new_context(base_url=person.url)
    phone = other.new_page()
    phone.goto(link)
    phone.get_by_role("button", name="Sign in").click()
    phone.wait_for_url(f"{person.url}/")
    expect(phone.get_by_role("link", name="Settings")).to_have_count(0)  # its scope is `decide`
    other.close()


def connection_is_proven(person: Person, page: Page) -> None:
    """From *Tools* to a connection: a secret is set, a trial is shown, made once, and believed."""
    person.goes(page, "/tools")
    page.get_by_role("link", name="archive", exact=True).click()
    expect(page.locator("main")).to_contain_text("not yet proven with your account")
    page.get_by_text("Another secret").click()
    page.get_by_label("Name").fill("token")
    page.get_by_label("Value").fill("open-sesame")
    page.get_by_role("button", name="Set").click()
    expect(page.get_by_label("New value of token")).to_have_value("")
    expect(page.locator("article")).to_contain_text("A trial of Duly")
    kept = person.folder / "kept"
    assert not kept.exists()
    page.get_by_role("button", name="Prove archive.keep").click()
    expect(page.locator("article")).to_contain_text("The last trial: proven.")
    assert len(kept.read_text().splitlines()) == 1
    assert "open-sesame" not in page.content()


def several_are_skipped(person: Person, page: Page) -> None:
    """What waits is ticked and skipped; why it waits, a pause and a resume."""
    person.goes(page, "/w/cards")
    page.get_by_role("button", name="Pause").click()
    for number in (7, 8):
        person.publish("cards", f"Card {number}", str(number), letter())
    person.goes(page, "/w/cards?status=pending")
    for number in (7, 8):
        page.get_by_role("checkbox", name=f"Card {number}").check()
    page.get_by_role("button", name="Skip the ticked").click()
    expect(page.locator("td", has_text="skipped")).to_have_count(2)
    page.get_by_role("link", name="Back").click()
    page.get_by_role("link", name="why?").click()
    expect(page.locator("main")).to_contain_text("paused")
    person.goes(page, "/w/cards")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    person.goes(page, "/find?text=Card")
    expect(page.locator("tr[data-item]")).to_have_count(5)
    person.goes(page, "/find?text=nothing at all")
    expect(page.locator(".empty")).to_contain_text("Nothing matches.")


def days_narrow_a_search(person: Person, page: Page) -> None:
    """A person chooses days, with a text and without one, on *Find* and on the inputs."""
    for path, button in (("/find", "Find"), ("/w/cards", "Filter")):
        person.goes(page, path)
        page.get_by_label("From day").fill("2020-01-01")
        page.get_by_label("To day").fill("2099-12-31")
        page.get_by_role("button", name=button, exact=True).click()
        expect(page.get_by_role("link", name="Card 7", exact=True)).to_be_visible()
        page.get_by_label("Title or message id").fill("card 7")
        page.get_by_role("button", name=button, exact=True).click()
        expect(page.locator("tr[data-item]")).to_have_count(1)
        expect(page.get_by_label("To day")).to_have_value("2099-12-31")
        page.get_by_label("To day").fill("2020-01-02")
        page.get_by_role("button", name=button, exact=True).click()
        expect(page.locator(".empty")).to_contain_text("Nothing matches.")


def hostile_text_is_text(person: Person, page: Page) -> None:
    """No character of the observed call is hidden or moved, and none becomes an element."""
    fields = {"to": f"a@b.example{HOSTILE}", "subject": HOSTILE, "text": f"{HOSTILE}\n" + LONG}
    person.publish("letters", f"Odd {PRINTABLE}", "9", letter(**fields, claim=PRINTABLE))
    person.goes(page, "/")
    each = article(page, "Odd <script>")
    each.get_by_text("The raw call").click()
    for part in (each.locator("dl.form"), each.locator("details pre").first):
        shown = part.inner_text()
        assert "<script>alert(1)</script>" in shown
        assert "{{ 7 * 7 }}" in shown
        assert all(spelled in shown for spelled in SPELLED)
        assert not HIDDEN & set(shown)
    assert each.locator("script, img, b, i").count() == 0
    assert LONG in each.locator("dl.form").inner_text().replace("\n", "")  # an approval is not cut
    for field in each.locator("dl.form pre").all()[:2]:
        assert field.evaluate(MISPLACED) == []
    change = each.get_by_role("link", name="All about this change").get_attribute("href")
    each.get_by_role("button", name="Reject").click()
    expect(page.locator("article")).to_have_count(0)
    for path in (str(change), "/w/letters", "/w/letters/outputs", "/w/letters/runs", "/actions"):
        person.goes(page, path)
        assert not HIDDEN & set(page.locator("body").inner_text())
        assert page.locator("main script, main img").count() == 0


def keys_work(person: Person, page: Page) -> None:
    """`j k enter a r / ?`: a key goes to a button, and presses none."""
    person.publish("letters", "By keys", "10", letter())
    person.goes(page, "/")
    article(page, "By keys")
    page.keyboard.press("j")
    expect(page.locator(".at")).to_contain_text("By keys")
    page.keyboard.press("a")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Approve"
    page.keyboard.press("r")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Reject"
    page.keyboard.press("Enter")
    expect(page.locator("article")).to_have_count(0)
    person.goes(page, "/")
    follows(page)  # its script has begun
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/w/mail-to-table")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "text"


def hidden_pages_are_not_followed(person: Person, page: Page) -> None:
    """A page that is not seen has no stream; seen again, it has one."""
    person.goes(page, "/")
    follows(page)
    page.evaluate(HIDE, True)
    assert page.evaluate("source") is None
    page.evaluate(HIDE, False)
    follows(page)


def host_comes_back(person: Person, page: Page) -> None:
    """A host is killed and started again: the page says both, finds back, and goes on."""
    assert person.host is not None
    person.goes(page, "/w/cards")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    for number in (1, 2, 3):  # for the walk behind this one
        person.publish("cards", f"Old {number}", f"old {number}", letter())
    person.goes(page, "/w/letters/setup")
    follows(page)
    page.get_by_label("Title").fill("Typed before")
    person.host.tell(signal.SIGKILL)
    person.host.process.wait()
    expect(page.locator("#told")).to_contain_text("The connection to the host is lost.")
    person.host.close()
    age(person.folder / "duly.db", "old %")
    person.start()
    expect(page.locator("#told")).to_contain_text("The host was started again.")
    assert page.get_by_label("Title").input_value() == "Typed before"
    # A browser says on its console that it could not connect.
    person.problems[:] = [each for each in person.problems if "ERR_" not in each]


def stale_is_skipped(person: Person, page: Page) -> None:
    """U4: what waited longer than a week is marked, and skipped: one on its page, two together."""
    person.goes(page, "/")
    page.get_by_role("link", name="3 stale").click()
    expect(page.locator("tr[data-item] .stale")).to_have_count(3)
    page.get_by_role("link", name="Old 1").click()
    page.get_by_role("button", name="Skip").click()
    expect(page.locator("h1")).to_contain_text("skipped")
    person.goes(page, "/w/cards?status=pending")
    for number in (2, 3):
        page.get_by_role("checkbox", name=f"Old {number}").check()
    page.get_by_role("button", name="Skip the ticked").click()
    expect(page.locator("td", has_text="skipped")).to_have_count(2)
    page.get_by_role("link", name="Back").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    person.goes(page, "/")
    expect(page.locator("tr[data-item]", has_text="cards")).to_be_visible()
    expect(page.locator(".stale")).to_have_count(0)


WALKS: Final[tuple[Callable[[Person, Page], None], ...]] = (
    mail_arrives,
    publish_and_approve,
    changed_call_stays_as_it_was_shown,
    typed_text_survives,
    several_at_once,
    unknown_is_settled,
    failure_is_repaired,
    webhook_comes_in,
    proposals_are_decided,
    phone_is_paired,
    connection_is_proven,
    several_are_skipped,
    days_narrow_a_search,
    hostile_text_is_text,
    keys_work,
    hidden_pages_are_not_followed,
    host_comes_back,
    stale_is_skipped,
)
