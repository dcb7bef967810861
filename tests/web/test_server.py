"""A real server on loopback: what only bytes can show (G1, G10)."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from duly.api.page import PageSettings
from duly.api.registry import Scope
from duly.errors import ConfigError
from duly.faces.web import server as module
from duly.faces.web.guard import Place
from duly.faces.web.server import LimitedProtocol, make_server
from duly.faces.web.watch import listen
from duly.rules import page
from tests.web.stand import Fake, fake

TOKEN: Final = f"Authorization: Bearer token of {Scope.ADMIN}\r\n"


@asynccontextmanager
async def served(place: Place | None = None, **tls: Any) -> AsyncIterator[tuple[int, Fake]]:
    """Serve an application with nothing behind it at a free port."""
    app, door = fake(place)
    made = listen(PageSettings(port=0)).page
    server = make_server(app, **tls)
    serving = asyncio.ensure_future(server.serve([made]))
    try:
        yield made.getsockname()[1], door
    finally:
        server.should_exit = True
        await serving


async def say(port: int, text: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Say these bytes and hear all that comes back until the server hangs up."""
    name = None if tls is None else "localhost"
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    try:
        writer.write(text)
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.transport.abort()


def request(port: int, line: str, *headers: str, close: bool = True) -> bytes:
    end = ["Connection: close\r\n"] if close else []
    head = "".join((f"{line} HTTP/1.1\r\n", f"Host: 127.0.0.1:{port}\r\n", *headers, *end))
    return f"{head}\r\n".encode()


async def test_a_request_over_loopback_is_answered() -> None:
    async with served() as (port, _):
        heard = await say(port, request(port, "GET /healthz"))
        assert heard.startswith(b"HTTP/1.1 200 OK\r\n")
        assert heard.endswith(b"ok\n")
        assert b"server:" not in heard.lower()


async def test_a_client_that_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """G10: a head that is not there after some seconds is not waited for (slow loris)."""
    monkeypatch.setattr(LimitedProtocol, "head_s", 0.1)
    async with served() as (port, door):
        assert await say(port, b"") == b""
        assert await say(port, b"GET /api/v1/workflows HTTP/1.1\r\nHost: x") == b""
        assert door.asked == []


async def test_a_connection_that_is_kept_is_not_kept_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G10: after its answer a client may say more, but not never."""
    monkeypatch.setattr(LimitedProtocol, "head_s", 0.1)
    monkeypatch.setattr(module, "IDLE_S_MAX", 0.1)
    async with served() as (port, _):
        heard = await say(port, request(port, "GET /healthz", close=False))
        assert heard.count(b"HTTP/1.1 200") == 1


async def test_a_head_that_is_too_long_is_refused() -> None:
    """G10: 16 KiB, in one header or in many."""
    async with served() as (port, door):
        long = f"X-Long: {'x' * 40_000}\r\n"
        many = [f"X-{number}: {'x' * 100}\r\n" for number in range(1000)]
        for headers in ([long], many):
            heard = await say(port, request(port, "GET /api/v1/workflows", TOKEN, *headers))
            assert b" 200 " not in heard.partition(b"\r\n")[0]
        assert door.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Content-Length: +5\r\n",
        "Content-Length : 5\r\n",
        "X: a\r\n b\r\n\x00: c\r\n",
        "Host: evil.example\r\n",
    ],
)
async def test_a_request_that_two_programs_would_read_in_two_ways_is_refused(headers: str) -> None:
    """G3: nothing is smuggled behind a proxy."""
    async with served() as (port, door):
        kind = "Content-Type: application/json\r\n"
        sent = request(port, "POST /api/v1/pause", TOKEN, kind, headers) + b'0\r\n\r\n{"a":1}'
        heard = await say(port, sent)
        assert heard.partition(b"\r\n")[0].split(b" ")[1:2] != [b"200"]
        assert door.asked == []


async def test_what_follows_a_request_of_two_lengths_is_not_read() -> None:
    """G3: a proxy may have taken it for the body, and the next client's request for its end."""
    async with served() as (port, _):
        lengths = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"
        odd = request(port, "POST /sign-in", lengths, close=False) + b"0\r\n\r\n"
        heard = await say(port, odd + request(port, "GET /healthz"))
        assert heard.startswith(b"HTTP/1.1 400")
        assert heard.count(b"\r\ndate: ") == 1


