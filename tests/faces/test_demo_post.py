"""The demo's own servers speak the protocols that other clients speak; its account names all."""

from __future__ import annotations

import asyncio
import imaplib
import json
import smtplib
import urllib.request
from collections import Counter
from email.message import EmailMessage
from typing import Any

import pytest

from duly.connectors.base import Applied, NotApplied, Unsure
from duly.connectors.mail_account import MailAccount
from duly.errors import UnknownOutcome
from duly.faces.demo.post import compare_post
from duly.faces.demo.post_server import HOST, INBOX, Post
from tests.connectors.filing import TO_BOB, mail_of
from tests.connectors.test_mail_account import call


async def test_clients_of_python_s_own_read_and_send() -> None:
    """Law 1: IMAP, SMTP and HTTP as the library speaks them."""
    async with Post() as post:
        post.folders[INBOX] += [mail_of(1), mail_of(2)]
        imap_port, smtp_port, http_port = post.ports

        def read_and_send() -> tuple[list[bytes], bytes]:
            with imaplib.IMAP4(HOST, imap_port) as client:
                client.login("a", "b")
                assert client.select("INBOX")[1] == [b"2"]
                found = client.uid("search", "HEADER", "Message-ID", '"2@example.org"')[1]
                data = client.uid("fetch", "2", "(BODY.PEEK[])")[1]
            mail = EmailMessage()
            mail["From"], mail["To"], mail["Subject"] = "a@b.org", "c@d.org", "Hello"
            mail.set_content(".\n..\nText\n")
            with smtplib.SMTP(HOST, smtp_port) as sender:
                sender.login("a", "b")
                sender.send_message(mail)
            body = json.dumps({"data": {"id": "1"}}).encode()
            with urllib.request.urlopen(f"http://{HOST}:{http_port}/hook", body) as answer:
                assert answer.status == 204
            return found, data[0][1]

        found, data = await asyncio.to_thread(read_and_send)
        assert (found, data) == ([b"2"], mail_of(2))
        assert post.sent[0].get_payload() == ".\r\n..\r\nText\r\n"
        assert post.messages == [{"id": "1"}]


async def test_an_answer_that_is_held_back_can_be_asked_about() -> None:
    """L5: the mail account of the product finds what the demo's server took."""
    async with Post(hold_at=1) as post:
        imap, smtp, _ = post.ports
        mail = MailAccount(
            "ada@example.com",
            imap=f"{HOST}:{imap}",
            smtp=f"{HOST}:{smtp}",
            tls="off",
            allow=[HOST],
        )
        object.__setattr__(mail, "_vault", lambda connector, secret: "demo")
        sent = call("send", **TO_BOB)
        task = asyncio.ensure_future(mail.send(sent, **TO_BOB))
        await post.held.wait()
        assert isinstance(await mail.send_happened(sent), Applied)
        other = call("send", "k2", **TO_BOB)
        object.__setattr__(other, "handle", sent.handle)
        assert await mail.send_happened(other) == NotApplied()
        post.folders["Sent"].clear()
        assert isinstance(await mail.send_happened(sent), NotApplied | Unsure)
        task.cancel()
        with pytest.raises((asyncio.CancelledError, UnknownOutcome)):
            await task


ONE = Counter({1: 1})


@pytest.mark.parametrize(
    ("rows", "answers", "applied", "said"),
    [
        (ONE, ONE, {"rows": 1, "answers": 1}, []),
        (Counter(), ONE, {"answers": 1}, ["mail 1: 0 rows, not 1"]),
        (ONE, Counter({1: 2}), {"rows": 1, "answers": 2}, ["mail 1: 2 answers, not 1"]),
        (ONE, ONE, {"rows": 1}, ["answers: 1 outside, and 0 applied in the ledger"]),
        (
            ONE + Counter({7: 1}),
            ONE,
            {"rows": 2, "answers": 1},
            ["mail 7: 1 rows, not 0"],
        ),
    ],
)
def test_every_disagreement_is_named(
    rows: Counter[int], answers: Counter[int], applied: dict[str, int], said: list[str]
) -> None:
    """L3: neither side is believed."""
    assert compare_post([1], {"rows": rows, "answers": answers}, applied) == said


def test_a_connection_that_is_open_at_the_end_is_no_error() -> None:
    """The demo says nothing about a client that its servers still talked with."""
    said: list[dict[str, Any]] = []

    async def leave_one_open() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: said.append(context))
        async with Post() as post:
            reader, writer = await asyncio.open_connection(HOST, post.ports[0])
            assert await reader.readline() == b"* OK the mail server of a demo\r\n"
        writer.close()

    asyncio.run(leave_one_open())
    assert said == []
