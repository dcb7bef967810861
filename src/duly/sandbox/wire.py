"""What host and worker say to each other: frames of JSON over one socket.

Law 1: the host asks, the worker answers, one frame each; after `Drop` nothing is answered. So a
       worker that was not asked cannot say anything.
Law 2: every frame from a worker is hostile until proven otherwise: its length, its shape and, in
       `Tally`, its numbers and their order. A violation means that the worker is broken.

A frame is its length, four bytes, and so many bytes of JSON.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from duly.errors import DulyError

if TYPE_CHECKING:
    # The worker imports this file too, and has no use for an event loop.
    import asyncio
    import socket

T = TypeVar("T")

LENGTH: Final = struct.Struct("<I")
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
RECEIVE_BYTES: Final = 64 * 1024


class Violation(DulyError):
    """A worker said something it must not say."""


class Closed(DulyError):
    """The other end of the channel is gone."""


class Bounds(msgspec.Struct, frozen=True):
    """What the worker itself watches over; the host watches over the worker."""

    cpu_s: float
    memory_bytes: int
    depth: int
    output_chars: int
    log_lines: int
    log_chars: int


class World(msgspec.Struct, frozen=True):
    """The script's clock and its dice: four words of state."""

    now_ms: int
    frozen: bool
    dice: tuple[int, int, int, int]


class Argument(msgspec.Struct, frozen=True, omit_defaults=True):
    """One argument of a step; without a value it is missing."""

    value: Any = msgspec.UNSET


class Entry(msgspec.Struct, frozen=True):
    """Which function to call, and with what."""

    handler: str
    step: str
    args: tuple[Argument, ...]


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """Make a fresh context and load a text; with an entry, run that step, else declare."""

    text: str
    world: World
    bounds: Bounds
    entry: Entry | None = None


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """Give a call its result; `names` are properties of a result that is a list."""

    call: int
    value: Any
    names: dict[str, Any] | None = None


class Drop(msgspec.Struct, frozen=True, tag="drop"):
    """Forget the context."""


Request = Begin | Answer | Drop


class Ready(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The worker's first words: what of its lock held, and what is missing."""

    held: tuple[str, ...]
    missing: tuple[str, ...]


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call of the script, in its own words."""

    id: int
    path: str
    args: list[Any]
    stack: str


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the script's log."""

    after_ms: int
    text: str


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What broke the step."""

    name: str
    message: str
    stack: str


class End(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the step ended; exactly one of these is so."""

    value: Any = msgspec.UNSET
    missing: bool = False
    stalled: bool = False
    error: Fault | None = None

    def __post_init__(self) -> None:
        is_given = self.value is not msgspec.UNSET
        if is_given + self.missing + self.stalled + (self.error is not None) != 1:
            raise ValueError("an end is one of value, missing, stalled and error")


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the script did until it stood still."""

    calls: tuple[Call, ...] = ()
    logs: tuple[Line, ...] = ()
    end: End | None = None

    def __post_init__(self) -> None:
        if self.end is not None and self.calls:
            raise ValueError("a step that asks has not ended")


def pack(message: msgspec.Struct) -> bytes:
    """Write a message as JSON."""
    return msgspec.json.encode(message)


def unpack(body: bytes, kind: type[T]) -> T:
    """Read a message of exactly this kind, or raise Violation."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Violation(f"A worker sent no {kind.__name__}: {str(error)[:200]}.") from None


_REQUESTS: Final[msgspec.json.Decoder[Request]] = msgspec.json.Decoder(Request)


def unpack_request(body: bytes) -> Request:
    """Read what the host asks."""
    return _REQUESTS.decode(body)


def frame(body: bytes) -> bytes:
    """Put the length before a body."""
    return LENGTH.pack(len(body)) + body


class Tally:
    """Keeps account of one script's calls: what it may still say, and what was answered."""

    def __init__(self) -> None:
        self.waiting: set[int] = set()
        self._last = 0

    def record(self, turn: Turn) -> None:
        """Check the numbers of a turn's calls, and that nothing waits when a step returned."""
        for call in turn.calls:
            if call.id != self._last + 1:
                raise Violation(f"A worker numbered a call {call.id} after {self._last}.")
            self._last = call.id
            self.waiting.add(call.id)
        if turn.end is None and not self.waiting:
            raise Violation("A worker neither asked nor ended.")
        if turn.end is not None and turn.end.error is None and self.waiting:
            raise Violation("A worker returned before every call was answered.")

    def settle(self, call_id: int) -> None:
        """Take note of an answer; a call is answered once."""
        self.waiting.remove(call_id)


class Channel:
    """The host's end of the socket."""

    def __init__(self, end: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        end.setblocking(False)
        self._end = end
        self._loop = loop
        self._buffer = bytearray()

    async def send(self, body: bytes) -> None:
        """Send one frame."""
        try:
            await self._loop.sock_sendall(self._end, frame(body))
        except OSError as error:
            raise Closed(f"A worker is gone: {error}.") from None

    async def receive(self) -> bytes:
        """Wait for one whole frame."""
        await self._fill(LENGTH.size)
        (length,) = LENGTH.unpack_from(self._buffer)
        if length > FRAME_BYTES_MAX:
            raise Violation(f"A worker announced {length} bytes; the limit is {FRAME_BYTES_MAX}.")
        end = LENGTH.size + length
        await self._fill(end)
        body = bytes(self._buffer[LENGTH.size : end])
        del self._buffer[:end]
        if self._buffer:
            raise Violation("A worker said more than it was asked.")
        return body

    async def _fill(self, size: int) -> None:
        while len(self._buffer) < size:
            try:
                piece = await self._loop.sock_recv(self._end, RECEIVE_BYTES)
            except OSError as error:
                raise Closed(f"A worker is gone: {error}.") from None
            if not piece:
                raise Closed("A worker is gone: it closed its channel.")
            self._buffer += piece

    def close(self) -> None:
        """Give the descriptor back; nobody may wait here any more."""
        self._end.close()
