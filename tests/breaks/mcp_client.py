"""Guards of the MCP client, taken away one at a time (M7, M8)."""

from __future__ import annotations

from typing import Any, Final

from duly.connectors.mcp_wire import McpReply
from tests.breaks import Break

TESTS: Final = ("tests/connectors/test_mcp.py",)


def _believe(reply: McpReply, what: str) -> Any:
    return {"text": "added", "data": None, "parts": []}


BREAKS: Final = (
    Break(
        rule="M7",
        module="duly.rules.pin",
        attribute="is_same",
        replacement=lambda one, other: True,
        tests=TESTS,
        says="a tool that a server changed is used unseen",
    ),
    Break(
        rule="M8",
        module="duly.connectors.mcp_wire",
        attribute="read_change",
        replacement=_believe,
        tests=TESTS,
        says="a tool that failed after a send counts as done",
    ),
)
