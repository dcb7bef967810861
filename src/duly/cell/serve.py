"""The inside of a cell: named readers of strangers' bytes, and nothing else (K7).

Law 1: the process is locked before it reads its first byte, and everything it needs is loaded
       before that.
Law 2: it runs the readers it was started with, by name, one at a time; a reader is a function of
       bytes, and its value leaves as JSON.
Law 3: an error of a reader is an answer: its name, and the process goes on. A process that has
       answered `ASKED_MAX` questions, or was not asked for a minute, ends by itself.
"""

from __future__ import annotations

import gc
import os
import select
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from duly import errors
from duly.cell import lock
from duly.cell.cell import LENGTH, CellReady

IDLE_MS: Final = 60_000
ASKED_MAX: Final = 10_000  # then the process ends, and with it what a reader has leaked
NAME_END: Final = b"\0"

Reader = Callable[[bytes], Any]


class CellAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The answer to a question: a value, or the name of the error."""

    value: msgspec.Raw = msgspec.Raw(b"null")
    error: str | None = None


def serve(channel: int, readers: Mapping[str, Reader], *, memory_bytes: int) -> None:
    """Serve questions until the channel ends; late imports must be done before."""
    errors.speak_in_codes()  # of an error only its name leaves this process
    msgspec.json.encode(CellAnswer())
    report = lock.lock((channel,), lock.Profile(memory_bytes=memory_bytes))
    _write(channel, msgspec.json.encode(CellReady(report.held, report.missing)))
    gc.freeze()
    requests = select.poll()
    requests.register(channel, select.POLLIN)
    for _ in range(ASKED_MAX):
        if not requests.poll(IDLE_MS):
            return
        body = _read(channel)
        if body is None:
            return
        _write(channel, _answer(readers, body))
        del body


def question(name: str, data: bytes) -> bytes:
    """Write a question: the name of a reader, and what it is to read."""
    return name.encode() + NAME_END + data


def _answer(readers: Mapping[str, Reader], body: bytes) -> bytes:
    name, _, data = body.partition(NAME_END)
    try:
        value = readers[name.decode()](data)
        return msgspec.json.encode(CellAnswer(msgspec.Raw(msgspec.json.encode(value))))
    except Exception as error:
        # A stranger chose these bytes, so the reader may raise anything, also MemoryError.
        return msgspec.json.encode(CellAnswer(error=type(error).__name__))


def _read(channel: int) -> bytes | None:
    head = _read_exactly(channel, LENGTH.size)
    return None if head is None else _read_exactly(channel, LENGTH.unpack(head)[0])


def _read_exactly(channel: int, size: int) -> bytes | None:
    body = bytearray()
    while len(body) < size:
        piece = os.read(channel, size - len(body))
        if not piece:
            return None
        body += piece
    return bytes(body)


def _write(channel: int, body: bytes) -> None:
    left = memoryview(LENGTH.pack(len(body)) + body)
    while left:
        left = left[os.write(channel, left) :]
