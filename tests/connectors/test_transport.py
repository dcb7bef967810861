"""Requests to a server that misbehaves: what is certain is said, and nothing more."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from duly.connectors import transport as module
from duly.connectors.reach import make_context
from duly.connectors.response import HEADERS_MAX, PIECES_MAX, HttpResponse
from duly.connectors.transport import (
    REDIRECTS_MAX,
    Credentials,
    HttpRequest,
    Transport,
)
from duly.connectors.watch import Watch
from duly.env import machine_ms
from duly.errors import ConfigError, NotSent, PermissionDenied, Refused, Transient, UnknownOutcome
from duly.rules.url import IpAddress, read_url
from tests.connectors import shop as double
from tests.connectors.certificates import Authority
from tests.connectors.shop import Manner, Shop, packed, raw, status

pytestmark = pytest.mark.anyio

HOME = ("127.0.0.1", "shop.test", "other.test")
LOOPBACK = ip_address("127.0.0.1")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with Shop(tmp_path) as made:
        yield made


class Names:
    """A resolver that the test writes; each answer is given once, the last one for ever."""

    def __init__(self, *answers: tuple[str, ...]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> tuple[IpAddress, ...]:
        self.asked.append(host)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return tuple(map(ip_address, found))


def transport(**more: Any) -> Transport:
    more.setdefault("resolve", Names(("127.0.0.1",)))
    return Transport(allow=HOME, **more)


async def post(shop: Shop, *, timeout_s: float = 5, **more: Any) -> HttpResponse:
    url = read_url(f"{shop.url}/a/orders")
    headers = {"Content-Type": "application/json", "Idempotency-Key": "k1"}
    request = HttpRequest("POST", url, headers, b'{"item": "tea"}')
    return await transport(**more).change(request, timeout_s=timeout_s)


async def get(
    shop: Shop, path: str = "/a/orders", *, timeout_s: float = 5, **more: Any
) -> HttpResponse:
    request = HttpRequest("GET", read_url(f"{shop.url}{path}"))
    return await transport(**more).read(request, timeout_s=timeout_s)


# -- A change -------------------------------------------------------------------------------------

# How a server breaks, and whether the change was made: it is unknown each time.
BROKEN: dict[str, tuple[Manner, int]] = {
    "cut during": (double.cut_during, 0),
    "cut after": (double.cut_after, 0),
    "answer lost": (double.lost, 1),
    "half an answer": (double.half, 1),
    "late": (double.late, 1),
    "drip": (double.drip, 1),
    "garbage": (raw(b"hello, this is no HTTP\r\n\r\n"), 1),
    "wrong length": (raw(b"HTTP/1.1 201 X\r\nContent-Length: 9\r\n\r\n{}"), 1),
    "two lengths": (
        raw(b"HTTP/1.1 201 X\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} "),
        1,
    ),
    "bad chunk": (raw(b"HTTP/1.1 201 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), 1),
    "endless head": (raw(b"HTTP/1.1 201 X\r\n", *[b"X: " + b"y" * 9000 + b"\r\n"] * 20), 1),
    "many headers": (raw(b"HTTP/1.1 201 X\r\n" + b"A: b\r\n" * 300 + b"\r\n"), 1),
    "hints for ever": (raw(b"HTTP/1.1 103 X\r\n\r\n" * 20), 1),
    "another protocol": (raw(b"HTTP/1.1 101 X\r\n\r\n"), 1),
    "giant": (raw(b"HTTP/1.1 201 X\r\nContent-Length: 9000000\r\n\r\n", b"x" * 9_000_000), 1),
    "many pieces": (
        raw(
            b"HTTP/1.1 201 X\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"1\r\n \r\n" * (PIECES_MAX + 1),
        ),
        1,
    ),
    "bomb": (raw(packed(b" " * 20_000_000)), 1),
    "cut gzip": (raw(packed(b"{}" * 50)[:-6]), 1),
    "unknown encoding": (
        raw(b"HTTP/1.1 201 X\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n{}"),
        1,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_change_without_a_whole_answer_is_unknown(shop: Shop, name: str) -> None:
    """K2, K6: once a byte left, only a whole answer says anything; it is sent once."""
    manner, done = BROKEN[name]
    shop.next(manner)
    with pytest.raises(UnknownOutcome, match="may have been done"):
        await post(shop, timeout_s=0.3 if name in ("late", "drip") else 5)
    assert (await get(shop)).status == 200  # the server has dealt with everything before this
    assert len(shop.orders()) == done
    assert shop.connections == 2


async def test_a_server_that_hangs_up_at_once_has_done_nothing(shop: Shop) -> None:
    """K2: it may hang up before the first byte or after it; each is said as it was."""
    shop.next(double.cut_before)
    with pytest.raises((NotSent, UnknownOutcome)):
        await post(shop)
    await get(shop)
    assert shop.orders() == []


async def test_a_server_that_says_nothing_is_told_from_one_that_says_nonsense(shop: Shop) -> None:
    """K2: the message says which of the two it was."""
    shop.next(double.lost, raw(b"nonsense\r\n\r\n"))
    with pytest.raises(UnknownOutcome, match="the connection ended before its response did"):
        await post(shop)
    with pytest.raises(UnknownOutcome, match="its response is malformed"):
        await post(shop)


async def test_a_change_is_sent_once_over_a_connection_of_its_own(shop: Shop) -> None:
    """K2: nothing is kept open from one request to the next."""
    assert (await post(shop)).status == 201
    assert (await post(shop)).header("idempotent-replayed") == "true"
    assert shop.connections == 2
    assert shop.asks[0].headers["connection"] == "close"
    assert shop.asks[0].headers["content-length"] == "15"


async def test_what_cannot_be_reached_was_not_sent(shop: Shop, tmp_path: Path) -> None:
    """K2: connecting fails, resolving fails, or it takes too long."""
    port = shop.port
    shop.__exit__(None, None, None)
    request = HttpRequest("POST", read_url(f"http://127.0.0.1:{port}/a/orders"))
    with pytest.raises(NotSent, match="nothing was sent: the connection failed"):
        await transport().change(request, timeout_s=5)

    async def fail(host: str, port: int) -> tuple[IpAddress, ...]:
        raise socket.gaierror(-2, "Name or service not known")

    async def hang(host: str, port: int) -> tuple[IpAddress, ...]:
        await asyncio.Event().wait()
        return ()

    request = HttpRequest("POST", read_url("http://shop.test/"))
    with pytest.raises(NotSent, match="could not be resolved"):
        await transport(resolve=fail).change(request, timeout_s=5)
    with pytest.raises(NotSent, match=r"took longer than 0\.1 s"):
        await transport(resolve=hang).change(request, timeout_s=0.1)
    with pytest.raises(NotSent, match="has no address"):
        await transport(resolve=Names(())).change(request, timeout_s=5)


async def test_the_time_for_one_address_is_the_one_that_is_named(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K2, X2: it is shorter than that of the whole exchange, and nothing was sent."""

    async def hang(*args: object, **given: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", hang)
    monkeypatch.setattr(module, "CONNECT_S", 0.05)
    with pytest.raises(NotSent, match=r"nothing was sent: no connection within 0\.05 s"):
        await post(shop)


async def test_the_next_address_is_tried_before_anything_is_sent(shop: Shop) -> None:
    """K2: of two addresses the first refuses the connection."""
    url = read_url(f"http://shop.test:{shop.port}/a/orders")
    names = Names(("127.0.0.2", "127.0.0.1"))
    request = HttpRequest("POST", url, {"Content-Type": "application/json"}, b"{}")
    assert (await transport(resolve=names).change(request, timeout_s=5)).status == 201
    assert shop.connections == 1


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_change_follows_no_redirect(shop: Shop, code: int) -> None:
    """K2: the response itself is returned."""
    shop.next(status(code, "Location: /a/orders\r\n"))
    assert (await post(shop)).status == code
    assert shop.connections == 1
    assert shop.orders() == []


async def test_nothing_leaves_after_the_time_of_the_call(shop: Shop) -> None:
    """L7, K2: the call is over while its connection is made."""
    watch = Watch("shop.order", clock=machine_ms, timeout_s=60)

    class Stopping(Names):
        async def __call__(self, host: str, port: int) -> tuple[IpAddress, ...]:
            watch.is_told_to_stop = True
            return await super().__call__(host, port)

    url = read_url(f"http://shop.test:{shop.port}/a/orders")
    change = transport(resolve=Stopping(("127.0.0.1",))).change(
        HttpRequest("POST", url), timeout_s=5
    )
    watch.begin(change)
    with pytest.raises(NotSent, match="the time of the call was over"):
        await watch.result(5)
    await get(shop)
    assert [each.method for each in shop.asks] == ["GET"]


async def test_a_cancelled_change_hangs_up_at_once(shop: Shop) -> None:
    """L6: nothing more leaves after its end."""
    shop.next(double.late)
    task = asyncio.create_task(post(shop))
    await asyncio.to_thread(shop.heard.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await get(shop, timeout_s=2)).status == 200  # the server is free again


# -- A read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BROKEN)
async def test_a_read_that_breaks_can_be_repeated(shop: Shop, name: str) -> None:
    """K6: past a limit of bytes it is refused, everything else is temporary."""
    shop.next(BROKEN[name][0])
    lasting = {"giant", "bomb", "many pieces", "many headers", "unknown encoding"}
    with pytest.raises(Refused if name in lasting else Transient):
        await get(shop, timeout_s=0.3 if name in ("late", "drip") else 5)
    assert shop.connections == 1


async def test_what_is_packed_is_unpacked(shop: Shop) -> None:
    """K6: the limit is of decoded bytes, one past it is too much."""
    shop.next(raw(packed(b"x" * 1000)), raw(packed(b"x" * 1001)), raw(b"%PDF"))
    assert (await get(shop, body_bytes_max=1000)).body == b"x" * 1000
    with pytest.raises(Refused, match="larger than 1,000 bytes"):
        await get(shop, body_bytes_max=1000)
    data = gzip.compress(b"{}") + b"more"
    head = double.HEAD.format(
        status=200, kind="x/y", length=len(data), more="Content-Encoding: gzip\r\n"
    )
    shop.manners = [raw(head.encode() + data)]
    with pytest.raises(Transient, match="more behind its end"):
        await get(shop)
    many = b"HTTP/1.1 200 X\r\n" + b"A: b\r\n" * (HEADERS_MAX - 1) + b"Content-Length: 0\r\n\r\n"
    shop.next(raw(many))
    assert len((await get(shop)).headers) == HEADERS_MAX


async def test_an_end_that_was_not_announced_is_noted(shop: Shop) -> None:
    """K6: such a body may have been cut."""
    shop.next(raw(b"HTTP/1.1 200 X\r\n\r\nhel"), raw(b"HTTP/1.1 204 X\r\n\r\n"))
    assert not (await get(shop)).is_framed
    assert (await get(shop)).is_framed
    chunked = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    shop.next(raw(b"HTTP/1.1 100 X\r\n\r\n", chunked))
    found = await get(shop)
    assert (found.body, found.is_framed) == (b"{}", True)


async def test_a_read_follows_redirects_and_judges_each(shop: Shop) -> None:
    """K3: every hop is resolved and judged anew; a chain has an end."""
    shop.next(status(302, "Location: /a/orders\r\n"))
    assert (await get(shop, "/x")).status == 200
    shop.next(*[status(301, "Location: /y\r\n")] * (REDIRECTS_MAX + 2))
    with pytest.raises(Refused, match="redirects more than"):
        await get(shop, "/x")
    shop.manners = []
    for leads in (
        *("http://169.254.169.254/latest", "http://2852039166/", "http://[::ffff:7f00:1]/"),
        *("file:///etc/passwd", "gopher://x/", "//user@shop.test/", "http://10.0.0.1/", "/%2e%2e/"),
        *("/x?_method=DELETE", "/x?a=1;_method=DELETE", "http://[::1", "//[", "http://a]/"),
    ):
        shop.next(status(302, f"Location: {leads}\r\n"))
        with pytest.raises((PermissionDenied, Refused)):
            await get(shop, "/x")


async def test_a_redirect_to_a_name_that_became_private_is_refused(shop: Shop) -> None:
    """K3: the name was public when it was first asked about."""
    shop.next(status(302, "Location: http://evil.test/\r\n"))
    names = Names(("127.0.0.1",))
    with pytest.raises(PermissionDenied, match=r"evil\.test leads to 127\.0\.0\.1"):
        await get(shop, "/x", resolve=names)
    assert names.asked == ["evil.test"]


async def test_a_name_that_changes_between_check_and_connect_changes_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3: it is resolved once, and the connection goes to the address that was judged."""
    connected: list[str] = []
    real = asyncio.open_connection

    async def note(host: str, port: int, **more: Any) -> Any:
        connected.append(host)
        return await real(host, port, **more)

    def explode(*_: object, **__: object) -> object:
        raise AssertionError("it was resolved again")

    monkeypatch.setattr(asyncio, "open_connection", note)
    monkeypatch.setattr(socket, "getaddrinfo", explode)
    names = Names(("127.0.0.1",), ("169.254.169.254",))
    url = read_url(f"http://shop.test:{shop.port}/a/orders")
    way = transport(resolve=names)
    assert (await way.read(HttpRequest("GET", url), timeout_s=5)).status == 200
    assert (names.asked, connected) == (["shop.test"], ["127.0.0.1"])
    with pytest.raises(PermissionDenied, match=r"169\.254\.169\.254, which is not public"):
        await way.read(HttpRequest("GET", url), timeout_s=5)
    assert connected == ["127.0.0.1"]


@pytest.mark.parametrize("answers", [("93.184.216.34", "10.0.0.1"), ("::1",), ("fe80::1",)])
async def test_one_bad_address_condemns_the_name(answers: tuple[str, ...]) -> None:
    """K3: nothing is connected to."""
    request = HttpRequest("POST", read_url("https://public.example/"))
    with pytest.raises(PermissionDenied, match=r"public\.example leads to"):
        await transport(resolve=Names(answers)).change(request, timeout_s=5)


async def test_the_real_resolver_is_judged_too(shop: Shop) -> None:
    """K3: localhost is this machine, and is open only by name."""
    url = read_url(f"http://localhost:{shop.port}/a/orders")
    with pytest.raises(PermissionDenied, match="localhost leads to"):
        await Transport().read(HttpRequest("GET", url), timeout_s=5)
    open_way = Transport(allow=["localhost"])
    assert (await open_way.read(HttpRequest("GET", url), timeout_s=5)).status == 200
    with pytest.raises(PermissionDenied, match=r"127\.0\.0\.1 leads to"):
        await Transport(allow=["localhost"]).read(
            HttpRequest("GET", read_url(shop.url)), timeout_s=5
        )


# -- Secrets, headers, the environment ------------------------------------------------------------


async def test_credentials_go_to_their_origin_alone(shop: Shop, tmp_path: Path) -> None:
    """K4: another origin gets neither them nor any header of the caller."""
    own = Credentials(shop.url, {"Authorization": "Bearer s3cret"}, {"token": "s3cret"})
    with Shop(tmp_path / "other") as other:
        (tmp_path / "other").mkdir()
        request = HttpRequest("GET", read_url(f"{shop.url}/x"), {"X-Own": "1"}, b"", own)
        shop.next(status(302, "Location: /y\r\n"), status(302, f"Location: {other.url}/z\r\n"))
        await transport().read(request, timeout_s=5)
        assert [each.target for each in shop.asks] == ["/x?token=s3cret", "/y?token=s3cret"]
        assert all(each.headers["authorization"] == "Bearer s3cret" for each in shop.asks)
        (there,) = other.asks
        assert there.target == "/z"
        assert not {"authorization", "x-own"} & set(there.headers)
        way = transport()
        request = HttpRequest("GET", read_url(f"{other.url}/q"), {}, b"", own)
        await way.read(request, timeout_s=5)
        assert "s3cret" not in other.asks[-1].target
        assert "authorization" not in other.asks[-1].headers
    assert "s3cret" not in repr(request)


async def test_a_redirect_that_drops_tls_is_refused(tmp_path: Path) -> None:
    """K4: from https to http nothing is followed."""
    authority = Authority(tmp_path)
    with Shop(tmp_path, context=authority.context("127.0.0.1")) as shop:
        shop.next(status(302, "Location: http://127.0.0.1:9/\r\n"))
        with pytest.raises(Refused, match="from https to http"):
            await get(shop, ca=authority.ca)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("X-A", "a\r\nX-B: c"), ("X-A", "a\n"), ("X-A", "\0"), ("X-A", "é"), ("X-A", " a")),
        *(("X A", "a"), ("X-A:", "a"), ("", "a"), ("X\r\nY", "a"), ("Host", "evil")),
        *(("Content-Length", "0"), ("Transfer-Encoding", "chunked"), ("Connection", "close")),
        *(("X-HTTP-Method-Override", "DELETE"), ("x-method-override", "PUT"), ("Upgrade", "h2c")),
    ],
)
def test_a_header_that_is_more_than_one_is_refused(name: str, value: str) -> None:
    """K3, K5: no line break, no header of the transport, no other method."""
    with pytest.raises(Refused):
        HttpRequest("GET", read_url("http://shop.test/"), {name: value})


def test_a_method_or_a_body_that_cannot_be_is_refused() -> None:
    """K5, K6: the known methods, and a limit of bytes."""
    url = read_url("http://shop.test/")
    for method in ("get", "CONNECT", "TRACE", "OPTIONS", "GET /x", ""):
        with pytest.raises(Refused):
            HttpRequest(method, url)
    HttpRequest("POST", url, body=b"x" * 26 * 1024 * 1024)
    with pytest.raises(Refused, match="larger"):
        HttpRequest("POST", url, body=b"x" * (26 * 1024 * 1024 + 1))


async def test_a_read_cannot_be_made_a_change(shop: Shop) -> None:
    """K5: some servers take a field of the query for the method."""
    for query in (
        "_method=DELETE",
        "a=1&%5Fmethod=PUT",
        "X-HTTP-Method-Override=POST",
        "_METHOD=",
        "a;_method=PUT",
    ):
        with pytest.raises(Refused, match="may change"):
            await get(shop, f"/a/orders?{query}")
    assert shop.asks == []


async def test_the_environment_changes_nothing(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3: no proxy, no certificates of a variable."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert (await get(shop)).status == 200
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    with Shop(tmp_path, context=authority.context("127.0.0.1")) as secure:
        with pytest.raises(NotSent, match="certificate was not accepted"):
            await post(secure)
        assert secure.asks == []


# -- TLS ------------------------------------------------------------------------------------------


async def test_a_server_is_verified_by_the_ca_of_the_settings(tmp_path: Path) -> None:
    """K3: its name and its time are checked, before anything is sent."""
    authority, other = Authority(tmp_path), Authority(tmp_path / "b")
    good = authority.context("127.0.0.1")
    with Shop(tmp_path, context=good) as shop:
        assert (await post(shop, ca=authority.ca)).status == 201
    bad = {
        "another CA": (good, other.ca),
        "the system's": (good, None),
        "wrong name": (authority.context("shop.test"), authority.ca),
        "no name": (authority.context(), authority.ca),
        "over": (authority.context("127.0.0.1", is_over=True), authority.ca),
        "self-signed": (authority.context("127.0.0.1", is_self_signed=True), authority.ca),
    }
    for context, ca in bad.values():
        with Shop(tmp_path, context=context) as shop:
            with pytest.raises(NotSent, match="certificate was not accepted"):
                await post(shop, ca=ca)
            with pytest.raises(Transient, match="certificate was not accepted"):
                await get(shop, ca=ca)
            assert shop.asks == []


async def test_a_server_without_tls_is_not_spoken_to(shop: Shop, tmp_path: Path) -> None:
    """K2: the handshake fails before anything of the request was sent."""
    authority = Authority(tmp_path)
    request = HttpRequest(
        "POST", read_url(f"https://127.0.0.1:{shop.port}/a/orders"), {}, b"secret"
    )
    with pytest.raises(NotSent, match="nothing was sent"):
        await transport(ca=authority.ca).change(request, timeout_s=2)
    assert shop.asks == []


def test_a_ca_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """K3: when the connector is made, by its file."""
    (tmp_path / "empty.pem").write_text("nothing")
    for name in ("missing.pem", "empty.pem"):
        with pytest.raises(ConfigError, match=name):
            make_context(tmp_path / name)
