"""Sends requests to web servers; what an error means is decided by where it happens (K2, K3, K6).

Law 1: a request is sent once. Every request has a connection of its own, nothing is retried, and a
       change follows no redirect. Until its first byte is written an error is `NotSent`; from then
       on everything but a whole response is unknown.
Law 2: a name is resolved once, every address of it is judged, and the connection goes to an address
       that was judged. A redirect of a read is judged in the same way.
Law 3: credentials go to the origin they belong to and nowhere else (K4). After a redirect to
       another origin no header of the caller is sent.
Law 4: one deadline covers everything from resolving the name to the last byte of the response.
       Nothing is begun when the time of the call is over (L7).
Law 5: the environment changes nothing: no proxy, no certificates, no `.netrc`.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, urlencode

import h11

from duly.connectors.reach import (
    CONNECT_S,
    Resolve,
    find_addresses,
    left_s,
    make_context,
    resolve_name,
    why_of,
    within,
)
from duly.connectors.response import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    BrokenExchange,
    HttpResponse,
    read_response,
)
from duly.errors import (
    Invalid,
    NotSent,
    PermissionDenied,
    Refused,
    Transient,
    UnknownOutcome,
)
from duly.rules.url import (
    AddressKind,
    IpAddress,
    Url,
    follow_url,
    kind_of_address,
)

Until: TypeAlias = Callable[[bytearray], bool]

REDIRECTS_MAX: Final = 5
REQUEST_BYTES_MAX: Final = 26 * 1024 * 1024  # a blob, and what goes with it
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
HTTP_ONLY: Final = ("http/1.1",)
READS: Final = frozenset({"GET", "HEAD"})
QUERIES: Final = frozenset({"PROPFIND", "REPORT"})  # of WebDAV: they only ask (RFC 3253, 4791)
CHANGES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})

HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
HEADER_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,7998}[\x21-\x7e])?|")
HIDDEN: Final = "***"  # in a path: where a secret goes that a service wants there
SEGMENT: Final = re.compile(r"[A-Za-z0-9:_-]{1,200}")
# These are the transport's own, or change what a request is.
HEADERS_TAKEN: Final = frozenset(
    {"accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "te"}
    | {"proxy-authorization", "proxy-connection", "trailer", "transfer-encoding", "upgrade"}
)
# By these some servers take a GET for another method (K5).
OVERRIDES: Final = frozenset(
    {"x-http-method", "x-http-method-override", "x-method-override", "_method"}
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What proves who asks, and the one origin it is for (K4).

    `path` goes into a path in place of `***`, so that the URL of a request never holds it.
    """

    origin: str
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    query: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    path: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.path and not SEGMENT.fullmatch(self.path):
            raise Refused("A secret for a path has letters, digits, colons, - and _ alone.")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is asked of a web server."""

    method: str
    url: Url
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    body: bytes = b""
    credentials: Credentials | None = None
    is_query: bool = False  # a POST that only asks, as GraphQL does (K5)

    def __post_init__(self) -> None:
        if self.method not in READS | CHANGES | QUERIES:
            raise Refused(f"{self.method[:20]!r} is no method of a request.")
        if len(self.body) > REQUEST_BYTES_MAX:
            raise Refused(f"The request is larger than {REQUEST_BYTES_MAX:,} bytes.")
        own = self.credentials.headers if self.credentials is not None else {}
        for name, value in (*self.headers.items(), *own.items()):
            check_header(name, value)

    @property
    def shown(self) -> str:
        """The request for people, without what may be secret."""
        return f"{self.method} {self.url.shown}"


def check_header(name: str, value: str) -> None:
    """Refuse a header that would be two, or that belongs to the transport; no value is shown."""
    if not HEADER_NAME.fullmatch(name):
        raise Refused(f"{name[:50]!r} cannot be the name of a header.")
    if name.lower() in HEADERS_TAKEN | OVERRIDES:
        raise Refused(f"The header {name} cannot be set.")
    if not HEADER_VALUE.fullmatch(value):
        raise Refused(f"The value of the header {name} is no line of plain text.")


class _Progress:
    """How far an exchange has come."""

    is_sent = False


class Transport:
    """The way to web servers.

    `allow` names the hosts that may have private or loopback addresses, `ca` a file with the
    certificates to trust in place of the system's.
    """

    def __init__(
        self,
        *,
        allow: Collection[str] = (),
        ca: Path | None = None,
        body_bytes_max: int = BODY_BYTES_MAX,
        resolve: Resolve | None = None,
    ) -> None:
        self._allow = frozenset(allow)
        self._body_bytes_max = body_bytes_max
        self._resolve = resolve or resolve_name
        self._context: ssl.SSLContext | None = (
            None if ca is None else make_context(ca, protocols=HTTP_ONLY)
        )

    async def change(
        self, request: HttpRequest, *, timeout_s: float, until: Until | None = None
    ) -> HttpResponse:
        """Send a request that changes something, once, and return its response.

        `until` ends a response that is a stream of events: it is asked after each piece of it.
        """
        assert request.method in CHANGES, request.method
        progress = _Progress()
        try:
            async with asyncio.timeout(within(timeout_s)):
                return await self._exchange(request, progress, until)
        except (OSError, EOFError, BrokenExchange) as error:
            why = why_of(error, timeout_s)
            if not progress.is_sent:
                message = f"{request.shown}: nothing was sent: {why}."
                raise NotSent(message) from error
            raise UnknownOutcome(f"{request.shown}: it may have been done: {why}.") from error

    async def read(
        self,
        request: HttpRequest,
        *,
        timeout_s: float,
        may_ask: Callable[[Url], bool] | None = None,
        until: Until | None = None,
    ) -> HttpResponse:
        """Ask, and follow redirects to URLs that may be asked; a read can be repeated."""
        assert request.method in READS or request.is_query, request.method
        _refuse_override(request.url)
        try:
            async with asyncio.timeout(within(timeout_s)):
                return await self._follow(request, may_ask, until)
        except (OSError, EOFError, BrokenExchange) as error:
            message = f"{request.shown}: {why_of(error, timeout_s)}."
            if isinstance(error, BrokenExchange) and error.is_lasting:
                raise Refused(message) from error
            raise Transient(message) from error

    async def _follow(
        self,
        request: HttpRequest,
        may_ask: Callable[[Url], bool] | None,
        until: Until | None,
    ) -> HttpResponse:
        for _ in range(REDIRECTS_MAX + 1):
            response = await self._exchange(request, _Progress(), until)
            location = response.header("location")
            is_followed = response.status in REDIRECTS and request.method in READS
            if not is_followed or location is None:
                return response
            before, request = request, _redirected(request, location)
            if may_ask is not None and not may_ask(request.url):
                leads = request.url.origin
                raise Refused(f"{before.shown}: it redirects to {leads}, which must not be asked.")
        raise BrokenExchange(f"it redirects more than {REDIRECTS_MAX} times", is_lasting=True)

    async def _exchange(
        self, request: HttpRequest, progress: _Progress, until: Until | None
    ) -> HttpResponse:
        """Send a request over a connection of its own, and read the response."""
        head, target = _dress(request)
        url = request.url
        addresses = await find_addresses(
            url.host, url.port, allow=self._allow, resolve=self._resolve
        )
        is_open = request.url.scheme == "http" and request.credentials is not None
        if is_open and any(kind_of_address(each) is AddressKind.PUBLIC for each in addresses):
            raise PermissionDenied(
                f"{request.url.host} has a public address, and a secret would cross the internet in"
                " the clear. Use https."
            )
        reader, writer = await self._connect(request.url, addresses)
        try:
            connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
            opening = h11.Request(method=request.method, target=target, headers=head)
            pieces = [connection.send(opening)]
            if request.body:
                pieces.append(connection.send(h11.Data(data=request.body)))
            pieces.append(connection.send(h11.EndOfMessage()))
            data = b"".join(each for each in pieces if each)
            if left_s() <= 0:
                raise BrokenExchange("the time of the call was over")
            progress.is_sent = True
            writer.write(data)
            await writer.drain()
            most = self._body_bytes_max
            response = await read_response(connection, reader, body_bytes_max=most, until=until)
        finally:
            # At once and without a farewell: what is not written yet must not leave any more (L7).
            writer.transport.abort()
        return replace(response, is_framed=True) if request.method == "HEAD" else response

    async def _connect(
        self, url: Url, addresses: tuple[IpAddress, ...]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to one of the addresses; nothing of the request has left before this returns."""
        secure: dict[str, object] = {}
        if url.scheme == "https":
            if self._context is None:
                self._context = make_context(None, protocols=HTTP_ONLY)
            secure = {"ssl": self._context, "server_hostname": url.host}
        problem: OSError | BrokenExchange | None = None
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_S):
                    return await asyncio.open_connection(
                        str(address),
                        url.port,
                        limit=HEAD_BYTES_MAX,
                        **secure,  # type: ignore[arg-type]
                    )
            except TimeoutError:
                problem = problem or BrokenExchange(f"no connection within {CONNECT_S:g} s")
            except OSError as error:
                problem = problem or error
        assert problem is not None
        raise problem