async def test_a_body_in_pieces_is_counted() -> None:
    """G10: a chunked body says no length, and is left at its limit."""
    async with served() as (port, door):
        kind = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        piece = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
        sent = request(port, "POST /api/v1/pause", TOKEN, kind) + piece * 20 + b"0\r\n\r\n"
        # The server may hang up on what is still to come before its answer is read.
        with suppress(ConnectionResetError):
            heard = await say(port, sent)
            assert heard.startswith(b"HTTP/1.1 413")
        assert door.asked == []


async def test_odd_requests_write_no_line_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """G10: a stranger cannot fill the log of a host."""
    async with served() as (port, _):
        await say(port, b"\x16\x03\x01\x00\r\n\r\n")
        upgrade = "Connection: close, upgrade\r\nUpgrade: h2c\r\n"
        await say(port, request(port, "GET /healthz", upgrade, close=False))
    assert caplog.records == []


async def test_a_websocket_is_not_spoken() -> None:
    async with served() as (port, door):
        upgrade = (
            "Upgrade: websocket\r\n",
            "Sec-WebSocket-Version: 13\r\n",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        )
        text = request(
            port, "GET /api/v1/workflows", "Connection: Upgrade\r\n", *upgrade, close=False
        )
        heard = await say(port, text.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert heard.startswith(b"HTTP/1.1 401")
        assert door.asked == []


@pytest.mark.parametrize("line", ["GET http://evil.example/", "GET /\x7f", "GET *", "G\tT /"])
async def test_an_odd_first_line_reaches_nothing(line: str) -> None:
    async with served() as (port, door):
        heard = await say(port, request(port, line, TOKEN))
        assert heard.partition(b"\r\n")[0].split(b" ")[1:2] != [b"200"]
        assert door.asked == []


@asynccontextmanager
async def silent(
    port: int, count: int
) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """Connect so many clients, which say nothing."""
    made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        yield made
    finally:
        for _, writer in made:
            writer.transport.abort()


async def test_clients_that_say_nothing_keep_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """G10: where connections are short, the one that is silent for longest gives way."""
    monkeypatch.setattr(LimitedProtocol, "connections_max", 5)
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 5)
    async with served() as (port, _), silent(port, 5) as clients:
        readers = [reader for reader, _ in clients]
        heard = await say(port, request(port, "GET /healthz"))
        assert heard.startswith(b"HTTP/1.1 200")
        assert await asyncio.wait_for(readers[0].read(), 5) == b""
        assert not any(each.at_eof() for each in readers[1:])


async def test_a_request_under_way_gives_way_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """G10: its place is taken until it is answered; the next client is told so."""
    monkeypatch.setattr(LimitedProtocol, "connections_max", 2)
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 2)
    async with served() as (port, door):
        door.gate = asyncio.Event()
        busy = [
            asyncio.ensure_future(say(port, request(port, "GET /api/v1/workflows", TOKEN)))
            for _ in range(2)
        ]
        for each in busy:  # they wait for the host
            await asyncio.wait([each], timeout=0.1)
        assert len(door.asked) == 2
        refused = await say(port, request(port, "GET /static/page.css"))
        assert refused.startswith(b"HTTP/1.1 503")
        door.gate.set()
        assert all(each.startswith(b"HTTP/1.1 200") for each in await asyncio.gather(*busy))


