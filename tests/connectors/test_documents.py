"""What is in a document is read in a locked process, within limits, and never stops a workflow."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pypdf
import pytest

from duly.config import Limits
from duly.connectors import Documents, document_cell, document_text
from duly.connectors.blob import MemoryBlobs, using_blobs
from duly.connectors.document_text import WARM_PDF, PlainText, ask
from duly.errors import Refused
from duly.rules.value import encode

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def documents() -> Iterator[Documents]:
    """Share one process: starting it costs more than all reading."""
    made = Documents()
    made.readers.read("text", b"", PlainText)  # in this thread: a process ends with its beginner
    yield made
    made.readers.close()


@pytest.fixture
def blobs() -> Iterator[MemoryBlobs]:
    made = MemoryBlobs()
    with using_blobs(made):
        yield made


def pdf(words: str) -> bytes:
    """Write a PDF of one page."""
    packed = zlib.compress(f"BT /F 9 Tf ({words}) Tj ET".encode("cp1252"))
    return WARM_PDF % (len(packed), packed)


def archive(**entries: bytes) -> bytes:
    """Write an archive; two underscores in a name stand for a slash."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in entries.items():
            packed.writestr(name.replace("__", "/"), data)
    return made.getvalue()


def locked_pdf() -> bytes:
    """Lock a page; pypdf cannot read one of some thousands that it writes itself."""
    while True:
        writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("secret")))
        writer.encrypt("password", algorithm="RC4-128")
        made = io.BytesIO()
        writer.write(made)
        with suppress(pypdf.errors.PdfReadError):
            if not pypdf.PdfReader(made).decrypt(""):
                return made.getvalue()


async def test_the_words_of_a_pdf(documents: Documents, blobs: MemoryBlobs) -> None:
    """K7, K15: read in the locked process by a handle."""
    found = await documents.pdf_text(blobs.put(pdf("Invoice 17: 240 EUR, Käse"), "a.pdf"))
    assert found == {"text": "Invoice 17: 240 EUR, Käse", "pages": 1, "problem": None}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (locked_pdf(), "encrypted"),
        (b"no pdf at all", "cannot be read"),
        (pdf("a")[:200], "cannot be read"),
        (pdf(""), "no text"),
        (b"", "cannot be read"),
    ],
    ids=["encrypted", "another file", "cut", "empty page", "nothing"],
)
async def test_a_pdf_that_cannot_be_read_is_a_problem_and_no_error(
    documents: Documents, blobs: MemoryBlobs, data: bytes, said: str
) -> None:
    """K7: a stranger's attachment does not stop a workflow."""
    found = await documents.pdf_text(blobs.put(data, "a.pdf"))
    assert found["text"] == ""
    assert said in str(found["problem"])


async def test_a_document_that_computes_for_ever_costs_one_call(
    documents: Documents, blobs: MemoryBlobs
) -> None:
    """K7: its process is killed at its limit, and the next document is read by another."""
    loop = pdf("a").replace(b"/Kids[3 0 R]", b"/Kids[2 0 R]").replace(b"/Count 1", b"/Count 9")
    documents.readers.bounds = type(document_cell.BOUNDS)(0.2, 20.0, 1024 * 1024)
    try:
        bomb = archive(a=b"\0" * 24 * 1024 * 1024)
        found = await documents.zip_get(blobs.put(bomb, "a.zip"), "a")
        assert found is not None
        assert "cannot be read" in str(found["problem"])  # 32 MiB of answer, or 0.2 s
    finally:
        documents.readers.bounds = document_cell.BOUNDS
    assert (await documents.pdf_text(blobs.put(loop, "a.pdf")))["text"] == ""
    assert (await documents.pdf_text(blobs.put(pdf("next"), "b.pdf")))["text"] == "next"


