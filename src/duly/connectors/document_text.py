"""Reads what is in a document: PDF, CSV, ZIP, HTML, plain text, the size of a picture (K15).

Law 1: a document is written by strangers. A host runs this in a locked process (`reader.py`, K7).
Law 2: what is read has limits of its own: pages, rows, entries, characters, unpacked bytes. What
       lies behind a limit is left out, and `problem` says so.
Law 3: sizes are those of what was unpacked, never those that a document claims.
"""

from __future__ import annotations

import csv
import io
import pkgutil
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Final

import msgspec
import pypdf

from duly.connectors.mail import plain, spoken

TEXT_CHARS_MAX: Final = 500_000
PAGES_MAX: Final = 500
ROWS_PAGE: Final = 500
ROWS_BYTES: Final = 1024 * 1024  # of one page of rows
FIELD_CHARS_MAX: Final = 100_000
COLUMNS_MAX: Final = 1000
ENTRIES_MAX: Final = 1000
ENTRY_BYTES_MAX: Final = 25 * 1024 * 1024
PATH_CHARS_MAX: Final = 500
NAMES_MAX: Final = 100_000  # of entries that an archive claims to have
DELIMITERS: Final = ",;\t|"
SEPARATOR: Final = b"\0"
ENCRYPTED: Final = 0x1
PROBLEM_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class PdfText:
    """The text of a PDF; a form feed stands between two pages."""

    text: str = ""
    pages: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PlainText:
    """The text of a document."""

    text: str = ""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class CsvPart:
    """Rows of a table; `row` is the number of the first, `has_more` says that others follow."""

    rows: tuple[dict[str, str] | tuple[str, ...], ...] = ()
    row: int = 1
    has_more: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ZipEntry:
    """An entry of an archive; `size` is what it says of itself."""

    path: str
    size: int
    is_encrypted: bool


@dataclass(frozen=True, slots=True)
class ZipList:
    """The entries of an archive, without folders."""

    entries: tuple[ZipEntry, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ZipBytes:
    """The bytes of one entry; None if there is no such entry."""

    data: bytes | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PictureSize:
    """What kind of picture it is, and how large."""

    type: str = ""
    width: int = 0
    height: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class CsvQuestion:
    """How a table is read: whether its first row has names, its delimiter, how many to skip."""

    header: bool = True
    delimiter: str | None = None
    skip: int = 0


def ask(question: object, data: bytes) -> bytes:
    """Put a question before the document it is about."""
    return msgspec.json.encode(question) + SEPARATOR + data


# -- PDF ------------------------------------------------------------------------------------------


def read_pdf(data: bytes) -> PdfText:
    """Read the text of a PDF, page by page."""
    try:
        document = pypdf.PdfReader(io.BytesIO(data), strict=False)
        if document.is_encrypted and not document.decrypt(""):
            return PdfText(problem="It is encrypted with a password.")
        pages = len(document.pages)
    except Exception as error:  # a stranger's file may break a parser in any way
        return PdfText(problem=_broken("PDF", error))
    found: list[str] = []
    problem = None
    for number in range(min(pages, PAGES_MAX)):
        try:
            found.append(document.pages[number].extract_text())
        except Exception as error:
            found.append("")
            problem = _broken(f"page {number + 1}", error)
        if sum(map(len, found)) > TEXT_CHARS_MAX:
            break
    text = "\f".join(found).encode("utf-8", "replace").decode()
    if len(found) < pages or len(text) > TEXT_CHARS_MAX:
        problem = f"Only the first {len(found)} of {pages} pages are read."
    if not problem and pages and not text.strip():
        problem = "It has no text. It may be a scanned picture."
    return PdfText(text[:TEXT_CHARS_MAX], pages, problem)


# -- Text, tables, pages --------------------------------------------------------------------------


def read_text(data: bytes) -> PlainText:
    """Read plain text: UTF-8, UTF-16 with its mark, or Windows-1252."""
    text = _decode(data)
    if "\0" in text:
        return PlainText(problem="It is no text: it has a zero byte in it.")
    return PlainText(text[:TEXT_CHARS_MAX], _cut(len(text)))


def read_html(data: bytes) -> PlainText:
    """Read the words of a page of HTML."""
    text = spoken(_decode(data))
    return PlainText(text[:TEXT_CHARS_MAX], _cut(len(text)))


def read_csv(asked: bytes) -> CsvPart:
    """Read some rows of a table; values stay texts."""
    said, _, data = asked.partition(SEPARATOR)
    question = msgspec.json.decode(said, type=CsvQuestion)
    text = _decode(data)
    if "\0" in text:
        return CsvPart(problem="It is no table: it has a zero byte in it.")
    csv.field_size_limit(FIELD_CHARS_MAX)
    delimiter = question.delimiter or _delimiter(text)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False)
    rows: list[dict[str, str] | tuple[str, ...]] = []
    used, number, names = 0, 0, None
    try:
        for line in lines:
            if not line:
                continue
            if len(line) > COLUMNS_MAX:
                return CsvPart(problem=f"It has more than {COLUMNS_MAX} columns.")
            if question.header and names is None:
                names = _names(line)
                continue
            number += 1
            if number <= question.skip:
                continue
            row = tuple(line) if names is None else _named(names, line)
            size = len(msgspec.json.encode(row))  # names and escaped characters count, too
            if size > ROWS_BYTES:
                told = f"Row {number} has more than {ROWS_BYTES:,} bytes, and is not read."
                return CsvPart(tuple(rows), question.skip + 1, problem=told)
            used += size
            if len(rows) == ROWS_PAGE or used > ROWS_BYTES:
                return CsvPart(tuple(rows), question.skip + 1, has_more=True)
            rows.append(row)
    except csv.Error as error:
        return CsvPart(tuple(rows), question.skip + 1, problem=_broken("table", error))
    return CsvPart(tuple(rows), question.skip + 1)


