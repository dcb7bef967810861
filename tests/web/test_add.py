"""The page that adds a connection, and what leads to it: all by forms, none of it by JavaScript."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import duly
import duly.web
from duly.api.build import build_host
from duly.api.command_text import EXAMPLES
from duly.api.project import find_project
from duly.api.registry import Scope
from duly.faces.cli.init import create
from duly.host import Host
from duly.rules.source import Language
from duly.store import people
from duly.store.record import Action
from duly.words.addable import (
    HERE_ALREADY,
    KINDS,
    NOT_HERE,
    OWN_NETWORK,
    START_AGAIN,
    TYPED_AGAIN,
    USED_BY,
    USED_BY_MORE,
    USED_BY_NONE,
    WHY_COMMAND,
)
from duly.words.page import (
    FIRST_CONNECT,
    OLD_SETTINGS,
    THEN_DEPLOY,
    THEN_SCRIPT,
    TRIES_NOTHING,
    UNTRIED,
)
from tests.web.stand import ask, fake
from tests.web.test_page import Page, post, signed

SOURCE = """\
from duly import workflow

flow = workflow("copies", topics=["order.came"])


@flow.producer(every="1m")
async def look(ctx, state):
    page = await ctx.orders.rows(table="orders")
    for each in page["items"]:
        await ctx.publish("order.came", message_id=str(each["row"]), title=f"Order {each['row']}")
"""

SERVICE = """
[connectors.tasks]
use = "http"
url = "https://tasks.example"
auth = { type = "bearer" }

[connectors.tasks.operations.add]
method = "POST"
path = "/tasks"
arguments = { title = "string" }
key = { field = "reference" }
verify = { path = "/tasks", query = { reference = "{key}" }, items = "tasks", match = "reference" }
"""


@dataclass
class Stand:
    host: Host
    app: Any
    folder: Path
    begun: list[str]

    @property
    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = tomllib.loads((self.folder / "duly.toml").read_text())["connectors"]
        return found


@asynccontextmanager
async def standing(
    folder: Path, *, can_restart: bool = True, is_made: bool = False
) -> AsyncIterator[Stand]:
    if not is_made:
        create(folder)
    begun: list[str] = []
    project = find_project(str(folder), {}, folder)
    restart = (lambda: begun.append("again")) if can_restart else None
    async with build_host(project, restart=restart) as host:
        yield Stand(host, duly.web.app(host), folder, begun)


def form_at(text: str, path: str) -> dict[str, str]:
    page = Page(text)
    ((_, fields),) = [each for each in page.forms() if each[0] == path]
    apart = [given for _, given in page.elements if given.get("form") == "add"]
    return fields | {str(each["name"]): str(each["value"]) for each in apart}


async def test_a_connection_is_added_by_a_form_and_the_page_says_what_is_left_to_do(
    tmp_path: Path,
) -> None:
    """U6, A5: from Tools to a list, a form, and a button; the secret is in no page."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        tools = (await ask(web.app, "/tools", headers=headers)).text
        assert 'href="/add"' in tools
        assert START_AGAIN not in tools
        listed = (await ask(web.app, "/add", headers=headers)).text
        for use, said in KINDS.items():
            assert f'href="/add/{use}"' in listed
            assert said.partition("'")[0].partition("`")[0] in Page(listed).text
        shown = (await ask(web.app, "/add/telegram?name=bot", headers=headers)).text
        fields = {**form_at(shown, "/add-connection"), "secrets.token": "12345:hidden"}
        assert (fields["use"], fields["name"]) == ("telegram", "bot")
        assert fields["once"]
        for _ in range(2):  # a double click
            reply = await post(web.app, headers, "/add-connection", fields)
            assert (reply.status, reply["location"]) == (303, "/tools")
        assert web.settings["bot"] == {"use": "telegram"}
        acts = [each.verb for each in await web.host.actions()]
        assert acts == ["set_secret", "add_connection", "new_token"]
        for path in ("/tools", "/doctor"):
            page = (await ask(web.app, path, headers=headers)).text
            assert "Added: bot. Start the host again to use it." in page
            assert form_at(page, "/restart") == {"back": "connect/bot"}
            assert "hidden</" not in page
        for path in ("/tools", "/actions", "/settings"):
            assert "12345" not in (await ask(web.app, path, headers=headers)).text


