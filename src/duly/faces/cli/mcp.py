"""`duly mcp`: the tools of this project for an agent, over standard input and output (M5).

Law 1  It speaks to the running host over the control socket, or to the store where none runs, and
       never with more than the scope it was started with.
Law 2  A line that is too long is refused and not kept; a client that reads nothing is waited for,
       and what it may have under way is limited.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any, Final, cast

import click

from duly.api.registry import VERBS, Scope
from duly.api.session import Through
from duly.errors import ConfigError, StoreUnavailable
from duly.faces.cli.base import Face, pass_face, run

LINE_BYTES_MAX: Final = 1024 * 1024
TOO_LONG: Final = '{"jsonrpc": "2.0", "too long": true'  # no JSON, so that it is refused


@click.command()
@click.option(
    "--scope",
    type=click.Choice(["read", "agent", "decide"]),
    default="agent",
    show_default=True,
    help="What the agent may do; an agent proposes, and a person adopts.",
)
@pass_face
def mcp(face: Face, scope: str) -> None:
    """Serve this project to an agent by MCP, over standard input and output.

    Agents start it themselves: docs/mcp.md says what to write into their settings.

    \b
    Example: duly mcp --scope agent
    """
    project = face.project
    if find_spec("mcp") is None:
        raise ConfigError(code="no_mcp")
    run(_serve(project, Scope(scope)))


async def _serve(project: Any, scope: Scope) -> None:
    from mcp.server.stdio import stdio_server

    from duly.faces.cli.spelling import spell
    from duly.faces.mcp.server import AgentServer, Caller
    from duly.faces.mcp.tool import Tools

    kept: list[Through] = []
    looking = asyncio.Lock()

    @asynccontextmanager
    async def caller_of(_: Any) -> AsyncIterator[Caller]:
        if not kept:
            kept.append(Through(project, scope))
        session = kept[0]
        async with looking:  # one connection for all calls
            await session.look()
        page = None if session.host is None else session.host.page
        try:
            yield Caller(session, scope, page)
        except StoreUnavailable:
            # The host has gone; the next call looks for the one that was started since.
            if session in kept:
                kept.remove(session)
                await session.close()
            raise

    server = AgentServer(Tools(VERBS), caller_of, spell).build()
    lines = await _open_lines()
    async with stdio_server(stdin=cast("Any", lines)) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


class Lines:
    """The lines of standard input, each within its limit (law 2)."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[str]:
        """Give line after line, until the client hangs up."""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError as error:
                await self._skip(error.consumed)
                yield TOO_LONG
                continue
            yield line.decode("utf-8", "replace")

    async def _skip(self, begun: int) -> None:
        """Read to the end of a line without keeping it."""
        await self._reader.readexactly(begun)
        while True:
            try:
                await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                await self._reader.readexactly(error.consumed)
                continue
            except asyncio.IncompleteReadError:
                return
            return


async def _open_lines() -> Lines:
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return Lines(reader)
