"""Guards of the MCP client, taken away one at a time (M7, M8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duly.connectors.mcp_http import McpSite
from duly.connectors.mcp_wire import McpReply, write
from duly.connectors.status import raise_for_change
from duly.rules.value import Json
from tests.breaks import Break

TESTS: Final = ("tests/connectors/test_mcp.py",)
SITE: Final = "tests/connectors/test_mcp_site.py"


def _believe(reply: McpReply, what: str) -> Any:
    return {"text": "added", "data": None, "parts": []}


async def _by_status(
    self: McpSite, method: str, params: Mapping[str, Json], *, timeout_s: float
) -> McpReply:
    request = self._request(write(method, params, "1"), self._headers)
    response = await self._transport.change(request, timeout_s=timeout_s)
    raise_for_change(response, request.shown, self._name, is_alone=True)
    return McpReply({"content": []})


async def _unseen(self: Any, operation: Any) -> Any:
    return await self._link(self._here())


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
        rule="M7",
        module="duly.connectors.mcp",
        attribute="Mcp._checked",
        replacement=_unseen,
        tests=("tests/connectors/test_mcp.py::test_a_changed_read_is_not_used_either",),
        says="a read whose definition a server changed is used unseen",
    ),
    Break(
        rule="M8",
        module="duly.connectors.mcp_http",
        attribute="McpSite.send",
        replacement=_by_status,
        tests=(
            f"{SITE}::test_no_status_says_that_a_call_that_was_sent_is_not_done",
            f"{SITE}::test_a_change_that_was_made_and_denied_is_sent_once_and_waits_for_a_person",
        ),
        says="a status says that a call that was sent is not done, and it is sent again",
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