async def test_rows_of_a_table(documents: Documents, blobs: MemoryBlobs) -> None:
    """K15: names of the first row, values as texts, any of the usual delimiters."""
    file = blobs.put("name;total;\nÄda;1,50;x\n\nBob;2\n".encode("cp1252"), "a.csv")
    page = await documents.csv_rows(file)
    assert page.items == [
        {"row": 1, "values": {"name": "Äda", "total": "1,50", "column_3": "x"}},
        {"row": 2, "values": {"name": "Bob", "total": "2", "column_3": ""}},
    ]
    assert page.names == {"last_cursor": "2", "has_more": False, "problem": None}
    lists = await documents.csv_rows(file, header=False, after="2")
    assert lists.items == [{"row": 3, "values": ["Bob", "2"]}]
    for wrong in ({"delimiter": "x"}, {"delimiter": ""}, {"after": "-1"}, {"after": "x"}):
        with pytest.raises(Refused):
            await documents.csv_rows(file, **wrong)  # type: ignore[arg-type]


async def test_a_long_table_comes_in_pages(documents: Documents, blobs: MemoryBlobs) -> None:
    """K11: each row once, in order."""
    rows = 2 * document_text.ROWS_PAGE + 1
    file = blobs.put(b"n\n" + b"".join(b"%d\n" % each for each in range(rows)), "a.csv")
    after: Any = None
    found: list[Any] = []
    while True:
        page: Any = await documents.csv_rows(file, after=after)
        found += [each["values"]["n"] for each in page.items]
        after = page.names["last_cursor"]
        if not page.names["has_more"]:
            break
    assert found == [str(each) for each in range(rows)]


@pytest.mark.parametrize(
    "data",
    [b"a\n" + (b"," * 999 + b"\n") * 600, b"a\n" + (b"\x01" * 2000 + b"\n") * 600],
    ids=["columns without names", "characters that are escaped"],
)
async def test_a_page_of_rows_fits_into_an_answer(
    documents: Documents, blobs: MemoryBlobs, data: bytes
) -> None:
    """K15, N: a table that a stranger made stops no script: what is counted is what is returned."""
    page: Any = await documents.csv_rows(blobs.put(data, "a.csv"))
    assert len(encode(page.items, limit_bytes=Limits().result_bytes)) < Limits().result_bytes
    assert (bool(page.items), page.names["has_more"]) == (True, True)


async def test_a_row_that_is_too_long_is_a_problem(
    documents: Documents, blobs: MemoryBlobs
) -> None:
    """K15: the rows before it are read."""
    long = ",".join(["x" * 50_000] * 30)
    page: Any = await documents.csv_rows(blobs.put(f"a,b\n1,2\n{long}\n".encode(), "a.csv"))
    assert [each["values"] for each in page.items] == [{"a": "1", "b": "2"}]
    assert "Row 2 has more than" in page.names["problem"]


async def test_entries_of_an_archive(documents: Documents, blobs: MemoryBlobs) -> None:
    """K15: an entry is a blob of its own, under its own name."""
    file = blobs.put(archive(**{"2026__a.txt": b"one", "b.pdf": pdf("x")}), "a.zip")
    listed = await documents.zip_list(file)
    assert (listed.items[0]["path"], listed.items[0]["size"]) == ("2026/a.txt", 3)
    found = await documents.zip_get(file, "2026/a.txt")
    assert found is not None
    assert found["file"] is not None
    assert (found["file"]["name"], found["file"]["type"]) == ("a.txt", "text/plain")
    assert blobs.kept[found["file"]["blob"]] == b"one"
    assert await documents.zip_get(file, "none") is None
    assert "cannot be read" in str(
        (await documents.zip_list(blobs.put(b"x", "a"))).names["problem"]
    )


