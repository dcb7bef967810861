"""The network of a demo: what a program and a server say to each other passes here, and can be cut.

Law 1  Each byte takes a moment on its way, as on a real network, in both directions.
Law 2  A cut ends every connection at once, in the middle of a word if need be. What the server was
       told before stays told; its reply is lost. Until the cut is over no connection is made.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Self

from duly.api.clock import Env

HOST: Final = "127.0.0.1"
DELAY_S: Final = 0.01  # one way
CHUNK_BYTES: Final = 64 * 1024


@dataclass(slots=True)
class Network:
    """The way to one server, at a port of its own."""

    env: Env
    server_port: int
    _is_cut: bool = False
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _talks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._welcome, HOST, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    @property
    def port(self) -> int:
        """Where programs find the server."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """End every connection, and make none from now on."""
        self._is_cut = True
        for each in self._open:
            each.transport.abort()

    def mend(self) -> None:
        """Let connections be made again."""
        self._is_cut = False

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._join(reader, writer))
        self._talks.add(task)
        task.add_done_callback(self._talks.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what both sides say until one of them ends, or the network is cut."""
        self._open.add(writer)
        there: asyncio.StreamWriter | None = None
        try:
            with suppress(OSError):
                back, there = await asyncio.open_connection(HOST, self.server_port)
                self._open.add(there)
                ways = [self._pass_on(reader, there), self._pass_on(back, writer)]
                await asyncio.gather(*ways)
        finally:
            for each in (writer, there):
                if each is not None:
                    self._open.discard(each)
                    with suppress(OSError, RuntimeError):
                        each.close()

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(CHUNK_BYTES):
            await self.env.sleep(DELAY_S)
            if self._is_cut:
                return
            target.write(data)
            await target.drain()
        with suppress(OSError):
            target.write_eof()
