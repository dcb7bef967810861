"""Signing in by a one-time link, devices, tokens, and taking both back (G4, G5, G6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from duly.api.registry import Scope
from duly.errors import Invalid, NotFound, RequestRefused
from duly.faces.web.look import browser_of
from tests.web.stand import COOKIE, FORM, OWN, Reply, Web, ask, form, serving

FROM_OWN: Final = {**OWN, **FORM}
HTML: Final = {"accept": "text/html"}


def read_files(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.iterdir())


async def link(web: Web, scope: Scope = Scope.ADMIN) -> str:
    return (await web.host.new_link(scope=scope, by="ada")).code


async def sign_in(web: Web, code: str, name: str = "Firefox", **more: Any) -> Reply:
    body = form(code=code, name=name)
    return await ask(web.app, "/sign-in", "POST", headers=FROM_OWN, body=body, **more)


def token_of(reply: Reply) -> str:
    return reply["set-cookie"].partition("=")[2].partition(";")[0]


async def test_a_link_signs_a_browser_in_and_the_browser_is_let_in(tmp_path: Path) -> None:
    """G6: link, form, cookie, page."""
    async with serving(tmp_path) as web:
        code = await link(web)
        shown = await ask(web.app, f"/sign-in?code={code}", headers=HTML)
        assert (shown.status, code in shown.text) == (200, True)
        done = await sign_in(web, code)
        assert (done.status, done["location"]) == (303, "/")
        cookie = {"cookie": f"{COOKIE}={token_of(done)}"}
        assert (await ask(web.app, "/", headers=cookie)).status == 200
        told = await ask(web.app, "/api/v1/tokens", headers=cookie)
        (device,) = [each for each in told.json if each["kind"] == "device"]
        assert (device["name"], device["scope"], device["made_by"]) == ("Firefox", "admin", "ada")
        assert device["actor"] == "device:Firefox"


async def test_what_a_device_does_is_written_down_under_its_name(tmp_path: Path) -> None:
    """G5, A6: and so is that it signed in, and by whose link."""
    async with serving(tmp_path) as web:
        await web.deploy()
        done = await sign_in(web, await link(web), "Ada's phone")
        headers = {"cookie": f"{COOKIE}={token_of(done)}", **FROM_OWN}
        body = form(workflow="invoices", by="eve")
        assert (await ask(web.app, "/act/pause", "POST", headers=headers, body=body)).status == 400
        body = form(workflow="invoices")
        assert (await ask(web.app, "/act/pause", "POST", headers=headers, body=body)).status == 303
        acts = {each.verb: (each.by, each.detail) for each in await web.host.actions()}
        assert acts["pause"] == ("device:Ada's phone", None)
        assert acts["sign_in"] == ("page", "admin, by a link of ada")


async def test_to_look_at_a_link_uses_nothing_up(tmp_path: Path) -> None:
    """G2: nothing changes by GET; a program that looks at links before their reader is harmless."""
    async with serving(tmp_path) as web:
        code = await link(web)
        for _ in range(3):
            shown = await ask(web.app, f"/sign-in?code={code}", headers=HTML)
            assert not shown.has("set-cookie")
        assert (await sign_in(web, code)).status == 303


async def test_a_link_is_used_once(tmp_path: Path) -> None:
    """G6: the second browser is told so, and no device is made."""
    async with serving(tmp_path) as web:
        code = await link(web)
        assert (await sign_in(web, code)).status == 303
        again = await sign_in(web, code)
        assert (again.status, again.json["code"]) == (403, "link_over")
        assert not again.has("set-cookie")
        assert len([each for each in await web.host.tokens() if each.kind == "device"]) == 1


async def test_a_link_is_over_after_its_minute(tmp_path: Path) -> None:
    """G6: 60 s."""
    async with serving(tmp_path) as web:
        early, late = await link(web), await link(web)
        web.clock.shift_ms = 59_000
        assert (await sign_in(web, early)).status == 303
        web.clock.shift_ms = 60_000
        assert (await sign_in(web, late)).status == 403


@pytest.mark.parametrize("code", ["", "0", "f" * 64, "x" * 500, "' or 1=1 --", "\x00"])
async def test_a_code_that_was_guessed_signs_nobody_in(code: str, tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        await link(web)
        reply = await sign_in(web, code)
        assert (reply.status, reply.has("set-cookie")) == (403, False)


async def test_another_page_cannot_sign_a_browser_in(tmp_path: Path) -> None:
    """G2: a form of another site would make its reader act under a device of the attacker."""
    async with serving(tmp_path) as web:
        body = form(code=await link(web), name="x")
        for headers in (FORM, {**FORM, "origin": "http://evil.example"}):
            reply = await ask(web.app, "/sign-in", "POST", headers=headers, body=body)
            assert (reply.status, reply.json["code"]) == (403, "cross_origin")


async def test_the_cookie_is_for_this_page_alone(tmp_path: Path) -> None:
    """G6: no script reads it, no other site sends it; under TLS no plain connection either."""
    async with serving(tmp_path) as web:
        plain = (await sign_in(web, await link(web)))["set-cookie"]
        assert plain.startswith(f"{COOKIE}=duly_")
        attributes = {each.strip().lower() for each in plain.split(";")[1:]}
        assert {"httponly", "samesite=strict", "path=/", "max-age=2592000"} == attributes
        secure = (await sign_in(web, await link(web), scheme="https"))["set-cookie"]
        assert secure.startswith(f"__Host-{COOKIE}=duly_")
        assert "; secure" in secure.lower()
        assert "domain" not in secure.lower()


async def test_no_address_of_a_request_becomes_the_next_one(tmp_path: Path) -> None:
    """G2: there is no open redirect: where a browser goes is fixed."""
    async with serving(tmp_path) as web:
        code = await link(web)
        body = form(code=code, name="x", next="https://evil.example", back="//evil.example")
        path = "/sign-in?next=https://evil.example"
        assert (await ask(web.app, path, "POST", headers=FROM_OWN, body=body)).status == 400
        done = await ask(web.app, "/sign-in", "POST", headers=FROM_OWN, body=body)
        assert (done.status, done["location"]) == (303, "/")
        await web.deploy()
        headers = {"cookie": f"{COOKIE}={token_of(done)}", **FROM_OWN}
        for back in ("//evil.example", "https://evil.example", "/\\evil", "w\r\nSet-Cookie: b=c"):
            body = form(workflow="invoices", back=back)
            reply = await ask(web.app, "/act/pause", "POST", headers=headers, body=body)
            assert (reply.status, reply["location"]) == (303, "/")
            assert not reply.has("set-cookie")
        body = form(workflow="invoices", back="w/a\r\nSet-Cookie: b=c")
        reply = await ask(web.app, "/act/pause", "POST", headers=headers, body=body)
        assert reply["location"] == "/w/a%0D%0ASet-Cookie%3A%20b%3Dc"
        assert not reply.has("set-cookie")


async def test_a_smaller_link_makes_a_smaller_device(tmp_path: Path) -> None:
    """G4: a browser that only looks cannot act."""
    async with serving(tmp_path) as web:
        await web.deploy()
        done = await sign_in(web, await link(web, Scope.READ))
        headers = {"cookie": f"{COOKIE}={token_of(done)}", **FROM_OWN}
        body = form(workflow="invoices")
        reply = await ask(web.app, "/act/pause", "POST", headers=headers, body=body)
        assert (reply.status, reply.json["code"]) == (403, "beyond_scope")


async def test_what_is_revoked_is_refused_at_once(tmp_path: Path) -> None:
    """G6: tokens and devices; the very next request is not let in."""
    async with serving(tmp_path) as web:
        done = await sign_in(web, await link(web))
        cookie = {"cookie": f"{COOKIE}={token_of(done)}"}
        assert (await ask(web.app, "/", headers=cookie)).status == 200
        await web.host.revoke_token("Firefox")
        assert (await ask(web.app, "/", headers=cookie)).status == 401
        assert (await web.ask("/api/v1/workflows", scope=Scope.READ)).status == 200
        await web.host.revoke_token("read token")
        assert (await web.ask("/api/v1/workflows", scope=Scope.READ)).status == 401


async def test_many_tokens_are_judged_by_one_question(tmp_path: Path) -> None:
    """G6: one that is unknown, guessed in part, revoked or over is not let in."""
    async with serving(tmp_path) as web:
        made = await web.host.new_token("ci", scope=Scope.READ, days=1)
        gone = await web.host.new_token("gone", scope=Scope.READ)
        await web.host.revoke_token("gone")
        good = web.tokens[Scope.READ]
        changed = good[:-1] + ("0" if good[-1] != "0" else "1")
        tokens = [good, made.token, gone.token, changed, "x", ""]
        assert await web.host.admitted(tokens) == (True, True, False, False, False, False)
        web.clock.shift_ms = 86_400_001
        assert await web.host.admitted(tokens[:2]) == (True, False)
        assert len(await web.host.admitted([good] * 100)) == 100
        with pytest.raises(Invalid, match="at most 100 tokens"):
            await web.host.admitted([good] * 101)


async def test_to_sign_out_takes_the_device_back(tmp_path: Path) -> None:
    """G6: at both ends; a copy of the cookie is worth nothing afterwards."""
    async with serving(tmp_path) as web:
        done = await sign_in(web, await link(web, Scope.READ))
        cookie = {"cookie": f"{COOKIE}={token_of(done)}"}
        out = await ask(web.app, "/sign-out", "POST", headers={**cookie, **FROM_OWN})
        assert out.status == 303
        assert f'{COOKIE}="";' in out["set-cookie"]
        assert (await ask(web.app, "/", headers=cookie)).status == 401
        assert "Firefox" not in [each.name for each in await web.host.tokens()]


async def test_a_device_lasts_thirty_days(tmp_path: Path) -> None:
    """G6: then its browser signs in again."""
    async with serving(tmp_path) as web:
        done = await sign_in(web, await link(web))
        cookie = {"cookie": f"{COOKIE}={token_of(done)}"}
        web.clock.shift_ms = 30 * 86_400_000 - 60_000
        assert (await ask(web.app, "/", headers=cookie)).status == 200
        web.clock.shift_ms = 30 * 86_400_000 + 60_000
        reply = await ask(web.app, "/", headers=cookie)
        assert (reply.status, reply.json["code"]) == (401, "token_over")


async def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    """G6: two browsers of one kind are two devices."""
    async with serving(tmp_path) as web:
        for _ in range(3):
            await sign_in(web, await link(web))
        names = [each.name for each in await web.host.tokens() if each.kind == "device"]
        assert names == ["Firefox", "Firefox 2", "Firefox 3"]


async def test_links_that_were_not_used_have_a_limit(tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        for _ in range(20):
            await link(web)
        with pytest.raises(RequestRefused, match="20 links"):
            await link(web)
        web.clock.shift_ms = 60_001
        await link(web)


# -- Tokens -----------------------------------------------------------------------------------


async def test_the_store_keeps_nothing_that_lets_anybody_in(tmp_path: Path) -> None:
    """G6: digests alone, in the file and in its log."""
    async with serving(tmp_path) as web:
        device = token_of(await sign_in(web, await link(web)))
        secrets = [each.rpartition("_")[2] for each in (*web.tokens.values(), device)]
    kept = read_files(tmp_path)
    assert not [each for each in secrets if each.encode() in kept or bytes.fromhex(each) in kept]
    connection = apsw.Connection(str(tmp_path / "duly.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert len(connection.execute("select digest from token").fetchall()) == 5
    connection.close()


@pytest.mark.parametrize("change", ["secret", "id", "case", "cut", "longer"])
async def test_a_token_with_one_character_changed_lets_nobody_in(
    change: str, tmp_path: Path
) -> None:
    """G6: the id finds the row, the rest must fit it."""
    async with serving(tmp_path) as web:
        token = web.tokens[Scope.ADMIN]
        flipped = "0" if token[-1] != "0" else "1"
        changed = {
            "secret": token[:-1] + flipped,
            "id": token.replace(token[5], "f" if token[5] != "f" else "e", 1),
            "case": token.upper(),
            "cut": token[:-1],
            "longer": token + "0",
        }[change]
        headers = {"authorization": f"Bearer {changed}"}
        assert (await ask(web.app, "/api/v1/workflows", headers=headers)).status == 401


async def test_a_token_lasts_as_many_days_as_it_was_made_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        made = await web.host.new_token("short", scope=Scope.READ, days=1)
        headers = {"authorization": f"Bearer {made.token}"}
        assert (await ask(web.app, "/api/v1/workflows", headers=headers)).status == 200
        web.clock.shift_ms = 86_400_000
        assert (await ask(web.app, "/api/v1/workflows", headers=headers)).status == 401


async def test_a_token_needs_a_name_of_its_own_and_a_scope_there_is(tmp_path: Path) -> None:
    """G4: what cannot be told apart in the account of acts is refused."""
    async with serving(tmp_path) as web:
        with pytest.raises(RequestRefused, match="already"):
            await web.host.new_token("read token", scope=Scope.READ)
        for name in ("", " ", "a\nb", "x" * 81, " a"):
            with pytest.raises(Invalid):
                await web.host.new_token(name, scope=Scope.READ)
        with pytest.raises(Invalid, match="read, agent, decide"):
            await web.host.new_token("x", scope="root")
        for days in (0, -1, 99_999, True):
            with pytest.raises(Invalid):
                await web.host.new_token("x", scope=Scope.READ, days=days)
        with pytest.raises(NotFound, match="read token"):
            await web.host.revoke_token("reed token")


async def test_an_admin_makes_tokens_over_http_and_no_other_scope_does(tmp_path: Path) -> None:
    """G4: tokens and devices are for admins."""
    async with serving(tmp_path) as web:
        body = {"name": "ci", "scope": "agent"}
        for scope in (Scope.READ, Scope.AGENT, Scope.DECIDE):
            reply = await web.ask("/api/v1/new_token", "POST", scope=scope, body=body)
            assert reply.status == 403
            assert (await web.ask("/api/v1/tokens", scope=scope)).status == 403
        made = await web.ask("/api/v1/new_token", "POST", body=body)
        assert (made.status, made.json["kind"]) == (200, "token")


async def test_a_link_is_worth_nothing_when_the_token_that_made_it_is_revoked(
    tmp_path: Path,
) -> None:
    """G6: a stolen token that was found and revoked leaves no way in behind, nor does its name."""
    async with serving(tmp_path) as web:
        codes = []
        for _ in range(3):
            made = await web.ask("/api/v1/new_link", "POST", body={"scope": "admin"})
            codes.append(made.json["code"])
        assert (await sign_in(web, codes.pop())).status == 303
        await web.host.revoke_token("Firefox")
        await web.host.revoke_token("admin token")
        assert (await sign_in(web, codes.pop())).status == 403
        web.clock.shift_ms = 1000
        await web.host.new_token("admin token", scope=Scope.READ)  # another one of that name
        assert (await sign_in(web, codes.pop())).status == 403
        assert [each.kind for each in await web.host.tokens() if each.kind == "device"] == []


async def test_a_link_is_worth_nothing_when_the_token_that_made_it_is_over(tmp_path: Path) -> None:
    """G6: the days of a token are over while a link of it waits."""
    async with serving(tmp_path) as web:
        made = await web.host.new_token("short", scope=Scope.ADMIN, days=1)
        web.clock.shift_ms = 86_400_000 - 30_000
        headers = {"authorization": f"Bearer {made.token}"}
        link = await ask(web.app, "/api/v1/new_link", "POST", headers=headers, body={})
        web.clock.shift_ms += 31_000
        assert (await sign_in(web, link.json["code"])).status == 403


async def test_a_link_that_is_over_stays_over_when_the_clock_is_set_back(tmp_path: Path) -> None:
    """G6: a minute is no matter of the wall clock alone."""
    async with serving(tmp_path) as web:
        code = await link(web)
        web.clock.shift_ms = 61_000
        assert (await sign_in(web, code)).status == 403
        web.clock.shift_ms = -3_600_000
        assert (await sign_in(web, code)).status == 403
        code = await link(web)
        web.clock.ticked_ms = 61_000  # a minute goes by, and the wall clock stands where it stood
        assert (await sign_in(web, code)).status == 403


async def test_a_device_does_not_take_the_name_of_one_that_was_revoked(tmp_path: Path) -> None:
    """G6, A6: who did what stays readable; a name is one browser's for good."""
    async with serving(tmp_path) as web:
        for expected in ("Ada's phone", "Ada's phone 2", "Ada's phone 3"):
            await sign_in(web, await link(web, Scope.DECIDE), "Ada's phone")
            (name,) = [each.name for each in await web.host.tokens() if each.kind == "device"]
            assert name == expected
            await web.host.revoke_token(name)


def test_a_browser_is_named_so_that_its_user_knows_it() -> None:
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    assert browser_of(agent) == "Firefox on Linux"
    assert browser_of("<script>") == "Browser"
    assert browser_of("Mozilla/5.0 (iPhone) AppleWebKit Safari/604.1") == "Safari on iPhone"
