"""What the host and the interpreter of Python scripts say to each other, byte by byte.

Law 1: every event is hostile until proven otherwise. A field that is cut off, a number too large, a
       text that is not UTF-8, a value of another kind than was asked for: each is a Violation, and
       the process that sent it is ended.
Law 2: nothing is built from an event but texts, numbers and bytes that were in it, and its fields
       are counted: a long event is dear for the worker that wrote it, not for the host.

The interpreter's own protocol, version 6 (`monty.v1` in protocol buffers): the host sends one
request and the interpreter answers with events, of which the last ends the turn. Each is a frame as
in `wire`. Only what Duly uses is written down here; a field that is not known is passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from duly.sandbox.wire import Violation

PROTOCOL_VERSION: Final = 6
VARINT_BYTES_MAX: Final = 10
NUMBER, EIGHT_BYTES, PART, FOUR_BYTES = 0, 1, 2, 5  # how a field is written
BITS_64: Final = 0xFFFF_FFFF_FFFF_FFFF
DOUBLE: Final = struct.Struct("<d")
NO_PART: Final = memoryview(b"")
# A deep traceback has some 5,000; to read millions would hold the host up (X2).
FIELDS_MAX: Final = 20_000
DIAGNOSTICS_AS_JSON: Final = 4
STUBS: Final = "stubs of modules"  # what the type checker asks for

Field: TypeAlias = "int | memoryview"
Fields: TypeAlias = "list[tuple[int, Field]]"
Scalar: TypeAlias = "str | bytes | float | date | datetime | None"


class _Other(Enum):
    OTHER = "other"


OTHER: Final = _Other.OTHER  # a value that is neither a text nor None
Other = Literal[_Other.OTHER]


class Kind(IntEnum):
    """What an event is about; the number is the field it stands in."""

    PRINTED = 1
    CALLED = 2
    ASKED_SYSTEM = 3
    ASKED_NAME = 4
    WAITS = 5
    RETURNED = 6
    RAISED = 7
    MISTYPED = 8
    DUMPED = 9
    DONE = 10
    BROKEN = 11


KINDS: Final = MappingProxyType({int(each): each for each in Kind})


class Event(NamedTuple):
    """One event, not read any further than its kind."""

    kind: Kind
    body: memoryview


class Call(NamedTuple):
    """A call of a function of the host's; None in place of arguments that are not all texts."""

    id: int
    name: str
    args: tuple[str, ...] | None


class SystemCall(NamedTuple):
    """A question for the clock, the dice or a sleep; without a name it is one Duly refuses."""

    id: int
    name: str
    args: tuple[Any, ...] = ()


class Raised(NamedTuple):
    """An exception that ended the script, and where: file, line and column, the innermost last."""

    kind: str
    message: str
    places: tuple[tuple[str, int, int], ...]

    @property
    def words(self) -> str:
        """Write it as Python does."""
        return f"{self.kind}: {self.message}" if self.message else self.kind


# -- Requests -----------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3 | NUMBER) + _varint(number)


def _part(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | PART) + _varint(len(body)) + body


def _signed(field: int, number: int) -> bytes:
    """Write a number that may be below zero: as the interpreter reads it, in 64 bits."""
    return _number(field, number & BITS_64)


def _arena(nodes: Iterable[bytes]) -> bytes:
    """Write values: each names the ones it holds by their place, and follows them."""
    return b"".join(_part(2, node) for node in nodes)


def _node(value: Scalar) -> bytes:
    if value is None:
        return _part(2, b"")
    if isinstance(value, str):
        return _part(8, value.encode())
    if isinstance(value, bytes):
        return _part(9, value)
    if isinstance(value, float):
        return _varint(7 << 3 | EIGHT_BYTES) + DOUBLE.pack(value)
    day = _number(1, value.year) + _number(2, value.month) + _number(3, value.day)
    return _part(19, day + _time(value)) if isinstance(value, datetime) else _part(17, day)


