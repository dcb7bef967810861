"""Undoes the ways in which others write bytes down: escapes and codes, one inside another (A5).

Law: a *view* is what a text decodes to, with the way back to places in the text. Decoding asks for
no certainty: it is done in every way that changes something, from every place a code may have
begun at, and the caller looks at what comes out.

Escapes: %XX, JSON and HTML, UTF-16, broken lines. Codes: base64 (both alphabets), base32, and
hexadecimal. All runs of a code are decoded at once, so that a view costs a few calls into C,
however many words the text has.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, unhexlify
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from typing import Final

# -- Views ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of a view, which begins at `at`; it was made from `size` bytes of the view's parent.

    `ratio` says how many bytes of the parent make how many of the view; an escape has none, for all
    of it makes each of its bytes.
    """

    at: int
    source: int
    size: int
    ratio: tuple[int, int] | None = None

    def begin(self, at: int) -> int:
        if self.ratio is None:
            return self.source
        return self.source + (at - self.at) * self.ratio[0] // self.ratio[1]

    def end(self, at: int) -> int:
        if self.ratio is None:
            return self.source + self.size
        size = -(-(at - self.at) * self.ratio[0] // self.ratio[1])
        return self.source + min(self.size, size)


@dataclass(frozen=True, slots=True)
class View:
    """What a text decodes to; without a parent it is the text itself."""

    raw: bytes
    is_cut: bool
    layer: int = 0
    parent: View | None = None
    pieces: tuple[_Piece, ...] = ()
    starts: tuple[int, ...] = ()  # of the pieces
    is_coded: bool = False  # its bytes may be anything
    is_decoded: bool = False  # and nothing was taken out of them yet

    def place(self, start: int, stop: int) -> tuple[int, int]:
        """Say where in the text something is that was found here."""
        view: View = self
        while view.parent is not None:
            first = view.pieces[bisect_right(view.starts, start) - 1]
            last = view.pieces[bisect_right(view.starts, stop - 1) - 1]
            start, stop = first.begin(start), last.end(stop)
            view = view.parent
        return start, stop

    @property
    def end(self) -> int:
        """Where a cut text ends, without the escape that was cut."""
        half = HALF_ESCAPE.search(self.raw, max(0, len(self.raw) - HALF_ESCAPE_BYTES))
        return len(self.raw) if half is None else half.start()


def _made(
    view: View,
    raw: bytes,
    pieces: list[_Piece],
    is_cut: bool,
    *,
    layer: int | None = None,
    is_decoded: bool = False,
) -> View:
    return View(
        raw,
        is_cut,
        view.layer + 1 if layer is None else layer,
        view,
        tuple(pieces),
        tuple(each.at for each in pieces),
        is_coded=view.is_coded or is_decoded,
        is_decoded=is_decoded,
    )


# -- Escapes --------------------------------------------------------------------------------------

APART: Final = b"\xff"  # stands in no text
CHARACTER: Final = (  # of a text, in UTF-8 or in UTF-16
    rb"(?:[\x00\t\n\r\x20-\x7e]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}"
    rb"|[\xf0-\xf4][\x80-\xbf]{3})"
)
HALF_ESCAPE_BYTES: Final = 10
HALF_ESCAPE: Final = re.compile(
    rb"(?:%[0-9A-Fa-f]?|\\(?:u[0-9A-Fa-f]{0,3}|x[0-9A-Fa-f]?)?|&#?[0-9A-Za-z]{0,8})\Z"
)
PERCENT: Final = re.compile(rb"(?:%[0-9A-Fa-f]{2})+")
_BACKSLASH: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}"
    rb"|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[^uUx0-9])",
    re.DOTALL,
)
_LETTERS: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def _read_backslash(found: bytes) -> bytes:
    kind, rest = found[1:2], found[2:]
    if kind == b"x":
        return unhexlify(rest)
    if kind == b"U":
        code = int(rest, 16)
        return chr(code).encode("utf-8", "surrogatepass") if code < 0x110000 else found
    if kind == b"u":
        units = b"".join(unhexlify(each) for each in rest.split(b"\\u"))
        return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
    return _LETTERS.get(kind, kind)


def _read_character(found: bytes) -> bytes:
    # In a text of Python or JavaScript \xe9 is a character, in bytes it is one of its bytes.
    return chr(int(found[2:], 16)).encode()


def _read_entity(found: bytes) -> bytes:
    return unescape(found.decode("ascii")).encode("utf-8", "surrogatepass")


ESCAPES: Final[tuple[tuple[bytes, re.Pattern[bytes], Callable[[bytes], bytes]], ...]] = (
    (b"%", PERCENT, lambda found: unhexlify(found.replace(b"%", b""))),
    (b"\\", _BACKSLASH, _read_backslash),
    (b"\\x", re.compile(rb"\\x[89a-fA-F][0-9a-fA-F]"), _read_character),
    (b"&", re.compile(rb"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z0-9]{2,32});"), _read_entity),
    (b"\n", re.compile(rb"(?:=?\r?\n[ \t]*)+"), lambda found: b""),
    (b"\0", re.compile(rb"\0+"), lambda found: b""),
)


def _unescape(view: View, escape: re.Pattern[bytes], meaning: Callable[[bytes], bytes]) -> View:
    """Replace every escape by what it means."""
    parts: list[bytes] = []
    pieces: list[_Piece] = []
    at = end = 0
    for found in escape.finditer(view.raw):
        plain, made = view.raw[end : found.start()], meaning(found[0])
        if plain:
            pieces.append(_Piece(at, end, len(plain), (1, 1)))
        if made:
            ratio = (3, 1) if escape is PERCENT else None  # a run of them, each as long
            pieces.append(_Piece(at + len(plain), found.start(), len(found[0]), ratio))
        parts += [plain, made]
        at += len(plain) + len(made)
        end = found.end()
    rest = view.raw[end:]
    if rest:
        pieces.append(_Piece(at, end, len(rest), (1, 1)))
    return _made(view, b"".join([*parts, rest]), pieces, view.is_cut)