def _delimiter(text: str) -> str:
    """Return the delimiter that the first lines have most of, counted in each alike."""
    lines = [each for each in text[:20_000].splitlines() if each.strip()][:20]
    counts = {each: [line.count(each) for line in lines] for each in DELIMITERS}
    return max(DELIMITERS, key=lambda each: (min(counts[each], default=0), sum(counts[each])))


def _names(line: list[str]) -> list[str]:
    """Return the names of the columns; an empty one gets its number, a second one too."""
    names: list[str] = []
    for place, each in enumerate(line, 1):
        name = each.strip() or f"column_{place}"
        names.append(name if name not in names else f"{name}_{place}")
    return names


def _named(names: list[str], line: list[str]) -> dict[str, str]:
    more = [f"column_{place}" for place in range(len(names) + 1, len(line) + 1)]
    padded = [*line, *[""] * (len(names) - len(line))]
    return dict(zip([*names, *more], padded, strict=False))


def _decode(data: bytes) -> str:
    for mark, name in (
        (b"\xef\xbb\xbf", "utf-8-sig"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if data.startswith(mark):
            return data.decode(name, "replace").encode("utf-8", "replace").decode()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


# -- Archives -------------------------------------------------------------------------------------


def read_zip(data: bytes) -> ZipList:
    """List the entries of an archive."""
    try:
        found = [*_entries(data)]
    except Exception as error:
        return ZipList(problem=_broken("archive", error))
    kept = tuple(
        ZipEntry(plain(each.filename, PATH_CHARS_MAX), each.file_size, _is_closed(each))
        for each in found[:ENTRIES_MAX]
    )
    more = len(found) - len(kept)
    return ZipList(kept, f"{more} more entries are left out." if more else None)


def read_zip_entry(asked: bytes) -> ZipBytes:
    """Unpack one entry; its path stands before the archive."""
    said, _, data = asked.partition(SEPARATOR)
    path = msgspec.json.decode(said, type=str)
    try:
        fitting = (each for each in _entries(data) if plain(each.filename, PATH_CHARS_MAX) == path)
        entry = next(fitting, None)
        if entry is None:
            return ZipBytes()
        if _is_closed(entry):
            return ZipBytes(problem="It is encrypted with a password.")
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(entry) as packed:
            found = packed.read(ENTRY_BYTES_MAX + 1)
    except Exception as error:
        return ZipBytes(problem=_broken("archive", error))
    if len(found) > ENTRY_BYTES_MAX:
        return ZipBytes(problem=f"It unpacks to more than {ENTRY_BYTES_MAX:,} bytes.")
    return ZipBytes(found)


def _entries(data: bytes) -> Iterator[zipfile.ZipInfo]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        listed = archive.infolist()
    if len(listed) > NAMES_MAX:
        raise zipfile.BadZipFile(f"it has more than {NAMES_MAX} entries")
    return (each for each in listed if not each.is_dir())


def _is_closed(entry: zipfile.ZipInfo) -> bool:
    return bool(entry.flag_bits & ENCRYPTED)


# -- Pictures -------------------------------------------------------------------------------------


def read_picture(data: bytes) -> PictureSize:
    """Read the size of a picture from its first bytes: PNG, JPEG, GIF, WebP, BMP."""
    try:
        for look in (_png, _gif, _jpeg, _webp, _bmp):
            if (found := look(data)) is not None:
                return found
    except (struct.error, IndexError) as error:
        return PictureSize(problem=_broken("picture", error))
    return PictureSize(problem="It is no PNG, JPEG, GIF, WebP or BMP.")


def _png(data: bytes) -> PictureSize | None:
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or data[12:16] != b"IHDR":
        return None
    return PictureSize("image/png", *struct.unpack(">II", data[16:24]))


def _gif(data: bytes) -> PictureSize | None:
    if not data.startswith((b"GIF87a", b"GIF89a")):
        return None
    return PictureSize("image/gif", *struct.unpack("<HH", data[6:10]))


def _jpeg(data: bytes) -> PictureSize | None:
    if not data.startswith(b"\xff\xd8"):
        return None
    at = 2
    while at < len(data):
        if data[at] != 0xFF:
            break
        kind = data[at + 1]
        if kind == 0xFF or kind == 0x01 or 0xD0 <= kind <= 0xD7:
            at += 1 if kind == 0xFF else 2
            continue
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return PictureSize("image/jpeg", width, height)
        at += 2 + max(2, length)
    return PictureSize("image/jpeg", problem="Its size is not found.")


def _webp(data: bytes) -> PictureSize | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
    elif kind == b"VP8 ":
        width, height = (each & 0x3FFF for each in struct.unpack("<HH", data[26:30]))
    else:
        (bits,) = struct.unpack("<I", data[21:25])
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return PictureSize("image/webp", width, height)


def _bmp(data: bytes) -> PictureSize | None:
    if not data.startswith(b"BM"):
        return None
    width, height = struct.unpack("<ii", data[18:26])
    return PictureSize("image/bmp", abs(width), abs(height))


# -- Within ---------------------------------------------------------------------------------------


def _cut(length: int) -> str | None:
    if length <= TEXT_CHARS_MAX:
        return None
    return f"Only the first {TEXT_CHARS_MAX:,} of {length:,} characters are read."


def _broken(what: str, error: Exception) -> str:
    said = plain(f"{type(error).__name__}: {error}", PROBLEM_CHARS)
    return f"The {what} cannot be read ({said})."


WARM_PDF: Final = b"""%%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj
3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R
/Resources<</Font<</F 5 0 R>>>>>> endobj
4 0 obj <</Length %d/Filter/FlateDecode>> stream
%b
endstream endobj
5 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>> endobj
trailer <</Root 1 0 R/Size 6>>
startxref
0
%%%%EOF"""


def warm_up() -> None:
    """Import what the readers import late: a locked process can import nothing."""
    for each in pkgutil.walk_packages(pypdf.__path__, "pypdf."):
        with suppress(ImportError):  # what needs another package is not used here
            import_module(each.name)
    words = zlib.compress(b"BT /F 9 Tf (warm) Tj ET")
    read_pdf(WARM_PDF % (len(words), words))
    read_pdf(b"")
    read_html(b"<p>a &amp; b")
    read_text("ä".encode("cp1252"))
    read_text("\ufeffä".encode("utf-16"))
    read_text(b"\xef\xbb\xbfx")
    read_csv(ask(CsvQuestion(), b"a,b\n1,2\n"))
    for kind in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", kind) as archive:
            archive.writestr("ä.txt", "x")
            archive.writestr("a.txt", "x")  # its name is in another charset
        read_zip(made.getvalue())
        read_zip_entry(ask("ä.txt", made.getvalue()))
    read_zip(b"PK")
    read_picture(b"")
