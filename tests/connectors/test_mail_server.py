"""Mail servers that misbehave: whatever they say becomes one error that is true."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from duly.connectors.mail_account import MailAccount
from duly.errors import NotSent, PermissionDenied, Refused, Transient, UnknownOutcome
from tests.connectors.filing import TO_BOB
from tests.connectors.post_office import HOST, PASSWORD, PostOffice
from tests.connectors.test_mail_account import call

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def talking(talk: Talk) -> AsyncIterator[int]:
    """Run a server that says what a test wants; return its port."""
    ended: list[asyncio.Task[Any]] = []

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        ended.append(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await talk(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(one, HOST, 0)
    async with server:
        try:
            yield server.sockets[0].getsockname()[1]
        except BaseException:
            # A test that fails leaves no connection open: that would be an error of its own.
            for each in ended:
                each.cancel()
            await asyncio.gather(*ended, return_exceptions=True)
            raise
        await asyncio.gather(*ended)


def alone(port: int, **more: Any) -> MailAccount:
    """Make an account of one server that speaks without TLS."""
    given: dict[str, Any] = {"imap": f"{HOST}:{port}", "smtp": f"{HOST}:{port}", "tls": "off"}
    made = MailAccount("ada@example.com", **{**given, "allow": [HOST], **more})
    object.__setattr__(made, "_vault", lambda connector, secret: PASSWORD)
    return made


def smtp_that_ends_with(last: bytes) -> Talk:
    """Speak SMTP up to the end of the mail, and then say something."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        while line := await reader.readline():
            if line.startswith(b"DATA"):
                writer.write(b"354 go on\r\n")
                await reader.readuntil(b"\r\n.\r\n")
                writer.write(last)
                await writer.drain()
                if not last.endswith(b"wait"):
                    writer.close()
                    return
                await reader.read()
                return
            writer.write(b"235 fine\r\n" if line.startswith(b"AUTH") else b"250 fine\r\n")
        writer.close()

    return talk


@pytest.mark.parametrize(
    "last",
    [
        b"",
        b"what?\r\n",
        b"2",
        b"250-and\r\n" * 200,
        b"x" * 200_000,
        b"999 odd\r\n",
        b"354 go on\r\n",
        b"421 closing\r\n",
    ],
)
async def test_an_end_without_a_reply_is_unknown(last: bytes) -> None:
    """L4, K6: after the last line only a reply says what happened."""
    async with talking(smtp_that_ends_with(last)) as port:
        with pytest.raises(UnknownOutcome, match="may have been sent"):
            await alone(port, imap=None).send(call("send", **TO_BOB), **TO_BOB)


@pytest.mark.parametrize("last", [b"354 go on\r\n", b"334 x\r\n"])
async def test_a_reply_that_does_not_fit_is_no_yes(last: bytes) -> None:
    """L4: after the last line it leaves the outcome unknown."""
    async with talking(smtp_that_ends_with(last)) as port:
        with pytest.raises(UnknownOutcome, match="out of turn"):
            await alone(port, imap=None).send(call("send", **TO_BOB), **TO_BOB)


@pytest.mark.parametrize("command", [b"MAIL", b"RCPT", b"DATA"])
async def test_a_reply_too_many_is_not_taken_for_the_next(command: bytes) -> None:
    """L4: one reply ahead of its command, and the last one read would say yes to a mail that the
    server refuses."""
    refused = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        while line := await reader.readline():
            is_data = line.startswith(b"DATA")
            reply = b"354 go on\r\n" if is_data else b"250 fine\r\n"
            if line.startswith(command):
                reply += b"250 fine\r\n"
            writer.write(b"235 fine\r\n" if line.startswith(b"AUTH") else reply)
            if is_data:
                await reader.readuntil(b"\r\n.\r\n")
                refused.append(True)
                writer.write(b"550 no\r\n")

    async with talking(talk) as port:
        with pytest.raises(NotSent, match=r"before it was asked|does not fit"):
            await alone(port, imap=None).send(call("send", **TO_BOB), **TO_BOB)
    assert not refused


@pytest.mark.parametrize("greeting", [b"", b"554 go away\r\n", b"HTTP/1.1 200 OK\r\n"])
async def test_a_server_that_does_not_take_mail_was_sent_nothing(greeting: bytes) -> None:
    """L4: before the last line every error is definite."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()

    async with talking(talk) as port:
        with pytest.raises((NotSent, Refused)):
            await alone(port, imap=None).send(call("send", **TO_BOB), **TO_BOB)


async def test_a_server_that_answers_twice_is_not_believed() -> None:
    """L4: the second yes to a receiver is no yes to the mail."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        while line := await reader.readline():
            is_address = line.startswith(b"RCPT")
            fine = b"235 fine\r\n" if line.startswith(b"AUTH") else b"250 fine\r\n"
            writer.write(fine * 2 if is_address else fine)
        writer.close()

    async with talking(talk) as port:
        with pytest.raises(NotSent, match="before it was asked"):
            await alone(port, imap=None).send(call("send", **TO_BOB), **TO_BOB)


