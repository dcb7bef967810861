"""uvicorn with the limits it does not have: how long a client may hold a connection, and how many.

Law 1  A client that sends slowly, reads slowly, or does neither, holds a connection for seconds and
       no request at all; one that sends too much is hung up on (G10).
Law 2  Where connections are short, one that asks for nothing gives way to the next client: the
       oldest one, of the address that holds the most of them. If each asks for something, one
       whose body has not come yet gives way; a request that came whole never does.
Law 3  What a proxy before us could read in another way is refused before it is read.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import count
from typing import Any, Final, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from duly.faces.web.guard import HEAD_BYTES_MAX, Guard

HEAD_S_MAX: Final = 10.0
IDLE_S_MAX: Final = 15.0
UNREAD_S_MAX: Final = 30.0  # how long a client may leave unread what was sent to it
HANDSHAKE_S_MAX: Final = 5.0
CONNECTIONS_MAX: Final = 100
STOP_S_MAX: Final = 3
NUMBERS: Final = count()  # of connections, in the order in which they came


class LimitedProtocol(H11Protocol):
    """One connection, which must say what it wants and take its answer within seconds."""

    head_s = HEAD_S_MAX
    unread_s = UNREAD_S_MAX
    connections_max = CONNECTIONS_MAX
    number = 0  # the smaller, the older
    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to count the time, and make place if there is none."""
        super().connection_made(transport)
        self.number = next(NUMBERS)
        self._late = self.loop.call_later(self.head_s, self._hang_up)
        self._make_place()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count no longer."""
        self._stop_counting()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Begin to count again: the next head may not take longer than the first."""
        super().on_response_complete()
        if self._late is not None:
            self._late.cancel()
        self._late = self.loop.call_later(self.head_s + IDLE_S_MAX, self._hang_up)

    def pause_writing(self) -> None:
        """Begin to count how long the client leaves its answer unread."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.unread_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Count no longer: the client reads."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    @property
    def is_busy(self) -> bool:
        """Tell whether a request is under way."""
        cycle: Any = self.cycle  # none before the first request
        return cycle is not None and not cycle.response_complete

    @property
    def is_begun(self) -> bool:
        """Tell whether a request is under way whose body has not come yet."""
        return self.is_busy and self.conn.their_state is h11.SEND_BODY

    def _hang_up(self) -> None:
        # A transport that is closing waits for its client to read, and may wait for ever.
        if not self.is_busy:
            self.transport.abort()

    def _stop_counting(self) -> None:
        for each in (self._late, self._unread):
            if each is not None:
                each.cancel()

    def _make_place(self) -> None:
        """Hang up on a connection that asks for nothing yet, if there are too many (law 2)."""
        if len(self.connections) <= self.connections_max:
            return
        others = cast("Iterable[LimitedProtocol]", self.connections - {self})
        found = [each for each in others if not each.is_busy or each.is_begun]
        quiet = [each for each in found if not each.is_busy] or found
        if quiet:  # else uvicorn refuses the request with a 503
            held = Counter(each.address for each in quiet)
            chosen = min(quiet, key=lambda each: (-held[each.address], each.number))
            self.connections.discard(chosen)  # at once: its loss is heard of later
            chosen.transport.abort()

    @property
    def address(self) -> str:
        """Where the client is."""
        return self.client[0] if self.client else ""


class LimitedServer(uvicorn.Server):
    """A server whose clients have seconds for their handshake, where uvicorn gives a minute."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen at sockets that are open already."""
        assert sockets is not None
        protocol = cast("type[LimitedProtocol]", self.config.http_protocol_class)
        make = partial(protocol, self.config, self.server_state, app_state={})
        tls = self.config.ssl
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(
                make,
                sock=each,
                ssl=tls,
                backlog=self.config.backlog,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_S_MAX,
            )
            for each in sockets
        ]
        self.started = True


def make_server(app: Guard, **tls: Any) -> uvicorn.Server:
    """Make a server that speaks HTTP/1.1 and nothing else."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        log_level="error",  # a line for each odd request would let a stranger fill the log
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX + 1,
        timeout_keep_alive=int(IDLE_S_MAX),
        timeout_graceful_shutdown=STOP_S_MAX,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        **tls,
    )
    return LimitedServer(config)
