"""uvicorn with the limits it does not have: how long a client may take for the head of a request.

Law: a client that sends slowly, or nothing, holds a connection for seconds and no request at all;
one that sends too much is hung up on (G10).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from duly.faces.web.guard import HEAD_BYTES_MAX, Guard

HEAD_S_MAX: Final = 10.0
IDLE_S_MAX: Final = 15.0
CONNECTIONS_MAX: Final = 100
STOP_S_MAX: Final = 3


class LimitedProtocol(H11Protocol):
    """One connection, which must say what it wants within a few seconds."""

    head_s = HEAD_S_MAX
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to count the time."""
        super().connection_made(transport)
        self._late = self.loop.call_later(self.head_s, self._hang_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count no longer."""
        if self._late is not None:
            self._late.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Begin to count again: the next head may not take longer than the first."""
        super().on_response_complete()
        if self._late is not None:
            self._late.cancel()
        self._late = self.loop.call_later(self.head_s + IDLE_S_MAX, self._hang_up)

    def _hang_up(self) -> None:
        cycle: Any = self.cycle  # none before the first request
        is_busy = cycle is not None and not cycle.response_complete
        if not is_busy and not self.transport.is_closing():
            self.transport.abort()


def make_server(app: Guard, **tls: Any) -> uvicorn.Server:
    """Make a server that speaks HTTP/1.1 and nothing else."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=int(IDLE_S_MAX),
        timeout_graceful_shutdown=STOP_S_MAX,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        **tls,
    )
    return uvicorn.Server(config)
