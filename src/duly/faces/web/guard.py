"""The outermost layer: it decides who may, before anything else is read (G2, G3).

Law 1  Default deny: a route is an `Entry`, and an entry says for each method what a caller needs.
       Without an entry nothing is reached; an unsigned caller does not even learn what there is.
Law 2  The `Host` of every request is on the list. An act by cookie comes from our own origin, or is
       refused; a cookie that came along with a request of another site counts for nothing.
Law 3  Who acts is who signed in (G5): an endpoint gets a session in that name, and no other way to
       the host.
Law 4  A client that sends too much is told when to come again (`rate.py`).
Law 5  Every response has the headers that keep a browser from doing anything else with it (G7).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from traceback import format_tb
from typing import Final, TypeAlias, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from duly.api.clock import machine_ms
from duly.api.door import Door
from duly.api.folder import ProjectFolder
from duly.api.page import list_names
from duly.api.registry import Scope as Right
from duly.api.session import Session
from duly.api.value import Json
from duly.errors import DulyError, Invalid, NotFound, RequestRefused, StoreUnavailable, short
from duly.faces.web.rate import CALLER, STRANGER, Rate, Rates, name_client

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
Refuse: TypeAlias = Callable[[Request, DulyError], Response]

OPEN: Final = None  # what a route needs that asks for no sign-in
UNSIGNED: Final = "page"  # in whose name is asked before a caller is known
SAFE: Final = frozenset({"GET", "HEAD"})
LENGTHS: Final = ("content-length", "transfer-encoding")  # what says how long a body is
OWN_SITE: Final = frozenset({"same-origin", "none"})
COOKIE: Final = "duly"
PATH_CHARS_MAX: Final = 2000
HEAD_BYTES_MAX: Final = 16 * 1024
VISIT: Final = "duly.visit"
# A letter, a digit or one of -._~ that is escaped without need: a proxy does not know `/%61pi/`.
ESCAPED_LETTER: Final = re.compile(
    rb"%(?:2[de]|3[0-9]|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9ae])", re.IGNORECASE
)
ANSWER_S_MAX: Final = 10.0  # for a host to say who a caller is

log = logging.getLogger("duly.page")

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who signed in: the name acts are written down under, and what they may do."""

    actor: str
    name: str
    right: Right
    token: str
    is_browser: bool = False


@dataclass(frozen=True, slots=True)
class Visit:
    """One request as an endpoint gets it: a session in the caller's name, and where it came to.

    `may` tells whether the caller may use a route. `hosts` and `hooks_at` are those of the place.
    """

    session: Session
    caller: Caller | None
    cookie: str
    is_secure: bool
    may: Callable[[str], bool]
    identify: Callable[[], Awaitable[Caller]] | None = None
    zone: str = "UTC"
    folder: ProjectFolder | None = None
    hosts: tuple[str, ...] = ()
    hooks_at: str = ""

    async def confirm(self) -> None:
        """Refuse a caller whose token was revoked since the request began (G6)."""
        if self.identify is not None:
            await self.identify()

    @property
    def token(self) -> str:
        """What the caller showed."""
        assert self.caller is not None
        return self.caller.token


@dataclass(frozen=True, slots=True)
class Entry:
    """One route: its path, its endpoint, and for each method what a caller needs.

    `is_form` marks what a browser sends without being signed in: it must come from our own page.
    `actor` and `right` are those of a caller that needs no sign-in; the host judges what it brings.
    `rate` is how often such a caller may come; `too_fast` hears of one who came more often.
    """

    path: str
    endpoint: Endpoint
    needs: Mapping[str, Right | None]
    is_form: bool = False
    actor: str = UNSIGNED
    right: Right = Right.READ
    rate: Rate = STRANGER
    too_fast: Callable[[Request, DulyError, Session], None] | None = None

    @property
    def route(self) -> Route:
        """The route as Starlette matches it."""
        return Route(self.path, self.endpoint, methods=[*self.needs])


@dataclass(frozen=True, slots=True)
class Place:
    """Where an application is reached: further names, and whether a proxy before it has TLS.

    `zone` is the one that times are shown in: that of the project. `folder` is the folder
    of the project, if there is one. `hooks_at` is the address of webhooks, if it is one of its own.
    """

    hosts: tuple[str, ...] = ()
    is_proxied: bool = False
    zone: str = "UTC"
    folder: ProjectFolder | None = None
    hooks_at: str = ""


def visit_of(request: Request) -> Visit:
    """Return what the guard found out about a request."""
    return cast("Visit", request.scope[VISIT])


