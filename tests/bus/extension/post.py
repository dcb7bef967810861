"""A server on loopback that takes what is posted to it, and answers as badly as a test wants.

async with open_post("HTTP/1.1 204 No Content\\r\\n\\r\\n") as post:
    await WebhookChannel(post.url).send("Hello")
assert post.requests[0].body == {"text": "Hello"}
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SECRET_PATH = "/hooks/t0p-secret-path"


def status(line: str, *headers: str) -> str:
    """Write an answer without a body."""
    return "\r\n".join([f"HTTP/1.1 {line}", "Content-Length: 0", *headers, "", ""])


@dataclass(frozen=True)
class Request:
    """What arrived."""

    line: str
    headers: dict[str, str]
    body: Any


@dataclass
class Post:
    """The server: what it answers, and what arrived; `None` answers nothing and waits.

    With `pause_s` it answers one line at a time, and rests after each.
    """

    answer: str | None
    pause_s: float = 0
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    serving: list[asyncio.Task[None]] = field(default_factory=list)

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a caller, until the test is over."""
        self.serving.append(asyncio.ensure_future(self.serve(reader, writer)))

    @property
    def url(self) -> str:
        """Where it stands; the path is as good as a password."""
        return f"http://127.0.0.1:{self.port}{SECRET_PATH}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and answer it."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            length = next(int(headers[key]) for key in headers if key.lower() == "content-length")
            body = await reader.readexactly(length)
            self.requests.append(Request(head[0], headers, json.loads(body)))
            await self.reply(reader, writer)
        finally:
            writer.close()

    async def reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer as this server answers."""
        if self.answer is None:
            await reader.read()  # until the other side gives up
            return
        for line in self.answer.splitlines(keepends=True):
            writer.write(line.encode())
            if self.pause_s:
                await asyncio.sleep(self.pause_s)


@asynccontextmanager
async def open_post(
    answer: str | None = OK, *, pause_s: float = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Post]:
    """Serve on a free port of loopback."""
    post = Post(answer, pause_s)
    server = await asyncio.start_server(post.take, "127.0.0.1", 0, ssl=tls)
    post.port = server.sockets[0].getsockname()[1]
    async with server:
        yield post
    for each in post.serving:
        each.cancel()
    await asyncio.gather(*post.serving, return_exceptions=True)


def self_signed(folder: Path) -> ssl.SSLContext:
    """Make a certificate for loopback that nobody signed but itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "post.pem").write_bytes(
        certificate.public_bytes(pem) + key.private_bytes(pem, *plain)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "post.pem")
    return context
