"""Who is let in: names, origins, cookies, tokens and paths that are not what they seem (G2, G7)."""

from __future__ import annotations

import re
from hashlib import sha256
from http import HTTPStatus
from typing import Final

import pytest

from duly.api.registry import Scope
from duly.faces.web.guard import HEADERS, Place
from duly.faces.web.problem import BY_CLASS, BY_CODE
from duly.words.page import say_refused
from tests.web.stand import (
    COOKIE,
    FORM,
    HOME,
    ORIGIN,
    OWN,
    ask,
    bearer,
    cookie,
    fake,
    form,
)

PAUSE: Final = "/api/v1/pause"
BODY: Final = {"workflow": "invoices"}

# -- The name ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",  # a name that was pointed at 127.0.0.1 (DNS rebinding)
        "evil.example:7337",
        "127.0.0.1",  # another port of this machine
        "127.0.0.1:80",
        "localhost:7338",
        "localhost.:7337",
        "127.0.0.1.nip.io:7337",
        "me.localhost:7337",
        "127.1:7337",
        "0.0.0.0:7337",
        "127.0.0.1:7337@evil.example",
        "evil.example#127.0.0.1:7337",
        "127.0.0.1:07337",
        " 127.0.0.1:7337",
    ],
)
async def test_a_name_that_is_not_on_the_list_is_misdirected(host: str) -> None:
    """G2: the address it came to is not enough; the name is compared with an exact list."""
    app, door = fake()
    for path, method in (("/healthz", "GET"), ("/api/v1/workflows", "GET"), (PAUSE, "POST")):
        reply = await ask(app, path, method, host=host, headers=bearer())
        assert (reply.status, reply.json["code"]) == (421, "wrong_host")
    assert door.asked == []


@pytest.mark.parametrize("host", [HOME, "localhost:7337", "LOCALHOST:7337", "[::1]:7337"])
async def test_the_names_of_this_machine_are_on_the_list(host: str) -> None:
    app, _ = fake()
    assert (await ask(app, "/healthz", host=host)).status == 200


async def test_two_names_or_none_are_refused() -> None:
    """G2: of two names each program on the way might read another one."""
    app, _ = fake()
    two = [("host", HOME), ("host", "evil.example")]
    assert (await ask(app, "/healthz", headers=two)).status == 421
    assert (await ask(app, "/healthz", host="")).status == 421


async def test_a_name_that_was_declared_is_on_the_list_exactly() -> None:
    """G1: a proxy before the page is called by its own name."""
    app, _ = fake(Place(("duly.example.org",), is_proxied=True))
    assert (await ask(app, "/healthz", host="duly.example.org")).status == 200
    for host in ("x.duly.example.org", "example.org", "duly.example.org:7337"):
        assert (await ask(app, "/healthz", host=host)).status == 421, host


async def test_what_a_client_says_about_forwarding_counts_for_nothing() -> None:
    """G2: no header but `Host` names the page."""
    app, _ = fake()
    said = {"x-forwarded-host": HOME, "forwarded": f"host={HOME}", "x-forwarded-proto": "https"}
    assert (await ask(app, "/healthz", host="evil.example", headers=said)).status == 421
    assert (await ask(app, "/healthz", headers={**said, "x-forwarded-host": "x"})).status == 200


# -- The origin -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:3000"},  # another program of this machine
        {"origin": "https://127.0.0.1:7337"},
        {"origin": f"{ORIGIN}.evil.example"},
        {"origin": f"{ORIGIN}/"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},  # a subdomain, or another port of this machine
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "cross-site", "origin": ORIGIN},
        {"sec-fetch-site": "same-origin", "origin": "http://evil.example"},
        {"referer": f"{ORIGIN}/"},
    ],
)
async def test_an_act_by_cookie_from_elsewhere_is_refused(headers: dict[str, str]) -> None:
    """G2: a page of another site cannot act in the name of the person who looks at it (CSRF)."""
    app, door = fake()
    reply = await ask(app, PAUSE, "POST", headers={**cookie(), **headers}, body=BODY)
    assert reply.status in (401, 403)
    posted = await ask(
        app, "/act/pause", "POST", headers={**cookie(), **headers, **FORM}, body=form(workflow="x")
    )
    assert posted.status in (401, 403)
    assert door.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": ORIGIN},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "same-origin", "origin": ORIGIN},
        {"sec-fetch-site": "same-origin", "origin": "null"},  # a form under no-referrer
    ],
)
async def test_an_act_by_cookie_from_our_own_page_is_carried_out(headers: dict[str, str]) -> None:
    app, door = fake()
    reply = await ask(app, PAUSE, "POST", headers={**cookie(), **headers}, body=BODY)
    assert reply.status == 200
    (asked,) = door.asked
    assert (asked.verb, asked.by) == ("pause", "token:admin")


