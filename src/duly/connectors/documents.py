"""What is in a document: the words of a PDF or a page, rows of a table, entries of an archive.

    [connectors.documents]
    use = "documents"

Law 1: a document is a blob of the workflow, and is read in a locked process (K7, K15).
Law 2: a document that cannot be read is a result with `problem`, not an error: a script cannot
       catch one, and a stranger's attachment must not stop a workflow.
"""

from __future__ import annotations

from collections.abc import Callable
from mimetypes import guess_type
from typing import Final, TypedDict, TypeVar

from duly.connectors.base import Page, read
from duly.connectors.document_cell import BOUNDS, MODULES, PROGRAM
from duly.connectors.document_text import (
    DELIMITERS,
    CsvPart,
    CsvQuestion,
    PdfText,
    PictureSize,
    PlainText,
    ZipBytes,
    ZipList,
    ask,
)
from duly.connectors.reader import Readers, ReadingConnector, Unreadable
from duly.errors import Refused
from duly.rules.blob import Blob

T = TypeVar("T")

READ_S: Final = 60.0
ROW_CHARS_MAX: Final = 12


class DocumentText(TypedDict):
    """The words of a document; `problem` says what could not be read."""

    text: str
    problem: str | None


class PdfWords(DocumentText):
    """The words of a PDF; a form feed stands between two pages."""

    pages: int


class CsvItem(TypedDict):
    """A row of a table, by the names of its columns, or as a list."""

    row: int
    values: dict[str, str] | list[str]


class Unpacked(TypedDict):
    """An entry of an archive as a blob, or the problem with it."""

    file: Blob | None
    problem: str | None


class Entry(TypedDict):
    """An entry of an archive."""

    path: str
    size: int
    is_encrypted: bool


class Picture(TypedDict):
    """The kind and the size of a picture."""

    type: str
    width: int
    height: int
    problem: str | None


class Documents(ReadingConnector):
    """Reads documents that the workflow was given."""

    name = "documents"
    _readers: Readers | None = None  # of another program than its parent's

    def __init__(self, *, name: str = "documents") -> None:
        self.name = name

    @property
    def readers(self) -> Readers:
        """The processes it reads in; none is started before the first document."""
        if self._readers is None:
            object.__setattr__(self, "_readers", Readers(PROGRAM, MODULES, BOUNDS))
        assert self._readers is not None
        return self._readers

    @read(by_id=True, timeout_s=READ_S)
    async def pdf_text(self, file: Blob) -> PdfWords:
        """Read the words of a PDF.

        Returns {text, pages, problem}.
        """
        found = await self._read("pdf", file, PdfText)
        return {"text": found.text, "pages": found.pages, "problem": found.problem}

    @read(by_id=True, timeout_s=READ_S)
    async def html_text(self, file: Blob) -> DocumentText:
        """Read the words of a page of HTML.

        Returns {text, problem}.
        """
        found = await self._read("html", file, PlainText)
        return {"text": found.text, "problem": found.problem}

    @read(by_id=True, timeout_s=READ_S)
    async def plain_text(self, file: Blob) -> DocumentText:
        """Read a text as it is.

        Returns {text, problem}.
        """
        found = await self._read("text", file, PlainText)
        return {"text": found.text, "problem": found.problem}

    @read(by_id=True, timeout_s=READ_S)
    async def csv_rows(
        self,
        file: Blob,
        header: bool = True,
        delimiter: str | None = None,
        after: str | None = None,
    ) -> Page[CsvItem]:
        """Read the rows of a CSV file: by the names of its first row, or as lists.

        Returns a page of {row, values}.
        """
        if delimiter is not None and (len(delimiter) != 1 or delimiter not in DELIMITERS):
            raise Refused("delimiter: give a comma, a semicolon, a tab or a bar.")
        if after is not None and (not after.isdecimal() or len(after) > ROW_CHARS_MAX):
            raise Refused(f"after is {after[:50]!r}, which is no number of a row.")
        question = CsvQuestion(header, delimiter, int(after or 0))
        found = await self._read("csv", file, CsvPart, question)
        items: list[CsvItem] = [
            {"row": number, "values": dict(each) if isinstance(each, dict) else list(each)}
            for number, each in enumerate(found.rows, found.row)
        ]
        last = str(items[-1]["row"]) if items else after
        return Page(items, last_cursor=last, has_more=found.has_more, problem=found.problem)

    @read(by_id=True, timeout_s=READ_S)
    async def zip_list(self, file: Blob) -> Page[Entry]:
        """List the entries of a ZIP archive.

        Returns a page of {path, size, is_encrypted}.
        """
        found = await self._read("zip", file, ZipList)
        items: list[Entry] = [
            {"path": each.path, "size": each.size, "is_encrypted": each.is_encrypted}
            for each in found.entries
        ]
        return Page(items, has_more=False, problem=found.problem)

    @read(by_id=True, timeout_s=READ_S)
    async def zip_get(self, file: Blob, path: str) -> Unpacked | None:
        """Unpack one entry of a ZIP archive as a blob; nothing if there is no such entry.

        Returns {file, problem}.
        """
        found = await self._read("zip.entry", file, ZipBytes, path)
        if found.problem is not None:
            return {"file": None, "problem": found.problem}
        if found.data is None:
            return None
        name = path.replace("\\", "/").rpartition("/")[2]
        kind = guess_type(name)[0] or ""
        return {"file": await self.keep_blob(found.data, name=name, type=kind), "problem": None}

    @read(by_id=True, timeout_s=READ_S)
    async def image_size(self, file: Blob) -> Picture:
        """Read the kind and the size of a picture: PNG, JPEG, GIF, WebP or BMP.

        Returns {type, width, height, problem}.
        """
        found = await self._read("picture", file, PictureSize)
        return {
            "type": found.type,
            "width": found.width,
            "height": found.height,
            "problem": found.problem,
        }

    async def _read(
        self, reader: str, file: Blob, kind: Callable[..., T], question: object = None
    ) -> T:
        """Let the locked process read a document (law 2)."""
        data = await self.open_blob(file)
        if question is not None:
            data = ask(question, data)
        try:
            found: T = await self.in_thread(self.readers.read, reader, data, kind)  # type: ignore[arg-type]
        except Unreadable as error:
            return kind(problem=f"It cannot be read: {error}.")
        return found