def add_query(url: Url, fields: Sequence[tuple[str, str]]) -> Url:
    """Return a URL with more fields in its query."""
    more = urlencode(fields)
    return replace(url, query="&".join(each for each in (url.query, more) if each))


def _redirected(request: HttpRequest, location: str) -> HttpRequest:
    """Return the request a redirect asks for; to another origin it has no headers of its own."""
    try:
        url = follow_url(request.url, location)
    except Invalid as error:
        raise Refused(
            f"{request.shown}: it redirects to a URL that cannot be used: {error}"
        ) from None
    if request.url.scheme == "https" and url.scheme == "http":
        raise Refused(f"{request.shown}: it redirects from https to http.")
    _refuse_override(url)
    is_same = url.origin == request.url.origin
    return replace(request, url=url, headers=request.headers if is_same else {})


def _refuse_override(url: Url) -> None:
    """Refuse a read that a server could take for a change (K5)."""
    fields = url.query.replace(";", "&")  # some servers separate by both
    names = {name.lower() for name, _ in parse_qsl(fields, keep_blank_values=True)}
    if names & OVERRIDES:
        raise Refused(
            f"{url.shown}: a query with {', '.join(sorted(names & OVERRIDES))} may change."
        )


def _dress(request: HttpRequest) -> tuple[list[tuple[str, str]], str]:
    """Return the headers that go out, and the target; credentials go to their origin (law 3)."""
    url, own = request.url, request.credentials
    head = {
        "Host": url.authority,
        "User-Agent": "duly",
        "Accept": "application/json, */*;q=0.5",
        "Accept-Encoding": "gzip",
        "Connection": "close",
    }
    more = dict(request.headers)
    if own is not None and own.origin == url.origin:
        more |= own.headers
        url = add_query(url, list(own.query.items()))
        url = replace(url, path=url.path.replace(HIDDEN, own.path)) if own.path else url
    for name, value in more.items():
        head = {each: old for each, old in head.items() if each.lower() != name.lower()}
        head[name] = value
    if request.method in CHANGES | QUERIES:
        head["Content-Length"] = str(len(request.body))
    return list(head.items()), url.target
