"""Blobs of web services: sent as the body of a request, and fetched as its answer (K15)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from duly.connectors import Http, Mailbox
from duly.connectors.base import Call
from duly.connectors.blob import MemoryBlobs, using_blobs
from duly.errors import AuthNeeded, ConfigError, Refused, UnknownOutcome
from tests.connectors.shop import Shop, raw, status

pytestmark = pytest.mark.anyio

PDF = b"%PDF-1.7\r\n" + bytes(range(256)) * 300
UPLOAD: dict[str, Any] = {
    "method": "PUT",
    "path": "/files/{name}",
    "arguments": {"name": "string", "file": "blob"},
    "upload": "file",
    "key": {"header": "Idempotency-Key"},
}
FETCH: dict[str, Any] = {
    "path": "/files/{name}",
    "kind": "read_by_id",
    "arguments": {"name": "string"},
    "answer": "blob",
}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with Shop(tmp_path) as made:
        yield made


@pytest.fixture
def blobs() -> Iterator[MemoryBlobs]:
    made = MemoryBlobs()
    with using_blobs(made):
        yield made


def connect(shop: Shop, **operations: Any) -> Any:
    return Http(f"{shop.url}/a", operations=operations, allow=["127.0.0.1"], name="shop")


def reply(body: bytes, kind: str) -> Any:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return raw(head.encode() + body, is_done=False)


async def test_a_blob_is_the_body_of_a_change(shop: Shop, blobs: MemoryBlobs) -> None:
    """K15, L4: its bytes and its type, with the key in the header; a lost answer is unknown."""
    made = connect(shop, put_file=UPLOAD)
    args: dict[str, Any] = {"name": "a b.pdf", "file": blobs.put(PDF, "a.pdf", "application/pdf")}
    at = datetime(2026, 1, 1, tzinfo=UTC)
    call = Call("shop.put_file", args, key="k1", workflow="w", attempt=1, sent_at=at)
    shop.next(reply(b'{"id": 1}', "application/json"), status(500))
    assert await made.put_file(call, **args) == {"id": 1}
    (ask,) = shop.asks
    assert (ask.body, ask.path) == (PDF, "/a/files/a%20b.pdf")
    assert (ask.headers["content-type"], ask.headers["idempotency-key"]) == (
        "application/pdf",
        "k1",
    )
    with pytest.raises(UnknownOutcome):
        await made.put_file(call, **args)
    other = {**args, "file": {**args["file"], "blob": "0" * 64}}
    with pytest.raises(Refused, match="no such blob"):
        await made.put_file(Call(**{**_fields(call), "args": other}), **other)
    assert len(shop.asks) == 2


def _fields(call: Call) -> dict[str, Any]:
    return {name: getattr(call, name) for name in ("tool", "key", "workflow", "attempt", "sent_at")}


async def test_an_answer_is_a_blob(shop: Shop, blobs: MemoryBlobs) -> None:
    """K15: of an operation, and of a host that may be read; nothing where there is nothing."""
    made = connect(shop, file=FETCH)
    shop.next(reply(PDF, "application/pdf; x=y"), status(404))
    found = await made.file(name="a b.pdf")
    assert (found["name"], found["type"], found["size"]) == ("a b.pdf", "application/pdf", len(PDF))
    assert blobs.kept[found["blob"]] == PDF
    assert await made.file(name="none") is None
    web: Any = Http(shop.url, hosts=[f"127.0.0.1:{shop.port}"], allow=["127.0.0.1"], name="web")
    shop.next(reply(PDF, "image/png"), status(404))
    found = await web.download(f"{shop.url}/pictures/x.png?size=1")
    assert (found["name"], found["type"]) == ("x.png", "image/png")
    assert await web.download(f"{shop.url}/none") is None
    with pytest.raises(Refused, match="none of the hosts"):
        await web.download("https://elsewhere.example/x")


@pytest.mark.parametrize(
    "wrong",
    [
        {**UPLOAD, "upload": "name"},
        {**UPLOAD, "upload": "missing"},
        {**UPLOAD, "body": {"a": "{name}"}},
        {**UPLOAD, "key": {"field": "key"}},
        {**UPLOAD, "path": "/files/{name}/{file}"},
        {**UPLOAD, "arguments": {"name": "string", "file": "blob?"}},
        {**{key: each for key, each in UPLOAD.items() if key != "upload"}, "body": "{file}"},
        {**FETCH, "result": "x"},
        {**FETCH, "answer": "file"},
        {**FETCH, "arguments": {"name": "blob"}},
    ],
)
def test_settings_of_blobs_are_checked(wrong: dict[str, Any]) -> None:
    """K15: a blob is a whole body, and no part of a template."""
    with pytest.raises(ConfigError, match=r"operations\.x"):
        Http("https://shop.example", operations={"x": wrong})


async def test_basic_takes_the_user_from_the_settings_or_from_the_secret(shop: Shop) -> None:
    """A5: without a user in the settings the secret is user:password; else nothing is sent."""
    secret = "ada:pass"
    for auth in ({"type": "basic", "user": "ada"}, {"type": "basic"}):
        made: Any = Http(
            shop.url, operations={"x": {"path": "/x"}}, auth=auth, allow=["127.0.0.1"], name="shop"
        )
        given = "pass" if "user" in auth else secret
        made._vault = lambda connector, name, given=given: given
        shop.next(reply(b"{}", "application/json"))
        await made.x()
        assert (
            shop.asks[-1].headers["authorization"] == f"Basic {b64encode(secret.encode()).decode()}"
        )
    made._vault = lambda connector, name: "pass"
    with pytest.raises(AuthNeeded, match="USER:PASSWORD"):
        await made.x()
    assert len(shop.asks) == 2


async def test_a_mail_of_a_folder_gives_its_attachments(tmp_path: Path, blobs: MemoryBlobs) -> None:
    """K15: as mail of an account does; nothing where there is no such mail or attachment."""
    made = EmailMessage()
    made["Message-ID"], made["Subject"], made["From"] = "<1@x>", "Invoice", "a@example.org"
    made.set_content("See below")
    made.add_attachment(PDF, maintype="application", subtype="pdf", filename="a.pdf")
    (tmp_path / "one.eml").write_bytes(made.as_bytes())
    box: Any = Mailbox(tmp_path)
    (item,) = (await box.search()).items
    found = await box.attachment(item["id"])
    assert (found["name"], found["type"]) == ("a.pdf", "application/pdf")
    assert blobs.kept[found["blob"]] == PDF
    assert await box.attachment(item["id"], 2) is None
    assert await box.attachment("none#1") is None
    box.readers.close()
