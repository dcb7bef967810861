"""Acts by the forms of the page: no input is lost in silence, and what came of each is said."""

from __future__ import annotations

import asyncio
import re
from hashlib import sha256
from pathlib import Path

import duly.web
from duly.faces.web.form import ONCE_CHARS_MAX
from duly.rules.source import EXAMPLE
from duly.testing import Stage
from duly.words import page as words
from duly.words.done import PUBLISHED
from tests.desk.situation import indeterminate
from tests.desk.test_approval import proposed
from tests.engine.stand import NAME
from tests.web.stand import Reply, Web, ask, serving
from tests.web.test_page import Page, post, signed

SETUP = "/w/invoices/setup"


async def filled(web: Web, headers: dict[str, str], title: str, **more: str) -> dict[str, str]:
    """Open the page and fill its form in, as a browser would send it."""
    text = (await ask(web.app, SETUP, headers=headers)).text
    (once,) = re.findall(r'<input type="hidden" form="publish" name="once" value="(\w+)">', text)
    ((_, fields),) = [each for each in Page(text).forms() if each[0] == "/act/publish"]
    topic = {"topic": "mail.received", "message_id": "", "payload": "{}"}
    return {**fields, **topic, "once": once, "title": title, **more}


async def publish(web: Web, headers: dict[str, str], fields: dict[str, str]) -> Reply:
    return await post(web.app, headers, "/act/publish", fields)


async def titles(web: Web) -> list[str]:
    return sorted(each.title for each in await web.host.events("invoices"))


async def test_two_inputs_with_equal_payloads_are_two(tmp_path: Path) -> None:
    """T3: who leaves the message id empty loses no input to another one's content."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        for title in ("Letter A", "Letter B", "Letter B"):
            done = await publish(web, headers, await filled(web, headers, title))
            assert (done.status, done["location"]) == (303, "/w/invoices")
        assert await titles(web) == ["Letter A", "Letter B", "Letter B"]


async def test_a_form_sent_twice_is_one_input_and_one_changed_between_is_another(
    tmp_path: Path,
) -> None:
    """T5: a double click, or a reload, publishes nothing again; the page says so."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        fields = await filled(web, headers, "Letter A")
        assert (await publish(web, headers, fields)).status == 303
        again = await publish(web, headers, fields)
        assert (again.status, PUBLISHED["same"] in again.text) == (200, True)
        assert await titles(web) == ["Letter A"]
        # A person who went back in the browser sends the same form with another content.
        assert (await publish(web, headers, {**fields, "title": "Letter B"})).status == 303
        assert await titles(web) == ["Letter A", "Letter B"]
        long = {**fields, "once": "x" * (ONCE_CHARS_MAX + 1)}
        assert (await publish(web, headers, long)).status == 400


