"""Outlook: from the sign-in at Microsoft to a draft; by a browser, by a code; what came in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors import Http
from duly.connectors.declared import OutlookAccount
from duly.errors import AuthNeeded, Refused, RequestRefused
from duly.rules.oauth import read_grant, respell
from duly.testing.doubles.base import HOST, Mishap, PlannedMishap
from duly.testing.doubles.declared import DeclaredDesk
from duly.testing.doubles.microsoft import CLIENT, DEVICE_PAGE
from tests.connectors.service_exam import send
from tests.connectors.test_sign_in import asked_of, host_of
from tests.web.stand import ask, serving
from tests.web.test_page import Page, post, signed

pytestmark = pytest.mark.anyio

DRAFTS = """
from duly import workflow

flow = workflow("drafts", topics={"mail.wanted": {"ingress": True}})


@flow.consumer("mail.wanted")
class write:
    async def prepare(self, ctx, state):
        found = await ctx.peek("mail.wanted", limit=1)
        mine = [{"topic": "mail.wanted", "ids": [each["message_id"] for each in found]}]
        return {"reservations": mine, "ui": {"title": "Write a draft"}}

    async def mutate(self, ctx, prepared):
        await ctx.outlook.create_draft(to="ada@example.com", subject="Tea", text="At five.")