# -- Codes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Code:
    """A way to write bytes as letters: `group` letters for `made` bytes, in runs of letters.

    `filler` is the letter that makes bytes of ones, which no text in UTF-8 has.
    """

    run: re.Pattern[bytes]
    letters: bytes
    part_letters: int
    group: int
    made: int
    filler: bytes
    decode: Callable[[bytes], bytes]

    def open(self, view: View) -> Iterator[View]:
        """Decode every run of a view, from each place in a group on: its start is not known."""
        runs = [each.span() for each in self.run.finditer(view.raw)]
        end = view.end if view.is_cut else -1
        if view.is_cut and not (runs and runs[-1][1] >= end):
            # What was cut off may have been most of it, so that less than a whole secret is left.
            start = len(view.raw[:end].rstrip(self.letters))
            if end - start >= self.part_letters:
                runs.append((start, end))
        for skipped in range(self.group if runs else 0):
            yield self._decode(view, [(start + skipped, stop) for start, stop in runs], end)

    def _decode(self, view: View, runs: list[tuple[int, int]], end: int) -> View:
        letters: list[bytes] = []
        pieces: list[_Piece] = []
        at = 0
        for start, stop in runs:
            size = stop - start
            # Filled up to whole groups; one group more keeps two runs apart.
            fill = -size % self.group + self.group
            letters += [view.raw[start:stop], self.filler * fill]
            pieces.append(_Piece(at, start, size, (self.group, self.made)))
            at += (size + fill) // self.group * self.made
        raw = self.decode(b"".join(letters))
        is_cut = runs[-1][1] >= end >= 0
        if is_cut:
            raw = raw[: pieces[-1].at + pieces[-1].size * self.made // self.group]
        return _made(view, raw, pieces, is_cut, is_decoded=True)


_DIGITS: Final = b"0123456789ABCDEF"
_CAPITALS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BASE32: Final = _CAPITALS + b"234567"
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
_TO_32: Final = bytes.maketrans(
    _BASE32 + _CAPITALS.lower(), b"0123456789abcdefghijklmnopqrstuv0123456789abcdefghijklmnop"
)


def _base64(shortest: int, part: int) -> _Code:
    run = re.compile(rb"[A-Za-z0-9+/_-]{%d,}" % _letters(shortest, 6))
    letters = _CAPITALS + _CAPITALS.lower() + b"0123456789+/-_"
    return _Code(run, letters, _letters(part, 6), 4, 3, b"/", _read_base64)


def _read_base64(letters: bytes) -> bytes:
    return a2b_base64(letters.translate(_URL_SAFE))


def _base32(shortest: int, part: int) -> _Code:
    least = _letters(shortest, 5)
    run = re.compile(rb"(?:[A-Z2-7]{%d,}|[a-z2-7]{%d,})" % (least, least))
    letters = _BASE32 + _CAPITALS.lower()
    return _Code(run, letters, _letters(part, 5), 8, 5, b"7", _read_base32)


def _read_base32(letters: bytes) -> bytes:
    # A number whose base is a power of two is read in one pass; the module base64 takes its time.
    return int(letters.translate(_TO_32), 32).to_bytes(len(letters) // 8 * 5)


def _hexadecimal(shortest: int, part: int) -> _Code:
    run = re.compile(rb"[0-9A-Fa-f]{%d,}" % _letters(shortest, 4))
    letters = _DIGITS + _DIGITS.lower()
    return _Code(run, letters, _letters(part, 4), 2, 1, b"f", unhexlify)


def _letters(count_bytes: int, bits: int) -> int:
    """Say how many letters of so many bits it takes to write so many bytes."""
    return -(-8 * count_bytes // bits)


CODES: Final[tuple[Callable[[int, int], _Code], ...]] = (_base64, _base32, _hexadecimal)


# -- Opening --------------------------------------------------------------------------------------


class Decoder:
    """Opens views, made ready for what is sought: nothing shorter than that is decoded.

    `least_bytes` is the length of the shortest secret, `part_bytes` that of the shortest part of
    one that matters at the end of a cut text.
    """

    def __init__(self, least_bytes: int, part_bytes: int) -> None:
        self._text = re.compile(rb"(?:%b){%d,}" % (CHARACTER, least_bytes))
        self._part = re.compile(rb"(?:%b){%d,}" % (CHARACTER, part_bytes))
        self._codes = tuple(make(least_bytes, part_bytes) for make in CODES)

    def open(self, view: View) -> Iterator[View]:
        """Decode a view in every way that changes it."""
        text = self._readable(view) if view.is_decoded else view
        for mark, escape, meaning in ESCAPES:
            if mark in text.raw and escape.search(text.raw):
                yield _unescape(text, escape, meaning)
        for code in self._codes:
            yield from code.open(text)

    def _readable(self, view: View) -> View:
        """Leave out what is no text: every form is one, and most of what is decoded never was."""
        text = self._part if view.is_cut else self._text
        found = [each.span() for each in text.finditer(view.raw)]
        is_cut = view.is_cut and bool(found) and found[-1][1] == len(view.raw)
        parts, pieces, at = [], [], 0
        for start, stop in found:
            parts.append(view.raw[start:stop])
            pieces.append(_Piece(at, start, stop - start, (1, 1)))
            at += stop - start + len(APART)
        return _made(view, APART.join(parts), pieces, is_cut, layer=view.layer)
