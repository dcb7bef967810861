"""The exam for the network: shipped mutations pass it, broken ones fail it for their own reason."""

from __future__ import annotations

import re
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.base import Applied, Call, Connector, NotApplied, Verdict, mutation
from duly.connectors.blob import MemoryBlobs, using_blobs
from duly.connectors.http import Http
from duly.connectors.mail_account import MailAccount
from duly.errors import NotSent
from duly.testing import WEB_REPLIES, ExamFailed, examine_network
from duly.testing.exam import FIRST
from tests.connectors.books import ServerBooks, count_of, user_of
from tests.connectors.filing import FILED, count_filed, make_filing
from tests.connectors.post_office import HOST, PostOffice
from tests.connectors.shop import Shop

NAME = "localhost"  # which the certificate of the mail servers has
NAMED: dict[str, Any] = {"allow": [HOST, NAME]}
CREATE: dict[str, Any] = {
    "method": "POST",
    "path": "/orders",
    "arguments": {"item": "string"},
    "key": {"header": "Idempotency-Key"},
    "verify": {"path": "/by-key/{key}", "match": "key"},
    "timeout_s": 5,
}

# What the refusals of a server are understood as, if they are heard at all.
SAID = {
    "302 Found": "unknown",
    "307 Go": "refused",
    "401 No": "sign in",
    "404 No": "refused",
    "429 Wait with a time": "rate limited",
    "503 No": "unknown",
}


def count_orders(shop: Shop) -> Any:
    """Make a function that counts orders once everything sent before was dealt with."""

    def orders(folder: Path) -> int:
        way = HTTPConnection(HOST, shop.port, timeout=10)
        way.request("GET", f"/{folder.name}/text")
        way.getresponse().read()
        way.close()
        return len(shop.orders(folder.name))

    return orders


def test_an_operation_of_a_web_service_passes(tmp_path: Path) -> None:
    """L4, L5, K2: cut, lost, silent, in drops, senseless, without end, and every status."""
    with Shop(tmp_path / "exam") as shop:
        report = examine_network(
            lambda folder, port: Http(
                f"http://{HOST}:{port}/{folder.name}",
                operations={"create_order": CREATE},
                allow=[HOST],
            ),
            "create_order",
            {"item": "tea"},
            server=(HOST, shop.port),
            effects=count_orders(shop),
            folder=tmp_path / "exam",
            replies=WEB_REPLIES,
        )
    assert report.points > 30
    again = "nothing was done, reconcile said NotApplied; sent again, there was 1 change."
    # It depends on the moment of the cut whether the first byte was written.
    assert re.search(
        rf"the connection is cut before anything is sent: it said (unknown|not sent), {again}",
        str(report),
    )
    for status, said in SAID.items():
        assert f"the server answers {status}, and does nothing: it said {said}, {again}" in str(
            report
        )
    lost = "When the last bytes of the answer are lost: it said unknown, it was done"
    assert f"{lost}, reconcile said Applied." in str(report)


