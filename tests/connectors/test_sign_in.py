"""Signing in at a provider: a host makes the address, a person agrees, the grant is sealed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

import duly
from duly.connectors.google import WHO
from duly.desk import oauth
from duly.errors import AuthNeeded, Invalid, NotFound, RequestRefused
from duly.rules.oauth import read_grant, read_ticket
from duly.testing.doubles.base import HOST, Mishap, PlannedMishap
from duly.testing.doubles.google import CLIENT, CLIENT_SECRET
from duly.testing.doubles.google_mail import AUTH
from tests.connectors.google_stand import StockedGoogle
from tests.connectors.oauth_server import OAuthServer
from tests.connectors.test_oauth import service
from tests.web.stand import ask, serving
from tests.web.test_page import Page, post, signed

pytestmark = pytest.mark.anyio

READS = """
from duly import workflow

flow = workflow("reads", topics={"mail.came": {}})


@flow.producer(every="1h", publishes=["mail.came"])
async def look(ctx, state):
    page = await ctx.gmail.search(after=(state or {}).get("cursor"))
    for found in page["items"]:
        await ctx.publish("mail.came", message_id=found["id"], title=found["subject"])
    return {"cursor": page["last_cursor"]}
"""


@pytest.fixture(scope="module")
def google() -> Iterator[StockedGoogle]:
    with StockedGoogle() as found:
        yield found


def gmail(google: StockedGoogle) -> Any:
    from duly.connectors import Gmail

    return Gmail(CLIENT, "ada@example.com", url=google.url, allow=[HOST])


def host_of(folder: Path, *connectors: Any) -> duly.Host:
    return duly.Host(f"sqlite:///{folder}/duly.db", connectors=[*connectors])


async def begin(host: duly.Host, **more: Any) -> Any:
    await host.set_secret("gmail", "client_secret", CLIENT_SECRET)
    return await host.begin_oauth("gmail", **more)


def asked_of(address: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(address).query))


async def test_a_person_agrees_and_the_grant_is_sealed(
    google: StockedGoogle, tmp_path: Path
) -> None:
    """K9, A5: PKCE, state, the exact redirect, the least scopes; no token lies open."""
    connector = gmail(google)
    async with host_of(tmp_path, connector) as host:
        with pytest.raises(AuthNeeded):
            await connector.search()
        begun = await begin(host, redirect="http://127.0.0.1:4711/duly")
        fields = asked_of(begun.address)
        wanted = (*WHO, f"{AUTH}gmail.readonly")
        assert (fields["scope"], fields["code_challenge_method"]) == (" ".join(wanted), "S256")
        assert fields["redirect_uri"] == "http://127.0.0.1:4711/duly"
        assert (fields["access_type"], fields["prompt"]) == ("offline", "consent")
        assert begun.missing == begun.scopes
        assert "7 days" in begun.warning
        given = google.agree(begun.address)
        ended = await host.finish_oauth("gmail", begun.ticket, given)
        assert (ended.is_done, ended.missing) == (True, ())
        assert len((await connector.search()).items) == 2
        needed = (await host.connection("gmail")).sign_in
        assert needed is not None
        assert (needed.secret, {*needed.scopes}) == ("sign_in", {*wanted})
        assert needed.account == ended.account == "ada@example.com"
        verbs = [each.verb for each in await host.actions()]
        assert verbs[:2] == ["finish_oauth", "set_secret"]
        with pytest.raises(RequestRefused, match="used already"):
            await host.finish_oauth("gmail", begun.ticket, given)
    rows = sqlite3.connect(tmp_path / "duly.db").execute("select sealed from secret").fetchall()
    assert all("ya29" not in each[0] and "1//" not in each[0] for each in rows)
    assert b"ya29" not in (tmp_path / "duly.db").read_bytes()


async def test_scopes_follow_the_grants_of_workflows(google: StockedGoogle, tmp_path: Path) -> None:
    """K9: what a workflow was granted, what was granted before, and what the caller names."""
    async with host_of(tmp_path, gmail(google)) as host:
        await host.deploy(duly.Source("python", READS), by="me")
        await host.grant("reads", "gmail.label")
        begun = await begin(host)
        assert begun.scopes == (*WHO, f"{AUTH}gmail.modify")
        more = await host.begin_oauth("gmail", capabilities=["send"])
        own = tuple(f"{AUTH}gmail.{each}" for each in ("modify", "compose", "readonly"))
        assert more.scopes == (*WHO, *own)
        google.denied = {f"{AUTH}gmail.compose"}
        ended = await host.finish_oauth("gmail", more.ticket, google.agree(more.address))
        google.denied = set()
        assert ended.missing == (f"{AUTH}gmail.compose",)
        again = await host.begin_oauth("gmail", capabilities=["gmail.send"])
        assert again.missing == (f"{AUTH}gmail.compose",)
        assert (await host.begin_oauth("gmail")).missing == ()


async def test_what_belongs_to_no_sign_in_is_refused_and_a_right_one_still_works(
    google: StockedGoogle, tmp_path: Path
) -> None:
    """K9: another state, another place, another ticket; a wrong paste spends nothing."""
    async with host_of(tmp_path, gmail(google)) as host:
        begun, other = await begin(host), await begin(host)
        given = google.agree(begun.address)
        asked = len(google.asked("/token"))
        for wrong in (
            google.agree(other.address),
            given.replace("127.0.0.1", "127.0.0.2"),
            given.replace("state=", "state=x"),
            f"{begun.redirect}?error=access_denied&state={asked_of(begun.address)['state']}",
            "",
        ):
            with pytest.raises(RequestRefused, match="not signed in"):
                await host.finish_oauth("gmail", begun.ticket, wrong)
        assert len(google.asked("/token")) == asked
        for ticket in ("", begun.ticket[:-8] + "AAAAAAA=", "aes-gcm:x:y"):
            with pytest.raises(Invalid, match="ticket"):
                await host.finish_oauth("gmail", ticket, given)
        with pytest.raises(Invalid, match="given"):
            await host.finish_oauth("gmail", begun.ticket, "x" * 8_001)
        for redirect in ("http://evil.example/duly", "https://127.0.0.1:1/", "http://127.0.0.1/x"):
            with pytest.raises(Invalid, match="redirect"):
                await host.begin_oauth("gmail", redirect)
        assert (await host.finish_oauth("gmail", begun.ticket, given)).is_done
        with pytest.raises(RequestRefused, match="does not sign in"):
            await host.begin_oauth("clock")
        with pytest.raises(NotFound):
            await host.begin_oauth("gmial")


async def test_an_answer_of_one_provider_is_not_sent_to_another(
    google: StockedGoogle, tmp_path: Path
) -> None:
    """K9: a provider that sends the browser on to Google gets no code of Google's."""
    with OAuthServer() as evil:
        async with host_of(tmp_path, gmail(google), service(evil)) as host:
            begun = await begin(host)
            shop = await host.begin_oauth("shop", begun.redirect)
            given = google.agree(begun.address)
            mixed = given.replace(asked_of(begun.address)["state"], asked_of(shop.address)["state"])
            for wrong, said in ((given, "another sign-in"), (mixed, "another provider")):
                with pytest.raises(RequestRefused, match=said):
                    await host.finish_oauth("shop", shop.ticket, wrong)
            with pytest.raises(Invalid, match="ticket"):
                await host.finish_oauth("gmail", shop.ticket, given)
            assert evil.asked == []
            assert (await host.finish_oauth("gmail", begun.ticket, given)).is_done


