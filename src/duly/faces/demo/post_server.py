"""The outside of a demo's second part: a mail server and the receiver of webhooks, on loopback.

Law 1: it speaks the real protocols, as much of them as the connectors use: IMAP to read, SMTP to
       send, HTTP to post. So the demo has no connector of its own, and needs no account.
Law 2: a mail that it takes is kept in the folder of sent mails before it says so, as a provider
       does. The answer to one of them can be held back for ever: what was done stays done.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from functools import partial
from typing import Any, Final, Self

import msgspec

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

HOST: Final = "127.0.0.1"
LINE_BYTES_MAX: Final = 1024 * 1024
INBOX: Final = "INBOX"
SENT: Final = "Sent"
VALIDITY: Final = 1
SET: Final = re.compile(r"\bUID ([0-9:,]+)")
HEADER: Final = re.compile(r'HEADER (\S+) "([^"]*)"')
FOLDER: Final = re.compile(r'"?([^"]+)"?')
LENGTH: Final = re.compile(rb"^content-length: *([0-9]+)\r$", re.IGNORECASE | re.MULTILINE)


@dataclass(slots=True)
class Post:
    """The servers, and what came to them."""

    folders: dict[str, list[bytes]] = field(default_factory=lambda: {INBOX: [], SENT: []})
    messages: list[dict[str, Any]] = field(default_factory=list)
    hold_at: int | None = None  # the answer to the mail of this number is held back
    held: asyncio.Event = field(default_factory=asyncio.Event)
    pause: Callable[[], Awaitable[None]] | None = None  # between taking a mail and saying so
    _servers: list[asyncio.Server] = field(default_factory=list)
    _talks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        for talk in (self._imap, self._smtp, self._http):
            welcome = partial(self._welcome, talk)
            server = await asyncio.start_server(welcome, HOST, 0, limit=LINE_BYTES_MAX)
            self._servers.append(server)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    def _welcome(
        self, talk: Talk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # A task of our own: one that asyncio makes for a connection must not be cancelled (3.11).
        task = asyncio.get_running_loop().create_task(_serve(talk, reader, writer))
        self._talks.add(task)
        task.add_done_callback(self._talks.discard)

    @property
    def ports(self) -> tuple[int, int, int]:
        """Where IMAP, SMTP and HTTP are spoken."""
        imap, smtp, http = (each.sockets[0].getsockname()[1] for each in self._servers)
        return imap, smtp, http

    @property
    def sent(self) -> list[Message]:
        """The mails that were taken."""
        return [message_from_bytes(each) for each in self.folders[SENT]]

    # -- IMAP -------------------------------------------------------------------------------------

    async def _imap(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK the mail server of a demo\r\n")
        opened: list[bytes] = []
        while line := (await reader.readline()).decode("utf-8", "replace").strip():
            tag, _, rest = line.partition(" ")
            word, _, args = rest.partition(" ")
            if word.upper() == "UID":
                word, _, args = args.partition(" ")
            match word.upper():
                case "CAPABILITY":
                    writer.write(b"* CAPABILITY IMAP4rev1 SPECIAL-USE\r\n")
                case "LIST":
                    writer.write(b'* LIST () "/" INBOX\r\n* LIST (\\Sent) "/" Sent\r\n')
                case "SELECT" | "EXAMINE" if (name := _folder(args)) in self.folders:
                    opened = self.folders[name]
                    said = f"* {len(opened)} EXISTS\r\n* OK [UIDVALIDITY {VALIDITY}] ids\r\n"
                    said += f"* OK [UIDNEXT {len(opened) + 1}] next\r\n"
                    writer.write(said.encode())
                case "SEARCH":
                    found = " ".join(str(each) for each in _search(opened, args))
                    writer.write(f"* SEARCH {found}".rstrip().encode() + b"\r\n")
                case "FETCH":
                    _fetch(writer, opened, args)
                case "LOGIN" | "NOOP" | "LOGOUT":
                    pass
                case _:
                    writer.write(f"{tag} NO not in a demo\r\n".encode())
                    continue
            writer.write(f"{tag} OK done\r\n".encode())
            await writer.drain()
            if word.upper() == "LOGOUT":
                return

    # -- SMTP -------------------------------------------------------------------------------------

    async def _smtp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 the mail server of a demo\r\n")
        while line := (await reader.readline()).decode("utf-8", "replace").strip():
            match line.split()[0].upper():
                case "EHLO":
                    writer.write(b"250-demo\r\n250 AUTH PLAIN\r\n")
                case "AUTH":
                    writer.write(b"235 welcome\r\n")
                case "DATA":
                    writer.write(b"354 go on\r\n")
                    data = await reader.readuntil(b"\r\n.\r\n")
                    await self._take(data[:-3].replace(b"\r\n..", b"\r\n."))
                    writer.write(b"250 taken\r\n")
                case "QUIT":
                    writer.write(b"221 bye\r\n")
                    return
                case _:
                    writer.write(b"250 fine\r\n")
            await writer.drain()

    async def _take(self, data: bytes) -> None:
        self.folders[SENT].append(data)
        if len(self.folders[SENT]) == self.hold_at:
            self.hold_at = None
            self.held.set()
            await asyncio.Event().wait()  # until this server ends
        if self.pause is not None:
            await self.pause()

    # -- HTTP -------------------------------------------------------------------------------------

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        found = LENGTH.search(head)
        body = await reader.readexactly(int(found[1]) if found else 0)
        self.messages.append(msgspec.json.decode(body)["data"])
        writer.write(b"HTTP/1.1 204 Taken\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


async def _serve(talk: Talk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection; a client that dies or makes no sense ends it."""
    try:
        with suppress(OSError, EOFError, ValueError, LookupError, asyncio.LimitOverrunError):
            await talk(reader, writer)
    finally:
        with suppress(OSError, RuntimeError):
            writer.close()


def _folder(args: str) -> str:
    found = FOLDER.fullmatch(args)
    return found[1] if found else ""


def _numbers(spelled: str, count: int) -> set[int]:
    """Read `1,3:5` as the mails that are there."""
    wanted: set[int] = set()
    for part in spelled.split(","):
        first, _, last = part.partition(":")
        wanted |= set(range(int(first), min(int(last or first), count) + 1))
    return wanted & set(range(1, count + 1))


def _search(mails: list[bytes], terms: str) -> list[int]:
    found = SET.search(terms)
    uids = _numbers(found[1], len(mails)) if found else set(range(1, len(mails) + 1))
    wanted = HEADER.findall(terms)
    if not wanted:
        return sorted(uids)
    heads = {uid: message_from_bytes(mails[uid - 1]) for uid in uids}
    return [
        uid
        for uid in sorted(uids)
        if any(text in str(heads[uid].get(name, "")) for name, text in wanted)
    ]


def _fetch(writer: asyncio.StreamWriter, mails: list[bytes], args: str) -> None:
    spelled, _, what = args.partition(" ")
    limit = re.search(r"<0\.([0-9]+)>", what)
    for uid in sorted(_numbers(spelled, len(mails))):
        data = mails[uid - 1]
        part = data[: int(limit[1])] if limit else data
        place = "<0>" if limit else ""
        head = f"* {uid} FETCH (UID {uid} RFC822.SIZE {len(data)} FLAGS () BODY[]{place}"
        writer.write(f"{head} {{{len(part)}}}\r\n".encode() + part + b")\r\n")
