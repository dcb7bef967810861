"""A way for the conformance suite, which speaks HTTP alone, to a server on standard input.

Law 1: a session is one process; its lines go through as they are. A POST with a request is answered
       by the stream of all lines up to its answer; any other POST with 202.
Law 2: it is no part of Duly: what it says itself (the session, 405 for GET) proves nothing.
"""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from typing import Any, Final
from uuid import uuid4

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

SESSION: Final = "mcp-session-id"
LINE_BYTES_MAX: Final = 4 * 1024 * 1024


class Bridge:
    """Starts a server for each session, and carries its lines."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self._started: dict[str, Process] = {}

    def app(self) -> Starlette:
        """Make what is served at `/mcp`."""
        return Starlette(routes=[Route("/mcp", self._post, methods=["POST"])])

    async def close(self) -> None:
        """End what was started."""
        for each in self._started.values():
            assert each.stdin is not None
            each.stdin.close()
            await each.wait()

    async def _post(self, request: Request) -> Response:
        said = await request.json()
        name = request.headers.get(SESSION)
        if name is None:
            name = uuid4().hex
            self._started[name] = await asyncio.create_subprocess_exec(
                *self._words, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES_MAX
            )
        process = self._started[name]
        assert process.stdin is not None
        process.stdin.write(json.dumps(said).encode() + b"\n")
        await process.stdin.drain()
        if "id" not in said or "method" not in said:
            return Response(status_code=202)
        return StreamingResponse(
            _lines(process, said["id"]), headers={SESSION: name}, media_type="text/event-stream"
        )


async def _lines(process: Process, number: Any) -> AsyncIterator[bytes]:
    assert process.stdout is not None
    async for line in process.stdout:
        yield b"event: message\ndata: " + line.rstrip() + b"\n\n"
        said = json.loads(line)
        if said.get("id") == number and "method" not in said:
            return
