"""A real host with a page and a control socket, and the SDK's own client in both transports."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

import duly.web
from duly.api.page import PageSettings
from duly.faces.socket import Control
from duly.faces.web.server import make_server
from duly.faces.web.watch import listen
from duly.host import Host
from tests.desk.test_whole import Sheets

FAR_S: Final = 600.0  # ends what hangs


@dataclass
class Place:
    """A host, where it is reached, and what it changes outside."""

    folder: Path
    host: Host
    sheets: Sheets
    url: str

    async def token(self, scope: str, name: str = "") -> str:
        made = await self.host.new_token(name or f"{scope} agent", scope=scope, by="ada")
        return made.token


@asynccontextmanager
async def opened(folder: Path, **more: Any) -> AsyncIterator[Place]:
    """Open a host that works, its control socket, and its page on loopback."""
    (folder / "duly.toml").write_text("")
    sheets = Sheets()
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(
            Host(f"sqlite:///{folder / 'duly.db'}", connectors=[sheets], **more)
        )
        await stack.enter_async_context(Control(host, folder / "duly.db.socket"))
        await stack.enter_async_context(host.running())
        made = listen(PageSettings(port=0)).page
        server = make_server(duly.web.app(host))
        serving = asyncio.ensure_future(server.serve([made]))
        try:
            yield Place(folder, host, sheets, f"http://127.0.0.1:{made.getsockname()[1]}")
        finally:
            server.should_exit = True
            await serving


@asynccontextmanager
async def over_http(place: Place, token: str, mode: str = "auto") -> AsyncIterator[Client]:
    """Connect the SDK's client to `/mcp`."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=FAR_S) as http:
        transport = streamable_http_client(f"{place.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@asynccontextmanager
async def over_stdio(place: Place, scope: str = "agent") -> AsyncIterator[Client]:
    """Start `duly mcp` and connect the SDK's client to it."""
    words = ["-P", "-m", "duly", "--project", str(place.folder), "mcp", "--scope", scope]
    started = StdioServerParameters(command=sys.executable, args=words)
    async with Client(stdio_client(started)) as client:
        yield client


async def call(client: Client, tool: str, **args: Any) -> Any:
    """Call a tool; return the data of its answer, or the error it is."""
    answer = await whole(client, tool, **args)
    return answer["data"] if "data" in answer else answer["error"]


async def whole(client: Client, tool: str, **args: Any) -> dict[str, Any]:
    """Call a tool; return its envelope."""
    async with asyncio.timeout(FAR_S):
        result = await client.call_tool(tool, args)
    (content,) = result.content
    said: dict[str, Any] = json.loads(content.text)  # type: ignore[union-attr]
    assert ("error" in said) is bool(result.is_error)
    return said


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, or fail after ten minutes."""
    for _ in range(int(FAR_S / 0.01)):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError
