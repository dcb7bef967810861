"""The pages: what waits and what was done, as text, with forms that post one verb (G9, G11)."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from jinja2 import Environment, StrictUndefined, UndefinedError

import duly.web
from duly.api.registry import VERBS, Scope
from duly.faces.web import drawing, look
from duly.rules.account import OUTPUT_OF
from duly.rules.source import EXAMPLE
from duly.rules.word import MutationStatus as Row
from duly.testing import Stage
from duly.words import page as words
from tests.desk.test_approval import ASKED, proposed
from tests.engine.stand import CONSUMER, IN, NAME, TOOL, consumer, flow, opened
from tests.web.stand import FORM, OWN, Reply, ask, fake, form, serving
from verification.moves import Call

HTML: Final = {"accept": "text/html"}
# What a text from outside may hold: markup, a template, a terminal, directions, nothing at all.
HOSTILE: Final = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "\x1b[31mred\x1b[0m",
    "a\u202egnp.exe",
    "a\u200bb\u2066c\u2069",
    "</textarea></form><form action=//evil.example>",
    "javascript:alert(1)",
    "&lt;b&gt;",
    "😀" * 40,
)


class Page(HTMLParser):
    """What a browser makes of a page: its elements, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def forms(self) -> list[tuple[str, dict[str, str]]]:
        """List the forms: where each posts, and what."""
        found: list[tuple[str, dict[str, str]]] = []
        for tag, given in self.elements:
            if tag == "form":
                found.append((str(given.get("action")) * (given["method"] == "post"), {}))
            elif tag == "input" and found and "value" in given and "form" not in given:
                found[-1][1][str(given["name"])] = str(given["value"])
        return [each for each in found if each[0]]


async def signed(play: Any, scope: Scope = Scope.ADMIN) -> dict[str, str]:
    made = await play.host.new_token(f"{scope} page", scope=scope, by="ada")
    return {"cookie": f"duly-7337={made.token}", **HTML}


async def post(app: Any, headers: dict[str, str], path: str, fields: dict[str, str]) -> Reply:
    return await ask(app, path, "POST", headers={**headers, **OWN, **FORM}, body=form(**fields))


