"""Reads the response of a web server, within limits of bytes (K6).

Law 1: sizes are counted as the bytes come, the decoded ones while they are decoded: a small
       response that unpacks into a large one is stopped at the limit.
Law 2: a response is whole, or `BrokenExchange` is raised; a part of one is never returned. A body
       whose end only the end of the connection shows may be cut: `is_framed` is false then.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import h11

from duly.rules.value import INTEGER_MAX

HEAD_BYTES_MAX: Final = 64 * 1024
HEADERS_MAX: Final = 200
HINTS_MAX: Final = 10  # responses of the kind 1xx before the real one
BODY_BYTES_MAX: Final = 8 * 1024 * 1024
PIECE_BYTES: Final = 64 * 1024
PIECES_MAX: Final = 50_000  # chunks of a body; each costs time, also one of a single byte
LENGTH: Final = re.compile(r"[0-9]{1,20}")
# What zlib calls gzip, and a stream with a header of its own.
ENCODINGS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": 15}


class BrokenExchange(Exception):
    """An exchange went wrong; `is_lasting` says that the next one would too."""

    def __init__(self, why: str, *, is_lasting: bool = False) -> None:
        self.why = why
        self.is_lasting = is_lasting
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A whole response: header names in lower case, the body decoded."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    is_framed: bool = True

    def header(self, name: str) -> str | None:
        """Return the first header of this name, given in lower case."""
        return next((value for each, value in self.headers if each == name), None)

    @property
    def length(self) -> int | None:
        """How many bytes the server says its body has; None if no script could hold the number."""
        text = self.header("content-length") or ""
        length = int(text) if LENGTH.fullmatch(text) else None
        return length if length is not None and length <= INTEGER_MAX else None


async def read_response(
    connection: h11.Connection,
    reader: asyncio.StreamReader,
    *,
    body_bytes_max: int,
    until: Callable[[bytearray], bool] | None = None,
) -> HttpResponse:
    """Read one response to its end.

    A stream of events may have none: `until` is asked after each piece of it, and ends it.
    """
    body: _Body | None = None
    head: h11.Response | None = None
    hints, is_over = 0, False
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as error:
            if is_over:
                raise BrokenExchange("the connection ended before its response did") from None
            raise BrokenExchange(f"its response is malformed ({error})") from None
        if event is h11.NEED_DATA:
            piece = await reader.read(PIECE_BYTES)
            is_over = not piece
            connection.receive_data(piece)
        elif isinstance(event, h11.InformationalResponse):
            hints += 1
            if hints > HINTS_MAX or event.status_code == 101:
                raise BrokenExchange("its response is malformed (it never answers)")
        elif isinstance(event, h11.Response):
            head = event
            if len(head.headers) > HEADERS_MAX:
                raise BrokenExchange(
                    f"its response has more than {HEADERS_MAX} headers", is_lasting=True
                )
            body = _Body(_encoding_of(head), body_bytes_max)
        elif isinstance(event, h11.Data) and body is not None:
            body.add(bytes(event.data))
            assert head is not None
            if until is not None and _is_stream(head) and until(body.plain):
                return HttpResponse(head.status_code, _headers_of(head), bytes(body.plain))
        elif isinstance(event, h11.EndOfMessage) and head is not None and body is not None:
            return HttpResponse(
                head.status_code, _headers_of(head), body.end(), is_framed=_is_framed(head)
            )
        else:
            raise BrokenExchange("the connection ended before its response did")


class _Body:
    """Collects a body, decoded, and stops at the limit."""

    def __init__(self, encoding: str, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._coded_bytes = 0
        self._pieces = 0
        self.plain = bytearray()
        self._decoder = zlib.decompressobj(ENCODINGS[encoding]) if encoding else None

    def add(self, piece: bytes) -> None:
        self._coded_bytes += len(piece)
        self._pieces += 1
        if self._pieces > PIECES_MAX:
            raise BrokenExchange("its response is in too many pieces", is_lasting=True)
        if self._decoder is None:
            self.plain += piece
        else:
            room = self._limit_bytes - len(self.plain) + 1
            try:
                self.plain += self._decoder.decompress(piece, room)
            except zlib.error as error:
                raise BrokenExchange(f"its response cannot be decoded ({error})") from None
            if self._decoder.unused_data:
                raise BrokenExchange("its response has more behind its end")
        if max(self._coded_bytes, len(self.plain)) > self._limit_bytes:
            most = f"{self._limit_bytes:,} bytes"
            raise BrokenExchange(f"its response is larger than {most}", is_lasting=True)

    def end(self) -> bytes:
        is_cut = self._decoder is not None and self._coded_bytes > 0 and not self._decoder.eof
        if is_cut:
            raise BrokenExchange("its response ends too early")
        return bytes(self.plain)


def _encoding_of(head: h11.Response) -> str:
    given = _first(head, b"content-encoding").strip().lower()
    encoding = "" if given == "identity" else given
    if encoding and encoding not in ENCODINGS:
        raise BrokenExchange(f"its response is encoded as {given[:50]!r}", is_lasting=True)
    return encoding


def _is_stream(head: h11.Response) -> bool:
    return _first(head, b"content-type").partition(";")[0].strip().lower() == "text/event-stream"


def _is_framed(head: h11.Response) -> bool:
    """Tell whether the end of the body was announced; none has a body with these statuses."""
    has_end = _first(head, b"content-length") or _first(head, b"transfer-encoding")
    return bool(has_end) or head.status_code in (204, 304)


def _headers_of(head: h11.Response) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in head.headers)


def _first(head: h11.Response, name: bytes) -> str:
    return next((value.decode("latin-1") for each, value in head.headers if each == name), "")