def _time(value: datetime) -> bytes:
    parts = (value.hour, value.minute, value.second, value.microsecond)
    written = b"".join(_number(field, part) for field, part in enumerate(parts, 4))
    offset = value.utcoffset()
    if offset is None:
        return written
    written += _signed(8, round(offset.total_seconds()))
    named = value.tzname()
    is_named = value.tzinfo is not None and named != timezone(offset).tzname(None)
    return written + (_part(9, named.encode()) if is_named and named else b"")


def configure(
    *, wall_s: float, memory_bytes: int, recursion: int, stubs: str | None = None
) -> bytes:
    """Begin a session with these limits; with stubs its texts are checked for types, not run.

    Clock, dice and sleep are asked of the host. How often a script asks is the host's to count.
    """
    limits = _number(2, memory_bytes) + _number(4, recursion) + _number(6, int(wall_s * 1_000_000))
    asked = _part(2, b"") + _part(5, _part(2, b"")) + _part(7, b"")
    body = _part(1, b"main.py") + _part(2, limits)
    if stubs is not None:
        body += _number(3, 1) + _part(4, stubs.encode()) + _number(7, DIAGNOSTICS_AS_JSON)
    return _part(1, body + _number(9, PROTOCOL_VERSION) + _part(11, asked))


def feed(text: str, inputs: Mapping[str, tuple[str, ...]] = MappingProxyType({})) -> bytes:
    """Run a text in the session; each input is a tuple of texts."""
    nodes: list[bytes] = []
    named = b""
    for name, given in inputs.items():
        first = len(nodes)
        nodes += [_node(each) for each in given]
        held = b"".join(_varint(place) for place in range(first, len(nodes)))
        named += _part(2, _part(1, name.encode()) + _number(2, len(nodes)))
        nodes.append(_part(12, _part(1, held)))
    values = _part(3, _arena(nodes)) if nodes else b""
    return _part(3, _part(1, text.encode()) + named + values)


def give(call_id: int, value: Scalar) -> bytes:
    """Give a call its value, and go on."""
    result = _number(1, call_id) + _part(2, _number(1, 0)) + _part(3, _arena([_node(value)]))
    return _part(4, result)


def give_stubs(call_id: int, modules: Mapping[str, str]) -> bytes:
    """Give the type checker the stubs of modules."""
    nodes = [_node(each) for pair in modules.items() for each in pair]
    pairs = (_part(1, _number(1, key) + _number(2, key + 1)) for key in range(0, len(nodes), 2))
    values = _arena([*nodes, _part(14, b"".join(pairs))])
    return _part(4, _number(1, call_id) + _part(2, _number(1, len(nodes))) + _part(3, values))


def promise(call_id: int) -> bytes:
    """Let the script go on; the value of this call comes later."""
    return _part(4, _number(1, call_id) + _part(2, _number(3, call_id)))


def refuse(call_id: int) -> bytes:
    """Answer that there is no such thing, in the words the interpreter has for it."""
    return _part(4, _number(1, call_id) + _part(2, _part(5, b"")))


def refuse_function(call_id: int, name: str) -> bytes:
    """Answer that there is no function of this name."""
    return _part(4, _number(1, call_id) + _part(2, _part(4, name.encode())))


def keep(call_id: int, text: bytes) -> bytes:
    """Keep a promise with a text in UTF-8, and go on."""
    result = _part(1, _number(1, call_id) + _part(2, _number(1, 0)))
    return _part(6, result + _part(2, _arena([_part(8, text)])))


def load(image: bytes) -> bytes:
    """Begin a session that is a copy of one that was dumped."""
    return _part(8, _part(1, image))


def abort(kind: str, message: str) -> bytes:
    """Raise, where the script stands, what it cannot catch."""
    return _part(11, _part(1, _part(1, kind.encode()) + _part(2, message.encode())))


NO_SUCH_NAME: Final = _part(5, _part(3, b""))
DUMP: Final = _part(7, b"")
RESET: Final = _part(9, b"")


# -- Events -------------------------------------------------------------------------------------