@pytest.mark.parametrize("over", [0, 1])
def test_an_entry_unpacks_to_its_limit_and_no_further(
    over: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7, N: whatever the archive says of itself."""
    monkeypatch.setattr(document_text, "ENTRY_BYTES_MAX", 1000)
    made = bytearray(archive(a=b"x" * (1000 + over)))
    found = document_text.read_zip_entry(ask("a", bytes(made)))
    assert (found.data is None) is bool(over)
    assert (found.problem is None) is not bool(over)


def test_one_past_the_limits_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """K7, N: characters, entries, columns and pages."""
    monkeypatch.setattr(document_text, "TEXT_CHARS_MAX", 10)
    monkeypatch.setattr(document_text, "ENTRIES_MAX", 1)
    monkeypatch.setattr(document_text, "COLUMNS_MAX", 2)
    monkeypatch.setattr(document_text, "NAMES_MAX", 2)
    assert document_text.read_text(b"x" * 10).problem is None
    assert document_text.read_text(b"x" * 11).text == "x" * 10
    assert "first 10 of 11" in str(document_text.read_text(b"x" * 11).problem)
    assert "first 10" in str(document_text.read_html(b"x" * 11).problem)
    assert "1 more" in str(document_text.read_zip(archive(a=b"", b=b"")).problem)
    assert "more than 2" in str(document_text.read_zip(archive(a=b"", b=b"", c=b"")).problem)
    question = document_text.CsvQuestion()
    assert document_text.read_csv(ask(question, b"a,b\n1,2\n")).problem is None
    assert "more than 2" in str(document_text.read_csv(ask(question, b"a,b,c\n")).problem)
    monkeypatch.setattr(document_text, "PAGES_MAX", 0)
    assert "first 0 of 1" in str(document_text.read_pdf(pdf("x")).problem)


PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 640, 480)
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 480, 640)
WEBP = b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x7f\x02\x00\xdf\x01\x00"
BMP = b"BM" + bytes(16) + struct.pack("<ii", 640, -480)
PICTURES = {
    "image/png": PNG,
    "image/gif": b"GIF89a" + struct.pack("<HH", 640, 480),
    "image/jpeg": JPEG,
    "image/webp": WEBP,
    "image/bmp": BMP,
}


@pytest.mark.parametrize("kind", PICTURES)
async def test_the_size_of_a_picture(documents: Documents, blobs: MemoryBlobs, kind: str) -> None:
    """K15: by its own first bytes, whatever its name says."""
    found = await documents.image_size(blobs.put(PICTURES[kind], "a.txt"))
    assert found == {"type": kind, "width": 640, "height": 480, "problem": None}
    for length in range(len(PICTURES[kind])):
        cut: Any = document_text.read_picture(PICTURES[kind][:length])
        assert cut.problem is not None or (cut.width, cut.height) != (640, 480)


async def test_words_of_pages_and_texts(documents: Documents, blobs: MemoryBlobs) -> None:
    """K15: scripts and styles are no words, and a text is read by its marks."""
    page = blobs.put(b"<p>Total:&nbsp;5<script>x()</script>", "a.html")
    assert (await documents.html_text(page))["text"].split() == ["Total:", "5"]
    for data in ("ä€", "\ufeffä€"):
        for charset in ("utf-8", "utf-16"):
            if charset == "utf-8" or not data.startswith("\ufeff"):
                file = blobs.put(data.encode(charset), "a.txt")
                assert (await documents.plain_text(file))["text"] == "ä€"
    assert "zero byte" in str((await documents.plain_text(blobs.put(b"a\0", "a")))["problem"])


async def test_a_document_of_another_workflow_is_not_read(documents: Documents) -> None:
    """K15: the handle alone opens nothing."""
    file = MemoryBlobs().put(pdf("x"), "a.pdf")
    with using_blobs(MemoryBlobs()), pytest.raises(Refused, match="no such blob"):
        await documents.pdf_text(file)


def test_the_readers_are_those_that_are_listed() -> None:
    """K7: nothing else runs in there."""
    listed = {"csv", "html", "pdf", "picture", "text", "zip", "zip.entry"}
    assert set(document_cell.READERS) == listed
