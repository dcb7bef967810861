"""What host and worker say to each other: frames of JSON over one socket.

Law 1: the host asks, the worker answers, one frame each; after `Drop` nothing is answered. So a
       worker that was not asked cannot say anything.
Law 2: every frame from a worker is hostile until proven otherwise: its length, its shape and, in
       `Tally`, its numbers and their order. A violation means that the worker is broken.

A frame is its length, four bytes, and so many bytes of JSON.
"""

from __future__ import annotations

import struct
from socket import MSG_PEEK
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec

from duly.errors import DulyError, Invalid

if TYPE_CHECKING:
    # The worker imports this file too, and has no use for an event loop.
    import asyncio
    import socket

T = TypeVar("T")

LENGTH: Final = struct.Struct("<I")
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
RECEIVE_BYTES: Final = 64 * 1024
# What a step asks and returns, in all. A tiny value is two bytes on the way and eighty here, and
# reading millions of them at once would stop the event loop (X2).
VALUES_MAX: Final = 500_000
COUNTED_BYTES: Final = 64 * 1024
WORDS_MAX: Final = 4000
AFTER_MS_MAX: Final = 1_000_000_000
NOTHING: Final = msgspec.Raw(b"null")


Words = Annotated[str, msgspec.Meta(max_length=WORDS_MAX)]


class Violation(DulyError):
    """A worker said something it must not say."""


class Closed(DulyError):
    """The other end of the channel is gone."""


class Bounds(msgspec.Struct, frozen=True):
    """What the worker itself watches over; the host watches over the worker."""

    cpu_s: float
    memory_bytes: int
    depth: int
    calls: int
    own_calls: int
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
    """Make a fresh context and load a text; with an entry, run that step, else declare.

    What only the context reads is not read on the way: it passes as the JSON it is.
    """

    text: str
    world: World
    bounds: Bounds
    entry: msgspec.Raw = NOTHING


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """Give a call its result; `names` are properties of a result that is a list."""

    call: int
    value: msgspec.Raw
    names: msgspec.Raw = NOTHING


class Drop(msgspec.Struct, frozen=True, tag="drop"):
    """Forget the context."""


Request = Begin | Answer | Drop


class Study(msgspec.Struct, frozen=True, tag="study"):
    """Let a worker that only reads sources run one of its functions."""

    what: str
    body: bytes


