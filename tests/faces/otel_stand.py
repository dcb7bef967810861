"""A collector of our own on loopback that takes OTLP over HTTP as JSON, or that never answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

FLOOD = b"x" * 65_536


@dataclass
class Collector:
    """What was sent to it; `status` is what it answers, none is no answer at all.

    One that floods sends a text without an end behind its status.
    """

    status: int | None = 200
    url: str = ""
    heads: list[str] = field(default_factory=list)
    spans: list[dict[str, Any]] = field(default_factory=list)
    is_flooding: bool = False
    flooded_bytes: int = 0

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            if self.status is None:
                await reader.read()  # until the client gives up
                return
            length = int(head.lower().partition("content-length:")[2].split()[0])
            body = json.loads(await reader.readexactly(length))
            (resource,) = body["resourceSpans"]
            self.spans += resource["scopeSpans"][0]["spans"]
            length = 2**40 if self.is_flooding else 2
            head = f"HTTP/1.1 {self.status} .\r\nContent-Length: {length}\r\n\r\n"
            writer.write(f"{head}{{}}".encode())
            await writer.drain()
            while self.is_flooding:
                writer.write(FLOOD)
                await writer.drain()
                self.flooded_bytes += len(FLOOD)
        except ConnectionError:
            assert self.is_flooding
        finally:
            writer.close()

    def named(self, name: str) -> dict[str, Any]:
        """Return the one span of a name."""
        (found,) = [each for each in self.spans if each["name"] == name]
        return found


@asynccontextmanager
async def collecting(status: int | None = 200) -> AsyncIterator[Collector]:
    """Run a collector."""
    collector = Collector(status)
    server = await asyncio.start_server(collector._take, "127.0.0.1", 0)
    collector.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield collector
    finally:
        server.close()


def facts(span: dict[str, Any]) -> dict[str, str]:
    """Return the attributes of a span."""
    return {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}
