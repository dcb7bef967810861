"""A worker's end of its channel: whole frames, read and written while nothing else happens."""

from __future__ import annotations

import os

from duly.sandbox import wire


def read(channel: int) -> bytes | None:
    """Wait for one frame; None when the host is gone."""
    head = _read_exactly(channel, wire.LENGTH.size)
    return None if head is None else _read_exactly(channel, wire.LENGTH.unpack(head)[0])


def write(channel: int, body: bytes) -> None:
    """Send one frame."""
    left = memoryview(wire.frame(body))
    while left:
        left = left[os.write(channel, left) :]


def _read_exactly(channel: int, size: int) -> bytes | None:
    body = bytearray()
    while len(body) < size:
        piece = os.read(channel, size - len(body))
        if not piece:
            return None
        body += piece
    return bytes(body)