async def test_what_became_of_an_input_with_an_id_of_its_own_is_said(tmp_path: Path) -> None:
    """T5: replaced, the same, or not taken: each has its sentence, and a way back."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        told: list[str] = []
        for title in ("Rent", "Rent and heat", "Rent and heat", "skip", "Rent and heat", "Light"):
            if title == "skip":
                await web.host.skip("invoices", "mail.received", "7")
                continue
            fields = await filled(web, headers, title, message_id="7")
            reply = await publish(web, headers, fields)
            said = [word for word, each in PUBLISHED.items() if each in reply.text]
            told.append(f"{reply.status} {' '.join(said)}".strip())
            assert ('href="/w/invoices">Back' in reply.text) == (reply.status == 200)
        assert told == ["303", "200 replaced", "200 same", "200 frozen", "200 dropped"]


async def test_an_act_that_changed_nothing_says_so(tmp_path: Path) -> None:
    """U6: in the words of the command line; the first time it is followed by a 303."""
    async with serving(tmp_path) as web:
        await web.deploy()
        await web.host.publish("invoices", "mail.received", title="Mail", message_id="1")
        deferred = await web.host.bus.schedule_at(3600, "tea.ready", {}, source="kettle")
        event = {"workflow": "invoices", "topic": "mail.received", "message_id": "1"}
        headers = await signed(web)
        for act, fields, said in (
            ("skip", event, "It was over already."),
            ("bus.cancel", {"deferred_id": str(deferred)}, f"Not cancelled: {deferred} has fired"),
        ):
            assert (await post(web.app, headers, f"/act/{act}", fields)).status == 303
            again = await post(web.app, headers, f"/act/{act}", fields)
            assert (again.status, said in again.text) == (200, True)
        for act, fields, said in (
            ("bus.resume", {}, "The bus is not held."),
            ("run_now", {"workflow": "invoices"}, "0 checks are due now."),
        ):
            reply = await post(web.app, headers, f"/act/{act}", fields)
            assert (reply.status, said in reply.text) == (200, True), act


async def test_run_now_that_is_refused_leads_to_what_waits(duly_world: Stage) -> None:
    """S7, U3: it is not offered while a run is open, and who asks all the same finds the way."""
    play, _ = await proposed(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    page = (await ask(app, f"/w/{NAME}", headers=headers)).text
    assert "/act/run_now" not in dict(Page(page).forms())
    refused = await post(app, headers, "/act/run_now", {"workflow": NAME})
    assert (refused.status, f'href="/why/{NAME}"' in refused.text) == (409, True)


async def test_a_yes_and_a_no_are_about_what_was_shown(duly_world: Stage) -> None:
    """G11: both buttons carry the hash, and stand within what does not change, on every page."""
    play, shown = await proposed(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    asked = {"mutation": shown.mutation, "seen": shown.hash}
    run = (await play.host.runs())[0].id
    for path in ("/", f"/w/{NAME}", f"/why/{NAME}", f"/m/{shown.mutation}", f"/runs/{run}"):
        text = (await ask(app, path, headers=headers)).text
        assert text.count(f'data-hash="{shown.hash}"') == 1, path
        inside = text.partition(f'data-hash="{shown.hash}"')[2]
        forms = dict(Page(inside).forms())
        for act in ("/act/approve", "/act/reject"):
            given = {name: each for name, each in forms[act].items() if name != "back"}
            assert given == asked, (path, act)
    for act in ("approve", "reject"):
        other = await post(app, headers, f"/act/{act}", {**asked, "seen": "0" * 64})
        assert other.status == 409


async def test_an_unknown_outcome_is_settled_behind_a_click_and_for_the_sends_shown(
    duly_world: Stage,
) -> None:
    """G11, L10: no answer stands where *Approve* was; each is about the sends that were shown."""
    play = await indeterminate(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    (row,) = await play.host.mutations()
    for path in ("/", f"/w/{NAME}", f"/why/{NAME}", f"/m/{row.id}", f"/runs/{row.run}"):
        text = (await ask(app, path, headers=headers)).text
        before, _, after = text.partition(words.SETTLE)
        assert "/act/settle" not in before, path
        assert before.endswith("<details><summary>"), path
        answers = [each for where, each in Page(after).forms() if where == "/act/settle"]
        assert {each["answer"] for each in answers} >= {"happened", "did_not_happen"}
        assert {each["seen"] for each in answers} == {str(row.attempt)}
    other = {"mutation": row.id, "answer": "happened", "seen": str(row.attempt - 1)}
    refused = await post(app, headers, "/act/settle", other)
    assert (refused.status, "sent_since" in refused.text) == (409, True)
    assert (await play.host.mutations())[0].status == row.status
    done = await post(app, headers, "/act/settle", {**other, "seen": str(row.attempt)})
    assert done.status == 303


async def test_a_form_goes_back_to_the_page_it_was_on(tmp_path: Path) -> None:
    """G14: a browser without JavaScript sees what came of it."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        done = await post(web.app, headers, "/act/pause", {"workflow": "invoices"})
        assert (done.status, done["location"]) == (303, "/")
        fields = {"workflow": "invoices", "back": "w/invoices"}
        done = await post(web.app, headers, "/act/resume", fields)
        assert (done.status, done["location"]) == (303, "/w/invoices")


async def test_a_form_that_deploys_sent_twice_makes_one_version(tmp_path: Path) -> None:
    """W8, G14: one after the other, or all at once; what came of it is told."""
    text = EXAMPLE["text"]
    async with serving(tmp_path) as web:
        headers = await signed(web)
        fields = {"source.language": "python", "source.text": text}
        fields["seen"] = sha256(text.encode()).hexdigest()
        sent = [post(web.app, headers, "/deploy-script", fields) for _ in range(3)]
        replies = await asyncio.gather(*sent)
        assert sorted(each.status for each in replies) == [200, 200, 303]
        assert all("No new version was made" in e.text for e in replies if e.status == 200)
        path = "/w/invoices/versions"
        page = Page((await ask(web.app, path, headers=headers)).text)
        ((_, fields),) = [each for each in page.forms() if each[0] == "/preview"]
        assert fields == {"back": "w/invoices/versions"}
        fields |= {"source.language": "python", "source.text": f"{text}\n# Another text.\n"}
        fields["again"] = "false"
        first = await post(web.app, headers, "/act/deploy", fields)
        assert (first.status, first["location"]) == (303, path)
        again = await post(web.app, headers, "/act/deploy", fields)
        assert (again.status, f'href="{path}">Back' in again.text) == (200, True)
        fields["source.text"] = text  # a text that was active before is a version of its own
        assert (await post(web.app, headers, "/act/deploy", fields)).status == 303
        made = await web.host.versions("invoices")
        assert [each.version for each in made] == ["3.0", "2.0", "1.0"]


async def test_a_program_that_deploys_a_text_again_makes_a_version(tmp_path: Path) -> None:
    """W8: only the form of a person is sent twice by accident."""
    async with serving(tmp_path) as web:
        for _ in range(2):
            await web.deploy()
        made = await web.host.versions("invoices")
        assert [each.version for each in made] == ["2.0", "1.0"]
