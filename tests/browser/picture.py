"""Makes a picture of a page small: few colours, one byte a pixel, packed as far as it goes.

A page has few colours, and the steps between a letter and its ground are not seen one by one. What
Chromium writes has three bytes a pixel, packed in a hurry.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Final

from playwright.sync_api import Page

KEEP: Final = "PAGE_PICTURES"  # where the pictures of docs/page.md are written
PICTURE_HEIGHT_MAX: Final = 900
SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
STEPS: Final = (16, 24, 32, 48)  # between two values of a colour; the first that leaves 256 is used
COLOURS_MAX: Final = 256


def take(page: Page, path: Path) -> None:
    """Take a picture of a page as it looks now."""
    height = min(page.evaluate("document.documentElement.scrollHeight"), PICTURE_HEIGHT_MAX)
    width = page.evaluate("document.documentElement.clientWidth")
    page.screenshot(
        path=path,
        full_page=True,
        clip={"x": 0, "y": 0, "width": width, "height": height},
        animations="disabled",
    )
    if KEEP in os.environ:  # to be kept, and seconds of work
        shrink(path)


def shrink(path: Path) -> None:
    """Write a picture again with a palette."""
    width, height, size, data = _read(path.read_bytes())
    lines = _unfilter(data, width * size, height, size)
    for step in STEPS:
        rounded = bytes(min(255, round(each / step) * step) for each in range(256))
        plain = (each.translate(rounded) for each in lines)
        pixels = [each[at : at + 3] for each in plain for at in range(0, len(each), size)]
        palette = sorted(set(pixels))
        if len(palette) <= COLOURS_MAX:
            break
    places = {colour: place for place, colour in enumerate(palette)}
    indexes = bytes(places[each] for each in pixels)
    rows = b"".join(b"\0" + indexes[at : at + width] for at in range(0, len(indexes), width))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    path.write_bytes(
        SIGNATURE
        + _chunk(b"IHDR", head)
        + _chunk(b"PLTE", b"".join(palette))
        + _chunk(b"IDAT", zlib.compress(rows, 9))
        + _chunk(b"IEND", b"")
    )


def _read(picture: bytes) -> tuple[int, int, int, bytes]:
    """Read width, height, bytes a pixel, and the lines with their filters."""
    at, packed = len(SIGNATURE), b""
    width = height = size = 0
    while at < len(picture):
        (length,) = struct.unpack(">I", picture[at : at + 4])
        kind, body = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack(">IIBB", body[:10])
            assert depth == 8, depth
            size = {2: 3, 6: 4}[colours]
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    return width, height, size, zlib.decompress(packed)


def _unfilter(data: bytes, length: int, height: int, size: int) -> list[bytes]:
    """Undo the filters of the lines, as the standard of the format says."""
    lines: list[bytes] = []
    above = bytearray(length)
    for number in range(height):
        start = number * (length + 1)
        line = bytearray(data[start + 1 : start + 1 + length])
        kind = data[start]
        for at in range(length if kind else 0):
            left = line[at - size] if at >= size else 0
            corner = above[at - size] if at >= size else 0
            line[at] = (line[at] + _guess(kind, left, above[at], corner)) & 255
        lines.append(bytes(line))
        above = line
    return lines


def _guess(kind: int, left: int, up: int, corner: int) -> int:
    if kind < 3:
        return (0, left, up)[kind]
    if kind == 3:
        return (left + up) // 2
    near = left + up - corner
    return min((left, up, corner), key=lambda each: abs(near - each))


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