async def test_bodies_that_do_not_arrive_keep_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """G10: a stranger who begins a body and sends no more of it holds no place for long."""
    monkeypatch.setattr(LimitedProtocol, "connections_max", 3)
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 3)
    async with served() as (port, door), silent(port, 3) as clients:
        begun = ("Content-Type: application/json\r\n", "Content-Length: 9\r\n")
        for _, writer in clients:
            writer.write(request(port, "POST /hooks/a/b", *begun, close=False) + b"{")
            await writer.drain()
        door.gate = asyncio.Event()  # a caller who waits for the host gives way to none
        caller = asyncio.ensure_future(say(port, request(port, "GET /api/v1/workflows", TOKEN)))
        async with asyncio.timeout(5):
            while not door.asked:  # noqa: ASYNC110
                await asyncio.sleep(0)
        heard = [await say(port, request(port, "GET /static/page.css")) for _ in range(5)]
        assert [each[:12] for each in heard] == [b"HTTP/1.1 200"] * 5
        assert await asyncio.wait_for(clients[0][0].read(), 5) == b""
        door.gate.set()
        assert (await caller).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(("times", "is_closing"), [(1, False), (1, True), (2, False)])
async def test_a_client_that_does_not_read_is_hung_up_on(
    times: int, is_closing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G10: no client holds a connection, also if it asked for its end, or for more at once."""
    monkeypatch.setattr(LimitedProtocol, "unread_s", 0.1)
    monkeypatch.setattr(LimitedProtocol, "head_s", 0.1)
    monkeypatch.setattr(module, "IDLE_S_MAX", 0.1)
    lost = asyncio.Event()
    monkeypatch.setattr(
        LimitedProtocol, "_stop_counting", _then(LimitedProtocol._stop_counting, lost.set)
    )
    async with served() as (port, door):
        door.answers["workflows"] = ["x" * 8_000_000]
        with socket.socket() as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            made.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(made, ("127.0.0.1", port))
            line = "GET /api/v1/workflows"
            await loop.sock_sendall(made, request(port, line, TOKEN, close=is_closing) * times)
            await asyncio.wait_for(lost.wait(), 10)


def _then(first: Any, second: Any) -> Any:
    def both(self: Any) -> None:
        first(self)
        second()

    return both


async def test_a_client_that_begins_no_tls_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G10: the time counts from the connection, not from the end of a handshake."""
    monkeypatch.setattr(module, "HANDSHAKE_S_MAX", 0.1)
    certificate, key = _make_certificate(tmp_path)
    files: dict[str, Any] = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    async with served(**files) as (port, _), silent(port, 1) as ((reader, _),):
        assert await asyncio.wait_for(reader.read(), 5) == b""


async def test_a_chunked_body_in_http_1_0_is_refused() -> None:
    """G3: an old proxy takes what follows for the next request (RFC 9112, 6.1)."""
    async with served() as (port, door):
        kind = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        head = request(port, "POST /api/v1/pause", TOKEN, kind).replace(b"HTTP/1.1", b"HTTP/1.0")
        heard = await say(port, head + b'10\r\n{"workflow":"w"}\r\n0\r\n\r\n')
        assert heard.startswith(b"HTTP/1.1 400")
        assert door.asked == []


@pytest.mark.parametrize(
    "path", ["/%61pi/v1/workflows", "/api/v1/%77orkflows", "/api%2Fv1", "/%2e"]
)
async def test_a_letter_that_is_escaped_in_a_path_is_refused(path: str) -> None:
    """G3: a proxy that keeps `/api/` from the outside does not know `/%61pi/`."""
    async with served() as (port, door):
        heard = await say(port, request(port, f"GET {path}", TOKEN))
        assert heard.startswith(b"HTTP/1.1 400")
        assert door.asked == []


# -- Where it may be reached ------------------------------------------------------------------


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.5", "example.org", "10.0.0.1"])
def test_an_address_of_a_network_is_refused_without_tls(address: str) -> None:
    """G1: plain HTTP on a LAN is refused, with what to do."""
    with pytest.raises(ConfigError, match=r"`certificate` and `certificate_key`") as raised:
        listen(PageSettings(address=address, port=0))
    assert raised.value.code == "page_in_the_clear"


def test_an_address_of_a_network_needs_the_names_it_is_called_by() -> None:
    """G1, G2: a proxy or a certificate alone says nothing about names."""
    for more in ({"behind_proxy": "yes"}, {"certificate": "c", "certificate_key": "k"}):
        with pytest.raises(ConfigError, match="hosts"):
            listen(PageSettings(address="0.0.0.0", port=0, **more))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="Only one of"):
        listen(PageSettings(port=0, certificate="c"))


