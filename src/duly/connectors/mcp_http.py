"""An MCP server at a URL: each message is one request of the web (K2, M8).

Law 1: a request is sent once over a connection of its own; nothing is retried and no stream is
       taken up again. What a server asks of its client is not answered.
Law 2: a session that the server has forgotten is begun anew for a question, never for a change.
Law 3: after a call was sent no status says that it was not done: a proxy or a liar can answer any
       of them behind the work (M8). Only a whole answer of the protocol says anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from duly.connectors.mcp_wire import (
    EventScan,
    McpReply,
    NoAnswer,
    check_hello,
    hello,
    is_change_of_list,
    read,
    reply_in,
    write,
)
from duly.connectors.response import HttpResponse
from duly.connectors.status import raise_for_read, said_by
from duly.connectors.transport import HEADER_VALUE, Credentials, HttpRequest, Transport
from duly.env import unguessable
from duly.errors import Refused, Transient, UnknownOutcome
from duly.rules.url import Url
from duly.rules.value import Json

LIST_S: Final = 20.0
GONE: Final = 404
SESSION: Final = "Mcp-Session-Id"
ACCEPTED: Final = frozenset({200, 202, 204})
ANSWERS: Final = frozenset({200, 202})  # with which the answer to a call may come


class McpSite:
    """The way to one server, with the session it gave us."""

    def __init__(
        self,
        name: str,
        url: Url,
        transport: Transport,
        credentials: Callable[[], Credentials | None],
        more: Mapping[str, str],
    ) -> None:
        self._more = more  # headers that the settings name
        self._name = name
        self._url = url
        self._transport = transport
        self._credentials = credentials
        self._headers: dict[str, str] = {}
        self.is_over = True  # there is no session yet
        self.has_other_list = False

    async def begin(self) -> None:
        """Shake hands; until that is done other calls use the session that was there."""
        reply, response = await self._question("initialize", hello(), headers={})
        version = check_hello(reply)
        headers = {"MCP-Protocol-Version": version}
        session = response.header(SESSION.lower())
        if session is not None:
            if not session or not HEADER_VALUE.fullmatch(session):
                raise NoAnswer("its session has no name that can be sent")
            headers[SESSION] = session
        await self._post(write("notifications/initialized"), headers)
        self._headers = headers
        self.is_over = False

    async def ask(self, method: str, params: Mapping[str, Json]) -> McpReply:
        """Ask something that changes nothing; with a forgotten session, in another one (law 2)."""
        try:
            return (await self._question(method, params))[0]
        except _SessionGone:
            await self.begin()
            return (await self._question(method, params))[0]

    async def send(self, method: str, params: Mapping[str, Json], *, timeout_s: float) -> McpReply:
        """Send what may change something, once, and return its answer (law 3)."""
        number = unguessable()
        scan = EventScan(number)
        request = self._request(write(method, params, number), self._headers)
        response = await self._transport.change(request, timeout_s=timeout_s, until=_quietly(scan))
        if response.status not in ANSWERS:
            # A session that is gone is begun anew for the next call.
            self.is_over = self.is_over or response.status == GONE
            raise UnknownOutcome(said_by(response, request.shown))
        return self._reply(response, number, scan)

    async def read(self, method: str, params: Mapping[str, Json], *, timeout_s: float) -> McpReply:
        """Send what only reads."""
        return (await self._question(method, params, timeout_s))[0]

    async def _question(
        self,
        method: str,
        params: Mapping[str, Json],
        timeout_s: float = LIST_S,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[McpReply, HttpResponse]:
        number = unguessable()
        scan = EventScan(number)
        known = self._headers if headers is None else headers
        request = replace(self._request(write(method, params, number), known), is_query=True)
        response = await self._transport.read(request, timeout_s=timeout_s, until=_quietly(scan))
        if response.status == GONE and SESSION in request.headers:
            self.is_over = True
            raise _SessionGone(f"{request.shown}: the server has forgotten the session.")
        if not raise_for_read(response, request.shown, self._name):
            raise Refused(f"{request.shown}: there is nothing.")
        return self._reply(response, number, scan), response

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> None:
        request = replace(self._request(body, headers), is_query=True)
        response = await self._transport.read(request, timeout_s=LIST_S)
        if response.status not in ACCEPTED:
            raise_for_read(response, request.shown, self._name)
            raise Transient(f"{request.shown}: the server answered {response.status}.")

    def _request(self, body: bytes, headers: Mapping[str, str]) -> HttpRequest:
        known = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **self._more,
            **headers,
        }
        return HttpRequest("POST", self._url, known, body, self._credentials())

    def _reply(self, response: HttpResponse, number: str, scan: EventScan) -> McpReply:
        """Return the answer in a response: the one message of it, or one of its stream."""
        kind = (response.header("content-type") or "").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            scan(bytearray(response.body))
            self.has_other_list = self.has_other_list or scan.has_other_list
            if scan.reply is None:
                raise NoAnswer("its stream ended before its answer")
            return scan.reply
        if not response.is_framed or kind != "application/json":
            raise NoAnswer("its answer is neither a message nor a stream of them")
        message = read(response.body)
        self.has_other_list = self.has_other_list or is_change_of_list(message)
        reply = reply_in(message, number)
        if reply is None:
            raise NoAnswer("its answer is to another request")
        return reply


class _SessionGone(Transient):
    """The server has forgotten the session."""


def _quietly(scan: EventScan) -> Callable[[bytearray], bool]:
    """End a stream at its answer, and at the first message that is none: it is read again later."""

    def look(body: bytearray) -> bool:
        try:
            return scan(body)
        except NoAnswer:
            return True

    return look