async def test_what_was_typed_stays_beside_the_field_that_is_wrong_and_a_secret_does_not(
    tmp_path: Path,
) -> None:
    """G14: the person sees which field it is, and types again what is wrong alone."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        shown = (await ask(web.app, "/add/mail", headers=headers)).text
        good = {
            **form_at(shown, "/add-connection"),
            "settings.address": "ada@example.com",
            "settings.imap": "imap.example.com",
            "secrets.password": "hidden-1",
        }
        wrong = {
            "name": ({"name": "inbox"}, "is there already"),
            "settings.address": ({"settings.address": "no address"}, "address"),
            "settings.imap": ({"settings.imap": "10.0.0.1"}, "imap must be the name of a host"),
            "secrets.password": ({"secrets.password": "ab"}, "at least 4 characters"),
        }
        for field, (change, said) in wrong.items():
            reply = await post(web.app, headers, "/add-connection", {**good, **change})
            assert reply.status in (400, 409), (field, reply.status)
            assert said in Page(reply.text).text, (field, Page(reply.text).text)
            marked = [given for _, given in Page(reply.text).elements if "aria-invalid" in given]
            assert [each["name"] for each in marked] == [field]
            again = form_at(reply.text, "/add-connection")
            kept = {k: v for k, v in {**good, **change}.items() if not k.startswith("secrets.")}
            assert {k: again[k] for k in kept} == kept
            assert "hidden-1" not in reply.text
        assert web.settings.keys() == {"inbox", "outbox"}
        assert not [each for each in await web.host.actions() if each.verb != "new_token"]


async def test_a_service_with_a_token_and_an_operation_is_added_by_the_form_alone(
    tmp_path: Path,
) -> None:
    """U6, A5: a task service that takes POST with a bearer token; a second click adds nothing."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        shown = (await ask(web.app, "/add/http?name=tasks", headers=headers)).text
        fields = {
            **form_at(shown, "/add-connection"),
            "settings.url": "https://tasks.example/api",
            "settings.sign_in": "bearer",
            "secrets.token": "hidden-1",
            "settings.operation": "add",
            "settings.method": "POST",
            "settings.path": "/tasks",
            "settings.arguments": "title, due string?",
            "settings.key": "none",
        }
        for _ in range(2):  # a double click
            reply = await post(web.app, headers, "/add-connection", fields)
            assert (reply.status, reply["location"]) == (303, "/tools"), Page(reply.text).text
        assert web.settings["tasks"] == {
            "use": "http",
            "url": "https://tasks.example/api",
            "auth": {"type": "bearer"},
            "operations": {
                "add": {
                    "method": "POST",
                    "path": "/tasks",
                    "arguments": {"title": "string", "due": "string?"},
                    "key": "none",
                }
            },
        }
        assert "hidden" not in (tmp_path / "duly.toml").read_text()


async def test_a_long_text_of_a_service_is_taken_and_what_is_left_out_of_it_is_said(
    tmp_path: Path,
) -> None:
    async with standing(tmp_path) as web:
        headers = await signed(web)
        shown = (await ask(web.app, "/add/http?name=tasks", headers=headers)).text
        spec = "openapi: 3.0.0\npaths:\n  /t:\n    get: {responses: {}}\n  /p:\n    trace: {}\n"
        fields = {
            **form_at(shown, "/add-connection"),
            "settings.url": "https://tasks.example/api",
            "settings.openapi": spec + "# a comment of many words\n" * 5000,
        }
        reply = await post(web.app, headers, "/add-connection", fields)
        assert reply.status == 200, Page(reply.text).text
        assert "tasks was added. Left out: TRACE /p" in Page(reply.text).text
        assert web.settings["tasks"]["operations"].keys() == {"get_t"}


async def test_what_a_page_does_not_set_is_shown_as_a_command_without_its_secret(
    tmp_path: Path,
) -> None:
    """K3, A5: nothing is written; what was typed is in the command, quoted for a shell."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        shown = (await ask(web.app, "/add/mail?name=post", headers=headers)).text
        fields = {
            **form_at(shown, "/add-connection"),
            "settings.address": "Ada <ada@example.com>",
            "settings.imap": "127.0.0.1:32843",
            "settings.smtp": "127.0.0.1",
            "secrets.password": "hidden-1",
        }
        reply = await post(web.app, headers, "/add-connection", fields)
        told = Page(reply.text).text
        assert reply.status == 400
        assert WHY_COMMAND in told
        assert (
            "duly connect post --use mail --set 'address=Ada <ada@example.com>'"
            " --set imap=127.0.0.1:32843 --set smtp=127.0.0.1 --set tls=starttls"
            " --set 'allow=[\"127.0.0.1\"]'"
        ) in told
        assert "ca=" in told
        assert "hidden-1" not in reply.text
        assert TYPED_AGAIN in told
        marked = [
            given["name"] for _, given in Page(reply.text).elements if "aria-invalid" in given
        ]
        assert marked == ["settings.imap", "settings.smtp"]
        assert "2 fields are wrong." in told
        assert web.settings.keys() == {"inbox", "outbox"}
        fields = {**fields, "settings.imap": "imap.example.com", "settings.smtp": ""}
        reply = await post(web.app, headers, "/add-connection", {**fields, "name": "No name"})
        assert WHY_COMMAND not in Page(reply.text).text


async def test_a_form_says_before_anything_is_typed_which_addresses_it_does_not_take(
    tmp_path: Path,
) -> None:
    """K3: above the fields, with the line of the settings; a form without an address says none."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        for use in ("http", "mail", "calendar"):
            shown = (await ask(web.app, f"/add/{use}?name=mine", headers=headers)).text
            before = Page(shown.partition('action="/add-connection"')[0]).text
            assert f'{OWN_NETWORK} allow = ["127.0.0.1"]' in before
            assert f"duly connect mine --use {use} --set " in before
        shown = (await ask(web.app, "/add/telegram", headers=headers)).text
        assert OWN_NETWORK not in Page(shown).text


