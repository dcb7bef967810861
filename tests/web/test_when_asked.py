"""The page says when a person is asked, and in which folder the files of a connection are."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

import duly
from duly.api.registry import Scope
from duly.connectors.table import Table
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