async def test_an_approval_is_shown_and_given_without_javascript(duly_world: Stage) -> None:
    """G11, A4: the form carries the hash that was shown; it is sent once."""
    play, shown = await proposed(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    text = (await ask(app, "/", headers=headers)).text
    assert text.index("<dt>observed") < text.index(f">{TOOL}</p>") < text.index(">claimed</dt>")
    page = Page(text)
    ((path, fields),) = [each for each in page.forms() if each[0] == "/act/approve"]
    assert fields == {"mutation": shown.mutation, "seen": shown.hash}
    for _ in range(2):  # a double click, or two tabs
        await post(app, headers, path, fields)
    await play.drain()
    (row,) = await play.host.mutations()
    assert (row.status, row.attempt, row.approved_by) == (Row.APPLIED, 1, "token:admin page")


async def test_a_call_that_changed_since_it_was_shown_is_a_conflict_with_both(
    duly_world: Stage,
) -> None:
    """G11: nothing is sent; the caller sees what it said yes to and what waits now."""
    play, shown = await proposed(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    made = await play.host.new_token("program", scope=Scope.DECIDE)
    bearer = {"authorization": f"Bearer {made.token}"}
    body = {"mutation": shown.mutation, "seen": "0" * 64}
    told = await ask(app, "/api/v1/approve", "POST", headers=bearer, body=body)
    assert (told.status, told.json["code"]) == (409, "not_as_shown")
    assert told.json["old"]["hash"] == "0" * 64
    assert told.json["new"]["hash"] == shown.hash
    assert told.json["new"]["args"] == shown.observed.args
    page = await post(app, headers, "/act/approve", {k: str(v) for k, v in body.items()})
    assert page.status == 409
    text = Page(page.text).text
    assert look._json_text(told.json["new"]["args"]) in text  # as on every other page
    assert all(side["hash"] in text for side in (told.json["old"], told.json["new"]))
    assert words.NOT_KEPT in text  # of a hash that the host never showed no call is known
    assert f'action="/m/{shown.mutation}"' in page.text
    await play.drain()
    assert [each.status for each in await play.host.mutations()] == [Row.PROPOSED]


@pytest.mark.parametrize("text", HOSTILE)
async def test_text_from_outside_is_text_on_every_page(text: str, duly_world: Stage) -> None:
    """G9: titles, arguments and names make no element, no attribute and no hidden character."""
    lie = consumer(mutate=(Call(TOOL, (), {"text": text}),))
    play = await opened(duly_world, policy=ASKED)
    await play.deploy(flow({CONSUMER: lie}))
    title = text if text.isprintable() else "An event"  # another one is refused there (T3)
    await play.host.publish(NAME, IN, title=title, message_id="a", payload=text)
    await play.drain()
    app, headers = duly.web.app(play.host), await signed(play)
    plain = Page((await ask(app, "/sign-in")).text)
    known = {tag for tag, _ in plain.elements} | KNOWN
    (row,) = await play.host.mutations()
    (event,) = await play.host.events(NAME, topic=IN)
    connector = TOOL.partition(".")[0]
    named = {"mutation": row.id, "run": row.run, "seq": event.seq, "connector": connector}
    paths = [path.format(**named) for path in PATHS]
    for path in paths:
        reply = await ask(app, path, headers=headers)
        assert reply.status == 200, path
        judge(reply, known)
    for ended in (None, "decided"):
        door_app, door = fake()
        asked: Any = {"text": text, "told": text, "actor": text, "hash": "3f9a", "ended": ended}
        door.answers["asked"] = asked
        judge(await ask(door_app, "/ask?code=shown"), known)


def judge(reply: Reply, known: set[str], status: int = 200) -> None:
    """See that a page has no element, no attribute and no hidden character but its own."""
    page = Page(reply.text)
    assert reply.status == status
    assert {tag for tag, _ in page.elements} <= known
    for tag, given in page.elements:
        assert given.keys() <= ATTRIBUTES, (tag, given)
        assert not str(given.get("href", "/")).startswith(("javascript:", "//", "http"))
        assert not str(given.get("action", "/")).startswith(("javascript:", "//", "http"))
    text = unescape(reply.text)
    assert [text[max(at.start() - 60, 0) : at.end()] for at in HIDDEN.finditer(text)] == []


# Every page; what is about one thing is about that of the test.
PATHS: Final = (
    *("/", f"/w/{NAME}", f"/w/{NAME}?text=a", f"/w/{NAME}/outputs", f"/w/{NAME}/runs"),
    *(f"/w/{NAME}/versions", f"/w/{NAME}/versions/1.0", f"/w/{NAME}/setup", f"/i/{NAME}/{{seq}}"),
    *("/m/{mutation}", "/runs/{run}", "/why/{run}", f"/why/{NAME}", "/find?text=a", "/bus"),
    *(
        "/tools",
        "/models",
        f"/models?workflow={NAME}",
        "/connect/{connector}",
        "/actions",
        "/settings",
        "/doctor",
        "/doctor?verify=1",
    ),
)
KNOWN: Final = {
    *("article", "dl", "dt", "dd", "pre", "table", "thead", "tbody", "tr", "th", "td", "section"),
    *("h1", "h2", "h3", "div", "span", "small", "form", "input", "label", "button", "code", "nav"),
    *(
        "svg",
        "rect",
        "details",
        "summary",
        "select",
        "option",
        "textarea",
        "time",
        "ol",
        "ul",
        "li",
    ),
    *("strong", "footer", "datalist"),
}
ATTRIBUTES: Final = {
    *("action", "aria-labelledby", "charset", "class", "content", "for", "href", "id", "lang"),
    *("maxlength", "method", "name", "rel", "role", "required", "scope", "title", "type", "value"),
    *(
        "aria-current",
        "aria-hidden",
        "aria-label",
        "autocomplete",
        "datetime",
        "defer",
        "focusable",
    ),
    *("form", "height", "hidden", "inputmode", "rows", "selected", "spellcheck", "src", "start"),
    *("list", "readonly", "tabindex", "viewbox", "width", "x", "y"),
    *(
        "aria-describedby",
        "aria-invalid",
        "data-act",
        "data-back",
        "data-find",
        "data-hash",
        "data-host",
        "data-item",
        "data-json",
        "data-key",
        "data-label",
    ),
    *("data-live", "data-lost", "data-new", "data-not-json", "data-restarted", "data-rows"),
    *("data-signed-out", "data-not-here", "data-copied", "data-copy", "formaction", "open"),
}
HIDDEN: Final = re.compile("[\u200b-\u200f\u202a-\u202e\u2066-\u2069\x1b\x00]")


async def test_every_form_of_a_page_posts_an_act_with_arguments_it_takes(duly_world: Stage) -> None:
    """U6: a button is an offer of the host: a verb with its arguments."""
    play, _ = await proposed(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    for path in ("/", f"/w/{NAME}", f"/w/{NAME}/setup", f"/w/{NAME}/versions", "/settings"):
        found = Page((await ask(app, path, headers=headers)).text).forms()
        assert len(found) > 2
        for action, fields in found:
            if action in ("/sign-out", "/skip", "/approve", "/preview", "/ask-me"):
                continue
            verb = VERBS[action.removeprefix("/act/")]
            assert not verb.is_question
            names = {each.name for each in verb.parameters}
            assert fields.keys() - {"back"} <= names
            required = {each.name for each in verb.parameters if each.is_required}
            assert required <= fields.keys() | asked(action)


def asked(action: str) -> set[str]:
    """Name what a person fills in."""
    return {
        "/act/deploy": {"source"},
        "/act/grant": {"capability"},
        "/act/new_hook": {"topic"},
        "/act/new_link": {"scope"},
        "/act/publish": {"topic", "title", "payload"},
        "/act/write": {"wish"},
        "/act/new_token": {"name", "scope"},
        "/act/set_secret": {"connector", "name", "value"},
    }.get(action, set())


async def test_a_change_and_its_run_have_pages_of_their_own(duly_world: Stage) -> None:
    """U2, L12: from the input to the change, from the change to its run, and who decided."""
    play, shown = await proposed(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    await play.host.approve(shown.mutation, shown.hash, by="anna")
    await play.drain()
    listed = (await ask(app, f"/w/{NAME}", headers=headers)).text
    assert f'href="/m/{shown.mutation}"' in listed
    change = (await ask(app, f"/m/{shown.mutation}", headers=headers)).text
    for told in (TOOL, "applied", "anna", shown.hash, f'href="/runs/{shown.run}"'):
        assert told in change
    run = await ask(app, f"/runs/{shown.run}", headers=headers)
    assert (run.status, CONSUMER in run.text) == (200, True)
    short = (await play.host.short_ids([shown.mutation]))[shown.mutation]
    assert (await ask(app, f"/m/{short}", headers=headers)).status == 200
    assert (await ask(app, "/m/nothing", headers=headers)).status == 404


async def test_acts_and_inputs_are_found_page_by_page(tmp_path: Path) -> None:
    """U6: each page has an address of its own, and nothing is shown twice."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        for number in range(60):
            await web.host.publish(
                "invoices", "mail.received", title=f"Mail {number} & co", message_id=number
            )
        for start, of in (
            ("/w/invoices?status=pending", r"Mail \d+ &amp; co"),
            ("/actions?workflow=invoices", r"<td>(publish)"),
            ("/find?text=Mail", r"Mail \d+ &amp; co"),
            ("/find?q=Mail", r"Mail \d+ &amp; co"),
        ):
            path, met = start, []
            while path:
                reply = await ask(web.app, path, headers=headers)
                assert reply.status == 200
                met += re.findall(of, reply.text)
                found = re.search(r'href="([^"]+)">(?:Older|Further)<', reply.text)
                path = unescape(found[1]) if found else ""
            assert len(met) == 60, start
        (told,) = (await web.ask("/api/v1/workflows?limit=5")).json
        plan = [*(one["text"] for one in told["schedule"]), f"{told['pending'][0]['text']} pending"]
        for path in ("/", "/w/invoices"):  # U1: its schedule in words, and what is pending
            text = unescape((await ask(web.app, path, headers=headers)).text)
            assert [each for each in plan if each not in text] == []
        empty = await ask(web.app, "/find?text=nothing", headers=headers)
        assert "Nothing matches." in empty.text
        assert (await ask(web.app, "/find", headers=headers)).status == 200


async def test_a_list_of_events_has_the_beginning_of_each_payload(tmp_path: Path) -> None:
    """G13, G10: fifty long payloads make no long page; each is whole at an address of its own."""
    async with serving(tmp_path) as web:
        headers = await signed(web)
        first = await web.host.bus.emit("tea.ready", {"text": "a" * 3000 + "end"}, source="kettle")
        await web.host.bus.emit("tea.ready", {"text": "short"}, source="kettle")
        listed = (await ask(web.app, "/bus", headers=headers)).text
        assert ("short" in listed, "aaa" in listed, "aend" in listed) == (True, True, False)
        whole = (await ask(web.app, f"/why/bus:{first}", headers=headers)).text
        assert ("aend" in whole, "short" in whole) == (True, False)


async def test_a_device_is_revoked_on_the_page_of_settings(tmp_path: Path) -> None:
    """G6: every token and device, with a button each; for admins alone."""
    async with serving(tmp_path) as web:
        headers = await signed(web)
        await web.host.new_token("<b>old</b>", scope=Scope.READ)
        page = Page((await ask(web.app, "/settings", headers=headers)).text)
        revoked = [fields["name"] for path, fields in page.forms() if path == "/act/revoke_token"]
        assert sorted(revoked) == sorted(each.name for each in await web.host.tokens())
        await post(web.app, headers, "/act/revoke_token", {"name": "<b>old</b>"})
        assert "<b>old</b>" not in [each.name for each in await web.host.tokens()]
        assert (await web.ask("/settings", scope=Scope.DECIDE)).status == 403


async def test_a_page_offers_what_its_viewer_may_do_and_no_more(duly_world: Stage) -> None:
    """G4: a button that would be refused is not shown."""
    play, _ = await proposed(duly_world)
    app = duly.web.app(play.host)
    shown = {}
    for scope in Scope:
        text = (await ask(app, f"/w/{NAME}", headers=await signed(play, scope))).text
        shown[scope] = {path.removeprefix("/act/") for path, _ in Page(text).forms()}
    for scope, verbs in shown.items():
        for verb in verbs - {"/sign-out", "/skip"}:
            assert scope.covers(VERBS[verb].scope)
    assert shown[Scope.READ] == {"/sign-out"}
    assert "pause" in shown[Scope.AGENT]
    assert "approve" not in shown[Scope.AGENT]
    assert "approve" in shown[Scope.DECIDE]


async def test_a_person_who_is_not_signed_in_is_told_how(tmp_path: Path) -> None:
    """G3: the page that says so shows nothing else."""
    async with serving(tmp_path) as web:
        await web.deploy()
        for path in ("/", "/w/invoices", "/nothing"):
            reply = await ask(web.app, path, headers=HTML)
            assert (reply.status, "duly open" in reply.text) == (401, True)
            assert "invoices" not in reply.text
        refused = await web.ask("/w/other", headers=HTML)
        assert (refused.status, "There is no workflow" in unescape(refused.text)) == (404, True)
        assert (await web.ask("/api/v1/workflow?name=x", headers=HTML)).json["code"]


async def test_empty_is_said_in_the_words_of_the_command_line(tmp_path: Path) -> None:
    """U6: a page makes no sentence of its own."""
    async with serving(tmp_path) as web:
        text = (await web.ask("/", headers=HTML)).text
        assert "Nothing waits for you." in text
        assert "There is no workflow yet." in text


def test_a_template_that_names_what_it_was_not_given_fails() -> None:
    """G9: autoescape is on, and nothing is shown as empty by mistake."""
    made = look._environment()
    assert isinstance(made, Environment)
    assert (made.autoescape, made.undefined) == (True, StrictUndefined)
    with pytest.raises(UndefinedError):
        made.get_template("home.html").render(root="", caller=None)


async def test_a_page_asks_for_nothing_elsewhere(duly_world: Stage) -> None:
    """G7: no script, no style and no address that is not our own."""
    play, _ = await proposed(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    for path in ("/", f"/w/{NAME}", "/settings", "/sign-in", "/nothing"):
        text = (await ask(app, path, headers=headers)).text
        text = re.sub(r'<script src="/static/page.js\?v=[0-9a-f]{12}" defer></script>', "", text)
        assert not re.search(r"<script|<style|style=| on[a-z]+=|https?://|url\(", text)


@pytest.mark.parametrize(
    "back", ["//evil.example", "https://evil.example", "w/../../x", "w//x", "act/pause", "", "W/x"]
)
async def test_a_form_sends_a_browser_to_no_address_of_a_request(back: str, tmp_path: Path) -> None:
    """G2: what is no page of ours is the first page."""
    async with serving(tmp_path) as web:
        await web.deploy()
        fields = {"workflow": "invoices", "back": back}
        done = await post(web.app, await signed(web), "/act/pause", fields)
        assert (done.status, done["location"]) == (303, "/")


async def test_several_inputs_are_skipped_and_each_is_answered(tmp_path: Path) -> None:
    """U3: what is refused keeps no other from it; nothing ticked is said."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        for number in (1, 2):
            await web.host.publish("invoices", "mail.received", title="Mail", message_id=number)
        ticked = {
            "input.2": '["invoices", "mail.received", "1"]',
            "input.3": '["invoices", "mail.received", "none"]',
            "back": "w/invoices",
        }
        reply = await post(web.app, headers, "/skip", ticked)
        assert reply.status == 200
        assert reply.text.count(">skipped</strong>") == 1
        assert reply.text.count(">refused</strong>") == 1
        assert [each.status for each in await web.host.inputs("invoices")] == ["pending", "skipped"]
        for fields in ({"back": "w/invoices"}, {"input.2": "{"}, {"input.2": '["a", 1]'}):
            assert (await post(web.app, headers, "/skip", fields)).status == 400
        assert (await post(web.app, headers, "/approve", {"back": ""})).status == 400


async def test_what_is_shown_once_is_shown(tmp_path: Path) -> None:
    """G6: a token that was just made stands on the page that answers the form, and nowhere else."""
    async with serving(tmp_path) as web:
        headers = await signed(web)
        made = await post(web.app, headers, "/act/new_token", {"name": "ci", "scope": "read"})
        assert (made.status, len(re.findall(r"duly_[0-9a-f]+_\w+", made.text))) == (200, 1)
        assert "duly_" not in (await ask(web.app, "/settings", headers=headers)).text


async def test_a_source_of_a_form_keeps_its_line_ends(tmp_path: Path) -> None:
    """W8: a browser sends lines as Windows ends them; the text is the one that was typed."""
    async with serving(tmp_path) as web:
        headers, text = await signed(web), EXAMPLE["text"]
        sent = {"source.language": "python", "source.text": text.replace("\n", "\r\n")}
        assert (await post(web.app, headers, "/act/deploy", sent)).status == 303
        assert await web.host.source("invoices") == text
        shown = (await ask(web.app, "/w/invoices/versions", headers=headers)).text
        assert unescape(shown).count(text) == 1  # to be changed in its field
        setup = Page((await ask(web.app, "/w/invoices/setup", headers=headers)).text)
        assert ("select", {"name": "topic"}) in setup.elements
        assert (await web.host.workflow("invoices")).ingress == ("mail.received",)


async def test_a_paused_workflow_says_why_nothing_can_be_approved(duly_world: Stage) -> None:
    """G9, K1: on every page the form of the tool, and what happens if its answer is lost."""
    play, shown = await proposed(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    pages = ("/", f"/w/{NAME}", f"/why/{NAME}", f"/m/{shown.mutation}")
    for path in pages:
        text = (await ask(app, path, headers=headers)).text
        assert "If the answer is lost," in text, path
        assert "its key travels" in text, path  # the words of K1, one click away
        assert "Resume it before you approve" not in text
    await play.host.pause(NAME, by="ada")
    for path in pages[:2]:
        text = (await ask(app, path, headers=headers)).text
        assert ("Resume it before you approve" in text, "/act/approve" in text) == (True, False)


def test_what_ends_something_stands_last_and_names_its_input() -> None:
    """U3: a title stands on a button only where it is sure to be that of the input it skips."""
    one, two = ({"verb": "skip", "args": {"message_id": each}} for each in ("m1", "m2"))
    retry: dict[str, Any] = {"verb": "retry", "args": {}}
    assert drawing.offered([one, retry], lambda _: True, "") == [retry, one]
    assert drawing.title_of([retry, one], ["Rent"]) == "Rent"
    for offers, titles in (([one, two], ["Rent", "Tax"]), ([one, two], ["Rent"]), ([one], [])):
        assert drawing.title_of(offers, titles) == ""
    assert words.name_offer(one, "Rent") == "Skip “Rent”"
    assert words.name_offer(one, "") == "Skip m1"
    assert words.name_offer(retry, "Rent") == "Retry"


@pytest.mark.parametrize(
    ("asked", "proof", "proven_at", "said"),
    [
        ("not_at_all", None, None, "a person must decide whether it happened: shop cannot tell."),
        ("by_search", "trial", None, "a person must decide whether it happened, until a trial"),
        ("by_search", "trial", "2026-01-01T00:00:00Z", "Duly finds out from shop"),
        ("exactly", "itself", None, "Duly finds out from shop"),
    ],
)
def test_a_lost_answer_is_said_plainly(
    asked: str, proof: str | None, proven_at: str | None, said: str
) -> None:
    """K1, K10: Duly is said to find out only where what the service says is believed."""
    found = {"tool": "shop.buy", "asked": asked, "proof": proof, "proven_at": proven_at}
    assert words.say_lost(found).startswith(f"If the answer is lost, {said}")


def test_each_status_of_a_change_has_the_word_of_its_output() -> None:
    """U2: one thing has one word, in lists and on its own page."""
    for status, output in OUTPUT_OF.items():
        assert words.name_change(status) == words.plain(output)