class Reader:
    """Reads the fields of one event; they are counted, however deep they stand."""

    def __init__(self) -> None:
        self._left = FIELDS_MAX

    def fields(self, body: memoryview) -> Iterator[tuple[int, Field]]:
        """Read a message field by field: a number, or the part of the message it stands in."""
        at, end = 0, len(body)
        while at < end:
            self._count()
            key, at = _read_varint(body, at)
            kind = key & 7
            if kind == NUMBER:
                number, at = _read_varint(body, at)
                yield key >> 3, number
                continue
            if kind == PART:
                size, at = _read_varint(body, at)
            elif kind in (EIGHT_BYTES, FOUR_BYTES):
                size = 8 if kind == EIGHT_BYTES else 4
            else:
                raise Violation("A worker sent a field of a kind that there is not.")
            if size > end - at:
                raise Violation("A worker sent half a field.")
            yield key >> 3, body[at : at + size]
            at += size

    def inner(self, value: Field) -> Iterator[tuple[int, Field]]:
        """Read a message inside a message."""
        return self.fields(_as_part(value))

    def numbers(self, value: Field) -> list[int]:
        """Read numbers, one or many in a row."""
        if isinstance(value, int):
            return [value]
        found, at = list[int](), 0
        while at < len(value):
            self._count()
            number, at = _read_varint(value, at)
            found.append(number)
        return found

    def values(self, arena: Field) -> list[str | Other | None]:
        """Read values by their places: texts, Python's None, and others that are not read."""
        found: list[str | Other | None] = []
        for field, node in self.inner(arena):
            if field == 2:
                value: str | Other | None = OTHER
                for inner, part in self.inner(node):
                    value = _as_text(part) if inner == 8 else None if inner == 2 else OTHER
                found.append(value)
        return found

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Violation(f"A worker sent an event of more than {FIELDS_MAX} fields.")


def read_event(frame: bytes) -> Event:
    """Find out what an event is about."""
    for field, value in Reader().fields(memoryview(frame)):
        if field in KINDS:
            return Event(KINDS[field], _as_part(value))
    raise Violation("A worker sent an event that says nothing.")


def read_printed(body: memoryview) -> Iterator[tuple[int, str]]:
    """Read what was printed: the number of the stream, and the text."""
    reader = Reader()
    for field, segment in reader.fields(body):
        if field == 1:
            given = dict(reader.inner(segment))
            yield _as_number(given.get(1, 0)), _as_text(given.get(2, NO_PART))


def read_call(body: memoryview) -> Call:
    """Read a call of a function of the host's."""
    reader = Reader()
    call_id, name, is_plain = 0, "", True
    places: list[int] = []
    values: list[str | Other | None] = []
    for field, value in reader.fields(body):
        match field:
            case 1:
                name = _as_text(value)
            case 2:
                places += reader.numbers(value)
            case 3 | 5:  # arguments with names; a method of a value of the host's
                is_plain = False
            case 4:
                call_id = _as_number(value)
            case 7:
                values = reader.values(value)
    args = [_value_at(values, place) for place in places]
    texts = tuple(each for each in args if isinstance(each, str))
    return Call(call_id, name, texts if is_plain and len(texts) == len(args) else None)


def read_system_call(body: memoryview) -> SystemCall:
    """Read a question for the clock, the dice or a sleep."""
    reader = Reader()
    call_id, name, args = 0, "", tuple[Any, ...]()
    for field, value in reader.fields(body):
        if field == 1:
            call_id = _as_number(value)
        elif field in SYSTEM_CALLS:
            name, read_arguments = SYSTEM_CALLS[field]
            args = read_arguments(reader, list(reader.inner(value)))
    return SystemCall(call_id, name, args)


def read_waiting(body: memoryview) -> list[int]:
    """Read for which calls a script waits."""
    reader = Reader()
    return [
        each for field, value in reader.fields(body) if field == 1 for each in reader.numbers(value)
    ]


