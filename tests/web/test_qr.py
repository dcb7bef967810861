"""The QR code of a link, read back square by square (G6).

The reader here shares the table of sizes and the walk with the writer. That these are right was
seen with the reader of another project; the digests are of what that one has read (decision 163).
"""

from __future__ import annotations

from hashlib import sha256

import pytest

from duly.errors import Invalid
from duly.faces import qr
from duly.faces.web import drawing

LINK = "https://duly.example.org:7337/sign-in?code=" + "0123456789abcdef" * 20
LONGEST = 213
READ_BY_ANOTHER = ((14, "42069ec683632324"), (107, "306fd403a3931b47"), (213, "a69fc45779bc2435"))


def read(rows: list[list[bool]]) -> str:
    """Read a code as a camera would that sees no square wrongly; check its check bytes."""
    size = len(rows)
    version = (size - 17) // 4
    word = 0
    for y, x in [*((8, x) for x in (*range(6), 7, 8)), (7, 8), *((y, 8) for y in range(5, -1, -1))]:
        word = word << 1 | rows[y][x]
    word ^= qr.FORMAT_MASK
    assert word >> 13 == 0  # level M
    hides = qr.MASKS[word >> 10 & 7]
    grid = qr._Grid([[False] * size for _ in rows], [[False] * size for _ in rows])
    qr._draw_patterns(grid, version, size)
    qr._draw_format(grid, 0, size)
    if version >= qr.WITH_VERSION:
        qr._draw_version(grid, version, size)
    bits = "".join(
        "01"[rows[y][x] != (hides(y, x) == 0)] for y, x in qr.walk(size) if not grid.fixed[y][x]
    )
    stream = [int(bits[at : at + 8], 2) for at in range(0, len(bits) // 8 * 8, 8)]
    check, sizes = qr.BLOCKS[version - 1]
    blocks: list[list[int]] = [[] for _ in sizes]
    mixed = iter(stream)
    for at in range(max(sizes)):
        for block, length in zip(blocks, sizes, strict=True):
            if at < length:
                block.append(next(mixed))
    data = bytes(byte for block in blocks for byte in block)
    for _ in range(check):
        for block in blocks:
            block.append(next(mixed))
    powers, _ = qr._powers()
    for block in blocks:  # each root of the generator is one of the whole block
        for root in powers[:check]:
            value = 0
            for byte in block:
                value = qr.multiply(value, root) ^ byte
            assert value == 0
    long = version >= qr.LONG_COUNT
    bits = "".join(f"{each:08b}" for each in data)
    head = 4 + (16 if long else 8)
    count = int(bits[4:head], 2)
    assert int(bits[:4], 2) == qr.BYTE_MODE
    text = bits[head : head + 8 * count]
    return bytes(int(text[at : at + 8], 2) for at in range(0, len(text), 8)).decode()


@pytest.mark.parametrize("length", [1, 14, 15, 42, 63, 85, 107, 123, 153, 181, LONGEST])
def test_a_code_reads_as_its_text(length: int) -> None:
    """G6: every version up to ten, at its edges."""
    assert read(qr.encode(LINK[:length])) == LINK[:length]


def test_letters_beyond_ascii_are_bytes_too() -> None:
    assert read(qr.encode("Grüße")) == "Grüße"


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(Invalid, match="213 bytes"):
        qr.encode("x" * (LONGEST + 1))


@pytest.mark.parametrize(("length", "digest"), READ_BY_ANOTHER)
def test_a_code_is_one_that_another_reader_has_read(length: int, digest: str) -> None:
    rows = "".join("01"[each] for row in qr.encode(LINK[:length]) for each in row)
    assert sha256(rows.encode()).hexdigest()[:16] == digest


def test_a_terminal_shows_two_rows_in_a_line() -> None:
    lines = qr.write_blocks(qr.encode("duly")).splitlines()
    assert {len(each) for each in lines} == {21 + 2 * qr.QUIET}
    assert len(lines) == 15
    assert set("".join(lines)) <= set(" ▀▄█")


def test_a_drawing_has_a_square_for_each_dark_one() -> None:
    width, path = drawing.qr_path("duly")
    assert width == 21 + 2 * qr.QUIET
    assert path.count("M") == sum(map(sum, qr.encode("duly")))