class Guard:
    """An ASGI application that lets a request through to its entry, or refuses it."""

    def __init__(self, door: Door, entries: Iterable[Entry], place: Place, refuse: Refuse) -> None:
        self.entries = tuple(entries)
        self._refuse = refuse
        self._door = door
        self._place = place
        self._rates = Rates(machine_ms)
        self._exact = {each.path: each for each in self.entries if "{" not in each.path}
        # Where nothing asks for a sign-in no token is looked at: a stolen one cannot be tried out.
        self._has_sign_in = any(
            need is not OPEN for each in self.entries for need in each.needs.values()
        )
        self._patterns = [(each, each.route) for each in self.entries if "{" in each.path]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; anything but HTTP is not for us."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope, receive)
        is_static = False
        try:
            entry = await self._admit(request)
            is_static = entry.path.startswith("/static/")
            response = await entry.endpoint(request)
        except DulyError as error:
            response = self._refuse(request, error)
            response.headers.update(_say_in_head(error))
        except Exception as error:
            # Where it happened is for the log; what it says may be a secret (A5).
            where = "".join(format_tb(error.__traceback__))
            log.error("A request failed inside the page: %s\n%s", type(error).__name__, where)
            facts = {"cause": type(error).__name__}
            bug = DulyError(code="failed_inside", subject="request", facts=facts)
            response = self._refuse(request, bug)
        await response(scope, receive, _with_headers(send, is_kept=is_static))

    async def _admit(self, request: Request) -> Entry:
        """Return the entry that a request may use, or refuse it (laws 1 and 2)."""
        _check_head(request)
        scheme = "https" if self._place.is_proxied else request.scope["scheme"]
        host = _read_host(request.headers)
        port = (request.scope.get("server") or ("", 0))[1] or 0
        if host not in list_names(self._place.hosts, port, scheme):
            raise RequestRefused(code="wrong_host", subject=short(host))
        cookie = f"__Host-{COOKIE}-{port}" if scheme == "https" else f"{COOKIE}-{port}"
        is_own = _is_own(request.headers, f"{scheme}://{host}")
        _check_path(request)
        entry = self._find(request)
        method = "GET" if request.method == "HEAD" else request.method
        need = entry.needs.get(method, Right.READ) if entry is not None else Right.READ
        caller = None
        if need is not OPEN and self._has_sign_in:
            caller = await self._identify(request, cookie)
        elif need is OPEN and entry is not None:
            self._take(entry, request)
        if entry is None:
            raise NotFound(code="no_page", subject=short(request.url.path))
        if method not in entry.needs:
            known = sorted(entry.needs)
            raise RequestRefused(
                code="wrong_method", subject=short(request.method), facts={"known": known}
            )
        is_sent_by_browser = entry.is_form if caller is None else caller.is_browser
        if method not in SAFE and is_sent_by_browser and not is_own:
            raise RequestRefused(code="cross_origin")
        if caller is not None and need is not None and not caller.right.covers(need):
            facts = {"scope": str(caller.right), "needed": str(need)}
            raise RequestRefused(code="beyond_scope", subject=entry.path, facts=facts)
        actor, right = entry.actor, entry.right
        if caller is not None:
            self._rates.take(CALLER, caller.actor)
            actor, right = caller.actor, caller.right
        session = self._door.signed(actor, right)
        may = partial(self._may, caller)
        again = None if caller is None else partial(self._identify, request, cookie)
        request.scope[VISIT] = Visit(
            session,
            caller,
            cookie,
            scheme == "https",
            may,
            again,
            self._place.zone,
            self._place.folder,
            self._place.hosts,
            self._place.hooks_at,
        )
        return entry

    def _take(self, entry: Entry, request: Request) -> None:
        """Count a request that needs no sign-in; who owns the entry may hear of one too many."""
        try:
            self._rates.take(entry.rate, _client_of(request))
        except RequestRefused as error:
            if entry.too_fast is not None:
                entry.too_fast(request, error, self._door.signed(entry.actor, entry.right))
            raise

    def _may(self, caller: Caller | None, path: str) -> bool:
        """Tell whether there is a route that a caller may use, by any of its methods."""
        needs = self._exact[path].needs.values() if path in self._exact else ()
        return any(
            need is OPEN or (caller is not None and caller.right.covers(need)) for need in needs
        )

    def _find(self, request: Request) -> Entry | None:
        path = path_of(request)
        if path in self._exact:
            return self._exact[path]
        for entry, route in self._patterns:
            match, child = route.matches({**request.scope, "method": next(iter(entry.needs))})
            if match is Match.FULL:
                request.scope["path_params"] = child["path_params"]
                return entry
        return None

    async def _identify(self, request: Request, cookie: str) -> Caller:
        """Find out who sends a request: by a bearer token, or by the cookie of a device."""
        token, is_browser = _bearer(request.headers), False
        if token is None:
            token, is_browser = _read_cookie(request.headers, cookie), True
            site = request.headers.get("sec-fetch-site")
            if site is not None and site not in OWN_SITE:
                token = None  # it came along with a request of another page (law 2)
        if token is None:
            raise RequestRefused(code="not_signed_in")
        if not self._rates.knows(token):
            self._rates.take(STRANGER, _client_of(request))
        told = await self._ask_who(token)
        assert isinstance(told, dict), told
        self._rates.remember(token)
        right = Right(str(told["scope"]))
        return Caller(str(told["actor"]), str(told["name"]), right, token, is_browser)

    async def _ask_who(self, token: str) -> Json:
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                return await self._door.signed(UNSIGNED, Right.READ).call("who", token=token)
        except TimeoutError:
            raise StoreUnavailable(code="host_silent", subject="channel") from None


