"""What is wrong with a source, on its way from the worker that read it."""

from __future__ import annotations

from typing import Final

import msgspec

from duly.errors import ScriptError

_PROBLEM: Final = msgspec.msgpack.Decoder(tuple[str, int | None, int | None] | None)


def encode_problem(error: ScriptError | None) -> bytes:
    """Write what is wrong with a source, in a worker."""
    if error is None:
        return msgspec.msgpack.encode(None)
    return msgspec.msgpack.encode((str(error), error.line, error.column))


def decode_problem(body: bytes) -> ScriptError | None:
    """Read what a worker says is wrong with a source, or raise that the worker is lost."""
    try:
        told = _PROBLEM.decode(body)
    except msgspec.MsgspecError:
        raise ScriptError(code="reader_died", is_lost=True) from None
    return None if told is None else ScriptError(told[0], line=told[1], column=told[2])
