"""A shop on loopback that speaks HTTP and misbehaves on command.

Law 1: it serves one connection after the other. So when an answer has come, every request that was
       sent before it has been dealt with, also one whose client is dead.
Law 2: an order is a file in the folder of its space, so that the truth can be seen without asking.
Law 3: what it does wrong is decided by the test, for the next connection alone.
"""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

PAGE = 2
WAIT_S = 5.0
HEAD = "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}\r\n"


class Ask:
    """One request as it came."""

    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = first.split(" ")
        parts = urlsplit(self.target)
        self.path = parts.path
        self.query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        pairs = (line.partition(":") for line in lines if line)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        self.body = body


Manner = Callable[["Shop", socket.socket], None]


class Shop:
    """The server, in a thread of this process."""

    def __init__(self, folder: Path, *, context: ssl.SSLContext | None = None) -> None:
        self.folder = folder
        self.asks: list[Ask] = []
        self.manners: list[Manner] = []
        self.forgets_keys = False
        self.connections = 0
        self.heard = threading.Event()
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(WAIT_S)

    def next(self, *manners: Manner) -> None:
        """Say how the next connections are served."""
        self.manners += manners

    def orders(self, space: str = "a") -> list[dict[str, Any]]:
        """Look at the orders themselves."""
        found = (self.folder / space).glob("*.json")
        return [json.loads(each.read_text()) for each in sorted(found)]

    # -- In the thread ----------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.settimeout(WAIT_S)
            self.connections += 1
            manner = self.manners.pop(0) if self.manners else well
            with client, suppress(OSError):
                if self._context is None:
                    manner(self, client)
                    continue
                with self._context.wrap_socket(client, server_side=True) as secure:
                    manner(self, secure)

    def hear(self, client: socket.socket) -> Ask | None:
        """Read a whole request."""
        data = b""
        while b"\r\n\r\n" not in data:
            if not (piece := client.recv(65536)):
                return None
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            (
                int(line.partition(b":")[2])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            ),
            0,
        )
        while len(body) < length:
            if not (piece := client.recv(65536)):
                return None
            body += piece
        ask = Ask(head, body)
        self.asks.append(ask)
        self.heard.set()
        return ask

    def do(self, ask: Ask) -> tuple[int, Any, str]:
        """Do what is asked: status, answer, more headers."""
        _, space, *rest = ask.path.split("/")
        orders = self.orders(space)
        if ask.method == "POST" and rest == ["orders"]:
            return self._order(space, ask, orders)
        if ask.method == "PUT" and rest[:1] == ["orders"] and len(rest) == 2:
            known = [number for number, each in enumerate(orders) if each["key"] == rest[1]]
            made = {**json.loads(ask.body), "id": rest[1], "key": rest[1]}
            self._keep(space, known[0] if known else len(orders), made)
            return 200, made, ""
        if ask.method in ("GET", "HEAD") and rest == ["orders"]:
            return self._list(ask, orders)
        if ask.method in ("GET", "HEAD") and rest[:1] == ["by-key"]:
            found = [each for each in orders if each["key"] == rest[1]]
            return (200, found[0], "") if found else (404, {"error": "none"}, "")
        if ask.method in ("GET", "HEAD") and rest == ["text"]:
            return 200, "hello", ""
        return 404, {"error": "no such place"}, ""

    def _order(self, space: str, ask: Ask, orders: list[dict[str, Any]]) -> tuple[int, Any, str]:
        if "json" in ask.headers.get("content-type", ""):
            sent = json.loads(ask.body)
        else:
            sent = {name: values[0] for name, values in parse_qs(ask.body.decode()).items()}
        key = ask.headers.get("idempotency-key") or ask.query.get("key") or sent.get("key")
        known = [each for each in orders if key is not None and each["key"] == key]
        if known and not self.forgets_keys:
            return 201, known[0], "Idempotent-Replayed: true\r\n"
        made = {**sent, "id": len(orders) + 1, "key": key}
        self._keep(space, len(orders), made)
        return 201, made, ""

    def _keep(self, space: str, count: int, order: dict[str, Any]) -> None:
        place = self.folder / space
        place.mkdir(exist_ok=True)
        (place / f"{count + 1:04}.json").write_text(json.dumps(order))

    def _list(self, ask: Ask, orders: list[dict[str, Any]]) -> tuple[int, Any, str]:
        wanted = ask.query.get("key")
        found = [each for each in orders if wanted in (None, each["key"])]
        at = int(ask.query.get("cursor") or (int(ask.query.get("page", 1)) - 1) * PAGE)
        page, more = found[at : at + PAGE], at + PAGE < len(found)
        following = str(at + PAGE) if more else None
        link = f'Link: <{ask.path}?cursor={following}>; rel="next"\r\n' if more else ""
        return 200, {"orders": page, "next": following}, link