async def test_a_server_that_is_down_for_a_while_was_sent_nothing() -> None:
    """L4: a change that got no further than the sign-in is not unknown."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK hello\r\n")
        tag, _, _ = (await reader.readline()).partition(b" ")
        writer.write(tag + b" NO [UNAVAILABLE] later\r\n")
        writer.close()

    async with talking(talk) as port:
        with pytest.raises(Transient) as raised:
            await alone(port).draft(call("draft", **TO_BOB), **TO_BOB)
    assert raised.value.outcome == "refused"


@pytest.mark.parametrize("kind", ["send", "search"])
@pytest.mark.parametrize("answer", [b"502 no\r\n", b"D1 BAD no\r\n", b"220 go\r\nD1 OK\r\n"])
async def test_no_password_leaves_without_tls(
    one_office: PostOffice, kind: str, answer: bytes
) -> None:
    """K3, A5: where STARTTLS is refused, or something is said before it, nothing more is sent."""
    heard = bytearray()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n" if kind == "send" else b"* OK hello\r\n")
        while line := await reader.readline():
            heard.extend(line)
            is_hello = line.startswith(b"EHLO")
            writer.write(b"250 hello\r\n" if is_hello else answer)
        writer.close()

    async with talking(talk) as port:
        way: dict[str, Any] = {"tls": "starttls", "ca": one_office.authority.ca}
        mail = alone(port, **way) if kind == "search" else alone(port, imap=None, **way)
        work = mail.search() if kind == "search" else mail.send(call("send", **TO_BOB), **TO_BOB)
        with pytest.raises((NotSent, Refused, Transient)):
            await work
    assert PASSWORD.encode() not in heard
    assert b"LOGIN" not in heard
    assert b"AUTH" not in heard


@pytest.mark.parametrize("kind", ["send", "search"])
async def test_what_is_said_before_tls_ends_the_connection(
    one_office: PostOffice, kind: str
) -> None:
    """K3: an answer that anyone on the way could have added is not taken for one of the server."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n" if kind == "send" else b"* OK hello\r\n")
        while line := await reader.readline():
            is_hello = line.startswith(b"EHLO")
            go_on = b"220 go\r\n250 added\r\n" if kind == "send" else b"D1 OK\r\nD2 OK added\r\n"
            writer.write(b"250 hello\r\n" if is_hello else go_on)

    async with talking(talk) as port:
        way: dict[str, Any] = {"tls": "starttls", "ca": one_office.authority.ca}
        mail = alone(port, **way) if kind == "search" else alone(port, imap=None, **way)
        work = mail.search() if kind == "search" else mail.send(call("send", **TO_BOB), **TO_BOB)
        with pytest.raises((NotSent, Transient), match="before TLS began"):
            await work


async def test_a_server_that_proves_nothing_gets_nothing(one_office: PostOffice) -> None:
    """K3: a certificate that the settings do not trust ends the call before the sign-in."""
    mail = one_office.account(ca=None)
    with pytest.raises(NotSent, match="certificate"):
        await mail.send(call("send", **TO_BOB), **TO_BOB)
    with pytest.raises(Transient, match="certificate"):
        await mail.search()


async def test_an_address_that_is_not_public_is_refused(one_office: PostOffice) -> None:
    """K3: a server on a private network must be named in the settings."""
    with pytest.raises(PermissionDenied, match="not public"):
        await one_office.account(allow=[]).search()


def imap_that_says(*lines: bytes) -> Talk:
    """Speak IMAP up to the opening of a folder, and then say something."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK hello\r\n")
        while line := await reader.readline():
            tag, word = line.split()[:2]
            if word in (b"EXAMINE", b"SELECT"):
                for each in lines:
                    writer.write(each.replace(b"TAG", tag))
            else:
                writer.write(tag + b" OK\r\n")
            await writer.drain()
        writer.close()

    return talk


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\r\n",
        b"* BYE\r\n",
        b"* X {99999999999}\r\n",
        b"* X {999999999}\r\n",
        b"* (((((((((((((((((((((((((\r\n",
        b"* X )\r\n",
        b"TAG OK\r\n",
        b"* OK [UIDVALIDITY x] [UIDNEXT y]\r\nTAG OK\r\n",
        b"* " + b"x" * 100_000 + b"\r\n",
        b"* 1 EXISTS\r\n" * 20_001,
    ],
)
async def test_a_server_that_makes_no_sense_is_a_temporary_error(line: bytes) -> None:
    """K6, L13: whatever it says becomes one classified error."""
    async with talking(imap_that_says(line)) as port:
        with pytest.raises(Transient) as raised:
            await alone(port).search()
    assert "took longer" not in str(raised.value)


async def test_lines_are_limited_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """K6: 64 MiB of them, read as lists of nothing, would have taken 2 GB of memory."""
    monkeypatch.setattr("duly.connectors.line_wire.LINES_BYTES_MAX", 10_000)
    async with talking(
        imap_that_says(b"* X " + b"()" * 1_000 + b"\r\n", *[b"* X ()\r\n"] * 2000)
    ) as port:
        with pytest.raises(Transient, match="lines of more than 10,000 bytes"):
            await alone(port).search()


async def test_a_refusal_is_read_at_once() -> None:
    """K6: one line of 64 KiB held the whole host for ten seconds."""
    async with talking(imap_that_says(b"TAG NO " + b"[A " * 20_000 + b"\r\n")) as port:
        begun_s = time.process_time()
        with pytest.raises(Refused, match="cannot be opened"):
            await alone(port).search()
    assert time.process_time() - begun_s < 2


async def test_a_server_that_never_answers_ends_with_the_time_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K2, K6: one deadline covers everything."""
    monkeypatch.setattr("duly.connectors.mail_account.READ_S", 0.2)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with talking(talk) as port:
        with pytest.raises(Transient, match="took longer"):
            await alone(port).search()
        with pytest.raises(NotSent, match="took longer"):
            await alone(port, imap=None).send(call("send", **TO_BOB), **TO_BOB)
