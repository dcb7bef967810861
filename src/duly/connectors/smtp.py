"""Sends one mail over SMTP; what an error means is decided by where it happens (L4, K2).

Law 1: a mail is sent once, over a connection of its own. Until its last line has been sent the
       server has taken nothing, so every error before that is definite. From then on only the
       server's reply is.
Law 2: all receivers or none: if the server refuses one, the mail is not sent.
Law 3: a reply is read by its three digits, never by its words.
Law 4: only a reply that fits its line, and came after it, is believed: a mail is not sent because
       an earlier yes came late.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from duly.connectors.line_wire import LineServer, LineWire
from duly.connectors.reach import Resolve, why_of, within
from duly.connectors.response import BrokenExchange
from duly.errors import AuthNeeded, ConnectorError, NotSent, Refused, Transient, UnknownOutcome

REPLY_LINES_MAX: Final = 100
REPLY: Final = re.compile(rb"([2-5][0-9]{2})([ -])(.*)", re.DOTALL)
# The first digit of a reply: it is done, or the server waits for the rest.
DONE: Final = 2
GO_ON: Final = 3
CLOSING: Final = 421  # the server ends the connection
BAD_SIGN_IN: Final = frozenset({530, 534, 535, 538})
WORDS_CHARS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class SmtpReply:
    """What a server said: three digits, and words for people."""

    code: int
    words: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Letter:
    """What is sent: from whom, to whom, and the mail itself."""

    sender: str
    receivers: Sequence[str]
    data: bytes


@dataclass(frozen=True, slots=True)
class SmtpAccount:
    """Where mail is handed in, and who does it."""

    server: LineServer
    user: str
    password: str
    connector: str


class _Progress:
    """How far a mail has come."""

    is_sent = False


async def send_letter(
    account: SmtpAccount,
    letter: Letter,
    context: ssl.SSLContext,
    *,
    timeout_s: float,
    resolve: Resolve | None = None,
) -> None:
    """Hand a mail in, once; raise what is certain about it."""
    progress, shown = _Progress(), account.server.shown
    try:
        async with asyncio.timeout(within(timeout_s)):
            wire = await LineWire.open(account.server, context, resolve)
            try:
                await _exchange(wire, account, letter, context, progress)
            finally:
                wire.abort()
    except (OSError, EOFError, BrokenExchange) as error:
        why = why_of(error, timeout_s)
        if not progress.is_sent:
            raise NotSent(f"{shown}: the mail was not sent: {why}.") from error
        raise UnknownOutcome(f"{shown}: the mail may have been sent: {why}.") from error


async def _exchange(
    wire: LineWire,
    account: SmtpAccount,
    letter: Letter,
    context: ssl.SSLContext,
    progress: _Progress,
) -> None:
    _check(await _read(wire), account)
    hello = await _ask(wire, "EHLO duly.invalid")
    _check(hello, account)
    if account.server.tls == "starttls":
        _check(await _ask(wire, "STARTTLS"), account)
        await wire.start_tls(context)
        hello = await _ask(wire, "EHLO duly.invalid")
        _check(hello, account)
    if account.user:
        await _sign_in(wire, account, hello)
    _check(await _ask(wire, f"MAIL FROM:<{letter.sender}>"), account)
    for each in letter.receivers:
        _check(await _ask(wire, f"RCPT TO:<{each}>"), account)
    _check(await _ask(wire, "DATA"), account, wanted=GO_ON)
    # A server may take the mail when it has seen the dot alone on a line, and not before.
    await wire.send(stuff(letter.data))
    _check_order(wire)
    progress.is_sent = True
    await wire.send(b".\r\n")
    reply = await _read(wire)
    if reply.code == CLOSING:
        # It is said of the connection, at any time: the mail before it may have been taken.
        raise BrokenExchange(f"it answered {reply.code} {reply.words}".rstrip())
    _check(reply, account)


def stuff(data: bytes) -> bytes:
    """Write a mail as it crosses the wire: whole lines, and no dot that would end it.

    Without a look at each line: a mail of 10 MB held the host for a third of a second.
    """
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip(b"\n")
    stuffed = lines.replace(b"\n.", b"\n..").replace(b"\n", b"\r\n") + b"\r\n"
    return b"." + stuffed if stuffed.startswith(b".") else stuffed


async def _sign_in(wire: LineWire, account: SmtpAccount, hello: SmtpReply) -> None:
    ways = {
        word
        for line in hello.lines
        for word in line.upper().split()[1:]
        if line.upper().startswith("AUTH ")
    }
    shown = account.server.shown
    if "PLAIN" in ways or not ways:
        both = f"\0{account.user}\0{account.password}".encode()
        reply = await _ask(wire, f"AUTH PLAIN {base64.b64encode(both).decode()}")
    elif "LOGIN" in ways:
        reply = await _ask(wire, "AUTH LOGIN")
        for each in (account.user, account.password):
            if reply.code == 334:
                reply = await _ask(wire, base64.b64encode(each.encode()).decode())
    else:
        known = ", ".join(sorted(ways))
        raise Refused(f"{shown} offers {known} to sign in, and neither PLAIN nor LOGIN.")
    if reply.code >= 500:
        said = f"{shown} did not accept the sign-in: {reply.code} {reply.words}"
        raise AuthNeeded(said, connect=account.connector)
    _check(reply, account)


def _check(reply: SmtpReply, account: SmtpAccount, wanted: int = DONE) -> None:
    """Raise what a reply says, if it says no; the server has not taken the mail then (RFC 5321).

    A yes of the wrong kind belongs to another line: it says nothing of this one (law 4).
    """
    if reply.code >= 400:
        raise _class_of(reply, account)
    if reply.code // 100 != wanted:
        raise BrokenExchange(f"it answered {reply.code} out of turn")


def _check_order(wire: LineWire) -> None:
    """Refuse a reply that was given before it was asked for (law 4)."""
    if wire.is_ahead:
        raise BrokenExchange("it answered before it was asked")


def _class_of(reply: SmtpReply, account: SmtpAccount) -> ConnectorError:
    said = f"{account.server.shown} answered {reply.code} {reply.words}".rstrip()
    if reply.code in BAD_SIGN_IN:
        return AuthNeeded(said, connect=account.connector)
    if reply.code < 500:
        return Transient(said, outcome="refused")
    return Refused(said)


async def _ask(wire: LineWire, line: str) -> SmtpReply:
    if any(each in line for each in "\r\n\0"):
        raise Refused("An address or a name has a line end in it.")
    _check_order(wire)
    await wire.send(f"{line}\r\n".encode())
    return await _read(wire)


async def _read(wire: LineWire) -> SmtpReply:
    """Read a reply, of one line or of several with the same digits."""
    lines: list[str] = []
    while len(lines) < REPLY_LINES_MAX:
        found = REPLY.fullmatch(await wire.read_line())
        if found is None:
            raise BrokenExchange("it answered with something that is no reply")
        lines.append(found[3].decode("utf-8", "replace"))
        if found[2] == b" ":
            words = " ".join(" ".join(lines).split())[:WORDS_CHARS_MAX]
            return SmtpReply(int(found[1]), words, tuple(lines))
    raise BrokenExchange(f"it answered with more than {REPLY_LINES_MAX} lines")
