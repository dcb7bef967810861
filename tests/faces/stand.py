"""The stand of the control socket's tests: a host that listens, and a client that knows no manners.

Nothing here runs a script: the bus gives a host enough to do and to tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from duly.api.project import Project
from duly.api.wire import ANSWER_BYTES_MAX, reach, read_line, write_line
from duly.config import Config
from duly.faces.room import Room
from duly.faces.socket import Control
from duly.host import Host
from duly.rules.value import Json

EVENT: dict[str, Json] = {"topic": "tea.ready", "payload": {"cups": 2}, "source": "kettle"}


def replace_verb(
    monkeypatch: pytest.MonkeyPatch, name: str, function: Callable[..., Coroutine[Any, Any, Any]]
) -> None:
    """Let a verb of every host do something else; it stays declared as it is."""
    monkeypatch.setattr(Host, name, wraps(getattr(Host, name))(function))


class Client:
    """Says whatever it is told to say, line by line or not."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def send(self, **message: Any) -> None:
        await self.say(write_line(message))

    async def hear(self) -> dict[str, Any]:
        return read_line(await self.reader.readline())

    async def ask(self, **message: Any) -> dict[str, Any]:
        await self.send(**message)
        return await self.hear()

    async def is_hung_up(self) -> bool:
        """Tell whether the host hangs up, after whatever it still had to say."""
        try:
            while await self.reader.readline():
                pass
        except ConnectionError:
            pass
        return True


@asynccontextmanager
async def client(path: Path) -> AsyncIterator[Client]:
    """Connect, and read the greeting."""
    made = reach(path)
    assert made is not None
    reader, writer = await asyncio.open_unix_connection(sock=made, limit=ANSWER_BYTES_MAX)
    try:
        each = Client(reader, writer)
        await each.hear()
        yield each
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


def project(folder: Path, config: Config | None = None) -> Project:
    return Project(folder, None, config or Config())


@asynccontextmanager
async def listening(folder: Path, room: Room | None = None) -> AsyncIterator[tuple[Host, Path]]:
    """Open a host that can be spoken to; nobody serves it."""
    place = project(folder)
    async with Host(place.url) as host, Control(host, place.socket, room=room):
        yield host, place.socket


async def assert_alive(path: Path) -> None:
    """See that the host still answers a client with manners."""
    async with client(path) as polite:
        assert await polite.ask(id=1, verb="workflows") == {"id": 1, "answer": []}