async def test_the_page_of_a_connection_says_who_uses_it_and_how_it_is_removed(
    tmp_path: Path,
) -> None:
    """U6: before a person takes it out; its secrets are forgotten by a button."""
    create(tmp_path)
    with (tmp_path / "duly.toml").open("a") as file:
        file.write(SERVICE)
    async with standing(tmp_path, is_made=True) as web:
        headers = await signed(web)
        await web.host.set_secret("tasks", "token", "hidden-1")
        shown = (await ask(web.app, "/connect/tasks", headers=headers)).text
        assert USED_BY_NONE in Page(shown).text
        assert "[connectors.tasks]" in shown
        fields = form_at(shown, "/act/drop_secret")
        assert (await post(web.app, headers, "/act/drop_secret", fields)).status == 303
        assert "Forget token" not in (await ask(web.app, "/connect/tasks", headers=headers)).text
        await web.host.deploy(duly.Source(Language.PYTHON, SOURCE))
        tool = next(e for e in await web.host.tools() if e.name.startswith("tasks."))
        await web.host.grant("copies", tool.capability)
        shown = (await ask(web.app, "/connect/tasks", headers=headers)).text
        assert USED_BY in Page(shown).text
        assert 'href="/w/copies"' in shown


async def test_what_a_connection_has_no_longer_is_still_allowed_to_those_who_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: a grant outlasts its tool; it is one question, and a list that was cut says so."""
    create(tmp_path)
    with (tmp_path / "duly.toml").open("a") as file:
        file.write(SERVICE)
    async with standing(tmp_path, is_made=True) as web:
        headers = await signed(web)
        desk = web.host._desk()
        for name in ("copied", "copies"):
            other = SOURCE.replace('"copies"', f'"{name}"')
            await web.host.deploy(duly.Source(Language.PYTHON, other))
            action = Action(f"grant {name}", "ada", "grant")
            (row,) = [e for e in await desk.ask(people.list_workflows) if e.name == name]
            await desk.parts.store.grant(row.id, "tasks.gone", action=action, now=desk.now_ms)
        shown = (await ask(web.app, "/connect/tasks", headers=headers)).text
        assert 'href="/w/copied"' in shown
        assert 'href="/w/copies"' in shown
        assert USED_BY_MORE not in Page(shown).text
        monkeypatch.setattr("duly.desk.connection.USERS_MAX", 1)
        shown = (await ask(web.app, "/connect/tasks", headers=headers)).text
        assert 'href="/w/copied"' in shown
        assert 'href="/w/copies"' not in shown
        assert USED_BY_MORE in Page(shown).text


async def test_the_kinds_that_a_command_adds_are_listed_with_it(tmp_path: Path) -> None:
    async with standing(tmp_path) as web:
        headers = await signed(web)
        listed = Page((await ask(web.app, "/add", headers=headers)).text).text
        for _, says, command in EXAMPLES:
            assert says in listed
            assert command in listed


async def test_a_connection_whose_settings_changed_is_not_proven_with_the_former_ones(
    tmp_path: Path,
) -> None:
    """K10: the page says so, and offers a new beginning in place of the trial."""
    create(tmp_path)
    with (tmp_path / "duly.toml").open("a") as file:
        file.write(SERVICE)
    async with standing(tmp_path, is_made=True) as web:
        headers = await signed(web)
        shown = (await ask(web.app, "/connect/tasks", headers=headers)).text
        assert 'action="/prove"' in shown
        assert START_AGAIN not in shown
        await web.host.set_secret("tasks", "token", "hidden-1")
        shown = (await ask(web.app, "/connect/tasks", headers=headers)).text
        assert UNTRIED in Page(shown).text
        assert TRIES_NOTHING not in Page(shown).text
        assert 'href="#changes"' in shown
        text = (tmp_path / "duly.toml").read_text()
        (tmp_path / "duly.toml").write_text(text.replace("tasks.example", "other.example"))
        shown = (await ask(web.app, "/connect/tasks", headers=headers)).text
        assert 'action="/prove"' not in shown
        assert OLD_SETTINGS in Page(shown).text
        assert form_at(shown, "/restart") == {"back": "connect/tasks"}


async def test_the_first_page_of_a_new_user_names_three_steps(tmp_path: Path) -> None:
    """U6: and a new beginning, where one is due."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        first = (await ask(web.app, "/", headers=headers)).text
        for step in (FIRST_CONNECT, THEN_SCRIPT, THEN_DEPLOY):
            assert step in Page(first).text
        assert 'href="/add"' in first
        for text in (first, (await ask(web.app, "/add", headers=headers)).text):
            assert HERE_ALREADY in text  # so that no second one is made for the same folder
            assert 'href="/connect/inbox"' in text
        assert 'action="/restart"' not in first
        await web.host.add_connection("files", "notes", {"path": "notes"})
        first = (await ask(web.app, "/", headers=headers)).text
        assert form_at(first, "/restart") == {"back": "connect/notes"}
        low = await signed(web, Scope.READ)
        first = (await ask(web.app, "/", headers=low)).text
        assert FIRST_CONNECT not in Page(first).text
        assert 'action="/restart"' not in first