class Studied(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a function made of it."""

    body: bytes


Studying = Study | Drop


class Ready(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The worker's first words: what of its lock held, and what is missing."""

    held: tuple[str, ...]
    missing: tuple[str, ...]


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call of the script, in its own words."""

    id: int
    path: Words
    args: list[Any]
    stack: Words


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the script's log, or how many lines past the limit were left out."""

    after_ms: Annotated[int, msgspec.Meta(ge=0, le=AFTER_MS_MAX)]
    text: str
    left_out: Annotated[int, msgspec.Meta(ge=0, le=AFTER_MS_MAX)] = 0


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What broke the step."""

    name: Words
    message: Words
    stack: Words


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


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the script did until it stood still, and whether its worker must not take another."""

    calls: tuple[Call, ...] = ()
    logs: tuple[Line, ...] = ()
    end: End | None = None
    is_worn: bool = False

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


def count_values(body: bytes) -> int:
    """Count the values of a JSON text before it is decoded; at least as many as there are.

    Every value but the first follows a comma or an opening bracket outside of strings. The text is
    read in pieces, so that a thread that counts does not stop the other threads.
    """
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    count, is_inside = 1, 0
    for at in range(0, len(bare), COUNTED_BYTES):
        parts = bare[at : at + COUNTED_BYTES].split(b'"')
        outside = b"".join(parts[is_inside::2])
        is_inside ^= (len(parts) - 1) & 1
        count += sum(outside.count(mark) for mark in (b",", b"[", b"{"))
    return count


def worn(body: bytes) -> bytes:
    """Say in a turn that was already written that its worker is worn."""
    return body[:-1] + b',"is_worn":true}'


def raw(value: Any) -> msgspec.Raw:
    """Write a value as JSON that is passed on unread."""
    return msgspec.Raw(msgspec.json.encode(value))


_STUDYING: Final[msgspec.json.Decoder[Studying]] = msgspec.json.Decoder(Studying)
_REQUESTS: Final[msgspec.json.Decoder[Request]] = msgspec.json.Decoder(Request)


def unpack_request(body: bytes) -> Request:
    """Read what the host asks."""
    return _REQUESTS.decode(body)


def unpack_study(body: bytes) -> Studying:
    """Read what the host asks of a worker that reads sources."""
    return _STUDYING.decode(body)


def frame(body: bytes) -> bytes:
    """Put the length before a body."""
    return LENGTH.pack(len(body)) + body


class Tally:
    """Keeps account of one script's calls: what it may still say, and what was answered."""

    def __init__(
        self, *, calls_max: int = 10_000, lines_max: int = 1_000, line_chars_max: int = WORDS_MAX
    ) -> None:
        self.waiting: set[int] = set()
        self._calls_max = calls_max
        self._lines_max = lines_max
        self._line_chars_max = line_chars_max
        self._last = 0
        self._lines = 0
        self._values = 0

    def count(self, body: bytes) -> None:
        """Refuse a turn that brings more values than a step may, before it is read."""
        self._values += count_values(body)
        if self._values > VALUES_MAX:
            raise Invalid(code="too_many_values", facts={"limit": VALUES_MAX})

    def record(self, turn: Turn) -> None:
        """Check a turn's calls and lines, and that nothing waits when a step returned."""
        if self._last + len(turn.calls) > self._calls_max:
            raise Violation("A worker made more calls than a step may.")
        said = [line for line in turn.logs if not line.left_out]
        self._lines += len(said)
        if self._lines > self._lines_max or len(turn.logs) > len(said) + 1:
            raise Violation("A worker wrote more lines than a step may.")
        if any(len(line.text) > self._line_chars_max for line in turn.logs):
            raise Violation("A worker wrote a longer line than a step may.")
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
    """The host's end of the socket.

    It listens all the time, so that a turn costs one write and one read. A worker that sends
    without being asked is not read again.
    """

    def __init__(self, end: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        end.setblocking(False)
        self._end = end
        self._loop = loop
        self._buffer = bytearray()
        self._is_owed = True  # a worker speaks first, then once whenever it was asked
        self._body: bytes | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._trouble: DulyError | None = None
        loop.add_reader(end, self._hear)

    def send_now(self, body: bytes) -> bytes:
        """Send one frame as far as it goes without waiting; return what is left of it."""
        self._must_be_quiet()
        whole = frame(body)
        self._is_owed = True
        try:
            return whole[self._end.send(whole) :]
        except BlockingIOError:
            return whole
        except OSError as error:
            raise Closed(f"A worker is gone: {error}.") from None

    def _must_be_quiet(self) -> None:
        """Refuse bytes that came before they were asked for, also unread ones (law 1)."""
        if self._trouble is not None:
            raise self._trouble
        try:
            said = self._body or self._buffer or self._end.recv(1, MSG_PEEK)
        except OSError:
            return  # nothing to read, or the worker is gone: the next send finds out
        if said:
            raise Violation("A worker said more than it was asked.")

    async def send_rest(self, rest: bytes) -> None:
        """Send what was left of a frame."""
        try:
            await self._loop.sock_sendall(self._end, rest)
        except OSError as error:
            raise Closed(f"A worker is gone: {error}.") from None

    async def send(self, body: bytes) -> None:
        """Send one frame."""
        if rest := self.send_now(body):
            await self.send_rest(rest)

    async def receive(self, within_s: float) -> bytes | None:
        """Wait for one whole frame; None if it has not come in time.

        One that came while no task waited is kept.
        """
        until_s = self._loop.time() + within_s
        while self._body is None:
            if self._trouble is not None:
                raise self._trouble
            if self._loop.time() >= until_s:
                return None
            self._wake_at(until_s)
            self._waiter = self._loop.create_future()
            await self._waiter
        body, self._body = self._body, None
        return body

    def _wake_at(self, until_s: float) -> None:
        """Set the alarm; one that an earlier frame left rings too early, and is set again then.

        So a worker that answers in time costs a timer now and then, not one for every frame.
        """
        if self._alarm is not None:
            if self._alarm.when() <= until_s:
                return
            self._alarm.cancel()
        self._alarm = self._loop.call_at(until_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._wake()

    def _hear(self) -> None:
        try:
            piece = self._end.recv(RECEIVE_BYTES)
            if not piece:
                raise Closed("A worker is gone: it closed its channel.")
            self._add(piece)
            if self._body is not None:
                self._wake()
        except BlockingIOError:
            pass
        except OSError as error:
            self._give_up(Closed(f"A worker is gone: {error}."))
        except (Closed, Violation) as error:
            self._give_up(error)

    def _add(self, piece: bytes) -> None:
        """Take what came, and keep the frame if it is whole."""
        if not self._is_owed:
            raise Violation("A worker said more than it was asked.")
        self._buffer += piece
        if len(self._buffer) < LENGTH.size:
            return
        (length,) = LENGTH.unpack_from(self._buffer)
        if length > FRAME_BYTES_MAX:
            raise Violation(f"A worker announced {length} bytes; the limit is {FRAME_BYTES_MAX}.")
        end = LENGTH.size + length
        if len(self._buffer) > end:
            raise Violation("A worker said more than it was asked.")
        if len(self._buffer) == end:
            self._body = bytes(memoryview(self._buffer)[LENGTH.size :])
            self._buffer = bytearray()
            self._is_owed = False

    def _give_up(self, trouble: DulyError) -> None:
        self._trouble = trouble
        self._loop.remove_reader(self._end)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def abandon(self) -> None:
        """Give the descriptor back in a forked child, whose event loop does not watch it."""
        self._end.close()

    def close(self) -> None:
        """Give the descriptor back; no task may wait here any more."""
        if self._alarm is not None:
            self._alarm.cancel()
        if not self._loop.is_closed():
            self._loop.remove_reader(self._end)
        self._end.close()
