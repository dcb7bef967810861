"""What a request brings: a body within its limits, arguments out of it or out of the query (G10).

Law 1  Content type, size and time are judged before a body is read, and its depth, its number of
       values and keys that stand twice before it is used.
Law 2  Nothing is guessed: a query says text, and what is no text is read as JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from duly.api.registry import Parameter, Verb
from duly.api.value import Json
from duly.api.wire import read_strictly, scan
from duly.errors import Invalid, RequestRefused, short
from duly.faces.web.guard import visit_of

KIB: Final = 1024
BODY_BYTES_MAX: Final = 1024 * KIB
FORM_BYTES_MAX: Final = 64 * KIB
QUERY_CHARS_MAX: Final = 16 * KIB
FIELDS_MAX: Final = 100
BODY_S_MAX: Final = 20.0
SMALL_BYTES: Final = 64 * KIB
LARGE_AT_ONCE_MAX: Final = 8
DEPTH_MAX: Final = 100
JSON: Final = "application/json"
BODY: Final = "the body"  # what an error of a body is about
UNIONS: Final = (Union, UnionType)
FORM: Final = "application/x-www-form-urlencoded"


class Large:
    """Lets a few large bodies through to the host at once; the others wait, small ones do not.

    A body is read before its turn, so that a client that sends slowly keeps no other waiting.
    """

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(LARGE_AT_ONCE_MAX)

    @asynccontextmanager
    async def turn(self, size: int) -> AsyncIterator[None]:
        """Wait for a turn, if it takes one."""
        if size <= SMALL_BYTES:
            yield
            return
        async with self._turns:
            yield


async def read_body(request: Request, media_type: str, limit_bytes: int = BODY_BYTES_MAX) -> bytes:
    """Read a body of a type, or refuse it by its type, its size or the time it takes."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != media_type:
        facts = {"given": short(given), "wanted": media_type}
        raise RequestRefused(code="wrong_media_type", subject="body", facts=facts)
    length = request.headers.get("content-length")
    if length is not None and (not length.isdigit() or int(length) > limit_bytes):
        raise _too_long(limit_bytes)
    read = bytearray()
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for chunk in request.stream():
                read += chunk
                if len(read) > limit_bytes:
                    raise _too_long(limit_bytes)
    except TimeoutError:
        facts = {"seconds": f"{BODY_S_MAX:g}"}
        raise RequestRefused(code="body_late", subject="body", facts=facts) from None
    except ClientDisconnect:
        raise RequestRefused(code="body_late", subject="body") from None
    await visit_of(request).confirm()  # a body takes its time, and a token may be revoked meanwhile
    return bytes(read)


def _too_long(limit_bytes: int) -> RequestRefused:
    facts = {"limit": limit_bytes, "unit": "bytes"}
    return RequestRefused(code="body_too_long", subject="body", facts=facts)


def read_object(body: bytes) -> dict[str, Json]:
    """Read the arguments of a verb out of a body; an empty one has none."""
    return read_strictly(body, DEPTH_MAX, scan(body), BODY) if body.strip() else {}


def read_text(body: bytes) -> str:
    """Read a body as text, exactly as it was sent."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise Invalid(code="not_utf8", subject="body", facts={"byte": error.start}) from None


def read_pairs(text: str, limit_chars: int = QUERY_CHARS_MAX) -> list[tuple[str, str]]:
    """Read a query, or the fields of a form, whose length was judged when it was read."""
    if len(text) > limit_chars:
        facts = {"limit": limit_chars, "unit": "characters"}
        raise Invalid(code="too_long", subject="query", facts=facts)
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
    except ValueError as error:
        facts = {"cause": short(error)}
        raise Invalid(code="wrong_shape", path="query", facts=facts) from None


def refuse_query(request: Request) -> None:
    """Refuse a query where the arguments stand in the body: half of them would be dropped."""
    if request.url.query:
        raise Invalid(code="query_of_act", path="query")


def read_arguments(verb: Verb, pairs: Iterable[tuple[str, str]]) -> dict[str, Json]:
    """Make arguments of the fields of a query or a form; the host checks them."""
    kinds = {each.name: each for each in verb.parameters}
    args: dict[str, Json] = {}
    for name, text in pairs:
        if name in args:
            raise Invalid(code="given_twice", path=short(name))
        known = kinds.get(name)
        args[name] = text if known is None else _read(known, text)
    return args


def _read(parameter: Parameter, text: str) -> Json:
    if parameter.words or _is_text(parameter.kind):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text  # the host names what it wants in its place
    # It is JSON, or nearly: a number that JSON has no word for, and a key that stands twice, are
    # refused here.
    (found,) = read_object(b'{"value":%b}' % text.encode()).values()
    return found


def _is_text(kind: Any) -> bool:
    """Tell whether a text is taken as it stands, also where a number could be given instead."""
    base = get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
    return base is str or (get_origin(base) in UNIONS and str in get_args(base))
