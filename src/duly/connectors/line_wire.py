"""A connection that speaks in lines, with TLS: what IMAP and SMTP have in common (K2, K3, K6).

Law 1: it goes to an address that was judged, and the server proves its name by its certificate.
       Without TLS it goes only to a host that the settings allow by name.
Law 2: what a server sends is limited, in each line and in all.
Law 3: what was said before TLS began counts for nothing afterwards: such bytes end the connection.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias

from duly.connectors.reach import CONNECT_S, Resolve, find_addresses, left_s
from duly.connectors.response import BrokenExchange

Tls: TypeAlias = Literal["direct", "starttls", "off"]

LINE_BYTES_MAX: Final = 64 * 1024
LINES_BYTES_MAX: Final = 4 * 1024 * 1024  # what is read of them takes thirty times the memory
ALL_BYTES_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LineServer:
    """Where a server is, and how it is spoken to."""

    host: str
    port: int
    tls: Tls
    allow: frozenset[str] = frozenset()

    @property
    def shown(self) -> str:
        """The server for people."""
        return f"{self.host}:{self.port}"


class LineWire:
    """One connection, for one call."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: LineServer
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._server = server
        self._got_bytes = self._lines_bytes = 0

    @classmethod
    async def open(
        cls, server: LineServer, context: ssl.SSLContext, resolve: Resolve | None = None
    ) -> Self:
        """Connect to one of the addresses of a server; nothing was said when this returns."""
        addresses = await find_addresses(
            server.host, server.port, allow=server.allow, resolve=resolve
        )
        secure = {"ssl": context, "server_hostname": server.host} if server.tls == "direct" else {}
        problem: OSError | BrokenExchange | None = None
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_S):
                    reader, writer = await asyncio.open_connection(
                        str(address),
                        server.port,
                        limit=LINE_BYTES_MAX,
                        **secure,  # type: ignore[arg-type]
                    )
                return cls(reader, writer, server)
            except TimeoutError:
                problem = problem or BrokenExchange(f"no connection within {CONNECT_S:g} s")
            except OSError as error:
                problem = problem or error
        assert problem is not None
        raise problem

    async def read_line(self) -> bytes:
        """Read a line, without its end."""
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            raise BrokenExchange(f"it sent a line of more than {LINE_BYTES_MAX} bytes") from None
        except asyncio.IncompleteReadError:
            raise BrokenExchange("it closed the connection") from None
        self._count(len(line))
        self._lines_bytes += len(line)
        if self._lines_bytes > LINES_BYTES_MAX:
            raise BrokenExchange(f"it sent lines of more than {LINES_BYTES_MAX:,} bytes")
        return line.rstrip(b"\r\n")

    async def read_exactly(self, count: int) -> bytes:
        """Read so many bytes."""
        self._count(count)
        try:
            return await self._reader.readexactly(count)
        except asyncio.IncompleteReadError:
            raise BrokenExchange("it closed the connection") from None

    async def send(self, data: bytes) -> None:
        """Send bytes, unless the time of the call is over (L7)."""
        if left_s() <= 0:
            raise BrokenExchange("the time of the call was over")
        self._writer.write(data)
        await self._writer.drain()

    @property
    def is_ahead(self) -> bool:
        """Tell whether the server has said something that was not read yet."""
        return bool(getattr(self._reader, "_buffer", b""))

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Go on in TLS; what the server said ahead of it ends the connection (law 3)."""
        if self.is_ahead:
            raise BrokenExchange("it said something before TLS began")
        await self._writer.start_tls(context, server_hostname=self._server.host)

    def abort(self) -> None:
        """End the connection at once: what is not written yet must not leave any more (L7)."""
        self._writer.transport.abort()

    def _count(self, count: int) -> None:
        self._got_bytes += count
        if self._got_bytes > ALL_BYTES_MAX:
            raise BrokenExchange(f"it sent more than {ALL_BYTES_MAX:,} bytes")
