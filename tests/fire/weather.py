"""A network that cuts connections at random, each way, and lets the rest pass.

Law 1: a connection is cut at the client when the server has ended its part: what was done is done
       before the client can ask.
Law 2: the dice decide how much of a connection passes; calm weather lets all of it pass.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress
from typing import Final, Self

HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 65_536
CUT_BYTES_MAX: Final = {"sent": 2_500, "heard": 6_000}  # about as many as an exchange has
ODDS: Final = {"none": 70, "before": 5, "sent": 15, "heard": 10}
END_S: Final = 5.0  # how long a server may take to end its part
NO_LINGER: Final = struct.pack("ii", 1, 0)


class Weather:
    """Listens before one server."""

    def __init__(self, port: int, seed: str) -> None:
        self._server = port
        self._dice = random.Random(seed)
        self._door = threading.Lock()
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self.open = self.calls = 0
        self.cuts: Counter[str] = Counter()
        self.is_calm = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _draw(self) -> tuple[str, int]:
        if self.is_calm:
            return "none", 0
        kind = self._dice.choices(list(ODDS), list(ODDS.values()))[0]
        return kind, self._dice.randrange(CUT_BYTES_MAX.get(kind, 1))

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._door:
                    self.open += 1
                    self.calls += 1
                kind, cut = self._draw()
                threading.Thread(target=self._carry, args=(client, kind, cut), daemon=True).start()

    def _carry(self, client: socket.socket, kind: str, cut: int) -> None:
        try:
            if kind == "before":
                self.cuts[kind] += 1
                _reset(client)
                return
            with socket.create_connection((HOST, self._server)) as server:
                # Each way has so many bytes; one that used them up says nothing more.
                to_client = threading.Thread(
                    target=self._pass,
                    args=(server, client, cut if kind == "heard" else None, kind),
                    daemon=True,
                )
                to_client.start()
                self._pass(client, server, cut if kind == "sent" else None, kind)
                # The client has ended, or what it says is cut off: now the server ends its part.
                with suppress(OSError):
                    server.shutdown(socket.SHUT_WR)
                to_client.join(END_S)
                with suppress(OSError):  # it was told less than a greeting, and waits for the rest
                    server.shutdown(socket.SHUT_RDWR)
                to_client.join()
            _reset(client)
        except OSError:
            _reset(client)
        finally:
            with self._door:
                self.open -= 1

    def _pass(
        self, source: socket.socket, target: socket.socket, left: int | None, kind: str
    ) -> None:
        """Pass bytes on until the source ends, or so many are used up."""
        with suppress(OSError):
            while chunk := source.recv(CHUNK_BYTES):
                if left is not None and len(chunk) > left:
                    self.cuts[kind] += 1
                    if kind == "sent":
                        return  # what is left of it never arrives
                    _drain_and_end(source, target)
                    return
                if left is not None:
                    left -= len(chunk)
                target.sendall(chunk)


def _drain_and_end(server: socket.socket, client: socket.socket) -> None:
    """Keep all that the server says from here on: it ends first, and then the client is told."""
    with suppress(OSError):
        server.shutdown(socket.SHUT_WR)
    with suppress(OSError):
        while server.recv(CHUNK_BYTES):
            pass
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


def _reset(side: socket.socket) -> None:
    with suppress(OSError):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    side.close()