@pytest.mark.parametrize("scope", [Scope.READ, Scope.AGENT, Scope.DECIDE])
async def test_only_an_admin_adds_a_connection_or_starts_the_host_again(
    scope: Scope, tmp_path: Path
) -> None:
    """G4: below that neither a link, nor a form, nor the act."""
    async with standing(tmp_path) as web:
        headers = await signed(web, scope)
        await web.host.add_connection("files", "notes", {"path": "notes"})
        tools = (await ask(web.app, "/tools", headers=headers)).text
        assert "Added: notes." in tools
        assert 'action="/restart"' not in tools
        assert 'href="/add' not in tools
        for path in ("/add", "/add/files"):
            assert (await ask(web.app, path, headers=headers)).status == 403
        for path in ("/restart", "/add-connection", "/act/restart", "/act/add_connection"):
            assert (await post(web.app, headers, path, {"use": "files"})).status == 403
        assert web.begun == []


async def test_a_host_that_cannot_begin_again_says_what_to_do(tmp_path: Path) -> None:
    """R7: the page offers no button that does nothing."""
    async with standing(tmp_path, can_restart=False) as web:
        headers = await signed(web)
        await web.host.add_connection("files", "notes", {"path": "notes"})
        tools = (await ask(web.app, "/tools", headers=headers)).text
        assert 'action="/restart"' not in tools
        assert "stop its program on its machine and start it again" in tools
        reply = await post(web.app, headers, "/restart", {})
        assert reply.status == 409
        assert "not_restarted_here" in reply.text


async def test_settings_that_are_broken_are_said_and_nothing_begins(tmp_path: Path) -> None:
    async with standing(tmp_path) as web:
        headers = await signed(web)
        (tmp_path / "duly.toml").write_text("[connectors\n")
        tools = (await ask(web.app, "/tools", headers=headers)).text
        assert "The settings cannot be used as they are now" in tools
        assert 'action="/restart"' not in tools
        reply = await post(web.app, headers, "/restart", {})
        assert (reply.status, web.begun) == (409, [])


async def test_a_script_whose_connection_is_not_here_leads_to_it_and_is_not_deployed(
    tmp_path: Path,
) -> None:
    """W5: what would stop at its first call is not put to use without a word."""
    async with standing(tmp_path) as web:
        headers = await signed(web)
        (tmp_path / "workflows" / "copies.py").write_text(SOURCE)
        fields = {"source.language": "python", "source.text": SOURCE}
        unseen = await post(web.app, headers, "/act/deploy", {**fields, "grant": "true"})
        assert (unseen.status, "rights" in unseen.text) == (400, True)  # it names nothing it allows
        reply = await post(web.app, headers, "/act/deploy", fields)
        assert reply.status == 409
        assert NOT_HERE in reply.text
        assert 'href="/add?name=orders"' in reply.text
        assert await web.host.workflows() == ()
        listed = (await ask(web.app, "/add?name=orders", headers=headers)).text
        assert 'href="/add/table?name=orders"' in listed
        assert SOURCE in Page(reply.text).text  # in the form, to be deployed all the same
        sure = {**form_at(reply.text, "/act/deploy"), "source.text": SOURCE}
        reply = await post(web.app, headers, "/act/deploy", sure)
        assert reply.status == 303
        assert [each.name for each in await web.host.workflows()] == ["copies"]


async def test_a_host_without_a_project_offers_what_it_did() -> None:
    """U6: an embedded host has its connectors from its program."""
    app, _ = fake()
    headers = {"authorization": "Bearer token of admin", "accept": "text/html"}
    assert "duly connect --list" in (await ask(app, "/tools", headers=headers)).text
    assert (await ask(app, "/add/files", headers=headers)).status == 404
