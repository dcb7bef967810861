"""The page says when a person is asked, and in which folder the files of a connection are."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

import duly
from duly.api.registry import Scope
from duly.connectors.table import Table
from duly.desk import deploy as deploying
from duly.errors import RequestRefused
from duly.rules.source import Language
from duly.words import approval
from tests.web.stand import Web, ask, serving
from tests.web.test_page import Page, post, signed

ROWS = """from duly import workflow

flow = workflow("rows", topics=["letter"])


@flow.producer(every="1m")
async def poll(ctx, state):
    await ctx.publish("letter", message_id="a", title="Letter A", payload={"name": "A"})


@flow.consumer("letter")
class keep:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("letter", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        ids = [pending[0]["message_id"]]
        return {"reservations": [{"topic": "letter", "ids": ids}], "data": pending[0]["payload"]}

    async def mutate(self, ctx, prepared):
        await ctx.rows.insert(table="letters", row=prepared["data"])
"""
UNASKED = 'is made without asking you (its risk is low, and the rule is "*" = "above:low")'
EACH = 'asks you each time (its risk is low; of the rules "*" = "above:low" and'


def table(folder: Path) -> Table:
    (folder / "letters").mkdir()
    return Table(str(folder / "letters"), name="rows")


async def look(web: Web, path: str, scope: Scope = Scope.ADMIN) -> str:
    headers = {"accept": "text/html", "authorization": f"Bearer {web.tokens[scope]}"}
    return Page((await ask(web.app, path, headers=headers)).text).text


@pytest.mark.parametrize(
    ("approvals", "said", "is_written"),
    [
        ({"*": "above:low"}, UNASKED, True),
        ({"*": "above:low", "rows.insert": "always"}, EACH, False),
    ],
)
async def test_a_script_and_its_grants_say_whether_a_person_is_asked(
    approvals: dict[str, str], said: str, *, is_written: bool, tmp_path: Path
) -> None:
    """A3, M9: before it is deployed and after, with the line that asks each time."""
    policy = duly.Policy(approvals=approvals)
    async with serving(tmp_path, connectors=[table(tmp_path)], policy=policy) as web:
        headers = await signed(web)
        pasted = {"source.language": "python", "source.text": ROWS}
        reply = await post(web.app, headers, "/preview", pasted)
        shown = unescape(reply.text)
        assert f"rows.insert: {said}" in shown
        line = 'approvals = { "*" = "above:low", "rows.insert" = "always" }'
        assert ("Written so, you are asked each time:" in shown) is is_written
        assert line in shown
        assert approval.GRANT_LASTS in shown
        await web.host.deploy(duly.Source(Language.PYTHON, ROWS), grant=True)
        text = await look(web, "/w/rows/setup", Scope.READ)
        assert f"rows.insert {said}" in text
        assert approval.RULES_STAND in text
        guide = await web.host.guide()
        when = "is made without asking the person" if is_written else "asks the person each time"
        assert f"*Risk low; {when}.*" in guide
        assert approval.write_approvals(approvals) in guide


def form_of(text: str, path: str) -> dict[str, str]:
    """Read what a browser would send of a form: hidden fields, and what is selected."""
    ((_, fields),) = [each for each in Page(text).forms() if each[0] == path]
    return fields


async def test_a_person_chooses_on_setup_when_they_are_asked(tmp_path: Path) -> None:
    """A3, G14: it holds at once, keeps the limits, and can be taken back."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(duly.Source(Language.PYTHON, ROWS))
        where = {"table": "letters"}
        await web.host.grant("rows", "rows.insert", mutations_per_day=9, where=where)
        shown = (await ask(web.app, "/w/rows/setup", headers=headers)).text
        assert '<select name="asks.rows.insert">' in shown
        fields = {**form_of(shown, "/ask-me"), "asks.rows.insert": "always"}
        assert fields["capability"] == "rows.insert"
        reply = await post(web.app, headers, "/ask-me", fields)
        assert (reply.status, reply["location"]) == (303, "/w/rows/setup")
        (told,) = await web.host.grants("rows")
        assert (told.mutations_per_day, told.where) == (9, where)
        assert (told.asks[0].chosen, told.asks[0].each_time) == ("always", True)
        shown = (await ask(web.app, "/w/rows/setup", headers=headers)).text
        assert '<option value="always" selected>each time</option>' in shown
        await web.host.drain()
        assert len(await web.host.approvals()) == 1
        card = Page((await ask(web.app, "/", headers=headers)).text).text
        assert "With the grant it was chosen to ask each time" in card
        fields = {**form_of(shown, "/ask-me"), "asks.rows.insert": "never"}
        assert (await post(web.app, headers, "/ask-me", fields)).status == 400
        fields["asks.rows.insert"] = ""
        assert (await post(web.app, headers, "/ask-me", fields)).status == 303
        assert (await web.host.grants("rows"))[0].asks[0].chosen == ""
        fields |= {"capability": "rows.update", "shown.rows.insert": "first:5"}
        assert (await post(web.app, headers, "/ask-me", fields)).status == 404
        del fields["shown.rows.insert"]
        assert (await post(web.app, headers, "/ask-me", fields)).status == 400


async def test_a_form_of_setup_takes_back_no_choice_that_it_did_not_show(tmp_path: Path) -> None:
    """A3, A6: it is refused; a right that was taken meanwhile is not given back either."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(duly.Source(Language.PYTHON, ROWS), grant=True)
        shown = (await ask(web.app, "/w/rows/setup", headers=headers)).text
        fields = {**form_of(shown, "/ask-me"), "asks.rows.insert": "first:5"}
        await web.host.grant("rows", "rows.insert", asks={"rows.insert": "always"})
        untouched = {**fields, "asks.rows.insert": ""}  # a second tab, where nothing was chosen
        assert (await post(web.app, headers, "/ask-me", untouched)).status == 303
        reply = await post(web.app, headers, "/ask-me", fields)
        assert (reply.status, "was changed since it was shown" in reply.text) == (409, True)
        assert (await web.host.grants("rows"))[0].asks[0].chosen == "always"
        await web.host.revoke("rows", "rows.insert")
        assert (await post(web.app, headers, "/ask-me", fields)).status == 404
        assert await web.host.grants("rows") == ()


UNTICKED = ("allow.rows.insert", "grant", "tried")


async def shown_to(web: Web, headers: dict[str, str], text: str = ROWS) -> dict[str, str]:
    """Read what a browser would send of the form that deploys a text."""
    pasted = {"source.language": "python", "source.text": text}
    reply = await post(web.app, headers, "/preview", pasted)
    fields = {**form_of(reply.text, "/deploy-script"), **pasted, "asks.rows.insert": ""}
    return {name: each for name, each in fields.items() if name not in UNTICKED}


async def test_a_form_that_deploys_takes_back_no_choice_that_it_did_not_show(
    tmp_path: Path,
) -> None:
    """A3, A1: a reload of its answer changes nothing, and shows what stands now."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(duly.Source(Language.PYTHON, ROWS), grant=True)
        sent = await shown_to(web, headers)
        assert (await post(web.app, headers, "/deploy-script", sent)).status == 200
        await web.host.grant("rows", "rows.insert", asks={"rows.insert": "always"})
        unnamed = {name: each for name, each in sent.items() if name != "asked"}
        for each in (sent, {**sent, "asks.rows.insert": "first:5"}, unnamed):
            reply = await post(web.app, headers, "/deploy-script", each)
            assert reply.status == 409
            assert '<option value="always" selected>' in reply.text
            assert (await web.host.grants("rows"))[0].asks[0].chosen == "always"


async def test_a_form_gives_nothing_to_another_workflow_of_the_same_name(tmp_path: Path) -> None:
    """A1, W10: the removal took all rights, also from what was deployed under the name since."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        source = duly.Source(Language.PYTHON, ROWS)
        await web.host.deploy(source)
        sent = {**await shown_to(web, headers), "grant": "true"}
        await web.host.remove("rows", by="ada")
        await web.host.deploy(source)
        reply = await post(web.app, headers, "/deploy-script", sent)
        assert (reply.status, await web.host.grants("rows")) == (409, ())
        assert "ada" in Page(reply.text).text
        anew = {**form_of(reply.text, "/deploy-script"), **sent}
        anew["asked"] = form_of(reply.text, "/deploy-script")["asked"]
        assert (await post(web.app, headers, "/deploy-script", anew)).status == 200
        assert len(await web.host.grants("rows")) == 1


async def test_asking_less_waits_for_a_deploy_that_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A3: the version that runs asks no less because another one was refused."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(duly.Source(Language.PYTHON, ROWS))
        await web.host.grant("rows", "rows.insert", asks={"rows.insert": "first:5"})
        other = ROWS.replace('"letter"', '"post"').replace("poll", "pull")
        sent = await shown_to(web, headers, other)

        async def refuse(*_: object, **__: object) -> None:
            raise RequestRefused(code="deployed_meanwhile", subject="rows")

        monkeypatch.setattr(deploying, "activate", refuse)
        for word, stands in (("", "first:5"), ("always", "always")):
            sent["asks.rows.insert"] = word
            assert (await post(web.app, headers, "/deploy-script", sent)).status == 409
            assert (await web.host.grants("rows"))[0].asks[0].chosen == stands


async def test_a_choice_for_what_is_not_allowed_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """A3: it would be dropped in silence; what was typed stays."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        sent = {**await shown_to(web, headers), "asks.rows.insert": "always"}
        reply = await post(web.app, headers, "/deploy-script", sent)
        assert (reply.status, await web.host.workflows()) == (400, ())
        assert "and did not allow it" in Page(reply.text).text
        assert '<option value="always" selected>' in reply.text


async def test_only_who_may_grant_chooses_when_a_person_is_asked(tmp_path: Path) -> None:
    """G4: no agent, and no one who only reads."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        await web.host.deploy(duly.Source(Language.PYTHON, ROWS), grant=True)
        fields = {"workflow": "rows", "capability": "rows.insert", "asks.rows.insert": "always"}
        for scope in (Scope.READ, Scope.AGENT):
            bearer = {"authorization": f"Bearer {web.tokens[scope]}"}
            assert (await post(web.app, bearer, "/ask-me", fields)).status == 403
            text = await ask(web.app, "/w/rows/setup", headers={**bearer, "accept": "text/html"})
            assert "/ask-me" not in text.text
        assert (await web.host.grants("rows"))[0].asks[0].chosen == ""


@pytest.mark.parametrize("press", [{"grant": "true"}, {"allow.rows.insert": "true"}])
async def test_a_choice_before_a_script_is_deployed_holds_for_its_first_change(
    press: dict[str, str], tmp_path: Path
) -> None:
    """A3, M9: nothing is made between the deploy and the choice; what was chosen stays chosen."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        pasted = {"source.language": "python", "source.text": ROWS}
        reply = await post(web.app, headers, "/preview", pasted)
        fields = {**form_of(reply.text, "/deploy-script"), **pasted}
        assert '<option value="" selected>as the settings say</option>' in reply.text
        again = await post(web.app, headers, "/preview", {**fields, "asks.rows.insert": "first:5"})
        assert '<option value="first:5" selected>' in again.text
        chosen = {**fields, "asks.rows.insert": "always", **press}
        assert (await post(web.app, headers, "/deploy-script", chosen)).status == 303
        await web.host.drain()
        assert len(await web.host.approvals()) == 1
        assert not any((tmp_path / "letters").iterdir())
        reply = await post(web.app, headers, "/preview", {**pasted, "source.text": ROWS + "\n"})
        fields = {**form_of(reply.text, "/deploy-script"), **pasted, "source.text": ROWS + "\n"}
        assert '<option value="always" selected>each time</option>' in reply.text
        assert (
            await post(web.app, headers, "/deploy-script", {**fields, "asks.rows.insert": "always"})
        ).status == 303
        assert (await web.host.grants("rows"))[0].asks[0].chosen == "always"
        less = {**fields, "asks.rows.insert": ""}
        assert (await post(web.app, headers, "/deploy-script", less)).status in (200, 303)
        assert (await web.host.grants("rows"))[0].asks[0].chosen == ""


async def test_the_folder_of_a_connection_is_shown_to_who_may_see_settings(tmp_path: Path) -> None:
    """A5, G4: on its page and beside a change; a caller with less learns no path."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        await web.host.deploy(duly.Source(Language.PYTHON, ROWS), grant=True)
        await web.host.drain()
        (change,) = await web.host.mutations()
        folder = str((tmp_path / "letters").resolve())
        for path in ("/connect/rows", f"/m/{change.id}"):
            assert folder in await look(web, path)
            for scope in (Scope.READ, Scope.DECIDE):
                assert folder not in await look(web, path, scope)
        for scope in Scope:
            bearer = {"authorization": f"Bearer {web.tokens[scope]}"}
            told = await ask(web.app, "/api/v1/connection?connector=rows", headers=bearer)
            assert (folder in told.text) is (scope is Scope.ADMIN), scope
        assert (await web.host.connections())[0].folder is None