def test_an_address_of_webhooks_obeys_the_same_law() -> None:
    """G1, G8."""
    with pytest.raises(ConfigError, match="could be read on the way"):
        listen(PageSettings(port=0, hooks_address="0.0.0.0:0"))
    for wrong in ("7338", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", ":1"):
        with pytest.raises(ConfigError, match="an address and a port"):
            listen(PageSettings(port=0, hooks_address=wrong))
    both = listen(PageSettings(port=0, hooks_address="127.0.0.1:0"))
    assert both.hooks is not None
    both.close()


def test_a_port_that_is_taken_is_said_with_what_to_do() -> None:
    first = listen(PageSettings(port=0))
    port = first.page.getsockname()[1]
    with pytest.raises(ConfigError, match=f"--page-port {port + 1}`, or `port = {port + 1}`"):
        listen(PageSettings(port=port))
    assert first.url == f"http://127.0.0.1:{port}"
    first.close()


def test_a_page_whose_port_nobody_set_takes_the_next_free_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """G1: and says so; one that is set, or that others lead to, is the one that is meant."""
    first = listen(PageSettings(port=0))
    port = first.page.getsockname()[1]
    monkeypatch.setattr(page, "PORT", port)
    with caplog.at_level(logging.INFO, "duly.page"):
        second = listen(PageSettings())
    other = second.page.getsockname()[1]
    assert port < other < port + page.PORTS_TRIED_MAX
    assert f"Port {port} is taken, so the page is at port {other}." in caplog.text
    for settings in (
        PageSettings(port=port),
        PageSettings(hosts=("duly.example.org",)),
        PageSettings(hosts=("duly.example.org",), behind_proxy="yes"),
    ):
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}"):
            listen(settings)
    # A host that begins again stays where it was, also when the first port is free by then.
    first.close()
    third = listen(PageSettings(), [second.page])
    assert third.page is second.page
    third.close()


def test_an_address_that_is_none_is_not_tried_at_other_ports() -> None:
    """G1: only a port that is in use moves on."""
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1:7337"):
        listen(
            PageSettings(address="192.0.2.1", certificate="c", certificate_key="k", hosts=("x.y",))
        )


def test_a_page_is_called_by_the_name_that_was_declared() -> None:
    made = listen(PageSettings(port=0, behind_proxy="yes", hosts=("duly.example.org",)))
    assert made.url == "https://duly.example.org"
    made.close()
    if socket.has_ipv6:
        six = listen(PageSettings(address="::1", port=0))
        assert six.url == f"http://[::1]:{six.page.getsockname()[1]}"
        six.close()


async def test_tls_is_spoken_with_the_files_of_a_certificate(tmp_path: Path) -> None:
    """G1: what goes over a network cannot be read on the way."""
    certificate, key = _make_certificate(tmp_path)
    files: dict[str, Any] = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    async with served(**files) as (port, _):
        context = ssl.create_default_context(cafile=str(certificate))
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # as it is from Python 3.13 on
        heard = await say(port, request(port, "GET /healthz"), context)
        assert heard.startswith(b"HTTP/1.1 200")
        plain = await say(port, request(port, "GET /healthz"))
        assert b"200" not in plain


def _make_certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "page.pem", folder / "page.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, secret