def _client_of(request: Request) -> str:
    return "" if request.client is None else name_client(request.client.host)


def _check_head(request: Request) -> None:
    """Refuse a head that is too long, or that says the length of its body in two ways (G10).

    A program that speaks HTTP/1.0 does not know chunks, and would read them as the next request.
    """
    headers = request.headers
    if sum(len(name) + len(value) for name, value in headers.raw) > HEAD_BYTES_MAX:
        facts = {"limit": HEAD_BYTES_MAX, "unit": "bytes"}
        raise RequestRefused(code="head_too_long", subject="head", facts=facts)
    if "content-length" in headers and "transfer-encoding" in headers:
        raise Invalid(code="given_twice", path="content-length")
    if "transfer-encoding" in headers and request.scope.get("http_version") != "1.1":
        facts = {"wanted": "http_1_1"}
        raise Invalid(code="wrong_value", path="transfer-encoding", facts=facts)


def path_of(request: Request) -> str:
    """Return the path below where the application is mounted."""
    path, root = str(request.scope["path"]), str(request.scope.get("root_path", ""))
    return path.removeprefix(root) or "/"


def _check_path(request: Request) -> None:
    """Refuse a path that two programs on the way could read in two ways."""
    path = request.scope["path"]
    raw = request.scope.get("raw_path") or path.encode()
    parts = path.split("/")[1:]
    is_odd = (
        len(path) > PATH_CHARS_MAX
        or not path.startswith("/")
        or not path.isprintable()
        or "\\" in path
        or b"%2f" in raw.lower()
        or b"%5c" in raw.lower()
        or ESCAPED_LETTER.search(raw) is not None
        or any(part in (".", "..") for part in parts)
        or any(part == "" for part in parts[:-1])
    )
    if is_odd:
        raise Invalid(code="wrong_value", path="path", facts={"wanted": "plain_path"})


def _read_host(headers: Headers) -> str:
    found = headers.getlist("host")
    return found[0].lower() if len(found) == 1 else ""


def _is_own(headers: Headers, origin: str) -> bool:
    """Tell whether a browser says that the request comes from our own page (G2).

    Under `no-referrer` a browser writes `null` for the origin of a form, and says the rest in
    `Sec-Fetch-Site`, which no page can set.
    """
    given, site = headers.getlist("origin"), headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin" and given in ([], [origin], ["null"])
    return given == [origin]


def _bearer(headers: Headers) -> str | None:
    found = headers.getlist("authorization")
    if not found:
        return None
    kind, _, token = found[0].partition(" ")
    if len(found) > 1 or kind.lower() != "bearer":
        raise RequestRefused(code="not_signed_in")
    return token.strip()


def _read_cookie(headers: Headers, name: str) -> str | None:
    """Read a cookie; of two with one name another host set one, so that neither counts."""
    pairs = (each.partition("=") for line in headers.getlist("cookie") for each in line.split(";"))
    found = [value.strip() for key, _, value in pairs if key.strip() == name]
    return found[0] if len(found) == 1 else None


def _say_in_head(error: DulyError) -> dict[str, str]:
    """Return what a client reads in the head of a refusal: methods, when again, or the end."""
    if error.code == "wrong_method":
        return {"Allow": ", ".join(map(str, error.facts["known"]))}
    if error.code == "too_fast":
        return {"Retry-After": str(error.facts["seconds"])}
    if isinstance(error, Invalid) and error.path in LENGTHS:
        return {"Connection": "close"}  # where its body ends is not sure: nothing behind it is read
    return {}


def _with_headers(send: Send, *, is_kept: bool) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                if not (is_kept and name == "Cache-Control"):
                    headers[name] = value
        await send(message)

    return sending


async def _live(receive: Receive, send: Send) -> None:
    """Answer a server that asks whether there is anything to start: there is not."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