async def test_a_token_needs_no_origin() -> None:
    """G2: no browser sends a token by itself."""
    app, door = fake()
    assert (await ask(app, PAUSE, "POST", headers=bearer(), body=BODY)).status == 200
    assert len(door.asked) == 1


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_cookie_that_came_along_with_another_page_counts_for_nothing(site: str) -> None:
    """G2: also a question is not answered to a page of another program on this machine."""
    app, door = fake()
    headers = {**cookie(), "sec-fetch-site": site}
    assert (await ask(app, "/api/v1/workflows", headers=headers)).status == 401
    assert door.asked == []
    assert (await ask(app, "/api/v1/workflows", headers={**cookie(), **OWN})).status == 200


async def test_no_other_origin_is_ever_allowed_to_read() -> None:
    """G2: there is no CORS: no header says so, and a preflight is refused."""
    app, _ = fake()
    asked = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    for path in ("/healthz", PAUSE, "/hooks/a/b", "/sign-in"):
        for headers in (asked, {**asked, **bearer()}):
            reply = await ask(app, path, "OPTIONS", headers=headers)
            assert reply.status in (401, 405)
            assert not [key for key, _ in reply.headers if key.startswith("access-control")]


# -- Cookies and tokens -----------------------------------------------------------------------


async def test_of_two_cookies_with_one_name_neither_counts() -> None:
    """G6: another host of this machine, or a subdomain, may have set one of them."""
    app, _ = fake()
    one = f"{COOKIE}=token of admin"
    for both in (f"{one}; {COOKIE}=token of read", f"{COOKIE}=x; {one}", f"{one};{one}"):
        assert (await ask(app, "/api/v1/workflows", headers={"cookie": both})).status == 401
    two = [("cookie", one), ("cookie", f"{COOKIE}=x")]
    assert (await ask(app, "/api/v1/workflows", headers=two)).status == 401


@pytest.mark.parametrize(
    "name", ["duly", "duly-7338", "Duly-7337", f"__Host-{COOKIE}", "__Secure-duly-7337"]
)
async def test_a_cookie_of_another_name_counts_for_nothing(name: str) -> None:
    """G6: each page of this machine has a cookie of its own."""
    app, _ = fake()
    assert (await ask(app, "/", headers=cookie(name=name))).status == 401


async def test_under_tls_only_a_cookie_that_no_subdomain_can_set_counts() -> None:
    """G6: a browser takes a name that begins with __Host- from this very host alone."""
    app, _ = fake()
    plain, strict = cookie(), cookie(name=f"__Host-{COOKIE}")
    assert (await ask(app, "/api/v1/workflows", headers=plain, scheme="https")).status == 401
    assert (await ask(app, "/api/v1/workflows", headers=strict, scheme="https")).status == 200
    proxied, _ = fake(Place((HOME,), is_proxied=True))
    assert (await ask(proxied, "/api/v1/workflows", headers=plain)).status == 401
    assert (await ask(proxied, "/api/v1/workflows", headers=strict)).status == 200


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", "Basic YWRtaW46", "token of admin", "Bearer x token of admin"],
)
async def test_what_is_no_token_lets_nobody_in(given: str) -> None:
    app, _ = fake()
    headers = {"authorization": given, **cookie()}
    reply = await ask(app, "/api/v1/workflows", headers=headers)
    assert (reply.status, reply["www-authenticate"]) == (401, "Bearer")


async def test_two_tokens_let_nobody_in() -> None:
    app, _ = fake()
    two = [("authorization", "Bearer token of admin"), ("authorization", "Bearer token of read")]
    assert (await ask(app, "/api/v1/workflows", headers=two)).status == 401


async def test_a_token_in_the_address_lets_nobody_in() -> None:
    """G6: an address is kept in histories and logs."""
    app, _ = fake()
    for name in ("token", "access_token", "authorization"):
        assert (await ask(app, f"/api/v1/workflows?{name}=token of admin")).status == 401


async def test_a_token_goes_before_a_cookie() -> None:
    """G5: a program that shows a token acts under its name, also from a browser."""
    app, door = fake()
    headers = {**bearer(Scope.AGENT), **cookie()}
    assert (await ask(app, PAUSE, "POST", headers=headers, body=BODY)).status == 200
    assert [each.by for each in door.asked] == ["token:agent"]


# -- Who acts ---------------------------------------------------------------------------------


async def test_who_acts_is_who_signed_in() -> None:
    """G5: the session has the name and the scope of the token, whatever the body says."""
    app, door = fake()
    body = {**BODY, "by": "ada"}
    await ask(app, PAUSE, "POST", headers=bearer(Scope.DECIDE), body=body)
    (asked,) = door.asked
    assert (asked.by, asked.scope) == ("token:decide", Scope.DECIDE)
    assert asked.args["by"] == "ada"  # the host refuses it by its name


@pytest.mark.parametrize("header", ["x-http-method-override", "x-method-override", "x-user", "by"])
async def test_no_header_changes_the_method_or_the_name(header: str) -> None:
    """G2, G5: a GET stays a GET."""
    app, door = fake()
    headers = {**bearer(), header: "POST"}
    assert (await ask(app, f"{PAUSE}?_method=POST", headers=headers)).status == 405
    assert door.asked == []


