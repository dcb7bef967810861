"""A QR code of a short text, so that a phone can open a link (ISO/IEC 18004, byte mode, level M).

Law 1  Facts in, facts out: a text becomes rows of dark and light; who shows them draws them.
Law 2  Of the eight masks the one with the least penalty is used, as the standard says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise, zip_longest
from typing import Final

from duly.errors import Invalid

QUIET: Final = 4  # light squares around the code, which a camera needs
# For each version from 1: check bytes of a block, and how many data bytes each block has.
BLOCKS: Final[tuple[tuple[int, tuple[int, ...]], ...]] = (
    (10, (16,)),
    (16, (28,)),
    (26, (44,)),
    (18, (32,) * 2),
    (24, (43,) * 2),
    (16, (27,) * 4),
    (18, (31,) * 4),
    (22, (38, 38, 39, 39)),
    (22, (36, 36, 36, 37, 37)),
    (26, (43, 43, 43, 43, 44)),
)
ALIGNED: Final = (
    *((), (6, 18), (6, 22), (6, 26), (6, 30), (6, 34)),
    *((6, 22, 38), (6, 24, 42), (6, 26, 46), (6, 28, 50)),
)
LONG_COUNT: Final = 10  # the version from which on the length takes two bytes
WITH_VERSION: Final = 7  # the version from which on a code says its version
BYTE_MODE: Final = 0b0100
PADDING: Final = (0xEC, 0x11)
FORMAT_GENERATOR: Final = 0b10100110111
FORMAT_MASK: Final = 0b101010000010010
VERSION_GENERATOR: Final = 0b1111100100101
FIELD: Final = 0x11D  # the polynomial of the field that bytes are multiplied in
MASKS: Final[tuple[Callable[[int, int], int], ...]] = (
    lambda y, x: (y + x) % 2,
    lambda y, x: y % 2,
    lambda y, x: x % 3,
    lambda y, x: (y + x) % 3,
    lambda y, x: (y // 2 + x // 3) % 2,
    lambda y, x: y * x % 2 + y * x % 3,
    lambda y, x: (y * x % 2 + y * x % 3) % 2,
    lambda y, x: ((y + x) % 2 + y * x % 3) % 2,
)
FINDER_LIKE: Final = ((1, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0), (0, 0, 0, 0, 1, 0, 1, 1, 1, 0, 1))


def encode(text: str) -> list[list[bool]]:
    """Make the code of a text: rows of squares, true where they are dark; no quiet zone."""
    body = text.encode()
    version = _choose(body)
    stream = _interleave(_write(body, version), version)
    grids = (_fill(version, stream, mask) for mask in range(len(MASKS)))
    return min(grids, key=_penalty)


def write_blocks(rows: list[list[bool]]) -> str:
    """Write a code for a terminal: two rows in a line, light squares drawn, for dark grounds."""
    size = len(rows) + 2 * QUIET
    around = [[False] * size for _ in range(QUIET)]
    sides = [False] * QUIET
    whole = [*around, *([*sides, *row, *sides] for row in rows), *around, [True] * size]
    shapes = {(True, True): " ", (True, False): "▄", (False, True): "▀", (False, False): "█"}
    pairs = zip(whole[::2], whole[1::2], strict=False)
    return "\n".join("".join(map(shapes.__getitem__, zip(*pair, strict=True))) for pair in pairs)


# -- Bytes ----------------------------------------------------------------------------------------


def _choose(body: bytes) -> int:
    for version, (_, sizes) in enumerate(BLOCKS, 1):
        head_bits = 4 + (16 if version >= LONG_COUNT else 8)
        if head_bits + 8 * len(body) <= 8 * sum(sizes):
            return version
    limit = sum(BLOCKS[-1][1]) - 3
    raise Invalid(code="too_long", path="text", facts={"limit": limit, "unit": "bytes"})


def _write(body: bytes, version: int) -> bytes:
    """Write mode, length and text, and fill up what is left."""
    room = sum(BLOCKS[version - 1][1])
    count_bits = 16 if version >= LONG_COUNT else 8
    bits = f"{BYTE_MODE:04b}{len(body):0{count_bits}b}" + "".join(f"{each:08b}" for each in body)
    bits += "0" * min(4, 8 * room - len(bits))
    bits += "0" * (-len(bits) % 8)
    written = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))
    return written + bytes(PADDING[at % 2] for at in range(room - len(written)))


def _interleave(data: bytes, version: int) -> str:
    """Cut the data into blocks, add the check bytes of each, and mix them; return bits."""
    check, sizes = BLOCKS[version - 1]
    blocks, at = [], 0
    for size in sizes:
        blocks.append(data[at : at + size])
        at += size
    checks = [_remainder(each, check) for each in blocks]
    mixed = (
        byte
        for group in (blocks, checks)
        for column in zip_longest(*group)
        for byte in column
        if byte is not None
    )
    return "".join(f"{each:08b}" for each in mixed)


@cache
def _powers() -> tuple[list[int], list[int]]:
    """Return the powers of two in the field, and their inverse."""
    powers, logs, value = [0] * 255, [0] * 256, 1
    for at in range(255):
        powers[at], logs[value] = value, at
        value = value << 1 ^ (FIELD if value & 0x80 else 0)
    return powers, logs


def multiply(one: int, other: int) -> int:
    """Multiply two bytes in the field."""
    powers, logs = _powers()
    return powers[(logs[one] + logs[other]) % 255] if one and other else 0


def _remainder(data: bytes, check: int) -> bytes:
    """Return the check bytes of a block (Reed and Solomon)."""
    powers, _ = _powers()
    generator = [1]
    for at in range(check):
        shifted = [*generator, 0]
        generator = [
            each ^ multiply(powers[at], before)
            for each, before in zip(shifted, [0, *generator], strict=True)
        ]
    rest = [*data, *[0] * check]
    for at in range(len(data)):
        factor = rest[at]
        for place, each in enumerate(generator):
            rest[at + place] ^= multiply(factor, each)
    return bytes(rest[len(data) :])


# -- Squares --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Grid:
    """The squares of a code; those that are no data are fixed."""

    rows: list[list[bool]]
    fixed: list[list[bool]]

    def put(self, y: int, x: int, is_dark: object) -> None:
        """Fix a square, if it is inside."""
        if 0 <= y < len(self.rows) and 0 <= x < len(self.rows):
            self.rows[y][x], self.fixed[y][x] = bool(is_dark), True


def _fill(version: int, stream: str, mask: int) -> list[list[bool]]:
    size = 17 + 4 * version
    grid = _Grid([[False] * size for _ in range(size)], [[False] * size for _ in range(size)])
    _draw_patterns(grid, version, size)
    _draw_format(grid, mask, size)
    if version >= WITH_VERSION:
        _draw_version(grid, version, size)
    hides = MASKS[mask]
    bits = iter(stream)
    for y, x in walk(size):
        if not grid.fixed[y][x]:
            grid.rows[y][x] = (next(bits, "0") == "1") != (hides(y, x) == 0)
    return grid.rows


def walk(size: int) -> Iterator[tuple[int, int]]:
    """Walk over all squares in the order of the data: pairs of columns, up and down."""
    upwards = True
    for right in (*range(size - 1, 6, -2), 5, 3, 1):
        for y in range(size - 1, -1, -1) if upwards else range(size):
            yield y, right
            yield y, right - 1
        upwards = not upwards


def _draw_patterns(grid: _Grid, version: int, size: int) -> None:
    for at in range(size):
        grid.put(6, at, at % 2 == 0)
        grid.put(at, 6, at % 2 == 0)
    for top, left in ((0, 0), (0, size - 7), (size - 7, 0)):
        for y in range(-1, 8):
            for x in range(-1, 8):
                ring = max(abs(y - 3), abs(x - 3))
                grid.put(top + y, left + x, ring not in (2, 4))
    places = ALIGNED[version - 1]
    corners = {(6, 6), (6, size - 7), (size - 7, 6)}
    for middle in ((y, x) for y in places for x in places if (y, x) not in corners):
        for y in range(-2, 3):
            for x in range(-2, 3):
                grid.put(middle[0] + y, middle[1] + x, max(abs(y), abs(x)) != 1)


def _code(value: int, generator: int) -> int:
    """Append the remainder of a value divided by a generator to it."""
    extra = generator.bit_length() - 1
    rest = value << extra
    while rest.bit_length() > extra:
        rest ^= generator << (rest.bit_length() - generator.bit_length())
    return value << extra | rest


def _draw_format(grid: _Grid, mask: int, size: int) -> None:
    """Draw level M, which is 00, and the mask, twice."""
    word = _code(mask, FORMAT_GENERATOR) ^ FORMAT_MASK
    upper = [*((8, x) for x in (*range(6), 7, 8)), (7, 8), *((y, 8) for y in range(5, -1, -1))]
    lower = [*((y, 8) for y in range(size - 1, size - 8, -1))]
    lower += [(8, x) for x in range(size - 8, size)]
    for places in (upper, lower):
        for at, (y, x) in enumerate(places):
            grid.put(y, x, word >> (14 - at) & 1)
    grid.put(size - 8, 8, True)


def _draw_version(grid: _Grid, version: int, size: int) -> None:
    word = _code(version, VERSION_GENERATOR)
    for at in range(18):
        long, short = at // 3, size - 11 + at % 3
        grid.put(long, short, word >> at & 1)
        grid.put(short, long, word >> at & 1)


def _penalty(rows: list[list[bool]]) -> int:
    """Count what makes a code hard to read: long lines, squares, false finders, much of one."""
    columns = [list(each) for each in zip(*rows, strict=True)]
    found = 0
    for line in (*rows, *columns):
        lengths = (len(list(each)) for _, each in groupby(line))
        found += sum(length - 2 for length in lengths if length >= 5)
        found += sum(40 for at in range(len(line) - 10) if tuple(line[at : at + 11]) in FINDER_LIKE)
    for upper, lower in pairwise(rows):
        pairs = zip(upper, upper[1:], lower, lower[1:], strict=False)
        found += sum(3 for each in pairs if len(set(each)) == 1)
    dark = sum(map(sum, rows))
    return found + 10 * int(abs(dark * 20 - len(rows) ** 2 * 10) / len(rows) ** 2)
