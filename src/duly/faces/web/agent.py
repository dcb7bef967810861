"""`/mcp`: the MCP server on the page, for a bearer token (M5, G3, G10).

Law 1  The guard decides who may, at every request; there is no session. A token that is revoked
       while a call of it waits, for its turn or for an answer, ends that call.
Law 2  A body is judged as every other one: type, size, time, depth, keys that stand twice.
Law 3  An answer is one JSON message; only a call that asks for progress is answered with a stream.
Law 4  The SDK is imported with the first request; without the extra there is no route.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Send
from starlette.types import Scope as Connection

from duly.api.door import Door
from duly.api.registry import Scope
from duly.api.session import RunningHost
from duly.api.value import Json
from duly.errors import DulyError, RequestRefused
from duly.faces.web.body import BODY_BYTES_MAX, JSON, read_body, read_object, refuse_query
from duly.faces.web.guard import Entry, Visit, visit_of

PATH: Final = "/mcp"
LOOK_S: Final = 1.0  # how often to look whether a waiting call still has a client and a token
SDK: Final = "mcp"
STREAM: Final = "text/event-stream"


def list_entries(door: Door) -> Iterator[Entry]:
    """Make the entry of the MCP server, where the SDK is installed."""
    if find_spec(SDK) is not None:
        yield Entry(PATH, Agents(door).endpoint, {"POST": Scope.READ})


class Agents:
    """Serves the agents of a page."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._server: Any = None
        self._managers: dict[bool, Any] = {}  # of the SDK; one of them answers with streams
        self._living: list[asyncio.Task[None]] = []
        self._starting = asyncio.Lock()

    async def endpoint(self, request: Request) -> Response:
        """Judge a request, and hand it to the SDK."""
        visit = visit_of(request)
        if visit.caller is None or visit.caller.is_browser:
            raise RequestRefused(code="not_signed_in")
        refuse_query(request)
        body = await read_body(request, JSON)
        is_stream = asks_progress(read_object(body), request.headers.get("accept", ""))
        return _Handed(await self._start(is_stream=is_stream), body)

    async def _start(self, *, is_stream: bool) -> Any:
        """Start a manager of the SDK with the first request; it lives as long as the page."""
        async with self._starting:
            if is_stream not in self._managers:
                from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

                from duly.faces.mcp.server import AgentServer
                from duly.faces.mcp.tool import Tools

                if self._server is None:  # its limits hold for both
                    self._server = AgentServer(Tools(self._door.verbs), _caller_of).build()
                manager = StreamableHTTPSessionManager(
                    app=self._server,
                    json_response=not is_stream,
                    stateless=True,
                    max_request_body_size=BODY_BYTES_MAX,
                )
                begun = asyncio.Event()
                self._living.append(asyncio.ensure_future(_live(manager, begun)))
                await begun.wait()
                self._managers[is_stream] = manager
        return self._managers[is_stream]


def asks_progress(said: Mapping[str, Json], accept: str) -> bool:
    """Tell whether a request is a call whose client wants to hear of it before its answer."""
    params = said.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    is_asked = isinstance(meta, dict) and meta.get("progressToken") is not None
    return is_asked and said.get("method") == "tools/call" and STREAM in accept


async def _live(manager: Any, begun: asyncio.Event) -> None:
    async with manager.run():
        begun.set()
        await asyncio.Event().wait()


class _Handed(Response):
    """A response that the SDK makes."""

    def __init__(self, manager: Any, body: bytes) -> None:
        super().__init__()
        self._manager = manager
        self._given = body

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Serve the request until it is answered, or its client has gone."""
        gone = asyncio.Event()
        messages: list[Message] = [
            {"type": "http.request", "body": self._given, "more_body": False}
        ]

        async def receiving() -> Message:
            if not messages:
                await gone.wait()
                return {"type": "http.disconnect"}
            return messages.pop()

        async def look() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()

        serving = asyncio.ensure_future(self._manager.handle_request(scope, receiving, send))
        looking: asyncio.Future[None] | None = None
        try:
            await asyncio.wait((serving,), timeout=LOOK_S)
            if not serving.done():  # a call that takes its time ends when its client has gone
                looking = asyncio.ensure_future(look())
                await asyncio.wait((looking, serving), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            serving.cancel()
            if looking is not None:
                looking.cancel()
            await asyncio.wait((serving,))


@asynccontextmanager
async def _caller_of(ctx: Any) -> AsyncIterator[Any]:
    from duly.faces.mcp.server import Caller

    request: Request = ctx.request
    visit = visit_of(request)
    assert visit.caller is not None
    await visit.confirm()  # the call may have waited long for its turn
    root = str(request.scope.get("root_path", ""))
    page = f"{'https' if visit.is_secure else 'http'}://{request.headers['host']}{root}"
    yield Caller(_Confirmed(visit), visit.caller.right, page)


class _Confirmed:
    """The session of a caller that ends with their token (law 1)."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit

    @property
    def host(self) -> RunningHost | None:
        return self._visit.session.host

    async def call(self, verb: str, /, **args: Json) -> Json:
        calling = asyncio.ensure_future(self._visit.session.call(verb, **args))
        try:
            while True:
                done, _ = await asyncio.wait((calling,), timeout=LOOK_S)
                if done:
                    return calling.result()
                await self._visit.confirm()
        finally:
            if not calling.done():
                calling.cancel()
                with suppress(asyncio.CancelledError, DulyError):
                    await calling

    def follow(self, verb: str, /, **args: Json) -> AsyncIterator[Json]:
        return self._visit.session.follow(verb, **args)
