"""The page on which a visitor kills the programs of a demo and cuts their network.

Law 1  It is behind the same guard as every page: loopback, the exact `Host`, no other origin (G2,
       G7). There is no host behind it: the guard's door leads nowhere.
Law 2  A button is a form with a token that only the page knows. Nothing changes by looking.
Law 3  It works without JavaScript: then it loads itself again every two seconds (G14).
"""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from duly.api.clock import Env
from duly.api.registry import Registry, Scope
from duly.api.session import RunningHost, Session
from duly.api.value import Json
from duly.errors import NotFound, RequestRefused
from duly.faces.demo.network import HOST
from duly.faces.demo.program import read_text
from duly.faces.demo.trial import Tally, Trial
from duly.faces.web.guard import OPEN, Endpoint, Entry, Guard, Place
from duly.faces.web.look import Sheet, refuse, show, write_page
from duly.faces.web.page import list_static, make_static
from duly.faces.web.server import LimitedServer, make_server
from duly.faces.web.sign import SEE_OTHER, read_form
from duly.faces.web.stream import Stream, wants_stream

TOKEN_BYTES: Final = 16
PAUSE_S: Final = 0.5  # between two looks of a stream
PRESSES_SHOWN: Final = 8
VIEWERS_MAX: Final = 12
PRESSES_MAX: Final = 1000


class PressKind(StrEnum):
    """What a button does."""

    KILL = "kill"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Press:
    """A button that was pressed: when, and what it did to whom."""

    kind: PressKind
    at: int
    what: tuple[str, ...]


class Desk(Protocol):
    """What the page shows, and what its buttons do."""

    invoices: int
    presses: list[Press]

    def see(self) -> None:
        """Hear that a person looks at the page."""

    def tallies(self) -> Sequence[tuple[Trial, Tally]]:
        """Count each trial."""

    def kill(self) -> None:
        """Kill each program, then start each again."""

    def cut(self) -> None:
        """Cut the network of each program for some seconds."""


class _Nowhere:
    """The door of a page without a host (law 1)."""

    verbs = Registry()

    def signed(self, by: str, scope: Scope) -> Session:
        return _Nobody()


class _Nobody:
    host: RunningHost | None = None

    async def call(self, verb: str, /, **args: Json) -> Json:
        raise NotFound(code="no_page", subject=verb)

    def follow(self, verb: str, /, **args: Json) -> AsyncIterator[Json]:
        raise NotFound(code="no_page", subject=verb)


@dataclass(slots=True)
class LivePage:
    """The page and its buttons."""

    desk: Desk
    env: Env
    token: str
    viewers: int = 0
    is_over: bool = False

    def list_entries(self) -> Iterator[Entry]:
        """Make the entries of the page."""
        yield from list_static()
        yield make_static("demo.css", "text/css")
        yield Entry("/", self.home, {"GET": OPEN})
        yield Entry("/script/{name}", self.script, {"GET": OPEN})
        yield Entry("/kill", self._button(PressKind.KILL), {"POST": OPEN}, is_form=True)
        yield Entry("/cut", self._button(PressKind.CUT), {"POST": OPEN}, is_form=True)

    async def home(self, request: Request) -> Response:
        """Show the counters, live."""
        self.desk.see()
        if not wants_stream(request):
            return await show(request, self._sheet(), is_live=True)
        if self.viewers >= VIEWERS_MAX:
            facts = {"limit": VIEWERS_MAX, "unit": "streams"}
            raise RequestRefused(code="too_many", subject="stream", facts=facts)
        self.viewers += 1
        return Stream(self._follow(request), self._leave)

    def _leave(self) -> None:
        self.viewers -= 1

    async def _follow(self, request: Request) -> AsyncIterator[bytes]:
        seen = ""
        while not self.is_over:
            text = await write_page(request, self._sheet(), is_live=True, is_part=True)
            if text != seen:
                seen = text
                yield f"event: page\ndata: {json.dumps(text)}\n\n".encode()
            await self.env.sleep(PAUSE_S)

    def _sheet(self) -> Sheet:
        trials = [
            {"name": each.name, "says": each.says, "source": each.source, **asdict(tally)}
            for each, tally in self.desk.tallies()
        ]
        pressed = [
            {"kind": each.kind, "at": _moment(each.at), "what": each.what}
            for each in reversed(self.desk.presses[-PRESSES_SHOWN:])
        ]
        facts = {"trials": trials, "presses": pressed, "invoices": self.desk.invoices}
        return Sheet("demo.html", {**facts, "token": self.token})

    async def script(self, request: Request) -> Response:
        """Show the script that a program runs."""
        name = request.path_params["name"]
        if name not in {each.source for each, _ in self.desk.tallies()}:
            raise NotFound(code="no_page", subject=name)
        return PlainTextResponse(read_text(name))

    def _button(self, kind: PressKind) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            form = await read_form(request)
            if not hmac.compare_digest(form.get("token", "").encode(), self.token.encode()):
                raise RequestRefused(code="cross_origin")
            if len(self.desk.presses) >= PRESSES_MAX:
                facts = {"limit": PRESSES_MAX, "unit": "presses"}
                raise RequestRefused(code="too_many", subject="demo", facts=facts)
            (self.desk.kill if kind is PressKind.KILL else self.desk.cut)()
            return RedirectResponse("/", SEE_OTHER)

        return endpoint


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat()


class _Server(LimitedServer):
    """A server that leaves signals to the demo."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def showing(desk: Desk, env: Env) -> AsyncIterator[str]:
    """Serve the page on loopback until the block ends; return its address."""
    page = LivePage(desk, env, env.random_bytes(TOKEN_BYTES).hex())
    guard = Guard(_Nowhere(), page.list_entries(), Place(), refuse)
    server = _Server(make_server(guard).config)
    listening = socket.socket()
    listening.bind((HOST, 0))
    listening.listen()  # a visitor who comes before the server is ready waits for it
    port = listening.getsockname()[1]
    serving = env.spawn(server.serve([listening]), "serve the page")
    try:
        yield f"http://{HOST}:{port}/"
    finally:
        page.is_over = True
        server.should_exit = True
        await asyncio.wait([serving])
