"""Attachments: out of a mail and into one, by their handles; the bytes never pass a script."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from duly.connectors.base import Call
from duly.connectors.blob import MemoryBlobs, using_blobs
from duly.connectors.letter import FILES_BYTES_MAX, FILES_MAX, write_letter
from duly.connectors.mail import SEPARATOR, MailPart, read_mail, read_part
from duly.errors import Refused
from tests.connectors.post_office import PostOffice

pytestmark = pytest.mark.anyio

PDF = b"%PDF-1.7\r\n.\r\n" + bytes(range(256)) * 40
WORDS: dict[str, Any] = {"to": ["bob@example.org"], "subject": "Invoice", "text": "See below"}


@pytest.fixture
def blobs() -> Iterator[MemoryBlobs]:
    made = MemoryBlobs()
    with using_blobs(made):
        yield made


def call(**args: Any) -> Call:
    at = datetime(2026, 5, 1, tzinfo=UTC)

    async def keep(handle: Any) -> None:
        pass

    return Call("mail.send", args, key="attached", workflow="w", attempt=1, sent_at=at, keeper=keep)


def part(data: bytes, number: int) -> MailPart:
    return read_part(str(number).encode() + SEPARATOR + data)


async def test_a_blob_is_sent_and_fetched_again(one_office: PostOffice, blobs: MemoryBlobs) -> None:
    """K15: through a real server, byte by byte, under its own name and type."""
    one_office.make_folder("Sent-attached")
    mail: Any = one_office.account("attached")
    files = [
        blobs.put(PDF, "Rechnung Käse.pdf", "application/pdf"),
        blobs.put(b"a;b\n", "=?utf-8?q?x?=.csv", "text/csv"),
    ]
    args = {**WORDS, "attachments": files}
    await mail.send(call(**args), **args)
    (item,) = (await mail.search(folder="Sent-attached")).items
    whole = await mail.read(item["id"])
    assert whole is not None
    assert whole["attachments"] == ["Rechnung Käse.pdf", "__utf-8?q?x?=.csv"]
    assert whole["text"].strip() == "See below"
    first = await mail.attachment(item["id"])
    assert first == files[0]
    second = await mail.attachment(item["id"], 2)
    assert (second["blob"], second["type"]) == (files[1]["blob"], "text/csv")
    assert await mail.attachment(item["id"], 3) is None
    for wrong in (0, 101, -1):
        with pytest.raises(Refused, match="1 to 100"):
            await mail.attachment(item["id"], wrong)


def test_the_same_call_makes_the_same_mail(blobs: MemoryBlobs) -> None:
    """L7: also between its parts, where a library would put something new each time."""
    files = [(blobs.put(PDF, "a.pdf", "application/pdf"), PDF)]
    one, other = (write_letter(call(), "ada@example.com", **WORDS, files=files) for _ in range(2))
    assert one.data == other.data
    assert read_mail(one.data).attachments == ("a.pdf",)


@pytest.mark.parametrize("name", ["a\r\nBcc: eve@example.com", 'a"; x="y', "../../etc/passwd", "."])
def test_a_name_makes_no_header_and_no_path(name: str, blobs: MemoryBlobs) -> None:
    """K12: what a script calls a file stays the name of a file."""
    handle: Any = {**blobs.put(b"x", "a"), "name": name}
    data = write_letter(call(), "ada@example.com", **WORDS, files=[(handle, b"x")]).data
    assert b"\r\nBcc" not in data
    found = part(data, 1)
    assert (found.data, "/" in found.name, "\n" in found.name) == (b"x", False, False)


def test_one_past_the_limits_of_a_mail_is_refused(blobs: MemoryBlobs) -> None:
    """N: so many files, and so many bytes."""
    one = blobs.put(b"x", "a.txt", "text/plain")
    write_letter(call(), "ada@example.com", **WORDS, files=[(one, b"x")] * FILES_MAX)
    for files in ([(one, b"x")] * (FILES_MAX + 1), [(one, bytes(FILES_BYTES_MAX + 1))]):
        with pytest.raises(Refused, match="attached"):
            write_letter(call(), "ada@example.com", **WORDS, files=files)


async def test_what_is_too_much_is_refused_before_it_is_opened(
    one_office: PostOffice, blobs: MemoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N: a hundred files of 25 MiB are never in memory together."""
    mail: Any = one_office.account("attached")
    opened: list[Any] = []
    monkeypatch.setattr(blobs, "open", opened.append)
    one = blobs.put(b"x", "a.txt", "text/plain")
    for files in ([one] * (FILES_MAX + 1), [{**one, "size": FILES_BYTES_MAX + 1}]):
        args = {**WORDS, "attachments": files}
        with pytest.raises(Refused, match="attached"):
            await mail.send(call(**args), **args)
    assert opened == []


def test_a_part_that_is_broken_or_missing(blobs: MemoryBlobs) -> None:
    """K7: a stranger's mail may claim anything."""
    assert part(b"", 1) == MailPart()
    assert part(b"From: a\r\n\r\ntext", 1) == MailPart()
    broken = (
        b"Content-Type: application/pdf; name=a.pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n%"
    )
    assert part(broken, 1).name == "a.pdf"
