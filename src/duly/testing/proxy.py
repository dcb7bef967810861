"""A way to a server on which a connection breaks as planned: the network of an exam.

Law 1: a plan is for one connection alone; every other one is passed on as it is.
Law 2: when a planned connection has ended, the server has ended its part too, so that what it did
       can be counted. A server that takes longer than two seconds for that is not waited for.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

ServerAt: TypeAlias = "tuple[str, int] | Path"

CHUNK_BYTES: Final = 65_536
WRONG_HOST: Final = "127.0.0.2"  # of loopback too, and of no server
END_S: Final = 2.0
KEPT_BYTES_MAX: Final = 256 * 1024  # of an answer, so much can be looked at
DRIP_S: Final = 0.05
PAUSE_S: Final = 0.02  # between two looks whether a server has answered
NO_LINGER: Final = struct.pack("ii", 1, 0)  # a reset at once, no farewell


@dataclass(frozen=True, slots=True)
class NetworkFault:
    """What happens to one connection.

    `sent_bytes` is how much of what the client says reaches the server, `heard_bytes` how much of
    what the server says comes back; None is all of it. Then the connection is reset, or, if it
    `hangs`, left open in silence. `reply` is said in place of the server's own words, `drips` lets
    them through a byte at a time. `repeats`: the server gets what the client says a second time,
    over another connection, and the client gets the second answer alone. `elsewhere` is another
    server, to which this connection goes.
    """

    name: str
    sent_bytes: int | None = None
    heard_bytes: int | None = None
    reply: bytes | None = None
    hangs: bool = False
    drips: bool = False
    repeats: bool = False
    elsewhere: ServerAt | None = None


@dataclass(slots=True)
class Passed:
    """How many bytes went either way over one connection.

    `heard_before_bytes` is how many had come back when the client spoke for the last time.
    """

    sent_bytes: int = 0
    heard_bytes: int = 0
    heard_before_bytes: int = 0
    heard: bytearray = field(default_factory=bytearray)  # the first of what came back


class FaultProxy:
    """Listens on loopback, and passes connections on to a server."""

    def __init__(self, server: ServerAt) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.fault: NetworkFault | None = None
        self._skips = 0  # connections that pass before the planned one
        self.passed = Passed()  # of the last connection
        self.history: list[Passed] = []  # of all connections to the server, in their order
        self._ended = threading.Event()
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _end(self._listener)
        for each in tuple(self._open):
            _end(each)

    def plan(self, fault: NetworkFault, *, skips: int = 0) -> None:
        """Say what happens to the next connection, or to one after so many others."""
        self._ended.clear()
        self.fault, self._skips = fault, skips

    def wait_until_ended(self) -> None:
        """Wait until the server has ended its part of the planned connection."""
        self._ended.wait(END_S)

    def cut(self) -> None:
        """End every connection that is open."""
        for each in tuple(self._open):
            _reset(each)

    # -- In threads -------------------------------------------------------------------------------

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                fault = None
                if self._skips > 0:
                    self._skips -= 1
                else:
                    fault, self.fault = self.fault, None
                work = threading.Thread(target=self._carry, args=(client, fault), daemon=True)
                work.start()

    def _carry(self, client: socket.socket, fault: NetworkFault | None) -> None:
        fault = fault or NetworkFault("none")
        if fault.sent_bytes == 0:
            _reset(client)
            self._ended.set()
            return
        try:
            server = _connect(fault.elsewhere or self._server)
        except OSError:
            _reset(client)
            return
        passed = self.passed = Passed()
        self.history.append(passed)
        self._open |= {client, server}
        if fault.repeats:
            server = self._repeat(client, server, passed)
        back = threading.Thread(
            target=self._to_client, args=(server, client, fault, passed), daemon=True
        )
        back.start()
        self._to_server(client, server, fault, passed)
        back.join(END_S)
        _end(server)
        self._open -= {client, server}
        self._ended.set()

    def _repeat(
        self, client: socket.socket, server: socket.socket, passed: Passed
    ) -> socket.socket:
        """Let a server answer a request, and give the same request to it again.

        Return the second connection: what is said over it is the answer.
        """
        said = bytearray()
        hear = threading.Thread(target=_drain, args=(server,), daemon=True)
        hear.start()
        with suppress(OSError):
            client.settimeout(PAUSE_S)
            while hear.is_alive():
                with suppress(TimeoutError):
                    chunk = client.recv(CHUNK_BYTES)
                    said += chunk
                    server.sendall(chunk)
                    if not chunk:
                        break
        _end(server)
        client.settimeout(None)
        again = _connect(self._server)
        again.sendall(said)
        passed.sent_bytes += len(said)
        self._open = (self._open - {server}) | {again}
        return again

    def _to_server(
        self, client: socket.socket, server: socket.socket, fault: NetworkFault, passed: Passed
    ) -> None:
        with suppress(OSError):
            while chunk := client.recv(CHUNK_BYTES):
                passed.heard_before_bytes = passed.heard_bytes
                left = None if fault.sent_bytes is None else fault.sent_bytes - passed.sent_bytes
                if left is not None and len(chunk) >= left:
                    if fault.reply is not None:
                        _answer(client, fault.reply)
                    server.sendall(chunk[:left])
                    passed.sent_bytes += left
                    if fault.hangs:
                        _drain(client)
                    else:
                        _reset(client)
                    break
                server.sendall(chunk)
                passed.sent_bytes += len(chunk)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _to_client(
        self, server: socket.socket, client: socket.socket, fault: NetworkFault, passed: Passed
    ) -> None:
        with suppress(OSError):
            while chunk := server.recv(CHUNK_BYTES):
                if fault.reply is not None:
                    reply, fault = fault.reply, NetworkFault(fault.name, heard_bytes=0)
                    client.sendall(reply)
                left = None if fault.heard_bytes is None else fault.heard_bytes - passed.heard_bytes
                if left is not None and len(chunk) >= left:
                    _say(client, chunk[:left], is_slow=fault.drips)
                    passed.heard_bytes += left
                    if fault.hangs:
                        _drain(client)
                    else:
                        _reset(client)
                    _drain(server)
                    return
                # Counted before it is said: the client may speak again at once.
                passed.heard_bytes += len(chunk)
                passed.heard += chunk[: max(0, KEPT_BYTES_MAX - len(passed.heard))]
                _say(client, chunk, is_slow=fault.drips)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)


class WrongAddress:
    """A port of another address of this machine: connections to it are counted, and reset."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server((WRONG_HOST, port))
        self.connections = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _end(self._listener)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1  # before the reset, so that a call that ended was counted
                _reset(client)


def _connect(server: ServerAt) -> socket.socket:
    if isinstance(server, tuple):
        return socket.create_connection(server, timeout=END_S * 5)
    found = socket.socket(socket.AF_UNIX)
    found.connect(str(server))
    return found


def _say(client: socket.socket, data: bytes, *, is_slow: bool) -> None:
    if not is_slow:
        client.sendall(data)
        return
    for number in range(len(data)):
        client.sendall(data[number : number + 1])
        threading.Event().wait(DRIP_S)


def _answer(client: socket.socket, reply: bytes) -> None:
    """Answer in place of the server, and wait until the client has read it and hung up."""
    client.sendall(reply)
    client.shutdown(socket.SHUT_WR)
    _drain(client)


def _drain(side: socket.socket) -> None:
    """Read what comes until the other side ends the connection."""
    with suppress(OSError):
        while side.recv(CHUNK_BYTES):
            pass


def _reset(side: socket.socket) -> None:
    with suppress(OSError):
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    _end(side)


def _end(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()