async def test_another_account_comes_only_with_a_yes(google: StockedGoogle, tmp_path: Path) -> None:
    """K9: both are named, and the sign-in of before stays in use."""
    connector = gmail(google)
    async with host_of(tmp_path, connector) as host:
        begun = await begin(host)
        await host.finish_oauth("gmail", begun.ticket, google.agree(begun.address))
        google.person = "bob"
        try:
            other = await begin(host)
            with pytest.raises(
                RequestRefused, match=r"as bob@example\.com, and not as ada@"
            ) as told:
                await host.finish_oauth("gmail", other.ticket, google.agree(other.address))
            assert told.value.code == "other_account"
            found = await connector.get((await connector.search()).items[0]["id"])
            assert found is not None
            assert google.accounts.get("bob") is None
            again = await begin(host)
            given = google.agree(again.address)
            ended = await host.finish_oauth("gmail", again.ticket, given, other_account=True)
            assert (ended.is_done, ended.account) == (True, "bob@example.com")
        finally:
            google.person = "ada"


async def test_of_two_first_sign_ins_at_once_the_second_is_asked(
    google: StockedGoogle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9, H12: the first ends after the second has found none; no account replaces it unasked."""
    look = oauth._before
    async with host_of(tmp_path, gmail(google)) as host:
        first, second = await begin(host), await begin(host)
        given = google.agree(first.address)

        async def late(*args: Any) -> Any:
            found = await look(*args)
            monkeypatch.setattr(oauth, "_before", look)
            google.person = "ada"
            assert (await host.finish_oauth("gmail", first.ticket, given)).is_done
            return found

        monkeypatch.setattr(oauth, "_before", late)
        google.person = "bob"
        try:
            with pytest.raises(RequestRefused, match="not as ada@") as told:
                await host.finish_oauth("gmail", second.ticket, google.agree(second.address))
            assert told.value.code == "other_account"
            assert "ada@example.com" in str(await host.connections())
        finally:
            google.person = "ada"


async def test_a_refresh_for_another_account_sends_nothing(
    google: StockedGoogle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9, F4: the sign-in is over, a person is told who answered, and no host asks again."""
    connector = gmail(google)
    async with host_of(tmp_path, connector) as host:
        begun = await begin(host)
        await host.finish_oauth("gmail", begun.ticket, google.agree(begun.address))
        before = len(google.asks)
        for name, (scopes, _) in [*google.refreshes.items()]:
            monkeypatch.setitem(google.refreshes, name, (scopes, "bob"))
        for token in [name for name, (_, owner) in google.tokens.items() if owner == "ada"]:
            google.revoke(token)
        for _ in range(2):
            with pytest.raises(AuthNeeded, match=r"token of bob@example\.com, and not of ada@"):
                await connector.search()
        assert [each.path for each in google.asks[before:]].count("/token") == 1
        assert google.accounts.get("bob") is None
        needed = (await host.connection("gmail")).sign_in
        assert needed is not None
        assert (needed.is_over, needed.account, needed.other) == (
            *(True, "ada@example.com"),
            "bob@example.com",
        )


async def test_a_ticket_ends_and_is_for_its_connector(
    google: StockedGoogle, tmp_path: Path
) -> None:
    """K9: what is kept too long, or is brought to another connection, opens nothing."""
    async with host_of(tmp_path, gmail(google)) as host:
        begun = await begin(host)
        vault = host._desk().vault
        assert vault is not None
        opened = await vault.open_note("gmail", begun.ticket)
        assert opened is not None
        assert await vault.open_note("drive", begun.ticket) is None
        ticket = read_ticket(opened)
        assert ticket is not None
        late = await vault.seal_note("gmail", replace(ticket, ends_at=1).text)
        with pytest.raises(RequestRefused, match="over"):
            await host.finish_oauth("gmail", late, google.agree(begun.address))


async def test_an_exchange_without_an_answer_is_not_repeated(
    google: StockedGoogle, tmp_path: Path
) -> None:
    """K9: a code is sent once, also by another host of the store; the person begins again."""
    async with host_of(tmp_path, gmail(google)) as host:
        begun = await begin(host)
        given = google.agree(begun.address)
        google.plan(PlannedMishap(Mishap.LOST, "/token"))
        asked = len(google.asked("/token"))
        for _ in range(2):
            with pytest.raises(RequestRefused):
                await host.finish_oauth("gmail", begun.ticket, given)
    async with host_of(tmp_path, gmail(google)) as host:
        with pytest.raises(RequestRefused, match="used already"):
            await host.finish_oauth("gmail", begun.ticket, given)
        assert len(google.asked("/token")) == asked + 1
        again = await begin(host)
        ended = await host.finish_oauth("gmail", again.ticket, google.agree(again.address))
        assert ended.is_done


async def test_a_sign_in_that_ended_is_asked_about_once_and_begun_again(
    google: StockedGoogle, tmp_path: Path
) -> None:
    """K9, F4: after Google's seven days; a second call does not ask the provider again."""
    connector = gmail(google)
    async with host_of(tmp_path, connector) as host:
        begun = await begin(host)
        await host.finish_oauth("gmail", begun.ticket, google.agree(begun.address))
        google.end_sign_in("ada")
        asked = len(google.asked("/token"))
        for _ in range(2):
            with pytest.raises(AuthNeeded, match="no longer accepts"):
                await connector.search()
        assert len(google.asked("/token")) == asked + 1
        needed = (await host.connection("gmail")).sign_in
        assert needed is not None
        assert needed.is_over
        again = await begin(host)
        await host.finish_oauth("gmail", again.ticket, google.agree(again.address))
        assert len((await connector.search()).items) == 2
        vault = host._desk().vault
        assert vault is not None
        grant = read_grant(vault.find("gmail", "sign_in") or "")
        assert grant is not None
        assert not grant.is_over


async def test_on_another_device_the_provider_is_asked_until_the_person_agreed(
    tmp_path: Path,
) -> None:
    """K9: where the service declares it; as slowly as the provider wants."""
    with OAuthServer() as server:
        server.device = ["authorization_pending", "slow_down", "well"]
        async with host_of(tmp_path, service(server)) as host:
            begun = await host.begin_oauth("shop", device=True)
            assert (begun.user_code, begun.wait_s) == ("AB-CD", 1)
            first = await host.finish_oauth("shop", begun.ticket)
            assert (first.is_done, first.wait_s) == (False, 1)
            assert (await host.finish_oauth("shop", begun.ticket)).wait_s == 6
            assert (await host.finish_oauth("shop", begun.ticket)).is_done
            server.device = ["access_denied"]
            denied = await host.begin_oauth("shop", device=True)
            with pytest.raises(RequestRefused, match="denied"):
                await host.finish_oauth("shop", denied.ticket)


async def test_the_page_of_a_connection_signs_in(google: StockedGoogle, tmp_path: Path) -> None:
    """K9, K4: the address is a link; what comes back is brought by hand; only for an admin."""
    async with serving(tmp_path, connectors=[gmail(google)]) as web:
        headers = await signed(web)
        await web.host.set_secret("gmail", "client_secret", CLIENT_SECRET)
        shown = (await ask(web.app, "/connect/gmail", headers=headers)).text
        assert "wants you to sign in" in shown
        assert "7 days" in shown
        (fields,) = (each for path, each in Page(shown).forms() if path == "/begin-sign-in")
        begun = await post(web.app, headers, "/begin-sign-in", fields)
        (form,) = (each for path, each in Page(begun.text).forms() if path == "/act/finish_oauth")
        links = (each.partition('"')[0] for each in begun.text.split('href="'))
        address = next(unescape(each) for each in links if "/o/oauth2" in each)
        done = await post(
            web.app, headers, "/act/finish_oauth", {**form, "given": google.agree(address)}
        )
        assert (done.status, done["location"]) == (303, "/connect/gmail")
        then = (await ask(web.app, "/connect/gmail", headers=headers)).text
        assert "Signed in. Allowed:" in then
        assert "Signed in as ada@example.com." in then
        google.person = "bob"
        try:
            for more, status in (({}, 409), ({"other_account": "true"}, 303)):
                begun = await post(web.app, headers, "/begin-sign-in", fields)
                assert "It may be another account than before" in begun.text
                (form,) = (each for path, each in Page(begun.text).forms() if "finish" in path)
                links = (each.partition('"')[0] for each in begun.text.split('href="'))
                address = next(unescape(each) for each in links if "/o/oauth2" in each)
                assert form.pop("other_account") == "true"  # a box that is not ticked sends none
                given = {**form, **more, "given": google.agree(address)}
                done = await post(web.app, headers, "/act/finish_oauth", given)
                assert done.status == status, done.text
        finally:
            google.person = "ada"
        assert (await post(web.app, headers, "/begin-sign-in", {})).status == 400
