"""A service on loopback that speaks HTTP and JSON, and misbehaves on command.

    class Notes(ServiceDouble):
        '''The notes of https://example.org/docs/notes.'''

        @route("POST", "/v1/notes", scopes=("notes.write",))
        def add(self, ask: ServiceAsk) -> ServiceReply:
            body = self.json_of(ask, {"text": needed(TextOf(2000))})
            ask.account["notes"].append(body)
            return ServiceReply({"id": len(ask.account["notes"])})

        def new_account(self) -> dict[str, Any]:
            return {"notes": []}

        def effects(self, account: dict[str, Any]) -> int:
            return len(account["notes"])

Law 1: it is as strict as the real service. A token that it did not give, a missing scope, another
       content type, an unknown field and a text that is too long are rejected, and nothing is done.
Law 2: what a request does is done under one lock, whole or not at all. A request whose body is cut
       off does nothing.
Law 3: what goes wrong is decided by the test, request by request, and for a path if it names one.
       Everything that came is in `asks`.
Law 4: every token has an account of its own unless the test says otherwise, so that one server
       serves all points of an exam. `count` asks over the wire, so it works in a forked child too.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from duly.testing.doubles.shape import FieldShape, misfit

HOST: Final = "127.0.0.1"
BODY_BYTES_MAX: Final = 40 * 1024 * 1024
WAIT_S: Final = 30.0  # only ends what hangs
DRIP_S: Final = 0.02
DRIPS_MAX: Final = 1000
COUNT: Final = "/-/count"  # where a test asks how much was done; no service has such a path
JSON: Final = "application/json"
JSON_UTF8: Final = f"{JSON}; charset=utf-8"


class Mishap(StrEnum):
    """What goes wrong with one request."""

    STATUS = "status"  # another status in place of the answer
    CUT = "cut"  # the connection ends, and nothing was done
    LOST = "lost"  # it was done, and the connection ends without a word
    HALF = "half"  # it was done, and the connection ends in the middle of the answer
    LATE = "late"  # it was done, and the answer comes when the test lets it (`go_on`)
    DRIP = "drip"  # it was done, and the answer comes a byte at a time


@dataclass(frozen=True, slots=True)
class PlannedMishap:
    """What goes wrong, with which request: the next one, or the next whose path fits."""

    kind: Mishap
    path: str = ""  # a regular expression that the method and path contain: "POST .*/send"
    status: int = 500
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_done: bool = False  # with STATUS: after the request was done


@dataclass(frozen=True, slots=True)
class ServiceAsk:
    """One request as it came, and whose it is."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # their names in lower case
    body: bytes
    token: str = ""
    account: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    pairs: tuple[tuple[str, str], ...] = ()  # of the query, where a field comes several times

    @property
    def content_type(self) -> str:
        """The content type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class ServiceReply:
    """An answer: JSON, or bytes as they are."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Rejected(Exception):
    """The service does not do what is asked; its answer says why."""

    def __init__(self, status: int, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.status = status
        self.reason = reason
        self.message = message or reason


@dataclass(frozen=True, slots=True)
class _Route:
    method: str
    pattern: re.Pattern[str]
    scopes: tuple[str, ...]
    is_open: bool
    query: tuple[str, ...] | None


Answering = TypeVar("Answering", bound=Callable[..., ServiceReply])


def route(
    method: str,
    path: str,
    *,
    scopes: Iterable[str] = (),
    is_open: bool = False,
    query: Iterable[str] | None = None,
) -> Callable[[Answering], Answering]:
    """Serve a path: `/v1/notes/{id}` gives the method the argument `id`, decoded.

    A token needs one of `scopes`, if there are any; `is_open` asks for no token. With `query` every
    other field of the query is rejected. `{rest*}` takes slashes too.
    """
    parts = re.split(r"(\{\w+\*?\})", path)
    spelled = "".join(
        f"(?P<{each[1:-1].rstrip('*')}>{'.+' if each.endswith('*}') else '[^/]+'})"
        if each.startswith("{")
        else re.escape(each)
        for each in parts
    )
    allowed = None if query is None else tuple(query)
    made = _Route(method, re.compile(spelled), tuple(scopes), is_open, allowed)

    def note(function: Answering) -> Answering:
        routes: list[_Route] = getattr(function, "routes", [])
        function.routes = [*routes, made]  # type: ignore[attr-defined]
        return function

    return note


class ServiceDouble:
    """The server, in threads of this process; a subclass has the routes of one service."""

    routes: ClassVar[list[tuple[_Route, str]]] = []

    def __init_subclass__(cls) -> None:
        """Collect the routes of the class and of those it derives from."""
        names = dict.fromkeys(name for each in cls.__mro__ for name in vars(each))
        found = ((name, getattr(cls, name, None)) for name in names)
        cls.routes = [(each, name) for name, value in found for each in _routes_of(value)]

    def __init__(self) -> None:
        self.asks: list[ServiceAsk] = []
        self.accounts: dict[str, dict[str, Any]] = {}
        self.mishaps: list[PlannedMishap] = []
        self.tokens: dict[str, tuple[frozenset[str] | None, str]] = {}  # scopes, account
        self.arrived, self.go_on = threading.Event(), threading.Event()
        self._prefixes: dict[str, frozenset[str] | None] = {}
        self._door = threading.RLock()
        self._server = ThreadingHTTPServer((HOST, 0), _handler(self))
        self._server.daemon_threads = True
        self.port = int(self._server.server_port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    # -- What a test does and sees ----------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop serving; answers that are held back are let go."""
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(WAIT_S)

    def give_token(
        self, token: str, scopes: Iterable[str] | None = None, account: str | None = None
    ) -> str:
        """Let a token in, with these scopes or with every one; it has its own account."""
        allowed = None if scopes is None else frozenset(scopes)
        with self._door:
            self.tokens[token] = (allowed, token if account is None else account)
        return token

    def give_tokens(self, prefix: str, scopes: Iterable[str] | None = None) -> None:
        """Let in every token that begins so, each with an account of its own."""
        self._prefixes[prefix] = None if scopes is None else frozenset(scopes)

    def revoke(self, token: str) -> None:
        """Do not know a token any more."""
        with self._door:
            self.tokens.pop(token, None)

    def account(self, name: str) -> dict[str, Any]:
        """Look at an account; there is a new one if nothing was asked of it yet."""
        with self._door:
            return self.accounts.setdefault(name, self.new_account())

    def plan(self, *mishaps: PlannedMishap | Mishap) -> None:
        """Say what goes wrong with the next requests, one each."""
        made = (
            each if isinstance(each, PlannedMishap) else PlannedMishap(each) for each in mishaps
        )
        with self._door:
            self.mishaps += made

    def count(self, account: str) -> int:
        """Ask over the wire how much was really done in an account."""
        way = HTTPConnection(HOST, self.port, timeout=WAIT_S)
        try:
            way.request("GET", COUNT, headers={"X-Account": account})
            return int(way.getresponse().read())
        finally:
            way.close()

    def asked(self, path: str) -> list[ServiceAsk]:
        """Return the requests whose method and path contain this regular expression."""
        return [each for each in self.asks if re.search(path, f"{each.method} {each.path}")]

    # -- What a service says ----------------------------------------------------------------------

    def new_account(self) -> dict[str, Any]:
        """Return what an account has before anything was asked of it."""
        return {}

    def effects(self, account: dict[str, Any]) -> int:
        """Return how many changes were really made in an account."""
        return 0

    def rejection(self, rejected: Rejected) -> ServiceReply:
        """Spell a rejection as the service does."""
        said = {"error": rejected.reason, "message": rejected.message}
        return ServiceReply(said, rejected.status)

    def json_of(self, ask: ServiceAsk, shape: FieldShape) -> Any:
        """Return the JSON of a request; reject another content type, or what does not fit."""
        if ask.content_type != JSON:
            raise Rejected(415, "unsupported_media_type", f"Content-Type must be {JSON}.")
        try:
            found = json.loads(ask.body)
        except ValueError:
            raise Rejected(400, "invalid_json", "The body is not JSON.") from None
        if (why := misfit(found, shape)) is not None:
            raise Rejected(400, "invalid_request", why)
        return found

    def form_of(self, ask: ServiceAsk, shape: FieldShape) -> dict[str, str]:
        """Return the fields of a form; reject another content type, or what does not fit."""
        if ask.content_type != "application/x-www-form-urlencoded":
            raise Rejected(415, "unsupported_media_type", "The body must be a form.")
        found = dict(parse_qsl(ask.body.decode(), keep_blank_values=True))
        if (why := misfit(found, shape)) is not None:
            raise Rejected(400, "invalid_request", why)
        return found

    def token_of(self, headers: Mapping[str, str]) -> str:
        """Return the token of a request; empty if there is none."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        return token if kind.lower() == "bearer" else ""

    # -- In threads -------------------------------------------------------------------------------

    def account_of(self, token: str, scopes: tuple[str, ...] = ()) -> str:
        """Return whose account a token opens; reject one that opens none."""
        found = self.tokens.get(token)
        if found is None:
            prefix = next((each for each in self._prefixes if token.startswith(each)), None)
            if not token or prefix is None:
                raise Rejected(401, "unauthorized", "The token is not valid.")
            found = self._prefixes[prefix], token
        allowed, account = found
        if scopes and allowed is not None and not allowed.intersection(scopes):
            raise Rejected(403, "insufficient_scope", f"It needs the scope {scopes[0]}.")
        return account

    def answer(self, ask: ServiceAsk) -> ServiceReply:
        """Do what is asked, under the lock."""
        known = [
            (each, name, found)
            for each, name in self.routes
            if (found := each.pattern.fullmatch(ask.path)) is not None
        ]
        if not known:
            raise Rejected(404, "not_found", f"There is no {ask.path}.")
        for each, name, found in known:
            if each.method != ask.method:
                continue
            account = {}
            if not each.is_open:
                account = self.account(self.account_of(ask.token, each.scopes))
            if each.query is not None and (more := ask.query.keys() - set(each.query)):
                raise Rejected(400, "invalid_request", f"{min(more)}: unknown field of the query")
            own = ServiceAsk(
                *(ask.method, ask.path, ask.query, ask.headers, ask.body, ask.token),
                account=account,
                pairs=ask.pairs,
            )
            given = {name: unquote(value) for name, value in found.groupdict().items()}
            reply: ServiceReply = getattr(self, name)(own, **given)
            return reply
        raise Rejected(405, "method_not_allowed", f"{ask.method} is not allowed here.")

    def _take_mishap(self, ask: ServiceAsk) -> PlannedMishap | None:
        for at, each in enumerate(self.mishaps):
            if re.search(each.path, f"{ask.method} {ask.path}"):
                return self.mishaps.pop(at)
        return None

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        """Serve one request, well or as planned."""
        if handler.path == COUNT:
            with self._door:
                counted = self.effects(self.account(handler.headers["X-Account"]))
            _say(handler, ServiceReply(counted))
            return
        ask = _read(handler, self)
        if ask is None:
            return
        with self._door:
            self.asks.append(ask)
            mishap = self._take_mishap(ask)
            is_done = mishap is None or mishap.kind not in (Mishap.STATUS, Mishap.CUT)
            reply = ServiceReply()
            if is_done or (mishap is not None and mishap.is_done):
                try:
                    reply = self.answer(ask)
                except Rejected as error:
                    reply = self.rejection(error)
        if mishap is None:
            _say(handler, reply)
        else:
            self._go_wrong(handler, mishap, reply)

    def _go_wrong(
        self, handler: BaseHTTPRequestHandler, mishap: PlannedMishap, reply: ServiceReply
    ) -> None:
        match mishap.kind:
            case Mishap.STATUS:
                said = {"error": mishap.status} if mishap.body is None else mishap.body
                _say(handler, ServiceReply(said, mishap.status, mishap.headers))
            case Mishap.CUT | Mishap.LOST:
                pass
            case Mishap.HALF:
                _say(handler, reply, cut=True)
            case Mishap.LATE:
                self.arrived.set()
                self.go_on.wait(WAIT_S)
                _say(handler, reply)
            case Mishap.DRIP:
                _say(handler, reply, is_slow=True)


def _routes_of(value: object) -> list[_Route]:
    # `routes` of a class are its own, not of a method.
    return getattr(value, "routes", []) if callable(value) and not isinstance(value, type) else []


def _handler(double: ServiceDouble) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = WAIT_S

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    def do(self: BaseHTTPRequestHandler) -> None:
        with suppress(OSError):
            double.serve(self)

    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", do)
    return Handler


def _read(handler: BaseHTTPRequestHandler, double: ServiceDouble) -> ServiceAsk | None:
    """Read a whole request; None if it ends before its end (law 2)."""
    headers = {name.lower(): value for name, value in handler.headers.items()}
    length = int(headers.get("content-length", "0"))
    if length > BODY_BYTES_MAX:
        return None
    body = handler.rfile.read(length)
    if len(body) < length:
        return None
    parts = urlsplit(handler.path)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    token = double.token_of(headers)
    return ServiceAsk(
        handler.command, parts.path, dict(pairs), headers, body, token, pairs=tuple(pairs)
    )


def _say(
    handler: BaseHTTPRequestHandler,
    reply: ServiceReply,
    *,
    cut: bool = False,
    is_slow: bool = False,
) -> None:
    is_raw = isinstance(reply.body, bytes)
    body = reply.body if is_raw else json.dumps(reply.body).encode()
    if reply.status == 204:
        body = b""
    kind = "application/octet-stream" if is_raw else JSON_UTF8
    handler.send_response(reply.status)
    for name, value in {"Content-Type": kind, **reply.headers}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    if handler.command == "HEAD":
        return
    if cut:
        handler.wfile.write(body[: len(body) // 2])
        handler.connection.shutdown(socket.SHUT_RDWR)
        return
    if not is_slow:
        handler.wfile.write(body)
        return
    for at in range(min(len(body), DRIPS_MAX)):
        handler.wfile.write(body[at : at + 1])
        handler.wfile.flush()
        threading.Event().wait(DRIP_S)
