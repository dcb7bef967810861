"""A way to the server that a test can cut: at any moment, or when a host says COMMIT."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.postgres.server import DATABASE, ROLE

COMMIT: Final = b"commit\0"  # as it stands in a query, or in the text of a statement
CHUNK_BYTES: Final = 65_536


class Cut(StrEnum):
    """What becomes of the next COMMIT."""

    NOT_SENT = "not sent"  # the connection is cut before the server gets it
    UNHEARD = "unheard"  # the server commits, and the answer is lost


class Proxy:
    """Passes bytes between hosts and a server on loopback."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cut: Cut | None = None
        self.cuts = 0
        self._passes = threading.Event()  # while it is not set, no byte passes and no line is new
        self._passes.set()
        self._open: set[socket.socket] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def address(self, database: str = DATABASE) -> str:
        """Name a database as it is reached through here."""
        return f"postgresql://{ROLE}@127.0.0.1:{self.port}/{database}"

    def hang_up(self) -> None:
        """Cut every connection now."""
        for each in tuple(self._open):
            _end(each)
        self._open.clear()

    def turn(self, server: Path) -> None:
        """Lead new connections to another server."""
        self._server = server
        self.hang_up()

    def silence(self) -> None:
        """Let no byte pass, in either direction, and no connection end."""
        self._passes.clear()

    def speak(self) -> None:
        """Let everything pass again."""
        self._passes.set()

    def close(self) -> None:
        """End everything."""
        self.speak()
        _end(self._listener)
        self.hang_up()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._passes.wait()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(str(self._server / ".s.PGSQL.5432"))
                except OSError:  # the server is down
                    _end(server)
                    _end(client)
                    continue
                self._open |= {client, server}
                for work in (self._to_server, self._to_client):
                    threading.Thread(target=work, args=(client, server), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while chunk := client.recv(CHUNK_BYTES):
                self._passes.wait()
                if self.cut is not None and COMMIT in chunk.lower():
                    cut, self.cut = self.cut, None
                    self.cuts += 1
                    if cut is Cut.UNHEARD:
                        _end(client)  # first, so that no answer can pass
                        server.sendall(chunk)
                        while server.recv(CHUNK_BYTES):
                            break
                    break
                server.sendall(chunk)
        _end(client)
        _end(server)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while chunk := server.recv(CHUNK_BYTES):
                self._passes.wait()
                client.sendall(chunk)
        _end(client)


def _end(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()


@contextmanager
def proxied(server: Path) -> Iterator[Proxy]:
    """Pass everything on for as long as the block lasts."""
    proxy = Proxy(server)
    try:
        yield proxy
    finally:
        proxy.close()
