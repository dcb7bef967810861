"""The locked process that reads documents: its readers, and where it begins (K7).

It is another than the one that reads mails and feeds: a parser of PDF takes time to be loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duly.cell.cell import CellBounds
from duly.cell.serve import Reader, serve
from duly.connectors import document_text
from duly.connectors.reader import MEMORY_BYTES, NEEDED

PROGRAM: Final = "duly.connectors.document_cell:main"
MODULES: Final = (*NEEDED, "pypdf")
BOUNDS: Final = CellBounds(cpu_s=10.0, wall_s=30.0, answer_bytes=40 * 1024 * 1024)

READERS: Final[Mapping[str, Reader]] = {
    "csv": document_text.read_csv,
    "html": document_text.read_html,
    "pdf": document_text.read_pdf,
    "picture": document_text.read_picture,
    "text": document_text.read_text,
    "zip": document_text.read_zip,
    "zip.entry": document_text.read_zip_entry,
}


def main(channel: int) -> None:
    """Be the process that reads documents."""
    document_text.warm_up()
    serve(channel, READERS, memory_bytes=MEMORY_BYTES)