def test_a_request_that_no_operation_describes_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4, L5: it carries its key, cannot be asked, and what is unknown stays so."""
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.2)
    monkeypatch.setattr("duly.testing.network.CUTS", 2)

    def reach(folder: Path, port: int) -> Any:
        made: Any = Http(f"http://{HOST}:{port}", writes=[f"{HOST}:{port}"], allow=[HOST])
        send, url = made.request, f"http://{HOST}:{port}/{folder.name}/orders"
        # An exam cannot write the port of the proxy into its arguments.
        made.request = lambda call, **args: send(call, **{**args, "url": url})
        return made

    with Shop(tmp_path / "exam") as shop:
        shop.forgets_keys = True
        report = examine_network(
            reach,
            "request",
            {"method": "POST", "url": "", "body": {"item": "tea"}},
            server=(HOST, shop.port),
            effects=count_orders(shop),
            folder=tmp_path / "exam",
            replies=WEB_REPLIES,
        )
        assert {each["key"] for each in shop.orders("clean")} == {FIRST}
    lost = "the last bytes of the answer are lost: it said unknown, it was done"
    assert f"{lost}, reconcile said Unsure." in str(report)
    assert not re.search(r"reconcile said (Applied|NotApplied)|sent again", str(report))


def test_a_change_of_a_database_passes(tmp_path: Path, server_folder: Path) -> None:
    """L4, L5, L7: the same faults before a real server; what was cut off is known for certain."""

    def at(folder: Path) -> ServerBooks:
        is_new = not (folder / "made").exists()
        (folder / "made").touch()
        return ServerBooks(server_folder, user_of(folder), is_new=is_new)

    def reach(folder: Path, port: int) -> Connector:
        books = at(folder)
        books.run(
            "create table if not exists duly_calls"
            " (key text primary key, tool text not null, result text, sent_ms bigint not null)"
        )
        books.run("insert into duly_calls values ('', '', null, 0) on conflict do nothing")
        books.run(f'alter table duly_calls owner to "{books.user}"')
        return books.make(port=port, allow=[HOST], tls="off")

    report = examine_network(
        reach,
        "add",
        {"id": 1, "customer": "Ada", "total": 1.0},
        other_args={"id": 2, "customer": "Bob", "total": 1.0},
        server=server_folder / ".s.PGSQL.5432",
        effects=count_of(at),
        folder=tmp_path / "exam",
    )
    assert "it said unknown, it was done, reconcile said Applied" in str(report)


def test_a_send_of_a_mail_passes(one_office: PostOffice, tmp_path: Path) -> None:
    """L4, L5, K15: the same faults before an SMTP server, inside of TLS, with a file attached."""
    prefix, blobs = f"{user_of(tmp_path)}-", MemoryBlobs()
    file: Any = blobs.put(bytes(range(256)) * 16, "a.pdf", "application/pdf")

    def reach(folder: Path, port: int) -> MailAccount:
        one_office.make_folder(f"Sent-{prefix}{folder.name}")
        return one_office.account(f"{prefix}{folder.name}", smtp=f"{NAME}:{port}", **NAMED)

    other = one_office.another_smtp(tmp_path)
    with using_blobs(blobs), closing(other):
        report = examine_network(
            reach,
            "send",
            {"to": ["bob@example.org"], "subject": "Hello", "text": "One", "attachments": [file]},
            server=(HOST, one_office.smtp_port),
            effects=lambda folder: len(one_office.ids(f"Sent-{prefix}{folder.name}")),
            is_asked_elsewhere=True,
            folder=tmp_path / "exam",
            impostors={"its certificate is of another authority": (HOST, other.port)},
            name=NAME,
        )
    assert "it said unknown, it was done, reconcile said Applied" in str(report)
    assert "of another authority: it said not sent, nothing was done" in str(report)
    assert "another address after the look-up: it said applied, it was done" in str(report)


@pytest.mark.parametrize("tool", FILED)
def test_what_files_a_mail_passes(
    one_office: PostOffice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """L4, L5, L14: the same faults before an IMAP server, for what changes a folder."""
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.3)
    monkeypatch.setattr("duly.testing.network.CUTS", 2)
    prefix = f"{user_of(tmp_path)}-"
    report = examine_network(
        lambda folder, port: make_filing(
            one_office, tool, prefix, folder, imap=f"{NAME}:{port}", **NAMED
        ),
        tool,
        FILED[tool].args,
        other_args=FILED[tool].other_args,
        server=(HOST, one_office.imap_port),
        effects=count_filed(one_office, tool, prefix),
        folder=tmp_path / "exam",
        name=NAME,
    )
    assert "another address after the look-up: it said applied, it was done" in str(report)
    assert "it said unknown, it was done, reconcile said Applied" in str(report)
    assert "it said not sent, nothing was done, reconcile said NotApplied" in str(report)


# -- Connectors that lie --------------------------------------------------------------------------


class Liar(Connector):
    """Orders in a shop, and gets one thing wrong."""

    name = "liar"

    def __init__(self, way: str, folder: Path, port: int) -> None:
        operations = {"create_order": CREATE}
        url = f"http://{HOST}:{port}/{folder.name}"
        self._way = way
        self._http: Any = Http(url, operations=operations, allow=[HOST])

    @mutation(lag_s=5)
    async def order(self, call: Call, item: str) -> Any:
        """Order something."""
        try:
            return await self._http.create_order(call, item=item)
        except Exception as error:
            if self._way == "says it was not sent":
                raise NotSent(str(error)) from error
            if self._way == "says it was done":
                return {}
            if self._way == "tries again with another key":
                another = Call("x", call.args, f"{call.key}-2", "w", 1, call.sent_at)
                return await self._http.create_order(another, item=item)
            raise

    @order.reconcile
    async def order_happened(self, call: Call) -> Verdict:
        """Ask the shop, or make an answer up."""
        if self._way == "denies everything":
            return NotApplied()
        if self._way == "admits everything":
            return Applied()
        verdict: Verdict = await self._http.create_order_happened(call)
        return verdict


LIES = {
    "says it was not sent": "it said not sent",
    "says it was done": "it answered, and nothing was done",
    "tries again with another key": "there were 2 changes",
    "denies everything": "reconcile said NotApplied, and it was done",
    "admits everything": "reconcile said Applied, and nothing was done",
}


@pytest.mark.parametrize("way", LIES)
def test_a_connector_that_lies_is_found_out(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4, L5: each for its own reason."""
    monkeypatch.setattr("duly.testing.network.CUTS", 1)
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.2)
    with Shop(tmp_path / "exam") as shop, pytest.raises(ExamFailed, match=LIES[way]):
        examine_network(
            lambda folder, port: Liar(way, folder, port),
            "order",
            {"item": "tea"},
            server=(HOST, shop.port),
            effects=count_orders(shop),
            folder=tmp_path / "exam",
        )
