"""A web service, described in the settings: each operation is a tool with types of its own.

    [connectors.shop]
    use = "http"
    url = "https://shop.example/api"
    auth = { type = "bearer", secret = "token" }

    [connectors.shop.operations.create_order]
    method = "POST"
    path = "/orders"
    arguments = { item = "string", count = "integer?" }
    key = { header = "Idempotency-Key" }
    verify = { path = "/orders", query = { key = "{key}" }, items = "orders", match = "key" }

Law 1: every connector has a class of its own, and its operations are methods of it. So stubs,
       `check`, approvals and the exam see them like the methods of any connector.
Law 2: a read is GET, HEAD or one query of GraphQL; other settings for it are refused (K5).
Law 3: `get`, `download` and `head` ask the hosts that `hosts` names, `request` goes to those that
       `writes` names, both without any credentials (K4).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypedDict, cast
from urllib.parse import unquote

from duly.connectors.auth_table import read_auth
from duly.connectors.base import SEND_S, Call, Connector, KeyWord, P, R, Verdict, mutation, read
from duly.connectors.blob import BLOB_BYTES_MAX
from duly.connectors.conflict import is_alone
from duly.connectors.graphql import has_errors
from duly.connectors.json_answer import encode_body, pick
from duly.connectors.key_place import Verify, asked_by, deleted_by, key_values
from duly.connectors.markdown import write_plain_markdown
from duly.connectors.named import AFTER, describe
from duly.connectors.need import Need
from duly.connectors.operation import HttpOperation, read_operations
from duly.connectors.response import HttpResponse
from duly.connectors.rest import NOTHING, READ_S, Rest
from duly.connectors.status import DELETED, raise_for_change, raise_for_read
from duly.connectors.taken import look_for
from duly.connectors.template import MISSING, fill, fill_path, fill_query
from duly.connectors.transport import CHANGES, HttpRequest, Transport
from duly.errors import ConfigError, Invalid, Refused, Transient, UnknownOutcome
from duly.rules.blob import Blob
from duly.rules.url import PORT_MAX, PORTS, Url, match_host, read_host, read_url
from duly.rules.value import Json, encode

TEXT_BYTES_MAX: Final = 1024 * 1024
DOWNLOAD_S: Final = 120.0  # 25 MiB over a slow line
OCTETS: Final = "application/octet-stream"
TABLE_MAX: Final = 1024 * 1024  # bytes of one operation in the settings
CHARSET: Final = re.compile(r"(?i);\s*charset\s*=\s*\"?([a-z0-9_-]+)")
# Other words name codecs of Python that are no character sets.
CHARSETS: Final = frozenset({"ascii", "us-ascii", "iso-8859-1", "iso-8859-15", "windows-1252"})
HAPPENED: Final = "_happened"
KEY_HEADER: Final = "Idempotency-Key"  # of `request`; a service may know it or not
TRIED: Final = "_tried"
# The word of K1 for each place of a key in the settings.
KEY_IN: Final[Mapping[str, KeyWord]] = MappingProxyType(
    {
        "header": "header",
        "field": "field",
        "query": "field",
        "path": "id",
        "marker": "marker",
    }
)
WITH_PORT: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*):([0-9]+)")


class Fetched(TypedDict):
    """What `get` found: the text as it came, and read as JSON where it is JSON."""

    url: str
    status: int
    type: str
    text: str
    json: Any


class Looked(TypedDict):
    """What `head` found."""

    url: str
    status: int
    type: str
    length: int | None


class _Kit(Rest):
    """The kit, for a connector whose own names are left to its operations."""

    def __init__(self, owner: Connector, url: str, **more: Any) -> None:
        self._owner = owner
        super().__init__(url, **more)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the connector, which the project gives."""
        return self._owner.name

    @property
    def _keeper(self) -> Any:
        """What keeps the tokens of the connector fresh (K9)."""
        return self._owner._keeper

    def secret(self, name: str) -> str:
        """Fetch a secret of the connector."""
        return self._owner.secret(name)

    async def in_thread(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run code that blocks in a thread of the connector."""
        return await self._owner.in_thread(function, *args, **kwargs)


class Http(Connector):
    """A web service: its `url`, how it is told who asks, its operations.

    `hosts` are others that may be read, `writes` others at which something may be changed.
    """

    name = "http"
    needs: ClassVar[tuple[Need, ...]] = (
        Need("url", "the address of the service", "https://shop.example/api/v1"),
    )

    def __init__(
        self,
        url: str,
        *,
        operations: Mapping[str, Any] = NOTHING,
        auth: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] = NOTHING,
        hosts: Sequence[str] = (),
        writes: Sequence[str] = (),
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "http",
    ) -> None:
        self.name = name
        _check_texts("hosts", hosts)
        _check_texts("writes", writes)
        _check_texts("allow", allow)
        _check_headers(headers)
        self._kit = _Kit(
            self,
            url,
            auth=None if auth is None else read_auth(auth, allow),
            headers=headers,
            allow=allow,
            ca=None if ca is None else Path(ca),
        )
        self._origin = self._kit.base.origin
        self._secret_names = self._kit._secret_names
        self._sign_in = self._kit._sign_in  # where a host looks for one
        self._hosts = tuple(_read_pattern(each, "hosts") for each in hosts)
        self._writes = tuple(_read_pattern(each, "writes") for each in writes)
        found = read_operations(operations)
        self._tables = {str(name): table for name, table in operations.items()}
        if not found and not hosts and not writes:
            raise ConfigError(
                "operations: there is none, so scripts can do nothing. Describe one, or name the"
                ' hosts that may be read: hosts = ["example.com"].'
            )
        if hosts or any(each.answers_blob for each in found):
            trusted = None if ca is None else Path(ca)
            names = [read_host(each, path="allow") for each in allow]
            self._kit.transport = Transport(allow=names, ca=trusted, body_bytes_max=BLOB_BYTES_MAX)
        kinds: list[type[Http]] = [type(self)]
        if type(self) is Http:
            kinds = [*[_Reader] * bool(hosts), *[_Writer] * bool(writes)] or kinds
        self.__class__ = _class_for(kinds, found)

    def _relies_on(self, method: str) -> Json:
        """Return the place of the service, and how this operation is written in the settings."""
        table = encode(self._tables.get(method), limit_bytes=TABLE_MAX)
        return [self._kit._relies_on(method), table]

    async def _perform(self, operation: HttpOperation, args: Mapping[str, Json]) -> Any:
        """Ask what a read operation asks."""
        self._sign_in.require(operation.capability)
        path = fill_path(operation.path, args)
        if operation.graphql is not None:
            given = {name: value for name, value in args.items() if value is not None}
            answer = await self._kit.query_data(
                path, operation.graphql, given, timeout_s=operation.timeout_s
            )
            return self._result(operation, answer)
        query = fill_query(operation.query, args)
        if operation.answers_blob:
            asked = operation.timeout_s
            response = await self._kit.fetch_bytes(path, query, timeout_s=asked)
            if response is None and operation.kind == "read":
                raise Refused(f"{self.name}.{operation.name}: there is nothing.")
            return None if response is None else await self._keep(response, path)
        if operation.paging is not None:
            after = args.get(AFTER)
            return await self._kit.list_page(
                path,
                operation.paging,
                query,
                after=None if after is None else str(after),
                timeout_s=operation.timeout_s,
            )
        by_id = operation.kind == "read_by_id"
        ask = self._kit.fetch_one if by_id else self._kit.fetch
        answer = await ask(path, query, timeout_s=operation.timeout_s)
        return self._result(operation, answer)

    def _result(self, operation: HttpOperation, answer: Json) -> Json:
        """Return what a read found, at the place of its result."""
        result = pick(answer, operation.result)
        if result is not MISSING:
            found: Json = result
            return found
        if operation.kind == "read_by_id":
            return None
        raise Transient(f"{self.name}.{operation.name}: nothing is at {operation.result!r}.")

    async def _apply(self, operation: HttpOperation, call: Call) -> Json:
        """Send what a mutation operation sends."""
        self._sign_in.require(operation.capability)
        values = {**call.args, **key_values(call.key)}
        for name in operation.markdown:
            if isinstance(text := values.get(name), str):
                values[name] = write_plain_markdown(text)
        body = None if operation.body is None else fill(operation.body, values)
        upload = None
        if operation.upload is not None:
            file = cast("Blob", call.args[operation.upload])
            upload = (file["type"] or OCTETS, await self.open_blob(file))
        verify = operation.verify
        answer = await self._kit.change(
            call,
            operation.method,
            fill_path(operation.path, values),
            body=body,
            upload=upload,
            query=fill_query(operation.query, call.args),
            key=operation.key,
            is_form=operation.is_form,
            is_idempotent=operation.key_lifetime_s is not None,
            statuses=operation.statuses,
            done=operation.done,
            look=None if verify is None else partial(look_for, self._kit, verify, operation.taken),
            is_exact=verify is not None and verify.is_exact,
            timeout_s=operation.timeout_s,
        )
        # The status says that it was done, so an answer of another shape is no error.
        result = pick(answer, operation.result)
        return None if result is MISSING else result

    async def _find(self, verify: Verify, call: Call) -> Verdict:
        """Look for a call by its key."""
        return await self._kit.find(call, verify)

    async def _keep(self, response: HttpResponse, path: str) -> Blob:
        """Keep an answer as a blob, under the last part of its path."""
        name = unquote(path.rstrip("/").rpartition("/")[2])
        return await self.keep_blob(response.body, name=name, type=_type_of(response))

    async def _ask_host(self, method: str, url: str, timeout_s: float = READ_S) -> tuple[Url, Any]:
        """Ask a host that the settings name; credentials stay at home."""
        target = _check_host(url, self._hosts, f"{self.name} may read")
        request = HttpRequest(method, target)
        response = await self._kit.transport.read(
            request, timeout_s=timeout_s, may_ask=self._may_read
        )
        return target, response if raise_for_read(response, request.shown, self.name) else None

    def _may_read(self, url: Url) -> bool:
        return _is_named(url, self._hosts)


class _Reader(Http):
    """The tools of a connector with `hosts`."""

    @read(by_id=True)
    async def get(self, url: str) -> Fetched | None:
        """Read a page or a file of the web.

        Returns {url, status, type, text, json}.
        """
        target, response = await self._ask_host("GET", url)
        if response is None:
            return None
        if len(response.body) > TEXT_BYTES_MAX:
            raise Refused(f"GET {target.shown}: it is larger than {TEXT_BYTES_MAX:,} bytes.")
        is_json = "json" in _type_of(response)
        value = await self._kit.read_json(response, f"GET {target.shown}") if is_json else None
        return _fetched(target, response, value)

    @read(by_id=True, timeout_s=DOWNLOAD_S)
    async def download(self, url: str) -> Blob | None:
        """Fetch a file of the web as a blob.

        Returns {blob, name, type, size}, or nothing if there is none.
        """
        target, response = await self._ask_host("GET", url, DOWNLOAD_S)
        return None if response is None else await self._keep(response, target.path)

    @read(by_id=True)
    async def head(self, url: str) -> Looked | None:
        """Look whether a page or a file of the web is there.

        Returns {url, status, type, length}.
        """
        target, response = await self._ask_host("HEAD", url)
        if response is None:
            return None
        return {
            "url": str(target),
            "status": response.status,
            "type": _type_of(response),
            "length": response.length,
        }


class _Writer(Http):
    """The tool of a connector with `writes`."""

    @mutation(
        risk="high",
        noun="request",
        key_in="header",
        asked="not_at_all",
        labels={"method": "Method", "url": "URL", "body": "Body"},
        editable=("body",),
    )
    async def request(self, call: Call, method: str, url: str, body: Any = None) -> Fetched:
        """Send a request that changes something: POST, PUT, PATCH or DELETE, with a JSON body.

        Returns {url, status, type, text, json}.
        """
        if method not in CHANGES:
            raise Refused(f"method: write one of {', '.join(sorted(CHANGES))}.")
        target = _check_host(url, self._writes, f"{self.name} may change")
        kind, data = encode_body(body, is_form=False)
        headers = {KEY_HEADER: call.key} | ({"Content-Type": kind} if kind else {})
        asked = HttpRequest(method, target, headers, data)
        response = await self._kit.transport.change(asked, timeout_s=SEND_S)
        own = DELETED if method == "DELETE" else {}
        alone = await is_alone(call, method, response, has_key=True, own=own)
        raise_for_change(response, asked.shown, self.name, is_alone=alone, own=own)
        try:
            # The status says that it was done: an answer that is no JSON is no error.
            value = await self._kit.read_json(response, asked.shown, is_change=True)
        except UnknownOutcome:
            value = None
        if has_errors(value):
            raise UnknownOutcome(f"{asked.shown}: it was answered with errors, and may be done.")
        return _fetched(target, response, value)


def _fetched(target: Url, response: HttpResponse, value: Json) -> Fetched:
    is_short = len(response.body) <= TEXT_BYTES_MAX
    return {
        "url": str(target),
        "status": response.status,
        "type": _type_of(response),
        "text": response.body.decode(_charset_of(response), "replace") if is_short else "",
        "json": value if is_short else None,
    }


def _check_host(url: str, named: Sequence[tuple[str, int | None]], who: str) -> Url:
    try:
        target = read_url(url)
    except Invalid as error:
        raise Refused(str(error)) from None
    if not _is_named(target, named):
        known = ", ".join(map(_spell, named))
        raise Refused(f"{target.authority} is none of the hosts that {who}: {known}.")
    return target


def _is_named(url: Url, named: Sequence[tuple[str, int | None]]) -> bool:
    return any(
        match_host(host, url.host) and url.port == (port or PORTS[url.scheme])
        for host, port in named
    )


def _type_of(response: Any) -> str:
    return (response.header("content-type") or "").partition(";")[0].strip().lower()


def _charset_of(response: Any) -> str:
    found = CHARSET.search(response.header("content-type") or "")
    named = found[1].lower() if found else ""
    return named if named in CHARSETS else "utf-8"


# -- Making the class -----------------------------------------------------------------------------


def _class_for(kinds: Sequence[type[Http]], operations: Sequence[HttpOperation]) -> type[Http]:
    """Make the class whose methods are the operations (law 1)."""
    made: dict[str, Any] = {"__module__": __name__, "__doc__": kinds[0].__doc__}
    for each in operations:
        is_taken = any(hasattr(kind, each.name) for kind in kinds)
        if is_taken or each.name in made:
            raise ConfigError(
                f"operations.{each.name}: the connector has something of this name already."
                " Rename it."
            )
        made |= _mutation_of(each) if each.is_mutation else {each.name: _read_of(each)}
    return type(Http.__name__, tuple(kinds), made)


def _read_of(operation: HttpOperation) -> Any:
    async def ask(self: Http, /, **args: Any) -> Any:
        return await self._perform(operation, args)

    is_paged = operation.paging is not None
    describe(ask, operation, "Http", first=("self",), is_paged=is_paged, takes_after=is_paged)
    terms = {**operation.terms, "by_id": operation.kind == "read_by_id"}
    return read(**terms)(ask)


def _mutation_of(operation: HttpOperation) -> dict[str, Any]:
    async def apply(self: Http, call: Call, /, **args: Any) -> Any:
        return await self._apply(operation, call)

    describe(apply, operation, "Http", first=("self", "call"))
    lifetime_s = operation.key_lifetime_s
    terms = {
        **operation.terms,
        "idempotent": lifetime_s is not None,
        "key_lifetime_s": lifetime_s,
        "key_in": "none" if operation.key is None else KEY_IN[operation.key.kind],
        "asked": asked_by(operation.verify, lifetime_s),
        "deleted": deleted_by(operation.verify),
    }
    tool = mutation(**terms)(apply)
    if (verify := operation.verify) is None:
        return {operation.name: tool}

    async def happened(self: Http, call: Call) -> Verdict:
        return await self._find(verify, call)

    happened.__name__ = f"{operation.name}{HAPPENED}"
    happened.__doc__ = f"Find out whether a call of {operation.name} took effect."
    trial = None if operation.trial is None else dict(operation.trial)

    def tried(self: Http) -> Mapping[str, Json] | None:
        return trial

    tried.__name__ = f"{operation.name}{TRIED}"
    tried.__doc__ = f"{operation.does} It is a real request to {operation.method} {operation.path}."
    return {
        operation.name: tool,
        happened.__name__: tool.reconcile(happened),
        tried.__name__: tool.trial(tried),
    }


def _read_pattern(text: str, key: str) -> tuple[str, int | None]:
    """Read a host of the settings, with its port where it is not the usual one."""
    found = WITH_PORT.fullmatch(text)
    name, port = found.groups() if found else (text, "")
    try:
        below = name.removeprefix("*.")
        host = read_host(below, path=key)
    except Invalid as error:
        raise ConfigError(f"{error} Or write *. before a name, for all below it.") from None
    if port and not 0 < int(port) <= PORT_MAX:
        raise ConfigError(f"{key}: {text[:100]!r} has no port of a server. Write example.com:8443.")
    return f"*.{host}" if below != name else host, int(port) if port else None


def _spell(pattern: tuple[str, int | None]) -> str:
    host, port = pattern
    return host if port is None else f"{host}:{port}"


def _check_texts(key: str, given: object) -> None:
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    if not is_list or not all(isinstance(each, str) for each in given):  # type: ignore[attr-defined]
        raise ConfigError(f'{key}: write a list of hosts: {key} = ["example.com"].')


def _check_headers(given: object) -> None:
    is_table = isinstance(given, Mapping)
    if not is_table or not all(isinstance(each, str) for each in given.values()):  # type: ignore[attr-defined]
        raise ConfigError('headers: write a table of texts: { "Accept-Language" = "en" }.')
