"""The example: a PDF goes from a mail to a bucket and a table, in both languages, by its handle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors import Documents, Table
from duly.connectors.base import Page
from duly.host import Host
from duly.rules.blob import Blob
from duly.rules.source import Language
from duly.rules.word import MutationStatus
from tests.connectors.object_server import BUCKET, ObjectServer
from tests.connectors.test_documents import pdf

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[2] / "examples"
PDF = pdf("Total: 240 EUR")


class Inbox(duly.Connector):
    """One mail with an invoice."""

    name = "mail"

    @duly.read
    async def search(self, query: str = "", after: str | None = None) -> Page[Any]:
        """Find the mail once."""
        found = [] if after else [{"id": "m1", "from": "ada@example.com"}]
        return Page(found, last_cursor="1")

    @duly.read(by_id=True)
    async def attachment(self, id: str, number: int = 1) -> Blob | None:  # noqa: A002
        """Give what is attached."""
        return await self.keep_blob(PDF, name="invoice.pdf", type="application/pdf")


@pytest.mark.parametrize("language", Language)
async def test_an_invoice_is_archived_and_booked(language: Language, tmp_path: Path) -> None:
    """K15, L5: by its handle through events, ledger and tools, with real scripts and servers."""
    suffix = {Language.PYTHON: "py", Language.JAVASCRIPT: "js"}[language]
    text = (EXAMPLES / f"invoice_archive.{suffix}").read_text()
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "invoices.csv").write_text("from,key,total\n")
    with ObjectServer() as server:
        archive = server.connect()
        archive.name = "archive"
        books = Table(tmp_path / "tables", name="books")
        documents = Documents()
        connectors = [Inbox(), archive, books, documents]
        async with Host(f"sqlite:///{tmp_path}/duly.db", connectors=connectors) as host:
            for name in ("access_key", "secret_key"):
                await host.set_secret("archive", name, "a-secret-of-the-test")
            await host.deploy(duly.Source(language, text, f"invoice_archive.{suffix}"))
            for capability in ("mail.read", "archive.put", "documents.read", "books.insert"):
                await host.grant("invoice-archive", capability)
            await host.drain()
            rows = await host.mutations("invoice-archive")
            assert [each.status for each in rows] == [MutationStatus.APPLIED] * 2
        (key,) = server.keys()
        assert server.ask("GET", f"/{BUCKET}/{key}") == PDF
    written = (tmp_path / "tables" / "invoices.csv").read_text().splitlines()
    assert written[1:] == [f"ada@example.com,{key},240 EUR"]
