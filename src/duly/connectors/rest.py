"""The kit for services that speak JSON over HTTP: a connector derives from `Rest`.

    class Shop(Rest):
        name = "shop"

        def __init__(self, url: str) -> None:
            super().__init__(url, auth=Auth("bearer", secret="token"))

        @duly.read
        async def orders(self, after: str | None = None) -> duly.Page:
            return await self.list_page("/orders", ORDERS, after=after)

        @duly.mutation(noun="order")
        async def create_order(self, call: duly.Call, item: str) -> dict:
            return await self.change(call, "POST", "/orders", body={"item": item}, key=KEY)

        @create_order.reconcile
        async def create_order_happened(self, call: duly.Call) -> duly.Verdict:
            return await self.find(call, FIND)

Law 1: `transport.py` decides where a request goes, `status.py` what its response means. A
       connector adds only what is special about its service.
Law 2: a call is found again by its key and by nothing else. What was found without the key is not
       the call; a search whose end was not seen says nothing (L5).
Law 3: the URL, the credentials and the headers belong to one origin, and no path leaves it (K4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl

from duly.connectors.auth import Auth as Auth
from duly.connectors.auth import SignIn
from duly.connectors.base import (
    SEND_S,
    Applied,
    Call,
    Connector,
    NotApplied,
    Page,
    Unsure,
    Verdict,
)
from duly.connectors.conflict import Look, is_alone
from duly.connectors.delta import read_delta
from duly.connectors.graphql import find_fault, has_errors, read_data
from duly.connectors.json_answer import encode_body, pick, put, read_answer
from duly.connectors.key_place import KeyPlace as KeyPlace
from duly.connectors.key_place import Paging as Paging
from duly.connectors.key_place import SaidDone, asking_values, mark
from duly.connectors.key_place import Verify as Verify
from duly.connectors.paging import cursor_at_end, linked_query, page_number
from duly.connectors.response import BODY_BYTES_MAX, HttpResponse
from duly.connectors.status import (
    DELETED,
    Meaning,
    check_proof,
    meaning_of,
    raise_for_change,
    raise_for_read,
)
from duly.connectors.template import MISSING, fill_path, fill_query, flatten, has_key
from duly.connectors.transport import (
    Credentials,
    HttpRequest,
    Transport,
    add_query,
    check_header,
)
from duly.errors import ConfigError, Invalid, Refused, Transient, UnknownOutcome
from duly.rules.url import Url, read_host, read_url
from duly.rules.value import Json

READ_S: Final = 30.0
FIND_S: Final = 20.0  # for one request of a search; the host asks within 30 s
HEAVY_BYTES: Final = 64 * 1024  # a larger answer is read in a thread
WORDS_BYTES_MAX: Final = 300  # of an answer that does not say what it should
PAGES_MAX: Final = 20  # of one search for a key
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
NO_STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType({})


class Rest(Connector):
    """A service at one URL; `allow` names hosts that may be private, `ca` is a file to trust."""

    def __init__(
        self,
        url: str,
        *,
        auth: Auth | None = None,
        headers: Mapping[str, str] = NOTHING,
        allow: Collection[str] = (),
        ca: Path | None = None,
        transport: Transport | None = None,
    ) -> None:
        try:
            self.base = read_url(url)
            hosts = [read_host(each, path="allow") for each in allow]
        except Invalid as error:
            raise ConfigError(str(error)) from None
        if self.base.query:
            shown = self.base.shown
            raise ConfigError(f"url: {shown} has a query. Write it in the operations.")
        self._origin = self.base.origin
        self.auth = auth
        self._secret_names = () if auth is None else auth.secrets
        self.headers = dict(headers)
        if auth is not None and self.base.scheme == "http" and self.base.host not in hosts:
            raise ConfigError(
                f"url: {url} would send a secret without TLS. Write https, or name the host in"
                " allow if it is on your own network."
            )
        try:
            for name, value in self.headers.items():
                check_header(name, value)
        except Refused as error:
            raise ConfigError(f"headers: {error}") from None
        self._sign_in = SignIn(self, auth, ca)
        self.transport = transport or Transport(allow=hosts, ca=ca)

    # -- For reads --------------------------------------------------------------------------------

    async def fetch(
        self,
        path: str,
        query: Mapping[str, Json] = NOTHING,
        *,
        timeout_s: float = READ_S,
        is_proof: bool = False,
    ) -> Json:
        """Ask for JSON; raise Refused where there is nothing."""
        response = await self._get(path, flatten(query), timeout_s, is_proof=is_proof)
        if response is None:
            raise Refused(f"GET {self._at(path).shown}: there is nothing.")
        return await self.read_json(response, f"GET {self._at(path).shown}")

    async def fetch_one(
        self,
        path: str,
        query: Mapping[str, Json] = NOTHING,
        *,
        timeout_s: float = READ_S,
        is_proof: bool = False,
    ) -> Json:
        """Ask for one thing by its id; None where there is none."""
        response = await self._get(path, flatten(query), timeout_s, is_proof=is_proof)
        if response is None:
            return None
        answer = await self.read_json(response, f"GET {self._at(path).shown}")
        if answer is None and is_proof:
            raise Transient(f"GET {self._at(path).shown}: an empty answer says nothing.")
        return answer

    async def fetch_bytes(
        self, path: str, query: Mapping[str, Json] = NOTHING, *, timeout_s: float = READ_S
    ) -> HttpResponse | None:
        """Ask for something that is no JSON; None where there is none."""
        return await self._get(path, flatten(query), timeout_s)

    async def list_page(
        self,
        path: str,
        paging: Paging,
        query: Mapping[str, Json] = NOTHING,
        *,
        after: str | None = None,
        timeout_s: float = READ_S,
    ) -> Page[Any]:
        """Ask for one page of a list; its `last_cursor` is what the next call gives as `after`."""
        if paging.delta:
            get = partial(self._get, path, timeout_s=timeout_s)
            return await read_delta(get, self.read_json, self._at(path), paging.items, query, after)
        items, following = await self._page(path, paging, query, after, timeout_s)
        if items is None:
            raise Refused(f"GET {self._at(path).shown}: there is no list at {paging.items!r}.")
        rest = cursor_at_end(paging, after, has_items=bool(items))
        return Page(items, last_cursor=following or rest, has_more=following is not None)

    async def query_data(
        self,
        path: str,
        document: str,
        variables: Mapping[str, Json] = NOTHING,
        *,
        timeout_s: float = READ_S,
        is_proof: bool = False,
    ) -> Json:
        """Ask a GraphQL service; the document must be a query (K5)."""
        if (fault := find_fault(document)) is not None:
            raise Refused(f"The document only reads if it is a query: {fault}.")
        body: Json = {"query": document, "variables": dict(variables)}
        answer = await self.ask(path, body, timeout_s=timeout_s, is_proof=is_proof)
        return read_data(answer, f"POST {self._at(path).shown}")

    async def ask(
        self, path: str, body: Json, *, timeout_s: float = READ_S, is_proof: bool = False
    ) -> Json:
        """Ask by a POST that changes nothing: only where the service says so of this path (K5)."""
        kind, data = encode_body(body, is_form=False)
        make = partial(self._request, "POST", self._at(path), {"Content-Type": kind}, data)
        may_ask = _never if is_proof else self._may_ask
        request, response = await self._read_signed(
            lambda: replace(make(), is_query=True), timeout_s, may_ask
        )
        if not raise_for_read(response, request.shown, self.name):
            raise Refused(f"{request.shown}: there is nothing.")
        if is_proof:
            check_proof(response, request.shown)
        return await self.read_json(response, request.shown)

    async def _page(
        self,
        path: str,
        paging: Paging,
        query: Mapping[str, Json],
        after: str | None,
        timeout_s: float,
        *,
        is_proof: bool = False,
    ) -> tuple[list[Any] | None, str | None]:
        """Return the items of a page, None if there is no list, and the cursor of the next."""
        url, what = self._at(path), f"GET {self._at(path).shown}"
        number = 0 if paging.page is None else page_number(after)
        asked = flatten(query)
        if paging.link and after is not None:
            # A script may have made the cursor up. It adds fields; it changes neither the path nor
            # a field of the query, by which the settings say what may be asked.
            own = {name for name, _ in asked}
            fields = parse_qsl(after, keep_blank_values=True)
            asked += [(name, value) for name, value in fields if name not in own]
        elif after is not None and (name := paging.page or paging.parameter):
            asked.append((name, after))
        response = await self._get(path, asked, timeout_s, is_proof=is_proof)
        if response is None:
            return None, None
        answer = await self.read_json(response, what)
        items = pick(answer, paging.items)
        if not isinstance(items, list):
            return None, None
        if paging.link:
            return items, linked_query(response, url, flatten(query), paging)
        if paging.page is not None:
            return items, str(number + 1) if items else None
        following = pick(answer, paging.cursor or "") if paging.cursor else None
        is_more = following is not MISSING and following not in (None, "", False)
        return items, str(following) if is_more else None

    async def _get(
        self,
        path: str,
        query: Sequence[tuple[str, str]],
        timeout_s: float,
        *,
        is_proof: bool = False,
    ) -> HttpResponse | None:
        """Ask for something; None if there is no such thing.

        What is to prove that nothing happened comes from the place itself, and is fresh (L5).
        """
        url = add_query(self._at(path), query)
        headers = {"Cache-Control": "no-cache"} if is_proof else NOTHING
        may_ask = _never if is_proof else self._may_ask
        make = partial(self._request, "GET", url, headers)
        request, response = await self._read_signed(make, timeout_s, may_ask)
        is_there = raise_for_read(response, request.shown, self.name)
        if is_proof:
            check_proof(response, request.shown)
        return response if is_there else None

    # -- For changes ------------------------------------------------------------------------------

    async def change(
        self,
        call: Call,
        method: str,
        path: str,
        *,
        body: Json = None,
        upload: tuple[str, bytes] | None = None,
        query: Mapping[str, Json] = NOTHING,
        key: KeyPlace | None = None,
        is_form: bool = False,
        is_idempotent: bool = False,
        statuses: Mapping[int, Meaning] = NO_STATUSES,
        done: SaidDone | None = None,
        look: Look | None = None,
        is_exact: bool = False,
        timeout_s: float = SEND_S,
    ) -> Json:
        """Send a change once and return what the service answers; raise what is certain (L4).

        With `done` an answer that does not say there that it was done leaves it unknown. `upload`
        is a body that is no JSON: its type, and its bytes. `look` is the question about the call;
        if it `is_exact`, for one thing and not in a list, it is asked after a conflict.
        """
        own = {**DELETED, **statuses} if method == "DELETE" else statuses
        url = add_query(self._at(path), flatten(query))
        headers: dict[str, str] = {}
        if key is not None and key.kind == "header":
            headers[key.name] = key.spell(call.key)
        elif key is not None and key.kind == "query":
            url = add_query(url, [(key.name, key.spell(call.key))])
        elif key is not None and key.kind == "field":
            body = put(body, key.name, key.spell(call.key))
        elif key is not None and key.kind == "marker":
            body = mark(body, key.name, key.spell(call.key))
        kind, data = upload or encode_body(body, is_form=is_form)
        if kind:
            headers["Content-Type"] = kind
        make = partial(self._request, method, url, headers, data)
        request, response = await self._change_signed(make, timeout_s, own)
        alone = await is_alone(
            call,
            method,
            response,
            has_key=key is not None,
            own=own,
            look=look,
            is_exact=is_exact,
        )
        raise_for_change(
            response,
            request.shown,
            self.name,
            is_alone=alone,
            is_idempotent=is_idempotent,
            own=own,
        )
        answer = await self.read_json(response, request.shown, is_change=True)
        if has_errors(answer) or (done is not None and not done.is_said(answer, call.key)):
            words = " ".join(response.body[:WORDS_BYTES_MAX].decode("utf-8", "replace").split())
            raise UnknownOutcome(f"{request.shown}: the answer does not say it was done: {words}")
        return answer

    async def find(self, call: Call, verify: Verify) -> Verdict:
        """Look for the change that a call made, by its key (law 2)."""
        values = asking_values(call)
        path = fill_path(verify.path, values)
        query = fill_query(verify.query, values)
        if verify.graphql is not None:
            return await self._find_by_query(call, verify, path, values)
        if verify.items is None:
            return await self._find_one(call, verify, path, query)
        verdict, others, pages = await self._search(call, verify, path, query)
        if isinstance(verdict, NotApplied) and pages > 1:
            # What is deleted meanwhile moves the rest to pages that were read: so once more.
            verdict, again, _ = await self._search(call, verify, path, query)
            if isinstance(verdict, NotApplied) and again != others:
                return Unsure("the list changed while it was read")
        return verdict

    async def _find_one(
        self, call: Call, verify: Verify, path: str, query: Mapping[str, Json]
    ) -> Verdict:
        response = await self._get(path, flatten(query), FIND_S, is_proof=True)
        if response is None:
            if has_key(verify.path):
                return NotApplied()
            return Unsure("there is nothing, and the question does not name the key in its path")
        answer = await self.read_json(response, f"GET {self._at(path).shown}")
        if answer is None:
            return Unsure("the answer is empty, which says nothing about the key")
        if verify.is_call(answer, call.key):
            return _applied(answer, verify)
        return Unsure(f"what was found has another value at {verify.match!r}")

    async def _find_by_query(
        self, call: Call, verify: Verify, path: str, values: Mapping[str, Json]
    ) -> Verdict:
        """Look for the key in the list that a query of GraphQL returns."""
        document = verify.graphql or ""
        named = {name: value for name, value in values.items() if f"${name}" in document}
        data = await self.query_data(path, document, named, timeout_s=FIND_S, is_proof=True)
        items = pick(data, verify.items or "")
        if not isinstance(items, list):
            return Unsure(f"the answer has no list at {verify.items!r}")
        found = next((each for each in items if verify.is_call(each, call.key)), None)
        if found is not None:
            return _applied(found, verify)
        return Unsure(f"{len(items)} others were found and no key") if items else NotApplied()

    async def _search(
        self, call: Call, verify: Verify, path: str, query: Mapping[str, Json]
    ) -> tuple[Verdict, int, int]:
        """Look for the key in a list; return also how many others there were, on how many pages."""
        paging = replace(verify.paging or Paging(), items=verify.items or "")
        after: str | None = None
        others = pages = 0
        while pages < PAGES_MAX:
            items, after = await self._page(path, paging, query, after, FIND_S, is_proof=True)
            pages += 1
            if items is None:
                return Unsure(f"the answer has no list at {verify.items!r}"), others, pages
            for each in items:
                if verify.is_call(each, call.key):
                    return _applied(each, verify), others, pages
            others += len(items)
            if after is None:
                break
        if after is not None:
            return Unsure(f"the key is on none of the first {PAGES_MAX} pages"), others, pages
        if others and verify.paging is None and others >= verify.whole:
            # A server that does not know a field of the query returns its first page of everything.
            said = (
                f"{others} others were found and no key; the search may not be limited to the key"
            )
            return Unsure(said), others, pages
        return NotApplied(), others, pages

    # -- Within -----------------------------------------------------------------------------------

    def _relies_on(self, method: str) -> Json:
        """Return the place of the service, and as whom it is asked (K10)."""
        return [str(self.base), *(() if self.auth is None else self.auth.known)]

    async def read_json(
        self, response: HttpResponse, what: str, *, is_change: bool = False
    ) -> Json:
        """Read an answer; a large one beside the event loop, which others wait for (X2)."""
        if len(response.body) > BODY_BYTES_MAX:  # where blobs are fetched more may come
            kind = UnknownOutcome if is_change else Refused
            raise kind(f"{what}: the answer is larger than {BODY_BYTES_MAX:,} bytes.")
        if len(response.body) <= HEAVY_BYTES:
            return read_answer(response, what, is_change=is_change)
        return await self.in_thread(read_answer, response, what, is_change=is_change)

    async def _read_signed(
        self, make: Callable[[], HttpRequest], timeout_s: float, may_ask: Callable[[Url], bool]
    ) -> tuple[HttpRequest, HttpResponse]:
        """Ask, with a fresh token; after a 401 once more with another one (K9)."""
        await self._sign_in.fresh()
        request = make()
        response = await self.transport.read(request, timeout_s=timeout_s, may_ask=may_ask)
        if meaning_of(response) is Meaning.AUTH and await self._sign_in.anew(request):
            request = make()
            response = await self.transport.read(request, timeout_s=timeout_s, may_ask=may_ask)
        return request, response

    async def _change_signed(
        self,
        make: Callable[[], HttpRequest],
        timeout_s: float,
        statuses: Mapping[int, Meaning] = NO_STATUSES,
    ) -> tuple[HttpRequest, HttpResponse]:
        """Send a change once, with a fresh token; a 401 says that nothing was done (L4, K9)."""
        await self._sign_in.fresh()
        response = await self.transport.change(request := make(), timeout_s=timeout_s)
        if meaning_of(response, statuses) is Meaning.AUTH and await self._sign_in.anew(request):
            request = make()
            response = await self.transport.change(request, timeout_s=timeout_s)
        return request, response

    def _request(
        self, method: str, url: Url, headers: Mapping[str, str] = NOTHING, body: bytes = b""
    ) -> HttpRequest:
        return HttpRequest(method, url, {**self.headers, **headers}, body, self._credentials())

    def _credentials(self) -> Credentials | None:
        return None if self.auth is None else self.auth.dress(self, self.base.origin)

    def _at(self, path: str) -> Url:
        """Return the URL of a path below the base (law 3)."""
        if path and not path.startswith("/"):
            raise Refused(f"The path {path[:50]!r} does not begin with a slash.")
        try:
            return read_url(f"{self.base.origin}{self.base.path.rstrip('/')}{path}", path="path")
        except Invalid as error:
            raise Refused(str(error)) from None

    def _may_ask(self, url: Url) -> bool:
        return url.origin == self.base.origin


def _never(url: Url) -> bool:
    """Follow no redirect: another place says nothing about this one."""
    return False


def _applied(found: Json, verify: Verify) -> Verdict:
    result = pick(found, verify.result)
    return Applied(None if result is MISSING else result)