"""
DRAFT = {"to": "ada@example.com", "subject": "Tea", "text": "At five."}


@pytest.fixture
def desk() -> Iterator[DeclaredDesk]:
    with DeclaredDesk() as made:
        yield made


def outlook(desk: DeclaredDesk) -> Any:
    return OutlookAccount(
        f"{desk.url}/outlook",
        client_id=CLIENT,
        login=f"{desk.url}/login/common",
        allow=[HOST],
    )


async def granted(host: duly.Host, *capabilities: str) -> None:
    """Let a workflow use these capabilities."""
    await host.deploy(duly.Source("python", DRAFTS), by="me")
    for each in capabilities:
        await host.grant("drafts", f"outlook.{each}")


async def test_a_person_signs_in_and_a_draft_is_written(desk: DeclaredDesk, tmp_path: Path) -> None:
    """K9: the scopes that a workflow needs and no other; `offline_access` is not missing."""
    connector = outlook(desk)
    async with host_of(tmp_path, connector) as host:
        first = await host.begin_oauth("outlook")
        assert first.scopes == ("offline_access", "openid", "profile", "Mail.Read")
        await granted(host, "create_draft")
        begun = await host.begin_oauth("outlook", redirect="http://127.0.0.1:4711/duly")
        assert begun.scopes == ("offline_access", "openid", "profile", "Mail.ReadWrite")
        assert asked_of(begun.address)["scope"] == "offline_access openid profile Mail.ReadWrite"
        assert begun.address.startswith(f"{desk.url}/login/common/oauth2/v2.0/authorize?")
        ended = await host.finish_oauth("outlook", begun.ticket, desk.agree(begun.address))
        assert (ended.is_done, ended.missing) == (True, ())
        assert ended.scopes == ("Mail.ReadWrite",)  # as Duly writes it, not as Microsoft does
        assert (await host.begin_oauth("outlook")).missing == ()
        await send(connector, "create_draft", **DRAFT)
        assert desk.effects(desk.account("ada")) == 1
        for tool, scope in (("send_draft", "Mail.Send"), ("create_event", "Calendars")):
            args = {"id": "1"} if tool == "send_draft" else {}
            with pytest.raises(AuthNeeded, match=f"not allowed outlook.{tool} yet.*{scope}"):
                await send(connector, tool, **args)
        assert desk.effects(desk.account("ada")) == 1


async def test_a_token_of_microsoft_is_refreshed_and_one_that_ended_is_asked_about(
    desk: DeclaredDesk, tmp_path: Path
) -> None:
    """K9, F4: the scopes stay as they were; a person is asked once."""
    connector = outlook(desk)
    async with host_of(tmp_path, connector) as host:
        begun = await host.begin_oauth("outlook")
        await host.finish_oauth("outlook", begun.ticket, desk.agree(begun.address))
        for token in [*desk.tokens]:
            desk.revoke(token)
        await connector.messages(received_after="2026-01-01T00:00:00Z")
        vault = host._desk().vault
        assert vault is not None
        grant = read_grant(vault.find("outlook", "token") or "")
        assert grant is not None
        assert grant.scopes == ("Mail.Read",)
        desk.end_sign_in("ada")
        for _ in range(2):
            with pytest.raises(AuthNeeded, match="no longer accepts"):
                await connector.messages(received_after="2026-01-01T00:00:00Z")


async def test_what_a_person_does_not_allow_is_said(desk: DeclaredDesk, tmp_path: Path) -> None:
    """K9: a scope that Microsoft leaves out, and a person who says no."""
    async with host_of(tmp_path, outlook(desk)) as host:
        begun = await host.begin_oauth("outlook", capabilities=["send_draft", "read"])
        desk.denied = {"Mail.Send"}
        ended = await host.finish_oauth("outlook", begun.ticket, desk.agree(begun.address))
        assert ended.missing == ("Mail.Send",)
        desk.denied = {"Mail.Send", "Mail.Read"}
        again = await host.begin_oauth("outlook")
        with pytest.raises(RequestRefused, match="denied"):
            await host.finish_oauth("outlook", again.ticket, desk.agree(again.address))


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ("authorization_declined", "access was denied"),
        ("expired_token", "time to sign in is over"),
        ("bad_verification_code", "refused"),
    ],
)
async def test_a_code_is_typed_at_another_device(
    desk: DeclaredDesk, tmp_path: Path, says: str, said: str
) -> None:
    """K9: as slowly as Microsoft wants; what ends it is said."""
    async with host_of(tmp_path, outlook(desk)) as host:
        begun = await host.begin_oauth("outlook", device=True)
        assert (begun.address, begun.wait_s, begun.redirect) == (DEVICE_PAGE, 5, "")
        assert (await host.finish_oauth("outlook", begun.ticket)).wait_s == 5
        desk.agree_on_device(begun.user_code)
        ended = await host.finish_oauth("outlook", begun.ticket)
        assert (ended.is_done, ended.missing) == (True, ())
        other = await host.begin_oauth("outlook", device=True)
        desk.device_says = says
        with pytest.raises(RequestRefused, match=said):
            await host.finish_oauth("outlook", other.ticket)


async def test_the_page_signs_in_by_a_code(desk: DeclaredDesk, tmp_path: Path) -> None:
    """K9: the code stays on the page until the person has agreed; then a draft can be written."""
    connector = outlook(desk)
    async with serving(tmp_path, connectors=[connector]) as web:
        headers = await signed(web)
        await granted(web.host, "create_draft")
        shown = (await ask(web.app, "/connect/outlook", headers=headers)).text
        ways = [each for path, each in Page(shown).forms() if path == "/begin-sign-in"]
        assert [each.get("way") for each in ways] == [None, "device"]
        begun = (await post(web.app, headers, "/begin-sign-in", ways[1])).text
        assert f'href="{DEVICE_PAGE}"' in begun
        assert "Mail.ReadWrite" in begun
        (form,) = (each for path, each in Page(begun).forms() if path == "/look-sign-in")
        assert f"<code>{form['user_code']}</code>" in begun
        early = (await post(web.app, headers, "/look-sign-in", form)).text
        assert "You have not agreed at the provider yet." in early
        (again,) = (each for path, each in Page(early).forms() if path == "/look-sign-in")
        assert again == form
        desk.agree_on_device(form["user_code"])
        done = await post(web.app, headers, "/look-sign-in", again)
        assert (done.status, done["location"]) == (303, "/connect/outlook")
        await send(connector, "create_draft", **DRAFT)
        assert desk.effects(desk.account("ada")) == 1
        assert (await post(web.app, headers, "/look-sign-in", {})).status == 400


async def test_any_http_connector_signs_in_where_its_settings_say(
    desk: DeclaredDesk, tmp_path: Path
) -> None:
    """K9: also with a code, with scopes by capability, and with fields of its own."""
    place = f"{desk.url}/login/common/oauth2/v2.0"
    connector: Any = Http(
        f"{desk.url}/outlook",
        name="box",
        allow=[HOST],
        auth={
            "type": "oauth",
            "authorize_url": f"{place}/authorize",
            "token_url": f"{place}/token",
            "device_url": f"{place}/devicecode",
            "client_id": CLIENT,
            "scopes": ["offline_access"],
            "scopes_of": {"read": ["Mail.Read"]},
            "scope_base": "https://graph.microsoft.com/",
            "more": {"prompt": "consent"},
            "warning": "It ends at night.",
        },
        operations={"came": {"path": "/me/mailFolders/inbox/messages/delta", "result": "value"}},
    )
    async with host_of(tmp_path, connector) as host:
        needed = (await host.connection("box")).sign_in
        assert needed is not None
        assert (needed.has_device, needed.warning) == (True, "It ends at night.")
        begun = await host.begin_oauth("box")
        assert asked_of(begun.address)["prompt"] == "consent"
        assert begun.scopes == ("offline_access", "Mail.Read")
        await host.finish_oauth("box", begun.ticket, desk.agree(begun.address))
        desk.put_mail("ada", "Hello")
        assert [each["subject"] for each in await connector.came()] == ["Hello"]


def test_a_scope_is_spelled_as_it_was_asked_for() -> None:
    """K9: Microsoft puts an address before it, in letters of its own."""
    known, base = ("Mail.Read", "offline_access"), "https://graph.microsoft.com/"
    found = respell((f"{base}mail.read", "Mail.Read", "profile", f"{base}x"), known, base)
    assert found == ("Mail.Read", "profile", f"{base}x")


async def test_a_cursor_that_microsoft_forgot_begins_anew(
    desk: DeclaredDesk, tmp_path: Path
) -> None:
    """K11: what was listed comes again, and nothing is lost; a made-up cursor is refused."""
    connector = outlook(desk)
    async with host_of(tmp_path, connector) as host:
        begun = await host.begin_oauth("outlook")
        await host.finish_oauth("outlook", begun.ticket, desk.agree(begun.address))
        since = "2026-01-01T00:00:00Z"
        desk.put_mail("ada", "one")
        page = await connector.messages(received_after=since)
        after = page.names["last_cursor"]
        desk.put_mail("ada", "two")
        gone = {"error": {"code": "SyncStateNotFound"}}
        desk.plan(PlannedMishap(Mishap.STATUS, "/delta", 410, gone))
        page = await connector.messages(received_after=since, after=after)
        assert [each["subject"] for each in page.items] == ["one", "two"]
        for wrong in ("", "17", "$filter=x", "$skiptoken=a&$deltatoken=b"):
            with pytest.raises(Refused, match="no cursor"):
                await connector.messages(received_after=since, after=wrong)
        other = {"value": [], "@odata.deltaLink": "https://evil.example/x?$deltatoken=a"}
        desk.plan(PlannedMishap(Mishap.STATUS, "/delta", 200, other))
        with pytest.raises(Refused, match="another place"):
            await connector.messages(received_after=since)
        desk.plan(PlannedMishap(Mishap.STATUS, "/delta", 200, {"value": []}))
        with pytest.raises(Refused, match="no next page and no end"):
            await connector.messages(received_after=since)
        removed = {"value": [{"id": "x", "@removed": {"reason": "deleted"}}]}
        removed["@odata.deltaLink"] = f"{desk.url}/x?$deltatoken=a"  # type: ignore[assignment]
        desk.plan(PlannedMishap(Mishap.STATUS, "/delta", 200, removed))
        assert (await connector.messages(received_after=since)).items == []