# -- How a connection is served -------------------------------------------------------------------


def answer(
    client: socket.socket, status: int, value: Any, more: str = "", *, with_body: bool = True
) -> None:
    """Answer with JSON, or with a text."""
    is_text = isinstance(value, str)
    body = value.encode() if is_text else json.dumps(value).encode()
    kind = "text/plain" if is_text else "application/json"
    head = HEAD.format(status=status, kind=kind, length=len(body), more=more)
    client.sendall(head.encode() + (body if with_body else b""))


def well(shop: Shop, client: socket.socket) -> None:
    """Do it and say so."""
    if (ask := shop.hear(client)) is not None:
        status, value, more = shop.do(ask)
        answer(client, status, value, more, with_body=ask.method != "HEAD")


def cut_before(shop: Shop, client: socket.socket) -> None:
    """Hang up at once."""
    _reset(client)


def cut_during(shop: Shop, client: socket.socket) -> None:
    """Hang up in the middle of the request."""
    client.recv(10)
    _reset(client)


def cut_after(shop: Shop, client: socket.socket) -> None:
    """Hear the request, do nothing and hang up."""
    shop.hear(client)


def lost(shop: Shop, client: socket.socket) -> None:
    """Do it, and hang up without a word."""
    if (ask := shop.hear(client)) is not None:
        shop.do(ask)


def half(shop: Shop, client: socket.socket) -> None:
    """Do it, and hang up in the middle of the answer."""
    if (ask := shop.hear(client)) is not None:
        shop.do(ask)
        client.sendall(b'HTTP/1.1 201 X\r\nContent-Length: 100\r\n\r\n{"id": 1')


def late(shop: Shop, client: socket.socket) -> None:
    """Do it, and never answer; the client hangs up."""
    if (ask := shop.hear(client)) is not None:
        shop.do(ask)
        client.recv(1)


def drip(shop: Shop, client: socket.socket) -> None:
    """Do it, and answer a byte at a time for ever."""
    if (ask := shop.hear(client)) is not None:
        shop.do(ask)
        client.sendall(b"HTTP/1.1 201 X\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(1000):
            client.sendall(b" ")
            threading.Event().wait(0.02)


def status(code: int, more: str = "", *, is_done: bool = False, value: Any = None) -> Manner:
    """Answer with a status; nothing is done unless said so."""

    def serve(shop: Shop, client: socket.socket) -> None:
        ask = shop.hear(client)
        if ask is not None and is_done:
            shop.do(ask)
        answer(client, code, {"error": "no"} if value is None else value, more)

    return serve


def raw(*pieces: bytes, is_done: bool = True) -> Manner:
    """Do it, and answer with these bytes."""

    def serve(shop: Shop, client: socket.socket) -> None:
        ask = shop.hear(client)
        if ask is not None and is_done:
            shop.do(ask)
        for each in pieces:
            client.sendall(each)

    return serve


def packed(body: bytes, kind: str = "application/json") -> bytes:
    """Spell an answer that is packed with gzip."""
    data = gzip.compress(body)
    head = HEAD.format(status=200, kind=kind, length=len(data), more="Content-Encoding: gzip\r\n")
    return head.encode() + data


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