# -- Paths ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "//api/v1/workflows",
        "/api//v1/workflows",
        "/./api/v1/workflows",
        "/static/../api/v1/workflows",
        "/healthz/../api/v1/workflows",
        "/hooks/a/../../api/v1/workflows",
        "/api\\v1\\workflows",
        "/api/v1/work\x00flows",
        "/api/v1/workflows\r\n",
        "/api/v1/\u202eswolfkrow",
        "/" + "a" * 3000,
    ],
)
async def test_a_path_that_could_be_read_in_two_ways_is_refused(path: str) -> None:
    """G3: no program on the way and no router makes another path of it."""
    app, door = fake()
    for headers in ({}, bearer()):
        assert (await ask(app, path, headers=headers)).status == 400
    assert door.asked == []


@pytest.mark.parametrize("raw", [b"/healthz%2f..%2fapi", b"/w/a%2Fb", b"/w/a%5cb"])
async def test_a_slash_that_is_hidden_in_a_name_is_refused(raw: bytes) -> None:
    """G3: behind a proxy it may be another path."""
    app, _ = fake()
    reply = await ask(app, raw.decode(), headers=bearer(), raw_path=raw)
    assert reply.status == 400


@pytest.mark.parametrize("path", ["/API/v1/workflows", "/api/v1/workflows/", "/api/v1/Workflows"])
async def test_a_path_is_compared_letter_by_letter(path: str) -> None:
    app, _ = fake()
    assert (await ask(app, path)).status == 401
    assert (await ask(app, path, headers=bearer())).status == 404


# -- Headers ----------------------------------------------------------------------------------


async def test_every_response_has_the_headers_that_bind_a_browser() -> None:
    """G7: also those of errors; nothing inline, nothing remote, no frames, nothing kept."""
    app, _ = fake()
    asked = [
        await ask(app, "/healthz"),
        await ask(app, "/"),
        await ask(app, "/", headers={"accept": "text/html"}),
        await ask(app, "/sign-in"),
        await ask(app, "/", headers=bearer()),
        await ask(app, "/api/v1/workflows", headers=bearer()),
        await ask(app, "/nothing", headers=bearer()),
        await ask(app, "/healthz", host="evil.example"),
        await ask(app, PAUSE, "GET", headers=bearer()),
    ]
    for reply in asked:
        for name, value in HEADERS.items():
            assert reply[name.lower()] == value
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


async def test_the_style_sheet_alone_may_be_kept() -> None:
    """G7: it shows no data."""
    app, _ = fake()
    reply = await ask(app, "/static/page.css")
    assert (reply.status, reply["content-type"]) == (200, "text/css; charset=utf-8")
    assert reply["cache-control"] == "public, max-age=3600"
    assert len(reply.body) <= 12 * 1024
    # What is dark is other colours and nothing else, so axe looks for these alone (decision 521).
    _, dark, rest = reply.text.partition("@media (prefers-color-scheme: dark) {\n  :root {\n")
    lines = rest.partition("\n  }\n}\n")[0].splitlines()
    assert dark
    assert all(re.fullmatch(r"    (--[a-z-]+: #[0-9a-f]{6}; ?)+", each) for each in lines)
    assert "prefers-color-scheme" not in rest


async def test_an_upgrade_brings_its_own_style_sheet() -> None:
    """G7: a browser may keep it for an hour, so the address is that of its content."""
    app, _ = fake()
    page = (await ask(app, "/sign-in", headers={"Accept": "text/html"})).text
    for name in ("page.css", "page.js"):
        (address,) = re.findall(rf'"(/static/{re.escape(name)}\?v=[0-9a-f]+)"', page)
        kept = await ask(app, address)
        assert kept.status == 200
        assert sha256(kept.body).hexdigest().startswith(address.partition("=")[2])


def test_every_refusal_has_a_heading_in_plain_words() -> None:
    """G15: a person reads no phrase of the protocol; what is a bug in Duly says so."""
    statuses = {*BY_CODE.values(), *dict(BY_CLASS).values(), 400} - {401, 500}
    headings = [say_refused(each) for each in statuses]
    assert say_refused(500) not in headings
    assert not {each.phrase for each in HTTPStatus} & set(headings)


async def test_the_script_of_a_page_is_no_longer_than_was_decided() -> None:
    """G14: what a page does more with JavaScript can be read in one sitting (decision 114)."""
    app, _ = fake()
    reply = await ask(app, "/static/page.js")
    assert reply.status == 200
    assert len(reply.text.splitlines()) <= 250
    assert max(map(len, reply.text.splitlines())) <= 120


async def test_a_bug_says_nothing_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """G15, A5: a caller learns that it is a bug; where it is stands in the log."""
    app, _ = fake()

    async def fail(self: object, verb: str, /, **args: object) -> None:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr("tests.web.stand.FakeSession.call", fail)
    reply = await ask(app, "/healthz")
    assert (reply.status, reply.json["code"]) == (500, "failed_inside")
    assert "swordfish" not in reply.text
    assert reply.has("content-security-policy")
