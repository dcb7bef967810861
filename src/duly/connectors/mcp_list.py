"""Reads the whole list of an MCP server's tools, page by page (M7).

Law: a list is whole or there is none: a server that repeats a cursor, has no end, offers too much,
or changes its tools meanwhile has given no list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from duly.connectors.mcp_tool import read_list
from duly.connectors.mcp_wire import McpReply, NoAnswer
from duly.errors import Invalid
from duly.rules.pin import TOOLS_MAX, ServedTool
from duly.rules.value import Json

PAGES_MAX: Final = 50
LISTS_MAX: Final = 3  # of one look, while the server says that its tools change


class Listed(Protocol):
    """A server that can be asked."""

    has_other_list: bool

    async def ask(self, method: str, params: Mapping[str, Json]) -> McpReply:
        """Ask something that changes nothing."""


async def list_tools(server: Listed) -> dict[str, ServedTool]:
    """Return the tools of a server by their names; NoAnswer if it gives no list."""
    for _ in range(LISTS_MAX):
        server.has_other_list = False
        found = await _list_once(server)
        if not server.has_other_list:
            return found
    raise NoAnswer("its tools do not stop changing")


async def _list_once(server: Listed) -> dict[str, ServedTool]:
    given: list[object] = []
    cursors: set[str] = set()
    params: dict[str, Json] = {}
    for _ in range(PAGES_MAX):
        tools, cursor = _page(await server.ask("tools/list", params))
        given += tools
        if cursor is None:
            try:
                return {each.name: each for each in read_list(given)}
            except Invalid as error:
                raise NoAnswer(str(error)) from None
        if cursor in cursors or len(given) > TOOLS_MAX:
            break
        cursors.add(cursor)
        params = {"cursor": cursor}
    raise NoAnswer("its list of tools has no end")


def _page(reply: McpReply) -> tuple[list[object], str | None]:
    if reply.result is None:
        raise NoAnswer(f"it does not list its tools (error {reply.code})")
    tools, cursor = reply.result.get("tools"), reply.result.get("nextCursor")
    if not isinstance(tools, list) or not (cursor is None or isinstance(cursor, str)):
        raise NoAnswer("its list of tools is malformed")
    return tools, cursor or None