def read_returned(body: memoryview) -> str | Other | None:
    """Read what a text came to."""
    reader = Reader()
    place = 0
    values: list[str | Other | None] = []
    for field, value in reader.fields(body):
        if field == 1:
            place = _as_number(value)
        elif field == 2:
            values = reader.values(value)
    return _value_at(values, place)


def read_raised(body: memoryview) -> Raised:
    """Read an exception."""
    reader = Reader()
    kind, message, places = "", "", list[tuple[str, int, int]]()
    for field, raised in reader.fields(body):
        for inner, value in reader.inner(raised) if field == 1 else ():
            match inner:
                case 1:
                    kind = _as_text(value)
                case 2:
                    message = _as_text(value)
                case 3:
                    places.append(_place(reader, value))
    return Raised(kind, message, tuple(places))


def read_text(body: memoryview) -> str:
    """Read an event that is one text."""
    return _as_text(dict(Reader().fields(body)).get(1, NO_PART))


def read_dump(body: memoryview) -> bytes:
    """Read the image of a session."""
    return bytes(_as_part(dict(Reader().fields(body)).get(1, NO_PART)))


def _place(reader: Reader, frame: Field) -> tuple[str, int, int]:
    given = dict(reader.inner(frame))
    start = dict(reader.inner(given.get(2, NO_PART)))
    line, column = (_as_number(start.get(field, 0)) for field in (1, 2))
    return _as_text(given.get(1, NO_PART)), line, column


def _no_arguments(_: Reader, __: Fields) -> tuple[()]:
    return ()


def _size(_: Reader, given: Fields) -> tuple[int]:
    return (_as_number(dict(given).get(1, 0)),)


def _modules(_: Reader, given: Fields) -> tuple[str, ...]:
    return tuple(_as_text(value) for field, value in given if field == 1)


def _zone(reader: Reader, given: Fields) -> tuple[timezone | None]:
    if not given:
        return (None,)
    zone = dict(reader.inner(given[0][1]))
    seconds = _as_number(zone.get(1, 0))
    try:
        offset = timedelta(seconds=seconds - (1 << 64 if seconds >> 63 else 0))
        return (timezone(offset, _as_text(zone[2])) if 2 in zone else timezone(offset),)
    except (ValueError, OverflowError):
        raise Violation("A worker named a time zone that there is not.") from None


def _seconds(_: Reader, given: Fields) -> tuple[float]:
    written = _as_part(dict(given).get(1, memoryview(DOUBLE.pack(0.0))))
    if len(written) != DOUBLE.size:
        raise Violation("A worker sent half a number.")
    (seconds,) = DOUBLE.unpack(written)
    return (seconds,)


# By the field of a system call: its name, and how its arguments are read.
SYSTEM_CALLS: Final[Mapping[int, tuple[str, Callable[[Reader, Fields], tuple[Any, ...]]]]] = (
    MappingProxyType(
        {
            23: ("date.today", _no_arguments),
            24: ("datetime.now", _zone),
            25: ("os.urandom", _size),
            26: ("time.time", _no_arguments),
            27: ("time.sleep", _seconds),
            28: ("asyncio.sleep", _seconds),
            32: (STUBS, _modules),
        }
    )
)


def _read_varint(body: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    for byte in body[at : at + VARINT_BYTES_MAX]:
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & BITS_64, at
        shift += 7
    raise Violation("A worker sent half a number, or one too large.")


def _value_at(values: list[str | Other | None], place: int) -> str | Other | None:
    if place >= len(values):
        raise Violation("A worker named a value that it did not send.")
    return values[place]


def _as_number(value: Field) -> int:
    if not isinstance(value, int):
        raise Violation("A worker sent a part where a number belongs.")
    return value


def _as_part(value: Field) -> memoryview:
    if isinstance(value, int):
        raise Violation("A worker sent a number where a part belongs.")
    return value


def _as_text(value: Field) -> str:
    try:
        return str(_as_part(value), "utf-8")
    except UnicodeDecodeError:
        raise Violation("A worker sent a text that is not UTF-8.") from None
